"""Format numbers of files, so that an older Ringmaster does not touch files of a newer one.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_schema(raw: Mapping[str, Any], what: str, newest: int) -> None:
    """Check the format number of a record. ``what`` names its kind in the message: "node".

    Raises:
        ValueError: It has no number, or a newer Ringmaster wrote it.
    """
    schema = raw.get("schema")
    if not isinstance(schema, int) or schema > newest:
        raise ValueError(f"{what} of format {schema!r}; this Ringmaster reads up to {newest}")
