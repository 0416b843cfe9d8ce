"""The next run of a job after the failure of a machine: whether there is one, and where.

`next_try` decides, from what is known; `plan` reads that from the files, and `carry_out` queues the
run. An error of the user's code never leads to another run: `RankError.retry` says which it was.
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
from backend.records.base.local_files import LocalFiles
from backend.records.jobs.audit_entry import add_entry
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.config import JobConfig, with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import GROWN, Continued, RankError, RunExit
from backend.records.jobs.stop_request import stop_requested
from backend.records.nodes.entry import NodeEntry
from backend.records.queue.scheduling import node_view_of

_log = logging.getLogger(__name__)
_BEAT_S = 5.0
"""An agent that lives writes within this time; a heartbeat must be seen to advance."""


@dataclass(frozen=True)
class Room:
    """Resources of a node: its address, the kinds of its GPUs by UUID, and its cores.

    ``taken`` are GPUs that others use; ``is_free`` is false where it cannot take the job now.
    """

    host: str = ""
    gpus: Mapping[str, str] = field(default_factory=dict)
    cores: int = 0
    taken: Collection[str] = ()
    is_free: bool = False


@dataclass(frozen=True)
class NextTry:
    """The run to queue. ``hosts`` are the addresses of nodes that the run before did not have."""

    continued: Continued
    changes: Mapping[str, Any] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)


def next_try(
    launch: Launch,
    error: RankError,
    saved_step: int,
    gone: Collection[str] = (),
    rooms: Mapping[str, Room] = {},
) -> NextTry | None:
    """Return the next run after a failed one, None if the user has to act. Pure.

    Args:
        saved_step: That of the newest checkpoint: without progress, the same cause fails again.
        gone: Nodes of the run that no longer answer.
        rooms: All nodes that are known, also those of the run.
    """
    before = launch.continued or Continued("")
    has_failed_so = bool(before.reason) and (before.step, before.cause) == (saved_step, error.cause)
    if not error.retry or launch.apart or launch.steps_limit:
        return None
    if error.retry == "once" and has_failed_so:
        return None
    config = launch.config
    bad = {one.node for one in config.placement if one.node in gone or one.node == error.node}
    ways = [*_ways(config, before.retries, bad, gone, rooms)]
    if config.on_failure.shrink and not bad and not has_failed_so:
        ways.append((config.placement, False, "Tries again on the same nodes."))
    for placement, uses_retry, what in ways:
        chosen = _chosen(before, config, placement)
        changes = _scaled(config, placement, chosen)
        made = with_changes(
            config, {**changes, "placement": [one.to_dict() for one in placement]}
        ).config
        if made is None:
            continue
        names = [one.node for one in placement]
        continued = Continued(
            reason=" ".join(
                filter(None, (_ended(error.sentence), what, _words(config, made, chosen)))
            ),
            since=timestamps.now(),
            retries=before.retries + uses_retry,
            avoids=tuple(sorted({*before.avoids, *bad}.difference(names))),
            before=before.before or tuple(one.node for one in config.placement),
            placement=tuple(placement),
            batch_size=made.batch_size,
            step=saved_step,
            cause=error.cause,
            chosen_batch=chosen.chosen_batch,
            chosen_global_batch=chosen.chosen_global_batch,
        )
        new = set(names).difference(one.node for one in config.placement)
        return NextTry(continued, changes, {name: rooms[name].host for name in new})
    return None


def take_back(whole: Launch, launch: Launch, back: Mapping[str, str]) -> NextTry | None:
    """Return the next run of one on fewer nodes, with those that are back; None without any. Pure.

    Args:
        whole: The launch with all nodes.
        back: The addresses of nodes of it that can take the job.
    """
    now = {one.node: one for one in launch.config.placement}
    missing = [one for one in whole.config.placement if one.node not in now and one.node in back]
    taken = missing[: len(whole.config.placement) - len(now)]
    if not taken or launch.continued is None:
        return None
    placement = [one for one in whole.config.placement if one.node in now or one in taken]
    placement += [one for one in now.values() if one not in placement]
    chosen = _chosen(launch.continued, whole.config, placement)
    changes = _scaled(whole.config, placement, chosen)
    raw = [one.to_dict() for one in placement]
    made = with_changes(whole.config, {**changes, "placement": raw}).config
    if made is None:
        return None
    names = [one.node for one in taken]
    continued = replace(
        chosen,
        reason=f"{answers_again(names)} {_words(launch.config, made, chosen)}".rstrip(),
        since=timestamps.now(),
        avoids=tuple(one for one in chosen.avoids if one not in names),
        placement=tuple(placement),
        batch_size=made.batch_size,
        cause=GROWN,
    )
    hosts = {plan.node: plan.host for plan in launch.ranks}
    return NextTry(continued, changes, {**hosts, **{name: back[name] for name in names}})


def answers_again(nodes: Sequence[str]) -> str:
    return f"{_named(nodes)} can be used again."


def _ways(
    config: JobConfig,
    used: int,
    bad: Collection[str],
    gone: Collection[str],
    rooms: Mapping[str, Room],
) -> Iterator[tuple[Sequence[Placement], bool, str]]:
    """Yield where the job may continue, the best first, and whether that is a retry."""
    policy, all_nodes = config.on_failure, config.placement
    left = [one for one in all_nodes if one.node not in bad]
    without = _named(sorted(bad))
    fewer = f"Continues on {_named([one.node for one in left])}, without {without}."
    may_retry = used < policy.retries
    if may_retry and policy.nodes == "others" and bad:
        found = _replaced(all_nodes, bad, rooms)
        if found:
            new = [one.node for one in found if one not in all_nodes]
            yield found, True, f"Continues on {_named(new)} instead of {without}."
    may_shrink = policy.shrink and 0 < len(left) < len(all_nodes) and len(left) >= policy.at_least
    same = f"Tries again on the same nodes, {used + 1} of {policy.retries}."
    # The same nodes are waited for, unless the others may continue without one that is gone.
    waits = policy.nodes == "same" and not (may_shrink and set(bad) & set(gone))
    if may_retry and (waits or not bad):
        yield all_nodes, True, same
    if may_shrink:
        yield left, False, fewer
    if may_retry:
        if policy.nodes == "others" and left:
            yield left, True, fewer
        yield all_nodes, True, same


def _replaced(
    placement: Sequence[Placement], bad: Collection[str], rooms: Mapping[str, Room]
) -> list[Placement]:
    """Return the placement with free nodes of the same kind for the bad ones; [] without any."""
    found: list[Placement] = []
    used = {one.node for one in placement}
    for one in placement:
        if one.node not in bad:
            found.append(one)
            continue
        fit = (
            made
            for name in sorted(set(rooms) - used)
            if rooms[name].is_free
            and (made := _on(name, one, rooms[name], rooms.get(one.node, Room()).gpus))
        )
        other = next(fit, None)
        if other is None:
            return []
        used.add(other.node)
        found.append(other)
    return found


def _on(name: str, one: Placement, room: Room, kinds: Mapping[str, str]) -> Placement | None:
    """Return the same on another node, None if that has not as many GPUs or cores of the kind."""
    if not one.gpus:
        return Placement(name, one.processes) if room.cores >= one.processes else None
    free = [uuid for uuid in room.gpus if uuid not in room.taken]
    chosen: list[str] = []
    for gpu in one.gpus:
        alike = (u for u in free if u not in chosen and room.gpus[u] == kinds.get(gpu))
        other = next(alike, "")
        if not other:
            return None
        chosen.append(other)
    return Placement(name, gpus=tuple(chosen))


def _chosen(before: Continued, config: JobConfig, placement: Sequence[Placement]) -> Continued:
    """Return ``before`` with the user's batches, if the global batch is to stay from now on."""
    keeps = not config.script and config.on_failure.scaling == "batch" and not before.chosen_batch
    if not keeps or replace(config, placement=tuple(placement)).batches == config.batches:
        return before
    return replace(
        before, chosen_batch=config.batch_size, chosen_global_batch=config.global_batch_size
    )


def _scaled(config: JobConfig, placement: Sequence[Placement], chosen: Continued) -> dict[str, Any]:
    """Return the settings that change with the number of processes.

    The batch of a process is rounded from that of the user, however many nodes were lost since. The
    learning rate is that of `Launch.lr_factor`.
    """
    fewer = replace(config, placement=tuple(placement))
    # On a single node there is none left to continue without.
    alone = {"on_failure.shrink": False, "on_failure.grow": False}
    changes: dict[str, Any] = alone if fewer.node_count == 1 else {}
    if not chosen.chosen_batch:
        return changes
    size = max(1, round(chosen.chosen_global_batch / max(1, fewer.batches)))
    return {**changes, "batch_size": size}


def _words(before: JobConfig, after: JobConfig, chosen: Continued) -> str:
    if before.batches == after.batches or before.script:
        return ""
    old = chosen.chosen_global_batch or before.global_batch_size
    new = after.global_batch_size
    if before.batch_size == after.batch_size:
        factor = after.lr_factor / before.lr_factor
        rate = "the rate stays" if factor == 1 else f"the rate is {factor:.3g} of the one before"
        return f"The global batch is {new} instead of {old}, and {rate}."
    size = f"The batch per process is {after.batch_size} instead of {before.batch_size}"
    whole = f"is {new} as before" if old == new else f"is rounded to {new} from {old}"
    return f"{size}, so that the global batch {whole}."


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _named(nodes: Sequence[str]) -> str:
    *others, last = map(wording.place, nodes) if nodes else ("it",)
    return f"{', '.join(others)} and {last}" if others else last


def plan(
    folder: JobFolder, launch: Launch | None, record: RunExit, gone: Collection[str] = ()
) -> NextTry | None:
    """Return the next run after the end of one; see `next_try`. It may take some seconds."""
    if launch is None or record.state is not JobState.ERROR or record.error is None:
        return None
    policy = launch.config.on_failure
    if not policy.continues or not record.error.retry:
        return None
    try:
        if stop_requested(folder.lock, launch.run):
            return None
        known = read_checkpoints(folder.checkpoints)
        used = launch.continued.retries if launch.continued is not None else 0
        wants_others = policy.nodes == "others" and used < policy.retries
        rooms = _rooms(DataRoot(folder.path.parent.parent), launch) if wants_others else {}
    except OSError as error:
        swallowed(error)
        return None
    step = max((one.step for one in known), default=0)
    return next_try(launch, record.error, step, gone, rooms)


def carry_out(folder: JobFolder, launch: Launch | None, found: NextTry | None) -> None:
    """Queue the next run. A failure is logged: the end of the run before is on record."""
    if launch is None or found is None or folder.newest_run() != launch.run:
        return
    before, continued = launch.continued, found.continued
    try:
        if continued.is_short and not (before is not None and before.is_short):
            replace_json(folder.whole_launch, launch.to_dict())
        queue_next(
            folder,
            launch,
            continued.reason,
            placement=continued.placement,
            hosts=found.hosts,
            changes=found.changes,
            continued=continued,
        )
    except (OSError, BackendError):
        _log.exception("The next run of %s could not be queued", folder.job_id)
        return
    _log.info("Queued run %d of %s: %s", launch.run + 1, folder.job_id, continued.reason)
    with suppress(OSError):
        add_entry(folder, LocalFiles(), f"Continued without a user: {continued.reason.rstrip('.')}")


def _rooms(root: DataRoot, launch: Launch) -> dict[str, Room]:
    """Read what all nodes offer; those that cannot run this job's processes are not free."""
    names = [path.name for path in root.nodes.iterdir() if not path.name.startswith(".")]
    beats = HeartbeatReader(root)
    alive: set[str] = set()
    until = time.monotonic() + _BEAT_S
    while len(alive) < len(names) and time.monotonic() < until:
        alive.update(name for name in names if beats.read(name)[1])
        time.sleep(0.2)
    live = LiveRuns(root).read()
    busy = {slot.node for running in live.running for slot in running.slots if slot.processes}
    used = {gpu for running in live.running for slot in running.slots for gpu in slot.gpus}
    rooms: dict[str, Room] = {}
    for name in names:
        with suppress(OSError, ValueError):
            entry = NodeEntry.from_dict(read_json(root.node(name).entry))
            reading = beats.read(name)[0]
            if reading is None:
                continue
            view = node_view_of(reading, live.tags)
            fits = is_fit(entry, launch) and live.is_complete and name not in busy
            rooms[name] = Room(
                host=host_of(entry),
                gpus={gpu.uuid: gpu.name for gpu in reading.gpus},
                cores=view.cores,
                taken={*used, *view.foreign, *view.hidden},
                is_free=name in alive and fits and not (view.why_down or view.gpus_unknown),
            )
    return rooms


def host_of(entry: NodeEntry) -> str:
    """Return the address at which mpirun reaches a node."""
    return entry.ranks_address.partition("/")[0] or entry.address.host


def is_fit(entry: NodeEntry, launch: Launch) -> bool:
    """Return whether the launch of the run before is valid on a node."""
    there = entry.installation
    if there is None or entry.no_share or not entry.in_service:
        return False
    if there.python != launch.python or there.bundle != launch.environment.get("PYTHONPATH"):
        return False
    if "btl_tcp_if_include" not in launch.argv:
        return False
    subnets = launch.argv[launch.argv.index("btl_tcp_if_include") + 1].split(",")
    address = ipaddress.ip_interface(entry.ranks_address or entry.address.host).ip
    return any(address in ipaddress.ip_network(one) for one in subnets)
