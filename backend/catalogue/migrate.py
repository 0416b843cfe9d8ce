"""Create a catalogue, and upgrade one of an older Ringmaster.

Alembic is imported only when it is needed: importing it takes a fifth of the time in which the
window opens. All steps run in one transaction, so a failed migration leaves the file unchanged.
A copy is made before all the same, because an older Ringmaster cannot read the upgraded file.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from backend.catalogue.location import make_private
from backend.catalogue.tables import HEAD

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

HERE = Path(__file__).resolve().parent
_ONE_AT_A_TIME = threading.Lock()
"""Alembic's steps find their connection in a global variable, so two threads would share it."""


def upgrade(connection: Connection) -> None:
    """Run every missing step in the transaction that ``connection`` is in."""
    from alembic import command

    with _ONE_AT_A_TIME:
        command.upgrade(_config(connection), HEAD)


def _config(connection: Connection | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    # The option is a ConfigParser value, in which a % has a meaning.
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def is_older(revision: str) -> bool:
    """Return whether `upgrade` can upgrade from ``revision``."""
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision in {step.revision for step in steps}


def copy_before(path: Path) -> Path:
    """Copy the catalogue and the content of its write-ahead log to a new file next to it."""
    number = 1
    while True:
        suffix = f".before-{HEAD}" if number == 1 else f".before-{HEAD}-{number}"
        copy = path.with_name(path.name + suffix)
        try:
            make_private(copy)
            break
        except FileExistsError:
            number += 1
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy
