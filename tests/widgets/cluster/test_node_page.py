"""A node's page shows the reading it was given, and what is wrong in one sentence."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.records.node import Cpu, Finding, Gpu, GpuProcess, NodeReading
from widgets.cluster.node_page import NodePage
from widgets.cluster.node_row import health

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
    page = NodePage()
    qtbot.addWidget(page)
    page.show()
    return page


def test_no_driver_is_said_and_nothing_else_is_missing(page):
    page.show_reading(replace(READING, gpu_message="CPU only: no NVIDIA driver was found."))
    assert page._no_gpu.text() == "CPU only: no NVIDIA driver was found."
    assert page._no_gpu.isVisible()


def test_a_gpu_slowed_by_heat_is_framed_and_named(page):
    hot = replace(GPU, temperature_c=91, clock_event_reasons=("hw_thermal_slowdown",))
    page.show_reading(replace(READING, gpus=(hot,)))
    assert page._gpu_cards["GPU-a"].property("edge") == "warn"
    assert health(replace(READING, gpus=(hot,))).sentence == "GPU 0 slowed by heat"


def test_who_is_on_a_gpu_is_named(page):
    used = replace(GPU, processes=(GpuProcess(51204, "alice", 18 << 30, "python", 40.0),))
    page.show_reading(replace(READING, gpus=(used,)))
    assert page._gpu_cards["GPU-a"]._who.text() == "in use by alice"
    assert page._processes_card.isVisible()


def test_what_a_driver_does_not_tell_is_a_dash_and_no_crash(page):
    page.show_reading(replace(READING, gpus=(Gpu(0, "GPU-a", "old card"),)))
    assert page._gpu_cards["GPU-a"]._heat.text() == "–"


def test_a_disk_that_does_not_answer_is_said(page):
    page.show_reading(replace(READING, disk_total_bytes=None, disk_free_bytes=None))
    assert page._disk._words.text() == "/d does not answer"


def test_check_wishes_once_and_shows_what_is_wrong_first(page, qtbot):
    page.show_reading(READING)
    with qtbot.waitSignal(page.check_requested) as wished:
        qtbot.mouseClick(page._check_button, Qt.MouseButton.LeftButton)
    assert wished.args == ["this-computer"]
    assert not page._check_button.isEnabled()
    page.show_findings((Finding("a", True, "fine"), Finding("b", False, "broken", "mend it")))
    first = page._findings.itemAt(0).layout().itemAt(1).layout().itemAt(0).widget()
    assert first.text() == "broken"
    assert page._check_button.isEnabled()


def test_little_disk_makes_a_node_unwell():
    assert health(READING).well
    assert not health(replace(READING, disk_free_bytes=10**8)).well
