"""The number that each kind of file carries, so that an older Ringmaster leaves a newer one's be.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_schema(raw: Mapping[str, Any], what: str, newest: int) -> None:
    """``what`` names the kind in the sentence: "node".

    Raises:
        ValueError: It has no number, or was written by a newer Ringmaster.
    """
    schema = raw.get("schema")
    if not isinstance(schema, int) or schema > newest:
        raise ValueError(f"{what} of format {schema!r}; this Ringmaster reads up to {newest}")
