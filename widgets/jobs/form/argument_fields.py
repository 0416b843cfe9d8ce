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

MOST = 60
"""A script with more has the others in the line only."""
_A_ROW = 4
_OF_HELP = ("script", "entry", "python")


class ArgumentFields(QWidget):
    """The switch that reads the arguments, and a field for each.

    Signals:
        requested: Read the arguments of the script; answer with `show_found` or `show_error`.
        cancelled: Stop that.
    """

    requested = Signal()
    cancelled = Signal()

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields = fields
        self._paths: list[str] = []
        self._asked: list[object] = []
        self._read: dict[str, Sequence[ScriptArgument]] = {}
        """What was read of each script, for the next job with it."""
        self.switch = Switch("Fields from --help")
        self.switch.toggled.connect(self._turn)
        self._words = Label("", "small", "text3", wrap=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S2)
        for column in range(_A_ROW):
            self._grid.setColumnStretch(column, 1)
        line = row(self.switch, (self._words, 1), gap=S3)
        self.setLayout(col(line, self._grid, gap=S2, margins=(0, 0, 0, S2)))
        fields.changed.connect(self._follow)
        all_of_them = fields.field(TABLE).control
        if isinstance(all_of_them, LineEdit):
            all_of_them.textEdited.connect(fields.read_arguments)

    def _replace(self, found: Sequence[ScriptArgument]) -> None:
        """Show a field for each, and for each other argument that has several values."""
        swept = [axis for axis in self._fields.swept.axes() if argument_name(axis.path)]
        self._lay(found, swept)
        for axis in swept:
            self._fields.swept.show_axis(axis)

    def show_found(self, found: Sequence[ScriptArgument]) -> None:
        self._read[str(self._now())] = found
        self._replace(found[:MOST])
        more = f" of {len(found)}; the others are typed above" if len(found) > MOST else ""
        self._say(f"{formats.plural(len(self._paths), 'field')}{more}")

    def show_error(self, sentence: str) -> None:
        self._turn_off()
        self._say(sentence, is_bad=True)

    def begin(self, axes: Iterable[Axis]) -> None:
        """Prepare for another job: no fields, except for arguments with several values."""
        self._turn_off()
        self._lay((), tuple(axes))

    def show_again(self) -> None:
        """Show the fields of a script that were read for an earlier job."""
        self._asked = self._now()
        if found := self._read.get(str(self._asked)):
            with QSignalBlocker(self.switch):
                self.switch.setChecked(True)
            self.show_found(found)

    def _lay(self, found: Sequence[ScriptArgument], swept: Iterable[Axis]) -> None:
        for path in self._paths:
            old = self._fields.field(path)
            self._fields.remove(path)
            old.hide()
            old.deleteLater()
        several = [argument_name(axis.path) for axis in swept if argument_name(axis.path)]
        given = self._fields.draft().get(TABLE)
        wanted: dict[str, ScriptArgument] = {}
        for one in found:
            names = (one.name, *(other.strip("-") for other in one.aliases))
            used = (n for n in names if n in several or value_of(given, n) is not None)
            wanted[next(used, one.name)] = one
        wanted |= {name: ScriptArgument("") for name in several if name not in wanted}
        self._paths = []
        before: QWidget = self.switch
        for number, (name, one) in enumerate(wanted.items()):
            path, made = self._fields.argument(name, one)
            made.set_tip(plain_tip(one.help_text))
            self._paths.append(path)
            self._grid.addWidget(made, *divmod(number, _A_ROW), Qt.AlignmentFlag.AlignTop)
            QWidget.setTabOrder(before, made.control)
            before = made.control
        self._fields.read_arguments()

    def _say(self, words: str, *, is_bad: bool = False) -> None:
        self._words.setText(words)
        self._words.set_color_role("bad" if is_bad else "text3")

    def _turn_off(self) -> None:
        self.switch.blockSignals(True)
        self.switch.setChecked(False)
        self.switch.blockSignals(False)
        self._say("")
        self.cancelled.emit()

    def _now(self) -> list[object]:
        draft = self._fields.draft()
        return [draft.get(key) for key in _OF_HELP]

    @Slot(bool)
    def _turn(self, is_on: bool) -> None:
        if is_on:
            self._asked = self._now()
            self._say("Running it with --help…")
            self.requested.emit()
        else:
            self._turn_off()
            self._replace(())

    @Slot()
    def _follow(self) -> None:
        """Another script or entry takes other arguments."""
        if self.switch.isChecked() and self._now() != self._asked:
            self.switch.setChecked(False)
