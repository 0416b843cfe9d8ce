"""Records that must be written although the share is away or full just now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.preallocated_file import PreallocatedFile


def write_until_done(path: Path, value: Mapping[str, Any], limit_s: float) -> None:
    """Replace ``path``, again and again until it works or the time is over.

    What `PreallocatedFile.take` took for it is given back.

    Raises:
        OSError: It did not work in the time given.
    """
    deadline = time.monotonic() + limit_s
    spare = PreallocatedFile(path)
    try:
        while time.monotonic() < deadline:
            with suppress(OSError):
                return spare.replace_json(dict(value))
            time.sleep(1.0)
        return spare.replace_json(dict(value))
    finally:
        spare.drop()
