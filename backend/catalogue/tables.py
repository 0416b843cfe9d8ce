"""The tables of the catalogue. A row never leaves this package; records do.

The catalogue is an index: everything in it can be read again from the data root. What is shown
whole (metrics, pins, the job file) is stored as JSON; only what is searched, sorted or filtered
by has a column.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text

FORMAT = 5
"""SQLite's ``user_version`` of the file. One of another format is rebuilt, see `store`."""
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
    _text("notes"),
    _text("tags"),
    _text("config"),
    _text("pins"),
    _text("search", default=""),
    Index("job_created", "created"),
    Index("job_name", "name"),
    Index("job_state", "state"),
)
