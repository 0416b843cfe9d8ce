"""What is to be said of a look that does not come back.

A data root whose server is away gives no error: whoever asks it for something waits.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

HANGS_S = 30.0
"""As long as a run may be silent before it is told (`backend.datastore.jobs.run_status`)."""


def stale_reason(began_s: float) -> str:
    """Of a look that began then, by `time.monotonic`, and has not ended.

    "no news since 14:02", or "" while it may only be slow.
    """
    silent_s = time.monotonic() - began_s
    if silent_s <= HANGS_S:
        return ""
    return f"no news since {datetime.now().astimezone() - timedelta(seconds=silent_s):%H:%M}"
