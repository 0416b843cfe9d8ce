"""Search in any letter case, filter by state, and fingerprints of verified files."""

from __future__ import annotations

import json

from alembic import op
from sqlalchemy import Column, Text, text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("job", Column("search", Text, nullable=False, server_default=""))
    op.add_column("library_item", Column("trusted", Text, nullable=False, server_default=""))
    op.create_index("job_state", "job", ["state"])
    connection = op.get_bind()
    rows = connection.execute(text("SELECT id, name, notes, tags FROM job")).all()
    for job_id, name, notes, tags in rows:
        folded = "\n".join((job_id, name, notes, *json.loads(tags))).casefold()
        connection.execute(
            text("UPDATE job SET search = :folded WHERE id = :job_id"),
            {"folded": folded, "job_id": job_id},
        )
