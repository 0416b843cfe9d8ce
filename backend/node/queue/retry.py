"""The next run of a job after the failure of a machine: whether there is one, and where.

`next_retry` decides from its arguments; `plan` reads those from the files, and `carry_out` queues
the run. An error of the user's code never leads to another run: see `RankError.retry`.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.queue.next_run import queue_next
from backend.node.queue.running_jobs import LiveRuns
from backend.node.system import wording
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.audit_entry import add_entry
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import GROWN, Continuation, RankError, RunExit
from backend.records.jobs.stop_request import stop_requested
from backend.records.nodes.entry import NodeEntry
from backend.records.queue.scheduling import node_view_of

_log = logging.getLogger(__name__)
_BEAT_S = 5.0
"""An agent that lives writes within this time; a heartbeat must be seen to advance."""


@dataclass(frozen=True)
class NodeCapacity:
    """Resources of a node: its address, the kinds of its GPUs by UUID, and its cores.

    ``used_gpus`` are GPUs that others use; ``is_free`` is false where it cannot take the job now.
    """

    host: str = ""
    gpus: Mapping[str, str] = field(default_factory=dict)
    cores: int = 0
    used_gpus: Collection[str] = ()
    is_free: bool = False


@dataclass(frozen=True)
class RetryPlan:
    """The run to queue. ``hosts`` are the addresses of nodes that the run before did not have."""

    continuation: Continuation
    changes: Mapping[str, Any] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)


def next_retry(
    launch: Launch,
    error: RankError,
    saved_step: int,
    lost_nodes: Collection[str] = (),
    capacities: Mapping[str, NodeCapacity] = {},
) -> RetryPlan | None:
    """Return the next run after a failed one, None if the user has to act. Pure.

    Args:
        saved_step: That of the newest checkpoint: without progress, the same cause fails again.
        lost_nodes: Nodes of the run that no longer answer.
        capacities: All nodes that are known, also those of the run.
    """
    last_retry = launch.continuation or Continuation("")
    is_repeated = bool(last_retry.reason) and (last_retry.step, last_retry.cause) == (
        saved_step,
        error.cause,
    )
    if not error.retry or launch.is_staged or launch.is_trial:
        return None
    if error.retry == "once" and is_repeated:
        return None
    config = launch.config
    failed_nodes = {
        p.node for p in config.placement if p.node in lost_nodes or p.node == error.node
    }
    options = [
        *_placement_options(config, last_retry.retries, failed_nodes, lost_nodes, capacities)
    ]
    if config.on_failure.shrink and not failed_nodes and not is_repeated:
        options.append((config.placement, False, "Tries again on the same nodes."))
    for placement, uses_retry, message in options:
        template = _with_user_batches(last_retry, config, placement)
        changes = _scaled_settings(config, placement, template)
        changed_config = with_changes(
            config, {**changes, "placement": [p.to_dict() for p in placement]}
        ).config
        if changed_config is None:
            continue
        batch_message = _batch_message(config, changed_config, template)
        nodes = [p.node for p in placement]
        continuation = Continuation(
            reason=" ".join(filter(None, (_end_sentence(error.message), message, batch_message))),
            started_at=timestamps.utc_now(),
            retries=last_retry.retries + uses_retry,
            avoided_nodes=tuple(
                sorted({*last_retry.avoided_nodes, *failed_nodes}.difference(nodes))
            ),
            chosen_nodes=last_retry.chosen_nodes or tuple(p.node for p in config.placement),
            placement=tuple(placement),
            batch_size=changed_config.batch_size,
            step=saved_step,
            cause=error.cause,
            chosen_batch=template.chosen_batch,
            chosen_global_batch=template.chosen_global_batch,
        )
        new_nodes = set(nodes).difference(p.node for p in config.placement)
        return RetryPlan(continuation, changes, {node: capacities[node].host for node in new_nodes})
    return None


def next_growth(
    full_launch: Launch, launch: Launch, returned_hosts: Mapping[str, str]
) -> RetryPlan | None:
    """Return the run that takes lost nodes back after a run on fewer; None without any. Pure.

    Args:
        full_launch: The launch with all nodes.
        returned_hosts: The addresses of its lost nodes that can take the job now.
    """
    current_placements = {p.node: p for p in launch.config.placement}
    missing_placements = [
        p
        for p in full_launch.config.placement
        if p.node not in current_placements and p.node in returned_hosts
    ]
    added_placements = missing_placements[
        : len(full_launch.config.placement) - len(current_placements)
    ]
    if not added_placements or launch.continuation is None:
        return None
    placement = [
        p
        for p in full_launch.config.placement
        if p.node in current_placements or p in added_placements
    ]
    placement += [p for p in current_placements.values() if p not in placement]
    template = _with_user_batches(launch.continuation, full_launch.config, placement)
    changes = _scaled_settings(full_launch.config, placement, template)
    raw = [p.to_dict() for p in placement]
    changed_config = with_changes(full_launch.config, {**changes, "placement": raw}).config
    if changed_config is None:
        return None
    added_nodes = [p.node for p in added_placements]
    batch_message = _batch_message(launch.config, changed_config, template)
    continuation = replace(
        template,
        reason=f"{usable_again_message(added_nodes)} {batch_message}".rstrip(),
        started_at=timestamps.utc_now(),
        avoided_nodes=tuple(p for p in template.avoided_nodes if p not in added_nodes),
        placement=tuple(placement),
        batch_size=changed_config.batch_size,
        cause=GROWN,
    )
    hosts = {plan.node: plan.host for plan in launch.ranks}
    return RetryPlan(
        continuation, changes, {**hosts, **{node: returned_hosts[node] for node in added_nodes}}
    )


def usable_again_message(nodes: Sequence[str]) -> str:
    return f"{_join_nodes(nodes)} can be used again."


def _placement_options(
    config: JobConfig,
    used_retries: int,
    failed_nodes: Collection[str],
    lost_nodes: Collection[str],
    capacities: Mapping[str, NodeCapacity],
) -> Iterator[tuple[Sequence[Placement], bool, str]]:
    """Yield where the job may continue, the best first, and whether that is a retry."""
    policy, all_nodes = config.on_failure, config.placement
    remaining_placements = [p for p in all_nodes if p.node not in failed_nodes]
    failed_names = _join_nodes(sorted(failed_nodes))
    shrink_message = (
        f"Continues on {_join_nodes([p.node for p in remaining_placements])}, "
        f"without {failed_names}."
    )
    may_retry = used_retries < policy.retries
    if may_retry and policy.nodes == "others" and failed_nodes:
        new_placement = _replace_nodes(all_nodes, failed_nodes, capacities)
        if new_placement:
            new_nodes = [p.node for p in new_placement if p not in all_nodes]
            yield (
                new_placement,
                True,
                f"Continues on {_join_nodes(new_nodes)} instead of {failed_names}.",
            )
    may_shrink = (
        policy.shrink
        and 0 < len(remaining_placements) < len(all_nodes)
        and len(remaining_placements) >= policy.at_least
    )
    same_message = f"Tries again on the same nodes, {used_retries + 1} of {policy.retries}."
    # The same nodes are waited for, unless the others may continue without one that is gone.
    waits_for_nodes = policy.nodes == "same" and not (
        may_shrink and set(failed_nodes) & set(lost_nodes)
    )
    if may_retry and (waits_for_nodes or not failed_nodes):
        yield all_nodes, True, same_message
    if may_shrink:
        yield remaining_placements, False, shrink_message
    if may_retry:
        if policy.nodes == "others" and remaining_placements:
            yield remaining_placements, True, shrink_message
        yield all_nodes, True, same_message


def _replace_nodes(
    placement: Sequence[Placement],
    failed_nodes: Collection[str],
    capacities: Mapping[str, NodeCapacity],
) -> list[Placement]:
    """Return the placement with free nodes of the same kind for the bad ones; [] without any."""
    new_placement: list[Placement] = []
    used_nodes = {node_placement.node for node_placement in placement}
    for node_placement in placement:
        if node_placement.node not in failed_nodes:
            new_placement.append(node_placement)
            continue
        candidates = (
            candidate
            for node in sorted(set(capacities) - used_nodes)
            if capacities[node].is_free
            and (
                candidate := _place_on_nodes(
                    node,
                    node_placement,
                    capacities[node],
                    capacities.get(node_placement.node, NodeCapacity()).gpus,
                )
            )
        )
        substitute = next(candidates, None)
        if substitute is None:
            return []
        used_nodes.add(substitute.node)
        new_placement.append(substitute)
    return new_placement


def _place_on_nodes(
    node: str, node_placement: Placement, capacity: NodeCapacity, gpu_kinds: Mapping[str, str]
) -> Placement | None:
    """Return the placement on another node, None if it has too few GPUs or cores of the kind."""
    if not node_placement.gpus:
        return (
            Placement(node, node_placement.processes)
            if capacity.cores >= node_placement.processes
            else None
        )
    free_gpus = [uuid for uuid in capacity.gpus if uuid not in capacity.used_gpus]
    chosen_gpus: list[str] = []
    for gpu in node_placement.gpus:
        same_kind_gpus = (
            uuid
            for uuid in free_gpus
            if uuid not in chosen_gpus and capacity.gpus[uuid] == gpu_kinds.get(gpu)
        )
        substitute = next(same_kind_gpus, "")
        if not substitute:
            return None
        chosen_gpus.append(substitute)
    return Placement(node, gpus=tuple(chosen_gpus))


def _with_user_batches(
    last_retry: Continuation, config: JobConfig, placement: Sequence[Placement]
) -> Continuation:
    """Return ``last_retry`` with the user's batches, if the global batch is to stay from now on."""
    keeps_batch = (
        not config.script and config.on_failure.scaling == "batch" and not last_retry.chosen_batch
    )
    if not keeps_batch or replace(config, placement=tuple(placement)).batches == config.batches:
        return last_retry
    return replace(
        last_retry, chosen_batch=config.batch_size, chosen_global_batch=config.global_batch_size
    )


def _scaled_settings(
    config: JobConfig, placement: Sequence[Placement], template: Continuation
) -> dict[str, Any]:
    """Return the settings that change with the number of processes.

    With fewer processes each makes more passes, so that a batch needs no more memory than that of
    the user, from which it is rounded, however many nodes were lost since. The learning rate is
    that of `Launch.lr_factor`.
    """
    placed_config = replace(config, placement=tuple(placement))
    # A single node leaves no other to continue without.
    single_node_changes = {"on_failure.shrink": False, "on_failure.grow": False}
    changes: dict[str, Any] = single_node_changes if placed_config.node_count == 1 else {}
    if not template.chosen_batch:
        return changes
    workers = max(1, replace(placed_config, accumulate=1).batches)
    pass_count = -(-template.chosen_global_batch // (workers * template.chosen_batch))
    batch_size = max(1, round(template.chosen_global_batch / (workers * pass_count)))
    return {**changes, "batch_size": batch_size, "accumulate": pass_count}


def _batch_message(
    previous_config: JobConfig, changed_config: JobConfig, template: Continuation
) -> str:
    batch_label, old_label = (_process_batch(c) for c in (changed_config, previous_config))
    is_same = previous_config.batches == changed_config.batches and batch_label == old_label
    if is_same or previous_config.script:
        return ""
    old_batch = template.chosen_global_batch or previous_config.global_batch_size
    new_batch = changed_config.global_batch_size
    if batch_label == old_label:
        factor = changed_config.lr_factor / previous_config.lr_factor
        rate_label = (
            "the rate stays" if factor == 1 else f"the rate is {factor:.3g} of the one before"
        )
        return f"The global batch is {new_batch} instead of {old_batch}, and {rate_label}."
    size_label = f"The batch per process is {batch_label} instead of {old_label}"
    global_label = (
        f"is {new_batch} as before"
        if old_batch == new_batch
        else f"is rounded to {new_batch} from {old_batch}"
    )
    return f"{size_label}, so that the global batch {global_label}."


def _end_sentence(message: str) -> str:
    return message if message.endswith((".", "!", "?", "…")) else f"{message}."


def _join_nodes(nodes: Sequence[str]) -> str:
    *leading_names, last_name = map(wording.node_label, nodes) if nodes else ("it",)
    return f"{', '.join(leading_names)} and {last_name}" if leading_names else last_name


def plan(
    folder: JobFolder, launch: Launch | None, record: RunExit, lost_nodes: Collection[str] = ()
) -> RetryPlan | None:
    """Return the next run after the end of one; see `next_retry`. It may take some seconds."""
    if launch is None or record.state is not JobState.ERROR or record.error is None:
        return None
    policy = launch.config.on_failure
    if not policy.continues or not record.error.retry:
        return None
    try:
        if stop_requested(folder.stop_request, launch.run):
            return None
        checkpoints = read_checkpoints(folder.checkpoints)
        used_retries = launch.continuation.retries if launch.continuation is not None else 0
        wants_others = policy.nodes == "others" and used_retries < policy.retries
        capacities = (
            _read_capacities(DataRoot(folder.path.parent.parent), launch) if wants_others else {}
        )
    except OSError as error:
        swallowed(error)
        return None
    step = max((checkpoint.step for checkpoint in checkpoints), default=0)
    return next_retry(launch, record.error, step, lost_nodes, capacities)


def carry_out(folder: JobFolder, launch: Launch | None, retry_plan: RetryPlan | None) -> None:
    """Queue the next run. A failure is logged: the end of the run before is on record."""
    if launch is None or retry_plan is None or folder.newest_run() != launch.run:
        return
    last_retry, continuation = launch.continuation, retry_plan.continuation
    try:
        if continuation.is_short and not (last_retry is not None and last_retry.is_short):
            replace_json(folder.whole_launch, launch.to_dict())
        queue_next(
            folder,
            launch,
            continuation.reason,
            placement=continuation.placement,
            hosts=retry_plan.hosts,
            changes=retry_plan.changes,
            continuation=continuation,
        )
    except (OSError, BackendError):
        _log.exception("The next run of %s could not be queued", folder.job_id)
        return
    _log.info("Queued run %d of %s: %s", launch.run + 1, folder.job_id, continuation.reason)
    with suppress(OSError):
        add_entry(folder, Files(), f"Continued without a user: {continuation.reason.rstrip('.')}")


def _read_capacities(root: DataRoot, launch: Launch) -> dict[str, NodeCapacity]:
    """Read what all nodes offer; those that cannot run this job's processes are not free."""
    nodes = [path.name for path in root.nodes.iterdir() if not path.name.startswith(".")]
    heartbeats = HeartbeatReader(root)
    living_nodes: set[str] = set()
    deadline = time.monotonic() + _BEAT_S
    while len(living_nodes) < len(nodes) and time.monotonic() < deadline:
        living_nodes.update(node for node in nodes if heartbeats.read(node)[1])
        time.sleep(0.2)
    live_runs = LiveRuns(root).read()
    busy_nodes = {use.node for job in live_runs.running_jobs for use in job.uses if use.processes}
    used_gpus = {gpu for job in live_runs.running_jobs for use in job.uses for gpu in use.gpus}
    capacities: dict[str, NodeCapacity] = {}
    for node in nodes:
        with suppress(OSError, ValueError):
            entry = NodeEntry.from_dict(read_json(root.node(node).entry))
            reading = heartbeats.read(node)[0]
            if reading is None:
                continue
            view = node_view_of(reading, live_runs.tags)
            can_run = (
                fits_launch(entry, launch) and live_runs.is_complete and node not in busy_nodes
            )
            capacities[node] = NodeCapacity(
                host=host_of(entry),
                gpus={gpu.uuid: gpu.name for gpu in reading.gpus},
                cores=view.cores,
                used_gpus={*used_gpus, *view.foreign_holders, *view.hidden_holders},
                is_free=node in living_nodes
                and can_run
                and not (view.down_reason or view.gpu_read_error),
            )
    return capacities


def host_of(entry: NodeEntry) -> str:
    """Return the address at which mpirun reaches a node."""
    return entry.ranks_address.partition("/")[0] or entry.address.host


def fits_launch(entry: NodeEntry, launch: Launch) -> bool:
    """Return whether the launch of the run before is valid on a node."""
    installation = entry.installation
    if installation is None or entry.is_staged or not entry.in_service:
        return False
    if (installation.python, installation.bundle) != (launch.python, launch.code_root):
        return False
    subnets = filter(None, launch.launcher.networks.split(","))
    address = ipaddress.ip_interface(entry.ranks_address or entry.address.host).ip
    return any(address in ipaddress.ip_network(subnet) for subnet in subnets)


def _process_batch(config: JobConfig) -> str:
    """Return the samples of a process in a step: "8", or "2 × 4" for two passes."""
    pass_prefix = f"{config.accumulate} × " if config.accumulate > 1 else ""
    return f"{pass_prefix}{config.batch_size}"
