"""The tabs Settings and Notes of a job, and the dialog that moves the job to other nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.runtime.controller import ignore
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.settings import name_and_unit
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.widgets.nodes import samples
from tests.windows import add_widget, all_fields, find_button, find_only, show_widget
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.actions.job_questions import MoveQuestion
from widgets.jobs.detail.notes_tab import NotesTab
from widgets.jobs.detail.settings_tab import SettingsTab
from widgets.jobs.placement.placement_picker import PlacementPicker


@pytest.fixture
def shown_settings(qtbot, theme_manager):
    tab = show_widget(qtbot, SettingsTab(), 900, 900)

    def show(**raw):
        tab.show_job(replace(LIVE, config=parse_job({**DIGITS, **raw}).config, pins={}))
        return [
            (head.text(), caption.text(), value.text())
            for head, caption, value in tab._lines
            if caption.isVisibleTo(tab)
        ]

    return show


def test_settings_are_called_as_in_the_form(shown_settings, form):  # noqa: F811
    rows = {caption: value for _, caption, value in shown_settings()}
    assert rows["Rate scaling"] == "× processes"
    assert rows["Optimizer"] == "SGD"
    assert rows["Warm-up, epochs"] == "2"
    assert rows["Best by"] == "validation/loss"
    assert rows["Best is"] == "lowest"
    assert rows["Stall limit, s"] == "600"
    for path, field in all_fields(form).items():
        assert field.label() == name_and_unit(path)[0]
    in_form = {field.label() for field in all_fields(form).values()}
    assert {"Rate scaling", "Optimizer", "Warm-up", "Best by"} <= in_form


def test_settings_stand_under_the_parts_of_the_form(shown_settings):
    headers = [head for head, *_ in shown_settings() if head]
    assert headers == ["What", "Where", "How", "Keep"]
    assert [
        head for head, *_ in shown_settings(early_stop={"patience_epochs": 3}) if head
    ] == headers


def test_settings_that_differ_from_the_default_are_bold(qtbot, theme_manager):
    tab = show_widget(qtbot, SettingsTab())
    raw = {**DIGITS, "strategy": {"lr_scaling": "none"}}
    tab.show_job(replace(LIVE, config=parse_job(raw).config, pins={}))
    weights = {caption.text(): value.font().weight() for _, caption, value in tab._lines}
    assert weights["Rate scaling"] > weights["Seed"]
    assert weights["Momentum"] > weights["Dampening"]


def test_actions_are_listed_below_the_notes_newest_first(qtbot, theme_manager):
    tab = NotesTab(JobActions())
    qtbot.addWidget(tab)
    tab.open_job(LIVE)
    tab.show_audit_entries(
        (
            AuditEntry("2020-11-21T15:04:00Z", "Stopped", "ben", "desk-7"),
            AuditEntry("2020-11-21T14:02:00Z", "Started", "mai", "desk-3"),
            AuditEntry("", "The share does not answer."),
        )
    )
    lines = tab._history.toPlainText().split("\n")
    assert lines[0].endswith("Stopped by ben on desk-7")
    assert "2020" in lines[0]
    assert lines[1].endswith("Started by mai on desk-3")
    assert lines[2].endswith("The share does not answer.")
    tab.open_job(LIVE)
    assert tab._history.toPlainText() == ""


NODES = tuple(samples.state(name, count=0) for name in ("node1", "node2", "node3"))


def test_the_earlier_nodes_are_preselected_and_others_can_be_chosen(qtbot: QtBot) -> None:
    placement = [{"node": "node1", "processes": 2}, {"node": "node2", "processes": 2}]
    placements: list[object] = []
    dialog = add_widget(qtbot, MoveQuestion("long", placement, NODES, placements.append))
    assert find_button(dialog, "Resume on 4 processes").text() == "Resume on 4 processes"
    find_only(PlacementPicker, dialog).put([{"node": "node3", "processes": 1}])
    dialog.update_button()
    assert find_button(dialog, "Resume on 1 process").text() == "Resume on 1 process"
    qtbot.mouseClick(find_button(dialog, "Resume on 1 process"), Qt.MouseButton.LeftButton)
    assert placements == [[{"node": "node3", "processes": 1}]]


def test_without_a_node_nothing_can_be_resumed(qtbot: QtBot) -> None:
    dialog = add_widget(qtbot, MoveQuestion("long", [], NODES, ignore))
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
    question = MoveQuestion("long", placement, nodes, ignore, excluded_node="gpu07")
    dialog = add_widget(qtbot, question)
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
