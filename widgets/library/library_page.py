"""Datasets, Models and Loaders: the list on the left, one item on the right.

One page class serves all three, because the actions are the same: import, preview, compare
versions.
"""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QTimer, Signal, Slot
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QListView, QWidget

from backend.records.base.validation import sanitize
from backend.records.library.gallery import IN_GALLERY
from backend.records.library.item import Kind, LibraryItem, is_weights
from widgets.common.buttons import Button
from widgets.common.cards import LOADING_TEXT_DELAY_MS, EmptyState, StyledFrame
from widgets.common.drag_and_drop import DropOverlay
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.panes import DETAIL_MIN_W, ListDetailSplitter, PageStack
from widgets.common.theme import (
    CONTROL_H,
    ICON_NAV,
    LIBRARY_LIST_W,
    ONE_PANE_BELOW_W,
    RAIL_W,
    S1,
    S2,
    S3,
    S4,
)
from widgets.common.view_style import style_view
from widgets.library.item_actions import NEW_VERSION
from widgets.library.item_groups import Entry, EntryDelegate, EntryModel, EntryRole, group_by_name
from widgets.library.library_detail import DETAILS
from widgets.library.page_texts import FROM_GALLERY, GALLERY_ICON, PAGE_TEXTS

_NAME_CHARS = 48


class LibraryPage(QWidget):
    """The page of a kind of items; its `detail` sends requests about the open item.

    Signals:
        import_requested: The name to import under, "" for a new name.
        gallery_requested: Choose from the gallery.
        weights_dropped: Reference of a model, and the path of a file of weights.
        refresh_requested: Read the items: the page came to the front, or reading failed before.

    Attributes:
        kind: The kind of the items: datasets, models, loaders or scripts.
        splitter: List and item, whose widths are stored.
    """

    import_requested = Signal(str)
    gallery_requested = Signal()
    weights_dropped = Signal(str, str)
    refresh_requested = Signal()

    def __init__(self, kind: Kind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = kind
        self._texts = PAGE_TEXTS[kind]
        self._entry: Entry | None = None
        self._shows_list = False
        self._is_empty = True
        self._is_loaded = False
        self._model = EntryModel()
        self._make_list()
        self._make_detail_pane()
        self.splitter = ListDetailSplitter(self._list_pane, self._detail_pane)
        self.splitter.setSizes([LIBRARY_LIST_W, 2000])
        self.setLayout(col((self.splitter, 1), gap=0))
        FocusForwarder(self, self._list)
        QShortcut(QKeySequence("Ctrl+F"), self, self._search.setFocus)
        self.setAcceptDrops(kind is Kind.MODEL)
        self.drop_overlay = DropOverlay(self._detail_pane)
        self._reading_timer = QTimer(self, singleShot=True, interval=LOADING_TEXT_DELAY_MS)
        self._reading_timer.timeout.connect(self._show_reading)
        self._show_list(False)
        self._show_entry()

    # -- input

    def begin_reading(self) -> None:
        """Show after a while that the items are being read."""
        if not self._is_loaded:
            self._reading_timer.start()

    def show_error(self, message: str, remedy: str = "") -> None:
        """Show that the items cannot be read; present items stay, with the reason above."""
        self._reading_timer.stop()
        if self._entry is not None:
            self.detail.show_trial_error(message, remedy)
            return
        title = f"The {self._texts.title.lower()} cannot be read"
        text = f"{message} {remedy}".strip()
        self._message_page.show_message("wifi-slash", title, text, button="Try again")
        self._detail_pane.setCurrentWidget(self._message_page)

    def show_items(self, items: tuple[LibraryItem, ...]) -> None:
        """Show every version of every item of this kind. The selected item stays selected."""
        selected_name, shows_list = self.shown_name, self._shows_list
        entries = group_by_name(items)
        self._model.set_entries(entries)
        self._is_loaded = True
        self._reading_timer.stop()
        self._show_list(bool(entries))
        entry = next((e for e in entries if e.name == selected_name), None)
        self._select_entry(entry.name if entry else (entries[0].name if entries else ""))
        # The focus stays in the list.
        self._shows_list = shows_list and entry is not None
        if self._entry is None:
            self._show_entry()
        self._fit_panes()

    def show_item(self, reference: str) -> None:
        """Open an item by name or name@version."""
        name, _, version = reference.partition("@")
        self._select_entry(name)
        if self._entry and version:
            self.detail.open_version(version)

    @property
    def shown_name(self) -> str:
        """The name of the open item, "" for none."""
        return self._entry.name if self._entry else ""

    # -- construction

    def _make_list(self) -> None:
        texts = self._texts
        self._import_button = Button(
            "Import", kind="primary", icon="plus", tip=f"Import a {texts.noun}"
        )
        self._import_button.clicked.connect(self._import_new)
        self._search = SearchField("Name", key="Ctrl+F")
        self._search.searched.connect(self._model.search)
        self._list = QListView()
        self._list.setModel(self._model)
        self._list.setItemDelegate(EntryDelegate(self._list))
        style_view(self._list, texts.title)
        self._list.selectionModel().currentChanged.connect(self._open_current)
        self._drop_area = StyledFrame(
            "drop",
            row(
                STRETCH,
                IconLabel("tray", "text3", ICON_NAV),
                Label("Drop a folder or file here", "small", "text2"),
                STRETCH,
            ),
        )
        self._drop_area.setFixedHeight(48)
        # An empty page has this button itself.
        self._gallery_button = Button(FROM_GALLERY, kind="quiet", icon=GALLERY_ICON)
        self._gallery_button.clicked.connect(self.gallery_requested)
        title = Label(texts.title, "title")
        # As high as the button, which an empty page shows instead.
        title.setMinimumHeight(CONTROL_H)
        head = row(title, STRETCH, self._import_button)
        self._list_pane = QWidget()
        self._list_pane.setMinimumWidth(240)
        self._list_pane.setLayout(
            col(
                col(head, S1, self._search, gap=S2, margins=(S4, S3, S4, S2)),
                # A minimal share of the height goes to the stretch, which keeps the foot at the
                # bottom while the list is hidden.
                (self._list, 100),
                STRETCH,
                col(self._gallery_button, self._drop_area, margins=(S4, S2, S4, S4)),
                gap=0,
            )
        )

    def _make_detail_pane(self) -> None:
        texts = self._texts
        self.detail = DETAILS[self.kind]()
        self.detail.back_button.clicked.connect(self._return_to_list)
        self.detail.item_actions.add_handler(
            NEW_VERSION, lambda _reference: self.import_requested.emit(self.shown_name)
        )
        self._empty_page = EmptyState(
            texts.icon,
            f"No {texts.title.lower()} yet",
            texts.description,
            button=f"Import {texts.noun}…",
            second_button=FROM_GALLERY if self.kind in IN_GALLERY else "",
            hint="or drop a folder or a zip here",
        )
        self._empty_page.pressed.connect(self._import_new)
        self._empty_page.second_pressed.connect(self.gallery_requested)
        self._message_page = EmptyState(texts.icon, "")
        self._message_page.pressed.connect(self._refresh)
        self._detail_pane = PageStack(DETAIL_MIN_W)
        self._detail_pane.setObjectName("pane")
        self._opening_page = EmptyState(texts.icon, "Opening…")
        for page in (self._opening_page, self._empty_page, self._message_page):
            self._detail_pane.addWidget(page)
        self._detail_pane.addWidget(self.detail)

    # -- events

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if not _weights_path(event) or self._entry is None:
            # The window handles it.
            event.ignore()
            return
        event.acceptProposedAction()
        self._show_drop_target(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        event.acceptProposedAction()
        self._show_drop_target(event)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.drop_overlay.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drop_overlay.hide()
        path = _weights_path(event)
        if path and self.detail.reference:
            event.acceptProposedAction()
            self.weights_dropped.emit(self.detail.reference, path)

    def _show_drop_target(self, event: QDropEvent) -> None:
        """Target the open model; over the list, open the model under the pointer."""
        position = self._list.viewport().mapFrom(self, event.position().toPoint())
        if self._list.isVisible() and self._list.viewport().rect().contains(position):
            index = self._list.indexAt(position)
            if index.isValid() and index != self._list.currentIndex():
                self._select_entry(index.data(EntryRole.ENTRY).name)
        name = sanitize(PurePath(_weights_path(event)).name, _NAME_CHARS)
        text = f"Give {self.detail.title} the weights “{name}”"
        if self.detail.has_weights:
            text = f"{self.detail.title} already has weights: import a new version for others"
        self.drop_overlay.open(text, self._texts.icon, is_accepted=not self.detail.has_weights)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.refresh_requested.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_panes()

    def _fit_panes(self) -> None:
        """Show either the list or the detail in a narrow window."""
        is_narrow = self.width() < ONE_PANE_BELOW_W - RAIL_W
        self.detail.set_list_hidden(is_narrow)
        shows_entry = self._entry is not None and not self._shows_list
        # Without any item there is no list, and the only import button is on the empty page.
        shows_detail = shows_entry or self._is_empty
        self._list_pane.setVisible(not is_narrow or not shows_detail)
        self._detail_pane.setVisible(not is_narrow or shows_detail)

    def _select_entry(self, name: str) -> None:
        row_number = self._model.row_of(name)
        if row_number >= 0:
            self._list.selectionModel().setCurrentIndex(
                self._model.index(row_number), QItemSelectionModel.SelectionFlag.ClearAndSelect
            )
        self._open_current()

    @Slot()
    def _open_current(self) -> None:
        index: QModelIndex = self._list.currentIndex()
        entry = index.data(EntryRole.ENTRY) if index.isValid() else None
        self._shows_list = False
        if entry != self._entry:
            self._entry = entry
            self._show_entry()

    @Slot()
    def _return_to_list(self) -> None:
        self._shows_list = True
        self._fit_panes()

    def _show_entry(self) -> None:
        empty_page = self._empty_page if self._is_loaded else self._opening_page
        self._detail_pane.setCurrentWidget(self.detail if self._entry else empty_page)
        if self._entry is not None:
            self.detail.show_entry(self._entry)
        self._fit_panes()

    def _show_list(self, has_items: bool) -> None:
        """Show the list and its buttons, which an empty page has itself."""
        for widget in (self._import_button, self._list, self._drop_area):
            widget.setVisible(has_items)
        self._gallery_button.setVisible(has_items and self.kind in IN_GALLERY)
        self._is_empty = not has_items

    @Slot()
    def _show_reading(self) -> None:
        self._message_page.show_message(
            self._texts.icon, f"Reading the {self._texts.title.lower()}…"
        )
        self._detail_pane.setCurrentWidget(self._message_page)

    @Slot()
    def _refresh(self) -> None:
        self._show_reading()
        self.refresh_requested.emit()

    @Slot()
    def _import_new(self) -> None:
        self.import_requested.emit("")


def _weights_path(event: QDropEvent) -> str:
    """Return the path of the dragged file of weights, "" for anything except weights."""
    if event.source() is not None:
        return ""
    paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
    return paths[0] if len(paths) == 1 and is_weights(paths[0]) else ""
