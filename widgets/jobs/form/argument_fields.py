"""The fields of the arguments that a script takes, below the line with all its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QWidget

from backend.records.jobs.arguments import TABLE, argument_name, value_of
from backend.records.jobs.script_help import ScriptArgument
from backend.records.sweeps.values import Axis
from widgets.common import formats
from widgets.common.buttons import Switch
from widgets.common.fields import LineEdit
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import col, row
from widgets.common.theme import S2, S3
from widgets.jobs.form.job_fields import JobFields

MAX_FIELDS = 60
"""The number of fields; further arguments are in the line only."""
_COLUMNS = 4
_SCRIPT_KEYS = ("script", "entry", "python")


class ArgumentFields(QWidget):
    """The switch that reads the arguments, and a field for each.

    Signals:
        requested: Read the arguments of the script; answer with `show_arguments` or `show_error`.
        cancelled: Stop reading.
    """

    requested = Signal()
    cancelled = Signal()

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self._paths: list[str] = []
        self._requested_script: list[object] = []
        self._known_arguments: dict[str, Sequence[ScriptArgument]] = {}
        """The arguments of each script, for the next job with it."""
        self.switch = Switch("Fields from --help")
        self.switch.toggled.connect(self._toggle)
        self._message = Label("", "small", "text3", wrap=True)
        self._message.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S2)
        for column in range(_COLUMNS):
            self._grid.setColumnStretch(column, 1)
        line = row(self.switch, (self._message, 1), gap=S3)
        self.setLayout(col(line, self._grid, gap=S2, margins=(0, 0, 0, S2)))
        fields.changed.connect(self._follow_script)
        line_edit = fields.field(TABLE).control
        if isinstance(line_edit, LineEdit):
            line_edit.textEdited.connect(fields.read_arguments)

    def _replace_fields(self, arguments: Sequence[ScriptArgument]) -> None:
        """Show a field for each, and for each other argument that has several values."""
        swept_axes = [axis for axis in self._fields.swept_fields.axes() if argument_name(axis.path)]
        self._lay_out(arguments, swept_axes)
        for axis in swept_axes:
            self._fields.swept_fields.show_axis(axis)

    def show_arguments(self, arguments: Sequence[ScriptArgument]) -> None:
        self._known_arguments[str(self._script_values())] = arguments
        self._replace_fields(arguments[:MAX_FIELDS])
        hint = (
            f" of {len(arguments)}; the others are typed above"
            if len(arguments) > MAX_FIELDS
            else ""
        )
        self._show_message(f"{formats.plural(len(self._paths), 'field')}{hint}")

    def show_error(self, message: str) -> None:
        self._turn_off()
        self._show_message(message, is_bad=True)

    def reset(self, axes: Iterable[Axis]) -> None:
        """Prepare for another job: no fields, except for arguments with several values."""
        self._turn_off()
        self._lay_out((), tuple(axes))

    def show_known(self) -> None:
        """Show the fields of a script that were read for an earlier job."""
        self._requested_script = self._script_values()
        if arguments := self._known_arguments.get(str(self._requested_script)):
            with QSignalBlocker(self.switch):
                self.switch.setChecked(True)
            self.show_arguments(arguments)

    def _lay_out(self, arguments: Sequence[ScriptArgument], swept_axes: Iterable[Axis]) -> None:
        for path in self._paths:
            old_field = self._fields.field(path)
            self._fields.remove(path)
            old_field.hide()
            old_field.deleteLater()
        swept_names = [argument_name(axis.path) for axis in swept_axes if argument_name(axis.path)]
        argument_line = self._fields.draft().get(TABLE)
        arguments_by_name: dict[str, ScriptArgument] = {}
        for script_argument in arguments:
            names = (
                script_argument.name,
                *(other_name.strip("-") for other_name in script_argument.aliases),
            )
            used_names = (
                n for n in names if n in swept_names or value_of(argument_line, n) is not None
            )
            arguments_by_name[next(used_names, script_argument.name)] = script_argument
        arguments_by_name |= {
            name: ScriptArgument("") for name in swept_names if name not in arguments_by_name
        }
        self._paths = []
        previous_widget: QWidget = self.switch
        for index, (name, script_argument) in enumerate(arguments_by_name.items()):
            path, field = self._fields.argument(name, script_argument)
            field.set_tip(plain_tip(script_argument.help_text))
            self._paths.append(path)
            self._grid.addWidget(field, *divmod(index, _COLUMNS), Qt.AlignmentFlag.AlignTop)
            QWidget.setTabOrder(previous_widget, field.control)
            previous_widget = field.control
        self._fields.read_arguments()

    def _show_message(self, message: str, *, is_bad: bool = False) -> None:
        self._message.setText(message)
        self._message.set_color_role("bad" if is_bad else "text3")

    def _turn_off(self) -> None:
        self.switch.blockSignals(True)
        self.switch.setChecked(False)
        self.switch.blockSignals(False)
        self._show_message("")
        self.cancelled.emit()

    def _script_values(self) -> list[object]:
        draft = self._fields.draft()
        return [draft.get(key) for key in _SCRIPT_KEYS]

    @Slot(bool)
    def _toggle(self, is_on: bool) -> None:
        if is_on:
            self._requested_script = self._script_values()
            self._show_message("Running it with --help…")
            self.requested.emit()
        else:
            self._turn_off()
            self._replace_fields(())

    @Slot()
    def _follow_script(self) -> None:
        """Remove the fields when another script or entry is chosen."""
        if self.switch.isChecked() and self._script_values() != self._requested_script:
            self.switch.setChecked(False)
