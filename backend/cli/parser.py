"""The parser of a command line, with the options that every command has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend import VERSION
from backend.cli.command import groups, load_group
from backend.records.base.program_name import COMMAND

if TYPE_CHECKING:
    from backend.records.base.remote_root import RemoteRoot


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of ``argv``, with the parameters only of the commands that it may name."""
    common = common_options()
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Train on a small GPU cluster. Without a command the window opens.",
        parents=[common],
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
            branch = level.add_parser(name, help=summary, parents=[common], allow_abbrev=False)
            leaves = branch.add_subparsers(dest="action", metavar="COMMAND", required=True)
        for command in group_commands:
            if needs_all or command.path[-1] in argv:
                command.add_to(leaves, common)
            else:
                leaves.add_parser(command.path[-1])
    return parser


def common_options() -> argparse.ArgumentParser:
    """Return the options of every command, before it or after it.

    The top parser and each leaf have them, and only given values are stored: argparse would let the
    leaf's default replace an option given before it.
    """
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("for every command")
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
    return common


def _data_root(text: str) -> Path | RemoteRoot:
    from backend.records.base.remote_root import SCHEME, RemoteRoot

    if not text.startswith(SCHEME):
        return Path(text)
    try:
        return RemoteRoot.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
