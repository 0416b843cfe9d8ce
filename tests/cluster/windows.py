"""The whole window of the program on a data root of the test cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.nodes.entry import HostKey
from backend.services.context.container import Services
from tests.programs import close_programs
from widgets.common.theme_manager import ThemeChoice
from widgets.nodes.row.node_row import NodeRow

_BUILT_MS = 240_000


@contextmanager
def open_program(
    app: QApplication,
    share: Path,
    folder: Path,
    patch: pytest.MonkeyPatch,
    qtbot: QtBot,
    trusted_keys: Iterable[HostKey] = (),
) -> Iterator[Program]:
    """The program with its services, gone at the end of the block.

    Args:
        folder: Where it keeps what is this desktop's.
        trusted: Host keys that the user has accepted.
    """
    for name in ("CONFIG", "DATA"):
        patch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    program = Program(app, share, folder / "catalogue.sqlite", None)
    program._themes.choose(ThemeChoice.LIGHT)
    program.window.resize(1440, 900)
    qtbot.addWidget(program.window)
    program.show()
    qtbot.waitUntil(lambda: program.is_built and program._services is not None, timeout=_BUILT_MS)
    for key in trusted_keys:
        services(program).cluster.accept_key(key)
    try:
        yield program
    finally:
        close_programs(program)


def node_row(program: Program, node: str) -> NodeRow:
    """Return a node's row on the page Nodes."""
    (matching_row,) = (r for r in program.nodes.rack.rows_model.rows if r.name == node)
    return matching_row


def services(program: Program) -> Services:
    assert program._services is not None
    return program._services
