"""In a small window: names that would be cut are written smaller, sentences wrap, columns go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QStackedWidget, QTableView, QWidget
from pytestqt.qtbot import QtBot

from backend.records.jobs.view import JobCommand
from backend.records.queue.entry import Queue
from tests.pictures import lab
from tests.windows import find_only
from widgets.common.labels import Label
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab
from widgets.jobs.checkpoints.export_dialog import Exporter
from widgets.jobs.detail.job_header import JobName
from widgets.jobs.detail.settings_tab import SettingsTab
from widgets.jobs.list.job_list_pane import QueueStrip

pytestmark = pytest.mark.usefixtures("theme_manager")


def test_a_name_without_room_is_smaller_before_it_is_cut(qtbot: QtBot) -> None:
    name = JobName()
    qtbot.addWidget(name)
    name.show_name("retinanet-r50 · lr 0.09")
    name.show()
    name.resize(400, 32)
    large = name._label.font().pixelSize()
    name.resize(200, 32)
    assert name._label.font().pixelSize() < large
    assert "…" not in super(Label, name._label).text()
    name.resize(400, 32)
    assert name._label.font().pixelSize() == large


def test_a_narrow_list_shows_the_whole_sentence_of_the_queue(qtbot: QtBot) -> None:
    strip = QueueStrip(JobActions())
    qtbot.addWidget(strip)
    strip.show_queue(Queue((), "Paused by mai: no job starts by itself."))
    strip.resize(300, 60)
    strip.show()
    label = find_only(Label, strip)
    assert super(Label, label).text() == "Paused by mai: no job starts by itself."
    qtbot.waitUntil(lambda: label.height() >= label.heightForWidth(label.width()))


def test_redundant_columns_of_checkpoints_are_hidden_before_the_table_scrolls(
    qtbot: QtBot,
) -> None:
    actions = JobActions()
    window = QWidget()
    qtbot.addWidget(window)
    tab = CheckpointsTab(actions, Exporter(actions, window))
    qtbot.addWidget(tab)
    # No moment is written with more words than one of another year.
    old_checkpoints = (
        replace(checkpoint, created="2020-11-20T07:30:00Z") for checkpoint in lab.checkpoints()
    )
    tab.show_checkpoints(lab.LIVE, tuple(old_checkpoints))
    tab.show()
    table = tab.findChild(QTableView)
    assert isinstance(table, QTableView)
    for width, hidden in (
        (1400, []),
        (780, []),
        (680, ["SHA-256"]),
        (560, ["Size", "SHA-256"]),
    ):
        tab.resize(width, 500)
        columns = range(tab.model.columnCount())
        headers = [tab.model.headerData(n, table.horizontalHeader().orientation()) for n in columns]
        hidden_titles = [head for n, head in enumerate(headers) if table.isColumnHidden(n)]
        assert hidden_titles == hidden
        qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() == 0)


def test_the_command_stands_right_below_a_short_job_file(qtbot: QtBot) -> None:
    tab = SettingsTab()
    qtbot.addWidget(tab)
    tab.show_job(lab.LIVE)
    tab.resize(900, 1400)
    tab.show()
    qtbot.waitUntil(lambda: tab._file_card.height() == tab._file_card.maximumHeight())
    scroll = find_only(QStackedWidget, tab).widget(0)
    assert scroll.verticalScrollBar().maximum() == 0, "all of it is seen"
    assert tab._file_card.height() < 1000
    tab.show_file("epochs = 50\n", JobCommand())
    tab._show_format(True)
    qtbot.waitUntil(lambda: tab._file_card.height() < 300)
