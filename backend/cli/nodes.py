"""``node …`` and ``doctor``.

A host key is accepted at a terminal by the user, or by its fingerprint on the command line; an
empty answer means no. A passphrase is typed at a terminal and never an argument, because every user
of the computer can read the command line.
"""

from __future__ import annotations

import argparse
import getpass
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.cli import jobs
from backend.cli.printing import (
    FAILED,
    OK,
    in_bytes,
    in_time,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
    shown,
)
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry, SetUp, StepState

if TYPE_CHECKING:
    from backend.records.nodes.reading import Finding, NodeReading
    from backend.services.context.container import Services
    from backend.services.nodes.registry import Accept


def add(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    asks = has_person(as_json)
    typed: list[str] = []

    def ask(identity: str) -> str:
        typed.append(identity)
        return passphrase(identity)

    fault = services.cluster.keyring.fault() if arguments.keep_passphrase else ""
    if fault:
        raise BackendError(fault, "Remove --keep-passphrase; nothing was added.")
    entry = services.cluster.add(
        arguments.name,
        NodeAddress(
            arguments.host,
            port=arguments.port,
            user=arguments.user,
            identity=arguments.identity,
            jump=arguments.jump,
        ),
        accept=acceptance(arguments, asks),
        passphrase=ask if asks else None,
        node_data_root=arguments.node_data_root,
        no_share=arguments.no_share,
    )
    if arguments.keep_passphrase:
        for identity in dict.fromkeys(typed):
            services.cluster.keep_passphrase(identity)
            print_note(f"The system keyring stores the passphrase of {identity}.")
    if as_json:
        print_json(entry)
    else:
        _print_entry(entry)
        if not entry.data_root:
            print_note(
                f"{entry.name} does not see the data root {_root(services)}. Mount it at "
                f"the same path on {entry.name}, or add the node again with --node-data-root "
                "PATH; or with --no-share, to copy files over SSH."
            )
    return OK


def _root(services: Services) -> str:
    return services.share.shown(services.data_root.path)


def has_person(as_json: bool) -> bool:
    """Return whether a user at a terminal can be asked."""
    return not as_json and sys.stdin.isatty() and sys.stderr.isatty()


def acceptance(arguments: argparse.Namespace, asks: bool) -> Accept:
    """Return a function that accepts the keys of ``--accept-key``, and asks about others."""
    given: Sequence[str] = getattr(arguments, "accept_key", ())
    return lambda key: key.fingerprint in given or (asks and asked(key))


def asked(key: HostKey) -> bool:
    """Ask the user at the terminal about a key; return whether it is accepted."""
    print_note(f"First connection to {key.host}, port {key.port}. Its {key.kind} host key is")
    print_note(f"    {key.fingerprint}")
    print_note("Compare it on the node itself: ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub")
    sys.stderr.write("Accept it? Type yes to accept: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def passphrase(identity: str) -> str:
    try:
        return getpass.getpass(f"Passphrase of {identity}: ")
    except EOFError:
        return ""


def _print_entry(entry: NodeEntry) -> None:
    facts = entry.facts
    assert facts is not None, "an added node was inspected"
    gpus = f"{len(facts.gpus)}: {', '.join(facts.gpus)}" if facts.gpus else "none"
    free = facts.home_free_bytes
    print_line(f"Added {entry.name}.")
    print_facts(
        [
            ("Host", facts.hostname),
            ("System", f"{facts.system}, {facts.machine}, kernel {facts.kernel}"),
            ("User", facts.user),
            ("Processor", f"{facts.cores} × {facts.cpu_model}"),
            ("Memory", in_bytes(facts.memory_bytes)),
            ("GPUs", f"{gpus}, driver {facts.driver}" if facts.driver else gpus),
            ("Home", facts.home + ("" if free is None else f", {in_bytes(free)} free")),
            ("Python", ", ".join(f"{one.version} ({one.path})" for one in facts.pythons)),
            ("MPI", f"{facts.mpi_version} ({facts.mpirun})" if facts.mpirun else "none"),
            ("Data root", _data_root(entry)),
            ("Address", entry.ranks_address),
            ("Clock", f"{facts.clock_offset_s:+.2f} s" if facts.clock_offset_s is not None else ""),
        ]
    )


def _data_root(entry: NodeEntry) -> str:
    if entry.facts is None or not entry.data_root:
        return "not seen"
    if entry.no_share:
        return f"not seen; files are copied over SSH, to {entry.data_root}"
    return entry.data_root + ("" if entry.facts.data_root_writable else ", not writable")


def provision(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    from backend.records.nodes.provisioning_options import SetUpOptions

    names = arguments.names or [entry.name for entry in services.cluster.list()]
    told = _Told(quiet=as_json)
    # Ctrl+C ends each node's step in order; the next set-up finds what was done.
    cancelled = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: cancelled.set())
    try:
        outcome = services.set_up.set_up(
            names,
            told.hear,
            lambda _name: cancelled.is_set(),
            SetUpOptions(
                arguments.cpu_only,
                arguments.system_mpi,
                arguments.own_key,
                arguments.shared,
                arguments.limit_key,
                arguments.without_horovod,
            ),
        )
    finally:
        signal.signal(signal.SIGINT, before)
    failed = {name: one for name, one in outcome.items() if isinstance(one, BackendError)}
    if as_json:
        print_json([told.to_json(name, failed.get(name)) for name in outcome])
    for name, error in () if as_json else failed.items():
        _note_failed(name, error)
    return FAILED if failed else OK


def _note_failed(name: str, error: BackendError) -> None:
    print_note(" ".join(filter(None, (f"{name}: {error.sentence}", error.remedy))))


def _error(error: BackendError | None) -> dict[str, str] | None:
    return None if error is None else {"sentence": error.sentence, "remedy": error.remedy}


class _Told:
    """Progress of set-ups: a line for each step that has ended, and for what a step waits for."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._newest: dict[str, SetUp] = {}
        self._waits: dict[str, str] = {}

    def hear(self, news: SetUp) -> None:
        before = self._newest.get(news.node)
        self._newest[news.node] = news
        for number, step in enumerate(news.steps):
            was = before.steps[number].state if before is not None else StepState.WAITING
            if step.state is StepState.DONE and was is not step.state and not self._quiet:
                print_note(f"{news.node}  {step.title:<9} {step.seconds:6.1f} s  {step.sentence}")
            if step.state is StepState.RUNNING and step.sentence and not self._quiet:
                # Of a count of bytes, only its beginning.
                what = step.sentence.partition(":")[0]
                if self._waits.get(news.node) != what:
                    self._waits[news.node] = what
                    print_note(f"{news.node}  {step.title:<9}      …    {step.sentence}")

    def to_json(self, name: str, error: BackendError | None) -> dict[str, object]:
        steps = self._newest[name].steps if name in self._newest else ()
        return {
            "name": name,
            "error": _error(error),
            "steps": [
                {
                    "step": step.title,
                    "state": step.state.value,
                    "sentence": step.sentence,
                    "seconds": round(step.seconds, 3),
                }
                for step in steps
            ],
        }


def unprovision(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    outcome: dict[str, int | BackendError] = {}
    for name, freed in services.set_up.un_provision_all(arguments.names):
        outcome[name] = freed
        if as_json:
            continue
        if isinstance(freed, BackendError):
            _note_failed(name, freed)
        else:
            print_line(f"Removed {in_bytes(freed)} from {name}.")
    failed = {name: one for name, one in outcome.items() if isinstance(one, BackendError)}
    if as_json:
        print_json(
            [
                {
                    "name": name,
                    "error": _error(failed.get(name)),
                    "bytes": None if name in failed else freed,
                }
                for name, freed in outcome.items()
            ]
        )
    return FAILED if failed else OK


def remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    entry = services.cluster.remove(arguments.name)
    if as_json:
        print_json(entry)
    else:
        print_line(f"Moved node {entry.name} to {services.share.shown(services.data_root.trash)}.")
    return OK


def remove_host_key(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    count = services.cluster.remove_host_key(arguments.host, arguments.port)
    if as_json:
        print_json({"host": arguments.host, "port": arguments.port, "keys": count})
    else:
        print_line(f"Removed {count} host {'key' if count == 1 else 'keys'} of {arguments.host}.")
    return OK


def remove_passphrase(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    keys = services.cluster.remove_passphrase(arguments.name)
    if as_json:
        print_json({"name": arguments.name, "keys": list(keys)})
    elif keys:
        print_line(f"Removed the passphrase of {', '.join(keys)}.")
    else:
        print_line(f"There was no stored passphrase of a key of {arguments.name}.")
    return OK


def doctor(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    return _print_findings(services.nodes.doctor(), as_json)


def _print_findings(findings: Sequence[Finding], as_json: bool) -> int:
    if as_json:
        print_json(findings)
    for finding in () if as_json else findings:
        print_line(f"{'ok   ' if finding.ok else 'FAULT'}  {finding.check}: {finding.sentence}")
        if not finding.ok and finding.remedy:
            print_line(f"       {finding.remedy}")
    return OK if all(finding.ok for finding in findings) else FAILED


def list_nodes(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    jobs.wake(services, [entry.name for entry in services.cluster.entries_known()])
    nodes = services.nodes.list()
    if as_json:
        print_json(nodes)
        return OK
    print_table(
        ("NAME", "STATE", "CORES", "MEMORY", "GPUS"),
        (
            (node.name, node.presence.value, *_equipment(node.reading, node.message))
            for node in nodes
        ),
        "There are no nodes.",
    )
    return OK


def _equipment(reading: NodeReading | None, message: str) -> tuple[str, str, str]:
    if reading is None:
        return "", "", message
    gpus = ", ".join(gpu.name for gpu in reading.gpus) or reading.gpu_message
    return str(reading.cpu.cores), in_bytes(reading.memory_total_bytes), gpus


def check(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    from dataclasses import replace

    names = [entry.name for entry in services.cluster.entries_known()]
    jobs.wake(services, [arguments.name] if arguments.name else names)
    nodes = [
        replace(node, findings=_checked(services, node.name))
        for node in services.nodes.list()
        if not arguments.name or node.name == arguments.name
    ]
    if not nodes:
        services.nodes.check(arguments.name)
    if as_json:
        print_json(nodes)
    for node in () if as_json else nodes:
        print_line(f"{node.name}: {node.presence.value}")
        _print_findings(node.findings, as_json=False)
    return OK if all(finding.ok for node in nodes for finding in node.findings) else FAILED


def _checked(services: Services, name: str) -> tuple[Finding, ...]:
    """Check a node; one that cannot be checked does not keep the others from it."""
    from backend.records.nodes.reading import Finding

    try:
        return services.nodes.check(name)
    except BackendError as error:
        return (Finding("node", False, error.sentence, error.remedy),)


def orphans(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    names = [arguments.name] if arguments.name else [n.name for n in services.nodes.list()]
    found = {name: services.nodes.orphans(name) for name in names}
    if arguments.end:
        found = {name: services.nodes.end_orphans(name, some) for name, some in found.items()}
    if as_json:
        print_json([{"node": n, **one.to_dict()} for n, some in found.items() for one in some])
        return OK
    print_table(
        ("NODE", "PID", "USER", "AGE", "MEMORY", "RUN", "WHY", "COMMAND"),
        (
            (
                *(name, str(one.process.pid), one.user, in_time(one.age_s)),
                *(in_bytes(one.memory_bytes), one.run_tag, one.why, shown(one.command)[:60]),
            )
            for name, some in found.items()
            for one in some
        ),
        "No process of an ended run remains." if arguments.end else "There are none.",
    )
    return OK
