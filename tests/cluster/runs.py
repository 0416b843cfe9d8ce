"""What tests ask about runs on the ready cluster; see `tests.cluster.runs_fixtures`."""

from __future__ import annotations

import time

from backend.records.job_view import JobView
from backend.records.node import Presence
from tests.cluster.commands import wait_for
from tests.cluster.node import Process
from tests.cluster.ready import ReadyCluster

ENDLESS = 1_000_000


def of_runs(stocked: ReadyCluster) -> list[tuple[str, Process]]:
    """Every process of the user's on any node, but the agents and sshd."""
    return [
        (node.name, process)
        for node in stocked.cluster.nodes.values()
        for process in node.processes()
        if process.uid
        and "backend.node.agent" not in process.argv
        and "sshd" not in process.argv[0]
    ]


def grows(stocked: ReadyCluster, job_id: str, beyond: int, limit_s: float = 60.0) -> JobView:
    deadline = time.monotonic() + limit_s
    return stocked.services.jobs.wait(
        job_id,
        until=lambda v: v.step > beyond or not v.state.is_live or time.monotonic() > deadline,
    )


def tells(stocked: ReadyCluster, job_id: str, words: str, limit_s: float = 60.0) -> JobView:
    """The job as it is once its message says so; "" is nothing to say."""
    seen: list[JobView] = []

    def says() -> bool:
        seen.append(stocked.services.jobs.show(job_id))
        return words in seen[-1].message if words else not seen[-1].message

    wait_for(says, f"“{words}” was not told", limit_s, lambda: f"It was: {seen[-1].message}")
    return seen[-1]


def everyone_is_online(stocked: ReadyCluster) -> bool:
    return {one.presence for one in stocked.services.nodes.list()} == {Presence.ONLINE}
