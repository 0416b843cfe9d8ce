"""A strip of templates above the form: one click loads one."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.template import Template
from widgets.common.buttons import Button
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import elided
from widgets.common.theme import CONTROL_H, S2

_MOST, _NAME_W = 8, 168


class TemplateStrip(QWidget):
    """A button per template, as many as fit; hidden while there are none.

    Signals:
        chosen: The name of a template.

    Attributes:
        more: The button that shows all templates.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._buttons: list[Button] = []
        self._count = 0
        self._label = Label("Begin with", "small", "text2")
        self.more = Button("All templates…", kind="quiet")
        self._row = row(self._label, self.more, STRETCH, gap=S2)
        self.setLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(CONTROL_H)
        self.hide()

    def show_templates(self, templates: Sequence[Template]) -> None:
        """Show the templates that can be used, in their order."""
        sound = [one for one in templates if not one.fault]
        self._count = len(templates)
        for old in self._buttons:
            self._row.removeWidget(old)
            old.hide()
            old.deleteLater()
        self._buttons = []
        for number, one in enumerate(sound[:_MOST]):
            shown = elided(one.name, _NAME_W, "medium")
            tip = f"{one.name}: {one.sentence}" if one.sentence else one.name
            button = Button(shown, icon="stack-simple", tip=tip)
            button.clicked.connect(lambda _=False, name=one.name: self.chosen.emit(name))
            self._row.insertWidget(1 + number, button)
            self._buttons.append(button)
        self.setVisible(bool(templates))
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(self._label.sizeHint().width(), CONTROL_H)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Show as many as fit; the last button opens the others."""
        room = self.width() - self._label.sizeHint().width() - S2
        more_w = self.more.sizeHint().width() + S2
        widths = [button.sizeHint().width() + S2 for button in self._buttons]
        all_fit = sum(widths) <= room and len(self._buttons) == self._count
        left = room if all_fit else room - more_w
        hides = False
        for button, width in zip(self._buttons, widths, strict=True):
            hides = hides or width > left
            button.setVisible(not hides)
            left -= width
        self.more.setVisible(not all_fit)
