"""Preferences are remembered, and a damaged file costs only the preferences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.settings import Preferences, Settings


def test_the_file_keeps_changed_settings(tmp_path):
    settings = Settings(tmp_path / "window.toml")
    assert settings.change(theme="dark", width=1000)
    assert not settings.change(theme="dark")
    settings.save()
    assert Settings(tmp_path / "window.toml").preferences == Preferences(theme="dark", width=1000)


def test_a_file_that_notepad_saved_is_read(tmp_path):
    path = tmp_path / "window.toml"
    path.write_bytes(b'\xef\xbb\xbftheme = "dark"\r\n')
    assert Settings(path).preferences == Preferences(theme="dark")


def test_f61_only_the_user_can_read_the_settings(tmp_path):
    Settings(tmp_path / "own" / "window.toml").save()
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "own" / "window.toml").stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_is_laid_aside(tmp_path):
    path = tmp_path / "window.toml"
    path.write_text('theme = "dark')
    assert Settings(path).preferences == Preferences()
    assert (tmp_path / "window.damaged").read_text() == 'theme = "dark'


@pytest.mark.parametrize("line", ["theme = 7", 'unknown = "x"', 'width = "wide"'])
def test_an_invalid_value_is_ignored(tmp_path, line):
    path = tmp_path / "window.toml"
    path.write_text(line)
    assert Settings(path).preferences == Preferences()


@given(st.binary(max_size=200))
def test_no_file_keeps_the_window_from_opening(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("settings") / "window.toml"
    path.write_bytes(content)
    Settings(path)
