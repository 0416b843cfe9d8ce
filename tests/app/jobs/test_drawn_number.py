"""Draw a number of the log: the window shows the curves if the run draws it now."""

from __future__ import annotations

import pytest

from backend.records.jobs.state import JobState
from tests.app.nodes.test_move_off_node import RUNS, Jobs, controller, page, poller
from tests.job_views import replace_fields
from tests.windows import open_tab

__all__ = ["controller", "page", "poller"]

pytestmark = pytest.mark.usefixtures("controller")


class DrawingJobs(Jobs):
    state = JobState.TRAINING

    def draw_number(self, job_id, pattern):
        self.drawn_number = (job_id, pattern)
        return replace_fields(RUNS, state=self.state)


@pytest.fixture
def jobs():
    return DrawingJobs()


@pytest.mark.parametrize(
    ("state", "shows_curves"), [(JobState.TRAINING, True), (JobState.FINISHED, False)]
)
def test_the_curves_are_shown_if_the_run_draws_the_number_now(jobs, page, state, shows_curves):
    jobs.state = state
    open_tab(page.detail, "log")
    page.detail.log.number_marked.emit(RUNS.id, "loss {loss}")
    assert jobs.drawn_number == (RUNS.id, "loss {loss}")
    assert page.detail.curves.isHidden() is not shows_curves
    assert page.detail.log.isHidden() is shows_curves
