"""Records that must be written although the share is away or full at the moment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.preallocated_file import PreallocatedFile


def write_until_done(path: Path, value: Mapping[str, Any], limit_s: float) -> None:
    """Replace ``path``, with retries until it works or the time is over.

    The space that `PreallocatedFile.reserve` reserved for it is released.

    Raises:
        OSError: It did not work in the given time.
    """
    deadline = time.monotonic() + limit_s
    preallocated_file = PreallocatedFile(path)
    try:
        while time.monotonic() < deadline:
            with suppress(OSError):
                return preallocated_file.replace_json(dict(value))
            time.sleep(1.0)
        return preallocated_file.replace_json(dict(value))
    finally:
        preallocated_file.drop_reserve()
