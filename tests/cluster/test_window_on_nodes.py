"""A person and three machines that nothing of this program has touched: the whole way, from adding
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
from tests.cluster.hanging import hanging
from tests.cluster.person import Person
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import LOST_LIMIT_S, leaves_nothing, makes_steps
from tests.cluster.windows import services, window_on
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
SET_UP_MS = 600_000


@pytest.fixture
def share(cluster: Cluster) -> Iterator[Path]:
    """Where the desktop mounts the data root: what befalls this mount the nodes do not notice.

    Below the cluster's folder, so that it goes with that, however a test ends.
    """
    place = cluster.share.with_name("desktop")
    place.mkdir()
    call("mount", "--bind", cluster.share, place)
    call("mount", "--make-private", place)
    try:
        yield place
    finally:
        call("umount", "--lazy", place)
        place.rmdir()


@pytest.fixture
def program(
    cluster: Cluster,
    share: Path,
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Program]:
    with window_on(qapp, share, tmp_path, monkeypatch, qtbot) as program:
        yield program
        # Whoever tries again begins without jobs, and with nodes that nobody has added.
        jobs = services(program).jobs
        for view in jobs.queries.list():
            jobs.lifecycle.stop(view.id)
            jobs.queries.wait(view.id)
            jobs.remove(view.id)
        for entry in services(program).cluster.list():
            services(program).cluster.remove(entry.name)


@pytest.fixture
def person(program: Program, qtbot: QtBot, tmp_path: Path) -> Person:
    return Person(program, qtbot, tmp_path / "pictures")


@contextmanager
def cut_off(cluster: Cluster, share: Path) -> Iterator[None]:
    """The desktop has no network: nodes do not answer it, and its share hangs."""
    with ExitStack() as stack:
        for node in cluster.nodes.values():
            node.leave_the_desktop()
            stack.callback(node.find_the_desktop)
        stack.enter_context(hanging(share))
        yield


@pytest.mark.usefixtures("soon_missed")
@pytest.mark.timeout(1500)
def test_m03_m05_m12_f08_the_whole_way_with_three_bare_machines_is_gone_in_the_window(
    program: Program, cluster: Cluster, share: Path, person: Person, tmp_path: Path
) -> None:
    seen = ReadyCluster(cluster, services(program))
    _add_and_set_up(program, cluster, person)
    _bring_the_example(program, person)
    job = _start_on_three(program, person)
    _live_through_a_cut(program, cluster, share, person, job)
    stopped_at = _stop(program, person, job)
    _export(program, person, tmp_path / "digits.zip")
    _go_on_on_two(program, person, stopped_at)
    _lose_a_node(program, seen, person, job)
    _take_everything_from_one(seen)


def _add_and_set_up(program: Program, cluster: Cluster, person: Person) -> None:
    person.press("Nodes")
    news = program.nodes._set_ups
    for name in NODES:
        person.press("Add a node")
        person.press("More")
        for field, text in (
            ("Host", cluster.address_of(name)),
            ("Name", name),
            ("User", cluster.user),
            ("Key file", str(cluster.identity)),
            ("Data root on the node", cluster.data_root),
        ):
            person.write(field, text)
        if name == NODES[0]:
            person.look_everywhere("add-a-node")
        person.press("Connect")
        # The key was never seen: a person compares it and says yes; Enter alone does not.
        dialog = program._node_controller._adding
        assert isinstance(dialog, AddNodeDialog)
        person.wait(dialog._trust.isVisible)
        assert dialog._trust.fingerprint.text() in _fingerprints(cluster)
        assert name not in {entry.name for entry in services(program).cluster.list()}
        if name == NODES[0]:
            person.look("is-this-its-key")
        person.press("Trust")
        person.wait(lambda name=name: name in program._node_controller.set_ups._under_way)
    person.wait(lambda: len(news) == len(NODES))
    person.look_everywhere("setting-up")
    person.wait(lambda: all(one.is_over for one in news.values()), SET_UP_MS)
    for one in news.values():
        failed = one.failed
        assert failed is None, f"{one.node}: {failed.title}: {failed.sentence}\n{failed.output}"
        assert one.steps[-1].title == "Test"
        assert all(step.state is StepState.DONE for step in one.steps)
    person.look("set-up")
    person.press("Close")
    person.wait(lambda: _online(program) >= set(NODES))
    person.look_everywhere("nodes")


def _bring_the_example(program: Program, person: Person) -> None:
    """As it is brought: by training it here."""
    person.press("Jobs")
    person.press("Train the example")
    person.wait(lambda: _views(program) and makes_steps(_views(program)[0]))
    person.press("Stop")
    person.wait(lambda: _views(program)[0].state.is_over)


def _start_on_three(program: Program, person: Person) -> str:
    person.choose(program.jobs.detail.header.more, "Clone")
    form = program._pages.form
    person.wait(lambda: form.isVisible() and form.draft().raw.get("model"))
    for field, text in (
        ("Name", "digits on three nodes"),
        ("Epochs", "100000"),
        ("Processes on this computer", "0"),
        *((f"Processes on {name}", "2") for name in NODES),
    ):
        person.write(field, text)
    person.look_everywhere("new-job")
    person.press("Save draft")
    person.wait(lambda: program.jobs.open_view and program.jobs.open_view.name.endswith("nodes"))
    person.choose(program.jobs.detail.header.more, "Pre-flight check…")
    person.wait(lambda: program._job_controller._starts.talk is not None)
    talk = program._job_controller._starts.talk
    assert talk is not None
    person.wait(talk.dialog._start.isEnabled)
    person.look_everywhere("before-the-start")
    assert not [one for one in talk.dialog._rows if one.blocks]
    person.press("Start on 6 processes")
    view = program.jobs.open_view
    assert view is not None
    person.wait(lambda: _shown(program).step > 50)
    assert (_shown(program).world_size, _shown(program).run) == (6, 1)
    person.look_everywhere("training")
    return view.id


def _live_through_a_cut(
    program: Program, cluster: Cluster, share: Path, person: Person, job: str
) -> None:
    with cut_off(cluster, share):
        person.wait(lambda: _shown(program).doubt)
        assert _shown(program).doubt.startswith("no news since")
        assert makes_steps(_shown(program))
        person.wait(lambda: not _online(program))
        silent_at = _shown(program).step
        person.look_everywhere("cut-off")
    person.wait(lambda: not _shown(program).doubt and _shown(program).step > silent_at)
    person.wait(lambda: _online(program) >= set(NODES))
    assert makes_steps(_shown(program))
    _has_no_gap(program, person, job)
    person.look("back-again")


def _stop(program: Program, person: Person, job: str) -> int:
    person.press("Stop")
    person.wait(lambda: _shown(program).state is JobState.INTERRUPTED)
    stopped_at = _shown(program).step
    _has_no_gap(program, person, job)
    person.look_everywhere("stopped")
    return stopped_at


def _go_on_on_two(program: Program, person: Person, stopped_at: int) -> None:
    person.choose(program.jobs.detail.header.more, "Resume on other nodes…")
    person.write("Processes on node1", "0")
    person.look("resume-on-other-nodes")
    person.press("Resume on 4 processes")
    person.wait(lambda: _shown(program).step > stopped_at + 20)
    assert (_shown(program).world_size, _shown(program).run) == (4, 2)


def _export(program: Program, person: Person, to: Path) -> None:
    person.choose(program.jobs.detail.header.more, "Export…")
    person.write("To", str(to))
    person.press("Export")
    dialog = program.jobs.detail.exports.dialog.now
    assert dialog is not None
    person.wait(lambda: dialog._answer.message.isVisible())
    assert dialog._answer.message.text() == f"Exported to {to}"
    person.look("exported")
    person.press("Close")
    names = zipfile.ZipFile(to).namelist()
    assert any(name.endswith("load.py") for name in names)


def _lose_a_node(program: Program, seen: ReadyCluster, person: Person, job: str) -> None:
    seen["node3"].cut()
    person.wait(lambda: _shown(program).state.is_over, int(1000 * LOST_LIMIT_S))
    view = _shown(program)
    assert view.state is JobState.ERROR
    assert view.status.message.startswith("node3 no longer answers")
    assert view.error is not None
    assert view.error.node == "node3"
    leaves_nothing(seen)
    person.look_everywhere("a-node-is-lost")
    seen["node3"].repair()


def _take_everything_from_one(seen: ReadyCluster) -> None:
    """What no button does: `node unprovision`."""
    home = seen.home
    held = int(seen["node1"].must("du", "-s", "--block-size=1", str(home)).split()[0])
    assert seen.services.set_up.un_provision("node1") == pytest.approx(held, rel=0.1)
    assert seen["node1"].run(["test", "-e", str(home)]).returncode == 1
    assert "restrict" not in seen["node1"].read(f"/home/{seen.cluster.user}/.ssh/authorized_keys")
    assert not [one for one in seen["node1"].processes() if "backend.node.agent.agent" in one.argv]
    assert seen.entry("node1").installation is None


def _has_no_gap(program: Program, person: Person, job: str) -> None:
    """The curve that is seen has every step that was made."""
    steps = services(program).jobs.queries.history(job).steps
    assert list(steps) == list(range(1, len(steps) + 1))
    curve = program.jobs.detail.curves.curve("loss")
    assert curve is not None
    person.wait(lambda: len(curve) >= len(steps))


def _fingerprints(cluster: Cluster) -> str:
    told = ["ssh-keygen", "-lf", str(cluster.known_hosts_file)]
    return subprocess.run(told, capture_output=True, text=True, check=True).stdout


def _online(program: Program) -> set[str]:
    states = program.nodes._states.values()
    return {one.name for one in states if one.presence is Presence.ONLINE} & set(NODES)


def _views(program: Program) -> list[JobView]:
    return list(services(program).jobs.queries.list())


def _shown(program: Program) -> JobView:
    """The open job as the window has it."""
    view = program.jobs.open_view
    assert view is not None
    return view
