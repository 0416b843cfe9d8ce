"""``job tensorboard ID``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from backend.cli.common_options import progress_bar
from backend.cli.printing import OK, print_json, print_line
from backend.services.jobs.inspection import NO_GRAPH

if TYPE_CHECKING:
    from backend.services.context.container import Services


def serve(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    """Print the address, and serve it until Ctrl+C."""
    with progress_bar(as_json) as bar:
        job_id = services.jobs.queries.find(arguments.id)
        has_graph = not arguments.weights or services.inspection.write_events(job_id, bar)
        url = services.event_viewers.open(job_id, bar)
    if as_json:
        print_json({"url": url})
    else:
        print_line(url)
        if not has_graph:
            print_line(NO_GRAPH)
        print_line("Press Ctrl+C to end it.")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return OK
