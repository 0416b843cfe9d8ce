"""Judges of the machine: GPUs, memory, limits, processes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from backend.node.system import wording
from backend.records.base.schema import LENIENT, build
from backend.records.base.validation import sanitize
from backend.records.nodes.preflight import Fix
from backend.records.nodes.reading import Gpu, GpuProcess, Orphan
from backend.records.queue.entry import PROCESSES_PER_CORE
from backend.services.preflight import names
from backend.services.preflight.check import Replies, Result, not_checked
from backend.services.preflight.context import (
    Facts,
    JobPreflight,
    NodePreflight,
    PreflightTarget,
)

SHARED_MEMORY_BYTES = 16 * 2**20
"""Of each rank that is not alone on its node, for Open MPI's ``sm``; and of a loader worker."""
LEAST_OPEN_FILES = 256
_OPEN_FILES_OF_WORKER, _MOST_COUNTED_WORKERS = 32, 16
"""A worker hands over each tensor as an open file. The usual limit of 1024 is enough for any."""


READ_GPUS = """
import dataclasses, json
from backend.node.metrics.gpus import Gpus
gpus, message = Gpus().read()
print(json.dumps({"gpus": [dataclasses.asdict(gpu) for gpu in gpus], "message": message}))
"""


def gpus(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    place, wanted = target.place, target.placement.gpus
    if facts["code"] or "gpus" not in facts:
        yield from no_gpus(target, {})
        return
    known = {one["uuid"]: build(Gpu, one, LENIENT) for one in facts["gpus"]}
    free = [
        uuid
        for uuid, gpu in known.items()
        if not (uuid in wanted or gpu.lost or gpu.foreign_processes())
    ]
    for uuid in wanted:
        gpu, more = known.get(uuid), ""
        if gpu is None:
            there = sanitize(facts["message"], 120) or f"it has {', '.join(map(sanitize, known))}"
            sentence = f"{place} has no GPU {sanitize(uuid)}: {there}."
        elif gpu.lost:
            sentence = f"GPU {gpu.index} of {place} no longer responds."
        elif foreign := gpu.foreign_processes(target.placement.user_beside(uuid)):
            sentence = f"GPU {gpu.index} of {place} is in use by {_user_of(foreign[0])}."
            more = "" if foreign[0].pid else f" {gpu.unlisted_remedy}"
        else:
            continue
        instead = (free.pop(0),) if free else ()
        remedy = "Leave it out, choose another GPU, or start when it is free."
        if instead:
            remedy = f"Use GPU {known[instead[0]].index} on {place}; it is free."
        yield Result(
            sentence,
            remedy + more,
            Fix.TAKE_FREE_GPUS if instead else None,
            details={"gpus": (uuid,), "free_gpus": instead},
        )


def no_gpus(target: PreflightTarget, replies: Replies) -> Iterator[Result]:
    yield Result(
        f"The GPUs of {target.place} cannot be read.",
        f"Check the NVIDIA driver on {target.place}: nvidia-smi",
    )


def _user_of(process: GpuProcess) -> str:
    memory = process.memory_bytes
    verb = "holds" if process.pid else "hold"
    return process.who + (f" and {verb} {memory / 2**30:.0f} GiB" if memory else "")


def shared_memory(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    slots, workers, free = target.placement.slots, target.loader_workers, int(facts["free"])
    ranks = slots if slots > 1 else 0
    # Batches may be small, so too little for all workers is no certain failure.
    if not facts["why"] and free >= SHARED_MEMORY_BYTES * (ranks + slots * workers):
        return
    is_certain = bool(facts["why"]) or free < SHARED_MEMORY_BYTES * max(ranks, min(1, workers))
    why = sanitize(facts["why"]) or f"{free / 1e6:.0f} MB are free"
    many = "1 rank" if slots == 1 else f"{slots} ranks"
    each = " each" if slots > 1 else ""
    with_workers = f" with {_workers(workers)}{each}" if workers else ""
    yield Result(
        f"/dev/shm of {target.place} {'is' if is_certain else 'may be'} too small for "
        f"{many}{with_workers}: {why}.",
        f"{'Use fewer loader workers, or enlarge' if workers else 'Enlarge'} it on "
        f"{target.place}, as root: mount -o remount,size=50% /dev/shm",
        None if is_certain else Fix.NONE,
        details={"is_warning": not is_certain},
    )


def open_files(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    open_files, workers = facts["open_files"], target.loader_workers
    needed = LEAST_OPEN_FILES + _OPEN_FILES_OF_WORKER * min(workers, _MOST_COUNTED_WORKERS)
    if open_files is None or open_files >= needed:
        return
    who = f"a rank with {_workers(workers)}" if workers else "a rank"
    yield Result(
        f"A process on {target.place} can open only {open_files} files; {who} needs {needed}.",
        f"{'Use fewer loader workers, or raise' if workers else 'Raise'} nofile to 1024 or more "
        f"in /etc/security/limits.conf on {target.place}.",
    )


def _workers(count: int) -> str:
    return "1 loader worker" if count == 1 else f"{count} loader workers"


def processes(node: NodePreflight, job: JobPreflight) -> Iterator[Result]:
    slots = node.cores * PROCESSES_PER_CORE
    if node.target is not None and node.placement.processes > slots:
        yield Result(
            f"{wording.node_label(node.name)} has {node.cores} cores, enough for {slots} processes; the "
            f"job asks for {node.placement.processes}.",
            "Give it fewer processes.",
            details={"fitting": slots},
        )


def data(job: JobPreflight) -> Iterator[Result]:
    for sentence in job.data_notes:
        yield Result(sentence, "Preview the dataset; start if this is as it should be.", nodes=())


def leftovers(target: PreflightTarget, facts: Facts) -> Iterator[Result]:
    if facts.get("why") or "orphans" not in facts:
        yield not_checked(target.node, (names.LEFTOVERS,), facts.get("why", ""), warns=True)
    # Another data root's jobs are none of ours, whatever their tags say.
    listed = map(Orphan.from_dict, facts.get("orphans", ()))
    old = [one for one in listed if one.reason and one.reason.is_known_run]
    if old:
        tags = ", ".join(sorted({sanitize(one.run_tag) for one in old}))
        many, run = (f"{len(old)} processes", "run") if len(old) > 1 else ("A process", "runs")
        runs = "the ended runs" if ", " in tags else "the ended run"
        yield Result(
            f"{many} of {runs} {tags} still {run} on {target.place}.",
            "End the leftover processes.",
        )
