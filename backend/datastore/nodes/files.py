"""The nodes of a data root: their entries, and what their agents last wrote.

Other users work on the machine of an agent, so what it wrote is untrusted: limited in size and
type, and its text made printable. A file that does not fit its record is refused whole, because a
partial reading would look complete; it is reported and hides nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.datastore.access.root_access import OpenRoot
from backend.node.metrics.heartbeats import Heartbeat
from backend.records.base import schema
from backend.records.base.atomic_files import cached_reader, read_json
from backend.records.base.layout import DataRoot
from backend.records.base.schema import STRICT, Reader, Rules, SchemaError
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.reading import Finding, NodeReading, Presence
from backend.ssh.interface import Unreachable

SILENT_AFTER_S = 30.0
_SETTLE_S, _SETTLE_LIMIT_S = 0.2, 10.0
_ENTRIES_REMEMBERED = 1024
_STATUS_LIMIT_BYTES = 1_000_000
"""A node with 16 GPUs and 256 cores writes some 20 kB."""


def entries(root: DataRoot) -> tuple[NodeEntry, ...]:
    """Return every added node, by name. An entry that cannot be read is left out."""
    return tuple(sorted(_readable_entries(root), key=lambda entry: entry.name))


def entry(root: DataRoot, name: str) -> NodeEntry | None:
    return next((entry for entry in _readable_entries(root) if entry.name == name), None)


def write_entry(root: OpenRoot, entry: NodeEntry) -> None:
    """Store an entry; its folder is made if needed.

    Raises:
        BackendError: The data root cannot be written.
    """
    folder = root.node(entry.name)
    try:
        root.files.make_folder(root.nodes, exist_ok=True)
        root.files.make_folder(folder.path, exist_ok=True)
        root.files.replace_json(folder.entry, entry.to_dict())
    except OSError as error:
        raise BackendError(
            f"The node {entry.name} could not be written to {folder.path}: {error.strerror}.",
            "Check that the data root is mounted and writable.",
        ) from error


def remove_entry(root: OpenRoot, name: str) -> None:
    """Move the records of a node to the trash."""
    source = root.node(name).path
    target = root.trash / f"node-{name}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    try:
        root.files.make_folder(root.trash, exist_ok=True)
        root.files.rename(source, target)
    except OSError as error:
        raise BackendError(
            f"The node {name} could not be moved to the trash: {error.strerror}."
        ) from error


def read_status(root: DataRoot, name: str) -> NodeReading | Finding:
    """Return the last reading of a node's agent, or why there is none that can be used."""
    path = root.node(name).status
    try:
        # The file may contain any name; the folder's name is the node.
        return replace(build_record(NodeReading, read_json(path, _STATUS_LIMIT_BYTES)), name=name)
    except FileNotFoundError:
        return Finding("agent", False, f"The agent of {name} has not written a status yet.")
    except OSError as error:
        return Finding(
            "agent",
            False,
            f"The status of {name} cannot be read: {error.strerror}.",
            "Check that the data root is mounted and readable.",
        )
    except ValueError as error:
        reason = sanitize(str(error), 200)
        return Finding(
            "agent",
            False,
            f"The agent of {name} writes a status that cannot be used: {reason}.",
            f"Find out which program writes {path} on {name}, and end it.",
        )


@dataclass(frozen=True)
class NodeChanges:
    """State of one node's agent.

    ``presence`` is ONLINE, OFFLINE, or None while it is not known: a reader that has just begun has
    seen one heartbeat, which may be a year old. ``reading`` is the last valid one, ``problem`` says
    what is wrong with the file now. ``silent_s`` counts since the heartbeat last advanced.
    """

    presence: Presence | None
    reading: NodeReading | None
    silent_s: float
    problem: Finding | None = None
    message: str = ""


@dataclass
class _Node:
    heartbeat: Heartbeat
    last_news: str = ""


class StatusWatch:
    """A reader of the nodes' status files that remembers when each heartbeat last advanced."""

    def __init__(self, root: OpenRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._nodes: dict[str, _Node] = {}

    def read(self, name: str) -> NodeChanges:
        """Read one node's status. Never raises for the content of its files."""
        status = read_status(self._root, name)
        now_s = self._monotonic()
        node = self._nodes.setdefault(name, _Node(Heartbeat(now_s)))
        heartbeat = node.heartbeat
        if isinstance(status, NodeReading) and heartbeat.update(status, now_s):
            node.last_news = f"{datetime.now(UTC).astimezone():%H:%M}"
        problem = status if isinstance(status, Finding) else None
        presence = Presence.ONLINE if heartbeat.has_advanced else None
        message = ""
        if heartbeat.is_missed(now_s):
            presence = Presence.OFFLINE
            message = f"no news since {node.last_news}" if node.last_news else "no news"
        age_s = now_s - heartbeat.advanced_s
        return NodeChanges(presence, heartbeat.reading, age_s, problem, message)

    def silent_nodes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes that gave no sign of life for `SILENT_AFTER_S`.

        The age of a file only shows whose heartbeat is worth reading: clocks may differ. The first
        read of such a node waits for its next heartbeat, for some seconds.
        """
        suspects = [name for name in names if self._is_old(name)]
        deadline = self._monotonic() + _SETTLE_LIMIT_S
        while suspects:
            with suppress(Unreachable):
                self._root.files.refresh_nodes()
            is_known = all(self.read(name).presence is not None for name in suspects)
            if is_known or self._monotonic() > deadline:
                break
            time.sleep(_SETTLE_S)
        return tuple(n for n in suspects if self.read(n).presence is Presence.OFFLINE)

    def _is_old(self, name: str) -> bool:
        try:
            written_s = self._root.node(name).status.stat().st_mtime
        except OSError:
            return True  # it has written none yet
        return abs(time.time() - written_s) > SILENT_AFTER_S

    def remove(self, name: str) -> None:
        """Drop a node that was removed or is being set up again."""
        self._nodes.pop(name, None)


def _readable_entries(root: DataRoot) -> Iterator[NodeEntry]:
    try:
        names = os.listdir(root.nodes)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackendError(
            f"The nodes in {root.nodes} cannot be read: {error.strerror}.",
            "Check that the data root is mounted.",
        ) from error
    for name in names:
        path = root.node(name).entry
        try:
            entry = _read_entry(path)
        except (OSError, ValueError) as error:
            swallowed(error)
            continue
        if entry.name == name:
            yield entry


@cached_reader(_ENTRIES_REMEMBERED)
def _read_entry(path: Path) -> NodeEntry:
    return NodeEntry.from_dict(read_json(path))


_T = TypeVar("_T")
_LONGEST_TEXT = 300
_LARGEST = 2**63 - 1


def build_record(record: Callable[..., _T], raw: object) -> _T:
    """Build a ``record`` (a dataclass of plain types) from parsed JSON.

    Numbers must be finite and not negative. Unknown keys are ignored: a newer program wrote them.

    Raises:
        ValueError: It does not fit; the message names the field.
    """
    return schema.build(record, raw, _RULES)


def _text(raw: Any) -> str:
    return sanitize(STRICT.readers[str](raw), _LONGEST_TEXT)


def _in_range(kind: Any) -> Reader:
    def read(raw: Any) -> Any:
        number = raw if type(raw) is kind else STRICT.readers[kind](raw)
        if not 0 <= number <= _LARGEST:  # False for NaN
            raise SchemaError("is out of range")
        return number

    return read


_READERS = {**STRICT.readers, str: _text, int: _in_range(int), float: _in_range(float)}
_RULES = Rules(_READERS, exact_types=frozenset({bool}), max_elements=4096)
