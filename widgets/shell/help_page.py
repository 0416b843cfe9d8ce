"""The help: topics on the left, the text of the selected topic on the right."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QItemSelectionModel, QStringListModel, QUrl, Signal, Slot
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent, QTextCursor
from PySide6.QtWidgets import QListView, QWidget

from widgets.common.buttons import Button
from widgets.common.cards import PageHeader, StyledFrame
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.rich_text import RichText
from widgets.common.theme import LIBRARY_LIST_W, PAGE_MARGIN, S1, S2, S4
from widgets.common.view_style import TallRowDelegate, style_view


@dataclass(frozen=True)
class Topic:
    """A page in Markdown. ``key`` is its name in links of other pages."""

    key: str
    title: str
    markdown: str


class HelpPage(QWidget):
    """The help of the program.

    Signals:
        topics_requested: The page was opened; answer with `show_topics`.
        link_opened: Address of a link to another site, or to a file next to the topics.
    """

    topics_requested = Signal()
    link_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self._topics: tuple[Topic, ...] = ()
        self._topic_key = ""
        self._model = QStringListModel()
        self._list = QListView()
        style_view(self._list, "Topics")
        self._list.setModel(self._model)
        self._list.setItemDelegate(TallRowDelegate(self._list))
        self._list.selectionModel().currentChanged.connect(self._show_topic)
        self._text = RichText()
        self._text.setAccessibleName("Text of the topic")
        self._text.anchorClicked.connect(self._follow_link)
        self._search = SearchField("Search this page", key="Ctrl+F")
        self._search.searched.connect(self._find_first)
        self._search.returnPressed.connect(self._find_next)
        self._no_match_label = Label("", "small", "text2", wrap=True)
        self._no_match_label.hide()
        self.keys = Button("Keyboard shortcuts", icon="keyboard", kind="quiet")
        QShortcut(QKeySequence("Ctrl+F"), self, self._search.setFocus)
        topics_pane = QWidget()
        topics_pane.setFixedWidth(LIBRARY_LIST_W)
        topics_pane.setLayout(
            col(
                col(self._search, self._no_match_label, gap=S1, margins=(S4, 0, S4, S2)),
                (col((self._list, 1), margins=(S4, 0, S4, 0)), 1),
                row(self.keys, STRETCH, margins=(S2, S2, S4, S4)),
                gap=0,
            )
        )
        text = row((self._text, 1), gap=0, margins=(PAGE_MARGIN, PAGE_MARGIN, 0, 0))
        body = row(topics_pane, (StyledFrame("pane", text), 1), gap=0)
        self.setLayout(col(PageHeader("Help"), (body, 1), gap=0))
        FocusForwarder(self, self._list)

    def show_topics(self, topics: tuple[Topic, ...]) -> None:
        if topics != self._topics:
            self._topics = topics
            self._model.setStringList([topic.title for topic in topics])
        self.open_topic(self._topic_key or (topics[0].key if topics else ""))

    def open_topic(self, key: str) -> None:
        """Open a page at its top, now or when it has been read."""
        self._topic_key = key
        number = next((n for n, topic in enumerate(self._topics) if topic.key == key), None)
        if number is not None:
            self._list.selectionModel().setCurrentIndex(
                self._model.index(number), QItemSelectionModel.SelectionFlag.ClearAndSelect
            )

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.topics_requested.emit()

    @Slot()
    def _show_topic(self) -> None:
        number = self._list.currentIndex().row()
        if 0 <= number < len(self._topics):
            self._topic_key = self._topics[number].key
            self._text.show_markdown(self._topics[number].markdown)
            self._find_first(self._search.text())

    @Slot(QUrl)
    def _follow_link(self, url: QUrl) -> None:
        if not url.path() and url.fragment():
            self._text.show_heading(url.fragment())
        elif any(topic.key == url.path() for topic in self._topics):
            self.open_topic(url.path())
            self._text.show_heading(url.fragment())
        else:
            self.link_opened.emit(url.toString())

    @Slot(str)
    def _find_first(self, text: str) -> None:
        self._text.moveCursor(QTextCursor.MoveOperation.Start)
        has_match = not text or self._text.find(text)
        self._no_match_label.setText("" if has_match else f"No match on this page for “{text}”.")
        self._no_match_label.setVisible(not has_match)

    @Slot()
    def _find_next(self) -> None:
        if not self._text.find(self._search.text()):
            self._find_first(self._search.text())
