"""The rows of the tab Ranks: node and GPU of each rank, and the state of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.records.base.layout import run_tag
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import Gpu, NodeState
from widgets.common import formats
from widgets.jobs.ranks.rank_strip import parts_text, rank_marks
from widgets.nodes.row.node_names import strip_domain
from widgets.nodes.row.node_row import node_title

_UUID_SHOWN = 12


@dataclass(frozen=True)
class RankRow:
    """A row as text; unknown values are a dash."""

    rank: int
    node: str
    gpu: str = formats.NONE
    pid: str = formats.NONE
    step_time: str = formats.NONE
    memory: str = formats.NONE
    gpu_use: str = formats.NONE
    heartbeat_age: str = formats.NONE
    whole_gpu: str = ""
    whole_node: str = ""
    whole_step: str = ""
    is_slow: bool = False
    has_failed: bool = False
    is_server: bool = False


def gpu_names(view: JobView, state: NodeState) -> dict[str, str]:
    """Return the job's GPUs on a node by UUID: "GPU 3, rank 11"."""
    reading = state.reading
    index = {gpu.uuid: gpu.index for gpu in reading.gpus} if reading is not None else {}
    return {
        uuid: f"GPU {index.get(uuid, formats.NONE)}, rank {rank}"
        for rank, placement, uuid in view.ranks()
        if uuid and placement.node == state.name
    }


def rank_rows(
    view: JobView,
    nodes: Mapping[str, NodeState] | None = None,
    heartbeat_ages: Mapping[str, str] | None = None,
) -> tuple[RankRow, ...]:
    """Return a row per rank.

    Args:
        nodes: The current nodes, by name.
        heartbeat_ages: The age of each node's heartbeat, as text.
    """
    names = list(dict.fromkeys(placement.node for placement in view.config.placement))
    titles = dict(zip(names, strip_domain([node_title(n) for n in names]), strict=True))
    gpus = {
        (name, gpu.uuid): gpu
        for name, state in (nodes or {}).items()
        for gpu in (state.reading.gpus if state.reading is not None else ())
    }
    marks = rank_marks(view)
    rows = []
    for rank, placement, uuid in view.ranks():
        is_server = rank < view.config.strategy.servers
        # Zero before the first step, and always for a server.
        has_step_time = rank < len(view.status.rank_step_ms) and bool(
            view.status.rank_step_ms[rank]
        )
        gpu = gpus.get((placement.node, uuid))
        is_live = view.state.is_live
        rows.append(
            RankRow(
                rank,
                titles[placement.node],
                f"GPU {gpu.index}" if gpu is not None else uuid[:_UUID_SHOWN] or formats.NONE,
                _process_ids(view, gpu) if is_live and gpu is not None else formats.NONE,
                formats.milliseconds(view.status.rank_step_ms[rank])
                if has_step_time
                else formats.NONE,
                _memory_text(gpu) if is_live and gpu is not None else formats.NONE,
                _use_text(gpu) if is_live and gpu is not None else formats.NONE,
                ((heartbeat_ages or {}).get(placement.node) or formats.NONE)
                if is_live
                else formats.NONE,
                f"{gpu.name}, {uuid}" if gpu is not None else uuid,
                node_title(placement.node),
                parts_text(view, rank) if has_step_time and is_live else "",
                marks[rank] == "warn",
                marks[rank] == "bad",
                is_server,
            )
        )
    return tuple(rows)


def _process_ids(view: JobView, gpu: Gpu) -> str:
    """Return the PIDs of the rank's own processes, which carry the run's tag."""
    tag = run_tag(view.id, view.run)
    process_ids = [str(process.pid) for process in gpu.processes if process.run_tag == tag]
    return ", ".join(process_ids) or formats.NONE


def _memory_text(gpu: Gpu) -> str:
    return formats.used_memory(gpu.memory_used_bytes, gpu.memory_total_bytes)


def _use_text(gpu: Gpu) -> str:
    return formats.NONE if gpu.use_percent is None else formats.percent(gpu.use_percent / 100)
