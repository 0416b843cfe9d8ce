"""`installers/menu-entry`: the program stands in the desktop's menu, and starts from there."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).parents[2]


def menu_entry(project: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home)}
    return subprocess.run(
        [project / "installers/menu-entry", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(project: Path) -> Path:
    (project / "resources").mkdir()
    shutil.copy(ROOT / "resources/ringmaster.svg", project / "resources")
    return project


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "share"


def test_the_menu_entry_starts_this_program(project: Path, ready: Path, home: Path) -> None:
    completed = menu_entry(project, home)
    assert completed.returncode == 0, completed.stderr
    entry = configparser.RawConfigParser()
    entry.optionxform = str  # type: ignore[assignment] # keys keep their case
    entry.read(home / "applications/ringmaster.desktop")
    section = entry["Desktop Entry"]
    assert section["Exec"] == f'"{project}/installers/run"'
    assert os.access(section["Exec"].strip('"'), os.X_OK)
    assert (home / "icons/hicolor/scalable/apps" / f"{section['Icon']}.svg").is_file()


def test_a_folder_with_odd_characters_is_quoted(project: Path, ready: Path, home: Path) -> None:
    odd_folder = project.with_name("50% of $HOME")
    shutil.copytree(project, odd_folder, symlinks=True)
    assert menu_entry(odd_folder, home).returncode == 0
    text = (home / "applications/ringmaster.desktop").read_text()
    assert "50%% of \\\\$HOME/installers/run" in text


def test_the_menu_entry_is_removed_alone(project: Path, ready: Path, home: Path) -> None:
    menu_entry(project, home)
    other_entry = home / "applications/other.desktop"
    other_entry.write_text("[Desktop Entry]\n")
    assert menu_entry(project, home, "--remove").returncode == 0
    assert [path for path in home.rglob("*") if path.is_file()] == [other_entry]


def test_an_unknown_argument_changes_nothing(project: Path, home: Path) -> None:
    completed = menu_entry(project, home, "--delete")
    assert completed.returncode == 1
    assert "unknown argument --delete" in completed.stderr
    assert not home.exists()


def test_the_icon_is_the_mark_of_the_window(qapp: QGuiApplication) -> None:
    renderer = QSvgRenderer(str(ROOT / "resources/ringmaster.svg"))
    image = QImage(128, 128, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    renderer.render(painter, QRectF(0, 0, 128, 128))
    painter.end()
    assert image.pixelColor(90, 37).name() == "#1f5fd6"
    assert image.pixelColor(64, 26).name() == "#1b1a18"
    assert image.pixelColor(64, 64).name() == "#f4f3f0"
    assert image.pixelColor(0, 0).alpha() == 0
