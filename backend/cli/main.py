"""The command line: parse, then call one command. Exit codes are 0, 1 and 2.

Everything heavy is imported by the command that needs it: listing jobs must not wait for numpy.
"""

from __future__ import annotations

import argparse
import locale
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend import VERSION
from backend.cli.command import groups, load_group
from backend.records.base.program_name import COMMAND

if TYPE_CHECKING:
    from backend.cli.session import Draw, Window
    from backend.records.base.remote_root import RemoteRoot


def _open_streams() -> None:
    """Open the standard streams that were closed by the caller, such as a service or ``>&-``.

    Otherwise the next file that is opened would get the number of a stream, and its output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null_descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null_descriptor, mode, encoding="utf-8"))


def run(argv: Sequence[str], open_window: Window, draw: Draw | None = None) -> int:
    """Do what ``argv`` says; the exit code. The window is the caller's: here no Qt is known."""
    _open_streams()
    # Python reads and writes UTF-8 (PYTHONUTF8), the terminal what its locale says. A name may have
    # characters that this lacks; a result is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding=locale.getencoding(), errors="replace")
    options = make_parser(argv).parse_args(argv)
    # Imported late: `--help` and `--version` end before.
    from backend.cli.session import Session

    return Session(options, open_window, draw).run(options.chosen)


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of ``argv``, with the parameters only of the commands that it may name."""
    common_arguments = common_options()
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Train on a small GPU cluster. Without a command the window opens.",
        parents=[common_arguments],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"Ringmaster {VERSION}")
    parser.set_defaults(chosen=None)
    level = parser.add_subparsers(dest="command", metavar="COMMAND")
    needs_all = "-h" in argv or "--help" in argv
    for name in groups():
        if not needs_all and name not in argv:
            level.add_parser(name)
            continue
        summary, group_commands = load_group(name, () if needs_all else argv)
        leaves = level
        if len(group_commands[0].path) > 1:
            branch = level.add_parser(
                name, help=summary, parents=[common_arguments], allow_abbrev=False
            )
            leaves = branch.add_subparsers(dest="action", metavar="COMMAND", required=True)
        for command in group_commands:
            if needs_all or command.path[-1] in argv:
                command.add_to(leaves, common_arguments)
            else:
                leaves.add_parser(command.path[-1])
    return parser


def common_options() -> argparse.ArgumentParser:
    """Return the options of every command, before it or after it.

    The top parser and each leaf have them, and only given values are stored: argparse would let the
    leaf's default replace an option given before it.
    """
    common_arguments = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common_arguments.add_argument_group("for every command")
    group.add_argument(
        "--data-root",
        type=_data_root,
        metavar="DIR",
        help="folder that every node sees, or ssh://[USER@]HOST[:PORT]/PATH to reach it by SFTP",
    )
    group.add_argument(
        "--accept-key",
        action="append",
        metavar="FINGERPRINT",
        help="SHA256:… of a host key to accept; may be repeated",
    )
    group.add_argument(
        "--catalogue", type=Path, metavar="FILE", help="its index, on this computer's disk"
    )
    group.add_argument(
        "--json", action="store_true", help="print one JSON document, and no progress bars"
    )
    group.add_argument(
        "--verbose", action="store_true", help="log to the standard error what the command does"
    )
    return common_arguments


def _data_root(text: str) -> Path | RemoteRoot:
    from backend.records.base.remote_root import SCHEME, RemoteRoot

    if not text.startswith(SCHEME):
        return Path(text)
    try:
        return RemoteRoot.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
