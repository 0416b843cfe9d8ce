"""The editor of several values for one field: listed, ticked, or a range with steps."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from backend.records.sweeps.values import (
    ARGUMENT,
    LINEAR,
    LISTS,
    LOG,
    Axis,
    axis_text,
    field_kind,
    has_ranges,
    parse_axis,
    value_text,
    with_point,
)
from widgets.common import formats
from widgets.common.buttons import Button, CheckBox, SegmentedControl
from widgets.common.cards import VerticalScrollArea
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.popover import Popover
from widgets.common.theme import CONTROL_H, S1, S2, S3, S4

_WIDTH = 372
_LIST, _RANGE = "list", "range"
_MAX_ROWS = 6


class MultiValueEditor(Popover):
    """The popover with the values; closing it without "Use" changes nothing.

    Signals:
        axis_chosen: The new `Axis` of the field.
        single_requested: The field returns to one value.
    """

    axis_chosen = Signal(object)
    single_requested = Signal()

    def __init__(
        self,
        path: str,
        label: str,
        axis: Axis | None,
        current_value: str = "",
        options: Sequence[tuple[str, str]] = (),
        *,
        window: QWidget,
        draws_at_random: bool = False,
    ) -> None:
        """
        Args:
            draws_at_random: A range begins without steps, for values from anywhere within.
            window: The widget that the editor covers.
            current_value: The single value of the field.
            options: The options as (value, text); empty if the user types the values.
        """
        super().__init__(window, _WIDTH)
        self._path = path
        self._base_value = current_value.strip() or None
        self._draws_at_random = draws_at_random
        self._axis: Axis | None = None
        self._ticks: dict[str, CheckBox] = {}
        self._kinds = SegmentedControl(
            [(_LIST, "Values"), (_RANGE, "From – to")], _LIST, name="How the values are given"
        )
        self._kinds.setVisible(not options and has_ranges(path))
        self._pages = QStackedWidget()
        self._pages.addWidget(
            self._make_ticks(options, axis, current_value) if options else self._make_list()
        )
        self._pages.addWidget(self._make_range())
        self._preview = Label("", "small", "text2", wrap=True)
        self._use_button = Button("Use", kind="primary")
        self._use_button.clicked.connect(self._use_axis)
        single_button = Button("One value", tip="Use a single value for this field")
        single_button.clicked.connect(self._request_single)
        single_button.setVisible(axis is not None)
        self.setLayout(
            col(
                row(Label(f"Several values: {label}", "strong", elide="right"), STRETCH, gap=S2),
                self._kinds,
                self._pages,
                self._preview,
                row(single_button, STRETCH, self._use_button, gap=S2),
                gap=S3,
                margins=(S4, S3, S4, S4),
            )
        )
        self._kinds.key_chosen.connect(self._show_page)
        if not options:
            self._fill_lines(axis, current_value)
        self._update_preview()

    def open_at(self, control: QWidget) -> None:
        """Show the editor below a control, with the focus in its first field."""
        self.open_below(control, next(iter(self._ticks.values()), None) or self._first_line())
        if not self._ticks:
            # Typing replaces the old values.
            self._first_line().selectAll()

    def axis(self) -> Axis | None:
        """Return the current values, None if they are not valid."""
        return self._axis

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._use_axis()
        else:
            super().keyPressEvent(event)

    # -- construction

    def _make_list(self) -> QWidget:
        self._list_edit = LineEdit(
            placeholder="0.01, 0.03, 0.1", name="Values, separated by commas"
        )
        self._list_edit.textChanged.connect(self._update_preview)
        page = QWidget()
        separator = "semicolons" if field_kind(self._path) in LISTS else "commas"
        page.setLayout(col(Field(f"Values, separated by {separator}", self._list_edit), STRETCH))
        return page

    def _make_ticks(
        self, options: Sequence[tuple[str, str]], axis: Axis | None, current_value: str
    ) -> QWidget:
        ticked_values = (
            {current_value} if axis is None else {value_text(value) for value in axis.values}
        )
        for key, text in options:
            box = CheckBox(text)
            box.setChecked(key in ticked_values)
            box.toggled.connect(self._update_preview)
            self._ticks[key] = box
        tick_list = QWidget()
        tick_list.setLayout(col(*self._ticks.values(), STRETCH, gap=S1))
        scroll = VerticalScrollArea(tick_list)
        scroll.setFixedHeight(min(len(options), _MAX_ROWS) * (CONTROL_H + S1))
        return scroll

    def _make_range(self) -> QWidget:
        self._low_edit = LineEdit(name="From")
        self._high_edit = LineEdit(name="To")
        steps = "" if self._draws_at_random else "3"
        self._steps_edit = LineEdit(steps, placeholder="any", name="How many values")
        self._scale = SegmentedControl(
            [(LINEAR, "Equal steps"), (LOG, "Equal factors")], LINEAR, name="How they are spaced"
        )
        for line in (self._low_edit, self._high_edit, self._steps_edit):
            line.textChanged.connect(self._update_preview)
        self._scale.key_chosen.connect(self._update_preview)
        page = QWidget()
        fields = row(
            (Field("From", self._low_edit), 1),
            (Field("To", self._high_edit), 1),
            (Field("Values", self._steps_edit), 1),
            gap=S2,
        )
        page.setLayout(col(fields, self._scale, gap=S3))
        return page

    def _fill_lines(self, axis: Axis | None, current_value: str) -> None:
        if axis is None:
            self._list_edit.setText(current_value)
            self._low_edit.setText(current_value)
        elif axis.span is None:
            self._list_edit.setText(axis_text(axis))
        else:
            is_argument = field_kind(self._path) == ARGUMENT
            end_values = axis.span.low, axis.span.high
            low, high = axis.span.end_texts if is_argument else map(value_text, end_values)
            self._low_edit.setText(low)
            self._high_edit.setText(high)
            self._steps_edit.setText(str(axis.span.steps or ""))
            self._scale.choose(axis.span.scale)
            self._kinds.choose(_RANGE)
            self._pages.setCurrentIndex(1)

    def _first_line(self) -> LineEdit:
        return self._list_edit if self._pages.currentIndex() == 0 else self._low_edit

    # -- events

    @Slot(str)
    def _show_page(self, key: str) -> None:
        self._pages.setCurrentIndex(0 if key == _LIST else 1)
        self._first_line().setFocus()
        self._update_preview()

    @Slot()
    def _update_preview(self) -> None:
        """Show the values that the input gives, or why it is not valid."""
        reason = ""
        try:
            self._axis = self._read_axis()
        except ValueError as error:
            self._axis = None
            reason = str(error).partition(": ")[2]
            reason = reason[:1].upper() + reason[1:]
        points = () if self._axis is None else self._axis.points()
        is_open = self._axis is not None and self._axis.is_drawn_only
        if self._axis is not None and len(points) < 2 and not is_open:
            self._axis, reason = None, "Choose at least two values."
        is_error = self._axis is None and len(points) != 1
        self._preview.set_color_role("bad" if is_error else "text2")
        self._preview.setText(reason if self._axis is None else axis_text(self._axis))
        values = formats.plural(len(points), "value")
        self._use_button.setText(f"Use {values}" if points and self._axis else "Use")
        self._use_button.setEnabled(self._axis is not None)

    def _read_axis(self) -> Axis:
        if self._ticks:
            ticked_keys = [key for key, box in self._ticks.items() if box.isChecked()]
            if field_kind(self._path) == "flag":
                return Axis(self._path, tuple(key == "yes" for key in ticked_keys))
            if not ticked_keys:
                raise ValueError(f"{self._path}: Tick at least two values.")
            return Axis(self._path, tuple(ticked_keys))
        if self._pages.currentIndex() == 0:
            return parse_axis(self._path, self._list_edit.text(), self._base_value)
        low, high, steps = (
            with_point(line.text().strip())
            for line in (self._low_edit, self._high_edit, self._steps_edit)
        )
        if not (low and high):
            raise ValueError(f"{self._path}: Enter From and To; without Values, a search chooses.")
        text = f"{low}..{high}:{steps or 0}:{self._scale.key()}"
        axis = parse_axis(self._path, text, self._base_value)
        if axis.span is None:
            raise ValueError(f"{self._path}: From, To and the number of values must be numbers.")
        return axis

    @Slot()
    def _use_axis(self) -> None:
        if self._axis is not None:
            self.axis_chosen.emit(self._axis)
            self.close()

    @Slot()
    def _request_single(self) -> None:
        self.single_requested.emit()
        self.close()
