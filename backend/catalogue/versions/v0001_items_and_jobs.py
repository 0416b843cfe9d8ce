"""Datasets, models, loaders and jobs."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float, Integer, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "library_item",
        Column("kind", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("sha256", Text, nullable=False),
        Column("bytes", Integer, nullable=False),
        Column("files", Integer, nullable=False),
        Column("created", Text, nullable=False),
        Column("source", Text, nullable=False),
        Column("facts", Text, nullable=False),
    )
    op.create_table(
        "job",
        Column("id", Text, primary_key=True),
        Column("name", Text(collation="NOCASE"), nullable=False),
        Column("state", Text, nullable=False),
        Column("created", Text, nullable=False),
        Column("started", Text, nullable=False),
        Column("ended", Text, nullable=False),
        Column("user", Text, nullable=False),
        Column("run", Integer, nullable=False),
        Column("epoch", Integer, nullable=False),
        Column("step", Integer, nullable=False),
        Column("total_steps", Integer, nullable=False),
        Column("steps_per_epoch", Integer, nullable=False),
        Column("best_name", Text),
        Column("best_value", Float),
        Column("metrics", Text, nullable=False),
        Column("message", Text, nullable=False),
        Column("error", Text, nullable=False),
        Column("notes", Text, nullable=False),
        Column("tags", Text, nullable=False),
        Column("config", Text, nullable=False),
        Column("pins", Text, nullable=False),
    )
    op.create_index("job_created", "job", ["created"])
    op.create_index("job_name", "job", ["name"])
