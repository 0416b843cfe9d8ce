"""The whole window: two jobs in Compare, from their folders, and jobs in the queue."""

import csv
from functools import partial

import pytest
from PySide6.QtWidgets import QFileDialog

from backend.records.base.layout import DataRoot
from backend.records.jobs.config import Optimizer
from backend.records.jobs.state import JobState
from backend.records.queue.entry import Cause
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from tests.app.main.test_bootstrap import open_program, paths
from tests.fakes import trained
from tests.keepers import end_keeper
from tests.windows import find_button, find_only
from widgets.common.banner import Banner
from widgets.jobs.actions import job_actions
from widgets.nodes.page import node_actions

__all__ = ["open_program", "paths"]


@pytest.fixture
def jobs(paths):
    root = paths[0]
    falling = [2.0 / step for step in range(1, 31)]
    slow = trained.job(root, "slow", falling, [0.7, 0.8, 0.85])
    fast = trained.job(
        root, "fast", falling[:20], [0.8, 0.9], JobState.TRAINING, optimizer=Optimizer("sgd", 0.02)
    )
    return slow, fast


def test_s3_s4_two_jobs_are_compared_from_their_menu_and_taken_along(
    jobs, paths, open_program, qtbot, monkeypatch, tmp_path
):
    program = open_program()
    page = program._pages.compare
    qtbot.waitUntil(lambda: program.jobs.job_count == 2)
    for job_id in jobs:
        program.jobs.detail.job_actions.ask(job_actions.COMPARE_ALL, (job_id,))
    assert program.window.page_key == "compare"

    def point_count(job_id):
        curve = page.curves(job_id).get("loss")
        return 0 if curve is None else len(curve)

    qtbot.waitUntil(lambda: [point_count(i) for i in jobs] == [30, 20])
    # The table follows the curves in a turn of the event loop of its own.
    qtbot.waitUntil(
        lambda: page.table.texts().get("validation/accuracy") == ["0.850", "0.900, best"]
    )
    assert page.table.texts()["optimizer.lr"] == ["0.01", "0.02"]

    # The other one goes on training.
    history = DataRoot(paths[0]).job(jobs[1]).history
    trained.write_steps(history, 21, [0.01] * 10, [0.95])
    program._job_controllers.compare._poll(program._job_controllers.compare._compared_jobs[jobs[1]])
    qtbot.waitUntil(lambda: point_count(jobs[1]) == 30)
    qtbot.waitUntil(lambda: page.table.texts()["validation/accuracy"] == ["0.850", "0.950, best"])

    path = tmp_path / "all.csv"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    find_button(page, "Save CSV").click()
    qtbot.waitUntil(path.exists)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for job_id in jobs:
        losses = [float(i["loss"]) for i in rows if i["job"] == job_id]
        assert losses == page.curves(job_id).get("loss").raw.tolist()


def test_s4_plots_of_every_place_are_saved(jobs, open_program, qtbot, monkeypatch, tmp_path):
    program = open_program()
    qtbot.waitUntil(lambda: program.jobs.job_count == len(jobs))
    for name, save in (
        ("job", partial(program.jobs.detail.job_actions.ask, job_actions.SAVE_FILE)),
        ("node", partial(program.nodes.node_actions.ask, node_actions.SAVE)),
        ("form", program.form.picture_requested.emit),
        ("compare", program._pages.compare.save_requested.emit),
    ):
        path = tmp_path / f"{name}.svg"
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, path=path: (str(path), ""))
        save("a plot.svg", name.encode())
        qtbot.waitUntil(path.exists)
        assert path.read_bytes() == name.encode()


@pytest.fixture
def draft(paths):
    services = open_services(*paths)
    view = create_example(services, 1)
    services.queue.pause()
    services.close()
    yield view
    end_keeper(services.data_root)


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
