"""Preferences are remembered, and a damaged file costs only the preferences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.settings import (
    SESSION_FIELDS,
    Preferences,
    Settings,
    preferences_in,
    with_session,
)


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


def reopen(path, root, **changes):
    """Open the settings on a data root, change them there, and close them."""
    settings = Settings(path)
    settings.change(**with_session(root, settings.preferences, changes))
    settings.save()
    return preferences_in(root, Settings(path).preferences)


def test_what_was_open_in_a_data_root_is_not_opened_in_another(tmp_path):
    path = tmp_path / "window.toml"
    here = {"place": "datasets", "open_job": "job-1", "sweep_folds": {"sweep:lr": True}}
    assert reopen(path, "/lab/a", **here, theme="dark").theme == "dark"
    other = reopen(path, "/lab/b", width=900)
    assert [getattr(other, name) for name in SESSION_FIELDS] == ["jobs", "", {}]
    assert (other.theme, other.width) == ("dark", 900), "the window is the same"
    reopen(path, "/lab/b", place="nodes")
    again = reopen(path, "/lab/a")
    assert {name: getattr(again, name) for name in SESSION_FIELDS} == here


def test_what_an_earlier_version_had_open_is_opened_once_more(tmp_path):
    path = tmp_path / "window.toml"
    path.write_text('place = "datasets"\nopen_job = "job-1"\n')
    assert reopen(path, "/lab/a").open_job == "job-1"
    opened = reopen(path, "/lab/a", place="models")
    assert (opened.place, opened.open_job) == ("models", "job-1")
    assert reopen(path, "/lab/b").open_job == ""


@pytest.mark.parametrize("session", ["7", '{place = 7, open_job = ["x"]}', '{where = "x"}'])
def test_a_damaged_session_is_that_of_a_new_data_root(tmp_path, session):
    path = tmp_path / "window.toml"
    path.write_text(f'open_job = "job-1"\n[sessions]\n"/lab/a" = {session}\n')
    opened = reopen(path, "/lab/a")
    assert [getattr(opened, name) for name in SESSION_FIELDS] == ["jobs", "", {}]


def test_the_sessions_of_the_last_data_roots_are_stored(tmp_path):
    path = tmp_path / "window.toml"
    for number in range(30):
        reopen(path, f"/lab/{number}", open_job=f"job-{number}")
    assert len(Settings(path).preferences.sessions) == 20
    assert reopen(path, "/lab/29").open_job == "job-29"
    assert reopen(path, "/lab/0").open_job == ""
