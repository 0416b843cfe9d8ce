"""Samples of a dataset as its loader returns them: a grid, the classes, one large sample."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import (
    ClassCount,
    Preview,
    SamplePage,
    SamplePart,
    SamplePreview,
    rare_classes,
)
from widgets.common import formats
from widgets.common.buttons import IconButton, SegmentedControl
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.fields import ComboBox
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, S3, S4, SCROLL_BAR_W
from widgets.library.class_columns import MAX_COLUMNS, ClassColumns, ClassRows
from widgets.library.distribution_card import ValuesCard
from widgets.library.sample_grid import SampleGrid
from widgets.library.sample_parts import (
    PartSketch,
    decode_thumbnail,
    main_part,
    path_title,
    scale_thumbnail,
    shape_text,
)

_SIDE_W, _SIDE_NARROW_W, _NARROW_BELOW_W = 292, 268, 620
_ROWS_MAX_H = 224
PAGE_SIZE = 48
_LINE_CHARS = 32
"""Longer text is shown in several lines, if no picture is next to it."""
_PICTURE_SIDE = 136


class SamplesView(QWidget):
    """The tab Samples: grid on the left, classes, values and the selected sample on the right.

    ``filter`` selects the class; the owner of the view places it.

    Signals:
        page_requested: The samples to read, as `DataScanService.page` takes them; answer with
            `show_page` or `show_page_error`.
    """

    page_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preview: Preview | None = None
        self.filter = ClassFilter()
        self.filter.class_chosen.connect(self.show_class)
        self._grid = SampleGrid()
        self._grid.sample_chosen.connect(self._show_sample)
        self._range_label = Label("", "small", "text3", elide="right")
        self._class_name = ""
        self._page_starts: list[int] = []
        """The first number of each requested page; empty for the samples of the preview."""
        self._page_end = 0
        self._previous_button = IconButton("arrow-left", "Previous samples")
        self._previous_button.clicked.connect(self._show_previous_page)
        self._next = IconButton("arrow-right", "Next samples")
        self._next.clicked.connect(self._show_next_page)
        self._make_classes()
        self._sample_title = Label("", "strong")
        self._sketch = PartSketch()
        self._picture = Label()
        self._sample_details = col(gap=S2)
        sample_row = row(self._picture, (self._sample_details, 1), gap=S4, top=True)
        self._sample_card = Card(self._sample_title, self._sketch, sample_row)
        self._values = ValuesCard()
        holder = QWidget()
        holder.setLayout(
            col(
                row((self._range_label, 1), self._previous_button, self._next, gap=S1),
                *(self._grid, STRETCH),
                gap=S2,
                margins=(S4, S3, S4, S4),
            )
        )
        self._grid_scroll = VerticalScrollArea(holder)
        grid_card = Card((self._grid_scroll, 1), margins=(0, 0, 0, 0))
        self._side = QWidget()
        cards = (self._classes_card, self._sample_card, self._values)
        self._side.setLayout(col(*cards, STRETCH, gap=S3))
        self._side_scroll = VerticalScrollArea(self._side, gutter=SCROLL_BAR_W)
        self.setLayout(row((grid_card, 1), self._side_scroll, gap=S3))
        self._fit_side()

    def show_preview(self, preview: Preview) -> None:
        self._preview = preview
        classes = preview.classes
        self.filter.show_classes(classes)
        shows_columns = ClassColumns.suits(classes, _SIDE_NARROW_W - 2 * S4)
        self._columns.show_classes(classes if shows_columns else ())
        self._columns.setVisible(shows_columns)
        self._rows.show_classes(() if shows_columns else classes)
        self._rows_scroll.setVisible(not shows_columns)
        self._rows_scroll.setFixedHeight(min(self._rows.height(), _ROWS_MAX_H))
        self._classes_card.setVisible(bool(classes))
        rare_count = len(rare_classes(classes))
        text = formats.plural(len(classes), "class", "classes")
        self._classes_label.setText(f"{text}, {rare_count} rare" if rare_count else text)
        self._classes_label.set_color_role("warn" if rare_count else "text3")
        self._values.show_preview(preview)
        has_details = bool(classes or preview.samples or preview.statistics)
        self._side_scroll.setVisible(has_details)
        self.show_class("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_side()

    def _fit_side(self) -> None:
        """Narrow the side in a narrow window, for one more column of the grid."""
        width = _SIDE_W if self.width() >= _NARROW_BELOW_W else _SIDE_NARROW_W
        self._side.setFixedWidth(width)
        self._side_scroll.setFixedWidth(width + SCROLL_BAR_W)

    def clear(self) -> None:
        """Clear the view: there is no preview and no class to select."""
        self._preview = None
        self.filter.show_classes(())

    def _make_classes(self) -> None:
        self._classes_label = Label("", "small", "text3")
        self._columns = ClassColumns()
        self._rows = ClassRows()
        for chart in (self._columns, self._rows):
            chart.class_chosen.connect(self.show_class)
        self._rows_scroll = VerticalScrollArea(self._rows, gutter=SCROLL_BAR_W)
        self._rows.row_selected.connect(lambda y: self._rows_scroll.ensureVisible(0, y + S4, 0, S4))
        self._classes_card = Card(
            row(Label("Samples by class", "strong"), STRETCH, self._classes_label),
            self._columns,
            self._rows_scroll,
        )

    @Slot(str)
    def show_class(self, name: str) -> None:
        """Show samples of a class, or ("") samples spread over the whole dataset."""
        preview = self._preview
        if preview is None:
            return
        self.filter.choose(name)
        self._columns.highlight_class(name)
        self._rows.highlight_class(name)
        samples = preview.samples
        total = preview.count
        if name:
            all_samples = (*preview.samples, *preview.class_samples)
            class_samples = (sample for sample in all_samples if sample.of_class == name)
            samples = tuple(sorted(class_samples, key=lambda sample: sample.index))
            total = next(
                (class_count.count for class_count in preview.classes if class_count.name == name),
                0,
            )
        empty_text = f"No sample of class {name} is kept" if name else "No sample could be read"
        self._class_name = name
        self._page_starts.clear()
        self._page_end = 0
        for button in (self._previous_button, self._next):
            button.setVisible(len(samples) < total)
        self._show_samples(samples, empty_text)
        self._previous_button.setEnabled(False)
        self._next.setEnabled(True)
        text = f"{formats.count_of(len(samples), total)} samples"
        qualifier = f" of class {name}" if name else ", spread evenly"
        self._range_label.setText(text + qualifier if name or len(samples) < total else text)
        self._range_label.setVisible(bool(samples))

    def _show_samples(self, samples: tuple[SamplePreview, ...], empty_text: str) -> None:
        self._grid.show_samples(samples, empty_text)
        self._grid_scroll.verticalScrollBar().setValue(0)
        self._sample_card.setVisible(bool(samples))
        if samples:
            self._show_sample(samples[0])

    @Slot()
    def _show_next_page(self) -> None:
        self._page_starts.append(self._page_end)
        self._request_page()

    @Slot()
    def _show_previous_page(self) -> None:
        self._page_starts.pop()
        if self._page_starts:
            self._request_page()
        else:
            self.show_class(self._class_name)

    def _request_page(self) -> None:
        for button in (self._previous_button, self._next):
            button.setEnabled(False)
        self._range_label.setText("Reading samples…")
        self._range_label.show()
        self.page_requested.emit(self._page_request())

    def _page_request(self) -> dict[str, object]:
        start = self._page_starts[-1] if self._page_starts else -1
        return {
            "split": "training",
            "start": start,
            "count": PAGE_SIZE,
            "of_class": self._class_name,
        }

    def show_page(self, request: object, page: SamplePage) -> None:
        """Show the requested samples, unless another request followed."""
        if self._preview is None or request != self._page_request():
            return
        self._page_end = page.end
        self._previous_button.setEnabled(True)
        self._next.setEnabled(page.end < page.total)
        samples = tuple(s.sample for s in page.samples)
        class_text = f" of class {self._class_name}" if self._class_name else ""
        self._show_samples(samples, f"No sample{class_text} was read here")
        last_number = max(self._page_starts[-1], page.end - 1)
        range_text = f"{formats.count(self._page_starts[-1])} to {formats.count(last_number)}"
        errors_text = (
            f", {formats.count(len(page.errors))} could not be read" if page.errors else ""
        )
        text = (
            f"Samples{class_text}, numbers {range_text} of {formats.count(page.total)}{errors_text}"
        )
        self._range_label.setText(text)
        self._range_label.setToolTip(plain_tip("\n".join(error.message for error in page.errors)))

    def show_page_error(self, request: object, message: str) -> None:
        """Show why the samples cannot be read."""
        if request == self._page_request():
            self._previous_button.setEnabled(True)
            self._range_label.setText(message)

    def _show_sample(self, sample: SamplePreview) -> None:
        self._sample_title.setText(f"Sample {sample.index}")
        shown_part = main_part(sample)
        picture = scale_thumbnail(
            decode_thumbnail(shown_part), _PICTURE_SIDE, self.devicePixelRatioF()
        )
        self._picture.setPixmap(picture)
        self._picture.setVisible(not picture.isNull())
        self._sketch.show_part(shown_part)
        can_be_drawn = shown_part is not None and bool(
            len(shown_part.values) > 1 or shown_part.rows
        )
        self._sketch.setVisible(picture.isNull() and can_be_drawn)
        clear(self._sample_details)
        details: list[tuple[str, str]] = [("Target", sample.target)] if sample.target else []
        shown_parts = [
            part for part in sample.parts if not (sample.target and part.path == "target")
        ]
        details += [(path_title(part.path), shape_text(part)) for part in shown_parts]
        details += [
            (f"{path_title(part.path)}, first values", v) for part, v in _first_values(shown_parts)
        ]
        details.append(("Load time", formats.milliseconds(sample.time_ms)))
        for caption, value in details:
            # Next to a picture a kind and a shape do not fit into one line.
            value_label = Label(value, "strong", elide="right")
            if picture.isNull() and len(value) > _LINE_CHARS and " " in value:
                value_label = Label(value, "body", wrap=True)
            elif " × " in value and not picture.isNull():
                value_label = Label(
                    value.replace(" × ", "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}"),
                    "strong",
                    wrap=True,
                )
            title = Label(caption, "tiny", "text3", elide="right")
            self._sample_details.addLayout(col(title, value_label, gap=2))
        self._sample_details.addStretch(1)


def _first_values(parts: Sequence[SamplePart]) -> Sequence[tuple[SamplePart, str]]:
    return [
        (part, ", ".join(formats.metric(value) for value in part.values[:6]))
        for part in parts
        if part.display_kind in ("values", "wave") and part.values and not part.names
    ]


_ALL = "all"
_INDEX_PREFIX = "class "
"""Prefix of a class number, because a class may be named “all”."""


class ClassFilter(QWidget):
    """A choice of a class, hidden until classes are known.

    Signals:
        class_chosen: The name of a class, "" for all.
    """

    class_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._classes: tuple[ClassCount, ...] = ()
        self._title = Label("Class", "small", "text2")
        self._class_box = ComboBox(name="Class")
        self._class_box.activated.connect(lambda _index: self._choose_key(self._class_box.key()))
        self._segments: SegmentedControl | None = None
        self._row = row(STRETCH, self._title, self._class_box, gap=S2)
        self.setLayout(self._row)
        # While the filter is hidden, its neighbours do not spread.
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)
        self._fit_segments()

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        """Set other classes; all are shown again."""
        self._classes = classes
        if self._segments is not None:
            self._row.removeWidget(self._segments)
            self._segments.hide()
            self._segments.deleteLater()
            self._segments = None
        keys = [f"{_INDEX_PREFIX}{number}" for number in range(len(classes))]
        options = [
            (key, f"{c.name} · {formats.count(c.count)}")
            for key, c in zip(keys, classes, strict=True)
        ]
        self._class_box.set_options([(_ALL, "All classes"), *options], _ALL)
        if 0 < len(classes) <= MAX_COLUMNS:
            names = [
                (key, class_count.name) for key, class_count in zip(keys, classes, strict=True)
            ]
            self._segments = SegmentedControl([(_ALL, "All"), *names], _ALL, name="Class")
            for key, class_count in zip(keys, classes, strict=True):
                self._segments.set_tip(key, formats.plural(class_count.count, "sample"))
            self._segments.key_chosen.connect(self._choose_key)
            self._row.addWidget(self._segments)
        self._fit_segments()

    def choose(self, name: str) -> None:
        """Select without sending a signal; "" for all."""
        names = [class_count.name for class_count in self._classes]
        key = f"{_INDEX_PREFIX}{names.index(name)}" if name in names else _ALL
        self._class_box.choose(key)
        if self._segments is not None:
            self._segments.choose(key)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_segments()

    def _fit_segments(self) -> None:
        has_classes = bool(self._classes)
        title_w = self._title.sizeHint().width() + S2
        is_wide_enough = (
            self._segments is not None
            and title_w + self._segments.sizeHint().width() <= self.width()
        )
        self._title.setVisible(has_classes)
        if self._segments is not None:
            self._segments.setVisible(is_wide_enough)
        self._class_box.setVisible(has_classes and not is_wide_enough)

    @Slot(str)
    def _choose_key(self, key: str) -> None:
        name = "" if key == _ALL else self._classes[int(key.removeprefix(_INDEX_PREFIX))].name
        self.choose(name)
        self.class_chosen.emit(name)
