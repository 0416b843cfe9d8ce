"""Setting up a node, with wheels of a few lines: each step, its failure, its repetition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.node.system import process_identity
from backend.provisioning import agent_commands, cluster_key, unprovision
from backend.provisioning.code_archive import CodeArchive
from backend.provisioning.provisioner import TITLES, set_up
from backend.provisioning.wheelhouse import Wheelhouse
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import NodeHome
from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.entry import NodeEntry, NodePython, SetUp, StepState
from backend.ssh.interface import CommandResult, Unreachable
from tests.backend.provisioning.provisioner_rig import (
    BUNDLE,
    KEY,
    MOST_CODE_BYTES,
    TORCH,
    Node,
    house_of,
    put_house,
    put_uv,
)
from tests.installers.small_project import put_wheel


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return put_house(tmp_path_factory.mktemp("house") / "wheels")


@pytest.fixture
def node(tmp_path: Path, house: Wheelhouse) -> Iterator[Node]:
    new_node = Node.make(tmp_path, house)
    yield new_node
    new_node.end_agent()


def go(node: Node, cancelled: Callable[[], bool] = lambda: False, **plan: object) -> NodeEntry:
    node.updates.clear()
    return set_up(node.entry, node.open, node.plan(**plan), node.updates.append, cancelled)


def test_an_empty_node_becomes_ready(node: Node, house: Wheelhouse) -> None:
    entry = go(node)
    assert node.states == [StepState.DONE] * len(TITLES)
    assert node.last.is_over
    installation = entry.installation
    assert installation is not None
    assert node.environments() == [installation.environment]
    assert installation.python == f"{node.home}/environments/{installation.environment}/bin/python"
    assert installation.mpi_version == "5.0.11"
    assert installation.bytes > 100_000
    assert (Path(installation.bundle) / "backend/node/agent/control.py").is_file()
    assert Path(installation.ssh_config).is_file()
    assert "horovod" in node.last.steps[4].output
    assert all(step.seconds > 0 for step in node.last.steps)
    sent = sum(wheel.bytes for wheel in (*house.wheels, house.uv))
    assert sent <= node.shell.sent_bytes < sent + MOST_CODE_BYTES


def test_without_horovod_torch_and_mpi4py_are_installed_and_imported(node: Node) -> None:
    node.horovod = False
    node.shell.on_run = lambda argv: (
        CommandResult(1, "", "ImportError: libmpi.so.40") if "mpi4py.MPI" in argv[-1] else None
    )
    with pytest.raises(BackendError, match="mpi4py cannot be used on gpu1: ImportError"):
        go(node)
    node.shell.on_run = lambda argv: None
    installation = go(node).installation
    assert installation is not None
    assert installation.without_horovod
    assert node.messages[4].startswith("mpi4py 4.1.2, torch 2.13.0+cpu; ")
    assert not any((node.home / "environments").glob("*/lib/python*/site-packages/horovod"))
    node.horovod = True
    assert not node.updates[-1].failed_step
    assert go(node).installation != installation


def test_the_gate_of_the_key_outlives_the_set_up_that_made_its_environment(node: Node) -> None:
    entry = go(node, limits_key=True)
    assert entry.installation is not None
    key_list = (node.shell.home / ".ssh" / "authorized_keys").read_text()
    assert f'command="{entry.installation.python} -I ' in key_list
    assert Path(entry.installation.python).exists()


@pytest.mark.parametrize(
    ("python", "mpirun", "reason"),
    [
        ("/home/lab/.ringmaster/environments/e/bin/python", "own", ""),
        ("/home/lab/.ringmaster/environments/e/bin/python", "/usr/bin/mpirun", ""),
        ("/home/lab/.ringmaster/environments/e/bin/python", "/opt/ompi/bin/mpirun", ""),
        ("/home/lab/.ringmaster/environments/e/bin/python", "/home/lab/ompi/bin/mpirun", "none of"),
        ("/data root/shared/environments/e/bin/python", "own", "characters"),
        ("/data/ring,1/environments/e/bin/python", "/usr/bin/mpirun", "characters"),
    ],
)
def test_the_key_is_limited_wherever_its_filter_lets_runs_begin(
    python: str, mpirun: str, reason: str
) -> None:
    home = NodeHome(PurePosixPath("/home/lab/.ringmaster"))
    mpirun_path = python.replace("/python", "/mpirun") if mpirun == "own" else mpirun
    refusal = cluster_key.reason_against_limit(home, python, mpirun_path)
    assert reason in refusal
    assert bool(reason) == bool(refusal)


def test_a_key_that_cannot_be_limited_is_installed_with_a_hint(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_key, "reason_against_limit", lambda *_: "its path is odd")
    entry = go(node, limits_key=True)
    assert entry.installation is not None
    assert not entry.installation.limits_key
    assert "also for a shell and files, since its path is odd" in node.messages[3]
    assert "key_gate" not in (node.shell.home / ".ssh" / "authorized_keys").read_text()


def test_an_unusual_login_shell_is_said(node: Node) -> None:
    node.node_info = replace(node.node_info, login_shell="/usr/bin/fish")
    with pytest.raises(Cancelled):
        go(node, lambda: _runs(node, "Python"))
    assert node.messages[1].endswith("2 cores, no GPU, login shell fish.")


def test_repeating_on_a_ready_node_sends_nothing_and_changes_nothing(node: Node) -> None:
    first = go(node)
    agent = (node.home / "state/info.json").read_bytes()
    node.shell.sent_bytes = 0
    assert go(node).installation == first.installation
    assert node.shell.sent_bytes == 0
    assert [("already" in message) for message in node.messages[2:]] == [True] * 5
    assert (node.home / "state/info.json").read_bytes() == agent


def test_every_reported_state_goes_forward(node: Node) -> None:
    go(node)
    assert [step.title for step in node.updates[0].steps] == list(TITLES)
    order = list(StepState)
    for previous_state, next_state in zip(node.updates, node.updates[1:], strict=False):
        for old, new in zip(previous_state.steps, next_state.steps, strict=True):
            assert order.index(old.state) <= order.index(new.state)


def test_a_set_up_cancelled_before_any_step_continues_from_it(node: Node) -> None:
    for number, title in enumerate(TITLES):
        with pytest.raises(Cancelled):
            go(node, lambda: _runs(node, title))  # noqa: B023
        assert node.states == [
            *[StepState.DONE] * number,
            StepState.CANCELLED,
            *[StepState.WAITING] * (len(TITLES) - number - 1),
        ]
        assert not [name for name in node.environments() if name.startswith(".building")]
    assert go(node).is_ready


def _runs(node: Node, title: str) -> bool:
    steps = node.updates[-1].steps
    return any(step.title == title and step.state is StepState.RUNNING for step in steps)


FAILURES = {
    "Reach": ("id", "does not run commands"),
    "Python": ("venv", "cannot make an environment"),
    "Open MPI": ("mpirun --version", "does not start"),
    "PyTorch": ("import torch", "Horovod cannot be used on gpu1: ImportError: libmpi.so.40"),
    "Agent": ("fake_agent", "The agent does not start"),
    "Test": ("127.0.0.1:2", "Two ranks on gpu1 could not work together"),
}


def test_each_failure_shows_its_cause_and_fix_and_a_repetition_continues(node: Node) -> None:
    complaint = CommandResult(1, "", "Traceback\nImportError: libmpi.so.40: no such file\n")
    for title, (command, message) in FAILURES.items():
        node.shell.on_run = lambda argv: complaint if command in " ".join(argv) else None  # noqa: B023
        with pytest.raises(BackendError, match=message):
            go(node)
        failed = node.last.failed_step
        assert failed is not None
        assert (failed.title, failed.state) == (title, StepState.FAILED)
        assert message in failed.message
        assert failed.remedy or title == "Open MPI"
        assert "libmpi.so.40" in failed.output
        assert not [name for name in node.environments() if name.startswith(".building")]
    node.shell.on_run = lambda argv: None
    assert go(node).is_ready


def test_wheels_that_arrived_before_a_failure_are_not_sent_again(node: Node) -> None:
    broken = CommandResult(1, "", "no")
    node.shell.on_run = lambda argv: broken if "import torch" in " ".join(argv) else None
    with pytest.raises(BackendError):
        go(node)
    node.shell.on_run = lambda argv: None
    node.shell.sent_bytes = 0
    go(node)
    assert node.shell.sent_bytes < MOST_CODE_BYTES


def test_a_wheel_damaged_on_the_node_is_sent_again(node: Node, house: Wheelhouse) -> None:
    torch = next(wheel for wheel in house.wheels if wheel.package == "torch")
    folder = node.home / "wheels"
    folder.mkdir(parents=True)
    (folder / torch.name).write_bytes(b"\0" * torch.bytes)
    assert go(node).is_ready
    assert (folder / torch.name).read_bytes() == (house.folder / torch.name).read_bytes()


def test_a_wheel_damaged_on_this_computer_is_named_and_not_installed(
    node: Node, tmp_path: Path
) -> None:
    node.house = put_house(tmp_path / "damaged")
    torch = next(node.house.folder.glob("torch-*"))
    torch.write_bytes(b"\0" * torch.stat().st_size)
    with pytest.raises(BackendError, match=r"torch-2\.13.* differs on the node"):
        go(node)
    assert node.environments() == []


def test_cancelling_while_bytes_are_sent_leaves_no_half_file(node: Node) -> None:
    wheels = node.home / "wheels"

    def is_sending() -> bool:
        return any(wheels.glob(".*.whl.*"))

    with pytest.raises(Cancelled):
        go(node, is_sending)
    assert list(wheels.iterdir()) == []
    assert node.states[3] is StepState.CANCELLED
    assert go(node).is_ready


def test_a_connection_that_breaks_is_the_step_s_failure(node: Node) -> None:
    def cut(argv: tuple[str, ...]) -> None:
        if "install" in argv:
            node.shell.is_broken = True

    node.shell.on_run = cut
    with pytest.raises(Unreachable):
        go(node)
    assert node.last.failed_step is not None
    assert node.last.failed_step.message == "The connection is gone."
    node.shell.on_run = lambda argv: None
    assert go(node).is_ready
    # What the broken connection left is younger than an hour: it may be another desktop's.
    assert len(node.environments()) == 2


def test_old_unfinished_environments_are_cleared(node: Node) -> None:
    unfinished_folder = node.home / "environments/.building-0123"
    unfinished_folder.mkdir(parents=True)
    node.shell.run(["touch", "-d", "2 hours ago", str(unfinished_folder)])
    entry = go(node)
    assert entry.installation is not None
    assert node.environments() == [entry.installation.environment]


def test_a_full_disk_is_said_before_anything_is_made(node: Node) -> None:
    table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9 8 900000 99% /\n"
    node.shell.on_run = lambda argv: CommandResult(0, table, "") if argv[0] == "df" else None
    with pytest.raises(
        BackendError, match=r"has 0\.9 GB free, and setting up needs 2 GB"
    ) as caught:
        go(node)
    assert caught.value.remedy
    assert node.environments() == []
    assert list((node.home / "wheels").iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_is_named_and_the_half_goes(node: Node) -> None:
    full = CommandResult(1, "", "OSError: [Errno 28] No space left on device\n")
    node.shell.on_run = lambda argv: full if "install" in argv else None
    with pytest.raises(BackendError, match="the disk of the home folder on gpu1 is full"):
        go(node)
    assert node.environments() == []


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ((), "gpu1 has no Python; training needs 3.11 to 3.14"),
        (("3.8.10", "3.9.2"), "gpu1 has Python 3.8.10, 3.9.2 only"),
        (("3.12.4",), "There is no Horovod for Python 3.12 on x86_64 without CUDA"),
    ],
)
def test_without_a_python_that_can_train_nothing_is_made(
    node: Node, versions: tuple[str, ...], message: str
) -> None:
    node_pythons = tuple(NodePython(f"/usr/bin/python{v}", v, True) for v in versions)
    node.node_info = replace(node.node_info, pythons=node_pythons)
    with pytest.raises(BackendError, match=message) as caught:
        go(node)
    assert caught.value.remedy
    assert not node.home.exists()


def test_a_replaced_python_makes_another_environment(node: Node) -> None:
    installation = go(node).installation
    assert installation is not None
    python = Path(installation.python)
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert go(node).installation == installation
    node.shell.is_broken = False
    assert node.shell.run([installation.python, "--version"]).ok
    assert node.environments() == [installation.environment]


def test_two_desktops_at_once_both_succeed_with_one_environment(node: Node, tmp_path: Path) -> None:
    other_node = replace(node, shell=type(node.shell)(node.shell.home), updates=[])
    barrier = threading.Barrier(2, timeout=60)

    def meet(argv: tuple[str, ...]) -> None:
        if "install" in argv and "horovod" in " ".join(argv):
            barrier.wait()

    set_up_entries: list[NodeEntry] = []
    for desktop_node in (node, other_node):
        desktop_node.shell.on_run = meet
    threads = [
        threading.Thread(target=lambda n=n: set_up_entries.append(go(n)))
        for n in (node, other_node)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set_up_entries) == 2
    assert set_up_entries[0].installation is not None
    assert node.environments() == [set_up_entries[0].installation.environment]


def test_a_newer_bundle_replaces_the_agent_and_stays_beside_the_older(node: Node) -> None:
    go(node)
    pid = (node.home / "state/info.json").read_bytes()
    entry = go(node, bundle=CodeArchive("newer", BUNDLE.archive))
    assert entry.installation is not None
    assert entry.installation.bundle.endswith("/bundles/newer")
    assert {path.name for path in (node.home / "bundles").iterdir()} == {BUNDLE.name, "newer"}
    assert (node.home / "state/info.json").read_bytes() != pid


def test_a_job_of_slurm_for_the_environment_is_refused_where_there_is_none(node: Node) -> None:
    with pytest.raises(BackendError, match="is not a login node of Slurm: set it up without"):
        go(node, in_job=True)


def test_an_agent_that_never_writes_is_a_failure(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = agent_commands.check
    monkeypatch.setattr(agent_commands, "check", lambda agent, limit_s=0.0: check(agent))
    with pytest.raises(BackendError, match="was started and wrote nothing to") as caught:
        go(node, start_agent=lambda agent: ["true"])
    assert str(node.home / "agent.log") in caught.value.remedy


def test_ranks_that_run_as_two_separate_jobs_are_a_failure(node: Node) -> None:
    separate_ranks = CommandResult(0, "sum 1\nsum 1\n", "")
    node.shell.on_run = lambda argv: separate_ranks if "127.0.0.1:2" in argv else None
    with pytest.raises(BackendError, match="they did not get the same sum"):
        go(node)


def test_other_nodes_with_another_open_mpi_are_named(node: Node) -> None:
    def disagree(version: str) -> None:
        raise BackendError(f"gpu1 has Open MPI {version} and gpu2 has 4.1.4.", "Use one.")

    with pytest.raises(BackendError, match=r"gpu2 has 4\.1\.4"):
        go(node, agree=disagree)
    assert node.last.failed_step is not None
    assert node.last.failed_step.title == "Open MPI"


def test_the_node_s_own_open_mpi_is_used_when_asked_for(node: Node, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="gpu1 has no Open MPI"):
        go(node, system_mpi=True)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\necho sum 2\necho sum 2\n")
    mpirun.chmod(0o755)
    node.node_info = replace(node.node_info, mpirun=str(mpirun), mpi_version="4.1.4")
    installation = go(node, system_mpi=True).installation
    assert installation is not None
    assert (installation.mpirun, installation.mpi_version) == (str(mpirun), "4.1.4")
    environment = node.home / "environments" / installation.environment
    assert not (environment / "bin/mpirun").exists()


def test_no_secret_is_reported_or_in_a_command(node: Node) -> None:
    go(node)
    secret = KEY.private_key.splitlines()[2].decode()
    assert secret in (node.home / "ssh/id_cluster").read_text()
    assert secret not in repr(node.updates)
    assert secret not in repr(node.shell.commands)


def test_a_node_without_an_address_for_the_ranks_is_refused(node: Node) -> None:
    node.entry = replace(node.entry, ranks_address="")
    with pytest.raises(BackendError, match="has no address for the ranks") as caught:
        go(node)
    assert caught.value.remedy


def test_a_removal_frees_the_disk_and_leaves_only_files_of_the_user(
    node: Node,
) -> None:
    key_list = node.shell.home / ".ssh/authorized_keys"
    key_list.parent.mkdir()
    key_list.write_text("ssh-ed25519 AAAA me\n")
    entry = go(node)
    node.shell.is_broken = False
    assert "ringmaster-cluster" in key_list.read_text()
    freed = unprovision.remove(entry, node.shell)
    assert entry.installation is not None
    assert abs(freed - entry.installation.bytes) < 100_000
    assert not node.home.exists()
    assert key_list.read_text() == "ssh-ed25519 AAAA me\n"
    assert unprovision.remove(entry, node.shell) == 0


def test_a_removal_ends_the_agent(node: Node) -> None:
    entry = go(node)
    agent = ProcessIdentity.from_dict(read_json(node.home / "state/info.json"))
    assert process_identity.is_alive(agent)
    node.shell.is_broken = False
    unprovision.remove(entry, node.shell)
    assert not process_identity.is_alive(agent)


def test_a_node_with_a_broken_environment_can_be_cleared(node: Node) -> None:
    entry = go(node)
    agent = ProcessIdentity.from_dict(read_json(node.home / "state/info.json"))
    assert entry.installation is not None
    Path(entry.installation.python).unlink()
    node.shell.is_broken = False
    assert unprovision.remove(entry, node.shell) > 0
    assert not process_identity.is_alive(agent)


def test_nothing_is_removed_under_a_run(node: Node) -> None:
    entry = go(node)
    node.shell.is_broken = False
    runs = CommandResult(1, "job-7/1\n", "")
    node.shell.on_run = lambda argv: runs if "runs" in argv else None
    with pytest.raises(BackendError, match="still has processes of job-7/1"):
        unprovision.remove(entry, node.shell)
    assert node.home.is_dir()


def test_a_foreign_home_is_never_removed(node: Node, tmp_path: Path) -> None:
    entry = go(node)
    assert entry.info is not None
    node.shell.is_broken = False
    for strange in (str(node.shell.home), str(tmp_path), "/"):
        moved_entry = replace(entry, info=replace(entry.info, home=strange), installation=None)
        with pytest.raises(BackendError, match="not inside the home folder"):
            unprovision.remove(moved_entry, node.shell)
    assert node.home.is_dir()


def test_an_old_environment_goes_by_name_with_the_wheels_that_only_it_had(
    node: Node, house: Wheelhouse, tmp_path: Path
) -> None:
    old = go(node).installation
    node.house = put_house(tmp_path / "newer", torch=f"{TORCH}# newer\n")
    (node.home / "wheels/left-1-py3-none-any.whl").write_bytes(b"0" * 5000)
    entry = go(node)
    node.shell.is_broken = False
    new = entry.installation
    assert old is not None
    assert new is not None
    home = unprovision.home_of(entry)
    environment_names = {
        environment.name for environment in unprovision.environments(node.shell, home)
    }
    assert environment_names == {old.environment, new.environment}
    assert unprovision.remove_environments(node.shell, home, [old.environment]) > 5000
    assert node.environments() == [new.environment]
    remaining_wheels = {path.name for path in (node.home / "wheels").iterdir()}
    assert remaining_wheels == {wheel.name for wheel in (*node.house.wheels, node.house.uv)}


def test_a_fault_of_the_program_shows_in_the_step_and_flies(node: Node) -> None:
    def inspect(shell: object) -> object:
        raise ZeroDivisionError("bug")

    with pytest.raises(ZeroDivisionError):
        go(node, inspect=inspect)
    failed: SetUp = node.last
    assert failed.failed_step is not None
    assert "ZeroDivisionError" in failed.failed_step.message


def test_a_package_of_user_code_is_added_and_nothing_in_the_environment_changes(
    node: Node, house: Wheelhouse, tmp_path: Path
) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    put_uv(folder)
    put_wheel(folder, "einops", "0.8.2", "einops/__init__.py", "")
    # Another version of what is installed, which a job may be using.
    put_wheel(folder, "torch", "9.9", "torch/__init__.py", "__version__ = '9.9'")
    node.extended_house = house_of(folder)
    entry = go(node)
    first = entry.installation
    assert first is not None
    second_installation = go(node, packages=("einops",)).installation
    assert second_installation == replace(
        first, packages=("einops",), bytes=second_installation.bytes if second_installation else 0
    )
    ask = "import einops, torch; print(torch.__version__)"
    assert node.open(entry).run([first.python, "-I", "-c", ask]).out == "2.13.0+cpu\n"
    assert node.messages[4].endswith("was already installed, einops.")
    go(node, packages=("einops",))
    assert node.asked_more == ["einops"], "it was installed before"
