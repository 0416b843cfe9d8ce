"""``job tensorboard``."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Annotated

from backend.cli.command import command
from backend.cli.parameters import JobId
from backend.cli.printing import OK, Answer
from backend.cli.session import Session


@command("job tensorboard", reads_jobs=True)
def tensorboard(
    session: Session,
    id: JobId,
    *,
    weights: Annotated[
        bool, "also show the model's graph and the weights of each checkpoint"
    ] = False,
) -> int:
    """Serve the event files of a job until Ctrl+C."""
    from backend.services.jobs.inspection import NO_GRAPH

    services, progress = session.services, session.progress
    has_graph = not weights or services.inspection.write_events(id, progress)
    url = services.event_viewers.open(id, progress)
    note = () if has_graph else NO_GRAPH
    session.print(Answer({"url": url}, url, note, "Press Ctrl+C to end it."))
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return OK
