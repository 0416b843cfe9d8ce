"""The filter row: only jobs with a tag, of a user, on a node, or with a metric in a range."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.summary import JobChoices, JobQuery
from widgets.common.buttons import Button
from widgets.common.cards import StyledFrame
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.layout import STRETCH, row
from widgets.common.theme import S2, S3

_RANGE_W = 84
_NUMBER_ERROR = "Enter a number, such as 0.9 or 1e-3."


class FilterPanel(StyledFrame):
    """A row of filters; an empty filter matches all jobs.

    Signals:
        filter_changed: The filter changed; call `narrow_query`.
    """

    filter_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("card", parent=parent)
        self._tag = ComboBox(name="Tag")
        self._user = ComboBox(name="User")
        self._node = ComboBox(name="Node")
        self._metric = ComboBox(name="Best metric")
        self._low = LineEdit(placeholder="any", name="Best metric from")
        self._high = LineEdit(placeholder="any", name="Best metric to")
        self._low_field = Field("From", self._low)
        self._high_field = Field("To", self._high)
        self._boxes = (self._tag, self._user, self._node, self._metric)
        for box in self._boxes:
            box.currentIndexChanged.connect(self._emit_changed)
        for field in (self._low, self._high):
            field.setFixedWidth(_RANGE_W)
            field.editingFinished.connect(self._emit_changed)
        clear_button = Button("Clear", kind="quiet")
        clear_button.clicked.connect(self.clear)
        self._emitted_query = self.narrow_query(JobQuery())
        fields = ((Field(box.accessibleName(), box), 1) for box in self._boxes)
        self.setLayout(
            row(
                *fields,
                self._low_field,
                self._high_field,
                STRETCH,
                Field("", clear_button),
                gap=S2,
                margins=(S3, S2, S3, S2),
                top=True,
            )
        )
        self.show_choices(JobChoices())

    def show_choices(self, choices: JobChoices) -> None:
        """Set the options; the current selection stays."""
        for box, any_label, values in zip(
            self._boxes,
            ("Any tag", "Any user", "Any node", "Any metric"),
            (choices.tags, choices.users, choices.nodes, choices.metrics),
            strict=True,
        ):
            make_title = metric_label if box is self._metric else _title
            selected_value = box.key()
            options = [("", any_label), *((value, make_title(value)) for value in values)]
            if selected_value and selected_value not in values:
                options.append((selected_value, make_title(selected_value)))
            box.set_options(options, selected_value)

    def narrow_query(self, query: JobQuery) -> JobQuery:
        """Return ``query`` with these filters added."""
        return replace(
            query,
            tag=self._tag.key(),
            user=self._user.key(),
            node=self._node.key(),
            metric=self._metric.key(),
            low=_parse_number(self._low.text())[0],
            high=_parse_number(self._high.text())[0],
        )

    @Slot()
    def clear(self) -> None:
        for box in self._boxes:
            box.choose("")
        self._low.clear()
        self._high.clear()
        self._emit_changed()

    @Slot()
    def _emit_changed(self) -> None:
        for field, edit in ((self._low_field, self._low), (self._high_field, self._high)):
            field.set_error("" if _parse_number(edit.text())[1] else _NUMBER_ERROR)
        query = self.narrow_query(JobQuery())
        if query != self._emitted_query:
            self._emitted_query = query
            self.filter_changed.emit()


def _title(key: str) -> str:
    return "This computer" if key == "this-computer" else key


def _parse_number(text: str) -> tuple[float | None, bool]:
    """Return the number, and whether the text is a number or empty."""
    try:
        value = float(text.replace(",", ".")) if text.strip() else None
    except ValueError:  # The caller marks the field.
        return None, False
    return (value, True) if value is None or abs(value) <= 1e300 else (None, False)
