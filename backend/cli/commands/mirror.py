"""The local copy of a data root over SSH."""

from __future__ import annotations

from backend.cli.command import command
from backend.cli.printing import Answer, size_text
from backend.services.context.container import Services


@command("mirror clear")
def clear(services: Services) -> Answer:
    """Remove local copies that can be fetched again."""
    freed_bytes = services.data_root.files.clear()
    name = services.data_root.name
    line = f"Freed {size_text(freed_bytes)} on this computer; {name} still has all of it."
    return Answer({"bytes": freed_bytes}, line)
