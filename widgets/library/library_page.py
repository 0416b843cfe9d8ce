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
from widgets.common.drop_overlay import DropOverlay
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.list_detail_splitter import DETAIL_MIN_W, ListDetailSplitter
from widgets.common.page_stack import PageStack
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
from widgets.library.item_actions import AGAIN
from widgets.library.item_groups import Entry, EntryDelegate, EntryModel, EntryRole, entries
from widgets.library.library_detail import LibraryDetail
from widgets.library.page_texts import FROM_GALLERY, GALLERY_ICON, WORDS

_NAME_CHARS = 48


class LibraryPage(QWidget):
    """One of the three pages; its `detail` sends requests about the open item.

    Signals:
        import_requested: The name to import under, "" for a new one.
        gallery_requested: Choose from the gallery.
        weights_dropped: Reference of a model, and the path of a file of weights.
        refresh_requested: Read the items: the page came to the front, or reading failed before.

    Attributes:
        kind: What it shows: datasets, models, loaders or scripts.
        split: List and item, whose widths are stored.
    """

    import_requested = Signal(str)
    gallery_requested = Signal()
    weights_dropped = Signal(str, str)
    refresh_requested = Signal()

    def __init__(self, kind: Kind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = kind
        self._words = WORDS[kind]
        self._entry: Entry | None = None
        self._wants_list = False
        self._has_none = True
        self._is_known = False
        self._model = EntryModel()
        self._make_list()
        self._make_right()
        self.split = ListDetailSplitter(self._list_pane, self._right)
        self.split.setSizes([LIBRARY_LIST_W, 2000])
        self.setLayout(col((self.split, 1), gap=0))
        FocusForwarder(self, self._list)
        QShortcut(QKeySequence("Ctrl+F"), self, self._search.setFocus)
        self.setAcceptDrops(kind is Kind.MODEL)
        self.drop_sheet = DropOverlay(self._right)
        self._slow = QTimer(self)
        self._slow.setSingleShot(True)
        self._slow.setInterval(LOADING_TEXT_DELAY_MS)
        self._slow.timeout.connect(self._say_reading)
        self._show_list(False)
        self._show_entry()

    # -- input

    def begin_reading(self) -> None:
        """Reading begins; if it takes long, the page says so."""
        if not self._is_known:
            self._slow.start()

    def show_error(self, sentence: str, remedy: str = "") -> None:
        """Show that the items cannot be read; the present ones stay, with the reason above."""
        self._slow.stop()
        if self._entry is not None:
            self.detail.show_trial_error(sentence, remedy)
            return
        title = f"The {self._words.title.lower()} cannot be read"
        words = f"{sentence} {remedy}".strip()
        self._unread.show_message("wifi-slash", title, words, button="Try again")
        self._right.setCurrentWidget(self._unread)

    def show_items(self, items: tuple[LibraryItem, ...]) -> None:
        """Show every version of every item of this kind. The selected one stays selected."""
        kept, wants_list = self.shown_name, self._wants_list
        shown = entries(items)
        self._model.put(shown)
        self._is_known = True
        self._slow.stop()
        self._show_list(bool(shown))
        entry = next((e for e in shown if e.name == kept), None)
        self._select(entry.name if entry else (shown[0].name if shown else ""))
        # The focus stays in the list.
        self._wants_list = wants_list and entry is not None
        if self._entry is None:
            self._show_entry()
        self._fit()

    def show_item(self, reference: str) -> None:
        """Open one, by name or name@version."""
        name, _, version = reference.partition("@")
        self._select(name)
        if self._entry and version:
            self.detail.open_version(version)

    @property
    def shown_name(self) -> str:
        """The name of the open item, "" if there is none."""
        return self._entry.name if self._entry else ""

    # -- construction

    def _make_list(self) -> None:
        words = self._words
        self._add = Button("Import", kind="primary", icon="plus", tip=f"Import a {words.what}")
        self._add.clicked.connect(self._import_new)
        self._search = SearchField("Name", key="Ctrl+F")
        self._search.searched.connect(self._model.search)
        self._list = QListView()
        self._list.setModel(self._model)
        self._list.setItemDelegate(EntryDelegate(self._list))
        style_view(self._list, words.title)
        self._list.selectionModel().currentChanged.connect(self._chosen)
        self._drop = StyledFrame(
            "drop",
            row(
                STRETCH,
                IconLabel("tray", "text3", ICON_NAV),
                Label("Drop a folder or file here", "small", "text2"),
                STRETCH,
            ),
        )
        self._drop.setFixedHeight(48)
        # Next to its button in an empty place.
        self._gallery = Button(FROM_GALLERY, kind="quiet", icon=GALLERY_ICON)
        self._gallery.clicked.connect(self.gallery_requested)
        title = Label(words.title, "title")
        # As high as the button, which an empty list has on its right side instead.
        title.setMinimumHeight(CONTROL_H)
        head = row(title, STRETCH, self._add)
        self._list_pane = QWidget()
        self._list_pane.setMinimumWidth(240)
        self._list_pane.setLayout(
            col(
                col(head, S1, self._search, gap=S2, margins=(S4, S3, S4, S2)),
                # A minimal share of the height goes to the stretch, which keeps the foot at the
                # bottom while the list is hidden.
                (self._list, 100),
                STRETCH,
                col(self._gallery, self._drop, margins=(S4, S2, S4, S4)),
                gap=0,
            )
        )

    def _make_right(self) -> None:
        words = self._words
        self.detail = LibraryDetail(self.kind)
        self.detail.back.clicked.connect(self._back)
        self.detail.item_actions.add_handler(AGAIN, lambda _reference: self._import_again())
        self._empty = EmptyState(
            words.icon,
            f"No {words.title.lower()} yet",
            words.belongs,
            button=f"Import {words.what}…",
            second_button=FROM_GALLERY if self.kind in IN_GALLERY else "",
            hint="or drop a folder or a zip here",
        )
        self._empty.pressed.connect(self._import_new)
        self._empty.second_pressed.connect(self.gallery_requested)
        self._unread = EmptyState(words.icon, "")
        self._unread.pressed.connect(self._refresh)
        self._right = PageStack(DETAIL_MIN_W)
        self._right.setObjectName("pane")
        self._unknown = EmptyState(words.icon, "Opening…")
        for page in (self._unknown, self._empty, self._unread):
            self._right.addWidget(page)
        self._right.addWidget(self.detail)

    # -- events

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if not _weights(event) or self._entry is None:
            # The window handles it.
            event.ignore()
            return
        event.acceptProposedAction()
        self._aim(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        event.acceptProposedAction()
        self._aim(event)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.drop_sheet.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drop_sheet.hide()
        path = _weights(event)
        if path and self.detail.reference:
            event.acceptProposedAction()
            self.weights_dropped.emit(self.detail.reference, path)

    def _aim(self, event: QDropEvent) -> None:
        """Target the open model; over the list, open the one under the pointer."""
        at = self._list.viewport().mapFrom(self, event.position().toPoint())
        if self._list.isVisible() and self._list.viewport().rect().contains(at):
            index = self._list.indexAt(at)
            if index.isValid() and index != self._list.currentIndex():
                self._select(index.data(EntryRole.ENTRY).name)
        name = sanitize(PurePath(_weights(event)).name, _NAME_CHARS)
        words = f"Give {self.detail.title} the weights “{name}”"
        if self.detail.has_weights:
            words = f"{self.detail.title} already has weights: import a new version for others"
        self.drop_sheet.open(words, self._words.icon, is_accepted=not self.detail.has_weights)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.refresh_requested.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """In a narrow window show either the list or the detail."""
        narrow = self.width() < ONE_PANE_BELOW_W - RAIL_W
        self.detail.set_alone(narrow)
        opened = self._entry is not None and not self._wants_list
        # Without any item there is no list, and the only import button is in the empty place.
        is_right = opened or self._has_none
        self._list_pane.setVisible(not narrow or not is_right)
        self._right.setVisible(not narrow or is_right)

    def _select(self, name: str) -> None:
        row_number = self._model.row_of(name)
        if row_number >= 0:
            self._list.selectionModel().setCurrentIndex(
                self._model.index(row_number), QItemSelectionModel.SelectionFlag.ClearAndSelect
            )
        self._chosen()

    @Slot()
    def _chosen(self) -> None:
        index: QModelIndex = self._list.currentIndex()
        entry = index.data(EntryRole.ENTRY) if index.isValid() else None
        self._wants_list = False
        if entry != self._entry:
            self._entry = entry
            self._show_entry()

    @Slot()
    def _back(self) -> None:
        self._wants_list = True
        self._fit()

    def _show_entry(self) -> None:
        nothing = self._empty if self._is_known else self._unknown
        self._right.setCurrentWidget(self.detail if self._entry else nothing)
        if self._entry is not None:
            self.detail.show_entry(self._entry)
        self._fit()

    def _show_list(self, has_some: bool) -> None:
        """An empty place shows the text itself, next to the button."""
        for part in (self._add, self._list, self._drop):
            part.setVisible(has_some)
        self._gallery.setVisible(has_some and self.kind in IN_GALLERY)
        self._has_none = not has_some

    @Slot()
    def _say_reading(self) -> None:
        self._unread.show_message(self._words.icon, f"Reading the {self._words.title.lower()}…")
        self._right.setCurrentWidget(self._unread)

    @Slot()
    def _refresh(self) -> None:
        self._say_reading()
        self.refresh_requested.emit()

    @Slot()
    def _import_new(self) -> None:
        self.import_requested.emit("")

    @Slot()
    def _import_again(self) -> None:
        self.import_requested.emit(self.shown_name)


def _weights(event: QDropEvent) -> str:
    """The path of the dragged file of weights, "" for anything except weights."""
    if event.source() is not None:
        return ""
    paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
    return paths[0] if len(paths) == 1 and is_weights(paths[0]) else ""
