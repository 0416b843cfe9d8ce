"""Describe a read that does not return.

A data root whose server is unreachable raises no error: each read waits.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

HANGS_S = 30.0
"""The time that a run may be silent before it is reported (`backend.datastore.jobs.run_status`)."""


def stale_reason(started_s: float) -> str:
    """Describe a read that began at this time, by `time.monotonic`, and has not ended.

    "no news since 14:02", or "" while it may only be slow.
    """
    silent_s = time.monotonic() - started_s
    if silent_s <= HANGS_S:
        return ""
    return f"no news since {datetime.now().astimezone() - timedelta(seconds=silent_s):%H:%M}"
