"""Check whether a node's agent is alive, and end it: ``python -m backend.node.agent.control``.

Set-up uses it: an agent of the same bundle stays; an agent of another bundle is ended and replaced.
It also lists the runs whose processes are alive here, because their files must not be removed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from backend.base.log import swallowed
from backend.node.system import process_cleanup, process_identity
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import NodeFolder
from backend.records.jobs.status import ProcessIdentity

_POLL_S = 0.05
_GRACE_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 0 if the requested state holds."""
    parser = argparse.ArgumentParser(prog="backend.node.agent.control", description=__doc__)
    subparsers = parser.add_subparsers(dest="act", required=True)
    check_parser = subparsers.add_parser(
        "check", help="check that an agent of this bundle is alive"
    )
    check_parser.add_argument("--bundle", required=True)
    check_parser.add_argument("--limit", type=float, default=0.0, help="seconds to wait for it")
    stop_parser = subparsers.add_parser("stop", help="wait until no agent is alive")
    for subparser in (check_parser, stop_parser):
        subparser.add_argument(
            "--folder", type=Path, required=True, help="folder that the agent writes to"
        )
    runs_parser = subparsers.add_parser(
        "runs", help="check that no run is alive in this folder; print those that are"
    )
    runs_parser.add_argument("--home", required=True)
    options = parser.parse_args(arguments)
    if options.act == "runs":
        tags = {
            process_identity.run_tag_of(pid)
            for pid in process_identity.pids()
            if _runs_from(pid, options.home)
        }
        tags.discard("")
        sys.stdout.write("".join(f"{tag}\n" for tag in sorted(tags)))
        return 1 if tags else 0
    folder = NodeFolder(options.folder)
    if options.act == "stop":
        return 1 if process_cleanup.end(lambda: _living_agents(folder), _GRACE_S) else 0
    return 0 if _wait_for_agent(folder, options.bundle, options.limit) else 1


def _runs_from(pid: int, home: str) -> bool:
    """Return whether the process was started from a Python or a bundle in the program's folder."""
    variables = process_identity.environment(pid)
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            arguments = command.read().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
    return any(f"{home}/".encode() in text for text in (*arguments, *variables))


def _wait_for_agent(folder: NodeFolder, bundle: str, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not _living_agents(folder, bundle):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _living_agents(folder: NodeFolder, bundle: str = "") -> list[ProcessIdentity]:
    """Return the agent that last signed the folder, if it is alive and has this bundle."""
    try:
        raw = read_json(folder.info)
        agent = ProcessIdentity.from_dict(raw)
    except (OSError, ValueError) as error:
        swallowed(error)
        return []
    if (bundle and raw.get("bundle") != bundle) or not process_identity.is_alive(agent):
        return []
    return [agent]


if __name__ == "__main__":
    sys.exit(main())
