"""The actions on nodes, one signal each: widgets emit them, controllers connect to them."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal


class NodeActions(QObject):
    """All actions on nodes. The first argument is the name of a node unless it is described here.

    Signals:
        add_requested: Add a node (no argument).
        check_requested: Answer with `NodesPage.show_findings` or `show_check_error`.
        look_requested: Try again to reach it.
        set_up_requested: Set it up, or again, or show its running set-up.
        service_requested: Out of service (False), or back (True).
        remove_requested: Remove it; the user confirmed.
        forget_requested: Forget the passphrase of its key.
        move_off_requested: Id of a job, and the node that it is to leave.
        end_requested: And an `Orphan` on it to end; answer with `NodesPage.show_orphans`.
        past_requested: It is displayed; answer with `NodesPage.show_past`, periodically.
        save_requested: A file name, and its contents.
        back_requested: Show the rack (no argument).
    """

    add_requested = Signal()
    check_requested = Signal(str)
    look_requested = Signal(str)
    set_up_requested = Signal(str)
    service_requested = Signal(str, bool)
    remove_requested = Signal(str)
    forget_requested = Signal(str)
    move_off_requested = Signal(str, str)
    end_requested = Signal(str, object)
    past_requested = Signal(str)
    save_requested = Signal(str, object)
    back_requested = Signal()
