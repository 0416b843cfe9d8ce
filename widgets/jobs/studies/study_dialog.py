"""The dialog that starts a study: the gallery, and the question and cost of each study."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.studies.study import FormName, GalleryStudy
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.view_style import share_column_width, style_view

_WIDTH, _HEIGHT = 640, 520
_FORMS = ((FormName.SMALL.value, "Small"), (FormName.FULL.value, "Full, as published"))


class StudyDialog(Dialog):
    """Lists the studies; Start queues the jobs of the chosen study on this computer.

    Signals:
        start_requested: The name of a study, and its `FormName`.
        file_requested: Choose a study file.
    """

    start_requested = Signal(str, object)
    file_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("New study", _WIDTH, parent, height=_HEIGHT)
        self._forms = SegmentedControl(_FORMS, FormName.SMALL.value, name="Form")
        self._forms.key_chosen.connect(self._update_texts)
        self.model = RowTableModel(
            (
                TableColumn[GalleryStudy](
                    "Study", lambda study: study.title, lambda study: study.name
                ),
                TableColumn[GalleryStudy]("Jobs", self._job_count_text, is_figure=True),
                TableColumn[GalleryStudy]("Takes", self._duration_text, is_figure=True),
            )
        )
        self.view = QTableView()
        style_view(self.view, "Studies")
        self.view.setModel(self.model)
        self.view.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        share_column_width(self.view, 0)
        self.view.selectionModel().currentRowChanged.connect(self._update_texts)
        self.view.doubleClicked.connect(self._request_start)
        self._question = Label("", "strong", wrap=True)
        self._source = Label("", "small", "text2", wrap=True)
        self._note = Label("", "small", "text2", wrap=True)
        self._is_busy = False
        file_button = Button("Open study file…", kind="quiet", icon="folder-open")
        file_button.clicked.connect(self.file_requested)
        self._start_button = self.default_button("Start", self._request_start)
        self.fill(
            Label(
                "A study trains the jobs of a published table and compares the figures.",
                "body",
                "text2",
                wrap=True,
            ),
            (self.view, 1),
            self._question,
            self._source,
            self._note,
            head=row(Label("New study", "title"), STRETCH, self._forms),
            foot=(file_button, STRETCH, self.close_button(), self._start_button),
        )
        self._update_texts()

    def show_studies(self, studies: Sequence[GalleryStudy]) -> None:
        self.model.set_records(studies)
        if studies and not self.view.currentIndex().isValid():
            self.view.selectRow(0)
        self.view.setFocus()
        self._update_texts()

    def add_study(self, study: GalleryStudy) -> None:
        """Add the study of a file at the top, and choose it."""
        self.show_error("")
        self.model.set_records((study, *self.model.rows))
        self.view.selectRow(0)

    def show_error(self, message: str) -> None:
        super().show_error(message)
        self.set_busy("")

    def set_busy(self, busy_label: str) -> None:
        """Show the current action on the button Start; "" for none."""
        self._is_busy = bool(busy_label)
        self._update_texts()
        if busy_label:
            self._start_button.setText(busy_label)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._request_start()
        else:
            super().keyPressEvent(event)

    @property
    def _form(self) -> FormName:
        return FormName(self._forms.key())

    def _selected_study(self) -> GalleryStudy | None:
        row_index = self.view.currentIndex().row()
        return self.model.rows[row_index] if 0 <= row_index < len(self.model.rows) else None

    def _job_count_text(self, study: GalleryStudy) -> str:
        return formats.count(study.sizes[self._form].jobs)

    def _duration_text(self, study: GalleryStudy) -> str:
        return f"≈ {formats.duration(60 * study.sizes[self._form].minutes)}"

    @Slot()
    def _request_start(self) -> None:
        study = self._selected_study()
        if study is not None and self._start_button.isEnabled():
            self.start_requested.emit(study.name, self._form)

    @Slot()
    def _update_texts(self) -> None:
        study = self._selected_study()
        size = None if study is None else study.sizes[self._form]
        self._question.setText("" if study is None else study.question)
        self._source.setText("" if study is None else f"Source: {study.source}.")
        self._note.setText("" if size is None else size.note)
        jobs = 0 if size is None else size.jobs
        self._start_button.setText(f"Start {formats.plural(jobs, 'job')}" if jobs else "Start")
        self._start_button.setEnabled(bool(jobs) and not self._is_busy)
        self._start_button.set_tip("" if jobs else "It has no jobs that run on CPUs")
        self.view.viewport().update()
