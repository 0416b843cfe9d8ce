"""The dialog that tries a checkpoint, or two, on files, samples or datasets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFileDialog, QStackedWidget, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction, PredictionInput, parse_samples
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import EmptyState, StyledFrame, VerticalScrollArea
from widgets.common.dialog import Dialog, TaskStatus
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, row
from widgets.common.theme import S2, S3, S4, SCROLL_BAR_W
from widgets.jobs.checkpoints.export_dialog import checkpoint_title, file_stem
from widgets.jobs.checkpoints.prediction_view import PredictionView

_FILES, _VALIDATION, _TRAINING, _OTHER_DATASET = "files", "validation", "training", "other"
_CHOICES = (
    (_FILES, "Files"),
    (_VALIDATION, "Validation set"),
    (_TRAINING, "Training set"),
    (_OTHER_DATASET, "Other dataset"),
)
_WIDTH, _HEIGHT = 1040, 760
_TWO_COLUMNS_FROM_W = 940
_NO_OTHER = ""


@dataclass(frozen=True)
class TryRequest:
    """Checkpoints of a job, by their names, and their input."""

    job_id: str
    checkpoints: tuple[str, ...]
    prediction_input: PredictionInput


class TryDialog(Dialog):
    """Asks for the input of a checkpoint, and shows the answers.

    Signals:
        try_requested: A `TryRequest`; answer with `show_progress`, then `show_answers` or
            `show_error`.
        cancel_requested: Cancel the running request.
        save_requested: A `Prediction`, and the path of the table to write.
        file_requested: The path of a written table, to show in its folder.
    """

    try_requested = Signal(object)
    cancel_requested = Signal()
    save_requested = Signal(object, str)
    file_requested = Signal(str)

    def __init__(
        self,
        view: JobView,
        checkpoints: tuple[Checkpoint, ...],
        checkpoint_name: str,
        folder: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Try it", _WIDTH, parent, height=_HEIGHT)
        self.setAcceptDrops(True)
        self._view = view
        self._folder = folder
        self._files: tuple[str, ...] = ()
        self._answers: tuple[Prediction, ...] = ()
        self._is_computing = False
        self._make_choices(checkpoints, checkpoint_name)
        self._input_kind = SegmentedControl(_CHOICES, _FILES, name="Try it on")
        self._input_kind.key_chosen.connect(self._clear_answers)
        self._samples = LineEdit(
            "", placeholder="All, or numbers and ranges: 3, 10-20", name="Samples"
        )
        self._dataset = ComboBox(name="Dataset")
        self._loader = ComboBox([("", "The job's loader")], "", name="Loader")
        self._try_button = self.default_button("Try it", self._request, icon="play")
        for combo in (self._checkpoint, self._other_checkpoint):
            combo.currentIndexChanged.connect(self._repeat_request)
        self._status = TaskStatus("Computing predictions")
        self._status.cancelled.connect(self.cancel_requested)
        self._status.folder_requested.connect(self.file_requested)
        self._save_button = Button("Save predictions…", icon="download-simple")
        self._save_button.clicked.connect(self._choose_table)
        self._forms = QStackedWidget()
        self._forms.addWidget(self._make_drop_area())
        self._forms.addWidget(self._make_dataset_form())
        self._answers_row = row(gap=S4, top=True)
        content = QWidget()
        content.setLayout(self._answers_row)
        self._results = QStackedWidget()
        self._results.addWidget(
            EmptyState("magic-wand", "No answer yet", "Nothing leaves this computer.")
        )
        self._results.addWidget(VerticalScrollArea(content, gutter=SCROLL_BAR_W))
        self.fill(
            row(self._input_kind, STRETCH),
            self._forms,
            (self._results, 1),
            row(
                self._save_button, (self._status, 1), self.close_button(), self._try_button, gap=S3
            ),
            head=row(
                Label("Try it", "title"),
                STRETCH,
                (Field("Checkpoint", self._checkpoint), 2),
                (Field("Compare with", self._other_checkpoint), 2),
                gap=S3,
            ),
        )
        self._update_controls()

    def _make_choices(self, checkpoints: tuple[Checkpoint, ...], checkpoint_name: str) -> None:
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        self._titles = {
            checkpoint.name: checkpoint_title(checkpoint) for checkpoint in newest_first
        }
        options = list(self._titles.items())
        self._checkpoint = ComboBox(options, checkpoint_name, name="Checkpoint")
        no_other = (_NO_OTHER, "No other")
        self._other_checkpoint = ComboBox([no_other, *options], _NO_OTHER, name="Compare with")

    def show_library(self, datasets: list[str], loaders: list[str]) -> None:
        """Set the versions to choose from."""
        self._dataset.set_options(
            [(name, formats.reference(name)) for name in datasets], self._dataset.key()
        )
        default_loader = ("", "The job's loader")
        versions = [(name, formats.reference(name)) for name in loaders]
        self._loader.set_options([default_loader, *versions], self._loader.key())
        self._update_controls()

    def try_files(self, files: tuple[str, ...]) -> None:
        """Try the checkpoint on these files, or on the files of folders."""
        self._files = files
        self._input_kind.choose(_FILES)
        self._request()

    def show_progress(self, share: float | None, text: str) -> None:
        self._is_computing = True
        self._status.show_progress(share, text)
        self._update_controls()

    def show_error(self, message: str) -> None:
        self._is_computing = False
        self._status.show_result("bad", message)
        self._update_controls()

    def show_saved(self, path: str) -> None:
        self._status.show_result("good", f"Saved to {path}", created_path=path)

    def show_answers(self, request: TryRequest, answers: tuple[Prediction, ...]) -> None:
        """Show the answers of each checkpoint, side by side if there is space."""
        self._is_computing = False
        self._answers = answers
        self._status.clear()
        clear(self._answers_row)
        for name, prediction in zip(request.checkpoints, answers, strict=True):
            title = self._titles.get(name, name)
            self._answers_row.addWidget(PredictionView(title, prediction, len(answers) > 1), 1)
        self._results.setCurrentIndex(1)
        self._update_controls()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _TWO_COLUMNS_FROM_W
        direction = QBoxLayout.Direction
        self._answers_row.setDirection(
            direction.TopToBottom if is_narrow else direction.LeftToRight
        )

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.source() is None and _local_paths(event):
            event.acceptProposedAction()
            self._drop_frame.set_edge("focus")

    def dragLeaveEvent(self, _event: object) -> None:
        self._drop_frame.set_edge("")

    def dropEvent(self, event: QDropEvent) -> None:
        self._drop_frame.set_edge("")
        files = _local_paths(event)
        if files and not self._is_computing:
            event.acceptProposedAction()
            self.try_files(files)

    def reject(self) -> None:
        if self._is_computing:
            self.cancel_requested.emit()
        super().reject()

    def _make_drop_area(self) -> QWidget:
        self._drop_label = Label("Drop a file or a folder here", "body", "text2", elide="middle")
        files_button = Button("Files…", icon="folder-open")
        files_button.clicked.connect(self._choose_files)
        folder_button = Button("Folder…", icon="folder-open")
        folder_button.clicked.connect(self._choose_folder)
        line = row(
            IconLabel("download-simple", "text3"),
            (self._drop_label, 1),
            files_button,
            folder_button,
            gap=S2,
            margins=(S4, S3, S4, S3),
        )
        self._drop_frame = StyledFrame("drop", line)
        return self._drop_frame

    def _make_dataset_form(self) -> QWidget:
        form = QWidget()
        self._dataset_fields = (Field("Dataset", self._dataset), Field("Loader", self._loader))
        form.setLayout(
            row(
                *((field, 2) for field in self._dataset_fields),
                (Field("Samples", self._samples), 2),
                gap=S3,
            )
        )
        return form

    @Slot()
    def _clear_answers(self) -> None:
        """Remove the answers for another input."""
        self._answers = ()
        self._status.clear()
        self._results.setCurrentIndex(0)
        self._update_controls()

    @Slot()
    def _update_controls(self) -> None:
        key = self._input_kind.key()
        self._forms.setCurrentIndex(0 if key == _FILES else 1)
        for field in self._dataset_fields:
            field.setVisible(key == _OTHER_DATASET)
        names = [PurePath(path).name for path in self._files]
        count_suffix = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self._drop_label.setText(
            names[0] + count_suffix if names else "Drop a file or a folder here"
        )
        is_chosen = (
            bool(self._files) if key == _FILES else key != _OTHER_DATASET or self._dataset.key()
        )
        self._try_button.setEnabled(bool(is_chosen) and not self._is_computing)
        # An answer belongs to the input that is chosen.
        self._input_kind.setEnabled(not self._is_computing)
        self._save_button.setEnabled(bool(self._answers) and not self._is_computing)
        self._save_button.set_tip("Those of the first checkpoint" if len(self._answers) > 1 else "")

    @Slot()
    def _repeat_request(self) -> None:
        """Request the answers of newly chosen checkpoints."""
        if self._answers and self._try_button.isEnabled():
            self._request()

    @Slot()
    def _request(self) -> None:
        key, samples = self._input_kind.key(), self._samples.text().strip()
        if key == _FILES:
            prediction_input = PredictionInput(files=self._files)
        else:
            try:
                parse_samples(samples)
            except ValueError as error:
                self.show_error(f"{error}. Write numbers and ranges: 3, 10-20.")
                return
            prediction_input = PredictionInput(
                _TRAINING if key == _TRAINING else _VALIDATION, samples=samples
            )
            if key == _OTHER_DATASET:
                prediction_input = PredictionInput(
                    dataset=self._dataset.key(), loader=self._loader.key(), samples=samples
                )
        names = dict.fromkeys(filter(None, (self._checkpoint.key(), self._other_checkpoint.key())))
        self.show_progress(None, "Starting…")
        self.try_requested.emit(TryRequest(self._view.id, tuple(names), prediction_input))

    @Slot()
    def _choose_files(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self, "Try it on", self._folder)
        if paths:
            self.try_files(tuple(paths))

    @Slot()
    def _choose_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Try it on", self._folder)
        if folder:
            self.try_files((folder,))

    @Slot()
    def _choose_table(self) -> None:
        name = f"{file_stem(self._view.name)} predictions.csv"
        # The service refuses to overwrite, so Qt does not need to ask.
        path, _ = QFileDialog.getSaveFileName(
            self,
            "Save predictions",
            str(PurePath(self._folder) / name),
            "Table (*.csv)",
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if path:
            self.save_requested.emit(self._answers[0], path)


def _local_paths(event: QDropEvent) -> tuple[str, ...]:
    urls = event.mimeData().urls()
    return tuple(url.toLocalFile() for url in urls if url.isLocalFile())
