"""Select nodes and options for a set-up: several nodes, one again, or after a conflict."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.nodes.entry import HostKey, NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions, choice_errors
from widgets.common import formats
from widgets.common.buttons import Button, CheckBox
from widgets.common.cards import VerticalScrollArea, StyledFrame
from widgets.common.dialog import Dialog
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, S3, TARGET_MIN
from widgets.nodes.provisioning.host_key_pages import KeyPlate
from widgets.nodes.provisioning.options_form import OptionsForm

_WIDTH = 560
_ROWS_SEEN = 5
_KEEPS = (
    "The old set-up stays until the new one has passed its test. Running jobs are not affected."
)


def state_words(entry: NodeEntry) -> str:
    """The set-up of a node in short form."""
    there = entry.installation
    if there is None:
        return "not set up"
    whose = "its own " if entry.has_own_mpi else ""
    words = [f"{whose}Open MPI {there.mpi_version}"]
    words += ["shared environment"] if entry.shares_environment else []
    words += ["restricted key"] if there.limits_key else []
    words += ["no Horovod"] if there.without_horovod else []
    return ", ".join(words)


class SetUpAgainDialog(Dialog):
    """The nodes, each with a check box, and the options for all selected nodes.

    Signals:
        set_up_requested: Names of the selected nodes, a tuple, and the `SetUpOptions`.
        refresh_requested: Read these nodes again, a tuple of names; answer with `show_entries`,
        `show_key` or `show_error`.
        trusted: The `HostKey` of `show_key`; read again.
    """

    set_up_requested = Signal(object, object)
    refresh_requested = Signal(object)
    trusted = Signal(object)

    def __init__(
        self,
        entries: Sequence[NodeEntry],
        ticked: Collection[str],
        options: SetUpOptions,
        brought_mpi: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """Build the dialog.

        Args:
            entries: All added nodes.
            ticked: The nodes that are selected at first.
            brought_mpi: Version of the Open MPI that Ringmaster brings, "" if unknown.
        """
        super().__init__("Set up", _WIDTH, parent)
        # Otherwise the first button has the focus and its ring before any key press.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._entries: tuple[NodeEntry, ...] = ()
        self._brought = brought_mpi
        self._boxes: dict[str, CheckBox] = {}
        self._title = Label("", "title", elide="right")
        self._all = Button("All", kind="quiet")
        self._all.setAutoDefault(False)
        self._all.clicked.connect(self._tick_all)
        self._rows = col(gap=0, margins=(S2, S1, S3, S1))
        rows = QWidget()
        rows.setLayout(self._rows)
        self._scroll = VerticalScrollArea(rows)
        head = row(Label("Nodes", "small", "text2"), STRETCH, self._all)
        self._nodes = QWidget()
        self._nodes.setLayout(col(head, StyledFrame("sunken", col(self._scroll)), gap=S1))
        self.choices = OptionsForm()
        self.choices.show_options(options)
        self.choices.changed.connect(self._check)
        self._note = Label(_KEEPS, "small", "text2", wrap=True)
        self._failure = Label("", "small", "bad", wrap=True, selectable=True)
        self._failure.hide()
        self._refresh = Button("Refresh", icon="arrow-clockwise", tip="Read these nodes again")
        self._refresh.setAutoDefault(False)
        self._refresh.clicked.connect(self._request_refresh)
        self._cancel = Button("Cancel")
        self._cancel.setAutoDefault(False)
        self._cancel.clicked.connect(self.reject)
        self._begin = Button("Set up", kind="primary")
        self._begin.setDefault(True)
        self._begin.clicked.connect(self._request)
        self._form = QWidget()
        self._form.setLayout(
            col(
                self._nodes,
                self.choices,
                self._note,
                self._failure,
                S2,
                row(STRETCH, self._refresh, self._cancel, self._begin, gap=S2),
                gap=S3,
            )
        )
        self._plate = KeyPlate("set the node up again")
        self._plate.trust.trusted.connect(self._pass_trust)
        self._plate.trust.refused.connect(self._show_form)
        self._plate.changed.closed.connect(self.reject)
        self._plate.hide()
        self.fill(self._form, self._plate, head=self._title)
        self._make_rows(entries, ticked)
        self.setFocus()

    def show_entries(self, entries: Sequence[NodeEntry]) -> None:
        """Take what the nodes reported."""
        self._plate.hide()
        self._form.show()
        self._make_rows(entries, self.ticked())

    def show_error(self, sentence: str) -> None:
        """Show why the nodes could not be read."""
        self._show_form()
        self._failure.setText(sentence)
        self._failure.setVisible(bool(sentence))
        self._refresh.setEnabled(True)

    def show_key(self, key: HostKey, accepted: str = "") -> None:
        """Ask about a host key that is not accepted here, or differs from ``accepted``."""
        self._form.hide()
        self._plate.show()
        self._title.setText(self._plate.show_key(key, accepted))
        self.setFocus()

    def ticked(self) -> tuple[str, ...]:
        return tuple(name for name, box in self._boxes.items() if box.isChecked())

    def _make_rows(self, entries: Sequence[NodeEntry], ticked: Collection[str]) -> None:
        self._entries = tuple(entries)
        clear(self._rows)
        self._boxes = {}
        for entry in self._entries:
            name = entry.name
            box = self._boxes[name] = CheckBox(name, is_checked=name in ticked)
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            box.setToolTip(plain_tip(name))
            box.toggled.connect(self._check)
            self._rows.addLayout(row((box, 1), Label(state_words(entry), "small", "text3")))
        self._nodes.setVisible(len(self._entries) > 1)
        seen = min(len(self._entries), _ROWS_SEEN)
        self._scroll.setFixedHeight(seen * TARGET_MIN + 2 * S1)
        self._failure.hide()
        self._check()

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self._show_form()
        self._refresh.setEnabled(False)
        self.trusted.emit(key)

    @Slot()
    def _show_form(self) -> None:
        self._plate.hide()
        self._form.show()
        self._begin.setDefault(True)
        self._check()

    @Slot()
    def _check(self) -> None:
        """Report conflicts at once, before anything is installed."""
        ticked = set(self.ticked())
        chosen = [entry for entry in self._entries if entry.name in ticked]
        others = [entry for entry in self._entries if entry.name not in ticked]
        faults = choice_errors(self.choices.options(), chosen, others, self._brought)
        self.choices.show_faults(faults)
        words = f"Set up {formats.plural(len(chosen), 'node')}"
        self._begin.setText("Set up" if len(chosen) == 1 else words)
        self._title.setText(f"Set up {chosen[0].name}" if len(chosen) == 1 else words)
        self._begin.setEnabled(bool(chosen) and not faults)
        self._refresh.setVisible(bool(faults))
        self._refresh.setEnabled(True)
        self._all.setText("None" if len(chosen) == len(self._entries) else "All")
        self._note.setVisible(any(entry.is_ready for entry in chosen))

    @Slot()
    def _tick_all(self) -> None:
        wanted = not all(box.isChecked() for box in self._boxes.values())
        for box in self._boxes.values():
            # Conflicts are checked once, not once for each.
            with QSignalBlocker(box):
                box.setChecked(wanted)
        self._check()

    @Slot()
    def _request_refresh(self) -> None:
        self._refresh.setEnabled(False)
        self._failure.hide()
        self.refresh_requested.emit(self.ticked())

    @Slot()
    def _request(self) -> None:
        names, options = self.ticked(), self.choices.options()
        self.accept()
        self.set_up_requested.emit(names, options)
