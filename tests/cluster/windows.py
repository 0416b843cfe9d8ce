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
from tests import programs
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
    paths = share, folder / "catalogue.sqlite"
    with programs.open_program(app, qtbot, *paths, timeout_ms=_BUILT_MS) as program:
        for key in trusted_keys:
            programs.services_of(program).cluster.accept_key(key)
        yield program


def node_row(program: Program, node: str) -> NodeRow:
    """Return a node's row on the page Nodes."""
    (matching_row,) = (r for r in program.nodes.rack.rows_model.rows if r.name == node)
    return matching_row
