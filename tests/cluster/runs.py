"""Jobs that tests start on a ready cluster, and what they ask about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.datastore.jobs.checkpoint_files import verify
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.records.nodes.reading import Presence
from tests.cluster.node import Node, Process
from tests.cluster.ready import ReadyCluster
from tests.fakes.mounted_root import MOUNTED
from tests.integration.conftest import WORKING, is_training
from tests.integration.tiny import MODEL, raw_job, write_sources
from tests.waiting import LIMIT_S, wait_for

ENDLESS = 1_000_000
CALM = {"PAUSE_S": "0.01", "HOROVOD_CYCLE_TIME": "50"}
"""The environment of a job that need not be fast: its ranks leave the processor to the others."""
LOST_LIMIT_S = 2 * LIMIT_S
"""For a run to notice a lost node, by limits of the product of about a minute."""


def makes_steps(view: JobView) -> bool:
    """Whether its ranks are at work; now and then they evaluate or save."""
    return view.state in WORKING


def stock_library(ready: ReadyCluster, folder: Path, model_text: str = MODEL) -> None:
    """Put something to train into the library; ``folder`` holds its sources."""
    model, loader, dataset = write_sources(folder)
    (model / "bks_model.py").write_text(model_text)
    library = ready.services.library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, "tiny")


@contextmanager
def job_starter(ready: ReadyCluster) -> Iterator[Callable[..., JobView]]:
    """Yield a function that starts a job on nodes and waits until it trains.

    Jobs that still run at the end of the block are stopped.
    """
    jobs = ready.services.jobs
    job_ids: list[str] = []

    def start(*nodes: str, processes: int = 1, **changes: Any) -> JobView:
        placement = [{"node": node, "processes": processes} for node in nodes]
        changes["environment"] = {**CALM, **changes.get("environment", {})}
        raw = raw_job(**{"epochs": ENDLESS, **changes, "placement": placement})
        view = jobs.create(raw)
        job_ids.append(view.id)
        jobs.lifecycle.start(view.id)
        return jobs.queries.wait(
            view.id, is_finished=lambda v: is_training(v) or not v.state.is_live
        )

    yield start
    for job_id in job_ids:
        jobs.lifecycle.stop(job_id)
        jobs.queries.wait(job_id)


def run_processes(stocked: ReadyCluster) -> list[tuple[str, Process]]:
    """Every process of the user's on any node, but the agents and what serves SSH."""
    return [
        (node.name, process)
        for node in stocked.cluster.nodes.values()
        for process in node.processes()
        if _is_of_run(process)
    ]


def _is_of_run(process: Process) -> bool:
    # Of one that is just ending the kernel has no words any more.
    is_ssh = any("sshd" in word or "sftp-server" in word for word in process.argv[:1])
    return bool(process.uid) and "backend.node.agent.agent" not in process.argv and not is_ssh


def _kill_processes(node: Node) -> None:
    for process in node.processes():
        if _is_of_run(process):
            node.run(["kill", "-9", str(process.pid)])


NODE_LOSSES: dict[str, Callable[[Node], None]] = {
    "power": Node.power_off,
    "processes": _kill_processes,
    "cable": Node.cut,
}
"""Ways in which a run loses a node."""


def wait_for_no_processes(stocked: ReadyCluster) -> None:
    """Wait until every process of a run has ended; what is left after that is named."""

    def describe_processes() -> str:
        return "; ".join(
            f"on {name}: {' '.join(process.argv)}" for name, process in run_processes(stocked)
        )

    wait_for(
        lambda: not run_processes(stocked),
        "the end of all processes of the run",
        hint=describe_processes,
    )


def is_program(process: Process, program: str) -> bool:
    """Whether it is mpirun, one of its daemons, or a Python module or file of that name."""
    # Open MPI 5's mpirun becomes prterun.
    names = ("/mpirun", "prterun") if program == "mpirun" else (program,)
    return program in process.argv or any(
        word.endswith(name) for name in names for word in process.argv[:2]
    )


def wait_for_step_after(stocked: ReadyCluster, job_id: str, step: int) -> JobView:
    """Return the job once it has made more steps than ``beyond``, or is over."""
    return wait_for_view(stocked, job_id, lambda v: v.step > step or not v.state.is_live)


def wait_for_view(
    stocked: ReadyCluster, job_id: str, is_reached: Callable[[JobView], bool]
) -> JobView:
    """Return the job once it is so."""
    deadline = time.monotonic() + LOST_LIMIT_S
    view = stocked.services.jobs.queries.wait(
        job_id, is_finished=lambda v: is_reached(v) or time.monotonic() > deadline
    )
    status_text = ", ".join(
        filter(None, (view.state.label, view.status.message, view.contact_warning))
    )
    assert is_reached(view), f"After {LOST_LIMIT_S:g} s it is at step {view.step}: {status_text}"
    return view


def continue_on_other_nodes(stocked: ReadyCluster, view: JobView) -> JobView:
    """Stopped with a whole checkpoint and nothing left of it, a run goes on on two other nodes."""
    jobs = stocked.services.jobs
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    wait_for_no_processes(stocked)
    verify(
        MOUNTED,
        next(
            checkpoint for checkpoint in jobs.queries.checkpoints(view.id) if checkpoint.is_latest
        ),
    )

    jobs.lifecycle.resume(view.id, placement=(Placement("node3", 1), Placement("node2", 1)))
    view = wait_for_step_after(stocked, view.id, view.step)
    assert (view.world_size, view.run) == (2, 2)
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))
    return view


def wait_for_end(stocked: ReadyCluster, job_id: str) -> JobView:
    """Return the job once it is over."""
    return wait_for_view(stocked, job_id, lambda v: not v.state.is_live)


def kill_process_of_run(stocked: ReadyCluster, view: JobView, name: str, victim: str) -> RankError:
    """Return the error of a run whose process was killed on a node; no process is left."""
    process = next(
        p for node, p in run_processes(stocked) if node == name and is_program(p, victim)
    )
    stocked[name].run(["kill", "-9", str(process.pid)])
    view = wait_for_end(stocked, view.id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert view.error.message
    wait_for_no_processes(stocked)
    return view.error


def require_cut_node_is_named(stocked: ReadyCluster, view: JobView) -> None:
    """Cut node2 off from a run on node1 and node2; both nodes are free after it."""
    stocked["node2"].cut()
    view = wait_for_end(stocked, view.id)
    assert view.state is JobState.ERROR
    assert view.status.message.startswith("node2 no longer answers")
    assert view.error is not None
    assert view.error.node == "node2"
    wait_for_no_processes(stocked)


def wait_for_message(stocked: ReadyCluster, job_id: str, message_part: str) -> JobView:
    """The job as it is once its message says so; "" is nothing to say."""
    views: list[JobView] = []

    def says() -> bool:
        views.append(stocked.services.jobs.queries.show(job_id))
        return (
            message_part in views[-1].status.message
            if message_part
            else not views[-1].status.message
        )

    wait_for(
        says, f"the message “{message_part}”", hint=lambda: f"It was: {views[-1].status.message}"
    )
    return views[-1]


def everyone_is_online(stocked: ReadyCluster) -> bool:
    return {node_state.presence for node_state in stocked.services.nodes.list()} == {
        Presence.ONLINE
    }
