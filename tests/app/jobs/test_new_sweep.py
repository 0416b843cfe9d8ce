"""A new sweep from the form opens its first job, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.records.sweeps.spec import QueuedSweep
from tests.app.nodes.test_move_off_node import RUNS, controller, jobs, page, poller

__all__ = ["controller", "jobs", "page", "poller"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_job_of_a_new_sweep_opens(controller, page, count):
    views = tuple(replace(RUNS, id=f"job{number}") for number in range(count))
    opened_ids = []
    controller.jobs_requested.connect(lambda: opened_ids.append(page.open_id))
    controller.drafts.sweeps.sweep_queued.emit(QueuedSweep("tag", views))
    assert page.open_id == "job0"
    assert len(opened_ids) == 1
