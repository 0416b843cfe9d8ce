"""S14 in the window: what a run left behind is found, is ended on a press, and nothing else is."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt

from app.nodes.orphan_finder import OrphanFinder
from backend.node.checks import orphans
from backend.records.base.layout import RUN_VARIABLE, DataRoot
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import GpuProcess
from backend.ssh.interface import Unreachable
from tests.waiting import LIMIT_S
from tests.widgets.nodes import samples
from tests.windows import find_only
from widgets.common.buttons import Button
from widgets.nodes.page.node_actions import CHECK
from widgets.nodes.page.node_lists import FindingsCard, ProcessesCard
from widgets.nodes.page.nodes_page import NodesPage


@pytest.fixture
def page(qtbot):
    page = NodesPage()
    qtbot.addWidget(page)
    page.resize(1176, 900)
    page.show()
    page.show_nodes((samples.state(THIS_COMPUTER, "half", 2), samples.state("gpu7", "other")))
    return page


@pytest.fixture
def nodes():
    """The service; each answer is the next of ``answers``, an exception is raised."""
    answers, ended_orphans = [(samples.orphan(4711),)], []

    def answer(*args):
        ended_orphans.extend(args[1:])
        next_answer = answers.pop(0)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    return SimpleNamespace(
        orphans=answer, end_orphans=answer, answers=answers, ended_orphans=ended_orphans
    )


@pytest.fixture
def finder(page, nodes, immediately):
    finder = OrphanFinder(SimpleNamespace(nodes=nodes), immediately, page)
    finder.messages = immediately.notifications
    return finder


def buttons(page):
    """By what they say of themselves: the buttons that end something."""
    visible_buttons = [b for b in page.findChildren(Button) if b.isVisible()]
    return {b.accessibleName(): b for b in visible_buttons if b.accessibleName().startswith("End ")}


def press(qtbot, page, pid):
    (button,) = (b for name, b in buttons(page).items() if name.endswith(f"pid {pid}"))
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_s14_an_orphan_is_a_finding_whose_button_ends_it(finder, page, nodes, qtbot):
    page.open_node("gpu7")
    assert list(buttons(page)) == ["End python, pid 4711"]
    message = (
        find_only(FindingsCard, page.detail)
        ._rows[0]
        ._message.text()
        .replace("\N{NO-BREAK SPACE}", " ")
    )
    assert message == "python, pid 4711 was left behind by job j9, 3 h old, 2.0 GiB."
    nodes.answers.append(())
    press(qtbot, page, 4711)
    assert [[o.process.pid for o in orphan_list] for orphan_list in nodes.ended_orphans] == [[4711]]
    assert (buttons(page), finder.messages) == ({}, ["Ended python, pid 4711."])


def test_the_button_stays_while_the_orphan_lives_or_its_node_is_away(finder, page, nodes, qtbot):
    page.open_node("gpu7")
    nodes.answers += [Unreachable("gpu7 does not answer.", "Is it on?"), (samples.orphan(4711),)]
    press(qtbot, page, 4711)
    press(qtbot, page, 4711)
    assert [b.isEnabled() for b in buttons(page).values()] == [True]
    assert finder.messages == [
        "gpu7 does not answer. Is it on?",
        "python, pid 4711 did not end. Ask the node's administrator.",
    ]


def test_a_check_searches_again_and_a_node_that_cannot_be_asked_shows_nothing(finder, page, nodes):
    page.open_node("gpu7")
    nodes.answers += [(), Unreachable("gpu7 does not answer.")]
    page.node_actions.ask(CHECK, "gpu7")
    assert buttons(page) == {}
    page.node_actions.ask(CHECK, "gpu7")
    assert (nodes.answers, finder.messages) == ([], [])


@pytest.fixture
def root(tmp_path):
    root = DataRoot(tmp_path)
    root.jobs.mkdir()
    return root


@pytest.fixture
def run_and_foreign(root):
    """A process of a run that is over, and one that no run started."""
    job = f"test-{secrets.token_hex(6)}"
    root.job(job).attempt(1).path.mkdir(parents=True)
    root.job(job).attempt(1).exit.write_text("{}")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()"],
            env={**os.environ, **({RUN_VARIABLE: tag} if tag else {})},
        )
        for tag in (f"{job}/1", "")
    ]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_s14_a_real_orphan_is_ended_and_a_foreign_process_never_offered(
    page, run_and_foreign, root, immediately, qtbot
):
    orphan, foreign = run_and_foreign

    def find_own():
        # Others may run tests on this computer, too.
        own_pids = (orphan.pid, foreign.pid)
        return tuple(o for o in orphans.find(root) if o.process.pid in own_pids)

    def end(name, orphan_list):
        orphans.end(root, [(o.process.pid, o.process.start_ticks) for o in orphan_list])
        return find_own()

    services = SimpleNamespace(orphans=lambda name: find_own(), end_orphans=end)
    OrphanFinder(SimpleNamespace(nodes=services), immediately, page, page)
    busy = samples.reading(THIS_COMPUTER, "half", 2)
    process = GpuProcess(foreign.pid, "root", 1 << 30, "python", 40.0)
    cards = (samples.gpu(0), samples.gpu(1))
    cards = tuple(replace(o, processes=(process,)) for o in cards)
    local_state = replace(
        samples.state(THIS_COMPUTER), reading=replace(busy, gpus=cards, heartbeat=2)
    )
    page.show_nodes((local_state, samples.state("gpu7")))
    page.open_node(THIS_COMPUTER)
    assert [name.rpartition(" ")[2] for name in buttons(page)] == [str(orphan.pid)]
    assert find_only(ProcessesCard, page.detail).isVisible()
    assert find_only(ProcessesCard, page.detail).findChildren(Button) == []
    press(qtbot, page, orphan.pid)
    assert orphan.wait(LIMIT_S) is not None
    assert (buttons(page), foreign.poll()) == ({}, None)
