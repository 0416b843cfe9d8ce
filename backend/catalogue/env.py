"""Entry point of Alembic, which finds it by name; `backend.catalogue.migrate` connects it."""

from __future__ import annotations

from alembic import context

from backend.catalogue.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
