"""Missing packages of the operating system are installed by root and named to other users."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from installers import system_packages
from installers.console import PreparationError, Progress
from installers.system_packages import SystemPackage, install_missing, recommend_fonts


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has in PATH what lies in this folder, and an apt-get that notes its calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "chmod"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put_apt(machine: Path, lines: str) -> Path:
    calls = machine.parent / "calls"
    apt = machine / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n{lines}\n')
    apt.chmod(0o755)
    return calls


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


CXX = SystemPackage("g++", "g++", shutil.which)
MAKE = SystemPackage("make", "make", shutil.which)
NO_LIBRARY = SystemPackage("libnowhere1", "libnowhere.so.1", system_packages._loads)


def test_without_root_one_sentence_names_missing_packages_and_the_command(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    calls = put_apt(machine, "")
    with pytest.raises(PreparationError) as error_info:
        install_missing((CXX, MAKE, NO_LIBRARY), tmp_path / "log", Progress(io.StringIO()))
    assert str(error_info.value) == (
        "This machine lacks g++, make and libnowhere1; an administrator installs them with: "
        "apt-get install g++ make libnowhere1"
    )
    assert not calls.exists()


def test_root_installs_missing_packages_after_fetching_the_lists(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 0)
    lists = tmp_path / "lists"
    calls = put_apt(
        machine,
        f"[ $1 = update ] && {{ : >{lists}; exit 0; }}\n"
        f"[ -e {lists} ] || {{ echo 'E: Unable to locate package g++'; exit 100; }}\n"
        f": >{machine}/g++; chmod +x {machine}/g++",
    )
    install_missing((CXX,), tmp_path / "log", Progress(io.StringIO()))
    assert [call.split()[0] for call in calls.read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


def test_a_missing_network_is_reported_to_root(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 0)
    put_apt(machine, "echo 'Temporary failure resolving deb.debian.org'; exit 100")
    with pytest.raises(PreparationError, match="cannot be reached; check the network"):
        install_missing((CXX,), tmp_path / "log", Progress(io.StringIO()))


def test_a_complete_machine_is_left_alone(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 0)
    calls = put_apt(machine, "")
    (machine / "make").symlink_to(machine / "sh")
    install_missing((MAKE,), tmp_path / "log", Progress(io.StringIO()))
    assert not calls.exists()


def test_missing_fonts_are_a_hint_and_no_reason_to_stop(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    font = SystemPackage("fonts-nowhere", "*NoSuchFont*", system_packages._has_font)
    monkeypatch.setattr(system_packages, "FONTS", (font,))
    output = io.StringIO()
    recommend_fonts(tmp_path / "log", Progress(output))
    assert "apt-get install fonts-nowhere" in output.getvalue()


def test_training_without_a_window_needs_no_library_of_a_desktop() -> None:
    assert system_packages.LIBRARIES["headless"] == ()
