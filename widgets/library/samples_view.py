"""Samples of a dataset as its loader returns them: a grid, the classes, one large sample."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from backend.records.library.preview import Preview, SamplePart, SamplePreview, rare_classes
from backend.records.library.sample_page import SamplePage
from widgets.common import formats
from widgets.common.buttons import IconButton
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, S3, S4, SCROLL_BAR_W
from widgets.library.class_columns import ClassColumns, ClassRows
from widgets.library.class_filter import ClassFilter
from widgets.library.distribution_card import ValuesCard
from widgets.library.sample_grid import SampleGrid
from widgets.library.sample_parts import (
    PartSketch,
    decoded,
    main_part,
    path_title,
    scaled,
    shape_words,
)

_SIDE_W, _SIDE_NARROW_W, _NARROW_BELOW_W = 292, 268, 620
_ROWS_MOST_H = 224
PAGE = 48
_LINE_CHARS = 32
"""Longer text is shown in several lines, if no picture is next to it."""
_LARGE = 136


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
        self.filter.chosen.connect(self.show_class)
        self._grid = SampleGrid()
        self._grid.chosen.connect(self._show_sample)
        self._shown_words = Label("", "small", "text3", elide="right")
        self._class = ""
        self._pages: list[int] = []
        """The first number of each page that was requested; none: the samples of the preview."""
        self._end = 0
        self._previous = IconButton("arrow-left", "Previous samples")
        self._previous.clicked.connect(self._page_back)
        self._next = IconButton("arrow-right", "Next samples")
        self._next.clicked.connect(self._page_on)
        self._make_classes()
        self._sample_title = Label("", "strong")
        self._sketch = PartSketch()
        self._large = Label()
        self._sample_facts = col(gap=S2)
        large = row(self._large, (self._sample_facts, 1), gap=S4, top=True)
        self._sample_card = Card(self._sample_title, self._sketch, large)
        self._values = ValuesCard()
        holder = QWidget()
        holder.setLayout(
            col(
                row((self._shown_words, 1), self._previous, self._next, gap=S1),
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
        self._fit()

    def show_preview(self, preview: Preview) -> None:
        self._preview = preview
        classes = preview.classes
        self.filter.show_classes(classes)
        few = ClassColumns.suits(classes, _SIDE_NARROW_W - 2 * S4)
        self._columns.show_classes(classes if few else ())
        self._columns.setVisible(few)
        self._rows.show_classes(() if few else classes)
        self._rows_scroll.setVisible(not few)
        self._rows_scroll.setFixedHeight(min(self._rows.height(), _ROWS_MOST_H))
        self._classes_card.setVisible(bool(classes))
        odd = len(rare_classes(classes))
        word = formats.plural(len(classes), "class", "classes")
        self._classes_word.setText(f"{word}, {odd} rare" if odd else word)
        self._classes_word.set_color_role("warn" if odd else "text3")
        self._values.show_preview(preview)
        has_facts = bool(classes or preview.samples or preview.statistics)
        self._side_scroll.setVisible(has_facts)
        self.show_class("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """In a narrow window the grid gets one more column."""
        width = _SIDE_W if self.width() >= _NARROW_BELOW_W else _SIDE_NARROW_W
        self._side.setFixedWidth(width)
        self._side_scroll.setFixedWidth(width + SCROLL_BAR_W)

    def clear(self) -> None:
        """Clear: there is no preview and no class to select."""
        self._preview = None
        self.filter.show_classes(())

    def _make_classes(self) -> None:
        self._classes_word = Label("", "small", "text3")
        self._columns = ClassColumns()
        self._rows = ClassRows()
        for drawing in (self._columns, self._rows):
            drawing.chosen.connect(self.show_class)
        self._rows_scroll = VerticalScrollArea(self._rows, gutter=SCROLL_BAR_W)
        self._rows.moved.connect(lambda y: self._rows_scroll.ensureVisible(0, y + S4, 0, S4))
        self._classes_card = Card(
            row(Label("Samples by class", "strong"), STRETCH, self._classes_word),
            self._columns,
            self._rows_scroll,
        )

    @Slot(str)
    def show_class(self, name: str) -> None:
        """Show samples of one class, or ("") some spread over the whole dataset."""
        preview = self._preview
        if preview is None:
            return
        self.filter.choose(name)
        self._columns.show_chosen(name)
        self._rows.show_chosen(name)
        samples = preview.samples
        total = preview.count
        if name:
            both = (*preview.samples, *preview.class_samples)
            of_class = (sample for sample in both if sample.of_class == name)
            samples = tuple(sorted(of_class, key=lambda sample: sample.index))
            total = next((one.count for one in preview.classes if one.name == name), 0)
        empty = f"No sample of class {name} is kept" if name else "No sample could be read"
        self._class = name
        self._pages.clear()
        self._end = 0
        for button in (self._previous, self._next):
            button.setVisible(len(samples) < total)
        self._show_samples(samples, empty)
        self._previous.setEnabled(False)
        self._next.setEnabled(True)
        words = f"{formats.count_of(len(samples), total)} samples"
        where = f" of class {name}" if name else ", spread evenly"
        self._shown_words.setText(words + where if name or len(samples) < total else words)
        self._shown_words.setVisible(bool(samples))

    def _show_samples(self, samples: tuple[SamplePreview, ...], empty: str) -> None:
        self._grid.show_samples(samples, empty)
        self._grid_scroll.verticalScrollBar().setValue(0)
        self._sample_card.setVisible(bool(samples))
        if samples:
            self._show_sample(samples[0])

    @Slot()
    def _page_on(self) -> None:
        self._pages.append(self._end)
        self._request_page()

    @Slot()
    def _page_back(self) -> None:
        self._pages.pop()
        if self._pages:
            self._request_page()
        else:
            self.show_class(self._class)

    def _request_page(self) -> None:
        for button in (self._previous, self._next):
            button.setEnabled(False)
        self._shown_words.setText("Reading samples…")
        self._shown_words.show()
        self.page_requested.emit(self._asked())

    def _asked(self) -> dict[str, object]:
        start = self._pages[-1] if self._pages else -1
        return {"split": "training", "start": start, "count": PAGE, "of_class": self._class}

    def show_page(self, asked: object, page: SamplePage) -> None:
        """Show the samples that were requested, unless others were meanwhile."""
        if self._preview is None or asked != self._asked():
            return
        self._end = page.end
        self._previous.setEnabled(True)
        self._next.setEnabled(page.end < page.total)
        samples = tuple(one.sample for one in page.samples)
        of = f" of class {self._class}" if self._class else ""
        self._show_samples(samples, f"No sample{of} was read here")
        last = max(self._pages[-1], page.end - 1)
        where = f"{formats.count(self._pages[-1])} to {formats.count(last)}"
        broken = f", {formats.count(len(page.errors))} could not be read" if page.errors else ""
        words = f"Samples{of}, numbers {where} of {formats.count(page.total)}{broken}"
        self._shown_words.setText(words)
        self._shown_words.setToolTip(plain_tip("\n".join(one.message for one in page.errors)))

    def show_page_error(self, asked: object, sentence: str) -> None:
        """Show why the samples cannot be read."""
        if asked == self._asked():
            self._previous.setEnabled(True)
            self._shown_words.setText(sentence)

    def _show_sample(self, sample: SamplePreview) -> None:
        self._sample_title.setText(f"Sample {sample.index}")
        main = main_part(sample)
        large = scaled(decoded(main), _LARGE, self.devicePixelRatioF())
        self._large.setPixmap(large)
        self._large.setVisible(not large.isNull())
        self._sketch.show_part(main)
        can_be_drawn = main is not None and bool(len(main.values) > 1 or main.rows)
        self._sketch.setVisible(large.isNull() and can_be_drawn)
        clear(self._sample_facts)
        facts: list[tuple[str, str]] = [("Target", sample.target)] if sample.target else []
        shown = [part for part in sample.parts if not (sample.target and part.path == "target")]
        facts += [(path_title(part.path), shape_words(part)) for part in shown]
        facts += [(f"{path_title(part.path)}, first values", v) for part, v in _values(shown)]
        facts.append(("Load time", formats.milliseconds(sample.time_ms)))
        for caption, value in facts:
            # Next to a picture there is no room for a kind and a shape in one line.
            fact = Label(value, "strong", elide="right")
            if large.isNull() and len(value) > _LINE_CHARS and " " in value:
                fact = Label(value, "body", wrap=True)
            elif " × " in value and not large.isNull():
                fact = Label(
                    value.replace(" × ", "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}"),
                    "strong",
                    wrap=True,
                )
            title = Label(caption, "tiny", "text3", elide="right")
            self._sample_facts.addLayout(col(title, fact, gap=2))
        self._sample_facts.addStretch(1)


def _values(parts: Sequence[SamplePart]) -> Sequence[tuple[SamplePart, str]]:
    return [
        (part, ", ".join(formats.metric(value) for value in part.values[:6]))
        for part in parts
        if part.display_kind in ("values", "wave") and part.values
    ]
