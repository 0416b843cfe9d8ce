"""Which nodes to set up, and how: for several at once, for one again, or where a choice misfits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QSizePolicy, QWidget

from backend.records.nodes.entry import HostKey, NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions, choice_faults
from widgets.common import formats
from widgets.common.buttons import Button, CheckBox
from widgets.common.cards import Scroll, StyledFrame
from widgets.common.chunked_work import ChunkedWork, lots
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, fit_height, row
from widgets.common.theme import S1, S2, S3, S4, S6, TARGET_MIN
from widgets.nodes.provisioning.host_key_pages import KeyPlate
from widgets.nodes.provisioning.options_form import SetUpChoices

_WIDTH = 560
_ROWS_SEEN, _ROWS_A_TURN = 5, 8
_KEEPS = "What is there already stays until the new has proved itself; jobs that run there go on."


def state_words(entry: NodeEntry) -> str:
    """How a node is set up, in a few words."""
    there = entry.installation
    if there is None:
        return "not set up"
    whose = "its own " if entry.has_own_mpi else ""
    words = [f"{whose}Open MPI {there.mpi_version}"]
    words += ["shared environment"] if entry.shares_environment else []
    words += ["key for runs only"] if there.limits_key else []
    return ", ".join(words)


class SetUpAgainDialog(QDialog):
    """The nodes with a tick each, and the choices for all that are ticked.

    Signals:
        set_up_requested: Names of the ticked nodes, a tuple, and the `SetUpOptions`.
        look_requested: These nodes, a tuple of names, are to be looked at anew; answer with
            `show_entries`, `show_key` or `show_trouble`.
        trusted: The `HostKey` of `show_key`; look again.
    """

    set_up_requested = Signal(object, object)
    look_requested = Signal(object)
    trusted = Signal(object)

    def __init__(
        self,
        entries: Sequence[NodeEntry],
        ticked: Collection[str],
        options: SetUpOptions,
        brought_mpi: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """The dialog.

        Args:
            entries: All nodes that were added.
            ticked: Those that are chosen at first.
            brought_mpi: Version of the Open MPI that Ringmaster brings, "" when unknown.
        """
        super().__init__(parent)
        self.setWindowTitle("Set up")
        self.setObjectName("dialog")
        self.setFixedWidth(_WIDTH)
        # Else the first button has the focus, and its ring, before anybody pressed a key.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._entries: tuple[NodeEntry, ...] = ()
        self._brought = brought_mpi
        self._ticked: dict[str, bool] = {}
        self._boxes: dict[str, CheckBox] = {}
        self._making = ChunkedWork(self)
        self._title = Label("", "title", elide="right")
        self._all = Button("All", kind="quiet")
        self._all.setAutoDefault(False)
        self._all.clicked.connect(self._tick_all)
        self._rows = col(gap=0, margins=(S2, S1, S3, S1))
        rows = QWidget()
        rows.setLayout(self._rows)
        self._scroll = Scroll(rows)
        head = row(Label("Nodes", "small", "text2"), STRETCH, self._all)
        self._nodes = QWidget()
        self._nodes.setLayout(col(head, StyledFrame("sunken", col(self._scroll)), gap=S1))
        self.choices = SetUpChoices()
        self.choices.show_options(options)
        self.choices.changed.connect(self._check)
        self._note = Label(_KEEPS, "small", "text2", wrap=True)
        self._trouble = Label("", "small", "bad", wrap=True, selectable=True)
        self._trouble.hide()
        self._look = Button("Look again", icon="arrow-clockwise", tip="Ask these nodes once more")
        self._look.setAutoDefault(False)
        self._look.clicked.connect(self._wish_look)
        self._cancel = Button("Cancel")
        self._cancel.setAutoDefault(False)
        self._cancel.clicked.connect(self.reject)
        self._begin = Button("Set up", kind="primary")
        self._begin.setDefault(True)
        self._begin.clicked.connect(self._wish)
        self._form = QWidget()
        self._form.setLayout(
            col(
                self._nodes,
                self.choices,
                self._note,
                self._trouble,
                S2,
                row(STRETCH, self._look, self._cancel, self._begin, gap=S2),
                gap=S3,
            )
        )
        self._plate = KeyPlate("set the node up again")
        self._plate.trusted.connect(self._pass_trust)
        self._plate.refused.connect(self._show_form)
        self._plate.closed.connect(self.reject)
        self._plate.hide()
        self.setLayout(col(self._title, self._form, self._plate, gap=S3, margins=(S6, S4, S6, S4)))
        self._make_rows(entries, ticked)
        self.setFocus()

    def show_entries(self, entries: Sequence[NodeEntry]) -> None:
        """What a new look has found."""
        self._plate.hide()
        self._form.show()
        self._make_rows(entries, self.ticked())

    def show_error(self, sentence: str) -> None:
        """The nodes could not be looked at."""
        self._show_form()
        self._trouble.setText(sentence)
        self._trouble.setVisible(bool(sentence))
        self._look.setEnabled(True)
        fit_height(self)

    def show_key(self, key: HostKey, accepted: str = "") -> None:
        """A look met a key that nobody accepted here, or another than the ``accepted`` one."""
        self._form.hide()
        self._plate.show()
        self._title.setText(self._plate.show_key(key, accepted))
        self.setFocus()
        fit_height(self)

    def ticked(self) -> tuple[str, ...]:
        return tuple(name for name, is_ticked in self._ticked.items() if is_ticked)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # Only now its parts know their sizes.
        fit_height(self)

    def _make_rows(self, entries: Sequence[NodeEntry], ticked: Collection[str]) -> None:
        """What is seen at once, what is scrolled to some a turn."""
        self._entries = tuple(entries)
        self._ticked = {entry.name: entry.name in ticked for entry in self._entries}
        clear(self._rows)
        self._boxes = {}
        self._make_some(self._entries[:_ROWS_SEEN])
        unseen = lots(self._entries[_ROWS_SEEN:], _ROWS_A_TURN)
        self._making.put(partial(self._make_some, some) for some in unseen)
        self._nodes.setVisible(len(self._entries) > 1)
        seen = min(len(self._entries), _ROWS_SEEN)
        self._scroll.setFixedHeight(seen * TARGET_MIN + 2 * S1)
        self._trouble.hide()
        self._check()

    def _make_some(self, entries: Sequence[NodeEntry]) -> None:
        for entry in entries:
            name = entry.name
            box = self._boxes[name] = CheckBox(name, checked=self._ticked[name])
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            box.setToolTip(plain_tip(name))
            box.toggled.connect(partial(self._tick, name))
            self._rows.addLayout(row((box, 1), Label(state_words(entry), "small", "text3")))

    def _tick(self, name: str, is_ticked: bool) -> None:
        self._ticked[name] = is_ticked
        self._check()

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self._show_form()
        self._look.setEnabled(False)
        self.trusted.emit(key)

    @Slot()
    def _show_form(self) -> None:
        self._plate.hide()
        self._form.show()
        self._begin.setDefault(True)
        self._check()

    @Slot()
    def _check(self) -> None:
        """Say at once what does not fit, before anything is installed."""
        ticked = set(self.ticked())
        chosen = [entry for entry in self._entries if entry.name in ticked]
        others = [entry for entry in self._entries if entry.name not in ticked]
        faults = choice_faults(self.choices.options(), chosen, others, self._brought)
        self.choices.show_faults(faults)
        words = f"Set up {formats.plural(len(chosen), 'node')}"
        self._begin.setText("Set up" if len(chosen) == 1 else words)
        self._title.setText(f"Set up {chosen[0].name}" if len(chosen) == 1 else words)
        self._begin.setEnabled(bool(chosen) and not faults)
        self._look.setVisible(bool(faults))
        self._look.setEnabled(True)
        self._all.setText("None" if len(chosen) == len(self._entries) else "All")
        self._note.setVisible(any(entry.is_ready for entry in chosen))
        fit_height(self)

    @Slot()
    def _tick_all(self) -> None:
        wanted = not all(self._ticked.values())
        self._ticked = dict.fromkeys(self._ticked, wanted)
        for box in self._boxes.values():
            # What fits is checked once, not once for each.
            with QSignalBlocker(box):
                box.setChecked(wanted)
        self._check()

    @Slot()
    def _wish_look(self) -> None:
        self._look.setEnabled(False)
        self._trouble.hide()
        self.look_requested.emit(self.ticked())

    @Slot()
    def _wish(self) -> None:
        names, options = self.ticked(), self.choices.options()
        self.accept()
        self.set_up_requested.emit(names, options)
