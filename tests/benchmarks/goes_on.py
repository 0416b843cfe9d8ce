"""A job that loses a node: seconds to its next step, and its final loss: needs root.

Three nodes of the test cluster train a small synchronous job, once undisturbed for each seed, and
once for each seed and kind of loss. The node is lost at a random step, and the job must continue on
those that are left. The final losses of the undisturbed runs are the spread in which the others
must be.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.records.jobs.state import JobState
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.ready import ReadyCluster, open_ready_cluster, patience
from tests.cluster.runs import (
    NODE_LOSSES,
    job_starter,
    stock_library,
    wait_for_end,
    wait_for_step_after,
    wait_for_view,
)

SEEDS = 5
_NODES = ("node1", "node2", "node3")
_CALM = "undisturbed"
_KINDS = ("processes", "power", "cable", "head")
_JOB: dict[str, Any] = {
    "epochs": 8,
    "on_failure": {"shrink": True, "at_least": 2},
    "checkpoint": {"every_steps": 5},
    "environment": {"PAUSE_S": "0.02"},
}
_LOSS_SHARES = 0.2, 0.7
"""The shares of the steps between which the node is lost."""
_ROUNDING = 1e-3
"""Fewer ranks add the same numbers in another order."""


@dataclass(frozen=True)
class _Outcome:
    """A run that did not continue, or did not finish, has no loss and took infinitely long."""

    kind: str
    loss: float = math.nan
    took_s: float = math.inf
    nodes: int = 0


def measure(seeds: int = SEEDS) -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(patience())
        cluster = stack.enter_context(
            Cluster(folder / "cluster", _NODES, (), progress=Progress(sys.stderr))
        )
        ready = stack.enter_context(open_ready_cluster(cluster, folder))
        stock_library(ready, folder / "sources")
        order = [(kind, seed) for seed in range(1, seeds + 1) for kind in (_CALM, *_KINDS)]
        outcomes = [_outcome(ready, kind, seed) for kind, seed in order]
    calm_losses = [outcome.loss for outcome in outcomes if outcome.kind == _CALM]
    low_loss, high_loss = min(calm_losses) * (1 - _ROUNDING), max(calm_losses) * (1 + _ROUNDING)
    figures = []
    for kind in _KINDS:
        runs = [outcome for outcome in outcomes if outcome.kind == kind]
        times = " ".join(f"{outcome.took_s:.1f}" for outcome in runs)
        context = (
            f"each: {times} s; then on {_join_values(outcome.nodes for outcome in runs)} nodes"
        )
        slowest = (max(outcome.took_s for outcome in runs),)
        figures.append(
            Figure("X2", f"{kind}: slowest to a step", slowest, 60, "s", context=context)
        )
        inside_share = (sum(low_loss <= outcome.loss <= high_loss for outcome in runs) / len(runs),)
        losses = _join_values(outcome.loss for outcome in runs)
        context = f"{losses}; undisturbed {_join_values(calm_losses)}"
        name = f"{kind}: final loss in the spread"
        figures.append(Figure("X2", name, inside_share, 1, at_least=True, context=context))
    return figures


def _outcome(ready: ReadyCluster, kind: str, seed: int) -> _Outcome:
    ready.revive()
    processes = [process for node in ready.cluster.nodes.values() for process in node.processes()]
    try:
        outcome = _run(ready, kind, seed)
    except (AssertionError, RuntimeError) as error:
        sys.stderr.write(f"{kind}, seed {seed}: {error}\n")
        outcome = _Outcome(kind)
    ready.cluster.heal(processes)
    sys.stderr.write(f"seed {seed}: {outcome}\n")
    return outcome


def _run(ready: ReadyCluster, kind: str, seed: int) -> _Outcome:
    chance = random.Random(f"{kind} {seed}")
    took_s = 0.0
    with job_starter(ready) as start:
        view = start(*_NODES, seed=seed, **_JOB)
        if kind != _CALM:
            first_step, last_step = (
                round(share * view.status.total_steps) for share in _LOSS_SHARES
            )
            wait_for_step_after(ready, view.id, chance.randint(first_step, last_step))
            victim = "node1" if kind == "head" else chance.choice(_NODES[1:])
            took_s = _recovery_s(ready, view.id, kind, victim)
        view = wait_for_end(ready, view.id)
    if view.state is not JobState.FINISHED:
        raise RuntimeError(f"It ended as {view.state.label}: {view.error}")
    loss = view.status.metrics["validation/loss"]
    return _Outcome(kind, math.nan if loss is None else loss, took_s, len(view.nodes))


def _recovery_s(ready: ReadyCluster, job_id: str, kind: str, victim: str) -> float:
    started_s = time.monotonic()
    NODE_LOSSES["power" if kind == "head" else kind](ready[victim])
    view = wait_for_view(ready, job_id, lambda v: v.run == 2 and v.state is JobState.TRAINING)
    wait_for_step_after(ready, job_id, view.step)
    return time.monotonic() - started_s


def _join_values(values: Iterable[float]) -> str:
    return " ".join(f"{value:.5g}" for value in values)
