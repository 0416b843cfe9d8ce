"""The tables of the catalogue. A row never leaves this package; records do.

The catalogue is an index: everything in it can be read again from the data root. What is shown
whole (metrics, pins, the job file) is stored as JSON; only what is searched, sorted or filtered
by has a column.
"""

from __future__ import annotations

from sqlalchemy import Float, Index, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

HEAD = "0004"
"""Newest revision in ``versions``, so that opening a current catalogue imports no Alembic."""


class Base(DeclarativeBase):
    pass


class LibraryItemRow(Base):
    """One version of a dataset, model or loader."""

    __tablename__ = "library_item"

    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sha256: Mapped[str] = mapped_column(Text)
    bytes: Mapped[int]
    files: Mapped[int]
    created: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Text)
    facts: Mapped[str] = mapped_column(Text)
    trusted: Mapped[str] = mapped_column(Text, server_default="")
    """Fingerprint of its files (names, sizes, times) when their hash was last verified."""


class JobRow(Base):
    """One job as it was last seen."""

    __tablename__ = "job"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text(collation="NOCASE"))
    state: Mapped[str] = mapped_column(Text)
    created: Mapped[str] = mapped_column(Text)
    started: Mapped[str] = mapped_column(Text)
    ended: Mapped[str] = mapped_column(Text)
    earlier_s: Mapped[float] = mapped_column(Float, server_default="0")
    earlier_gpu_s: Mapped[float | None] = mapped_column(Float)
    energy_j: Mapped[float | None] = mapped_column(Float)
    user: Mapped[str] = mapped_column(Text)
    run: Mapped[int]
    epoch: Mapped[int]
    step: Mapped[int]
    total_steps: Mapped[int]
    steps_per_epoch: Mapped[int]
    best_name: Mapped[str | None] = mapped_column(Text)
    best_value: Mapped[float | None] = mapped_column(Float)
    metrics: Mapped[str] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    error: Mapped[str] = mapped_column(Text)
    notes: Mapped[str] = mapped_column(Text)
    tags: Mapped[str] = mapped_column(Text)
    config: Mapped[str] = mapped_column(Text)
    pins: Mapped[str] = mapped_column(Text)
    search: Mapped[str] = mapped_column(Text, server_default="")
    """Id, name, notes and tags, folded: LIKE alone is case-sensitive for letters such as Ä."""

    __table_args__ = (
        Index("job_created", "created"),
        Index("job_name", "name"),
        Index("job_state", "state"),
    )
