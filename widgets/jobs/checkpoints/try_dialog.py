"""The dialog that tries a checkpoint on files, samples or datasets, next to another one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFileDialog, QStackedWidget, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction, PredictionInput, chosen_samples
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import EmptyState, VerticalScrollArea, StyledFrame
from widgets.common.dialog import Dialog
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, row
from widgets.common.task_status import TaskStatus
from widgets.common.theme import S2, S3, S4, SCROLL_BAR_W
from widgets.jobs.checkpoints.export_dialog import checkpoint_title, file_stem
from widgets.jobs.checkpoints.prediction_view import PredictionView

_FILES, _VALIDATION, _TRAINING, _OTHER = "files", "validation", "training", "other"
_CHOICES = (
    (_FILES, "Files"),
    (_VALIDATION, "Validation set"),
    (_TRAINING, "Training set"),
    (_OTHER, "Other dataset"),
)
_WIDTH, _HEIGHT = 1040, 760
_TWO_COLUMNS_FROM_W = 940
_NO_OTHER = ""


@dataclass(frozen=True)
class TryRequest:
    """Checkpoints of a job, by their names, and what to try them on."""

    job_id: str
    checkpoints: tuple[str, ...]
    prediction_input: PredictionInput


class TryDialog(Dialog):
    """Asks what to try a checkpoint on, and shows the answers.

    Signals:
        try_requested: A `TryRequest`; answer with `show_progress`, then `show_answers` or
            `show_error`.
        cancel_requested: Cancel it.
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
        chosen: str,
        folder: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Try it", _WIDTH, parent, height=_HEIGHT)
        self.setAcceptDrops(True)
        self._view = view
        self._folder = folder
        self._files: tuple[str, ...] = ()
        self._answers: tuple[Prediction, ...] = ()
        self._under_way = False
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        self._titles = {one.name: checkpoint_title(one) for one in newest_first}
        options = list(self._titles.items())
        self._checkpoint = ComboBox(options, chosen, name="Checkpoint")
        nothing = (_NO_OTHER, "No other")
        self._other = ComboBox([nothing, *options], _NO_OTHER, name="Compare with")
        self._what = SegmentedControl(_CHOICES, _FILES, name="Try it on")
        self._what.key_chosen.connect(self._choose_input)
        self._samples = LineEdit(
            "", placeholder="All, or numbers and ranges: 3, 10-20", name="Samples"
        )
        self._dataset = ComboBox(name="Dataset")
        self._loader = ComboBox([("", "The job's loader")], "", name="Loader")
        self._try = self.default_button("Try it", self._request, icon="play")
        for combo in (self._checkpoint, self._other):
            combo.currentIndexChanged.connect(self._again)
        self._status = TaskStatus("Computing predictions")
        self._status.cancelled.connect(self.cancel_requested)
        self._status.folder_requested.connect(self.file_requested)
        self._save = Button("Save predictions…", icon="download-simple")
        self._save.clicked.connect(self._choose_table)
        self._forms = QStackedWidget()
        self._forms.addWidget(self._drop_area())
        self._forms.addWidget(self._set_form())
        self._shown = row(gap=S4, top=True)
        inside = QWidget()
        inside.setLayout(self._shown)
        self._results = QStackedWidget()
        self._results.addWidget(
            EmptyState("magic-wand", "No answer yet", "Nothing leaves this computer.")
        )
        self._results.addWidget(VerticalScrollArea(inside, gutter=SCROLL_BAR_W))
        self.fill(
            row(self._what, STRETCH),
            self._forms,
            (self._results, 1),
            row(self._save, (self._status, 1), self.close_button(), self._try, gap=S3),
            head=row(
                Label("Try it", "title"),
                STRETCH,
                (Field("Checkpoint", self._checkpoint), 2),
                (Field("Compare with", self._other), 2),
                gap=S3,
            ),
        )
        self._fit()

    def show_library(self, datasets: list[str], loaders: list[str]) -> None:
        """Show the versions that can be chosen."""
        self._dataset.set_options(
            [(name, formats.reference(name)) for name in datasets], self._dataset.key()
        )
        usual = ("", "The job's loader")
        versions = [(name, formats.reference(name)) for name in loaders]
        self._loader.set_options([usual, *versions], self._loader.key())
        self._fit()

    def try_files(self, files: tuple[str, ...]) -> None:
        """Try it on these files, or the files of folders."""
        self._files = files
        self._what.choose(_FILES)
        self._request()

    def show_progress(self, share: float | None, text: str) -> None:
        self._under_way = True
        self._status.show_progress(share, text)
        self._fit()

    def show_error(self, sentence: str) -> None:
        self._under_way = False
        self._status.show_result("bad", sentence)
        self._fit()

    def show_saved(self, path: str) -> None:
        self._status.show_result("good", f"Saved to {path}", created_path=path)

    def show_answers(self, request: TryRequest, answers: tuple[Prediction, ...]) -> None:
        """Show the answers of each checkpoint, next to each other if both have room."""
        self._under_way = False
        self._answers = answers
        self._status.clear()
        clear(self._shown)
        for name, found in zip(request.checkpoints, answers, strict=True):
            title = self._titles.get(name, name)
            self._shown.addWidget(PredictionView(title, found, len(answers) > 1), 1)
        self._results.setCurrentIndex(1)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < _TWO_COLUMNS_FROM_W
        way = QBoxLayout.Direction
        self._shown.setDirection(way.TopToBottom if narrow else way.LeftToRight)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.source() is None and _local(event):
            event.acceptProposedAction()
            self._area.set_edge("focus")

    def dragLeaveEvent(self, _event: object) -> None:
        self._area.set_edge("")

    def dropEvent(self, event: QDropEvent) -> None:
        self._area.set_edge("")
        files = _local(event)
        if files and not self._under_way:
            event.acceptProposedAction()
            self.try_files(files)

    def reject(self) -> None:
        if self._under_way:
            self.cancel_requested.emit()
        super().reject()

    def _drop_area(self) -> QWidget:
        self._dropped = Label("Drop a file or a folder here", "body", "text2", elide="middle")
        files = Button("Files…", icon="folder-open")
        files.clicked.connect(self._choose_files)
        folder = Button("Folder…", icon="folder-open")
        folder.clicked.connect(self._choose_folder)
        line = row(
            IconLabel("download-simple", "text3"),
            (self._dropped, 1),
            files,
            folder,
            gap=S2,
            margins=(S4, S3, S4, S3),
        )
        self._area = StyledFrame("drop", line)
        return self._area

    def _set_form(self) -> QWidget:
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
    def _choose_input(self) -> None:
        """Take the answers away: they are those of another input."""
        self._answers = ()
        self._status.clear()
        self._results.setCurrentIndex(0)
        self._fit()

    @Slot()
    def _fit(self) -> None:
        key = self._what.key()
        self._forms.setCurrentIndex(0 if key == _FILES else 1)
        for field in self._dataset_fields:
            field.setVisible(key == _OTHER)
        names = [PurePath(path).name for path in self._files]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self._dropped.setText(names[0] + more if names else "Drop a file or a folder here")
        is_chosen = bool(self._files) if key == _FILES else key != _OTHER or self._dataset.key()
        self._try.setEnabled(bool(is_chosen) and not self._under_way)
        # An answer belongs to the input that is chosen.
        self._what.setEnabled(not self._under_way)
        self._save.setEnabled(bool(self._answers) and not self._under_way)
        self._save.set_tip("Those of the first checkpoint" if len(self._answers) > 1 else "")

    @Slot()
    def _again(self) -> None:
        """Answer for other checkpoints as soon as they are chosen."""
        if self._answers and self._try.isEnabled():
            self._request()

    @Slot()
    def _request(self) -> None:
        key, samples = self._what.key(), self._samples.text().strip()
        if key == _FILES:
            given = PredictionInput(files=self._files)
        else:
            try:
                chosen_samples(samples)
            except ValueError as error:
                self.show_error(f"{error}. Write numbers and ranges: 3, 10-20.")
                return
            given = PredictionInput(_TRAINING if key == _TRAINING else _VALIDATION, samples=samples)
            if key == _OTHER:
                given = PredictionInput(
                    dataset=self._dataset.key(), loader=self._loader.key(), samples=samples
                )
        names = dict.fromkeys(filter(None, (self._checkpoint.key(), self._other.key())))
        self.show_progress(None, "Starting…")
        self.try_requested.emit(TryRequest(self._view.id, tuple(names), given))

    @Slot()
    def _choose_files(self) -> None:
        chosen, _ = QFileDialog.getOpenFileNames(self, "Try it on", self._folder)
        if chosen:
            self.try_files(tuple(chosen))

    @Slot()
    def _choose_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Try it on", self._folder)
        if chosen:
            self.try_files((chosen,))

    @Slot()
    def _choose_table(self) -> None:
        name = f"{file_stem(self._view.name)} predictions.csv"
        # The service refuses to overwrite, so Qt does not need to ask.
        chosen, _ = QFileDialog.getSaveFileName(
            self,
            "Save predictions",
            str(PurePath(self._folder) / name),
            "Table (*.csv)",
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if chosen:
            self.save_requested.emit(self._answers[0], chosen)


def _local(event: QDropEvent) -> tuple[str, ...]:
    urls = event.mimeData().urls()
    return tuple(url.toLocalFile() for url in urls if url.isLocalFile())
