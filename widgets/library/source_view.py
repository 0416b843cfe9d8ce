"""The files of a version, and the text of the selected file, read only."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QStringListModel, Qt, Signal, Slot
from PySide6.QtWidgets import QListView, QStackedWidget, QWidget

from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState
from widgets.common.fields import TextBox
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S2, S3
from widgets.common.view_style import TallRowDelegate, style_view

_FILES_W = 200


class SourceView(QWidget):
    """Files on the left, the text of the selected file on the right.

    Signals:
        text_requested: The path of a file whose text to show; answer with `show_text`.
        cleanup_requested: Remove the files that were added after the import.
    """

    text_requested = Signal(str)
    cleanup_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = QStringListModel()
        self._files = QListView()
        style_view(self._files, "Files")
        self._files.setModel(self._model)
        self._files.setFixedWidth(_FILES_W)
        self._files.setItemDelegate(TallRowDelegate(self._files))
        self._files.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._files.selectionModel().currentChanged.connect(self._request_text)
        self._name = Label("", "strong", elide="middle")
        self._text = TextBox(mono=True, read_only=True, name="Source")
        self._count = Label("", "small", "text3")
        self._remove_button = Button("Remove added files", icon="trash")
        self._remove_button.clicked.connect(self.cleanup_requested)
        files = col(self._count, self._remove_button, (self._files, 1), gap=S2)
        code = col(self._name, (self._text, 1), gap=S2)
        self._message_page = EmptyState("file-text", "")
        self._pages = QStackedWidget()
        self._pages.addWidget(Card(row(files, (code, 1), gap=S3)))
        self._pages.addWidget(self._message_page)
        self.setLayout(row((self._pages, 1)))
        self.clear()

    def clear(self) -> None:
        """Show another version, whose files are not known yet."""
        self._remove_button.hide()
        self._show_paths(())
        self._show_message("Reading the files…")

    def show_error(self, message: str) -> None:
        """Show why the files cannot be read."""
        self._show_message("The files cannot be read", message)

    def show_files(self, paths: tuple[str, ...], added_paths: tuple[str, ...] = ()) -> None:
        """Show these files; the entry file is opened, or else the first file.

        ``added_paths`` are the files that were added after the import.
        """
        self._show_paths(paths)
        self._remove_button.setVisible(bool(added_paths))
        if added_paths:
            suffix = f" and {formats.count(len(added_paths) - 1)} more" if added_paths[1:] else ""
            self._remove_button.set_tip(
                f"Move {added_paths[0]}{suffix}, which was not imported, to the trash"
            )
        if not paths:
            self._show_message("No files", "Some loaders download their data themselves.")
            return
        self._pages.setCurrentIndex(0)
        row_number = next((i for i, path in enumerate(paths) if path.startswith("bks_")), 0)
        self._files.selectionModel().setCurrentIndex(
            self._model.index(row_number), QItemSelectionModel.SelectionFlag.ClearAndSelect
        )

    def show_text(self, path: str, text: str) -> None:
        self._name.setText(path)
        self._text.setPlainText(text)

    def _show_paths(self, paths: tuple[str, ...]) -> None:
        self._model.setStringList(list(paths))
        # The focus ring is that of a row: without rows the focus would be invisible.
        policy = Qt.FocusPolicy.StrongFocus if paths else Qt.FocusPolicy.NoFocus
        self._files.setFocusPolicy(policy)
        self._count.setText(formats.plural(len(paths), "file"))
        self._text.setPlainText("")
        self._name.setText("")

    def _show_message(self, title: str, message: str = "") -> None:
        self._message_page.show_message("file-text", title, message)
        self._pages.setCurrentWidget(self._message_page)

    @Slot()
    def _request_text(self) -> None:
        path = self._files.currentIndex().data()
        if path:
            self.text_requested.emit(str(path))
