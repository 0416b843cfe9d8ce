"""Duration of a job's earlier runs."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("job", Column("earlier_s", Float, nullable=False, server_default="0"))
