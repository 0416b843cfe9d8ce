"""Cleanup of a run on its other nodes, from the head node, after mpirun has ended.

mpirun ends its ranks as long as it reaches a node, and otherwise the guards there end them. Only a
process whose guard was killed can be left; it still carries the run's tag.

Without a common data root, the other node prints the logs and exit records of its ranks as one line
of JSON, and the head node puts them into its own folder of the job: the exit records complete, and
the end of each log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.base import process_signals
from backend.base.log import suppress, swallowed
from backend.node.run import run_files
from backend.node.system import process_cleanup
from backend.records.base.access_modes import open_for_writing
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.layout import JobFolder, run_tag
from backend.records.jobs.launch import Launch

_LIMIT_S = 20.0
_CONNECT_S = 8
_SEE_S = 8.0
_SEE, _UNSEEN = "--see", "ringmaster-unseen"
_SSH_ITSELF_FAILED = 255
"""ssh(1), EXIT STATUS."""


@dataclass(frozen=True)
class CleanupResult:
    """The message about a node, usually "", and whether it could be reached at all.

    ``sees_folder`` is False if it does not see the folder of the job: its share is gone.
    """

    message: str
    is_reachable: bool = True
    sees_folder: bool = True


def end_on_other_nodes(launch: Launch, tag: str, folder: JobFolder) -> dict[str, CleanupResult]:
    """Clean up every node of the run except this one.

    All nodes at once, and none longer than the limit. The output of ranks on nodes that do not see
    the data root is in ``folder`` afterwards.
    """
    if not launch.ssh_config:
        return {}
    hosts = {plan.node: plan.host for plan in launch.ranks}
    head = launch.ranks[0].node
    processes = {}
    for node, host in hosts.items():
        if node == head:
            continue
        command = _sweep_command(launch, host, tag)
        command += [str(folder.path)] if launch.is_staged else [_SEE, str(folder.path)]
        with suppress(OSError):
            processes[node] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
    deadline = time.monotonic() + _LIMIT_S
    answers = {}
    for node, process in processes.items():
        ranks = [plan.rank for plan in launch.ranks if plan.node == node]
        answers[node] = _cleanup_result(process, deadline, folder, launch.run, ranks)
    return answers


def wake_agents(launch: Launch, nodes: Collection[str]) -> None:
    """Start the agents of nodes that may be back after a reboot; does not wait for them.

    Each cleanup of a node starts its agent; this one ends what that run left there, too.
    """
    null, tag = subprocess.DEVNULL, run_tag(launch.job_id, launch.run)
    hosts = {plan.host for plan in launch.ranks if plan.node in nodes}
    for host in hosts if launch.ssh_config else ():
        with suppress(OSError):
            subprocess.Popen(
                _sweep_command(launch, host, tag), stdin=null, stdout=null, stderr=null
            )


def _sweep_command(launch: Launch, host: str, tag: str) -> list[str]:
    # Neither a tag nor these paths contain shell syntax: the program makes both.
    python_path = f"PYTHONPATH={launch.code_root}"
    return [*_ssh_command(launch, host), "env", python_path, launch.python, "-m", __name__, tag]


def unreachable_nodes(launch: Launch, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes of a run that do not answer over SSH now."""
    hosts = {plan.node: plan.host for plan in launch.ranks}
    null = subprocess.DEVNULL
    deadline = time.monotonic() + _CONNECT_S + 2
    processes = {}
    for node in nodes:
        with suppress(OSError):
            command = [*_ssh_command(launch, hosts[node]), "true"]
            processes[node] = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
    return tuple(
        node for node, process in processes.items() if not _has_answered(process, deadline)
    )


def _has_answered(process: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        return process.wait(max(0.1, deadline - time.monotonic())) != _SSH_ITSELF_FAILED
    except subprocess.TimeoutExpired:
        process_signals.kill(process)
        process.wait()
        return False


def _ssh_command(launch: Launch, host: str) -> list[str]:
    return ["ssh", "-F", launch.ssh_config, "-o", f"ConnectTimeout={_CONNECT_S}", host]


def _cleanup_result(
    process: subprocess.Popen[bytes],
    deadline: float,
    folder: JobFolder,
    run: int,
    ranks: Sequence[int],
) -> CleanupResult:
    with process:
        try:
            output, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process_signals.kill(process)
            return CleanupResult(
                "did not answer, so left-over processes could not be ended", is_reachable=False
            )
    lines = unpack_output(output, folder, run, ranks).strip().splitlines()
    if process.returncode == 0:
        sees_folder = _UNSEEN not in lines
        lines = [line for line in lines if line != _UNSEEN]
        return CleanupResult(lines[-1] if lines else "", sees_folder=sees_folder)
    reason = lines[-1] if lines else f"ssh exited with code {process.returncode}"
    return CleanupResult(
        f"could not be cleaned up: {reason}", process.returncode != _SSH_ITSELF_FAILED
    )


def main(arguments: Sequence[str]) -> int:
    """On the other node: end what carries the tag, and print what could not be ended."""
    tag, *folders = arguments
    if folders[:1] == [_SEE]:
        if not _sees_folder(folders[1]):
            sys.stdout.write(f"{_UNSEEN}\n")
        folders = []
    tagged_count = len(process_cleanup.tagged(tag))
    remaining_pids = process_cleanup.end_tagged(tag, 1.0) if tagged_count else ()
    # When all have ended, they have written all of their output.
    for folder in map(JobFolder, map(Path, folders)):
        sys.stdout.write(pack_output(folder, int(tag.rpartition("/")[2])))
    if tagged_count:
        numbers = ", ".join(map(str, remaining_pids))
        sys.stdout.write(
            f"processes {numbers} could not be ended"
            if remaining_pids
            else f"ended {tagged_count} left-over processes"
        )
    sys.stdout.flush()
    # Imported only when needed: the head uses this module, too.
    from backend.node.agent import autostart

    autostart.start_recorded()
    return 0


def _sees_folder(folder: str) -> bool:
    # In a process of its own, without the output of this one: where a share hangs it never ends.
    null = subprocess.DEVNULL
    process = subprocess.Popen(["test", "-d", folder], stdin=null, stdout=null, stderr=null)
    try:
        return process.wait(_SEE_S) == 0
    except subprocess.TimeoutExpired:
        process_signals.kill(process)
        return False


_MARK = "ringmaster-words "
_LOG_BYTES = 2_000_000
_RECORD_BYTES = 4_000_000
# Each byte becomes one character: a log may hold anything.
_ONE_TO_ONE = "latin-1"


def pack_output(folder: JobFolder, run: int) -> str:
    """On the other node: return a line with what its ranks wrote in this run."""
    payload: dict[str, Any] = {"records": {}, "logs": {}}
    attempt = folder.attempt(run).path
    for path in _files(attempt, "rank-*.json"):
        payload["records"][path.name] = _tail(path, _RECORD_BYTES)[1]
    # The launch record was copied there after the logs of earlier runs.
    launch_changed_s = _changed_s(folder.launch)
    for path in _files(folder.logs, "rank-*.log"):
        if _changed_s(path) >= launch_changed_s:
            payload["logs"][path.name] = _tail(path, _LOG_BYTES)
    return f"{_MARK}{json.dumps(payload)}\n"


def unpack_output(output: bytes, folder: JobFolder, run: int, ranks: Sequence[int]) -> str:
    """On the head node: keep the output of ``ranks``; return all other output."""
    other_lines = []
    for line in output.decode("utf-8", "replace").splitlines():
        if not line.startswith(_MARK):
            other_lines.append(line)
            continue
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            _write_output(json.loads(line[len(_MARK) :]), folder, run, ranks)
    return "\n".join(other_lines)


def _write_output(payload: Any, folder: JobFolder, run: int, ranks: Sequence[int]) -> None:
    attempt = folder.attempt(run)
    for rank in ranks:
        log = folder.rank_log(rank)
        if log.name in payload["logs"]:
            start, text = payload["logs"][log.name]
            _append(log, int(start), text.encode(_ONE_TO_ONE))
        # Last, as its guard writes it: a reader of the exit record may read the log.
        for path in (attempt.rank_error(rank), attempt.rank_exit(rank)):
            if path.name in payload["records"]:
                replace_bytes(path, payload["records"][path.name].encode(_ONE_TO_ONE))


def _append(log: Path, start: int, content: bytes) -> None:
    """Append a piece; the head node has what the other node had of earlier runs."""
    present_bytes = run_files.size(log)
    with open(open_for_writing(log), "ab") as file:
        if start > present_bytes:
            file.write(
                f"── {start - present_bytes} bytes of this run stayed on the node ──\n".encode()
            )
        file.write(content[max(0, present_bytes - start) :])


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def _changed_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError as error:
        swallowed(error)
        return 0.0


def _tail(path: Path, limit_bytes: int) -> tuple[int, str]:
    """Return the offset of the end of a file, and that end."""
    start = max(0, run_files.size(path) - limit_bytes)
    try:
        with path.open("rb") as file:
            file.seek(start)
            return start, file.read(limit_bytes).decode(_ONE_TO_ONE)
    except OSError as error:
        swallowed(error)
        return start, ""


if __name__ == "__main__":
    os.chdir("/")
    sys.exit(main(sys.argv[1:]))
