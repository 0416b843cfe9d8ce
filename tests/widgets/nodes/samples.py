"""A cluster to show: nodes with jobs, guests, heat, and one that is gone."""

from __future__ import annotations

from dataclasses import replace

from backend.records.jobs.status import ProcessIdentity
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo, NodeInstallation
from backend.records.nodes.health import Health
from backend.records.nodes.reading import (
    Cpu,
    Gpu,
    GpuProcess,
    NodeReading,
    NodeState,
    Orphan,
    Presence,
)

GIB = 1 << 30
JOBS = {"j1": "retinanet-r50 · coco 2x", "j2": "unet-cells · dice v3"}


def gpu(
    index: int, *, owner: str = "", job: str = "", use: int = 0, temperature_c: int = 33
) -> Gpu:
    processes = ()
    if owner:
        tag = f"{job}/1" if job else ""
        processes = (GpuProcess(4200 + index, owner, 61 * GIB, "python", 4380.0, tag),)
    return Gpu(
        index,
        f"GPU-{index}",
        "A100 80 GB",
        (61 if owner else 0) * GIB,
        80 * GIB,
        use,
        temperature_c,
        372.0 if owner else 54.0,
        400.0,
        1410 if owner else 210,
        1410,
        processes=processes,
    )


def gpus(kind: str, count: int = 8) -> tuple[Gpu, ...]:
    """Free, ours (all), half (ours), other (all), or few (the last two in use by others)."""
    cards = []
    for index in range(count):
        is_busy = {
            "free": False,
            "ours": True,
            "other": True,
            "half": index < count // 2,
            "few": index >= count - 2,
        }[kind]
        if not is_busy:
            cards.append(gpu(index, temperature_c=30 + 7 * index % 6))
        elif kind in ("ours", "half"):
            job = "j1" if kind == "ours" else "j2"
            cards.append(
                gpu(
                    index,
                    owner="mai",
                    job=job,
                    use=92 + 5 * index % 7,
                    temperature_c=63 + 3 * index % 7,
                )
            )
        else:
            user = "chen" if kind == "other" else "alice"
            cards.append(
                gpu(index, owner=user, use=86 - 3 * index % 11, temperature_c=55 + 5 * index % 8)
            )
    return tuple(cards)


def reading(name: str, kind: str = "free", count: int = 8, **changes: object) -> NodeReading:
    is_busy = kind in ("ours", "other")
    base = NodeReading(
        name=name,
        host=name,
        heartbeat=1,
        cpu=Cpu("EPYC 7763", 128, 46.0 if is_busy else 3.0, 0.9),
        memory_total_bytes=1024 * GIB,
        memory_used_bytes=(540 if is_busy else 90) * GIB,
        swap_total_bytes=0,
        swap_used_bytes=0,
        disk_path="/lab/ring",
        disk_total_bytes=10 * 10**12,
        disk_free_bytes=21 * 10**11,
        network_in_bytes_per_s=0.8e9 if is_busy else 1e6,
        network_out_bytes_per_s=0.34e9 if is_busy else 1e6,
        uptime_s=41 * 86400.0,
        driver="550.54",
        gpus=gpus(kind, count),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def entry(name: str, *, is_ready: bool = True) -> NodeEntry:
    info = NodeInfo(
        name, "Debian 12", "x86_64", "6.1", "mai", "/home/mai/.ringmaster", gpus=("A100 80 GB",) * 8
    )
    installation = NodeInstallation(
        "/e/bin/python", "/e/bin/mpirun", "5.0.11", "e1", "/b", "/c", bytes=10**9
    )
    return NodeEntry(name, NodeAddress("10.0.4.17"), info, installation if is_ready else None)


def state(name: str, kind: str = "free", count: int = 8) -> NodeState:
    return NodeState(name, Presence.ONLINE, reading(name, kind, count), entry=entry(name))


def orphan(pid: int, job: str = "j9") -> Orphan:
    """A process that a run of a job left behind three hours ago."""
    process = ProcessIdentity("gpu07", "boot", pid, 100 * pid)
    command = "/e/bin/python -m backend.training.rank"
    reason = "Run 1 of its job is over."
    return Orphan(process, "mai", command, 3 * 3600.0, 2 * GIB, f"{job}/1", reason)


def with_findings(node: NodeState) -> NodeState:
    """With what its one reading says of its health."""
    assert node.reading is not None
    return replace(node, health=Health().after_reading(node.reading, 0.0).findings)


def hot_node(node: NodeState, index: int = 3) -> NodeState:
    """The same node with a GPU that is slowed by heat."""
    assert node.reading is not None
    cards = list(node.reading.gpus)
    cards[index] = replace(
        cards[index],
        temperature_c=91,
        use_percent=99,
        sm_clock_mhz=1060,
        clock_event_reasons=("hardware thermal slowdown",),
    )
    return with_findings(replace(node, reading=replace(node.reading, gpus=tuple(cards))))


def offline_node(
    node: NodeState, message: str = "no news since 03:12, no route to host"
) -> NodeState:
    return replace(node, presence=Presence.OFFLINE, message=message)


def cluster(count: int, name: str = "gpu{:02d}", gpus_each: int = 8) -> tuple[NodeState, ...]:
    """So many nodes; from four on, one is unhealthy and one is offline."""
    kinds = ("half", "free", "other", "ours", "few", "free", "ours", "ours", "other", "free")
    states = [state(name.format(n + 1), kinds[n % 10], gpus_each) for n in range(count)]
    if count >= 4:
        unhealthy_index = 3 if count < 7 else 6
        states[unhealthy_index] = hot_node(states[unhealthy_index], min(3, gpus_each - 1))
        states[2 if count < 7 else 10 if count > 10 else 5] = offline_node(
            states[2 if count < 7 else 10 if count > 10 else 5]
        )
    return tuple(states)
