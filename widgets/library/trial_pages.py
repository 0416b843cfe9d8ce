"""The tabs that a preview or a check fills, with a text while there is no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QTableView, QWidget

from backend.records.base.validation import sanitize
from backend.records.library.layers import ModelLayers
from backend.records.library.preview import (
    LayerRow,
    ModelCheck,
    Preview,
    rare_class_warning,
    rare_classes,
)
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label, plain_tip
from widgets.common.layout import SLACK, STRETCH, clear, col, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import CARD_PADDING, S2, S3, S4, Family
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.library.layers_view import LayersView
from widgets.library.sample_parts import shape_text
from widgets.library.samples_view import SamplesView
from widgets.library.scan_view import ScanView
from widgets.library.statistics_view import StatisticsView

_MAX_ANSWERS = 6
_NAME_CHARS = 40
_EMPTY, _QUESTION = 1, 2


_NO_RESULT, _RUNNING, _FAILED = 1, 2, 3
_PREVIEW = "database", "No preview yet", "Reading the samples…"
_PREVIEW_HINT = "A loader reads the files and shows samples, classes and possible problems."
_LAYERS_HINT = (
    "Choose a dataset and a loader: one batch passes through the model and shows its layers."
)
_CHECK_HINT = "The check imports the model and runs one step forward and backward."
_TEXTS = {
    "samples": (*_PREVIEW, "No samples", _PREVIEW_HINT),
    "statistics": (*_PREVIEW, "No statistics", _PREVIEW_HINT),
    "check": ("cube", "Not checked yet", "Checking the model…", "No result", _CHECK_HINT),
    "layers": ("stack", "No layers yet", "Reading the layers…", "No layers", _LAYERS_HINT),
}
"""By tab: icon, titles before a trial, during a trial and after an error, and a hint."""
TRIAL_TABS = tuple(_TEXTS)
"""The tabs that a preview or a check fills."""


@dataclass(frozen=True)
class Trial:
    """A dataset to be read by a loader, or a model to be tried on both ("" for none)."""

    dataset: str = ""
    loader: str = ""
    model: str = ""


class TrialPages:
    """The pages of the tabs that a trial fills; a kind of item has only those of its tabs.

    Attributes:
        pages: The pages by the key of their tab, each with its view or with a text.
        scan: The page of the tab Scan.
        empty_states: The texts on the pages without a result, by the key of their tab.
        questions: The question on the pages of samples and statistics until a partner is known.
    """

    samples = cached_property(lambda _pages: SamplesView())
    statistics = cached_property(lambda _pages: StatisticsView())
    scan = cached_property(lambda _pages: ScanView())
    check = cached_property(lambda _pages: CheckView())
    layers = cached_property(lambda _pages: LayersView())

    def __init__(self, tab_keys: Sequence[str]) -> None:
        self.has_scan = "scan" in tab_keys
        keys = [key for key in tab_keys if key in TRIAL_TABS]
        self.empty_states = {key: EmptyState(_TEXTS[key][0], "") for key in keys}
        self.questions = {key: PartnerQuestion() for key in keys if key in TRIAL_TABS[:2]}
        self.pages = {
            key: _stack_pages(getattr(self, key), empty_state, self.questions.get(key))
            for key, empty_state in self.empty_states.items()
        }
        self.show_no_result()

    def clear(self) -> None:
        """Show another version, which has no results yet."""
        self.show_no_result()
        if "samples" in self.pages:
            self.samples.clear()
        if self.has_scan:
            self.scan.clear()
        for pages in self.pages.values():
            pages.setCurrentIndex(_EMPTY)

    def ask(self, icon: str, title: str, names: Sequence[str], button: str) -> None:
        """Ask for the partner that a preview needs."""
        for key, question in self.questions.items():
            question.ask(icon, title, names, button)
            if self.pages[key].currentIndex() == _EMPTY:
                self.pages[key].setCurrentIndex(_QUESTION)

    def show_preview(self, preview: Preview) -> None:
        self.samples.show_preview(preview)
        if "statistics" in self.pages:
            self.statistics.show_preview(preview)
        for key, pages in self.pages.items():
            pages.setCurrentIndex(0 if preview.samples else _EMPTY)
            self.empty_states[key].show_message("database", *_no_samples_texts(preview))

    def show_check(self, check: ModelCheck) -> None:
        self.check.show_check(check)
        self.pages["check"].setCurrentWidget(self.check)

    def show_layers(self, layers: ModelLayers) -> None:
        self.layers.show_layers(layers)
        self.pages["layers"].setCurrentWidget(self.layers)

    def show_no_result(self) -> None:
        self._show_texts(_NO_RESULT)

    def show_running(self) -> None:
        if self.has_scan:
            # Another loader may have been chosen.
            self.scan.clear()
        for pages in self.pages.values():
            if pages.currentIndex() == _QUESTION:
                pages.setCurrentIndex(_EMPTY)
        self._show_texts(_RUNNING)

    def show_failed(self) -> None:
        self._show_texts(_FAILED)

    def _show_texts(self, title_index: int) -> None:
        for key, empty_state in self.empty_states.items():
            action = "check" if key == "check" else "try"
            error_hint = f"Fix the problem above, then {action} again."
            hint = error_hint if title_index == _FAILED else _TEXTS[key][-1]
            empty_state.show_message(_TEXTS[key][0], _TEXTS[key][title_index], hint)


def preview_details(preview: Preview) -> list[KeyValue]:
    """Return the details of a preview, for the header of the page."""
    details = [
        KeyValue("Samples", formats.count(preview.count)),
        *(
            KeyValue(part.path.capitalize(), shape_text(part))
            for sample in preview.samples[:1]
            for part in sample.parts[:2]
        ),
    ]
    if preview.item_time_ms > 0:
        time = formats.milliseconds(preview.item_time_ms)
        details.append(KeyValue("Load time", f"{time} a sample"))
    return details


def _no_samples_texts(preview: Preview) -> tuple[str, str]:
    if not preview.count:
        return "No samples", "The loader found none in these files."
    sample_count = formats.plural(preview.count, "sample")
    return (
        "No sample could be read",
        f"None of the {sample_count} could be read. Fix the loader, then try again.",
    )


def _stack_pages(*pages: QWidget | None) -> QStackedWidget:
    stack = QStackedWidget()
    for page in pages:
        if page is not None:
            stack.addWidget(page)
    stack.setCurrentIndex(_EMPTY)
    return stack


class PartnerQuestion(QWidget):
    """A question for the loader of a dataset, or the dataset of a loader, until one is known.

    There is a button for each answer, and a button to import another partner.

    Signals:
        partner_chosen: A name.
        import_requested: The import button was pressed.
    """

    partner_chosen = Signal(str)
    import_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._question: tuple[object, ...] = ()
        self._icon = IconLabel("funnel", "text3", 32)
        self._title = Label("", "heading", align="center")
        self._answers = col(gap=S2)
        self._more_label = Label("", "small", "text3", align="center")
        self._import_button = Button("Import…", icon="upload-simple")
        self._import_button.clicked.connect(self.import_requested)
        lines = (self._icon, self._title, self._answers, self._more_label, self._import_button)
        centered_lines = (row(STRETCH, line, STRETCH) for line in lines)
        self.setLayout(
            col(STRETCH, *centered_lines, STRETCH, STRETCH, gap=S2, margins=(S4, S4, S4, S4))
        )

    def ask(self, icon: str, title: str, names: Sequence[str], button: str) -> None:
        """Offer ``names``, the most likely first; the list above has the names without a button."""
        question = (icon, title, tuple(names), button)
        if question == self._question:
            return
        self._question = question
        self._icon.set_icon(icon, "text3")
        self._title.setText(title)
        self._import_button.setText(button)
        self._import_button.setVisible(bool(button))
        clear(self._answers)
        for name in names[:_MAX_ANSWERS]:
            answer = Button(sanitize(name, _NAME_CHARS), icon=icon, tip=name)
            answer.clicked.connect(
                lambda _is_checked=False, name=name: self.partner_chosen.emit(name)
            )
            self._answers.addLayout(row(STRETCH, answer, STRETCH))
        remaining_count = len(names) - _MAX_ANSWERS
        self._more_label.setText(
            f"{remaining_count} more in the list above" if remaining_count > 0 else ""
        )
        self._more_label.setVisible(remaining_count > 0)
        self.setAccessibleName(title)


class PreviewBanner(Banner):
    """The first finding of a preview, and the number of others, with all in the tool tip.

    Signals:
        class_requested: The name of a class whose samples to show.
    """

    class_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.hide()

    def show_preview(self, preview: Preview) -> None:
        messages = (*(error.message for error in preview.errors), *preview.warnings)
        self.setVisible(bool(messages))
        if not messages:
            return
        cause, separator, effect = messages[0].partition(". ")
        remainder = formats.plural(len(messages) - 1, "more finding") + "." if messages[1:] else ""
        family: Family = "bad" if preview.errors else "warn"
        self.set_finding(
            family, cause + separator.rstrip(), " ".join(filter(None, (effect, remainder)))
        )
        self.setToolTip(plain_tip("\n".join(messages)) if remainder else "")
        is_of_class = messages[0] == rare_class_warning(preview.classes)
        self.set_actions([self._class_button(preview)] if is_of_class else [])

    def show_message(self, family: Family, message: str, remedy: str = "") -> None:
        """Show another message, such as the reason why there are no samples."""
        self.set_finding(family, message, remedy)
        self.setToolTip("")
        self.set_actions([])
        self.show()

    def _class_button(self, preview: Preview) -> Button:
        name = rare_classes(preview.classes)[0].name
        button = Button("Show them", kind="quiet", tip=f"Samples of class {name}")
        button.clicked.connect(lambda: self.class_requested.emit(name))
        return button


_WIDE_MIN_W = 1100

_COLUMNS = (
    TableColumn[LayerRow]("Layer", lambda layer: layer.name, lambda layer: layer.name),
    TableColumn[LayerRow]("Kind", lambda layer: layer.kind),
    TableColumn[LayerRow]("Output", lambda layer: layer.output or "–"),
    TableColumn[LayerRow](
        "Parameters",
        lambda layer: formats.count(layer.parameters) if layer.parameters else "–",
        is_figure=True,
    ),
)


class CheckView(QWidget):
    """The tab Check of a model."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._details = KeyValueRow()
        self._warnings = Label("", "body", "warn", wrap=True)
        self._model = RowTableModel(_COLUMNS)
        table = QTableView()
        table.setModel(self._model)
        style_view(table, "Layers")
        self._table = table
        card = Card((table, 1))
        TableHeightLimit(table, card, 2 * CARD_PADDING)
        self.setLayout(col(Card(self._details, self._warnings), (card, 1), SLACK, gap=S3))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        share_column_width(self._table, 0, equally=self.width() >= _WIDE_MIN_W)

    def show_check(self, check: ModelCheck) -> None:
        total, trainable = check.parameters, check.trainable_parameters
        details = [KeyValue("Parameters", formats.count(total))]
        if trainable != total:
            details.append(KeyValue("Trained", formats.count(trainable)))
        details.append(KeyValue("Memory", formats.memory(check.parameter_bytes)))
        if check.was_tried:
            details += [
                KeyValue("Loss on one batch", formats.metric(check.loss)),
                KeyValue("Forward", formats.milliseconds(check.forward_ms)),
                KeyValue("Backward", formats.milliseconds(check.backward_ms)),
                KeyValue("Output", check.output_shape),
                KeyValue("Batch", check.batch),
            ]
        self._details.set_items(details)
        self._warnings.setText(" ".join(check.warnings))
        self._warnings.setVisible(bool(check.warnings))
        self._model.set_records(check.layers)
