"""Select nodes and options for a set-up: several nodes, one again, or after a conflict."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.nodes.entry import HostKey, NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions, choice_errors
from widgets.common import formats
from widgets.common.buttons import Button, CheckBox
from widgets.common.cards import StyledFrame, VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, S3, TARGET_MIN
from widgets.nodes.provisioning.host_key_pages import KeyPlate
from widgets.nodes.provisioning.options_form import OptionsForm

_WIDTH = 560
_VISIBLE_ROWS = 5
_NOTE = "The old set-up stays until the new one has passed its test. Running jobs are not affected."


def installation_text(entry: NodeEntry) -> str:
    """The set-up of a node in short form."""
    installation = entry.installation
    if installation is None:
        return "not set up"
    prefix = "its own " if entry.has_own_mpi else ""
    parts = [f"{prefix}Open MPI {installation.mpi_version}"]
    parts += ["shared environment"] if entry.shares_environment else []
    parts += ["restricted key"] if installation.limits_key else []
    parts += ["no Horovod"] if installation.without_horovod else []
    parts += ["made in a job"] if installation.in_job else []
    return ", ".join(parts)


class SetUpAgainDialog(Dialog):
    """The nodes, each with a check box, and the options for all selected nodes.

    Signals:
        set_up_requested: Names of the selected nodes, a tuple, and the `SetUpOptions`.
        refresh_requested: Read these nodes again, a tuple of names; answer with `show_entries`,
        `show_key` or `show_error`.
        key_trusted: The `HostKey` of `show_key`; read again.
    """

    set_up_requested = Signal(object, object)
    refresh_requested = Signal(object)
    key_trusted = Signal(object)

    def __init__(
        self,
        entries: Sequence[NodeEntry],
        selected_names: Collection[str],
        options: SetUpOptions,
        bundled_mpi: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """Build the dialog.

        Args:
            entries: All added nodes.
            selected_names: The nodes that are selected at first.
            bundled_mpi: Version of the Open MPI that Ringmaster brings, "" if unknown.
        """
        super().__init__("Set up", _WIDTH, parent)
        # Otherwise the first button has the focus and its ring before any key press.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._entries: tuple[NodeEntry, ...] = ()
        self._bundled_mpi = bundled_mpi
        self._boxes: dict[str, CheckBox] = {}
        self._title = Label("", "title", elide="right")
        self._select_all_button = Button("All", kind="quiet")
        self._select_all_button.setAutoDefault(False)
        self._select_all_button.clicked.connect(self._toggle_all)
        self._rows = col(gap=0, margins=(S2, S1, S3, S1))
        rows = QWidget()
        rows.setLayout(self._rows)
        self._scroll = VerticalScrollArea(rows)
        head = row(Label("Nodes", "small", "text2"), STRETCH, self._select_all_button)
        self._nodes = QWidget()
        self._nodes.setLayout(col(head, StyledFrame("sunken", col(self._scroll)), gap=S1))
        self.choices = OptionsForm()
        self.choices.show_options(options)
        self.choices.changed.connect(self._check_options)
        self._note = Label(_NOTE, "small", "text2", wrap=True)
        self._failure = Label("", "small", "bad", wrap=True, selectable=True)
        self._failure.hide()
        self._make_form()
        self._key_plate = KeyPlate("set the node up again")
        self._key_plate.trust_page.key_trusted.connect(self._pass_trust)
        self._key_plate.trust_page.key_refused.connect(self._show_form)
        self._key_plate.changed_key_page.closed.connect(self.reject)
        self._key_plate.hide()
        self.fill(self._form, self._key_plate, head=self._title)
        self._make_rows(entries, selected_names)
        self.setFocus()

    def _make_form(self) -> None:
        self._refresh_button = Button(
            "Refresh", icon="arrow-clockwise", tip="Read these nodes again"
        )
        self._refresh_button.clicked.connect(self._request_refresh)
        self._cancel_button = Button("Cancel")
        self._cancel_button.clicked.connect(self.reject)
        quiet_buttons = self._refresh_button, self._cancel_button
        for button in quiet_buttons:
            button.setAutoDefault(False)
        self._set_up_button = Button("Set up", kind="primary")
        self._set_up_button.setDefault(True)
        self._set_up_button.clicked.connect(self._request)
        self._form = QWidget()
        self._form.setLayout(
            col(
                *(self._nodes, self.choices, self._note, self._failure, S2),
                row(STRETCH, *quiet_buttons, self._set_up_button, gap=S2),
                gap=S3,
            )
        )

    def show_entries(self, entries: Sequence[NodeEntry]) -> None:
        """Take what the nodes reported."""
        self._key_plate.hide()
        self._form.show()
        self._make_rows(entries, self.selected_names())

    def show_error(self, message: str) -> None:
        """Show why the nodes could not be read."""
        self._show_form()
        self._failure.setText(message)
        self._failure.setVisible(bool(message))
        self._refresh_button.setEnabled(True)

    def show_key(self, key: HostKey, accepted_fingerprint: str = "") -> None:
        """Ask about a host key that is not accepted here, or differs from ``accepted``."""
        self._form.hide()
        self._key_plate.show()
        self._title.setText(self._key_plate.show_key(key, accepted_fingerprint))
        self.setFocus()

    def selected_names(self) -> tuple[str, ...]:
        return tuple(name for name, box in self._boxes.items() if box.isChecked())

    def _make_rows(self, entries: Sequence[NodeEntry], selected_names: Collection[str]) -> None:
        self._entries = tuple(entries)
        clear(self._rows)
        self._boxes = {}
        for entry in self._entries:
            name = entry.name
            box = self._boxes[name] = CheckBox(name, is_checked=name in selected_names)
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            box.setToolTip(plain_tip(name))
            box.toggled.connect(self._check_options)
            self._rows.addLayout(row((box, 1), Label(installation_text(entry), "small", "text3")))
        self._nodes.setVisible(len(self._entries) > 1)
        visible_rows = min(len(self._entries), _VISIBLE_ROWS)
        self._scroll.setFixedHeight(visible_rows * TARGET_MIN + 2 * S1)
        self._failure.hide()
        self._check_options()

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self._show_form()
        self._refresh_button.setEnabled(False)
        self.key_trusted.emit(key)

    @Slot()
    def _show_form(self) -> None:
        self._key_plate.hide()
        self._form.show()
        self._set_up_button.setDefault(True)
        self._check_options()

    @Slot()
    def _check_options(self) -> None:
        """Report conflicts at once, before anything is installed."""
        names = set(self.selected_names())
        selected_entries = [entry for entry in self._entries if entry.name in names]
        unselected_entries = [entry for entry in self._entries if entry.name not in names]
        self.choices.fit([entry.scheduler for entry in selected_entries])
        conflicts = choice_errors(
            self.choices.options(), selected_entries, unselected_entries, self._bundled_mpi
        )
        self.choices.show_conflicts(conflicts)
        title = f"Set up {formats.plural(len(selected_entries), 'node')}"
        self._set_up_button.setText("Set up" if len(selected_entries) == 1 else title)
        self._title.setText(
            f"Set up {selected_entries[0].name}" if len(selected_entries) == 1 else title
        )
        self._set_up_button.setEnabled(bool(selected_entries) and not conflicts)
        self._refresh_button.setVisible(bool(conflicts))
        self._refresh_button.setEnabled(True)
        self._select_all_button.setText(
            "None" if len(selected_entries) == len(self._entries) else "All"
        )
        self._note.setVisible(any(entry.is_ready for entry in selected_entries))

    @Slot()
    def _toggle_all(self) -> None:
        is_checked = not all(box.isChecked() for box in self._boxes.values())
        for box in self._boxes.values():
            # Conflicts are checked once, not once for each.
            with QSignalBlocker(box):
                box.setChecked(is_checked)
        self._check_options()

    @Slot()
    def _request_refresh(self) -> None:
        self._refresh_button.setEnabled(False)
        self._failure.hide()
        self.refresh_requested.emit(self.selected_names())

    @Slot()
    def _request(self) -> None:
        names, options = self.selected_names(), self.choices.options()
        self.accept()
        self.set_up_requested.emit(names, options)
