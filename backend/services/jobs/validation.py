"""Find all errors that prevent the creation or the start of a job, and compute its figures.

`job_file.parse_job` checks a job file alone; this module checks it against the library,
the nodes and the size of the data. The loader is a user's code, so counting samples costs a process
that imports torch. The same files give the same number, so they are counted once and cached by
hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess, OpenRoot
from backend.datastore.jobs.checkpoint_files import list_checkpoints, require_checkpoint
from backend.datastore.jobs.files import read_job
from backend.datastore.library import model_weights
from backend.node.system import wording
from backend.records.base import number_format
from backend.records.base.account import expand_home
from backend.records.base.validation import ConfigError, closest_match, sanitize
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import RANDOM_WEIGHTS, JobConfig, StrategyConfig
from backend.records.jobs.forecast import parameter_memory_bytes
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.placement import THIS_COMPUTER, ClusterPlacement, Placement
from backend.records.jobs.plan import batch_fit
from backend.records.jobs.schedulers import SCHEDULERS, scheduler_of
from backend.records.jobs.script import (
    REQUIREMENT_FILES,
    REQUIREMENTS,
    usual_entry,
    usual_requirement_file,
)
from backend.records.jobs.view import GPU_CHECK, NODE_CHECK
from backend.records.library.item import KINDS, Kind, Pin
from backend.records.library.preview import DataSize, ModelCheck
from backend.records.nodes.reading import Finding, NodeReading, NodeState, Presence
from backend.records.queue.entry import PROCESSES_PER_CORE
from backend.services.library.service import LibraryService
from backend.services.nodes.service import NodeService
from backend.services.tools import tool_process
from backend.services.tools.result_files import ResultCache
from backend.services.tools.training_python import awaits_horovod, has_horovod, training_error

_RATES_SHOWN = 240
_FILES_SHOWN = 5


@dataclass
class CheckedJob:
    """A job file checked against the library and the nodes."""

    config: JobConfig | None
    draft: JobConfig
    """The readable part of the job file; equal to ``config`` if that is set."""
    errors: list[ConfigError] = field(default_factory=list)
    usual_strategy: str = ""
    """The strategy of a job file without a strategy, on the same nodes."""
    pins: dict[str, Pin] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add_error(self, name: str, message: str) -> None:
        self.errors.append(ConfigError(name, f"{name}: {message}"))

    def has_error(self, *parts: str) -> bool:
        """Return whether one of these parts of the job file has an error."""
        return any(error.part in parts for error in self.errors)


@dataclass(frozen=True)
class Weights:
    """Weights to start from.

    Attributes:
        record: The checkpoint of a job that has the weights, if any.
        sha256: The hash of weights that are stored with a model, "" if unknown.
    """

    files: DataRootAccess
    path: Path
    lasting_name: str
    record: Checkpoint | None = None
    sha256: str = ""


class JobValidator:
    """Checks job files against the library and the nodes."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
        find_jobs: Callable[[str], Sequence[str]],
    ) -> None:
        """Store the parts; ``find_jobs`` returns the ids of the jobs with an id or a name."""
        self._root = root
        self._library = library
        self._nodes = nodes
        self._find_jobs = find_jobs

    def check(self, raw: Mapping[str, Any]) -> CheckedJob:
        result = parse_job(raw)
        nodes = self.node_states()
        default_strategy = "ddp" if _lacks_horovod(result.draft, nodes) else StrategyConfig.name
        strategy = raw.get("strategy", {})
        if isinstance(strategy, Mapping) and "name" not in strategy and "script" not in raw:
            result = parse_job({**raw, "strategy": {"name": default_strategy, **strategy}})
        checked_job = CheckedJob(result.config, result.draft, list(result.errors), default_strategy)
        # References are resolved even if other settings are invalid.
        for key, kind in KINDS.items():
            reference = raw.get(key)
            if isinstance(reference, str) and reference.strip():
                try:
                    checked_job.pins[key] = self._library.pin(kind, reference)
                except (BackendError, ValueError) as error:
                    checked_job.add_error(key, str(error))
        if "script" in checked_job.pins and not checked_job.has_error("entry"):
            self._check_entry(checked_job, checked_job.pins["script"])
        # Everything that does not depend on an invalid setting is checked, too.
        if not checked_job.has_error("start_from"):
            self._check_start_from(checked_job, result.draft.start_from)
        if not checked_job.has_error("placement"):
            self._check_placements(checked_job, result.draft, nodes)
        return checked_job

    def require_placement(self, config: JobConfig) -> None:
        """Check at the start of a run that all chosen nodes are online and their GPUs are free.

        Raises:
            BackendError: A node is offline, or a GPU is in use; the message has every reason.
        """
        checked_job, nodes = CheckedJob(config, config), self.node_states()
        self._check_placements(checked_job, config, nodes)
        reasons = [error.message.partition(": ")[2] for error in checked_job.errors]
        reasons += [f.message for f in checked_job.findings if f.check == NODE_CHECK]
        if reasons:
            names = [placement.node for placement in config.placement]
            offline = [name for name in names if not _is_online(nodes.get(name))]
            online = [name for name in names if name not in offline]
            raise BackendError(
                " ".join(reasons),
                f"Bring {' and '.join(offline)} back, or run on {', '.join(online)} only."
                if offline and online
                else "Choose other nodes; nothing was started.",
            )
        self._require_free_gpus(config, nodes)

    def check_again(self, checked_job: CheckedJob, config: JobConfig) -> None:
        """Check, just before a start, nodes that were offline and the use of GPUs.

        Raises:
            BackendError: As `require_placement`.
        """
        if config.uses_gpus or any(finding.check == NODE_CHECK for finding in checked_job.findings):
            self.require_placement(config)

    @staticmethod
    def _require_free_gpus(config: JobConfig, nodes: Mapping[str, NodeState]) -> None:
        for placement in config.placement:
            reading = nodes[placement.node].reading if placement.node in nodes else None
            for gpu in reading.gpus if reading is not None else ():
                if gpu.uuid not in placement.gpus:
                    continue
                label = wording.node_label(placement.node)
                message, remedy = gpu.refusal(label, placement.sharing_user(gpu.uuid))
                if message:
                    remedy = f"Choose another GPU, or start when it is free. {remedy}".rstrip()
                    raise BackendError(message, remedy)

    def node_states(self) -> Mapping[str, NodeState]:
        return {node.name: node for node in self._nodes.list()}

    def _check_placements(
        self, checked_job: CheckedJob, config: JobConfig, nodes: Mapping[str, NodeState]
    ) -> None:
        if config.allocation is not None:
            self._check_cluster(checked_job, config.allocation, nodes)
            return
        for number, placement in enumerate(config.placement):
            self._check_placement(checked_job, f"placement[{number}]", placement, nodes)

    def _check_entry(self, checked_job: CheckedJob, pin: Pin) -> None:
        """Check that the script has its entry, or choose an entry."""
        folder = self._library.content(Kind.SCRIPT, pin.reference)
        files = [f.path for f in self._root.files.list_files(folder)]
        entry = checked_job.draft.entry or usual_entry(files)
        if not entry:
            python_files = sorted(f for f in files if f.endswith(".py"))[:_FILES_SHOWN]
            file_list = ", ".join(python_files) or "none"
            checked_job.add_error(
                "entry", f"is missing; Python files of {pin.reference}: {file_list}."
            )
        elif not entry.startswith("-") and entry not in files:
            suggestion = closest_match(entry, tuple(files))
            hint = f" Did you mean “{suggestion}”?" if suggestion else ""
            checked_job.add_error(
                "entry", f"{pin.reference} has no file “{sanitize(entry)}”.{hint}"
            )
        elif checked_job.config is not None:
            checked_job.config = replace(checked_job.config, entry=entry)
            if not checked_job.draft.entry:
                checked_job.findings.append(
                    Finding("entry", True, f"It runs {entry}, found by itself")
                )
        if checked_job.draft.python == REQUIREMENTS and not usual_requirement_file(files):
            first_names, last_name = ", ".join(REQUIREMENT_FILES[:-1]), REQUIREMENT_FILES[-1]
            message = (
                f"{pin.reference} has neither {first_names} nor {last_name} that lists packages."
            )
            checked_job.add_error("python", message)

    def _check_start_from(self, checked_job: CheckedJob, start_from: str) -> None:
        if start_from == RANDOM_WEIGHTS:
            return
        try:
            start_from = start_from or self._model_weights(checked_job)
            if not start_from:
                if checked_job.draft.start_from_except:
                    message = "needs weights to start from (start_from)."
                    checked_job.add_error("start_from_except", message)
                return
            weights = self.weights(start_from)
        except BackendError as error:
            checked_job.add_error("start_from", str(error))
            return
        # Another folder or a newer checkpoint must not change the job later.
        if checked_job.config is not None:
            checked_job.config = replace(checked_job.config, start_from=weights.lasting_name)

    def _model_weights(self, checked_job: CheckedJob) -> str:
        """Return the weights of a model, with which its jobs begin by default."""
        model = checked_job.pins.get("model")
        weights_path = self._library.weights(model.reference) if model is not None else None
        if model is None or weights_path is None:
            return ""
        checked_job.findings.append(
            Finding(
                "start_from",
                True,
                f"It begins with the weights of {model.reference}; set “Start from” to "
                f"“{RANDOM_WEIGHTS}” for random weights.",
            )
        )
        return f"{model.reference}/{weights_path.name}"

    def weights(self, start_from: str) -> Weights:
        """Resolve ``JOB/CHECKPOINT``, ``JOB``, ``MODEL/weights.pt`` or a path.

        A job is given by its id or its name; without a checkpoint it is the best, or else the
        latest.

        Raises:
            BackendError: The weights do not exist.
        """
        job_id, _, name = start_from.partition("/")
        folder = self._root.job(job_id)
        may_be_job = name and job_id == Path(job_id).name and not job_id.startswith(".")
        if may_be_job:
            with suppress(OSError):
                self._root.files.refresh_job(folder)
        if may_be_job and folder.meta.is_file():
            checkpoints = list_checkpoints(folder, read_job(folder).config.checkpoint)
            record = require_checkpoint(checkpoints, name, job_id)
            return Weights(self._root.files, Path(record.path), f"{job_id}/{record.name}", record)
        if name in model_weights.NAMES:
            with suppress(BackendError, ValueError):
                pin = self._library.pin(Kind.MODEL, job_id)
                weights_path = self._library.weights(pin.reference)
                if weights_path is not None and weights_path.name == name:
                    sha256 = self._library.weights_hash(pin.reference)
                    return Weights(
                        self._root.files, weights_path, f"{pin.reference}/{name}", sha256=sha256
                    )
        path = expand_home(start_from)
        if not path.is_file():
            return self._job_weights(start_from)
        return Weights(self._root.files, path.absolute(), str(path.absolute()))

    def _job_weights(self, start_from: str) -> Weights:
        """Resolve the name of a job with or without a checkpoint, or the id without one."""
        # A name may have slashes.
        job_name, _, checkpoint = start_from.rpartition("/")
        for name, checkpoint_name in ((start_from, ""), (job_name, checkpoint)):
            ids = self._find_jobs(name) if name else ()
            if len(ids) > 1:
                raise BackendError(
                    f"“{sanitize(name)}” is the name of {len(ids)} jobs ({', '.join(ids[:5])}); "
                    "use the id of one of them."
                )
            if ids and checkpoint_name:
                return self.weights(f"{ids[0]}/{checkpoint_name}")
            if ids:
                with suppress(BackendError):
                    return self.weights(f"{ids[0]}/best")
                return self.weights(f"{ids[0]}/latest")
        raise BackendError(
            f"No checkpoint or file is named “{sanitize(start_from)}”; use JOB/CHECKPOINT, "
            "or a .pt or .safetensors file."
        )

    def _check_placement(
        self,
        checked_job: CheckedJob,
        name: str,
        placement: Placement,
        nodes: Mapping[str, NodeState],
    ) -> None:
        node = nodes.get(placement.node)
        if node is None:
            suggestion = closest_match(placement.node, tuple(nodes))
            checked_job.add_error(
                f"{name}.node",
                f"There is no node “{sanitize(placement.node)}”; "
                + (
                    f"did you mean “{suggestion}”?"
                    if suggestion
                    else f"known nodes: {', '.join(nodes)}."
                ),
            )
            return
        if node.entry is not None and node.entry.scheduler:
            scheduler = SCHEDULERS[node.entry.scheduler]
            checked_job.add_error(
                f"{name}.node",
                f"{placement.node} is the login node of a {scheduler.name} cluster and trains "
                f"nothing itself; give the job a table [{scheduler.key}] in place of its nodes.",
            )
            return
        reason = f": {node.message}" if node.message else ""
        message = f"{placement.node} is {node.presence.value.lower()}{reason}."
        if node.reading is None or node.presence in (Presence.NEW, Presence.OUT_OF_SERVICE):
            checked_job.add_error(f"{name}.node", message)
            return
        if not _is_online(node):
            # Never run on fewer nodes silently: all chosen nodes are used, or nothing starts.
            checked_job.findings.append(Finding(NODE_CHECK, False, message))
        if placement.node == THIS_COMPUTER and not self._nodes.trains_here:
            checked_job.add_error(
                f"{name}.node",
                f"{THIS_COMPUTER} does not mount the data root and so cannot train on it; choose "
                "other nodes, or mount it here and open it with --data-root DIR.",
            )
        elif placement.gpus:
            self._check_gpus(checked_job, f"{name}.gpus", placement, node.reading)
        else:
            cores = node.reading.cpu.cores
            slots = cores * PROCESSES_PER_CORE
            if placement.processes > slots:
                checked_job.add_error(
                    f"{name}.processes",
                    f"The node {placement.node} has {cores} cores and can run {slots} processes at "
                    f"most ({PROCESSES_PER_CORE} per core), not {placement.processes}.",
                )
            elif placement.processes > cores:
                checked_job.findings.append(
                    Finding(
                        "processes",
                        False,
                        f"{placement.processes} processes share {cores} cores of "
                        f"{placement.node}; more than {cores} are not faster.",
                    )
                )

    def _check_cluster(
        self,
        checked_job: CheckedJob,
        placement: ClusterPlacement,
        nodes: Mapping[str, NodeState],
    ) -> None:
        """Check that a cluster was added; what it has and allows is asked before the start."""
        name, scheduler = placement.cluster, scheduler_of(placement)
        if name in ("", THIS_COMPUTER):
            return
        entries = {n: state.entry for n, state in nodes.items() if state.entry is not None}
        clusters = [n for n, entry in entries.items() if entry.scheduler == scheduler.key]
        if name not in clusters:
            hint = f"Known clusters: {', '.join(clusters)}." if clusters else "There is none."
            checked_job.add_error(
                f"{scheduler.key}.cluster",
                f"There is no {scheduler.name} cluster “{sanitize(name)}”. {hint}",
            )
        elif not entries[name].is_ready:
            message = f"{name} is not set up; set it up first."
            checked_job.add_error(f"{scheduler.key}.cluster", message)

    def _check_gpus(
        self, checked_job: CheckedJob, name: str, placement: Placement, reading: NodeReading
    ) -> None:
        gpus_by_uuid = {gpu.uuid: gpu for gpu in reading.gpus}
        for uuid in placement.gpus:
            gpu = gpus_by_uuid.get(uuid)
            if gpu is None:
                known_uuids = ", ".join(gpus_by_uuid) or reading.gpu_message or "it has none"
                message = (
                    f"The node {placement.node} has no GPU “{sanitize(uuid)}” ({known_uuids})."
                )
                checked_job.add_error(name, message)
                continue
            label, sharing_user = wording.node_label(placement.node), placement.sharing_user(uuid)
            message, _ = gpu.refusal(label, sharing_user)
            if message:
                message += " The job can start when it is free."
                checked_job.findings.append(Finding(GPU_CHECK, False, message))
            elif gpu.compute_processes:
                message = (
                    f"GPU {gpu.index} of {label} is shared with {sanitize(sharing_user)} "
                    "(your choice)."
                )
                checked_job.findings.append(Finding(GPU_CHECK, True, message))


def _is_online(node: NodeState | None) -> bool:
    return node is not None and node.presence is Presence.ONLINE


def _lacks_horovod(config: JobConfig, nodes: Mapping[str, NodeState]) -> bool:
    names = [p.node for p in config.placement]
    for name in names if config.allocation is None else (config.allocation.cluster,):
        entry = nodes[name].entry if name in nodes else None
        if name == THIS_COMPUTER and not (has_horovod() or awaits_horovod()):
            return True
        if entry and entry.installation and entry.installation.without_horovod:
            return True
    return False


def check_batch_size(checked_job: CheckedJob, size: DataSize | None) -> None:
    """Find a batch that is larger than the data, which would make no step."""
    if checked_job.has_error("batch_size", "placement"):
        return
    if message := batch_size_message(checked_job.draft, size):
        checked_job.add_error("batch_size", message)


def batch_size_message(config: JobConfig, size: DataSize | None) -> str:
    """Return why the data has no step of this job, or ""."""
    if size is None:
        return ""
    # All parts of a split network train on the same batch.
    workers = 1 if config.strategy.is_split else config.workers
    step_batch = config.batch_size * config.accumulate
    required_samples = 1 if config.strategy.has_coordinator else step_batch * workers
    if workers < 1 or size.training >= required_samples:
        return ""
    has_servers = config.strategy.servers > 0
    subject = "One batch of each worker" if has_servers else "One step"
    processes = f"{workers} × " if workers > 1 else ""
    largest_batch = size.training // (workers * config.accumulate)
    process_label = "workers" if has_servers else "processes"
    hint = (
        f"choose {number_format.count(largest_batch)} or less"
        + (", or fewer passes of a step" if config.accumulate > 1 else "")
        if largest_batch
        else f"the dataset has fewer samples than {process_label} ({workers})"
    )
    return (
        f"{subject} takes {processes}{number_format.count(step_batch)} samples, "
        f"but the dataset has {number_format.count(size.training)}; {hint}."
    )


def process_capacities(config: JobConfig, nodes: Mapping[str, NodeState]) -> list[int]:
    """Return the memory in bytes of each GPU of the job, or of a process on each node."""
    capacities = []
    for placement in config.placement:
        state = nodes.get(placement.node)
        reading = state.reading if state is not None else None
        if reading is not None and placement.gpus:
            gpus = (gpu for gpu in reading.gpus if gpu.uuid in placement.gpus)
            capacities += [gpu.memory_total_bytes for gpu in gpus if gpu.memory_total_bytes]
        elif reading is not None:
            capacities.append(reading.memory_total_bytes // max(1, placement.process_count))
    return capacities


def memory_hint(
    config: JobConfig, trial: ModelCheck, nodes: Mapping[str, NodeState]
) -> tuple[Finding, ...]:
    """Return a hint if a batch needs more memory than the GPUs, or the node, of the job have.

    The estimate has the tensors that autograd keeps of a batch, weights, gradients, and the state
    of the optimizer.
    """
    capacities = process_capacities(config, nodes)
    model_bytes = parameter_memory_bytes(trial.parameter_bytes, config)
    sample_bytes = trial.activation_bytes or 0
    fit = batch_fit(config, model_bytes, sample_bytes, min(capacities)) if capacities else None
    if fit is None:
        return ()
    required_bytes = model_bytes + config.batch_size * sample_bytes
    is_synchronous = not (config.strategy.servers or config.strategy.is_split)
    if fit.largest_batch:
        remedy = f"Choose {number_format.count(fit.largest_batch)} or less"
        if fit.passes:
            size = number_format.count(fit.pass_batch)
            remedy += f", or {size} in {number_format.count(fit.passes)} passes of a step"
        remedy += "."
    elif is_synchronous and config.world_size > 1 and config.strategy.name != "fsdp":
        remedy = "Use a smaller model, or the strategy FSDP, whose processes share the weights."
    else:
        remedy = "Use a smaller model."
    required_text, capacity_text = (
        number_format.size(n, is_binary=True) for n in (required_bytes, min(capacities))
    )
    batch = number_format.count(config.batch_size)
    message = (
        f"A batch of {batch} needs about {required_text} of memory; a process has {capacity_text}."
    )
    return (Finding("memory", False, message, remedy),)


def learning_rates(config: JobConfig, steps_per_epoch: int) -> tuple[float, ...]:
    """Return learning rates at equal distances over the whole job."""
    total = steps_per_epoch * config.epochs
    count = min(total, _RATES_SHOWN)
    if count < 2:
        return (learning_rate(config, steps_per_epoch, 0),) * count
    return tuple(
        learning_rate(config, steps_per_epoch, number * (total - 1) // (count - 1))
        for number in range(count)
    )


_KEYS = ("dataset", "loader", "validation_dataset", "validation_loader")


class DataSizeCounter:
    """Counts the samples of a job's data, and remembers the numbers."""

    def __init__(self, library: LibraryService, folder: Path) -> None:
        self._library = library
        self._cache = ResultCache(folder)

    def cached_size(self, pins: Mapping[str, Pin]) -> DataSize | None:
        """Return the size that was counted before, if any."""
        if not {"dataset", "loader"} <= pins.keys():
            return None
        return self._cache.cached(_key(pins), DataSize.from_dict)

    def count(self, pins: Mapping[str, Pin], progress: Progress) -> DataSize | None:
        """Return the size, counted if needed; None if this computer cannot count it.

        Raises:
            BackendError: The loader cannot be used, or did not finish.
        """
        cached_size = self.cached_size(pins)
        if cached_size is not None or "loader" not in pins:
            return cached_size

        if not all(
            self._library.is_local(Kind.DATASET, pins[key].reference)
            for key in ("dataset", "validation_dataset")
            if key in pins
        ):
            # The ranks will count it: a dataset is not fetched for a number.
            return None
        if training_error() is not None:
            return None

        def content(key: str, kind: Kind) -> Path | None:
            if key not in pins:
                return None
            return self._library.open_content(kind, pins[key].reference, progress)

        return self._cache.get(
            _key(pins),
            DataSize.from_dict,
            lambda: tool_process.count_samples(
                self._library.open_content(Kind.LOADER, pins["loader"].reference, progress),
                self._library.open_content(Kind.DATASET, pins["dataset"].reference, progress),
                content("validation_loader", Kind.LOADER),
                content("validation_dataset", Kind.DATASET),
                progress=progress,
            ),
        )


def _key(pins: Mapping[str, Pin]) -> tuple[str, ...]:
    return tuple(pins[key].sha256 if key in pins else "" for key in _KEYS)
