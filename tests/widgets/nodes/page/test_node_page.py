"""A node's page shows the reading it was given, and what is wrong in one sentence."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt, QTimer

from backend.records.nodes.reading import (
    Cpu,
    Finding,
    Gpu,
    GpuProcess,
    HostProcess,
    NodeReading,
    NodeState,
    Presence,
)
from tests.asks import expect_request
from tests.pictures import lab
from tests.widgets.nodes import samples
from tests.windows import find_label, find_only, shows_text, visible_texts
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import PageHeader
from widgets.common.labels import Label
from widgets.nodes.history.history_card import HistoryCard
from widgets.nodes.history.node_history import NodeHistory
from widgets.nodes.page.gpu_card import GpuCard
from widgets.nodes.page.node_actions import CHECK, NodeActions
from widgets.nodes.page.node_lists import FindingsCard, ProcessesCard
from widgets.nodes.page.node_page import NodePage

NOON = 1_700_000_000.0
READING = NodeReading(
    "this-computer",
    "lab-7",
    1,
    Cpu("some", 8, 20.0, 0.5),
    64 << 30,
    8 << 30,
    0,
    0,
    "/d",
    10**12,
    10**11,
)
GPU = Gpu(0, "GPU-a", "RTX", 1 << 30, 24 << 30, 50, 60, 200.0)


@pytest.fixture
def page(qtbot):
    page = NodePage(NodeActions())
    qtbot.addWidget(page)
    page.show()
    return page


def show_reading(page, reading):
    state = samples.with_findings(NodeState(reading.name, Presence.ONLINE, reading))
    history = NodeHistory()
    history.append(
        reading, NOON, {finding.gpu_uuid: finding.description for finding in state.health}
    )
    page.show_node(state, history)


@pytest.mark.parametrize(
    ("gpu_count", "expected_keys"),
    [
        (0, ["processor", "network"]),
        (1, ["temperature", "use", "memory", "power", "processor", "network", "ecc"]),
        (8, ["temperature", "use", "memory", "power", "processor", "network", "ecc"]),
    ],
)
def test_a_node_has_only_the_histories_that_it_can_have(page, gpu_count, expected_keys):
    cards = tuple(replace(GPU, index=n, uuid=f"GPU-{n}") for n in range(gpu_count))
    reading = replace(READING, gpus=cards)
    history = NodeHistory()
    history.append(reading, NOON, {})
    state = NodeState(reading.name, Presence.ONLINE, reading)
    find_only(HistoryCard, page).show_history(history, state)
    picker = find_only(HistoryCard, page)._view_picker
    buttons = dict(zip(picker._keys, picker._group.buttons(), strict=True))
    assert [key for key, button in buttons.items() if not button.isHidden()] == expected_keys
    assert picker.key() in expected_keys


@pytest.mark.parametrize(
    ("elapsed_s", "duration"),
    [
        (0.2, ""),
        (1, "1.0 s"),
        (12.7, "12 s"),
        (30, "30 s"),
        (75, "1 min 15 s"),
        (99, "1 min 39 s"),
    ],
)
def test_a_check_says_how_long_it_has_taken(page, monkeypatch, elapsed_s, duration):
    show_reading(page, READING)
    times = [100.0]
    monkeypatch.setattr("widgets.nodes.page.node_lists.time.monotonic", lambda: times[0])
    card = find_only(FindingsCard, page)
    card.show_checking()
    times[0] += elapsed_s
    clock = find_only(QTimer, card)
    clock.timeout.emit()
    assert (
        shows_text(card, f"{duration} until now.")
        if duration
        else not shows_text(card, "until now")
    )
    card.show_findings(())
    assert not clock.isActive()


@pytest.mark.parametrize(
    ("presence", "message", "subtitle"),
    [
        (Presence.NEW, "not set up yet", "Not set up"),
        (Presence.OUT_OF_SERVICE, "taken out of service", "Out of service"),
        (Presence.OFFLINE, "no news since 14:02", "Offline"),
    ],
)
def test_the_head_says_the_condition_of_a_node_once(page, presence, message, subtitle):
    state = samples.state("gpu11")
    page.show_node(replace(state, presence=presence, message=message), NodeHistory())
    assert find_only(PageHeader, page).subtitle.text() == subtitle


def test_no_driver_is_said_and_nothing_else_is_missing(page):
    show_reading(page, replace(READING, gpu_message="CPU only: no NVIDIA driver was found."))
    assert "CPU only: no NVIDIA driver was found." in visible_texts(page)


def test_a_gpu_slowed_by_heat_is_framed_and_named(page):
    hot_gpu = replace(GPU, temperature_c=91, clock_event_reasons=("hw_thermal_slowdown",))
    show_reading(page, replace(READING, gpus=(hot_gpu,)))
    assert find_only(GpuCard, page).property("edge") == "warn"
    assert find_only(PageHeader, page).subtitle.text() == "Needs attention: GPU 0 slowed by heat"
    assert "Slowed by heat" in visible_texts(find_only(GpuCard, page))


def test_the_page_names_the_user_of_a_gpu(page):
    used_gpu = replace(GPU, processes=(GpuProcess(51204, "alice", 18 << 30, "python", 40.0),))
    show_reading(page, replace(READING, gpus=(used_gpu,)))
    assert "in use by alice" in visible_texts(find_only(GpuCard, page))
    assert find_only(ProcessesCard, page).isVisible()


def texts_of_processes(page):
    labels = find_only(ProcessesCard, page).findChildren(Label)
    return [label.text().replace(formats.GAP, " ") for label in labels]


def test_the_processes_are_scrolled_into_sight_on_request(qtbot, page):
    page.resize(900, 400)
    cards = tuple(replace(GPU, index=n, uuid=f"GPU-{n}") for n in range(8))
    host_process = HostProcess(7, "ben", "python", 150.0, 2 << 30, 100.0)
    show_reading(page, replace(READING, gpus=cards, processes=(host_process,)))
    processes = find_only(ProcessesCard, page)
    qtbot.waitUntil(processes.isVisible)
    assert processes.visibleRegion().isEmpty()
    page.show_processes()
    qtbot.waitUntil(lambda: not processes.visibleRegion().isEmpty())


def test_processes_are_listed_by_owner_also_without_gpus(page):
    processes = (
        HostProcess(7, "alice", "MATLAB", 320.0, 8 << 30, 7200.0),
        HostProcess(8, "mai", "python train.py", 90.0, 3 << 30, 60.0),
        HostProcess(9, "mai", "python train.py", 60.0, 2 << 30, 90.0),
        HostProcess(10, "alice", "R", 0.0, 1 << 30, 60.0),
    )
    show_reading(page, replace(READING, gpus=(), processes=processes))
    assert texts_of_processes(page) == [
        "Processes",
        "4",
        *("MATLAB", "alice", "3.2 cores · 8.0 GiB of memory · pid 7 · 2 h"),
        *("R", "alice", "1.0 GiB of memory · pid 10 · 1 min"),
        *("python train.py, 2 processes", "mai", "1.5 cores · 5.0 GiB of memory · 2 min"),
    ]


def test_a_gpu_process_has_its_cpu_and_memory_in_the_same_line(page):
    used_gpu = replace(GPU, processes=(GpuProcess(51204, "alice", 18 << 30, "python", 40.0),))
    host_process = HostProcess(51204, "alice", "python", 110.0, 4 << 30, 40.0)
    show_reading(page, replace(READING, gpus=(used_gpu,), processes=(host_process,)))
    details = "GPU 0 · 18.0 GiB · 1.1 cores · 4.0 GiB of memory · pid 51204 · 40 s"
    assert details in texts_of_processes(page)


def test_a_gpu_of_ours_shows_its_rank_and_owner_even_if_unhealthy(page):
    view = replace(lab.LIVE, id="j1")
    state = samples.hot_node(samples.state("gpu07", "ours"))
    history = NodeHistory()
    history.append(state.reading, NOON)
    page.show_node(state, history, (view,))
    healthy_card, hot_card = page.findChildren(GpuCard)[2:4]
    assert {f"rank 10 · {view.name}", "mai"} <= set(visible_texts(healthy_card))
    assert {"Slowed by heat", f"rank 11 · {view.name}", "mai"} <= set(visible_texts(hot_card))
    assert healthy_card.accessibleName().endswith("rank 10, mai")


def test_a_gpu_of_another_user_shows_no_rank_of_the_job_placed_there(page):
    view = replace(lab.LIVE, id="j1")
    state = samples.state("gpu07", "other")
    history = NodeHistory()
    history.append(state.reading, NOON)
    page.show_node(state, history, (view,))
    card = page.findChildren(GpuCard)[2]
    assert "in use by chen" in visible_texts(card)
    assert not shows_text(card, "rank")


def test_passed_checks_are_one_line_whose_tool_tip_lists_them(page):
    passed_checks = tuple(Finding(f"c{n}", True, f"fine {n}") for n in range(9))
    page.show_findings((*passed_checks, Finding("b", False, "broken", "fix it")))
    assert finding_texts(page) == ["broken", "fix it", "9 checks passed"]
    line = find_label(find_only(FindingsCard, page), "9 checks passed")
    assert line.accessibleDescription().splitlines() == [f"fine {n}" for n in range(9)]
    assert "fine 0\nfine 1\n" in line.toolTip()
    page.show_findings((Finding("a", True, "fine"),))
    assert finding_texts(page) == ["fine"]
    assert not find_label(find_only(FindingsCard, page), "fine").toolTip()


def test_a_figure_that_the_driver_does_not_report_is_a_dash(page):
    show_reading(page, replace(READING, gpus=(Gpu(0, "GPU-a", "old card"),)))
    assert "–" in visible_texts(find_only(GpuCard, page))


def test_a_disk_that_does_not_answer_is_said(page):
    show_reading(page, replace(READING, disk_total_bytes=None, disk_free_bytes=None))
    assert "/d does not respond" in visible_texts(page)


def test_check_requests_once_and_shows_faults_first(page, qtbot):
    show_reading(page, READING)
    (check_button,) = (b for b in page.findChildren(Button) if b.text() == "Check")
    with expect_request(page._actions, CHECK) as requested:
        qtbot.mouseClick(check_button, Qt.MouseButton.LeftButton)
    assert requested.args == ["this-computer"]
    assert (check_button.text(), check_button.isEnabled()) == ("Checking…", False)
    (steps,) = finding_texts(page)
    assert "PyTorch, Horovod, Open MPI" in steps
    page.show_findings((Finding("a", True, "fine"), Finding("b", False, "broken", "fix it")))
    assert finding_texts(page) == ["broken", "fix it", "fine"]
    assert (check_button.text(), check_button.isEnabled()) == ("Check", True)


def test_little_disk_space_is_shown_in_the_header_and_next_to_findings_of_a_check(page):
    show_reading(page, replace(READING, disk_free_bytes=10**8))
    assert (
        find_only(PageHeader, page).subtitle.text()
        == "Needs attention: 0.1 GB left for the data root"
    )
    page.show_findings((Finding("a", True, "fine"),))
    show_reading(page, replace(READING, disk_free_bytes=10**8, heartbeat=2))
    assert [finding_texts(page)[0], finding_texts(page)[-1]] == [
        "0.1 GB left for the data root.",
        "fine",
    ]


def test_no_finding_of_another_node_remains(page):
    card = find_only(FindingsCard, page)
    card.show_findings(tuple(Finding(f"f{n}", False, f"fault {n}", "fix") for n in range(9)))
    assert len(finding_texts(page)) == 18
    card.clear()
    assert finding_texts(page) == []
    assert card.isHidden()


def finding_texts(page) -> list[str]:
    """Return the texts of the card of findings, from its top."""
    labels = [
        label for row in find_only(FindingsCard, page)._rows for label in row.findChildren(Label)
    ]
    return [label.text() for label in labels if label.isVisibleTo(find_only(FindingsCard, page))]
