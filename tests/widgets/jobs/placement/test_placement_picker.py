"""Choosing where a job runs: what is offered, what is not, and all of it by keys alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from backend.records.nodes.health import Health
from backend.records.nodes.reading import GpuProcess, NodeState, Presence
from tests.widgets.nodes import samples
from tests.windows import add_widget, find_button, find_only
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import VerticalScrollArea
from widgets.common.labels import Label
from widgets.jobs.placement.gpu_choice import choose_gpus, unavailable_reason
from widgets.jobs.placement.placement_picker import PlacementPicker

pytestmark = pytest.mark.usefixtures("theme_manager")
EIGHT = tuple(f"GPU-{n}" for n in range(8))
NEW = NodeState("gpu13", Presence.NEW, entry=samples.entry("gpu13", is_ready=False))


def full(state):
    """The node's own memory is full: nothing is wrong with any GPU of it."""
    reading = replace(state.reading, memory_used_bytes=state.reading.memory_total_bytes)
    return replace(state, reading=reading, health=Health().after_reading(reading, 0.0).findings)


@pytest.fixture
def picker(qtbot):
    picker = add_widget(qtbot, PlacementPicker(), 820, 500)
    with qtbot.waitActive(picker):
        picker.show()
        picker.activateWindow()
    return picker


def row(picker, name):
    return picker._rows[name]


def figure(picker, name):
    return row(picker, name)._figure.text().replace("\xa0", " ")


def test_whole_free_nodes_come_first_and_unhealthy_gpus_never():
    nodes = (
        samples.state("gpu01", "half"),
        samples.hot_node(samples.state("gpu02")),
        samples.state("gpu03"),
        samples.offline_node(samples.state("gpu04")),
        full(samples.state("gpu05")),
        replace(samples.state("gpu06"), presence=Presence.OUT_OF_SERVICE),
        NEW,
        samples.state("gpu08"),
    )
    assert choose_gpus(nodes, 16) == {"gpu03": EIGHT, "gpu08": EIGHT}
    assert choose_gpus(nodes, 3) == {"gpu03": EIGHT[:3]}
    # The rest of what is free: seven healthy ones of the unhealthy node, half of the busy one.
    assert choose_gpus(nodes, 99) == {
        "gpu03": EIGHT,
        "gpu08": EIGHT,
        "gpu02": tuple(uuid for uuid in EIGHT if uuid != "GPU-3"),
        "gpu01": EIGHT[4:],
    }
    assert choose_gpus(nodes, 0) == {}


def test_the_button_says_how_many_it_chooses_and_chooses_as_many_as_were_asked_for(picker, qtbot):
    picker.show_nodes((samples.state("gpu01"), samples.hot_node(samples.state("gpu02"))))
    assert find_button(picker, "Select 8 for me").isVisible(), "those of one node"
    picker.put([{"node": "gpu02", "gpus": list(EIGHT[:2])}])
    assert find_button(picker, "Select 2 for me").text() == "Select 2 for me"
    with qtbot.waitSignal(picker.changed):
        qtbot.mouseClick(find_button(picker, "Select 2 for me"), Qt.MouseButton.LeftButton)
    assert picker.value() == [{"node": "gpu01", "gpus": list(EIGHT[:2])}]
    picker.show_nodes((samples.state("gpu01", "other"), samples.state("gpu02", "other")))
    assert not find_button(picker, "Select 0 for me").isVisible()


LOCAL_PLACEMENT = {"node": "this-computer", "processes": 1}


@pytest.mark.parametrize(
    ("nodes", "proposed"),
    [
        ((samples.state("this-computer", count=0),), LOCAL_PLACEMENT),
        ((), LOCAL_PLACEMENT),
        ((samples.state("this-computer", count=0), samples.state("gpu01")),
         {"node": "gpu01", "gpus": ["GPU-0"]}),
        ((samples.state("gpu01", "other"), samples.state("gpu02", "half")),
         {"node": "gpu02", "gpus": ["GPU-4"]}),
        ((samples.state("gpu01", "other"),), LOCAL_PLACEMENT),
        ((samples.offline_node(samples.state("gpu01")),), LOCAL_PLACEMENT),
    ],
)  # fmt: skip
def test_one_free_gpu_is_proposed_and_this_computer_without_one(picker, nodes, proposed):
    picker.show_nodes(nodes)
    picker.propose()
    assert picker.value() == [proposed]


def test_gpus_replace_processes_and_processes_replace_gpus(picker):
    picker.show_nodes((samples.state("this-computer", count=0), samples.state("gpu01")))
    picker.put([LOCAL_PLACEMENT])
    row(picker, "gpu01").cells.select_all()
    assert picker.value() == [{"node": "gpu01", "gpus": list(EIGHT)}]
    row(picker, "this-computer").stepper.setValue(3)
    assert picker.value() == [{"node": "this-computer", "processes": 3}]


def test_without_gpus_each_healthy_node_gets_a_process(picker, qtbot):
    picker.show_nodes(
        (
            samples.state("this-computer", count=0),
            samples.state("cpu1", count=0),
            samples.offline_node(samples.state("cpu2", count=0)),
            full(samples.state("cpu3", count=0)),
            replace(samples.state("cpu4", count=0), presence=Presence.OUT_OF_SERVICE),
            samples.state("cpu5", count=0),
        )
    )
    picker.put([{"node": "this-computer", "processes": 1}])
    with qtbot.waitSignal(picker.changed):
        qtbot.mouseClick(find_button(picker, "Select 2 nodes for me"), Qt.MouseButton.LeftButton)
    assert picker.value() == [{"node": name, "processes": 1} for name in ("cpu1", "cpu5")]
    picker.show_nodes((samples.state("this-computer", count=0),))
    assert not find_button(picker, "Select 0 for me").isVisible()


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (
            samples.offline_node(samples.state("gpu11")),
            "Offline: no news since 03:12, no route to host",
        ),
        (NEW, "Not set up"),
        (replace(samples.state("gpu11"), presence=Presence.OUT_OF_SERVICE), "Out of service"),
    ],
)
def test_an_offline_node_says_why_and_offers_nothing(picker, qtbot, state, reason):
    assert unavailable_reason(state) == reason
    picker.show_nodes((state,))
    cells = row(picker, state.name).cells
    assert cells.accessibleDescription() == reason
    assert not row(picker, state.name).stepper.isVisible()
    qtbot.mouseClick(cells, Qt.MouseButton.LeftButton, pos=QPoint(20, 14))
    qtbot.keyClick(cells, Qt.Key.Key_Space)
    qtbot.mouseClick(row(picker, state.name)._name_label, Qt.MouseButton.LeftButton)
    assert picker.value() == []


def test_m06_gpus_chosen_on_an_offline_node_stay_and_can_be_deselected(picker, qtbot):
    picker.show_nodes((samples.state("gpu01"),))
    placement = [{"node": "gpu01", "gpus": list(EIGHT)}]
    picker.put(placement)
    picker.show_nodes((samples.offline_node(samples.state("gpu01")),))
    assert picker.value() == placement
    assert (figure(picker, "gpu01"), row(picker, "gpu01")._figure.color_role()) == (
        "8 selected",
        "bad",
    )
    qtbot.keyClick(row(picker, "gpu01").cells, Qt.Key.Key_Space)
    assert picker.value() == []


def test_all_can_be_chosen_by_keys_alone(picker, qtbot):
    picker.show_nodes((samples.state("gpu01"), samples.state("gpu02", count=0), samples.state("z")))
    first, last = row(picker, "gpu01").cells, row(picker, "z").cells
    first.setFocus()
    qtbot.keyClick(first, Qt.Key.Key_Right)
    qtbot.keyClick(first, Qt.Key.Key_Space)
    qtbot.keyClick(first, Qt.Key.Key_Down)
    qtbot.waitUntil(last.hasFocus)
    qtbot.keyClick(last, Qt.Key.Key_A)
    qtbot.keyClick(last, Qt.Key.Key_Down)
    assert last.hasFocus(), "there is no node below"
    qtbot.keyClick(last, Qt.Key.Key_Up)
    qtbot.waitUntil(first.hasFocus)
    assert picker.value() == [
        {"node": "gpu01", "gpus": ["GPU-1"]},
        {"node": "z", "gpus": list(EIGHT)},
    ]


def test_a_click_on_the_name_chooses_free_healthy_gpus_and_another_deselects_them(picker, qtbot):
    picker.show_nodes((samples.hot_node(samples.state("gpu01", "half"), 5),))
    name = row(picker, "gpu01")._name_label
    qtbot.mouseClick(name, Qt.MouseButton.LeftButton)
    assert row(picker, "gpu01").cells.selected_uuids() == ("GPU-4", "GPU-6", "GPU-7")
    qtbot.mouseClick(name, Qt.MouseButton.LeftButton)
    assert picker.value() == []


def test_a_screen_reader_hears_node_gpu_owner_memory_and_fault(picker, qtbot):
    picker.show_nodes((samples.hot_node(samples.state("gpu03", "few"), 6),))
    cells = row(picker, "gpu03").cells
    assert cells.accessibleName() == "GPUs of gpu03"
    parts = cells.accessibleDescription().replace("\xa0", " ").split(". ")
    assert parts[0] == "gpu03, GPU 0, free"
    assert parts[6].startswith("gpu03, GPU 6, in use by alice, 61.0 GiB, slowed by heat")
    cells.setFocus()
    qtbot.waitUntil(cells.hasFocus)
    qtbot.keyClick(cells, Qt.Key.Key_Left)
    parts = cells.accessibleDescription().replace("\xa0", " ").split(". ")
    assert parts[0] == "gpu03, GPU 7, in use by alice, 61.0 GiB"


def holds(gpu, gib, **owner):
    process = GpuProcess(7, owner.pop("user", "mai"), gib << 30, "python", **owner)
    return replace(gpu, memory_used_bytes=gib << 30, processes=(process,))


def bars(cells, width=400):
    """What stands on each bar of neighbours."""
    colours = []
    for first, last in cells._index_ranges():
        if cells._holder_name(cells._gpus[first]):
            text = cells._bar_text(first, last, width).replace("\xa0", " ")
            colours.append((first, last, text))
    return colours


def test_neighbours_of_one_job_or_one_user_are_a_bar_with_the_memory_of_each(picker):
    free = samples.state("gpu01")
    first_run, two = {"run_tag": "20261120-aa/1"}, {"run_tag": "20261121-bb/3"}
    uses = [
        (60, first_run),
        (60, first_run),
        (20, two),
        (9, two),
        (18, {}),
        (18, {}),
        (71, {"user": "ben"}),
    ]
    gpus = [
        holds(gpu, *use[:1], **use[1]) for gpu, use in zip(free.reading.gpus, uses, strict=False)
    ]
    node = replace(free, reading=replace(free.reading, gpus=(*gpus, free.reading.gpus[7])))
    picker.show_nodes((node,))
    cells = row(picker, "gpu01").cells
    picker.show_jobs({"20261120-aa": "unet", "20261121-bb": "resnet"})
    assert bars(cells) == [
        (0, 1, "unet · 60 GiB each"),
        (2, 3, "resnet · 9 to 20 GiB each"),
        (4, 5, "mai · 18 GiB each"),
        (6, 6, "ben · 71 GiB"),
    ]
    parts = cells.accessibleDescription().replace("\xa0", " ").split(". ")
    assert parts[0] == "gpu01, GPU 0, in use by unet, 60.0 GiB"
    picker.show_jobs({})
    assert bars(cells)[0] == (0, 1, "mai · 60 GiB each"), "a job that is not known is its user's"


def test_a_long_name_on_a_bar_ends_in_an_ellipsis_before_the_memory_does(picker):
    picker.show_nodes((samples.state("gpu01", "half"),))
    picker.show_jobs(dict.fromkeys(samples.JOBS, "retinanet-resnet50-coco2017-second-try"))
    cells = row(picker, "gpu01").cells
    ((_, _, text),) = bars(cells, 220)
    assert text.startswith("retinanet-")
    assert text.endswith("… · 61 GiB each")
    ((_, _, text),) = bars(cells, 60)
    assert "GiB" not in text


def test_a_gpu_with_a_display_is_free_and_shows_the_memory_of_the_display(picker, qtbot):
    state = samples.state("gpu02")
    screens = (
        GpuProcess(900, "gdm", 200 << 20, "Xorg", only_draws=True),
        GpuProcess(950, "mai", 107 << 20, "gnome-shell", only_draws=True),
    )
    gpus = (replace(state.reading.gpus[0], processes=screens), *state.reading.gpus[1:])
    picker.show_nodes((replace(state, reading=replace(state.reading, gpus=gpus)),))
    cells = row(picker, "gpu02").cells
    description = f"GPU 0, free, a display uses {formats.memory(307 << 20)}"
    assert description in cells.accessibleDescription()
    qtbot.mouseClick(cells, Qt.MouseButton.LeftButton, pos=QPoint(8, 8))
    assert picker.value() == [{"node": "gpu02", "gpus": [gpus[0].uuid]}]
    assert cells.busy_gpus() == ()
    assert figure(picker, "gpu02") == "1 selected"


def asked_for(cells, index):
    """What a right click on a GPU offers, None for nothing."""
    position = cells._cell(index).center().toPoint()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, position, cells.mapToGlobal(position))
    cells.contextMenuEvent(event)
    menu = next((m for m in cells.findChildren(QMenu) if m.isVisible()), None)
    if menu is None:
        return None
    menu.close()
    (act,) = menu.actions()
    return act


def test_a_gpu_of_another_user_can_be_used_after_one_question_by_name(picker, qtbot):
    state = samples.state("gpu03", "few")
    picker.show_nodes((state, samples.state("gpu01", "ours")))
    cells = row(picker, "gpu03").cells
    act = asked_for(cells, 7)
    assert act.text() == "Use GPU 7 anyway…"
    act.trigger()
    dialog = picker._share_dialog.dialog
    assert dialog.windowTitle() == "Use GPU 7 anyway"
    assert any("alice runs python on it" in label.text() for label in dialog.findChildren(Label))
    assert picker.value() == []
    (anyway,) = (b for b in dialog.findChildren(Button) if b.text() == "Use it anyway")
    with qtbot.waitSignal(picker.changed):
        qtbot.mouseClick(anyway, Qt.MouseButton.LeftButton)
    placement = {"node": "gpu03", "gpus": ["GPU-7"], "beside": {"GPU-7": "alice"}}
    assert picker.value() == [placement]
    assert cells.busy_gpus() == ()
    assert asked_for(cells, 7) is None

    # Said of alice, it is no word about who comes after her.
    guest = replace(state.reading.gpus[7].processes[0], user="chen")
    gpus = (*state.reading.gpus[:7], replace(state.reading.gpus[7], processes=(guest,)))
    with qtbot.waitSignal(picker.usage_changed):
        picker.show_nodes(
            (replace(state, reading=replace(state.reading, gpus=gpus)), picker._rows["gpu01"].state)
        )
    assert [gpu.index for gpu in cells.busy_gpus()] == [7]

    picker.put([placement])
    assert picker.value() == [placement]
    qtbot.mouseClick(cells, Qt.MouseButton.LeftButton, pos=cells._cell(7).center().toPoint())
    assert picker.value() == []


def test_own_and_free_gpus_are_not_offered_to_be_used_anyway(picker, qtbot):
    picker.show_nodes((samples.state("gpu01", "half"),))
    cells = row(picker, "gpu01").cells
    assert asked_for(cells, 0) is None
    assert asked_for(cells, 7) is None
    qtbot.mouseClick(cells, Qt.MouseButton.RightButton, pos=cells._cell(7).center().toPoint())
    assert picker.value() == []


def test_figures_of_all_rows_stand_in_one_column(picker):
    picker.show_nodes(
        (
            samples.state("gpu01"),
            samples.state("cpu01", count=0),
            samples.offline_node(samples.state("gpu11")),
            samples.hot_node(samples.state("gpu07", "ours")),
        )
    )
    names = ("gpu01", "cpu01", "gpu11", "gpu07")
    assert [figure(picker, name) for name in names] == [
        "8 free",
        "128 cores",
        "–",
        "slowed by heat",
    ]
    figure_edges = {row(picker, name)._figure.mapTo(picker, QPoint(0, 0)).x() for name in names}
    assert len(figure_edges) == 1
    bar_edges = {
        part.mapTo(picker, QPoint(0, 0)).x()
        for part in (row(picker, "gpu01").cells, row(picker, "cpu01").stepper)
    }
    assert len(bar_edges) == 1


def test_a_long_name_is_whole_where_there_is_room(picker):
    picker.show_nodes((samples.state("node-rack3-machine-007"), samples.state("gpu2")))
    name_label = row(picker, "node-rack3-machine-007")._name_label
    assert name_label.width() >= name_label.sizeHint().width() - 8
    assert name_label.text() == "node-rack3-machine-007"
    many = [samples.state(f"node-rack3-row7-machine-{n:03d}.cluster.example.org") for n in (1, 2)]
    picker.resize(480, 500)
    picker.show_nodes(tuple(many))
    name_label = [row(picker, state.name)._name_label for state in many]
    assert [label.text()[-3:] for label in name_label] == ["001", "002"]
    assert all(s.name in label.toolTip() for s, label in zip(many, name_label, strict=True))


def test_above_sixteen_nodes_only_those_with_room_are_shown_and_they_scroll(picker):
    nodes = samples.cluster(64)
    picker.show_nodes(nodes)
    assert find_only(VerticalScrollArea, picker).height() == 360
    shown_names = [
        name for name, picker_row in picker._rows.items() if picker_row.isVisibleTo(picker)
    ]
    assert "gpu02" in shown_names
    assert "gpu03" not in shown_names, "all of it is in use by other users"
    find_button(picker, "Free only").setChecked(False)
    assert all(picker_row.isVisibleTo(picker) for picker_row in picker._rows.values())
    assert find_only(VerticalScrollArea, picker).height() == 360


def test_a_chosen_node_is_shown_although_it_is_offline(picker):
    nodes = samples.cluster(20)
    placement = [{"node": nodes[1].name, "gpus": list(EIGHT)}]
    picker.show_nodes(nodes)
    picker.put(placement)
    assert picker.value() == placement
    picker.show_nodes((nodes[0], samples.offline_node(nodes[1]), *nodes[2:]))
    assert row(picker, nodes[1].name).isVisibleTo(picker)


def test_processes_on_a_node_with_gpus_are_shown_where_a_job_file_says_so(picker):
    picker.show_nodes((samples.state("gpu01"),))
    assert not row(picker, "gpu01").stepper.isVisibleTo(picker)
    picker.put([{"node": "gpu01", "processes": 2}])
    assert row(picker, "gpu01").stepper.isVisibleTo(picker)
    assert picker.value() == [{"node": "gpu01", "processes": 2}]


def test_updates_of_a_hidden_picker_wait(qtbot):
    nodes = samples.cluster(12)
    stack = add_widget(qtbot, QStackedWidget())
    visible_parent, picker = QWidget(), PlacementPicker()
    stack.addWidget(visible_parent)
    stack.addWidget(picker)
    with qtbot.waitExposed(stack):
        stack.show()
    picker.show_nodes(nodes)
    changed_nodes = (*nodes[:-1], samples.offline_node(nodes[-1]))
    picker.show_nodes(changed_nodes)
    assert not picker._rows
    stack.setCurrentWidget(picker)
    assert row(picker, nodes[-1].name).state is changed_nodes[-1]


def test_a_hidden_picker_finds_the_nodes_of_a_draft(qtbot):
    nodes = samples.cluster(12)
    stack = add_widget(qtbot, QStackedWidget())
    picker = PlacementPicker()
    stack.addWidget(QWidget())
    stack.addWidget(picker)
    with qtbot.waitExposed(stack):
        stack.show()
    picker.show_nodes(nodes)
    placement = [{"node": nodes[-1].name, "processes": 2}]
    picker.put(placement)
    assert picker.value() == placement
    assert row(picker, nodes[-1].name).value() == placement[0]
