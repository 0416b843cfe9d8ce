"""A strip of templates above the form: a click loads a template."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.template import Template
from widgets.common.buttons import Button
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import elide
from widgets.common.theme import CONTROL_H, S2

_MAX_TEMPLATES, _NAME_W = 8, 168


class TemplateStrip(QWidget):
    """A button per template, as many as fit; hidden while there are none.

    Signals:
        template_chosen: The name of a template.

    Attributes:
        all_button: Shows all templates.
    """

    template_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._buttons: list[Button] = []
        self._count = 0
        self._label = Label("Begin with", "small", "text2")
        self.all_button = Button("All templates…", kind="quiet")
        self._row = row(self._label, self.all_button, STRETCH, gap=S2)
        self.setLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(CONTROL_H)
        self.hide()

    def show_templates(self, templates: Sequence[Template]) -> None:
        """Show the templates that can be used, in their order."""
        valid_templates = [template for template in templates if not template.error]
        self._count = len(templates)
        for old_button in self._buttons:
            self._row.removeWidget(old_button)
            old_button.hide()
            old_button.deleteLater()
        self._buttons = []
        for index, template in enumerate(valid_templates[:_MAX_TEMPLATES]):
            label = elide(template.name, _NAME_W, "medium")
            tip = (
                f"{template.name}: {template.description}"
                if template.description
                else template.name
            )
            button = Button(label, icon="stack-simple", tip=tip)
            button.clicked.connect(
                lambda _=False, name=template.name: self.template_chosen.emit(name)
            )
            self._row.insertWidget(1 + index, button)
            self._buttons.append(button)
        self.setVisible(bool(templates))
        self._fit_buttons()

    def minimumSizeHint(self) -> QSize:
        return QSize(self._label.sizeHint().width(), CONTROL_H)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        """Show as many as fit; the last button opens the others."""
        available_w = self.width() - self._label.sizeHint().width() - S2
        more_w = self.all_button.sizeHint().width() + S2
        widths = [button.sizeHint().width() + S2 for button in self._buttons]
        all_fit = sum(widths) <= available_w and len(self._buttons) == self._count
        remaining_w = available_w if all_fit else available_w - more_w
        is_full = False
        for button, width in zip(self._buttons, widths, strict=True):
            is_full = is_full or width > remaining_w
            button.setVisible(not is_full)
            remaining_w -= width
        self.all_button.setVisible(not all_fit)
