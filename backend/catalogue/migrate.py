"""Makes a catalogue, and brings one of an older Ringmaster up to date.

Alembic is imported only when there is something to do: it costs a fifth of the time in which the
window opens. All steps run in one transaction, so a migration that fails leaves the file as it was;
its copy from before is there all the same, because the next Ringmaster back cannot read the new.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from backend.catalogue.location import make_private
from backend.catalogue.tables import HEAD

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

HERE = Path(__file__).resolve().parent


def upgrade(connection: Connection) -> None:
    """Run every step that is missing, within the transaction that ``connection`` is in."""
    from alembic import command

    command.upgrade(_config(connection), HEAD)


def _config(connection: Connection | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    # The option is a ConfigParser value, to which a % in the path would mean something.
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def is_older(revision: str) -> bool:
    """Whether ``revision`` is one that `upgrade` knows the way from."""
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision in {step.revision for step in steps}


def copy_before(path: Path) -> Path:
    """Copy the catalogue, with what its write-ahead log holds, to a new file beside it."""
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
