"""The version that a run records: with its commit where the program is a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import backend
from backend.training.run_environment import program_version


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a program, which is no checkout."""
    module = tmp_path / "backend" / "__init__.py"
    module.parent.mkdir()
    module.write_text("")
    monkeypatch.setattr(backend, "__file__", str(module))
    return tmp_path


def test_an_installed_program_has_its_version(program: Path) -> None:
    assert program_version() == backend.VERSION


def test_a_checkout_has_its_commit_and_says_if_it_was_changed(program: Path) -> None:
    git(program, "init", "-q")
    assert program_version() == backend.VERSION, "no commit yet"
    git(program, "add", ".")
    git(program, "commit", "-q", "-m", "one", "--no-gpg-sign")
    git(program, "tag", "v9")
    commit = git(program, "rev-parse", "--short", "HEAD")
    assert program_version() == f"{backend.VERSION} ({commit})"
    (program / "backend" / "__init__.py").write_text("x = 1\n")
    assert program_version() == f"{backend.VERSION} ({commit}-dirty)"
