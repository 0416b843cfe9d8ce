"""Going on with a job on other nodes, and what becomes of a choice when a node goes away."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.widgets.nodes import samples
from tests.windows import add_widget, find_button, find_only
from widgets.jobs.detail.move_dialog import MoveDialog
from widgets.jobs.placement.placement_picker import PlacementPicker

NODES = tuple(samples.state(name, count=0) for name in ("node1", "node2", "node3"))


def test_the_earlier_nodes_are_preselected_and_others_can_be_chosen(qtbot: QtBot) -> None:
    placement = [{"node": "node1", "processes": 2}, {"node": "node2", "processes": 2}]
    dialog = add_widget(qtbot, MoveDialog("long", placement, NODES))
    assert find_button(dialog, "Resume on 4 processes").text() == "Resume on 4 processes"
    find_only(PlacementPicker, dialog).put([{"node": "node3", "processes": 1}])
    dialog._update_button()
    assert find_button(dialog, "Resume on 1 process").text() == "Resume on 1 process"
    with qtbot.waitSignal(dialog.resume_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Resume on 1 process"), Qt.MouseButton.LeftButton)
    assert requested.args == [[{"node": "node3", "processes": 1}]]


def test_without_a_node_nothing_can_be_resumed(qtbot: QtBot) -> None:
    dialog = add_widget(qtbot, MoveDialog("long", [], NODES))
    assert not find_button(dialog, "Resume").isEnabled()


def test_m06_a_node_that_goes_away_takes_no_choice_along(qtbot: QtBot) -> None:
    picker = add_widget(qtbot, PlacementPicker())
    picker.show_nodes(NODES)
    new_placement = [{"node": "node1", "processes": 1}, {"node": "node3", "processes": 2}]
    picker.put(new_placement)
    picker.show_nodes(NODES[:2])
    assert sorted(picker.value(), key=lambda entry: str(entry["node"])) == new_placement
    picker.show_nodes(NODES)
    assert sorted(picker.value(), key=lambda entry: str(entry["node"])) == new_placement


def test_the_node_that_a_job_is_to_leave_is_not_chosen_and_as_many_gpus_are_offered(
    qtbot: QtBot,
) -> None:
    nodes = tuple(samples.state(name) for name in ("gpu01", "gpu07", "gpu09"))
    gpus = [f"GPU-{n}" for n in range(8)]
    placement = [{"node": "gpu01", "gpus": gpus}, {"node": "gpu07", "gpus": gpus}]
    dialog = add_widget(qtbot, MoveDialog("long", placement, nodes, excluded_node="gpu07"))
    assert find_only(PlacementPicker, dialog).value() == [{"node": "gpu01", "gpus": gpus}]
    assert find_button(dialog, "Resume on 8 processes").text() == "Resume on 8 processes"
    assert (
        find_button(find_only(PlacementPicker, dialog), "Select 16 for me").text()
        == "Select 16 for me"
    )
    qtbot.mouseClick(
        find_button(find_only(PlacementPicker, dialog), "Select 16 for me"),
        Qt.MouseButton.LeftButton,
    )
    assert [entry["node"] for entry in find_only(PlacementPicker, dialog).value()] == [
        "gpu01",
        "gpu09",
    ]
