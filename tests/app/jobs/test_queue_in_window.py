"""The whole window and the queue: a draft is queued, held, and starts by itself."""

import signal

import pytest

from backend.node.queue.keeper import lock_of
from backend.node.system import process_identity
from backend.records.queue.entry import Cause
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.app.main.test_bootstrap import open_program, paths
from tests.waiting import wait_for
from tests.windows import find_button, find_only
from widgets.common.banner import Banner
from widgets.jobs.actions import job_actions

__all__ = ["open_program", "paths"]


@pytest.fixture
def draft(paths):
    services = open_services(*paths)
    view = create_example(services, 1)
    services.queue.pause()
    lock = lock_of(services.data_root)
    services.close()
    yield view
    keeper = lock.holder()
    if keeper is not None:
        process_identity.send_signal(keeper, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(keeper))
    lock.path.unlink(missing_ok=True)


def test_s1_a_draft_is_queued_by_a_click_and_starts_when_the_queue_goes_on(
    draft, open_program, qtbot
):
    page = open_program().jobs
    qtbot.waitUntil(lambda: page.open_id == draft.id)
    find_button(page.detail.header, "Queue").click()
    qtbot.waitUntil(lambda: page.model.queued_job(draft.id) is not None)
    assert page.model.queued_job(draft.id).wait_reason.cause is Cause.PAUSED
    banner = find_only(Banner, page.detail)
    qtbot.waitUntil(lambda: "The queue is paused by" in banner.accessibleName())
    assert page.list.queue_strip.isVisible()
    find_button(page.list.queue_strip, "Resume").click()
    qtbot.waitUntil(lambda: page.model.summary(draft.id).run == 1)
    qtbot.waitUntil(lambda: not page.list.queue_strip.isVisible())
    page.detail.job_actions.ask(job_actions.STOP, draft.id)
    qtbot.waitUntil(lambda: page.model.summary(draft.id).state.is_over)
