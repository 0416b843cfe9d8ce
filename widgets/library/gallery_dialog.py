"""Add a model or a loader from the gallery: pictures, a card, and the settings to write into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QGridLayout,
    QListView,
    QStyleOptionViewItem,
    QWidget,
)

from backend.records.base.validation import name_error
from backend.records.jobs.flat_settings import flatten
from backend.records.jobs.settings import label, name_and_unit, value_label
from backend.records.library.depth_plan import NETWORK
from backend.records.library.gallery import CardSetting, DataShape, GalleryEntry
from backend.records.library.item import Kind
from backend.records.library.layers import LayerGraph
from widgets.common import formats, icons
from widgets.common.buttons import Button, SegmentedControl, Switch, UnderlinedTabs
from widgets.common.cards import EmptyState, VerticalScrollArea
from widgets.common.dialog import Dialog, TaskStatus
from widgets.common.fields import ComboBox, Field, LineEdit, SearchField, SpinBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.panes import PageStack
from widgets.common.record_table_model import RECORD_ROLE, RowTableModel, TableColumn
from widgets.common.theme import CONTROL_H, ICON_NAV, S2, S3, S4, S6
from widgets.common.view_style import style_view
from widgets.library.item_groups import EntryDelegate
from widgets.library.layer_graph import LayerGraphView, paint_strip
from widgets.library.layers_view import short_count
from widgets.library.page_texts import PAGE_TEXTS

_WIDTH, _HEIGHT, _LIST_W = 940, 680, 308
_SETTING_COLUMNS = 2
_BATCH_SIZE, _MAX_BATCH = name_and_unit("batch_size")[0], 1_000_000
_SEGMENTS_CHARS = 24
"""Choices whose labels are longer together are shown as a list."""


@dataclass(frozen=True)
class GalleryPreset:
    """The contents of the dialog when it opens.

    Attributes:
        entry: The name of the selected entry; by default the first entry that takes the data.
        settings: Typed values for the entry.
        data: The data that every entry has to take.
        name: The name in the library; by default the name of the entry.
        choices: Values to offer for settings that take any text.
    """

    entry: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    data: DataShape = field(default_factory=DataShape)
    name: str = ""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class GalleryChoice:
    """An entry to add, with the typed values of its settings and its name in the library."""

    entry: str
    settings: Mapping[str, str]
    name: str


class GalleryDialog(Dialog):
    """The dialog for models and for loaders.

    Signals:
        add_requested: A `GalleryChoice`; answer with `show_progress`, then `accept` or
            `show_error`.
        cancel_requested: Cancel the running addition.
        plan_requested: Plan the depth of a network instead.
    """

    add_requested = Signal(object)
    cancel_requested = Signal()
    plan_requested = Signal()

    def __init__(
        self,
        kind: Kind,
        newest_versions: Mapping[str, int],
        preset: GalleryPreset | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """Build the dialog; `newest_versions` has the newest version of each existing name."""
        noun = PAGE_TEXTS[kind].noun
        super().__init__(f"{noun.capitalize()} from the gallery", _WIDTH, parent, height=_HEIGHT)
        self._kind, self._newest_versions = kind, newest_versions
        self._preset = preset or GalleryPreset()
        self._typed_settings: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}
        self._rows: dict[str, GalleryRow] = {}
        self._entry: GalleryEntry | None = None
        self._fields: dict[str, Field] = {}
        self._is_busy = False
        self._make_list()
        self._make_card()
        self._name = LineEdit(name="Name in the library")
        self._name.textEdited.connect(self._store_name)
        self._name_field = Field("Name in the library", self._name)
        self._status = TaskStatus("Adding")
        self._status.cancelled.connect(self.cancel_requested)
        self._add_button = self.default_button("Add", self._request_addition)
        self._close_button = self.close_button("Cancel")
        self._empty_page = EmptyState(PAGE_TEXTS[kind].icon, "Reading the gallery…")
        self._entry_pages = PageStack()
        entry_page = QWidget()
        foot = row((self._name_field, 1), S4, (self._status, 1), gap=0)
        entry_page.setLayout(col(self._tabs, (self._pages, 1), foot, gap=S3))
        for page in (self._empty_page, entry_page):
            self._entry_pages.addWidget(page)
        list_pane = QWidget()
        list_pane.setFixedWidth(_LIST_W)
        list_pane.setLayout(col(self._search, (self._list, 1), self._collection_button, gap=S2))
        self.fill(
            (row(list_pane, (self._entry_pages, 1), gap=S6), 1),
            foot=(self._close_button, self._add_button),
        )
        self._show_entry()

    # -- input

    def show_entries(self, entries: Sequence[GalleryEntry]) -> None:
        data = self._preset.data
        sorted_entries = sorted(entries, key=data.sort_key) if self._kind is Kind.MODEL else entries
        self._rows = {
            entry.name: GalleryRow(entry, misfit=data.misfit_reason(entry.card))
            for entry in sorted_entries
        }
        preset = self._rows.get(self._preset.entry)
        collections = [row.entry.card.collection for row in self._rows.values()]
        self._collection_button.setText(
            f"{next(filter(None, collections), '')} ({len([*filter(None, collections)])})"
        )
        self._collection_button.setVisible(any(collections))
        self._collection_button.setChecked(
            preset is not None and bool(preset.entry.card.collection)
        )
        self._filter_entries("")
        self._select_entry(self._preset.entry)
        self._list.setFocus()

    def show_graph(self, name: str, graph: LayerGraph | str) -> None:
        """Show the layout of a model's layers, or why there is no layout."""
        if isinstance(graph, LayerGraph):
            self._rows[name] = replace(self._rows[name], graph=graph)
            self._filter_entries(self._search.text())
        if self._entry is not None and self._entry.name == name:
            self._show_graph(graph)

    def show_progress(self, share: float | None, text: str) -> None:
        self._is_busy = True
        self._status.show_progress(share, text)
        self._check_name()

    def show_error(self, message: str) -> None:
        """Show why nothing was added, or why the gallery cannot be read."""
        self._is_busy = False
        self._status.show_result("bad", message)
        if not self._rows:
            self._empty_page.show_message("warning-octagon", "The gallery cannot be read", message)
        self._check_name()

    def reject(self) -> None:
        if self._is_busy:
            self.cancel_requested.emit()
        super().reject()

    # -- construction

    def _make_list(self) -> None:
        self._search = SearchField("Title or task")
        self._search.searched.connect(self._search_entries)
        self._model = list_model()
        self._list = QListView()
        self._list.setModel(self._model)
        self._list.setItemDelegate(GalleryDelegate(self._list))
        style_view(self._list, f"{PAGE_TEXTS[self._kind].title} of the gallery")
        self._list.selectionModel().currentChanged.connect(self._open_current)
        self._collection_button = Button("", kind="quiet", icon="caret-down")
        self._collection_button.setCheckable(True)
        self._collection_button.clicked.connect(self._search_entries)

    def _make_card(self) -> None:
        self._tabs = UnderlinedTabs((("card", "Card"), ("layers", "Layers")), "card", name="Parts")
        self._tabs.key_chosen.connect(self._show_tab)
        self._title = Label("", "name", wrap=True)
        self._about = Label("", "body", "text", wrap=True)
        self._source = Label("", "small", "text2", wrap=True)
        self._note = Label("", "small", "text2", wrap=True)
        self._training = Label("", "small", "text2", wrap=True)
        self._misfit_label = Label("", "body", "warn", wrap=True)
        self._plan_button = Button(
            "Plan the depth…", icon="stack", tip="How deep can a network be?"
        )
        self._plan_button.clicked.connect(self.plan_requested)
        self._details = KeyValueRow()
        self._batch = SpinBox(32, minimum=1, maximum=_MAX_BATCH, name=_BATCH_SIZE)
        self._batch.valueChanged.connect(self._show_figures)
        self._memory = Label("", "body", "text")
        self._figures = QWidget()
        batch = row(Label(_BATCH_SIZE, "small", "text2"), self._batch, self._memory, STRETCH)
        self._defaults = Label("", "tiny", "text3", wrap=True)
        self._figures.setLayout(col(self._details, batch, self._defaults))
        self._settings = QGridLayout()
        self._settings.setSpacing(S3)
        for column in range(_SETTING_COLUMNS):
            self._settings.setColumnStretch(column, 1)
        card = QWidget()
        card.setLayout(
            col(
                *(self._title, self._about, self._misfit_label, self._figures, self._settings),
                *(
                    row(self._plan_button, STRETCH),
                    self._training,
                    self._note,
                    self._source,
                    STRETCH,
                ),
                gap=S3,
            )
        )
        self._graph = LayerGraphView()
        self._no_graph = EmptyState("tree-structure", "")
        self._pages = PageStack()
        for page in (VerticalScrollArea(card, gutter=S4), self._graph, self._no_graph):
            self._pages.addWidget(page)

    # -- the list

    def _filter_entries(self, text: str) -> None:
        """Show the entries with all words in name, title or task; without words no collections."""
        tokens = text.casefold().split()
        is_open = bool(tokens) or self._collection_button.isChecked()
        rows = [row for row in self._rows.values() if is_open or not row.entry.card.collection]
        searched_rows = ((row, f"{row.entry.name} {row.description}".casefold()) for row in rows)
        self._model.set_records(
            [row for row, text in searched_rows if all(token in text for token in tokens)]
        )

    def _select_entry(self, name: str) -> None:
        names = [row.entry.name for row in self._model.rows]
        self._list.setCurrentIndex(self._model.index(names.index(name) if name in names else 0, 0))
        self._open_current()

    @Slot()
    def _search_entries(self) -> None:
        text = self._search.text()
        self._collection_button.set_icon(
            "caret-up" if self._collection_button.isChecked() else "caret-down"
        )
        selected_name = self._entry.name if self._entry is not None else ""
        self._filter_entries(text)
        self._empty_page.show_message(
            "magnifying-glass", f"Nothing in the gallery matches “{text}”."
        )
        self._select_entry(selected_name)

    @Slot()
    def _open_current(self) -> None:
        index: QModelIndex = self._list.currentIndex()
        entry = index.data(RECORD_ROLE).entry if index.isValid() else None
        if entry is not self._entry:
            self._entry = entry
            self._show_entry()

    # -- the card

    def _show_entry(self) -> None:
        entry = self._entry
        self._entry_pages.setCurrentIndex(0 if entry is None else 1)
        if entry is not None:
            card = entry.card
            self._title.setText(card.title)
            self._about.setText(card.about)
            figures = entry.figures
            complexity = formats.metric(figures.relative_complexity) if figures is not None else ""
            complexity_note = (
                f". Its convolutions compute {complexity} × AlexNet" if complexity else ""
            )
            self._source.setText(f"Source: {card.source}{complexity_note}.")
            self._note.setText(f"Note: {card.note}")
            self._note.setVisible(bool(card.note))
            settings = ((label(k), value_label(k, v)) for k, v in flatten(card.training).items())
            training = ", ".join(f"{name.lower()} {value}" for name, value in settings)
            self._training.setText(f"A new job begins with {training}.")
            self._training.setVisible(bool(card.training))
            misfit = self._rows[entry.name].misfit
            self._misfit_label.setText(f"{misfit}.")
            self._misfit_label.setVisible(bool(misfit))
            self._plan_button.setVisible(entry.name == NETWORK)
            self._batch.setValue(int(card.training.get("batch_size", self._batch.value())))
            self._name.setText(self._names.get(entry.name) or self._preset.name or entry.name)
            self._show_settings(entry)
            self._show_figures()
            self._show_graph(self._rows[entry.name].graph)
            self._show_tab(self._tabs.key())
            if not self._is_busy:
                self._status.clear()
        self._check_name()

    @Slot()
    def _show_figures(self) -> None:
        entry = self._entry
        figures = entry.figures if entry is not None else None
        self._tabs.setVisible(figures is not None)
        self._figures.setVisible(figures is not None)
        if entry is None or figures is None:
            self._tabs.choose("card")
            return
        layers = figures.layers.of_batch(self._batch.value())
        multiply_adds = layers.multiply_adds
        self._details.set_items(
            (
                KeyValue("Parameters", formats.count(layers.parameters)),
                KeyValue("Weights", formats.memory(4 * layers.parameters)),
                KeyValue(
                    "Multiply-adds a sample",
                    formats.NONE if multiply_adds is None else short_count(multiply_adds),
                ),
            )
        )
        typed_settings = self._typed_settings.get(entry.name, {})
        defaults = {
            key: _value_text(setting.default) for key, setting in entry.card.settings.items()
        }
        changed_settings = [
            f"{entry.card.settings[key].label.lower()} {default}"
            for key, default in defaults.items()
            if typed_settings.get(key, default) != default
        ]
        self._defaults.setText(
            f"Figures are those of {', '.join(changed_settings)}." if changed_settings else ""
        )
        self._memory.setText(f"{formats.memory(layers.activation_bytes)} of outputs")

    def _show_graph(self, graph: LayerGraph | str | None) -> None:
        entry = self._entry
        if entry is None or entry.figures is None:
            return
        if isinstance(graph, LayerGraph):
            self._graph.show_graph(graph, entry.figures.layers.layers)
        elif graph is None:
            self._no_graph.show_message("tree-structure", "Laying the graph out…")
        else:
            self._no_graph.show_message("tree-structure", "No graph", graph)
        self._show_tab(self._tabs.key())

    @Slot(str)
    def _show_tab(self, key: str) -> None:
        has_graph = self._entry is not None and self._rows[self._entry.name].graph is not None
        self._pages.setCurrentIndex((1 if has_graph else 2) if key == "layers" else 0)

    # -- the settings

    def _show_settings(self, entry: GalleryEntry) -> None:
        clear(self._settings)
        self._fields = {}
        values = self._typed_settings.setdefault(entry.name, self._initial_values(entry))
        misfits = self._preset.data.invalid_sizes(entry.card)
        for number, (key, setting) in enumerate(entry.card.settings.items()):
            control = self._make_control(key, setting, values[key])
            field = self._fields[key] = Field(setting.label, control)
            field.set_note(_setting_note(setting))
            if key in misfits:
                field.set_note(
                    f"The data has {misfits[key]}; valid is {setting.valid_text()}.", "warn"
                )
            self._settings.addWidget(
                field, *divmod(number, _SETTING_COLUMNS), Qt.AlignmentFlag.AlignTop
            )
        self._mark_errors()

    def _initial_values(self, entry: GalleryEntry) -> dict[str, str]:
        values: dict[str, object] = {k: s.default for k, s in entry.card.settings.items()}
        data = self._preset.data
        misfits = data.invalid_sizes(entry.card)
        values |= {k: v for k, v in data.settings(entry.card).items() if k not in misfits}
        values |= self._preset.settings if entry.name == self._preset.entry else {}
        return {key: _value_text(values[key]) for key in entry.card.settings}

    def _make_control(self, key: str, setting: CardSetting, text: str) -> QWidget:
        def apply_value(value: str | bool) -> None:
            if self._entry is not None:
                self._typed_settings[self._entry.name][key] = _value_text(value)
            self._mark_errors()

        if isinstance(setting.default, bool):
            switch = Switch(name=setting.label)
            switch.setMinimumHeight(CONTROL_H)
            switch.setChecked(text == _value_text(True))
            switch.toggled.connect(apply_value)
            return switch
        is_preset = self._entry is not None and self._entry.name == self._preset.entry
        columns = dict.fromkeys(self._preset.choices.get(key, ()) if is_preset else ())
        options = [(_value_text(choice), _value_text(choice)) for choice in setting.choices]
        options += [("", "Default"), *((name, name) for name in columns if name)] if columns else []
        is_short = sum(len(title) for _, title in options) <= _SEGMENTS_CHARS
        if options and not columns and is_short:
            segments = SegmentedControl(options, text, name=setting.label, height=CONTROL_H)
            segments.key_chosen.connect(apply_value)
            return segments
        if options:
            combo = ComboBox(options, text, name=setting.label)
            combo.currentIndexChanged.connect(lambda _index: apply_value(combo.key()))
            return combo
        line_edit = LineEdit(text, name=setting.label)
        line_edit.textEdited.connect(apply_value)
        return line_edit

    @Slot()
    def _mark_errors(self) -> None:
        if self._entry is None:
            return
        values = self._typed_settings[self._entry.name]
        for key, control in self._fields.items():
            control.set_error(_setting_error(key, self._entry.card.settings[key], values[key]))
        self._show_figures()
        self._check_name()

    @Slot(str)
    def _store_name(self, name: str) -> None:
        if self._entry is not None:
            self._names[self._entry.name] = name
        self._check_name()

    @Slot()
    def _check_name(self) -> None:
        name = self._name.text()
        error = name_error(name) if name else ""
        self._name_field.set_error(error)
        version = self._newest_versions.get(name, 0)
        note = f"“{name}” exists; other settings become its version {version + 1}."
        self._name_field.set_note(note if version else "")
        invalid_fields = [field for field in self._fields.values() if field.error()]
        is_complete = self._entry is not None and bool(name) and not error and not invalid_fields
        self._add_button.setEnabled(is_complete and not self._is_busy)
        self._add_button.set_tip(
            f"{formats.plural(len(invalid_fields), 'setting')} to correct" if invalid_fields else ""
        )
        # While work is running, the line of its status has the Cancel button.
        self._close_button.setVisible(not self._is_busy)

    # -- events

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Add nothing for Enter in the search or the batch size."""
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        focus = self.focusWidget()
        if is_enter and focus is self._search:
            self._list.setFocus()
        elif not is_enter or not isinstance(focus, QAbstractSpinBox):
            super().keyPressEvent(event)

    @Slot()
    def _request_addition(self) -> None:
        if self._entry is not None and self._add_button.isEnabled():
            name = self._entry.name
            choice = GalleryChoice(name, dict(self._typed_settings[name]), self._name.text())
            self.show_progress(None, "Copying the code")
            self.add_requested.emit(choice)


def _value_text(value: object) -> str:
    """Return a value as `CardSetting.parse` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _setting_note(setting: CardSetting) -> str:
    """Return what the setting does, or which numbers are valid."""
    has_limits = setting.minimum is not None or setting.maximum is not None
    limits = setting.valid_text().capitalize() + "." if has_limits and not setting.choices else ""
    return setting.help or limits


def _setting_error(key: str, setting: CardSetting, text: str) -> str:
    try:
        setting.parse(key.replace("_", " ").capitalize(), text)
    except ValueError as error:
        return f"{error}."
    return ""


_PICTURE_W, _INSET = 64, 6


@dataclass(frozen=True)
class GalleryRow:
    """An entry, and the graph of its layers once the graph is laid out."""

    entry: GalleryEntry
    graph: LayerGraph | None = None
    misfit: str = ""
    """The reason why the entry cannot take the data of the job, "" if no reason is known."""

    @property
    def size(self) -> str:
        """The number of parameters of a model, "" if it is unknown."""
        figures = self.entry.figures
        return short_count(figures.layers.parameters) if figures is not None else ""

    @property
    def description(self) -> str:
        """The row as text: "LeNet-5, 431 k parameters, classification"."""
        card, size = self.entry.card, f"{self.size} parameters" if self.size else ""
        return ", ".join(filter(None, (card.title, size, card.task, self.misfit)))


def list_model() -> RowTableModel[GalleryRow]:
    return RowTableModel((TableColumn[GalleryRow]("Entry", lambda row: row.description),))


class GalleryDelegate(EntryDelegate):
    """A small picture at the left, two lines next to it."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        row: GalleryRow = index.data(RECORD_ROLE)
        card, figures = row.entry.card, row.entry.figures
        painter.save()
        text_rect = self.paint_texts(
            *(painter, option, (card.title, row.size, row.misfit or card.task)),
            indent=_PICTURE_W + S3,
            title_color="text3" if row.misfit else "text",
        )
        picture_rect = QRectF(
            text_rect.left() - _PICTURE_W - S3, text_rect.top(), _PICTURE_W, text_rect.height()
        )
        if row.graph is not None and figures is not None:
            strip_rect = picture_rect.adjusted(0, _INSET, 0, -_INSET)
            paint_strip(painter, strip_rect, row.graph, figures.layers.layers)
        else:
            icon_rect = QRectF(0, 0, ICON_NAV, ICON_NAV)
            icon_rect.moveCenter(picture_rect.center())
            icons.paint_icon(painter, icon_rect, PAGE_TEXTS[row.entry.kind].icon, "text3")
        painter.restore()
