"""Find everything that prevents making or starting a job, and compute the job's figures.

`records.jobs.config.parse_job` checks a job file alone; this module checks it against the library,
the nodes and the size of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import DataRootAccess, OpenRoot
from backend.datastore.jobs.checkpoint_files import checkpoint_named, list_checkpoints
from backend.datastore.jobs.files import read_job
from backend.datastore.library import model_weights
from backend.node.system import wording
from backend.records.base import number_format
from backend.records.base.account import expanded
from backend.records.base.validation import Fault, nearest, sanitize
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import NOTHING, JobConfig, StrategyConfig, parse_job
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.script import LISTS, REQUIREMENTS, usual_entry, usual_list
from backend.records.jobs.view import GPU_CHECK, NODE_CHECK
from backend.records.library.item import KINDS, Kind, Pin
from backend.records.library.preview import DataSize, ModelCheck
from backend.records.nodes.reading import Finding, GpuProcess, NodeReading, NodeState, Presence
from backend.records.queue.entry import PROCESSES_PER_CORE
from backend.services.library.service import LibraryService
from backend.services.nodes.service import NodeService
from backend.services.tools.training_python import awaits_horovod, has_horovod

_RATES_SHOWN = 240
_SOME = 5


@dataclass
class Checked:
    """A job file checked against the library and the nodes."""

    config: JobConfig | None
    draft: JobConfig
    """The part of it that can be read; the whole config if there is one."""
    faults: list[Fault] = field(default_factory=list)
    usual_strategy: str = ""
    """Of a job file that names none, on the same nodes."""
    pins: dict[str, Pin] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def fault(self, name: str, sentence: str) -> None:
        self.faults.append(Fault(name, f"{name}: {sentence}"))

    def is_wrong(self, *parts: str) -> bool:
        """Return whether one of these parts of the job file has a fault."""
        return any(fault.part in parts for fault in self.faults)


@dataclass(frozen=True)
class Weights:
    """Weights to start from; ``record`` is set if they are a checkpoint of a job.

    ``sha256``: of those stored with a model, if it is known.
    """

    files: DataRootAccess
    path: Path
    lasting_name: str
    record: Checkpoint | None = None
    sha256: str = ""


class JobValidator:
    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
    ) -> None:
        self._root = root
        self._library = library
        self._nodes = nodes

    def check(self, raw: Mapping[str, Any]) -> Checked:
        parsed = parse_job(raw)
        nodes = self.known_nodes()
        usual = "ddp" if _lacks_horovod(parsed.draft, nodes) else StrategyConfig.name
        strategy = raw.get("strategy", {})
        if isinstance(strategy, Mapping) and "name" not in strategy and "script" not in raw:
            parsed = parse_job({**raw, "strategy": {"name": usual, **strategy}})
        checked = Checked(parsed.config, parsed.draft, list(parsed.faults), usual)
        # References are resolved even if other settings are invalid.
        for key, kind in KINDS.items():
            reference = raw.get(key)
            if isinstance(reference, str) and reference.strip():
                self._pin(checked, key, kind, reference)
        if "script" in checked.pins and not checked.is_wrong("entry"):
            self._check_entry(checked, checked.pins["script"])
        # So is everything that does not depend on an invalid setting.
        if not checked.is_wrong("start_from"):
            self._check_start_from(checked, parsed.draft.start_from)
        if not checked.is_wrong("placement"):
            self._check_placements(checked, parsed.draft, nodes)
        return checked

    def placement(self, config: JobConfig) -> None:
        """Check at the start of a run that all chosen nodes are online and their GPUs are free.

        Raises:
            BackendError: They are not; it has every reason, one sentence after the other.
        """
        checked, nodes = Checked(config, config), self.known_nodes()
        self._check_placements(checked, config, nodes)
        reasons = [fault.sentence.partition(": ")[2] for fault in checked.faults]
        reasons += [one.sentence for one in checked.findings if one.check == NODE_CHECK]
        if reasons:
            names = [one.node for one in config.placement]
            absent = [name for name in names if not _is_online(nodes.get(name))]
            others = [name for name in names if name not in absent]
            raise BackendError(
                " ".join(reasons),
                f"Bring {' and '.join(absent)} back, or run on {', '.join(others)} only."
                if absent and others
                else "Choose other nodes; nothing was started.",
            )
        self._require_free_gpus(config, nodes)

    def check_again(self, checked: Checked, config: JobConfig) -> None:
        """Check, just before a start, what may have changed since ``checked``.

        That is a node that was offline, and the use of GPUs.

        Raises:
            BackendError: As `placement`.
        """
        if config.uses_gpus or any(one.check == NODE_CHECK for one in checked.findings):
            self.placement(config)

    @staticmethod
    def _require_free_gpus(config: JobConfig, nodes: Mapping[str, NodeState]) -> None:
        for placement in config.placement:
            reading = nodes[placement.node].reading if placement.node in nodes else None
            for gpu in reading.gpus if reading is not None else ():
                if gpu.uuid not in placement.gpus:
                    continue
                for process in gpu.foreign_processes(placement.user_beside(gpu.uuid)):
                    raise BackendError(
                        f"GPU {gpu.index} of {wording.place(placement.node)} is in use by "
                        f"{process.who}.",
                        "Choose another GPU, or start when it is free."
                        + ("" if process.pid else f" {gpu.unlisted_remedy}"),
                    )

    def known_nodes(self) -> Mapping[str, NodeState]:
        return {node.name: node for node in self._nodes.list()}

    def _check_placements(
        self, checked: Checked, config: JobConfig, nodes: Mapping[str, NodeState]
    ) -> None:
        for number, placement in enumerate(config.placement):
            self._check_placement(checked, f"placement[{number}]", placement, nodes)

    def _pin(self, checked: Checked, key: str, kind: Kind, reference: str) -> None:
        try:
            checked.pins[key] = self._library.pin(kind, reference)
        except (BackendError, ValueError) as error:
            checked.fault(key, str(error))

    def _check_entry(self, checked: Checked, pin: Pin) -> None:
        """Check that the script has its entry, or choose one."""
        folder = self._library.content(Kind.SCRIPT, pin.reference)
        files = [one.path for one in self._root.files.list_files(folder)]
        entry = checked.draft.entry or usual_entry(files)
        if not entry:
            some = ", ".join(sorted(one for one in files if one.endswith(".py"))[:_SOME]) or "none"
            checked.fault("entry", f"is missing; Python files of {pin.reference}: {some}.")
        elif not entry.startswith("-") and entry not in files:
            near = nearest(entry, tuple(files))
            hint = f" Did you mean “{near}”?" if near else ""
            checked.fault("entry", f"{pin.reference} has no file “{sanitize(entry)}”.{hint}")
        elif checked.config is not None:
            checked.config = replace(checked.config, entry=entry)
            if not checked.draft.entry:
                checked.findings.append(Finding("entry", True, f"It runs {entry}, found by itself"))
        if checked.draft.python == REQUIREMENTS and not usual_list(files):
            some = ", ".join(LISTS[:-1])
            sentence = f"{pin.reference} has neither {some} nor {LISTS[-1]} that lists packages."
            checked.fault("python", sentence)

    def _check_start_from(self, checked: Checked, start_from: str) -> None:
        if start_from == NOTHING:
            return
        try:
            start_from = start_from or self._own_weights(checked)
            if not start_from:
                return
            found = self.weights(start_from)
        except BackendError as error:
            checked.fault("start_from", str(error))
            return
        # Another folder or a newer checkpoint must not change the job later.
        if checked.config is not None:
            checked.config = replace(checked.config, start_from=found.lasting_name)

    def _own_weights(self, checked: Checked) -> str:
        """Return the weights of a model, with which its jobs begin unless they say otherwise."""
        model = checked.pins.get("model")
        own = self._library.weights(model.reference) if model is not None else None
        if model is None or own is None:
            return ""
        checked.findings.append(
            Finding(
                "start_from",
                True,
                f"It begins with the weights of {model.reference}; set “Start from” to “{NOTHING}” "
                "for random weights.",
            )
        )
        return f"{model.reference}/{own.name}"

    def weights(self, start_from: str) -> Weights:
        """Resolve ``JOB/CHECKPOINT``, ``MODEL/weights.pt`` or a path.

        Raises:
            BackendError: It does not exist.
        """
        job_id, _, name = start_from.partition("/")
        folder = self._root.job(job_id)
        may_be_job = name and job_id == Path(job_id).name and not job_id.startswith(".")
        if may_be_job:
            with suppress(OSError):
                self._root.files.refresh_job(folder)
        if may_be_job and folder.meta.is_file():
            found = list_checkpoints(folder, read_job(folder).config.checkpoint)
            record = checkpoint_named(found, name)
            if record is None:
                raise BackendError(f"The job {job_id} has no checkpoint “{sanitize(name)}”.")
            return Weights(self._root.files, Path(record.path), f"{job_id}/{record.name}", record)
        if name in model_weights.NAMES:
            with suppress(BackendError, ValueError):
                pin = self._library.pin(Kind.MODEL, job_id)
                own = self._library.weights(pin.reference)
                if own is not None and own.name == name:
                    sha256 = self._library.weights_hash(pin.reference)
                    return Weights(self._root.files, own, f"{pin.reference}/{name}", sha256=sha256)
        path = expanded(start_from)
        if not path.is_file():
            raise BackendError(
                f"No checkpoint or file is named “{sanitize(start_from)}”; use JOB/CHECKPOINT, "
                "or a .pt or .safetensors file."
            )
        return Weights(self._root.files, path.absolute(), str(path.absolute()))

    def _check_placement(
        self,
        checked: Checked,
        name: str,
        placement: Placement,
        nodes: Mapping[str, NodeState],
    ) -> None:
        node = nodes.get(placement.node)
        if node is None:
            near = nearest(placement.node, tuple(nodes))
            checked.fault(
                f"{name}.node",
                f"There is no node “{sanitize(placement.node)}”; "
                + (f"did you mean “{near}”?" if near else f"known nodes: {', '.join(nodes)}."),
            )
            return
        why = f": {node.message}" if node.message else ""
        sentence = f"{placement.node} is {node.presence.value.lower()}{why}."
        if node.reading is None or node.presence in (Presence.NEW, Presence.OUT_OF_SERVICE):
            checked.fault(f"{name}.node", sentence)
            return
        if not _is_online(node):
            # Never run on fewer nodes silently: all chosen nodes are used, or nothing starts.
            checked.findings.append(Finding(NODE_CHECK, False, sentence))
        if placement.node == THIS_COMPUTER and not self._nodes.trains_here:
            checked.fault(
                f"{name}.node",
                f"{THIS_COMPUTER} does not mount the data root and so cannot train on it; choose "
                "other nodes, or mount it here and open it with --data-root DIR.",
            )
        elif placement.gpus:
            self._check_gpus(checked, f"{name}.gpus", placement, node.reading)
        else:
            cores = node.reading.cpu.cores
            slots = cores * PROCESSES_PER_CORE
            if placement.processes > slots:
                checked.fault(
                    f"{name}.processes",
                    f"The node {placement.node} has {cores} cores and can run {slots} processes at "
                    f"most ({PROCESSES_PER_CORE} per core), not {placement.processes}.",
                )
            elif placement.processes > cores:
                checked.findings.append(
                    Finding(
                        "processes",
                        False,
                        f"{placement.processes} processes share {cores} cores of "
                        f"{placement.node}; more than {cores} are not faster.",
                    )
                )

    def _check_gpus(
        self, checked: Checked, name: str, placement: Placement, reading: NodeReading
    ) -> None:
        known = {gpu.uuid: gpu for gpu in reading.gpus}
        for uuid in placement.gpus:
            gpu = known.get(uuid)
            if gpu is None:
                there = ", ".join(known) or reading.gpu_message or "it has none"
                sentence = f"The node {placement.node} has no GPU “{sanitize(uuid)}” ({there})."
                checked.fault(name, sentence)
                continue
            where = f"GPU {gpu.index} of {wording.place(placement.node)}"
            beside = placement.user_beside(uuid)
            foreigners = gpu.foreign_processes(beside)
            if foreigners:
                sentence = f"{where} is in use by {_who(foreigners[0])}; the job can start when it "
                checked.findings.append(Finding(GPU_CHECK, False, f"{sentence}is free."))
            elif gpu.compute_processes:
                sentence = f"{where} is shared with {sanitize(beside)} (your choice)."
                checked.findings.append(Finding(GPU_CHECK, True, sentence))


def _is_online(node: NodeState | None) -> bool:
    return node is not None and node.presence is Presence.ONLINE


def _lacks_horovod(config: JobConfig, nodes: Mapping[str, NodeState]) -> bool:
    for name in (one.node for one in config.placement):
        entry = nodes[name].entry if name in nodes else None
        if name == THIS_COMPUTER and not (has_horovod() or awaits_horovod()):
            return True
        if entry and entry.installation and entry.installation.without_horovod:
            return True
    return False


def _who(process: GpuProcess) -> str:
    job = process.run_tag.partition("/")[0]
    return sanitize(f"the job {job}" if job else process.user or f"process {process.pid}")


def check_size(checked: Checked, size: DataSize | None) -> None:
    """Find a batch that is larger than the data, which would make no step."""
    config = checked.draft
    if size is None or checked.is_wrong("batch_size", "placement"):
        return
    # All parts of a split network train on the same batch.
    workers = 1 if config.strategy.is_split else config.workers
    batch = config.batch_size * config.accumulate
    needed = 1 if config.strategy.has_coordinator else batch * workers
    if workers < 1 or size.training >= needed:
        return
    served = config.strategy.servers > 0
    begin = "One batch of each worker" if served else "One step"
    processes = f"{workers} × " if workers > 1 else ""
    fits = size.training // (workers * config.accumulate)
    who = "workers" if served else "processes"
    way_out = (
        f"choose {number_format.count(fits)} or less"
        if fits
        else f"the dataset has fewer samples than {who} ({workers})"
    )
    checked.fault(
        "batch_size",
        f"{begin} takes {processes}{number_format.count(batch)} samples, "
        f"but the dataset has {number_format.count(size.training)}; {way_out}.",
    )


def memory_hint(
    config: JobConfig, trial: ModelCheck, nodes: Mapping[str, NodeState]
) -> tuple[Finding, ...]:
    """Return a hint if a batch needs more memory than the GPUs, or the node, of the job have.

    Counted are the tensors that autograd keeps of a step, and four values for each parameter: the
    weight, its gradient and two of the optimizer.
    """
    capacities = []
    for placement in config.placement:
        state = nodes.get(placement.node)
        reading = state.reading if state is not None else None
        if reading is not None and placement.gpus:
            gpus = (gpu for gpu in reading.gpus if gpu.uuid in placement.gpus)
            capacities += [gpu.memory_total_bytes for gpu in gpus if gpu.memory_total_bytes]
        elif reading is not None:
            capacities.append(reading.memory_total_bytes // max(1, placement.slots))
    needed = 4 * trial.parameter_bytes + config.batch_size * (trial.activation_bytes or 0)
    if not trial.activation_bytes or not capacities or needed <= min(capacities):
        return ()
    fits = (min(capacities) - 4 * trial.parameter_bytes) // trial.activation_bytes
    remedy = f"Choose {number_format.count(fits)} or less." if fits > 0 else "Use a smaller model."
    need, capacity = (number_format.size(n, is_binary=True) for n in (needed, min(capacities)))
    batch = number_format.count(config.batch_size)
    message = f"A batch of {batch} needs about {need} of memory; a process has {capacity}."
    return (Finding("memory", False, message, remedy),)


def rates(config: JobConfig, steps_per_epoch: int) -> tuple[float, ...]:
    """Return learning rates at equal distances over the whole job."""
    total = steps_per_epoch * config.epochs
    count = min(total, _RATES_SHOWN)
    if count < 2:
        return (learning_rate(config, steps_per_epoch, 0),) * count
    return tuple(
        learning_rate(config, steps_per_epoch, number * (total - 1) // (count - 1))
        for number in range(count)
    )
