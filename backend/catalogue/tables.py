"""The tables of the catalogue. A row never leaves this package; records do.

The catalogue is an index: everything in it can be read again from the data root. What is shown
whole (metrics, pins, the job file) is stored as JSON; only what is searched, sorted or filtered
by has a column. This module alone imports SQLAlchemy, see `store`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    QueuePool,
    Table,
    Text,
    create_engine,
    delete,
    event,
    tuple_,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError

METADATA = MetaData()


def _text(name: str, default: str | None = None) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


# One version of a dataset, model or loader. ``trusted`` is the fingerprint of its files (names,
# sizes, times) when their hash was last verified.
ITEMS = Table(
    "library_item",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    _text("sha256"),
    _integer("bytes"),
    _integer("files"),
    _text("created"),
    _text("source"),
    _text("facts"),
    _text("trusted", default=""),
)
# One job as it was last seen. ``search`` is its id, name, notes and tags, folded: LIKE alone is
# case-sensitive for letters such as Ä.
JOBS = Table(
    "job",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text(collation="NOCASE"), nullable=False),
    _text("state"),
    _text("created"),
    _text("started"),
    _text("ended"),
    Column("earlier_s", Float, nullable=False, server_default="0"),
    Column("earlier_gpu_s", Float),
    Column("energy_j", Float),
    _text("user"),
    _integer("run"),
    _integer("epoch"),
    _integer("step"),
    _integer("total_steps"),
    _integer("steps_per_epoch"),
    Column("best_name", Text),
    Column("best_value", Float),
    _text("metrics"),
    _text("message"),
    _text("error"),
    _text("details"),
    _text("notes"),
    _text("tags"),
    _text("config"),
    _text("pins"),
    _text("search", default=""),
    Index("job_created", "created"),
    Index("job_name", "name"),
    Index("job_state", "state"),
)


class CatalogueWriter:
    """The writes of one transaction. Rows are those of `rows`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def create_tables(self, format_number: int) -> None:
        METADATA.create_all(self.connection)
        self.connection.exec_driver_sql(f"PRAGMA user_version = {format_number}")

    def rebuild_tables(self, format_number: int) -> bool:
        """Recreate the tables of an older catalogue; a rescan fills in the jobs.

        What it knows of datasets, models and loaders stays: their hashes took long to compute.
        Returns False if another window has done it while this one waited for the lock.
        """
        if self.connection.exec_driver_sql("PRAGMA user_version").scalar() == format_number:
            return False
        rows = self.connection.exec_driver_sql(f"SELECT * FROM {ITEMS.name}").mappings().all()
        # Earlier formats were numbered by Alembic.
        self.connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
        METADATA.drop_all(self.connection)
        self.create_tables(format_number)
        if rows:
            self.connection.execute(insert(ITEMS), [dict(row) for row in rows])
        return True

    def put_item(self, row: Mapping[str, Any]) -> None:
        """Add or replace a version; a column that is not in ``row`` stays."""
        self._put(ITEMS, [row])

    def remove_items(self, kind: str, keys: Sequence[tuple[str, int]]) -> None:
        is_key = tuple_(ITEMS.c.name, ITEMS.c.version).in_(keys)
        self.connection.execute(delete(ITEMS).where(ITEMS.c.kind == kind, is_key))

    def put_jobs(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._put(JOBS, rows)

    def remove_jobs(self, job_ids: Sequence[str]) -> None:
        self.connection.execute(delete(JOBS).where(JOBS.c.id.in_(job_ids)))

    def _put(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        statement = insert(table)
        keys = [column.name for column in table.primary_key]
        changes = {key: statement.excluded[key] for key in rows[0] if key not in keys}
        self.connection.execute(
            statement.on_conflict_do_update(index_elements=keys, set_=changes), rows
        )


def make_engine(connect: Callable[[], sqlite3.Connection]) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        # SQLite refuses at once a transaction that reads first and writes after another one wrote
        # in between, whatever its timeout. One that begins as a writer waits.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@contextmanager
def transaction(engine: Engine) -> Iterator[CatalogueWriter]:
    """Write in one transaction; an error of SQLite is raised as `sqlite3` raised it."""
    try:
        with engine.begin() as connection:
            yield CatalogueWriter(connection)
    except DBAPIError as error:
        raise error.orig or error from error


@contextmanager
def single_transaction(connect: Callable[[], sqlite3.Connection]) -> Iterator[CatalogueWriter]:
    """Write in the only transaction of a connection."""
    engine = make_engine(connect)
    try:
        with transaction(engine) as writer:
            yield writer
    finally:
        engine.dispose()
