"""Alembic's way in, found by its name; `backend.catalogue.migrate` hands it a connection."""

from __future__ import annotations

from alembic import context

from backend.catalogue.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
