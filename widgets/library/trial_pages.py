"""The tabs that a preview or a check fills, with a text while there is no result."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from backend.records.base.validation import sanitize
from backend.records.library.layers import ModelLayers
from backend.records.library.preview import ModelCheck, Preview
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import EmptyState
from widgets.common.key_value_row import KeyValue
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S2, S4
from widgets.library.check_view import CheckView
from widgets.library.layers_view import LayersView
from widgets.library.sample_parts import shape_words
from widgets.library.samples_view import SamplesView
from widgets.library.scan_view import ScanView
from widgets.library.statistics_view import StatisticsView

_SHOWN = 6
_NAME_CHARS = 40
_EMPTY, _QUESTION = 1, 2
_NOT_READ = (
    "No preview yet",
    "A loader reads the files and shows samples, classes and possible problems.",
)
_NO_LAYERS = (
    "No layers yet",
    "Choose a dataset and a loader: one batch passes through the model and shows its layers.",
)
_NOT_CHECKED = (
    "Not checked yet",
    "The check imports the model and runs one step forward and backward.",
)


class TrialPages:
    """The pages of the tabs that a trial fills.

    Attributes:
        pages: By the key of its tab, each with its view or with a text.
        scan: The page of the tab Scan.
        questions: The question on the pages of samples and statistics until a partner is known.
    """

    def __init__(self) -> None:
        self.samples = SamplesView()
        self.no_samples, self._no_statistics = (EmptyState("database", "") for _ in range(2))
        self.statistics = StatisticsView()
        self.scan = ScanView()
        self.check = CheckView()
        self._no_check = EmptyState("cube", "")
        self.layers = LayersView()
        self._no_layers = EmptyState("stack", "")
        self.questions = (PartnerQuestion(), PartnerQuestion())
        self.pages = {
            "samples": _with_empty(self.samples, self.no_samples, self.questions[0]),
            "statistics": _with_empty(self.statistics, self._no_statistics, self.questions[1]),
            "check": _with_empty(self.check, self._no_check),
            "layers": _with_empty(self.layers, self._no_layers),
        }
        self.say_not_yet()

    def clear(self) -> None:
        """Show another version, which has no results yet."""
        self.say_not_yet()
        self.samples.clear()
        self.scan.clear()
        for pages in self.pages.values():
            pages.setCurrentIndex(_EMPTY)

    def ask(self, icon: str, title: str, names: Sequence[str], button: str) -> None:
        """Ask for the partner that a preview needs."""
        for key, question in zip(("samples", "statistics"), self.questions, strict=True):
            question.ask(icon, title, names, button)
            if self.pages[key].currentIndex() == _EMPTY:
                self.pages[key].setCurrentIndex(_QUESTION)

    def show_preview(self, preview: Preview) -> None:
        self.samples.show_preview(preview)
        self.statistics.show_preview(preview)
        for key, view, empty in (
            ("samples", self.samples, self.no_samples),
            ("statistics", self.statistics, self._no_statistics),
        ):
            self.pages[key].setCurrentWidget(view if preview.samples else empty)
            empty.show_message("database", *_without_samples(preview))

    def show_check(self, check: ModelCheck) -> None:
        self.check.show_check(check)
        self.pages["check"].setCurrentWidget(self.check)

    def show_layers(self, layers: ModelLayers) -> None:
        self.layers.show_layers(layers)
        self.pages["layers"].setCurrentWidget(self.layers)

    def say_not_yet(self) -> None:
        for empty in (self.no_samples, self._no_statistics):
            empty.show_message("database", *_NOT_READ)
        self._no_check.show_message("cube", *_NOT_CHECKED)
        self._no_layers.show_message("stack", *_NO_LAYERS)

    def say_under_way(self) -> None:
        # Another loader may have been chosen.
        self.scan.clear()
        for pages in self.pages.values():
            if pages.currentIndex() == _QUESTION:
                pages.setCurrentIndex(_EMPTY)
        for empty in (self.no_samples, self._no_statistics):
            empty.show_message("database", "Reading the samples…", _NOT_READ[1])
        self._no_check.show_message("cube", "Checking the model…", _NOT_CHECKED[1])
        self._no_layers.show_message("stack", "Reading the layers…", _NO_LAYERS[1])

    def say_failed(self) -> None:
        for empty, title in (
            (self.no_samples, "No samples"),
            (self._no_statistics, "No statistics"),
        ):
            empty.show_message("database", title, "Fix the problem above, then try again.")
        self._no_check.show_message("cube", "No result", "Fix the problem above, then check again.")
        self._no_layers.show_message("stack", "No layers", "Fix the problem above, then try again.")


def preview_facts(preview: Preview) -> list[KeyValue]:
    """The facts of a preview, for the header of the page."""
    facts = [
        KeyValue("Samples", formats.count(preview.count)),
        *(
            KeyValue(part.path.capitalize(), shape_words(part))
            for sample in preview.samples[:1]
            for part in sample.parts[:2]
        ),
    ]
    if preview.item_time_ms > 0:
        time = formats.milliseconds(preview.item_time_ms)
        facts.append(KeyValue("Load time", f"{time} a sample"))
    return facts


def _without_samples(preview: Preview) -> tuple[str, str]:
    if not preview.count:
        return "No samples", "The loader found none in these files."
    items = formats.plural(preview.count, "sample")
    return (
        "No sample could be read",
        f"None of the {items} could be read. Fix the loader, then try again.",
    )


def _with_empty(*pages: QWidget) -> QStackedWidget:
    stack = QStackedWidget()
    for page in pages:
        stack.addWidget(page)
    stack.setCurrentIndex(_EMPTY)
    return stack


class PartnerQuestion(QWidget):
    """Ask for the loader of a dataset, or the dataset of a loader, until one is known.

    There is a button for each answer, and one to import another.

    Signals:
        chosen: A name.
        import_requested: The import button was pressed.
    """

    chosen = Signal(str)
    import_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked: tuple[object, ...] = ()
        self._icon = IconLabel("funnel", "text3", 32)
        self._title = Label("", "heading", align="center")
        self._answers = col(gap=S2)
        self._more = Label("", "small", "text3", align="center")
        self._import = Button("Import…", icon="upload-simple")
        self._import.clicked.connect(self.import_requested)
        lines = (self._icon, self._title, self._answers, self._more, self._import)
        centred = (row(STRETCH, line, STRETCH) for line in lines)
        self.setLayout(col(STRETCH, *centred, STRETCH, STRETCH, gap=S2, margins=(S4, S4, S4, S4)))

    def ask(self, icon: str, title: str, names: Sequence[str], button: str) -> None:
        """Offer ``names``, the most likely first; the list above has those without a button."""
        asked = (icon, title, tuple(names), button)
        if asked == self._asked:
            return
        self._asked = asked
        self._icon.set_icon(icon, "text3")
        self._title.setText(title)
        self._import.setText(button)
        self._import.setVisible(bool(button))
        clear(self._answers)
        for name in names[:_SHOWN]:
            answer = Button(sanitize(name, _NAME_CHARS), icon=icon, tip=name)
            answer.clicked.connect(lambda _checked=False, name=name: self.chosen.emit(name))
            self._answers.addLayout(row(STRETCH, answer, STRETCH))
        left = len(names) - _SHOWN
        self._more.setText(f"{left} more in the list above" if left > 0 else "")
        self._more.setVisible(left > 0)
        self.setAccessibleName(title)
