"""Add, set up, check and remove nodes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from backend.base.errors import BackendError
from backend.cli import questions
from backend.cli.command import ArgSpec, command
from backend.cli.commands.doctor import finding_lines
from backend.cli.parameters import parse_port
from backend.cli.printing import (
    Answer,
    Note,
    Part,
    Properties,
    Table,
    duration_text,
    print_note,
    size_text,
)
from backend.cli.runs import wake_agents
from backend.cli.session import Session
from backend.records.base.schema import json_value
from backend.records.base.terminal_text import terminal_safe
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import EXAMPLE, NodeAddress, NodeEntry, SetUp, StepState
from backend.records.nodes.reading import Finding
from backend.services.context.container import Services

if TYPE_CHECKING:
    from backend.records.nodes.reading import NodeReading

_DAY_S = 86400.0
_Name = Annotated[str, ArgSpec("NAME")]
_MaybeName = Annotated[str, ArgSpec("NAME", "default: all nodes")]


@command("node add", at_most_one_of=("node_data_root", "no_share", "slurm"))
def add(
    session: Session,
    host: Annotated[str, ArgSpec("HOST", "name, IP address, or Host of ~/.ssh/config")],
    *,
    name: Annotated[str, ArgSpec("N", "default: HOST")] = "",
    port: Annotated[int, ArgSpec("P", parse=parse_port)] = 0,
    user: Annotated[str, ArgSpec("U")] = "",
    identity: Annotated[str, ArgSpec("FILE", "private key to log in with")] = "",
    jump: Annotated[str, ArgSpec("[USER@]HOST[:PORT]", "connect through this host")] = "",
    node_data_root: Annotated[str, ArgSpec("PATH", "default: the same path as here")] = "",
    no_share: Annotated[
        bool, "the node does not see the data root: files are copied over SSH"
    ] = False,
    slurm: Annotated[
        bool, "it is the login node of a Slurm cluster, which starts the jobs"
    ] = False,
    keep_passphrase: Annotated[
        bool, "store the passphrase of the key in the system keyring"
    ] = False,
) -> Answer:
    """Inspect a machine over SSH and add it as a node."""
    services = session.services
    typed_identities: list[str] = []

    def ask(identity: str) -> str:
        typed_identities.append(identity)
        return questions.ask_passphrase(identity)

    keyring_error = services.cluster.keyring.unavailable_reason() if keep_passphrase else ""
    if keyring_error:
        raise BackendError(keyring_error, "Remove --keep-passphrase; nothing was added.")
    entry = services.cluster.add(
        name,
        NodeAddress(host, port=port, user=user, identity=identity, jump=jump),
        accept=session.accept_key,
        passphrase=ask if session.can_ask else None,
        node_data_root=node_data_root,
        is_staged=no_share,
        scheduler="slurm" if slurm else "",
    )
    for typed_identity in dict.fromkeys(typed_identities) if keep_passphrase else ():
        services.cluster.keep_passphrase(typed_identity)
        print_note(f"The system keyring stores the passphrase of {typed_identity}.")
    return Answer(entry, _added_parts(services, entry))


def _added_parts(services: Services, entry: NodeEntry) -> Iterator[Part]:
    info = entry.info
    assert info is not None, "an added node was inspected"
    gpus = f"{len(info.gpus)}: {', '.join(info.gpus)}" if info.gpus else "none"
    free_bytes = info.home_free_bytes
    yield f"Added {entry.name}."
    yield Properties(
        [
            ("Host", info.hostname),
            ("System", f"{info.system}, {info.machine}, kernel {info.kernel}"),
            ("User", info.user),
            ("Processor", f"{info.cores} × {info.cpu_model}"),
            ("Memory", size_text(info.memory_bytes)),
            ("GPUs", f"{gpus}, driver {info.driver}" if info.driver else gpus),
            ("Home", info.home + ("" if free_bytes is None else f", {size_text(free_bytes)} free")),
            ("Python", ", ".join(f"{p.version} ({p.path})" for p in info.pythons)),
            ("MPI", f"{info.mpi_version} ({info.mpirun})" if info.mpirun else "none"),
            ("Data root", _data_root(entry)),
            ("Address", entry.ranks_address),
            ("Clock", f"{info.clock_offset_s:+.2f} s" if info.clock_offset_s is not None else ""),
        ]
    )
    if not entry.data_root:
        root = services.data_root.name
        yield Note(
            f"{entry.name} does not see the data root {root}. Mount it at "
            f"the same path on {entry.name}, or add the node again with --node-data-root "
            "PATH; or with --no-share, to copy files over SSH."
        )


def _data_root(entry: NodeEntry) -> str:
    if entry.info is None or not entry.data_root:
        return "not seen"
    if entry.is_staged:
        return f"not seen; files are copied over SSH, to {entry.data_root}"
    return entry.data_root + ("" if entry.info.data_root_writable else ", not writable")


@command("node partitions")
def partitions(
    services: Services, name: Annotated[str, ArgSpec("NAME", "default: this computer")] = ""
) -> Answer:
    """The partitions of a Slurm cluster, with their nodes and limits."""
    partitions = services.launchers.partitions(name or THIS_COMPUTER)
    rows = (
        (
            f"{partition.name}{' (default)' if partition.is_default else ''}",
            "up" if partition.is_up else "down",
            "none" if partition.time_limit_s is None else duration_text(partition.time_limit_s),
            f"{sum(node.is_usable for node in partition.nodes)} of {len(partition.nodes)}",
            partition.gpu_label,
            "; ".join(
                f"{node.name} is {node.state}{f': {node.reason}' if node.reason else ''}"
                for node in partition.nodes
                if not node.is_usable
            ),
        )
        for partition in partitions
    )
    head = ("PARTITION", "STATE", "TIME LIMIT", "NODES", "FREE GPUS", "OUT OF USE")
    return Answer(
        [json_value(partition) for partition in partitions],
        Table(head, rows, "The cluster has no partition."),
    )


@command("node forget-passphrase")
def remove_passphrase(services: Services, name: _Name) -> Answer:
    """Remove the stored passphrase of a node's key."""
    keys = services.cluster.remove_passphrase(name)
    removal_text = f"Removed the passphrase of {', '.join(keys)}."
    absence_text = f"There was no stored passphrase of a key of {name}."
    return Answer({"name": name, "keys": keys}, removal_text if keys else absence_text)


@command("node provision")
def provision(
    session: Session,
    names: Annotated[tuple[str, ...], ArgSpec("NAME", "default: all nodes")] = (),
    *,
    cpu_only: Annotated[bool, "leave the GPUs unused"] = False,
    system_mpi: Annotated[bool, "use the Open MPI of the nodes"] = False,
    shared: Annotated[bool, "one environment on the data root for similar nodes"] = False,
    own_key: Annotated[
        str,
        ArgSpec("PATH", "private key on the nodes that connects them already; default: a new key"),
    ] = "",
    limit_key: Annotated[
        bool, "restrict the new key to training runs, which is the default, or do not"
    ] = True,
    without_horovod: Annotated[bool, "train by DDP; nothing is built here"] = False,
    in_job: Annotated[bool, "of a Slurm cluster: make the environment on a compute node"] = False,
    partition: Annotated[str, ArgSpec("P", "of that job; default: Slurm's own")] = "",
) -> Answer:
    """Set nodes up: Python, Open MPI, PyTorch, agent, a trial."""
    from backend.records.nodes.provisioning_options import SetUpOptions

    services = session.services
    steps = SetUpReporter(session.print_early)
    # Ctrl+C ends each node's step in order; the next set-up finds what was done.
    cancel_event = threading.Event()
    previous_handler = signal.signal(signal.SIGINT, lambda *_: cancel_event.set())
    try:
        outcome = services.provisioning.set_up(
            names or [entry.name for entry in services.cluster.list()],
            steps.report,
            lambda _name: cancel_event.is_set(),
            SetUpOptions(
                *(cpu_only, system_mpi, own_key, shared, limit_key, without_horovod),
                in_job=in_job or bool(partition),
                partition=partition,
            ),
        )
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    errors = {name: result for name, result in outcome.items() if isinstance(result, BackendError)}
    return Answer(
        [steps.to_json(name, errors.get(name)) for name in outcome],
        (_failure_note(name, error) for name, error in errors.items()),
        has_failed=bool(errors),
    )


def _failure_note(name: str, error: BackendError) -> Note:
    return Note(" ".join(filter(None, (f"{name}: {error.message}", error.remedy))))


def _error_json(error: BackendError | None) -> dict[str, str] | None:
    return None if error is None else {"sentence": error.message, "remedy": error.remedy}


class SetUpReporter:
    """Progress of set-ups: a line for each step that has ended, and for what a step waits for."""

    def __init__(self, print_part: Callable[[Note], None]) -> None:
        self._print = print_part
        self._set_ups: dict[str, SetUp] = {}
        self._activities: dict[str, str] = {}

    def report(self, set_up: SetUp) -> None:
        last_set_up = self._set_ups.get(set_up.node)
        self._set_ups[set_up.node] = set_up
        for number, step in enumerate(set_up.steps):
            previous_state = (
                last_set_up.steps[number].state if last_set_up is not None else StepState.WAITING
            )
            if step.state is StepState.DONE and previous_state is not step.state:
                self._print(
                    Note(f"{set_up.node}  {step.title:<9} {step.seconds:6.1f} s  {step.message}")
                )
            if step.state is StepState.RUNNING and step.message:
                # Of a count of bytes, only its beginning.
                activity = step.message.partition(":")[0]
                if self._activities.get(set_up.node) != activity:
                    self._activities[set_up.node] = activity
                    self._print(Note(f"{set_up.node}  {step.title:<9}      …    {step.message}"))

    def to_json(self, name: str, error: BackendError | None) -> dict[str, object]:
        steps = self._set_ups[name].steps if name in self._set_ups else ()
        return {
            "name": name,
            "error": _error_json(error),
            "steps": [
                {
                    "step": step.title,
                    "state": step.state.value,
                    "sentence": step.message,
                    "seconds": round(step.seconds, 3),
                }
                for step in steps
            ],
        }


@command("node unprovision")
def unprovision(session: Session, names: Annotated[tuple[str, ...], ArgSpec("NAME")]) -> Answer:
    """Remove everything of Ringmaster from nodes."""
    outcome: dict[str, int | BackendError] = {}
    for name, result in session.services.provisioning.un_provision_all(names):
        outcome[name] = result
        if isinstance(result, BackendError):
            session.print_early(_failure_note(name, result))
        else:
            session.print_early(f"Removed {size_text(result)} from {name}.")
    errors = {name: result for name, result in outcome.items() if isinstance(result, BackendError)}
    return Answer(
        [
            {
                "name": name,
                "error": _error_json(errors.get(name)),
                "bytes": None if name in errors else result,
            }
            for name, result in outcome.items()
        ],
        has_failed=bool(errors),
    )


@command("node remove")
def remove(services: Services, name: _Name) -> Answer:
    """Move the records of a node to the trash of the data root."""
    entry = services.cluster.remove(name)
    return Answer(entry, f"Moved node {entry.name} to {services.trash}.")


@command("node forget")
def remove_host_key(
    services: Services,
    host: Annotated[str, ArgSpec("HOST")],
    *,
    port: Annotated[int, ArgSpec("P", parse=parse_port)] = 22,
) -> Answer:
    """Remove the accepted host key of a machine."""
    count = services.cluster.remove_host_key(host, port)
    data = {"host": host, "port": port, "keys": count}
    return Answer(data, f"Removed {count} host {'key' if count == 1 else 'keys'} of {host}.")


@command("node edit")
def edit(
    services: Services,
    name: _Name,
    *,
    gives_way: Annotated[
        str | None, ArgSpec("WHEN", f"to other users: never, always, or as in “{EXAMPLE}”")
    ] = None,
) -> Answer:
    """When each job on a node gives way to other users."""
    previous_entry = entry = services.cluster.entry(name)
    if gives_way is not None:
        entry = services.cluster.set_gives_way(name, gives_way)
    previous_hours = previous_entry.gives_way or "never"
    change_text = (
        f" Before: {previous_hours}." if entry.gives_way != previous_entry.gives_way else ""
    )
    return Answer(entry, f"{name} gives way: {entry.gives_way or 'never'}.{change_text}")


@command("node list")
def list_nodes(services: Services) -> Answer:
    """The nodes and their equipment."""
    wake_agents(services, [entry.name for entry in services.cluster.known_entries()])
    nodes = services.nodes.list()
    rows = (
        (node.name, node.presence.value, *_equipment(node.reading, node.message)) for node in nodes
    )
    head = ("NAME", "STATE", "CORES", "MEMORY", "GPUS")
    return Answer(nodes, Table(head, rows, "There are no nodes."))


def _equipment(reading: NodeReading | None, message: str) -> tuple[str, str, str]:
    if reading is None:
        return "", "", message
    gpus = ", ".join(gpu.name for gpu in reading.gpus) or reading.gpu_message
    return str(reading.cpu.cores), size_text(reading.memory_total_bytes), gpus


@command("node orphans")
def orphans(
    services: Services, name: _MaybeName = "", *, end: Annotated[bool, "end them"] = False
) -> Answer:
    """Processes that survived their runs on the nodes."""
    names = [name] if name else [node.name for node in services.nodes.list()]
    orphans_by_node = {node: services.nodes.orphans(node) for node in names}
    if end:
        orphans_by_node = {
            node: services.nodes.end_orphans(node, node_orphans)
            for node, node_orphans in orphans_by_node.items()
        }
    rows = (
        (
            *(node, str(orphan.process.pid), orphan.user, duration_text(orphan.age_s)),
            *(
                size_text(orphan.memory_bytes),
                orphan.run_tag,
                orphan.message,
                terminal_safe(orphan.command)[:60],
            ),
        )
        for node, node_orphans in orphans_by_node.items()
        for orphan in node_orphans
    )
    return Answer(
        [
            {"node": node, **orphan.to_dict()}
            for node, node_orphans in orphans_by_node.items()
            for orphan in node_orphans
        ],
        Table(
            ("NODE", "PID", "USER", "AGE", "MEMORY", "RUN", "WHY", "COMMAND"),
            rows,
            "No process of an ended run remains." if end else "There are none.",
        ),
    )


@command("node environments")
def environments(
    services: Services,
    name: _Name,
    environment: Annotated[tuple[str, ...], ArgSpec("ENVIRONMENT", "default: all")] = (),
    *,
    unused: Annotated[
        float | None, ArgSpec("DAYS", "only those of scripts that no job used for so long")
    ] = None,
    remove: Annotated[bool, "remove those that are named, or unused for so long"] = False,
) -> Answer:
    """The Python environments on a node, of which each list of packages of a script has one."""
    node_environments = [
        candidate
        for candidate in services.provisioning.environments(name)
        if not environment or candidate.name in environment
        if unused is None or (candidate.is_of_scripts and candidate.unused_s >= _DAY_S * unused)
    ]
    if not remove:
        rows = (
            (candidate.name, size_text(candidate.bytes), f"{candidate.unused_s / _DAY_S:.0f}")
            for candidate in node_environments
        )
        head = ("ENVIRONMENT", "SIZE", "DAYS UNUSED")
        return Answer(
            [candidate._asdict() for candidate in node_environments],
            Table(head, rows, f"{name} has no such environment."),
        )
    if not environment and unused is None:
        raise BackendError(
            "It is not said which environments to remove.", "Name them, or give --unused DAYS."
        )
    names = (
        [candidate.name for candidate in node_environments] if unused is not None else environment
    )
    freed_bytes = services.provisioning.remove_environments(name, names) if names else 0
    count = f"{len(names)} {'environment' if len(names) == 1 else 'environments'}"
    return Answer(
        {"removed": names, "bytes": freed_bytes},
        f"Removed {count}: {size_text(freed_bytes)} on {name}.",
    )


@command("node check")
def check(services: Services, name: _MaybeName = "") -> Answer:
    """Check whether a node can train, and how to fix it."""
    known_names = [entry.name for entry in services.cluster.known_entries()]
    wake_agents(services, [name] if name else known_names)
    nodes = [
        replace(node, findings=_node_findings(services, node.name))
        for node in services.nodes.list()
        if not name or node.name == name
    ]
    if not nodes:
        services.nodes.check(name)
    return Answer(
        nodes,
        (
            (f"{state.name}: {state.presence.value}", finding_lines(state.findings))
            for state in nodes
        ),
        has_failed=not all(finding.ok for node in nodes for finding in node.findings),
    )


def _node_findings(services: Services, name: str) -> tuple[Finding, ...]:
    """Check a node; one that cannot be checked does not keep the others from it."""
    try:
        return services.nodes.check(name)
    except BackendError as error:
        return (Finding("node", False, error.message, error.remedy),)
