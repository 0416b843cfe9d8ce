"""The tab Scan: read all samples of a dataset, and show what was found among them."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Signal, Slot
from PySide6.QtWidgets import QStackedWidget, QTableView, QWidget

from backend.records.library.sample_page import SamplePage
from backend.records.library.scan import DatasetScan, ScanFinding
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import IconButton
from widgets.common.cards import Card, EmptyState, ProgressLine, VerticalScrollArea
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import S1, S2, S3, S4
from widgets.common.view_style import TableHeightLimit, style_view, share_column_width
from widgets.library.sample_grid import SampleGrid

_GROUPS = 24
_WHAT = (
    "A scan reads all samples of training and validation, and finds broken samples, duplicates, "
    "leaks between the two, and shifted values."
)
_COLUMNS = (
    TableColumn[ScanFinding]("Finding", lambda one: one.message, lambda one: one.message),
    TableColumn[ScanFinding](
        "Samples",
        lambda one: formats.count(len(one.groups)) if one.groups else "–",
        is_figure=True,
    ),
)
_RESULT, _EMPTY, _RUNNING = range(3)


class ScanView(QStackedWidget):
    """A button, then the progress, then the findings with the samples of the selected one.

    Signals:
        scan_requested: Scan; answer with `show_progress`, `show_scan` or `show_error`.
        cancel_requested: Cancel the running scan.
        samples_requested: Pairs of split and index; answer with `show_samples` or `show_fault`.
    """

    scan_requested = Signal()
    cancel_requested = Signal()
    samples_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._finding = ScanFinding("")
        self._first = 0
        self._make_findings()
        self._make_samples()
        self._banner = Banner()
        self._empty = EmptyState("magnifying-glass", "")
        self._empty.pressed.connect(self._request)
        start = QWidget()
        start.setLayout(col(self._banner, (self._empty, 1), gap=S3))
        result = QWidget()
        result.setLayout(col(self._words, (self._findings, 1), (self._samples, 1), SLACK, gap=S3))
        self._progress = ProgressLine("Reading samples")
        self._progress.cancelled.connect(self.cancel_requested)
        running = QWidget()
        reading = EmptyState("magnifying-glass", "Reading all samples…", _WHAT)
        running.setLayout(col((reading, 1), self._progress, gap=S3))
        for page in (result, start, running):
            self.addWidget(page)
        self.clear()

    def _make_findings(self) -> None:
        self._words = Label("", "body", "text2", wrap=True)
        self.model = RowTableModel(_COLUMNS)
        self._table = QTableView()
        self._table.setModel(self.model)
        style_view(self._table, "Findings")
        self._table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self._table.selectionModel().currentRowChanged.connect(self._choose)
        share_column_width(self._table, 0)
        self._findings = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, self._findings, S1)

    def _make_samples(self) -> None:
        self._where = Label("", "small", "text3", elide="right")
        self._previous = IconButton("arrow-left", "Previous samples")
        self._next = IconButton("arrow-right", "Next samples")
        self._previous.clicked.connect(lambda: self._show_from(self._first - _GROUPS))
        self._next.clicked.connect(lambda: self._show_from(self._first + _GROUPS))
        self._faults = Label("", "small", "text2", wrap=True)
        self._grid = SampleGrid()
        holder = QWidget()
        holder.setLayout(
            col(
                row((self._where, 1), self._previous, self._next, gap=S1),
                *(self._faults, self._grid, STRETCH),
                gap=S2,
                margins=(S4, S3, S4, S4),
            )
        )
        self._samples = Card((VerticalScrollArea(holder), 1), margins=(0, 0, 0, 0))

    # -- input

    def clear(self) -> None:
        """Show no result: another version or another loader was chosen."""
        if self.currentIndex() == _RUNNING:
            self.cancel_requested.emit()
        self._banner.hide()
        self._empty.show_message("magnifying-glass", "Not scanned yet", _WHAT, button="Scan all samples")
        self.setCurrentIndex(_EMPTY)

    def show_progress(self, share: float | None, text: str) -> None:
        self._progress.set_progress(share, text)
        self.setCurrentIndex(_RUNNING)

    def show_error(self, sentence: str, remedy: str = "") -> None:
        """Show why there is no result."""
        words = "Fix the problem above, then scan again."
        self._empty.show_message("magnifying-glass", "No result", words, button="Scan again")
        self.setCurrentIndex(_EMPTY)
        self._banner.set_finding("bad", sentence, remedy)
        self._banner.show()

    def show_scan(self, scan: DatasetScan) -> None:
        findings = scan.findings()
        if not findings:
            self._banner.hide()
            self._empty.show_message("check-circle", "No findings", _read_words(scan))
            self.setCurrentIndex(_EMPTY)
            return
        self._words.setText(_read_words(scan))
        self.model.set_records(findings)
        self.setCurrentIndex(_RESULT)
        with_samples = (number for number, one in enumerate(findings) if one.groups)
        row_number = next(with_samples, 0)
        self._table.selectRow(row_number)
        # The same row may have been selected in another result.
        self._choose(self.model.index(row_number, 0))

    def show_samples(self, places: object, page: SamplePage) -> None:
        """Show the samples that were requested, unless others were meanwhile."""
        if places != self._places():
            return
        found = {(one.split, one.sample.index): one.sample for one in page.samples}
        groups = [group for group in self._groups() if all(place in found for place in group)]
        samples = tuple(found[place] for group in groups for place in group)
        self._grid.show_samples(samples, "", max((len(group) for group in groups), default=1))
        self._grid.setVisible(bool(samples))
        self._faults.setText("\n".join(fault.message for fault in page.errors))
        self._faults.setVisible(bool(page.errors))
        self._where.setText(self._where_words())

    def show_fault(self, places: object, sentence: str) -> None:
        """Show why the samples cannot be read."""
        if places == self._places():
            self._faults.setText(sentence)
            self._faults.show()
            self._where.setText("")

    # -- events

    @Slot()
    def _request(self) -> None:
        self._banner.hide()
        self.show_progress(None, "Starting")
        self.scan_requested.emit()

    @Slot(QModelIndex)
    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self._finding = self.model.rows[index.row()]
            self._show_from(0)

    def _show_from(self, first: int) -> None:
        self._first = first
        total = len(self._finding.groups)
        self._samples.setVisible(bool(total))
        for button in (self._previous, self._next):
            button.setVisible(total > _GROUPS)
        self._previous.setEnabled(first > 0)
        self._next.setEnabled(first + _GROUPS < total)
        self._faults.hide()
        self._grid.hide()
        if total:
            self._where.setText("Reading samples…")
            self.samples_requested.emit(self._places())

    def _groups(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        return self._finding.groups[self._first : self._first + _GROUPS]

    def _places(self) -> tuple[tuple[str, int], ...]:
        return tuple(dict.fromkeys(place for group in self._groups() for place in group))

    def _where_words(self) -> str:
        groups, total = self._groups(), len(self._finding.groups)
        last = self._first + len(groups)
        splits = [split for split, _ in groups[0]]
        what = "Pairs" if len(splits) == 2 else f"{splits[0].capitalize()} samples"
        words = f"{what} {formats.count(self._first + 1)} to {formats.count_of(last, total)}"
        if len(set(splits)) == 2:
            words += f"; left {splits[0]}, right {splits[1]}"
        return words


def _read_words(scan: DatasetScan) -> str:
    read = f"{formats.count(scan.examined)} training"
    if scan.validation is not None:
        read += f" and {formats.count(scan.validation.examined)} validation"
    count = scan.examined + (scan.validation.examined if scan.validation is not None else 0)
    words = f"Read {read} samples ({formats.milliseconds(scan.sample_time_ms)} each)"
    start_s = scan.seconds - count * scan.sample_time_ms / 1000
    words += f"; starting took {formats.duration(start_s)}." if start_s >= 1 else "."
    has_pictures = any(len(one.shape or ()) == 3 for one in scan.shapes)
    is_small = has_pictures and not scan.compares_pictures
    return words + (" Pictures below 16 × 16 pixels are not compared." if is_small else "")
