"""One queue for all desktops, whether they mount the data root or reach it over SFTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backend.base.errors import BackendError
from backend.node.metrics.probe import Probe
from backend.node.queue import starter as queue_starter
from backend.node.queue.scheduler import Scheduler
from backend.node.system import process_identity
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.view import NODE_CHECK
from backend.records.nodes import health
from backend.records.queue.entry import Cause
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services
from tests.backend.services.access_cases import NODE, DataSite, Heart, on_node
from tests.waiting import wait_for

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")

Beat = Callable[[DataSite], Heart]


def names(services: Services) -> list[str]:
    return [slot.entry.name for slot in services.queue.read().jobs]


def test_two_desktops_order_one_queue_and_the_nodes_agent_starts_the_first(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def supervise(folder: JobFolder, launch: Launch) -> None:
        supervisor = folder.attempt(launch.run).supervisor
        replace_json(supervisor, process_identity.own_process().to_dict())

    monkeypatch.setattr(queue_starter, "start_supervisor", supervise)
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    beat(site)
    replace_json(site.data.node(NODE).info, {"starts_queued": True})
    ids = {name: first.jobs.create(on_node(name=name)).id for name in ("a", "b", "c")}
    first.queue.pause()
    for name in ("a", "b", "c"):
        assert first.queue.enqueue(ids[name]).number == "abc".index(name) + 1
    assert names(second) == ["a", "b", "c"]
    assert second.jobs.queries.show(ids["a"]).state is JobState.QUEUED
    assert {view.state for view in second.jobs.queries.list()} == {JobState.QUEUED}
    second.queue.reorder(ids["c"], before_id=ids["a"])
    second.queue.change(ids["b"], -3)
    assert names(first) == ["c", "a", "b"]
    assert first.queue.read().pause_message.startswith("The queue is paused by ")

    second.queue.resume()
    probe = Probe(NODE, site.root)
    agent = Scheduler(site.data, NODE, probe.read)
    started_ids = wait_for(agent.poll, "the first turn")
    assert started_ids[0] == ids["c"]
    # What both of them see is what the agent did, and nothing is left of it in the queue.
    assert second.jobs.queries.show(ids["c"]).state is JobState.STARTING
    waiting_names = [name for name in ("a", "b") if ids[name] not in started_ids]
    assert names(first) == names(second) == waiting_names
    assert first.queue.dequeue(ids["b"]).state is not JobState.QUEUED
    assert "b" not in names(second)


def test_a_node_whose_agent_is_older_than_the_queue_is_named_when_it_matters(
    site: DataSite, beat: Beat
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view = services.jobs.create(on_node())
    with pytest.raises(BackendError, match="is older than this Ringmaster") as refusal:
        services.queue.enqueue(view.id)
    assert "Set gpu1 up again" in refusal.value.remedy
    assert services.queue.read().jobs == ()


def test_a_queued_job_waits_for_a_silent_node_and_says_since_when(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = site.desktop()
    site.stock(services)
    heart = beat(site)
    replace_json(site.data.node(NODE).info, {"starts_queued": True})
    view = services.jobs.create(on_node())
    services.queue.enqueue(view.id)
    heart.stop()
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)

    def cause() -> Cause | None:
        queued_job = services.queue.read().find_job(view.id)
        assert queued_job is not None
        return queued_job.wait_reason and queued_job.wait_reason.cause

    wait_for(lambda: cause() is Cause.NODE_DOWN, "the node to be missed")
    queued_job = services.queue.read().find_job(view.id)
    assert queued_job is not None
    assert queued_job.message.startswith("gpu1 is offline: no news since ")


def test_jobs_for_an_offline_node_are_created_and_wait(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = site.desktop()
    site.stock(services)
    heart = beat(site)
    replace_json(site.data.node(NODE).info, {"starts_queued": True})
    assert services.jobs.check(on_node()).waits_for == ""
    heart.stop()
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)
    wait_for(
        lambda: services.jobs.check(on_node()).waits_for == NODE_CHECK, "the node to be missed"
    )
    check = services.jobs.check(on_node())
    assert check.may_start
    assert check.findings[-1].message.startswith("gpu1 is offline: no news since ")
    view = services.jobs.create(on_node())
    wait_reason = services.queue.enqueue(view.id).wait_reason
    assert wait_reason is not None
    assert wait_reason.cause is Cause.NODE_DOWN
    sweep = services.sweeps.queue(Sweep(on_node(), (Axis("seed", (1, 2)),)))
    assert [j.state for j in sweep.jobs] == [JobState.QUEUED, JobState.QUEUED]
    for start in (
        lambda: services.jobs.lifecycle.start(view.id),
        lambda: services.jobs.create_and_start(on_node()),
    ):
        with pytest.raises(BackendError, match="gpu1"):
            start()
    assert len(services.jobs.queries.list()) == 3
