"""The needs of a job before it exists, measured on one of its nodes: `job plan`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backend.base.room import DiskSpace
from backend.records.base.number_format import count, size
from backend.records.base.schema import Record
from backend.records.jobs.config import JobConfig
from backend.records.jobs.forecast import checkpoint_bytes, checkpoints_kept, checkpoints_written
from backend.records.jobs.placement import node_label
from backend.records.jobs.status import RunStatus
from backend.records.library.preview import ModelCheck

NODE_COUNTS = (1, 2, 4)
DEFAULT_LINK_MBIT = 1000
_BUSY_SHARE = 0.2
_SENT_WHOLES = {"alone": 2, "allreduce": 2, "ddp": 2, "fsdp": 3}
"""How often a process sends the share of the others of all parameters in a step.

A ring sends a gradient twice (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", 2009); FSDP gathers the weights twice and scatters the gradients once.
A job that is alone would train on several nodes as DDP does.
"""


@dataclass(frozen=True)
class Measurement:
    """A short training of a job: its last status, and the seconds before its first step.

    ``save_s`` is how long the training waited for a checkpoint, ``checkpoint_bytes`` the size of
    the checkpoint; None if there was none.
    """

    status: RunStatus
    setup_s: float
    took_s: float
    save_s: float
    checkpoint_bytes: int | None


@dataclass(frozen=True)
class BatchFit:
    """The batches that fit in the memory of a process.

    ``largest_batch`` is 0 if none does. ``passes`` of ``pass_batch`` make the chosen batch; 0 where
    the strategy has no passes, or the batch cannot be divided. ``accumulate`` is the setting then.
    """

    largest_batch: int
    pass_batch: int = 0
    passes: int = 0
    accumulate: int = 0


def batch_fit(
    config: JobConfig, model_bytes: int, sample_bytes: int, capacity_bytes: int
) -> BatchFit | None:
    """Return the batches that fit, None if the chosen batch fits.

    Args:
        model_bytes: All memory that does not depend on the batch.
        sample_bytes: The memory of one more sample in a batch.
    """
    if model_bytes + config.batch_size * sample_bytes <= capacity_bytes or not sample_bytes:
        return None
    largest_batch = max(0, (capacity_bytes - model_bytes) // sample_bytes)
    is_synchronous = not (config.strategy.servers or config.strategy.is_split)
    passes = -(-config.batch_size // largest_batch) if largest_batch else 0
    if not is_synchronous or not passes or config.batch_size % passes:
        return BatchFit(largest_batch)
    return BatchFit(largest_batch, config.batch_size // passes, passes, config.accumulate * passes)


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of a process in bytes; of its GPU where it has one. None: not known.

    ``other_bytes`` is the measured rest: PyTorch itself, buffers, a batch of data.
    """

    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int | None = None
    other_bytes: int | None = None
    capacity_bytes: int | None = None

    @property
    def estimated_bytes(self) -> int:
        """The sum of what follows from model and settings."""
        model_bytes = self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
        return model_bytes + (self.activation_bytes or 0)

    @property
    def total_bytes(self) -> int:
        return self.estimated_bytes + (self.other_bytes or 0)


@dataclass(frozen=True)
class NodesPlan:
    """The job on so many nodes like the measured one, with the batch of a process unchanged.

    ``network_bytes`` is what a node sends in a step.
    """

    nodes: int
    global_batch: int
    steps: int
    step_s: float
    network_bytes: int
    lasts_s: float
    energy_j: float | None = None


@dataclass(frozen=True)
class JobPlan(Record, label="plan"):
    """The needs of a job; ``step_s`` and what follows from it are None if it was not measured.

    ``fit`` is set if the chosen batch does not fit. ``disk_bytes`` is the size of all checkpoints
    that are kept at the end. ``link_mbit`` is the declared speed of the network, ``other_cpu`` the
    share of the node's processors that other programs used during the measurement.
    """

    node: str
    memory: MemoryPlan
    batch_size: int
    fit: BatchFit | None = None
    step_s: float | None = None
    measured_steps: int = 0
    took_s: float = 0.0
    setup_s: float = 0.0
    power_w: float | None = None
    other_cpu: float | None = None
    checkpoint_bytes: int | None = None
    checkpoints_kept: int = 0
    free_bytes: int | None = None
    link_mbit: float = DEFAULT_LINK_MBIT
    by_nodes: tuple[NodesPlan, ...] = ()
    too_large_batches: tuple[int, ...] = ()
    """Global batches of more nodes that the dataset does not fill, so that there is no step."""

    @property
    def disk_bytes(self) -> int | None:
        """The size of all checkpoints at the end."""
        known_bytes = self.checkpoint_bytes
        return None if known_bytes is None else known_bytes * self.checkpoints_kept

    @property
    def fit_message(self) -> str:
        """The reason why the batch does not fit, with the batches that do; "" if it fits."""
        fit, capacity_bytes = self.fit, self.memory.capacity_bytes
        if fit is None or capacity_bytes is None:
            return ""
        message = (
            f"Batch {count(self.batch_size)} does not fit into "
            f"{size(capacity_bytes, is_binary=True)}"
        )
        if not fit.largest_batch:
            return f"{message}, and no smaller one does."
        message += f"; {count(fit.largest_batch)} does"
        if fit.passes:
            message += f", or {count(fit.pass_batch)} in {count(fit.passes)} passes of a step"
        return f"{message}."

    @property
    def assumptions(self) -> str:
        """The assumptions behind the figures, as sentences."""
        if self.step_s is None:
            return "Not measured: only model and settings are known."
        steps, node = count(self.measured_steps), node_label(self.node)
        texts = [f"Measured for {steps} steps on {node} ({self.took_s:.0f} s)."]
        if self.other_cpu is not None and self.other_cpu > _BUSY_SHARE:
            texts.append(
                f"Other programs used {self.other_cpu:.0%} of its processors meanwhile; without "
                "them a step is shorter."
            )
        if len(self.by_nodes) > 1:
            texts.append(
                f"Assumed: nodes like this one, a network of {self.link_mbit:g} Mbit/s, and an "
                "exchange that begins after the backward pass."
            )
        if self.too_large_batches:
            batches = " and ".join(map(count, self.too_large_batches))
            texts.append(
                f"No row for a global batch of {batches}: the dataset has fewer samples, and so no "
                "whole batch."
            )
        return " ".join(texts)

    def with_link(self, link_mbit: float) -> JobPlan:
        """Return the plan with another network."""

        def scaled(plan: NodesPlan) -> NodesPlan:
            step_s = plan.step_s + plan.network_bytes * 8e-6 * (1 / link_mbit - 1 / self.link_mbit)
            lasts_s = plan.lasts_s + plan.steps * (step_s - plan.step_s)
            energy_j = None if plan.energy_j is None else plan.energy_j * lasts_s / plan.lasts_s
            return replace(plan, step_s=step_s, lasts_s=lasts_s, energy_j=energy_j)

        return replace(self, link_mbit=link_mbit, by_nodes=tuple(map(scaled, self.by_nodes)))


def memory_plan(
    config: JobConfig, check: ModelCheck, capacity_bytes: int | None, peak_bytes: int | None
) -> MemoryPlan:
    """Return the memory of a process, with the measured peak if there is one."""
    parts = config.world_size if config.strategy.name == "fsdp" else 1
    weight_bytes = check.parameter_bytes // parts
    trained_share = check.trainable_parameters / max(1, check.parameters)
    plan = MemoryPlan(
        weight_bytes,
        int(weight_bytes * trained_share),
        (checkpoint_bytes(check.parameter_bytes, config) - check.parameter_bytes) // parts,
        None if check.activation_bytes is None else check.activation_bytes * config.batch_size,
        capacity_bytes=capacity_bytes,
    )
    if peak_bytes is None:
        return plan
    return replace(plan, other_bytes=max(0, peak_bytes - plan.estimated_bytes))


def sent_bytes(config: JobConfig, trained_bytes: int) -> int:
    """Return the bytes that a node sends to other nodes in a step of synchronous training.

    Of local steps it is the mean: weights are sent in the last step of a period.
    """
    ranks, nodes = config.world_size, len(config.placement)
    if nodes < 2:
        return 0
    compression = config.strategy.settings.get("compression", "none")
    transfer_count = _SENT_WHOLES.get(config.strategy.name, 0) / (1 if compression == "none" else 2)
    return int(trained_bytes * transfer_count * (ranks - 1) / ranks / config.strategy.average_every)


def plan_job(
    config: JobConfig,
    memory: MemoryPlan,
    measurement: Measurement,
    disk_space: DiskSpace | None,
    link_mbit: float,
    power_w: float | None,
) -> JobPlan:
    """Return the plan that follows from a measurement on the first node of ``config``."""
    status, setup_s = measurement.status, measurement.setup_s
    pace_s = status.pace_s or max(status.rank_step_ms, default=0.0) / 1000
    samples = status.steps_per_epoch * config.global_batch_size
    counts = NODE_COUNTS if config.strategy.name in _SENT_WHOLES else (len(config.placement),)
    plans, too_large_batches = [], []
    for nodes in counts:
        placement = config.placement[:1] * nodes if len(counts) > 1 else config.placement
        larger_config = replace(config, placement=placement)
        steps = larger_config.steps_per_epoch(samples) * config.epochs
        if samples and not steps:
            too_large_batches.append(larger_config.global_batch_size)
        if not steps or not pace_s:
            continue
        network_bytes = sent_bytes(larger_config, memory.gradient_bytes)
        step_s = pace_s + network_bytes * 8e-6 / link_mbit
        steps_per_epoch = steps // config.epochs
        trained_s = steps * step_s
        save_count = checkpoints_written(larger_config, steps_per_epoch, trained_s)
        lasts_s = setup_s + trained_s + measurement.save_s * min(save_count, steps)
        energy_j = None if power_w is None else power_w * nodes * lasts_s
        plans.append(
            NodesPlan(
                *(nodes, larger_config.global_batch_size, steps, step_s),
                *(network_bytes, lasts_s, energy_j),
            )
        )
    fit = None
    if memory.capacity_bytes is not None and memory.activation_bytes:
        sample_bytes = memory.activation_bytes // config.batch_size
        model_bytes = memory.total_bytes - memory.activation_bytes
        fit = batch_fit(config, model_bytes, sample_bytes, memory.capacity_bytes)
    return JobPlan(
        node=config.placement[0].node,
        memory=memory,
        batch_size=config.batch_size,
        fit=fit,
        step_s=pace_s or None,
        measured_steps=status.step,
        took_s=measurement.took_s,
        setup_s=setup_s,
        power_w=power_w,
        other_cpu=status.other_cpu,
        checkpoint_bytes=measurement.checkpoint_bytes,
        checkpoints_kept=checkpoints_kept(
            config, status.steps_per_epoch, plans[0].lasts_s if plans else None
        ),
        free_bytes=None if disk_space is None else disk_space.free_bytes,
        link_mbit=link_mbit,
        by_nodes=tuple(plans),
        too_large_batches=tuple(too_large_batches),
    )
