"""Ask for the loader of a dataset, or the dataset of a loader, until one is known."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize
from widgets.common.buttons import Button
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S2, S4

_SHOWN = 6
_NAME_CHARS = 40


class PartnerQuestion(QWidget):
    """The question, a button for each answer, and a button to import another one.

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
        clear(self._answers)
        for name in names[:_SHOWN]:
            answer = Button(sanitize(name, _NAME_CHARS), icon=icon, tip=name)
            answer.clicked.connect(lambda _checked=False, name=name: self.chosen.emit(name))
            self._answers.addLayout(row(STRETCH, answer, STRETCH))
        left = len(names) - _SHOWN
        self._more.setText(f"{left} more in the list above" if left > 0 else "")
        self._more.setVisible(left > 0)
        self.setAccessibleName(title)
