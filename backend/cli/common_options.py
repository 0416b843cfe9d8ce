"""Levels of subcommands, and options of several of them: where to run, and progress."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.config import parse_placement

if TYPE_CHECKING:
    from backend.records.jobs.config import Placement
    from backend.services.context.container import Services


class SubcommandGroup:
    """A level of subcommands; each leaf takes the common options."""

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        common: argparse.ArgumentParser,
        dest: str,
        required: bool = True,
    ) -> None:
        self._common = common
        self._subparsers = parser.add_subparsers(dest=dest, metavar="COMMAND", required=required)

    def leaf(self, name: str, does: str) -> argparse.ArgumentParser:
        return self._subparsers.add_parser(
            name,
            help=does,
            description=does[0].upper() + does[1:] + ".",
            parents=[self._common],
            allow_abbrev=False,
        )

    def branch(self, name: str, does: str) -> SubcommandGroup:
        parser = self._subparsers.add_parser(
            name, help=does, parents=[self._common], allow_abbrev=False
        )
        return SubcommandGroup(parser, self._common, "action")


def placement_of(arguments: argparse.Namespace) -> tuple[Placement, ...]:
    """Parse ``--on node1=2 --on node2=2``, or ``--on gpu1=GPU-…,GPU-…``."""
    raw = []
    for text in arguments.on:
        node, _, what = text.rpartition("=")
        amount = {"processes": int(what)} if what.isdecimal() else {"gpus": what.split(",")}
        raw.append({"node": node, **amount})
    if not raw:
        return ()
    found, faults = parse_placement(raw)
    if faults:
        raise BackendError(faults[0].sentence, "Use --on NODE=PROCESSES or --on NODE=GPU,GPU.")
    return found


def trash_of(services: Services) -> str:
    return services.share.shown(services.data_root.trash)


def progress_bar(as_json: bool) -> Any:
    """Return a bar on a terminal, otherwise a silent one; use it in a ``with``."""
    if as_json or not sys.stderr.isatty():
        return _Silent()
    from backend.cli.progress_bars import Bar

    return Bar()


class _Silent(Progress):
    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass
