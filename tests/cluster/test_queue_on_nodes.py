"""The queue across machines: the agent of the head starts a job, and no desktop does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.records.queue.entry import Cause
from backend.records.sweeps.search import Proposal, Search
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import parse_axis
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import CALM
from tests.integration.conftest import is_training
from tests.integration.tiny import raw_job, write_sources
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

NODES = ("node1", "node2")


@pytest.fixture(scope="module")
def stocked(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> ReadyCluster:
    library = ready_cluster.services.library
    model, loader, dataset = write_sources(tmp_path_factory.mktemp("sources"))
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "queued")
    return ready_cluster


@pytest.fixture
def created_jobs(stocked: ReadyCluster) -> Iterator[list[JobView]]:
    """Jobs of which nothing is left running, and none waits."""
    views: list[JobView] = []
    yield views
    services = stocked.services
    for view in views:
        services.queue.dequeue(view.id)
        services.jobs.lifecycle.stop(view.id)
        services.jobs.queries.wait(view.id)


def create_job(stocked: ReadyCluster, processes: int, epochs: int) -> JobView:
    placement = [{"node": node, "processes": processes} for node in NODES]
    items = dict.fromkeys(("model", "loader", "dataset"), "queued")
    raw = raw_job(
        **items,
        name=f"{processes} each",
        epochs=epochs,
        placement=placement,
        environment=CALM,
    )
    return stocked.services.jobs.create(raw)


def test_s1_a_restarted_agent_starts_the_next_job_on_two_nodes(
    stocked: ReadyCluster, created_jobs: list[JobView]
) -> None:
    services = stocked.services
    cores = min(int(stocked[node].run(["nproc"]).stdout) for node in NODES)
    first_job, second_job = create_job(stocked, 1, 1_000_000), create_job(stocked, cores, 1)
    created_jobs += [first_job, second_job]
    services.jobs.lifecycle.start(first_job.id)
    services.jobs.queries.wait(first_job.id, is_finished=is_training)
    queue_position = services.queue.enqueue(second_job.id)
    assert queue_position.wait_reason is not None
    assert queue_position.wait_reason.cause is Cause.BUSY
    assert queue_position.message.startswith("node1 is busy with “1 each”")
    agent = next(p for p in stocked["node1"].processes() if "backend.node.agent.agent" in p.argv)
    stocked["node1"].run(["kill", "-9", str(agent.pid)])
    services.jobs.lifecycle.stop(first_job.id)
    assert services.jobs.queries.wait(first_job.id).state is JobState.INTERRUPTED
    folder = JobFolder(services.data_root.job(second_job.id).path)
    assert not folder.attempt(1).path.exists()

    # As a cron of the node would; from here on no desktop does anything.
    stocked.revive()
    wait_for(folder.attempt(1).exit.exists, "the second job to start and to end")
    assert read_json(folder.attempt(1).exit)["state"] == "FINISHED"
    assert read_json(folder.attempt(1).claimer)["host"] == "node1"
    assert {plan["node"] for plan in read_json(folder.launch)["ranks"]} == set(NODES)
    wait_for(lambda: not list(services.data_root.queue.iterdir()), "an empty queue")


@pytest.mark.usefixtures("soon_missed")
def test_s2_a_job_that_waits_for_a_cut_node_says_so(
    stocked: ReadyCluster, created_jobs: list[JobView]
) -> None:
    services = stocked.services
    view = create_job(stocked, 1, 1)
    created_jobs.append(view)
    services.queue.pause()
    services.queue.enqueue(view.id)
    stocked.stop_agent("node2")

    def reason() -> str:
        queue_position = services.queue.read().find_job(view.id)
        return queue_position.message if queue_position is not None else ""

    assert reason() == "The queue is paused by root."
    services.queue.resume()
    wait_for(lambda: reason().startswith("node2 is offline"), "the agent to be missed")


def test_the_agent_of_the_head_proposes_the_values_of_a_search(stocked: ReadyCluster) -> None:
    services = stocked.services
    placement = [{"node": node, "processes": 1} for node in NODES]
    items = dict.fromkeys(("model", "loader", "dataset"), "queued")
    base = raw_job(**items, name="search", epochs=2, placement=placement)
    axes = (parse_axis("optimizer.lr", "1e-3..0.1:log"),)
    search = Search("validation/loss", trials=3, sampler="cma-es")
    queued = services.sweeps.queue(Sweep(base, axes, search=search))
    folders = [services.data_root.job(view.id) for view in queued.jobs]

    def ended_trials() -> list[Proposal]:
        # No desktop acts: this reads files.
        proposals = (stored_record(Proposal, folder.proposal) for folder in folders)
        return [p for p in proposals if p is not None and p.state]

    wait_for(lambda: len(ended_trials()) == len(folders), "the ends of all trials", 300)
    assert [(trial.number, trial.state) for trial in ended_trials()] == [
        (1, "complete"),
        (2, "complete"),
        (3, "complete"),
    ]
    rates = {services.queries.show(trial.job).config.optimizer.lr for trial in ended_trials()}
    assert rates == {trial.values["optimizer.lr"] for trial in ended_trials()}
    assert len(rates) == len(folders)
