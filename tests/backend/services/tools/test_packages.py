"""A missing package is installed by pip, or the reason and the command are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.services.tools import packages
from backend.services.tools.packages import install_command, install_package


def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Run this script in place of Python; return the file with its arguments."""
    python, arguments_file = tmp_path / "python", tmp_path / "seen"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{arguments_file}\n{script}\n')
    python.chmod(0o755)
    monkeypatch.setattr(packages, "training_python", lambda: str(python))
    return arguments_file


@pytest.mark.parametrize("name", ["Pillow", "scikit-learn", "ruamel.yaml", "h5py"])
def test_pip_gets_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    arguments_file = pip(tmp_path, monkeypatch, "exit 0")
    install_package(name, Progress())
    arguments = arguments_file.read_text().splitlines()
    assert (arguments[:3], arguments[-1]) == (["-m", "pip", "install"], name)
    assert install_command(name).endswith(f" {name}")


@pytest.mark.parametrize("name", ["", "-r/etc/passwd", "--index-url=x", "a b", "../a", "a;b", "é"])
def test_an_invalid_package_name_never_reaches_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments_file = pip(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(BackendError, match="is not the name of a package"):
        install_package(name, Progress())
    assert not arguments_file.exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'ERROR: No matching distribution found for Pillow'; exit 1", "No matching distri"),
        ("echo 'ERROR: first'; echo 'ERROR: last.'; echo WARNING; exit 1", "last"),
        ("echo 'ERROR: on stderr' >&2; exit 2", "on stderr"),
        ("echo nothing; exit 3", "pip ended with 3"),
        ("exit 1", "pip ended with 1"),
        ("printf 'ERROR: \\377\\n'; exit 1", "could not be installed"),
    ],
)
def test_a_failure_says_why_and_has_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    pip(tmp_path, monkeypatch, script)
    with pytest.raises(BackendError) as caught:
        install_package("Pillow", Progress())
    assert caught.value.message.startswith("Pillow could not be installed: ")
    assert reason in caught.value.message
    assert install_command("Pillow") in caught.value.remedy


def test_a_cancelled_installation_ends_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip(tmp_path, monkeypatch, "exec sleep 600")
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        install_package("Pillow", progress)
