"""Checks of a machine and its data root: GPUs, memory, limits, processes, reservations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from backend.node.system import wording
from backend.node.system.process_identity import machine
from backend.records.base.schema import LENIENT, build
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.preflight import Fix
from backend.records.nodes.reading import Gpu, Orphan
from backend.records.queue.entry import PROCESSES_PER_CORE, uses_of
from backend.services.preflight import names
from backend.services.preflight.check import Replies, Result, unchecked_result
from backend.services.preflight.context import (
    JobPreflight,
    NodePreflight,
    PreflightTarget,
    Reply,
)

SHARED_MEMORY_BYTES = 16 * 2**20
"""Shared memory of a loader worker, and, for Open MPI's ``sm``, of a rank that has peers on its
node."""
MIN_OPEN_FILES = 256
_OPEN_FILES_OF_WORKER, _MAX_COUNTED_WORKERS = 32, 16
"""A loader worker passes each tensor as an open file. The default limit of 1024 is enough."""


READ_GPUS = """
import json
from backend.node.metrics.gpus import Gpus
from backend.records.base import schema
gpus, message = Gpus().read()
to_json = getattr(schema, "json_value", None) or schema.plain
print(json.dumps({"gpus": to_json(gpus), "message": message}))
"""
"""The node runs its own version of the program, which may be an older one."""


def gpus(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    label, chosen_gpus = target.label, target.placement.gpus
    if reply["code"] or "gpus" not in reply:
        yield from no_gpus(target, {})
        return
    gpu_by_uuid = {fields["uuid"]: build(Gpu, fields, LENIENT) for fields in reply["gpus"]}
    free_uuids = [
        uuid for uuid, gpu in gpu_by_uuid.items() if not (uuid in chosen_gpus or any(gpu.refusal()))
    ]
    for uuid in chosen_gpus:
        gpu, freeing_remedy = gpu_by_uuid.get(uuid), ""
        if gpu is None:
            uuids = ", ".join(map(sanitize, gpu_by_uuid))
            cause = sanitize(reply["message"], 120) or f"it has {uuids}"
            message = f"{label} has no GPU {sanitize(uuid)}: {cause}."
        else:
            message, freeing_remedy = gpu.refusal(label, target.placement.sharing_user(uuid))
        if not message:
            continue
        replacement = (free_uuids.pop(0),) if free_uuids else ()
        remedy = "Leave it out, choose another GPU, or start when it is free."
        if replacement:
            remedy = f"Use GPU {gpu_by_uuid[replacement[0]].index} on {label}; it is free."
        yield Result(
            message,
            f"{remedy} {freeing_remedy}".rstrip(),
            Fix.TAKE_FREE_GPUS if replacement else None,
            details={"gpus": (uuid,), "free_gpus": replacement},
        )


def no_gpus(target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    yield Result(
        f"The GPUs of {target.label} cannot be read.",
        f"Check the NVIDIA driver on {target.label}: nvidia-smi",
    )


def shared_memory(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    slots, workers, free_bytes = (
        target.placement.process_count,
        target.loader_workers,
        int(reply["free"]),
    )
    ranks = slots if slots > 1 else 0
    # Batches may be small, so too little for all workers is no certain failure.
    if not reply["why"] and free_bytes >= SHARED_MEMORY_BYTES * (ranks + slots * workers):
        return
    min_bytes = SHARED_MEMORY_BYTES * max(ranks, min(1, workers))
    is_certain = bool(reply["why"]) or free_bytes < min_bytes
    cause = sanitize(reply["why"]) or f"{free_bytes / 1e6:.0f} MB are free"
    rank_label = "1 rank" if slots == 1 else f"{slots} ranks"
    suffix = " each" if slots > 1 else ""
    worker_clause = f" with {_worker_label(workers)}{suffix}" if workers else ""
    yield Result(
        f"/dev/shm of {target.label} {'is' if is_certain else 'may be'} too small for "
        f"{rank_label}{worker_clause}: {cause}.",
        f"{'Use fewer loader workers, or enlarge' if workers else 'Enlarge'} it on "
        f"{target.label}, as root: mount -o remount,size=50% /dev/shm",
        None if is_certain else Fix.NONE,
        details={"is_warning": not is_certain},
    )


def open_files(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    file_limit, loader_workers = reply["open_files"], target.loader_workers
    needed_files = MIN_OPEN_FILES + _OPEN_FILES_OF_WORKER * min(
        loader_workers, _MAX_COUNTED_WORKERS
    )
    if file_limit is None or file_limit >= needed_files:
        return
    rank_label = f"a rank with {_worker_label(loader_workers)}" if loader_workers else "a rank"
    yield Result(
        f"A process on {target.label} can open only {file_limit} files; {rank_label} needs "
        f"{needed_files}.",
        f"{'Use fewer loader workers, or raise' if loader_workers else 'Raise'} nofile to 1024 or "
        f"more in /etc/security/limits.conf on {target.label}.",
    )


def _worker_label(count: int) -> str:
    return "1 loader worker" if count == 1 else f"{count} loader workers"


def processes(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    slots = node.cores * PROCESSES_PER_CORE
    if node.target is not None and node.placement.processes > slots:
        yield Result(
            f"{wording.node_label(node.name)} has {node.cores} cores, enough for {slots} "
            f"processes; the job asks for {node.placement.processes}.",
            "Give it fewer processes.",
            details={"process_capacity": slots},
        )


def reserved(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    """Yield a warning for each reservation into which the job would reach on this node."""
    label = wording.node_label(node.name)
    subject = "This computer" if node.name == THIS_COMPUTER else label
    (use,) = uses_of((node.placement,), machine())
    reply = (node.replies or {}).get("gpus") or {}
    gpu_labels = {fields["uuid"]: f"GPU {fields['index']}" for fields in reply.get("gpus", ())}
    for reservation in job.reservations:
        reserved_use = next((s for s in reservation.entry.uses if s.competes_with(use)), None)
        if reserved_use is None:
            continue
        uuids = tuple(uuid for uuid in use.gpus if uuid in reserved_use.gpus)
        gpus_text = " and ".join(gpu_labels.get(uuid, sanitize(uuid)) for uuid in uuids)
        can_leave_out = len(uuids) < len(use.gpus) or len(job.nodes) > 1
        yield Result(
            reservation.message(
                f"{gpus_text} of {label}" if uuids else subject,
                datetime.now(UTC),
                "are" if len(uuids) > 1 else "is",
            ),
            "Queue the job, which then waits for its turn, or choose other GPUs. If it starts now, "
            f"“{sanitize(reservation.entry.name)}” waits until it ends.",
            None if can_leave_out else Fix.NONE,
            details={"gpus": uuids},
        )


def data(job: JobPreflight) -> Iterator[Result]:
    for note in job.data_notes:
        yield Result(note, "Preview the dataset; start if this is as it should be.", nodes=())


def leftovers(target: PreflightTarget, reply: Reply) -> Iterator[Result]:
    if reply.get("why") or "orphans" not in reply:
        cause = reply.get("why", "")
        yield unchecked_result(target.node, (names.LEFTOVERS,), cause, is_warning=True)
    # The tags of another data root's jobs may be the same.
    orphans = map(Orphan.from_dict, reply.get("orphans", ()))
    run_tags = [o.run_tag for o in orphans if o.reason and o.reason.is_known_run]
    if run_tags:
        count = len(run_tags)
        tags = ", ".join(sorted(set(map(sanitize, run_tags))))
        count_label, verb = (f"{count} processes", "run") if count > 1 else ("A process", "runs")
        run_label = "the ended runs" if ", " in tags else "the ended run"
        yield Result(
            f"{count_label} of {run_label} {tags} still {verb} on {target.label}.",
            "End the leftover processes.",
        )
