"""Environments of scripts on nodes: made once, whole or not at all, over what the node has."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.cli.printing import OK
from backend.datastore.nodes import files as node_files
from backend.datastore.queue import files as queue_files
from backend.provisioning.script_wheels import SCRIPT_MARK, environment_name
from backend.provisioning.wheelhouse import Wheelhouse
from backend.records.base.layout import RUN_VARIABLE
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.queue.entry import QueueEntry
from backend.ssh.interface import CommandResult, Unreachable
from tests.backend.provisioning.provisioner_rig import UNPACK, put_house
from tests.backend.services.nodes.provisioning_rig import Cluster, cluster_of
from tests.fakes.command_line import run_command
from tests.installers.small_project import put_wheel
from tests.integration.tiny import raw_job

SAY = "import greeting, torch, sys; print(greeting.NUMBER, torch.__version__, sys.prefix)"


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return put_house(tmp_path_factory.mktemp("scripts") / "wheels")


@pytest.fixture
def cluster(
    tmp_path: Path, house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    index = tmp_path / "index"
    index.mkdir()
    put_wheel(index, "greeting", "1.0", "greeting/__init__.py", "NUMBER = 1\n", "torch")
    put_wheel(index, "uv", version("uv"), f"uv-{version('uv')}.data/scripts/uv", UNPACK)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    script = tmp_path / "script"
    script.mkdir()
    (script / "requirements.txt").write_text("greeting\n")
    with cluster_of(tmp_path, house, monkeypatch, sees_data_root=True) as rig:
        rig.set_up("gpu1")
        rig.nodes["gpu1"].shell.commands.clear()
        yield rig


def make(cluster: Cluster, progress: Progress | None = None, node: str = "gpu1") -> str:
    installation = cluster.entry("gpu1").installation
    assert installation is not None
    script = cluster.folder / "script"
    return cluster.service().provide_script(
        [node],
        installation.python,
        environment_name(installation.python, script, "0"),
        script,
        progress or Progress(),
    )


def build_count(cluster: Cluster) -> int:
    return sum("venv" in argv for argv in cluster.nodes["gpu1"].shell.commands)


def test_only_one_of_several_starting_jobs_makes_the_environment_with_the_torch_of_the_node(
    cluster: Cluster,
) -> None:
    pythons: list[str] = []
    # All of them have this one connection.
    cluster.nodes["gpu1"].shell.close = lambda: None  # type: ignore[method-assign]
    threads = [threading.Thread(target=lambda: pythons.append(make(cluster))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (python,) = set(pythons)
    assert len(pythons) == 3
    assert build_count(cluster) == 1
    output = subprocess.run([python, "-c", SAY], capture_output=True, text=True, check=True).stdout
    prefix = str(PurePosixPath(python).parents[1])
    assert output.split() == ["1", "2.13.0+cpu", prefix]
    assert make(cluster) == python
    assert build_count(cluster) == 1


def on_install(cluster: Cluster, answer: CommandResult | BackendError) -> None:
    def answers(argv: tuple[str, ...]) -> CommandResult | None:
        if "install" not in argv:
            return None
        if isinstance(answer, BackendError):
            raise answer
        return answer

    cluster.nodes["gpu1"].shell.on_run = answers


INTERRUPTIONS = [
    (Unreachable("gpu1 is gone."), "not on gpu1: gpu1 is gone."),
    (CommandResult(1, "", "error: No space left on device (os error 28)"), "gpu1 is full"),
    (CommandResult(1, "", "error: a wheel is damaged"), "installed: error: a wheel is damaged"),
    (CommandResult(127, "", "uv: Permission denied"), "installed: uv: Permission denied"),
    (Cancelled(), "Cancelled"),
]


def test_an_interrupted_environment_leaves_nothing_and_is_made_the_next_time(
    cluster: Cluster,
) -> None:
    old_environments = cluster.nodes["gpu1"].environments()
    for answer, message in INTERRUPTIONS:
        on_install(cluster, answer)
        with pytest.raises(BackendError, match=message):
            make(cluster)
        assert cluster.nodes["gpu1"].environments() == old_environments
    cluster.nodes["gpu1"].shell.on_run = lambda argv: None
    make(cluster)
    assert len(cluster.nodes["gpu1"].environments()) == len(old_environments) + 1


def test_progress_names_the_node_and_a_cancel_ends_it(cluster: Cluster) -> None:
    labels: list[str] = []

    class WatchedProgress(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            labels.append(label)
            if "gpu1: Installing" in label:
                self.cancel()

    with pytest.raises(Cancelled):
        make(cluster, WatchedProgress())
    assert labels[-1].startswith("Packages of the script: gpu1: ")


@pytest.mark.parametrize("node", ["gpu1", THIS_COMPUTER])
def test_an_unused_environment_is_removed_by_name_or_by_age(
    cluster: Cluster, node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    python = make(cluster, node=node)
    folder = Path(python).parents[1]
    services = SimpleNamespace(provisioning=cluster.service())

    def output_of(*arguments: str) -> str:
        assert run_command(services, "node", "environments", node, *arguments) == OK
        return "".join(capsys.readouterr())

    assert folder.name in output_of()
    ten_days_ago = time.time() - 10 * 86400
    os.utime(folder, (ten_days_ago, ten_days_ago))
    assert folder.name in output_of("--unused", "9")
    assert folder.name not in output_of("--unused", "11")
    # The next job uses it.
    assert make(cluster, node=node) == python
    assert folder.name not in output_of("--unused", "9")
    with pytest.raises(BackendError, match="which environments"):
        output_of("--remove")
    with pytest.raises(BackendError, match="has no environment"):
        output_of("../ssh", "--remove")
    tag = {RUN_VARIABLE: "20261124-abcdef/1"}
    with subprocess.Popen([python, "-c", "input()"], stdin=subprocess.PIPE, env=tag) as run:
        with pytest.raises(BackendError, match="still has processes of 20261124-abcdef/1"):
            output_of(folder.name, "--remove")
        run.communicate(b"\n")
    job = cluster.root.job("20261124-abcdef")
    job.path.mkdir(parents=True)
    entry = QueueEntry(job.job_id, "waits", 1, (Placement(node, 1),), "machine")
    config = parse_job(raw_job()).config
    assert config is not None
    launch = Launch(job.job_id, 1, config, (), "", "", "", script_python=python)
    queue_files.put(cluster.root, entry, launch)
    with pytest.raises(BackendError, match="20261124-abcdef is queued"):
        output_of("--unused", "0", "--remove")
    queue_files.leave(cluster.root, job)
    assert output_of("--unused", "0", "--remove").startswith("Removed 1 environment: ")
    assert not folder.exists()
    assert make(cluster, node=node) == python


def test_an_unused_base_environment_is_removed_with_those_of_scripts(
    cluster: Cluster,
) -> None:
    base_name = Path(make(cluster)).parents[1].name.partition(SCRIPT_MARK)[0]
    service = cluster.service()
    with pytest.raises(BackendError, match="is the environment that gpu1 trains with"):
        service.remove_environments("gpu1", [base_name])
    entry = cluster.entry("gpu1")
    assert entry.installation is not None
    newer = replace(entry.installation, environment="newer")
    node_files.write_entry(cluster.root, replace(entry, installation=newer))
    assert service.remove_environments("gpu1", [base_name]) > 100_000
    assert cluster.nodes["gpu1"].environments() == []


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        ("requirements.txt", "greeting==1.0\n", True),
        ("more.txt", "-r\n", True),
        ("uv.lock", "", True),
        ("setup.cfg", "", True),
        ("train.py", "print()\n", False),
        ("data.csv", "1,2\n", False),
    ],
)
def test_only_a_change_of_a_package_list_makes_another_environment(
    tmp_path: Path, file: str, text: str, changes: bool
) -> None:
    (tmp_path / "requirements.txt").write_text("greeting\n")
    old_name = environment_name("/e/p/bin/python", tmp_path, "0")
    (tmp_path / file).write_text(text)
    assert (environment_name("/e/p/bin/python", tmp_path, "0") != old_name) is changes
    assert environment_name("/e/q/bin/python", tmp_path, "0") != old_name


@pytest.mark.parametrize(
    ("line", "differ"),
    [
        ("greeting", False),
        ("-e .", True),
        (".", True),
        ("./own", True),
        ("--editable ./own", True),
        ("own @ file:///srv/own", True),
        ("own @ git+https://lab/own@1", False),
    ],
)
def test_a_script_that_is_a_package_has_an_environment_for_each_version(
    tmp_path: Path, line: str, differ: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(f"greeting\n{line}\n")
    names = {environment_name("/e/p/bin/python", tmp_path, version) for version in "ab"}
    assert (len(names) == 2) is differ
