"""Cleanup of a run on its other nodes, from the head node, after mpirun has ended.

mpirun ends its ranks as long as it reaches a node, and otherwise the guards there end them. Only a
process whose guard was killed can be left; it still carries the run's tag.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.base import process_signals
from backend.base.log import suppress
from backend.node.run import remote_logs
from backend.node.system import process_cleanup
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
    """Return those of these nodes of a run that do not answer over SSH now."""
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
    lines = remote_logs.unpack_output(output, folder, run, ranks).strip().splitlines()
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
        sys.stdout.write(remote_logs.pack_output(folder, int(tag.rpartition("/")[2])))
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


if __name__ == "__main__":
    os.chdir("/")
    sys.exit(main(sys.argv[1:]))
