"""Form fields: a label above, a unit inside, and the error below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QObject,
    QPoint,
    QRect,
    QRectF,
    QSize,
    QStringListModel,
    Qt,
    QTimer,
    Signal,
    Slot,
)
from PySide6.QtGui import (
    QDragEnterEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QLineEdit,
    QListView,
    QPlainTextEdit,
    QSizePolicy,
    QSlider,
    QSpinBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QStyleOptionFrame,
    QStylePainter,
    QWidget,
)

from widgets.common import icons, theme
from widgets.common.buttons import Button, IconButton
from widgets.common.labels import IconLabel, Label, native_key, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import fill_round, paint_focus, paint_text
from widgets.common.style import repolish
from widgets.common.theme import ICON_SMALL, LABEL_GAP, SEGMENTED_SMALL_H, ColorRole

_COMBO_MAX_W = 240
_ERROR_GAP = 2
_TEXT_GAP = 2
"""Qt's own, between the edge and the text of a line edit."""
LEADS_FOCUS = "leadsFocus"
"""The property of a part of a page that gives its focus to its list."""
_TEXT_KEYS = "ACVXYZ"
"""Keys of a text field with Ctrl: select all, copy, paste, cut, redo, undo."""
if TYPE_CHECKING:
    _Widget = QWidget
else:
    _Widget = object


class _TextFieldMixin(_Widget):
    """A text field that leaves dropped files to the window, and its keys: Ctrl+E moves a cursor."""

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.ignore()
        else:
            super().dragEnterEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            is_letter = Qt.Key.Key_A <= event.key() <= Qt.Key.Key_Z
            is_ctrl_letter = event.modifiers() == Qt.KeyboardModifier.ControlModifier and is_letter
            if is_ctrl_letter and chr(event.key()) not in _TEXT_KEYS:
                event.ignore()
                return False
        return bool(super().event(event))


class LineEdit(_TextFieldMixin, QLineEdit):
    """One line of text, or a number with its unit at the right inside.

    A text that does not fit ends in "…" without the focus.
    """

    def __init__(
        self,
        text: str = "",
        *,
        placeholder: str = "",
        unit: str = "",
        name: str = "",
        mono: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(text, parent)
        self._suggestions: QStringListModel | None = None
        self.setFont(theme.font("mono" if mono else "body"))
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name or placeholder)
        self._unit = Label("", "small", "text3", parent=self)
        self.setLayout(row(STRETCH, self._unit, margins=(10, 0, 10, 0)))
        self.set_unit(unit)

    def suggest(self, suggestions: Iterable[str]) -> None:
        """Suggest those ``suggestions`` that contain the typed text."""
        if self._suggestions is None:
            # One completer for all lists: replacing it crashed PySide 6.11.3 (it deletes the
            # previous list).
            self._suggestions = QStringListModel(self)
            completer = QCompleter(self._suggestions, self)
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
            rows = QListView()
            rows.setObjectName("popover")
            completer.setPopup(rows)
            # The style sheet reaches the rows of the list only through this delegate.
            rows.setItemDelegate(QStyledItemDelegate(completer))
            completer.activated.connect(self.textEdited)
            self.setCompleter(completer)
        self._suggestions.setStringList(list(suggestions))

    def set_unit(self, unit: str) -> None:
        self._unit.setText(unit)
        self.reserve_width(0)

    def reserve_width(self, width: int) -> None:
        """Reserve space at the right for a widget over the field; it covers the unit."""
        self._unit.setVisible(bool(self._unit.text()) and not width)
        self.setTextMargins(0, 0, width or self._unit_width(), 0)

    def _unit_width(self) -> int:
        return self._unit.sizeHint().width() + 6 if self._unit.text() else 0

    def minimumSizeHint(self) -> QSize:
        """The size that includes the unit, also while the unit is covered."""
        hint = super().minimumSizeHint()
        return hint + QSize(self._unit_width() - self.textMargins().right(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        is_typed_in = self.hasFocus() and not self.isReadOnly()
        visible_text = self.text()
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        text_rect = (
            self.style()
            .subElementRect(QStyle.SubElement.SE_LineEditContents, option, self)
            .marginsRemoved(self.textMargins())
            .adjusted(_TEXT_GAP, 0, -_TEXT_GAP, 0)
        )
        if not is_typed_in and self.echoMode() is QLineEdit.EchoMode.Normal:
            visible_text = self.fontMetrics().elidedText(
                visible_text, Qt.TextElideMode.ElideRight, text_rect.width()
            )
        if visible_text == self.text():
            super().paintEvent(event)
            return
        painter = QStylePainter(self)
        painter.drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, option)
        alignment = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        role = QPalette.ColorRole.Text
        self.style().drawItemText(
            painter, text_rect, alignment, self.palette(), self.isEnabled(), visible_text, role
        )


class _WheelMixin(_Widget):
    """A field that the wheel changes only with the focus, not while a page scrolls below it."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class SpinBox(_WheelMixin, _TextFieldMixin, QSpinBox):
    """A whole number."""

    def __init__(
        self,
        value: int = 0,
        *,
        minimum: int = 0,
        maximum: int = 2**31 - 1,
        unit: str = "",
        name: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setFont(theme.font("body"))
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        # The style sheet hides its arrows: with `NoButtons` and an edge from a style sheet Qt 6.11
        # makes the number one pixel wide.
        label = Label(unit, "small", "text3", parent=self)
        label.setVisible(bool(unit))
        label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setLayout(row(STRETCH, label, margins=(10, 0, 10, 0)))
        right = label.sizeHint().width() + 16 if unit else 10
        self.lineEdit().setTextMargins(10, 0, right, 0)
        self.lineEdit().setAcceptDrops(False)
        self.setRange(minimum, maximum)
        self.setValue(value)


class ComboBox(_WheelMixin, QComboBox):
    """A choice from a list of options, each with a key and a text.

    If it ``is_open``, a typed text may be no option; the text is then the key.
    """

    def __init__(
        self,
        options: Iterable[tuple[str, str]] = (),
        selected_key: str = "",
        *,
        name: str = "",
        is_open: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._suffix = ""
        self._reserved_w = 0
        self.setFont(theme.font("body"))
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        if is_open:
            self.setEditable(True)
            self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
            line = self.lineEdit()
            assert line is not None
            line.setAccessibleName(name)
        # The style sheet reaches the rows of the list only through this delegate.
        self.setItemDelegate(QStyledItemDelegate(self))
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        # Qt does not know that the width depends on the selected option.
        self.currentIndexChanged.connect(self.updateGeometry)
        self.set_options(options, selected_key)

    def key(self) -> str:
        """The key of the selected option, "" if there is none."""
        data = self.currentData()
        if self.isEditable():
            text = self.currentText().strip()
            index = self.findText(text, Qt.MatchFlag.MatchFixedString)
            data = self.itemData(index) if index >= 0 else text
        return data if isinstance(data, str) else ""

    def set_suffix(self, text: str) -> None:
        """Set the text after the selected option, which is set elsewhere: "momentum 0.9"."""
        self._suffix = text
        self.setToolTip(plain_tip(self.display_text()) if text else "")
        self.update()

    def arrow_width(self) -> int:
        return self.width() - self._text_rect().right()

    def reserve_width(self, width: int) -> None:
        """Reserve space for a widget over the field, left of the arrow."""
        self._reserved_w = width
        self.update()

    def _text_rect(self) -> QRect:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        kind = QStyle.ComplexControl.CC_ComboBox
        return self.style().subControlRect(kind, option, part, self)

    def display_text(self) -> str:
        """The selected option with its suffix."""
        return ", ".join(filter(None, (self.currentText(), self._suffix)))

    def clear_choice(self) -> None:
        """Select the default, which is the first option, or nothing if there is a placeholder."""
        self.setCurrentIndex(-1 if self.placeholderText() else 0)

    def choose(self, key: str) -> None:
        """Select by key; an unknown key clears the selection."""
        self.setCurrentIndex(self.findData(key))

    def set_options(self, options: Iterable[tuple[str, str]], selected_key: str = "") -> None:
        """Set options as (key, text). The selected option stays if it still exists."""
        next_key = selected_key or self.key()
        fallback_index = -1 if self.placeholderText() else 0
        was_blocked = self.blockSignals(True)
        self.clear()
        for key, text in options:
            self.addItem(text, key)
            self.setItemData(self.count() - 1, plain_tip(text), Qt.ItemDataRole.ToolTipRole)
        index = self.findData(next_key)
        self.setCurrentIndex(max(index, fallback_index))
        self.blockSignals(was_blocked)
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """The size that fits the selected option, up to a limit; a longer text is elided."""
        hint = super().sizeHint()
        frame = hint.width() - self.minimumContentsLength() * self.fontMetrics().averageCharWidth()
        text = self.fontMetrics().horizontalAdvance(self.currentText())
        return QSize(max(hint.width(), min(text + frame, _COMBO_MAX_W)), hint.height())

    def event(self, event: QEvent) -> bool:
        """Keep letters from the window's shortcuts: they search among the options."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride:
            is_unmodified = not event.modifiers() & ~Qt.KeyboardModifier.ShiftModifier
            if is_unmodified and event.text().isprintable() and event.text():
                event.accept()
                return True
        return bool(super().event(event))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        # Qt itself cuts a long text in the middle of a letter.
        max_width = self._text_rect().width() + 1 - self._reserved_w
        option.currentText = self.fontMetrics().elidedText(
            self.display_text(), Qt.TextElideMode.ElideRight, max_width
        )
        if self.currentIndex() < 0 and self.placeholderText():
            paint_text(
                painter, QRectF(self._text_rect()), self.placeholderText(), color_role="text3"
            )
        elif not self.isEditable():
            painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        paint_caret(painter, self)


def paint_caret(painter: QPainter, field: QWidget) -> None:
    """Paint the arrow at the right of a field that offers a list."""
    side = float(ICON_SMALL)
    box = QRectF(field.width() - side - 8, (field.height() - side) / 2, side, side)
    icons.paint_icon(painter, box, "caret-down", "text2" if field.isEnabled() else "text3")


class TextBox(_TextFieldMixin, QPlainTextEdit):
    """Several lines: notes, or code with `mono`."""

    def __init__(
        self,
        text: str = "",
        *,
        placeholder: str = "",
        name: str = "",
        mono: bool = False,
        read_only: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setFont(theme.font("mono" if mono else "body"))
        if mono:
            self.setProperty("kind", "code")
            self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        elif read_only:
            self.setProperty("kind", "page")
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name or placeholder)
        self.setReadOnly(read_only)
        self.setTabChangesFocus(True)
        self.setPlainText(text)


class Slider(QSlider):
    """A slider from 0 to 1, without numbers: smoothing.

    Signals:
        share_changed: The new value, also while dragging.
    """

    share_changed = Signal(float)
    _STEPS = 100

    def __init__(
        self, share: float = 0.0, *, name: str, width: int = 88, parent: QWidget | None = None
    ) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setRange(0, self._STEPS)
        self.setPageStep(10)
        self.setFixedSize(width, SEGMENTED_SMALL_H)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)
        self.set_share(share)
        self.valueChanged.connect(lambda _value: self.share_changed.emit(self.share()))

    def share(self) -> float:
        return self.value() / self._STEPS

    def set_share(self, share: float) -> None:
        self.setValue(round(share * self._STEPS))

    def paintEvent(self, event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        groove_w, centre_y = self.width() - 16, self.height() / 2
        x = 8 + groove_w * self.share()
        is_enabled = self.isEnabled()
        fill_round(painter, QRectF(8, centre_y - 1.5, groove_w, 3), t.q("line_strong", 0.5), 1.5)
        ink = t.q("ink" if is_enabled else "line_strong")
        fill_round(painter, QRectF(8, centre_y - 1.5, x - 8, 3), ink, 1.5)
        fill_round(painter, QRectF(x - 6, centre_y - 6, 12, 12), ink, 6)
        if self.hasFocus():
            paint_focus(painter, QRectF(x - 9, centre_y - 9, 18, 18), 9)


class SearchField(_TextFieldMixin, QLineEdit):
    """A search field. Esc clears the text; the field sends it when typing pauses.

    Signals:
        searched: The text, 150 ms after the last key, at once on Enter and on clearing.
    """

    searched = Signal(str)
    _PAUSE_MS = 150

    def __init__(self, placeholder: str, *, key: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "search")
        self.setFont(theme.font("body"))
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(f"Search: {placeholder}")
        self.setToolTip(plain_tip("Search here", key) if key else "")
        self._hint = Label(native_key(key).replace("+", " ") if key else "", "tiny", "text3")
        self._clear_button = IconButton("x", "Clear")
        self._clear_button.setFixedSize(24, 24)
        self._clear_button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._clear_button.hide()
        search_icon = IconLabel("magnifying-glass", "text3")
        self.setLayout(
            row(search_icon, STRETCH, self._hint, self._clear_button, margins=(11, 0, 8, 0), gap=6)
        )
        self.setTextMargins(24, 0, max(self._hint.sizeHint().width(), 24) + 4, 0)
        self._pause = QTimer(self, singleShot=True, interval=self._PAUSE_MS)
        self._pause.timeout.connect(self._send_text)
        self._sent_text = ""
        self.textChanged.connect(self._update_search)
        self.returnPressed.connect(self._send_text)
        self._clear_button.clicked.connect(self.clear)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() != Qt.Key.Key_Escape:
            super().keyPressEvent(event)
        elif self.text():
            self.clear()
        elif not self._focus_list():
            super().keyPressEvent(event)

    def _focus_list(self) -> bool:
        """Give the focus to the list that is searched; False in a dialog, which Esc closes."""
        ancestor = self.parentWidget()
        while ancestor is not None and not ancestor.isWindow():
            if ancestor.property(LEADS_FOCUS):
                ancestor.setFocus()
                return True
            ancestor = ancestor.parentWidget()
        return False

    @Slot(str)
    def _update_search(self, text: str) -> None:
        self._hint.setVisible(not text)
        self._clear_button.setVisible(bool(text))
        if text:
            self._pause.start()
        else:
            self._send_text()

    @Slot()
    def _send_text(self) -> None:
        self._pause.stop()
        if self.text() != self._sent_text:
            self._sent_text = self.text()
            self.searched.emit(self._sent_text)


class ErrorLine(Label):
    """An error line that keeps its space, so that nothing moves when an error appears.

    Each message begins below its field. If they do not fit so, all begin below the first, and the
    tool tip has the full text.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "tiny", "bad", elide="right", parent=parent)
        self._fields: list[Field] = []
        self._positions: list[tuple[int, str]] = []

    def attach_fields(self, *fields: Field) -> None:
        """Show the errors of these fields, which have no error line of their own."""
        self._fields += fields
        for field in fields:
            field.show_errors_in(self)
            field.installEventFilter(self)

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Move:
            self._align_text()
        return super().eventFilter(receiver, event)

    def remove_field(self, field: Field) -> None:
        """Remove a field that is about to be deleted."""
        if field in self._fields:
            self._fields.remove(field)
            self.show_errors()

    def show_errors(self) -> None:
        self.setText(" ".join(field.error() for field in self._fields if field.error()))
        self._align_text()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._align_text()

    def _align_text(self) -> None:
        """Begin below the first invalid field, or as near to it as the messages fit."""
        fields = [field for field in self._fields if field.error() and field.isVisible()]
        messages = [field.error() for field in fields]
        start_xs = [self.mapFromGlobal(field.mapToGlobal(QPoint())).x() for field in fields]
        advance = self.fontMetrics().horizontalAdvance
        end_xs = [x + advance(f"{text} ") for x, text in zip(start_xs, messages, strict=True)]
        limits = [*start_xs[1:], self.width()]
        has_space = all(end_x <= limit for end_x, limit in zip(end_xs, limits, strict=False))
        is_spread = has_space and len(fields) > 1
        self._positions = list(zip(start_xs, messages, strict=True)) if is_spread else []
        max_x = self.width() - advance(self.text()) - 2
        left_margin = max(0, min(start_xs[0], max_x)) if start_xs else 0
        self.setContentsMargins(left_margin, 0, 0, _ERROR_GAP)
        self._update_text()

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._positions:
            super().paintEvent(event)
            return
        painter = QPainter(self)
        for x, message in self._positions:
            paint_text(painter, QRectF(self.rect().adjusted(x, 0, 0, 0)), message, "tiny", "bad")

    def sizeHint(self) -> QSize:
        return super().sizeHint().expandedTo(QSize(0, self.fontMetrics().height() + _ERROR_GAP))

    def minimumSizeHint(self) -> QSize:
        return (
            super().minimumSizeHint().expandedTo(QSize(0, self.fontMetrics().height() + _ERROR_GAP))
        )


class Field(QWidget):
    """A control with its label above; an error is a message below it and a red edge.

    Attributes:
        control: The given widget.
    """

    def __init__(
        self, label: str, control: QWidget, *, note: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.control = control
        self._replacement: QWidget | None = None
        self._note, self._error = note, ""
        self._note_color_role: ColorRole = "text3"
        self._line: ErrorLine | None = None
        self._label = Label(label, "small", "text2", elide="right")
        self._message_label = Label("", "tiny", "text3", wrap=True)
        if not control.accessibleName():
            control.setAccessibleName(label)
        self._box = col(self._label, control, self._message_label, gap=LABEL_GAP)
        self.setLayout(self._box)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._show_message()

    def error(self) -> str:
        return self._error

    def set_error(self, message: str) -> None:
        """Set the error, "" for none."""
        if message == self._error:
            return
        self._error = message
        self._mark_error(self.visible_control)
        self._show_message()

    @property
    def visible_control(self) -> QWidget:
        """The control, or its replacement."""
        return self._replacement or self.control

    def replace_control(self, replacement: QWidget | None) -> None:
        """Show another widget in place of the control; None restores the control."""
        if self._replacement is not None:
            self._box.removeWidget(self._replacement)
            self._replacement.hide()
            self._replacement.deleteLater()
        self._replacement = replacement
        if replacement is not None:
            self._box.insertWidget(self._box.indexOf(self.control), replacement)
            replacement.show()  # the layout would do it later, and until then it takes no focus
        self.control.setVisible(replacement is None)
        self._mark_error(self.visible_control)
        self._show_message()

    def show_errors_in(self, line: ErrorLine) -> None:
        """Show errors in this line instead of below the control."""
        self._line = line
        self._show_message()

    def _mark_error(self, control: QWidget) -> None:
        control.setProperty("bad", "true" if self._error else "false")
        repolish(control)

    def set_note(self, note: str, color_role: ColorRole = "text3") -> None:
        """Set a hint below the control; hidden while there is an error."""
        self._note, self._note_color_role = note, color_role
        self._show_message()

    def set_label(self, label: str) -> None:
        self._label.setText(label)
        self.control.setAccessibleName(label)

    def label(self) -> str:
        return self._label.text()

    def set_tip(self, tip: str) -> None:
        """Set the tool tip of the label, which explains the term."""
        self._label.set_tip(tip)

    def _show_message(self) -> None:
        text = self._error or self._note
        self._message_label.setText(text)
        self._message_label.set_color_role("bad" if self._error else self._note_color_role)
        self._message_label.setVisible(bool(text) and self._line is None)
        if self._line is not None:
            self._line.show_errors()
        self.visible_control.setAccessibleDescription(text)


def align_with_field(button: Button) -> QWidget:
    """Put a button next to a field, level with its control."""
    holder = QWidget()
    holder.setLayout(col(Label("", "small"), button, STRETCH, gap=LABEL_GAP))
    holder.setSizePolicy(button.sizePolicy())
    return holder
