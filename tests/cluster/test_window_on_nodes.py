"""A user and three machines that nothing of this program has touched: the whole way, from adding
them to the model that is taken away and to a node that is lost, all of it in the window."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import StepState
from backend.records.nodes.reading import Presence
from tests.cluster.cluster import Cluster
from tests.cluster.commands import call
from tests.cluster.hanging import hanging_share
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import LOST_LIMIT_S, makes_steps, wait_for_no_processes
from tests.cluster.user import User
from tests.cluster.windows import open_program
from tests.programs import services_of
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
SET_UP_MS = 600_000


@pytest.fixture
def share(cluster: Cluster) -> Iterator[Path]:
    """Where the desktop mounts the data root: what befalls this mount the nodes do not notice.

    Below the cluster's folder, so that it goes with that, however a test ends.
    """
    folder = cluster.share.with_name("desktop")
    folder.mkdir()
    call("mount", "--bind", cluster.share, folder)
    call("mount", "--make-private", folder)
    try:
        yield folder
    finally:
        call("umount", "--lazy", folder)
        folder.rmdir()


@pytest.fixture
def program(
    cluster: Cluster,
    share: Path,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    with open_program(qapp, share, tmp_path, monkeypatch, qtbot) as program:
        yield program
        # Another try begins without jobs, and with nodes that are not added.
        jobs = services_of(program).jobs
        for view in jobs.queries.list():
            jobs.lifecycle.stop(view.id)
            jobs.queries.wait(view.id)
            jobs.remove(view.id)
        for entry in services_of(program).cluster.list():
            services_of(program).cluster.remove(entry.name)


@pytest.fixture
def user(program: Program, qtbot: QtBot, tmp_path: Path) -> User:
    return User(program, qtbot, tmp_path / "pictures")


@contextmanager
def cut_off(cluster: Cluster, share: Path) -> Iterator[None]:
    """The desktop has no network: nodes do not answer it, and its share hangs."""
    with ExitStack() as stack:
        for node in cluster.nodes.values():
            node.block_desktop()
            stack.callback(node.unblock_desktop)
        stack.enter_context(hanging_share(share))
        yield


@pytest.mark.usefixtures("soon_missed")
@pytest.mark.timeout(1500)
def test_m03_m05_m12_f08_the_whole_way_with_three_bare_machines_is_gone_in_the_window(
    program: Program, cluster: Cluster, share: Path, user: User, tmp_path: Path
) -> None:
    ready_cluster = ReadyCluster(cluster, services_of(program))
    _add_and_set_up(program, cluster, user)
    _train_example(program, user)
    job = _start_on_three(program, user)
    _live_through_a_cut(program, cluster, share, user, job)
    stopped_at = _stop(program, user, job)
    _export(program, user, tmp_path / "digits.zip")
    _go_on_on_two(program, user, stopped_at)
    _lose_a_node(program, ready_cluster, user, job)
    _un_provision_node(ready_cluster)


def _add_and_set_up(program: Program, cluster: Cluster, user: User) -> None:
    user.press_button("Nodes")
    set_ups = program.nodes._set_ups
    for name in NODES:
        user.press_button("Add a node")
        user.press_button("More")
        for field, text in (
            ("Host", cluster.address_of(name)),
            ("Name", name),
            ("User", cluster.user),
            ("Key file", str(cluster.identity)),
            ("Data root on the node", cluster.data_root),
        ):
            user.write_field(field, text)
        if name == NODES[0]:
            user.take_pictures("add-a-node")
        user.press_button("Connect")
        # The key was never seen: the user compares it and says yes; Enter alone does not.
        dialog = program._node_controller.dialog
        assert isinstance(dialog, AddNodeDialog)
        user.wait(dialog._trust_page.isVisible)
        assert dialog._trust_page.fingerprint.text() in _fingerprints(cluster)
        assert name not in {entry.name for entry in services_of(program).cluster.list()}
        if name == NODES[0]:
            user.take_picture("is-this-its-key")
        user.press_button("Trust")
        user.wait(lambda name=name: name in program._node_controller.provisioning._progress_by_node)
    user.wait(lambda: len(set_ups) == len(NODES))
    user.take_pictures("setting-up")
    user.wait(lambda: all(update.is_over for update in set_ups.values()), SET_UP_MS)
    for update in set_ups.values():
        failed = update.failed_step
        assert failed is None, f"{update.node}: {failed.title}: {failed.message}\n{failed.output}"
        assert update.steps[-1].title == "Test"
        assert all(step.state is StepState.DONE for step in update.steps)
    user.take_picture("set-up")
    user.press_button("Close")
    user.wait(lambda: _online_nodes(program) >= set(NODES))
    user.take_pictures("nodes")


def _train_example(program: Program, user: User) -> None:
    """Bring the example as a user does: by training it here."""
    user.press_button("Jobs")
    user.press_button("Train the example")
    user.wait(lambda: _views(program) and makes_steps(_views(program)[0]))
    user.press_button("Stop")
    user.wait(lambda: _views(program)[0].state.is_over)


def _start_on_three(program: Program, user: User) -> str:
    user.choose_from_menu(program.jobs.detail.header.menu_button, "Clone")
    form = program._pages.form
    user.wait(lambda: form.isVisible() and form.draft().raw.get("model"))
    for field, text in (
        ("Name", "digits on three nodes"),
        ("Epochs", "100000"),
        ("Processes on this computer", "0"),
        *((f"Processes on {name}", "2") for name in NODES),
    ):
        user.write_field(field, text)
    user.take_pictures("new-job")
    user.press_button("Save draft")
    user.wait(lambda: program.jobs.open_view and program.jobs.open_view.name.endswith("nodes"))
    user.choose_from_menu(program.jobs.detail.header.menu_button, "Preflight check…")
    user.wait(lambda: program._job_controllers.jobs._start_controller.session is not None)
    talk = program._job_controllers.jobs._start_controller.session
    assert talk is not None
    user.wait(talk.dialog._start.isEnabled)
    user.take_pictures("before-the-start")
    assert not [row for row in talk.dialog._rows if row.blocks]
    user.press_button("Start on 6 processes")
    view = program.jobs.open_view
    assert view is not None
    user.wait(lambda: _displayed_job(program).step > 50)
    assert (_displayed_job(program).world_size, _displayed_job(program).run) == (6, 1)
    user.take_pictures("training")
    return view.id


def _live_through_a_cut(
    program: Program, cluster: Cluster, share: Path, user: User, job: str
) -> None:
    with cut_off(cluster, share):
        user.wait(lambda: _displayed_job(program).contact_warning)
        assert _displayed_job(program).contact_warning.startswith("no news since")
        assert makes_steps(_displayed_job(program))
        user.wait(lambda: not _online_nodes(program))
        silent_at = _displayed_job(program).step
        user.take_pictures("cut-off")
    user.wait(
        lambda: (
            not _displayed_job(program).contact_warning and _displayed_job(program).step > silent_at
        )
    )
    user.wait(lambda: _online_nodes(program) >= set(NODES))
    assert makes_steps(_displayed_job(program))
    _has_no_gap(program, user, job)
    user.take_picture("back-again")


def _stop(program: Program, user: User, job: str) -> int:
    user.press_button("Stop")
    user.wait(lambda: _displayed_job(program).state is JobState.INTERRUPTED)
    stopped_at = _displayed_job(program).step
    _has_no_gap(program, user, job)
    user.take_pictures("stopped")
    return stopped_at


def _go_on_on_two(program: Program, user: User, stopped_at: int) -> None:
    user.choose_from_menu(program.jobs.detail.header.menu_button, "Resume on other nodes…")
    user.write_field("Processes on node1", "0")
    user.take_picture("resume-on-other-nodes")
    user.press_button("Resume on 4 processes")
    user.wait(lambda: _displayed_job(program).step > stopped_at + 20)
    assert (_displayed_job(program).world_size, _displayed_job(program).run) == (4, 2)


def _export(program: Program, user: User, target: Path) -> None:
    user.choose_from_menu(program.jobs.detail.header.menu_button, "Export…")
    user.write_field("To", str(target))
    user.press_button("Export")
    dialog = program.jobs.detail.exporter.dialog.dialog
    assert dialog is not None
    user.wait(lambda: dialog._status.message.isVisible())
    assert dialog._status.message.text() == f"Exported to {target}"
    user.take_picture("exported")
    user.press_button("Close")
    names = zipfile.ZipFile(target).namelist()
    assert any(name.endswith("load.py") for name in names)


def _lose_a_node(program: Program, ready_cluster: ReadyCluster, user: User, job: str) -> None:
    ready_cluster["node3"].cut()
    user.wait(lambda: _displayed_job(program).state.is_over, int(1000 * LOST_LIMIT_S))
    view = _displayed_job(program)
    assert view.state is JobState.ERROR
    assert view.status.message.startswith("node3 no longer answers")
    assert view.error is not None
    assert view.error.node == "node3"
    wait_for_no_processes(ready_cluster)
    user.take_pictures("a-node-is-lost")
    ready_cluster["node3"].repair()


def _un_provision_node(ready_cluster: ReadyCluster) -> None:
    """Remove Ringmaster from node1 as `node unprovision` does; no button does so."""
    home = ready_cluster.home
    usage = ready_cluster["node1"].run_as_root("du", "-s", "--block-size=1", str(home))
    freed_bytes = ready_cluster.services.provisioning.un_provision("node1")
    assert freed_bytes == pytest.approx(int(usage.split()[0]), rel=0.1)
    assert ready_cluster["node1"].run(["test", "-e", str(home)]).returncode == 1
    assert "restrict" not in ready_cluster["node1"].read(
        f"/home/{ready_cluster.cluster.user}/.ssh/authorized_keys"
    )
    assert not [
        process
        for process in ready_cluster["node1"].processes()
        if "backend.node.agent.agent" in process.argv
    ]
    assert ready_cluster.entry("node1").installation is None


def _has_no_gap(program: Program, user: User, job: str) -> None:
    """The curve that is seen has every step that was made."""
    steps = services_of(program).jobs.queries.history(job).steps
    assert list(steps) == list(range(1, len(steps) + 1))
    curve = program.jobs.detail.curves.curve("loss")
    assert curve is not None
    user.wait(lambda: len(curve) >= len(steps))


def _fingerprints(cluster: Cluster) -> str:
    command = ["ssh-keygen", "-lf", str(cluster.known_hosts_file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _online_nodes(program: Program) -> set[str]:
    states = program.nodes._states.values()
    return {s.name for s in states if s.presence is Presence.ONLINE} & set(NODES)


def _views(program: Program) -> list[JobView]:
    return list(services_of(program).jobs.queries.list())


def _displayed_job(program: Program) -> JobView:
    """The open job as the window has it."""
    view = program.jobs.open_view
    assert view is not None
    return view
