"""A study with real jobs: they run from the queue, are stopped and resumed, and fill its table."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from backend.node.queue.keeper import lock_of
from backend.node.system import process_identity
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.studies.table import number_text
from backend.services.context.container import Services
from tests.integration.conftest import is_training
from tests.integration.tiny import CALM
from tests.waiting import wait_for


@pytest.fixture
def queue(services: Services) -> Iterator[Services]:
    yield services
    keeper_process = lock_of(services.data_root).holder()
    if keeper_process is not None:
        process_identity.send_signal(keeper_process, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(keeper_process))
    lock_of(services.data_root).path.unlink(missing_ok=True)


def test_a_study_is_stopped_resumed_and_exported_with_the_figures_of_its_jobs(
    queue: Services, tmp_path: Path
) -> None:
    release_file = tmp_path / "released"
    study = {
        "title": "Batches",
        "question": "Which batch?",
        "source": "none",
        "measure": "error",
        "also": ["epoch time"],
        "job": {
            "model": "tiny",
            "loader": "tiny",
            "dataset": "tiny",
            "epochs": 3,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "strategy": {"name": "alone"},
            # A job of 24 steps lasts for minutes: it is not over before it is stopped.
            "environment": {**CALM, "PAUSE_S": "0.1", "PAUSED_UNTIL": str(release_file)},
        },
        "rows": [
            {"name": "large", "job": {"batch_size": 64}, "published": 50},
            {"name": "small", "job": {"batch_size": 16}},
        ],
        "small": {"minutes": 1, "seeds": [1]},
        "full": {"minutes": 1},
    }
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(study))
    started_study = queue.studies.start(str(tmp_path / "mine.toml"))
    large, small = (view.id for view in started_study.jobs)
    queue.jobs.queries.wait(large, is_finished=lambda view: is_training(view) and view.step > 0)
    queue.sweeps.stop(started_study.tag)
    assert queue.jobs.queries.wait(large).state is JobState.INTERRUPTED
    assert queue.jobs.queries.wait(small).state in (JobState.CREATED, JobState.INTERRUPTED)
    (started,) = queue.studies.started_studies()
    assert [row.value.n for row in queue.studies.table(started).rows] == [0, 0]

    release_file.touch()
    queue.sweeps.resume(started_study.tag)
    final_views = [queue.jobs.queries.wait(job, is_finished=_is_done) for job in (large, small)]
    assert [view.state for view in final_views] == [JobState.FINISHED] * 2
    assert final_views[0].run == 2
    rows = queue.studies.table(started).rows
    accuracy = final_views[0].status.metrics["validation/accuracy"]
    assert accuracy is not None
    assert rows[0].value.mean == pytest.approx(100 * (1 - accuracy))
    assert all(row.value.n == 1 and (row.further_cells[0].mean or 0) > 0 for row in rows)
    text = queue.studies.export(started, tmp_path / "table.md").read_text()
    assert f"| {rows[0].label} | {number_text(rows[0].value.mean)} |  | 50.0 |" in text
    assert final_views[0].status.other_cpu is not None


def _is_done(view: JobView) -> bool:
    """Return whether the job finished or failed; the test stopped it before."""
    return view.state is JobState.FINISHED or view.state.has_failed
