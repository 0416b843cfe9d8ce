"""A trial on a node, from a desktop that mounts the data root and from one that reaches it over
SFTP: the same behaviour."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil
import pytest

from backend.base.errors import Cancelled
from backend.datastore.jobs import files as job_files
from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.backend.services.access_cases import Beat, DataSite, on_node

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")
ALONE_SETTINGS = {"strategy": {"name": "alone"}}


def open_ready_desktop(site: DataSite, beat: Beat) -> Services:
    services = site.desktop()
    site.stock(services)
    beat(site)
    return services


def leftover_names(site: DataSite, services: Services) -> list[str]:
    """On the data root, and in what a desktop keeps of it."""
    roots = (site.data, services.data_root)
    return [path.name for root in roots for path in root.jobs.glob(".canary*")]


def test_a_trial_trains_a_batch_on_the_node_and_leaves_nothing(site: DataSite, beat: Beat) -> None:
    services = open_ready_desktop(site, beat)
    old_attempt = site.data.jobs / ".canary-over" / "attempts" / "1"
    view = services.jobs.create(on_node(**ALONE_SETTINGS))
    old_attempt.mkdir(parents=True)
    (old_attempt / "exit.json").write_text("{}")
    states: list[JobState] = []
    trial = services.trial_runs.run(view.id, states.append)
    assert trial.succeeded, trial.message
    assert trial.message.startswith("1 rank trained one batch together")
    assert states[-1] is JobState.FINISHED
    assert services.jobs.queries.show(view.id).state is JobState.CREATED
    assert [job.id for job in services.jobs.queries.list()] == [view.id]
    assert leftover_names(site, services) == []


@pytest.mark.slow
def test_a_plan_is_measured_on_the_node_and_leaves_nothing(site: DataSite, beat: Beat) -> None:
    services = open_ready_desktop(site, beat)
    plan = services.planner.plan(on_node(epochs=1000, **ALONE_SETTINGS))
    assert (plan.node, plan.fit) == ("gpu1", None)
    assert plan.step_s
    assert plan.checkpoint_bytes
    assert plan.memory.other_bytes, "its peak was measured there"
    assert services.jobs.queries.list() == ()
    assert training_processes(site) == []
    assert leftover_names(site, services) == []


@pytest.mark.slow
def test_a_trial_that_fails_has_the_words_of_its_rank(site: DataSite, beat: Beat) -> None:
    services = open_ready_desktop(site, beat)
    view = services.jobs.create(on_node(environment={"PAUSE_S": "a while"}, **ALONE_SETTINGS))
    trial = services.trial_runs.run(view.id)
    assert not trial.succeeded
    assert trial.message.startswith("Rank 0 on gpu1: ")
    assert "a while" in trial.message
    assert "bks_dataset.py" in trial.traceback
    assert leftover_names(site, services) == []


@pytest.mark.parametrize(
    "during",
    [pytest.param(None, marks=pytest.mark.slow), JobState.TRAINING],
    ids=["at-once", "as-it-trains"],
)
def test_cancelling_a_trial_ends_its_ranks(
    site: DataSite, beat: Beat, during: JobState | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = open_ready_desktop(site, beat)
    gate = site.root.parent / "gate"
    request_stop = job_files.request_stop

    def request(*arguments: Any) -> bool:
        """Only now the batch is read: it trains until then, however late that is seen."""
        requested = request_stop(*arguments)
        gate.touch()
        return requested

    monkeypatch.setattr(job_files, "request_stop", request)
    view = services.jobs.create(on_node(environment={"GATE": str(gate)}, **ALONE_SETTINGS))
    states: list[JobState] = []
    with pytest.raises(Cancelled):
        services.trial_runs.run(
            view.id, states.append, is_cancelled=lambda: during is None or during in states
        )
    assert training_processes(site) == []
    assert leftover_names(site, services) == []


def training_processes(site: DataSite) -> list[list[str]]:
    """Words of mpirun, guards and ranks of a trial; its supervisor ends after it has said so."""
    command_lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command_line = process.cmdline()
            is_trials = any(word.startswith(f"{site.data.jobs}/.canary") for word in command_line)
            if is_trials and "backend.node.run.supervisor" not in command_line:
                command_lines.append(command_line)
    return command_lines
