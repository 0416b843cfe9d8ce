"""The table of all actions on nodes, and the question for the hours at which a node gives way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from PySide6.QtWidgets import QWidget

from backend.records.nodes.entry import EXAMPLE, parse_hours
from backend.records.nodes.reading import Orphan
from widgets.common.actions import Action, Request, Requests
from widgets.common.dialog import Question
from widgets.common.fields import Field, LineEdit
from widgets.nodes.row.node_row import Condition


@dataclass(frozen=True)
class NodeActionState:
    """The state of a node that decides which actions are offered.

    ``is_added`` is False for this computer.
    """

    condition: Condition = Condition.WELL
    is_added: bool = False
    is_checking: bool = False
    is_login_node: bool = False

    @property
    def is_new(self) -> bool:
        return self.condition is Condition.NEW

    @property
    def is_out_of_service(self) -> bool:
        return self.condition is Condition.OUT_OF_SERVICE


NodeAction: TypeAlias = Action[[str], NodeActionState]

SESSION = NodeAction(
    "session",
    "Session…",
    "browser",
    tip="Work on this node in JupyterLab, on GPUs that you choose",
    is_offered=lambda state: not state.is_new and not state.is_login_node,
    is_enabled=lambda state: not state.is_out_of_service,
)
CHECK = NodeAction(
    "check",
    "Check",
    "first-aid",
    tip="Check the installation of this node",
    make_title=lambda state: "Checking…" if state.is_checking else "Check",
    is_offered=lambda state: not state.is_new,
    is_enabled=lambda state: not state.is_checking,
)
SET_UP = NodeAction(
    "set_up",
    "Set up",
    "wrench",
    is_offered=lambda state: state.is_added and state.is_new,
    is_primary=True,
)
TAKE_OUT = NodeAction(
    "take_out",
    "Take out of service",
    "prohibit",
    is_offered=lambda state: state.is_added and not state.is_new and not state.is_out_of_service,
)
PUT_BACK = NodeAction(
    "put_back",
    "Put back",
    "arrow-u-up-left",
    is_offered=lambda state: state.is_added and state.is_out_of_service,
)
GIVE_WAY = NodeAction("give_way", "Give way…", tip="Pause jobs while other users need the node")
SET_UP_AGAIN = NodeAction(
    "set_up_again", "Set up again…", is_offered=lambda state: not state.is_new
)
FORGET = NodeAction("forget", "Forget passphrase")
REMOVE = NodeAction("remove", "Remove…")
USAGE = NodeAction("usage", "Who used what…", "chart-bar")
HEADER_ACTIONS = ((SESSION,), (CHECK,), (SET_UP,), (TAKE_OUT, PUT_BACK))
"""A button for each group, which shows the offered action."""
MENU_ACTIONS = (USAGE, GIVE_WAY, SET_UP_AGAIN, FORGET, REMOVE)

SHOW = NodeAction("show", "Show node")
RETRY = NodeAction("retry", "Try again", "arrow-clockwise")

# Requests of single buttons. Without another description the argument is a node's name.

ADD = Request[[]]("add")
BACK = Request[[]]("back")
"""Show the rack."""
REMOVE_NOW = Request[[str]]("remove_now")
"""Remove the node: the user confirmed."""
MOVE_OFF = Request[[str, str]]("move_off")
"""Move a job off a node: the job's id, and the node's name."""
END_ORPHAN = Request[[str, Orphan]]("end_orphan")
"""End a process: the node's name, and the process; answer with `NodesPage.show_orphans`."""
READ_HISTORY = Request[[str]]("read_history")
"""Read the history of the displayed node; answer periodically with
`NodesPage.show_agent_history`."""
SAVE = Request[[str, bytes]]("save")
"""Save a file: its name, and its contents."""


class NodeActions(Requests):
    """The requests on nodes."""


_GIVE_WAY_TEXT = (
    "A job pauses while a process of another user is on one of its GPUs, or a user is at the "
    "keyboard of {}. It continues by itself. Jobs without GPUs do not pause."
)


def hours_question(
    node: str, hours: str, set_hours: Callable[[str], object], parent: QWidget | None = None
) -> Question:
    """Ask for the hours at which a node gives way to its other users."""
    edit = LineEdit(hours or "never", name="Hours")
    field = Field("Gives way", edit, note=f"never, always, or as in {EXAMPLE}")

    def check() -> bool:
        try:
            parse_hours(edit.text())
        except ValueError as error:
            field.set_error(str(error))
        else:
            field.set_error("")
        return not field.error()

    edit.selectAll()
    title = f"When {node} gives way"
    question = Question(title, "Save", lambda: set_hours(edit.text()), parent)
    return question.ask(_GIVE_WAY_TEXT.format(node), field, check=check)
