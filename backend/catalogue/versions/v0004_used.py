"""GPU time and energy of a job."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Float

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("job", Column("earlier_gpu_s", Float, nullable=True))
    op.add_column("job", Column("energy_j", Float, nullable=True))
    # A job that ran once has no earlier runs; the time of other jobs' runs was not recorded.
    op.execute("UPDATE job SET earlier_gpu_s = 0 WHERE run <= 1")
