"""Diagnosis rules: messages that other programs print, their meanings, and the choice of the cause.

Each rule is one entry of ``rules/*.toml``, whose first file says what an entry holds. The files are
read in the order of their names; of the rules of one weight that match, the first one wins.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from backend.node.diagnosis.log_text import LogPart

_log = logging.getLogger(__name__)
RULES_FOLDER = Path(__file__).with_name("rules")
_TEXT = r"'''\n?(?:.|\n)*?'''|'[^'\n]*'|\"[^\"\\\n]*\""
_TEXTS = re.compile(_TEXT)
_PART = re.compile(
    r"\s+|#.*|\[\[(?P<table>\w+)\]\]$|(?P<key>\w+) = "
    rf"(?:(?P<text>{_TEXT})|(?P<yes>true)|\[(?P<list>(?:\s|,|{_TEXT})*)\])$",
    re.MULTILINE,
)


class Weight(Enum):
    """Precedence of messages: a cause wins over its consequences."""

    CAUSE = 0
    VAGUE = 1
    """True, but usually the consequence of something that another line explains better."""
    ECHO = 2
    """Only reports that another process has ended."""


_KEYS = {Weight.CAUSE: "patterns", Weight.VAGUE: "vague", Weight.ECHO: "echo"}


class SearchedText(Enum):
    """The text that a rule reads."""

    EXCEPTION = "exception"
    """The exception that ended a rank, and its causes."""
    RANK = "rank"
    """Lines of a rank's log."""
    MPIRUN = "mpirun"
    """Lines of mpirun's log."""


@dataclass(frozen=True)
class Rule:
    """One rule. A hint about a mistake in the program's own code has no ``message``.

    ``message`` may use the named groups of ``pattern``: ``{host}``. ``otherwise`` is used if one
    of them did not match. ``is_quoted`` is the value of `Explanation.is_quoted`.
    ``is_follow_up``: a rank ends so when another one has failed.
    """

    id: str
    pattern: re.Pattern[str]
    remedy: str
    example: str
    message: str = ""
    otherwise: str = ""
    source: str = ""
    searched_texts: tuple[SearchedText, ...] = tuple(SearchedText)
    weight: Weight = Weight.CAUSE
    is_quoted: bool = False
    retry: str = ""
    is_follow_up: bool = False

    @classmethod
    def from_entry(cls, entry: dict[str, Any]) -> list[Rule]:
        """Build the rules of an entry: one for each weight that it has patterns of.

        Raises:
            KeyError, TypeError, ValueError, re.error: The entry is not one.
        """
        values = dict(entry)
        prefix, suffix = values.pop("begins", ""), values.pop("ends", "")
        wraps = values.pop("wraps", False)
        patterns = {
            weight: re.compile(_join_patterns(prefix, texts, suffix, wraps), re.MULTILINE)
            for weight, key in _KEYS.items()
            if (texts := values.pop(key, None))
        }
        fields = {
            "message": values.pop("sentence", ""),
            "searched_texts": tuple(map(SearchedText, values.pop("reads", tuple(SearchedText)))),
            "is_quoted": values.pop("quoted", False),
            "is_follow_up": values.pop("follow_up", False),
            **values,
        }
        if not patterns:
            raise KeyError("patterns")
        return [cls(pattern=text, weight=weight, **fields) for weight, text in patterns.items()]

    @property
    def cause(self) -> str:
        return self.id.partition("/")[0]

    def format_message(self, match: re.Match[str]) -> str:
        """Return the sentence for this match.

        Groups in other branches of the pattern with the same meaning end in a digit: ``host2``.
        """
        groups: dict[str, str] = {}
        for name, text in match.groupdict().items():
            base_name = name.rstrip("0123456789")
            groups[base_name] = groups.get(base_name) or " ".join((text or "").split())
        group_names = re.findall(r"\{(\w+)\}", self.message)
        if self.otherwise and not all(groups.get(name) for name in group_names):
            return self.otherwise
        return self.message.format(**groups).rstrip()


def _join_patterns(prefix: str, patterns: list[str], suffix: str, wraps: bool) -> str:
    text = f"{prefix}(?:{'|'.join(patterns)}){suffix}"
    if not wraps:
        return text
    # In a help text, whose line breaks differ between versions.
    segments = re.split(r"(\[[^\]]*\])", text)
    return "".join(p if p[:1] == "[" else re.sub(r" [+*]?", r"\\s+", p) for p in segments)


@cache
def load(table: str, folder: Path = RULES_FOLDER) -> tuple[Rule, ...]:
    """Return the entries of all files: those of ``table`` "rule", or "hint".

    A file that cannot be read is left out and logged: the end of a run must be recorded.
    """
    return tuple(rule for file in sorted(folder.glob("*.toml")) for rule in _read(file, table))


def _read(file: Path, table: str) -> list[Rule]:
    try:
        entries = read_entries(file.read_text("utf-8"), file.name)
        return [rule for raw in entries.get(table, ()) for rule in Rule.from_entry(raw)]
    except (OSError, KeyError, TypeError, ValueError, re.error):
        _log.exception("The rules of %s are left out", file.name)
        return []


def retry_of(cause: str) -> str:
    """Return "always" for a failure of the machine, "once" for one that may be, otherwise ""."""
    return next((rule.retry for rule in load("rule") if rule.cause == cause and rule.retry), "")


def read_entries(text: str, name: str) -> dict[str, list[dict[str, Any]]]:
    """Read a rules file: texts without escapes, lists of them, and ``true``.

    Python has tomllib from 3.11 on, and nodes may have 3.9.

    Raises:
        ValueError: A line has another form.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    entry: dict[str, Any] = {}
    offset = 0
    while offset < len(text):
        part = _PART.match(text, offset)
        if part is None:
            line = text.count("\n", 0, offset) + 1
            raise ValueError(f"{name}, line {line}: write it as in the other entries")
        if part["table"]:
            entry = {}
            tables.setdefault(part["table"], []).append(entry)
        elif part["list"] is not None:
            entry[part["key"]] = [
                _unquote(quoted_text) for quoted_text in _TEXTS.findall(part["list"])
            ]
        elif part["key"]:
            entry[part["key"]] = True if part["yes"] else _unquote(part["text"])
        offset = part.end()
    return tables


def _unquote(text: str) -> str:
    return text[3:-3].removeprefix("\n") if text.startswith("'''") else text[1:-1]


@dataclass(frozen=True)
class RuleMatch:
    """A rule that matched. The indices are those of lines; a traceback has no ``part``."""

    rule: Rule
    match: re.Match[str]
    part: LogPart | None
    first_index: int = 0
    last_index: int = 0

    @property
    def cause(self) -> str:
        return self.rule.cause

    @property
    def message(self) -> str:
        return self.rule.format_message(self.match)

    @property
    def is_cause(self) -> bool:
        return self.rule.weight is Weight.CAUSE


_LEADS_TO = {
    "disk_full": ("disk_fault", "file_broken", "mpi_", "port_taken"),
    "disk_quota": ("disk_fault", "file_broken", "mpi_"),
    "driver_mismatch": ("gpu_", "mpi_", "nccl_"),
    "driver_old": ("gpu_",),
    "file_": ("mpi_",),
    "gpu_": ("nccl_", "mpi_", "library_"),
    "host_name": ("ssh_", "mpi_", "nccl_"),
    "library_mismatch": ("mpi_", "gpu_", "horovod_", "module_"),
    "memory_locked": ("mpi_", "nccl_", "node_memory"),
    "module_missing": ("mpi_", "horovod_"),
    "mpi_": ("nccl_", "node_lost"),
    "mpi_slots": ("mpi_",),
    "nccl_": ("mpi_",),
    "node_lost": ("ssh_", "mpi_", "nccl_"),
    "node_memory": ("gpu_memory", "processes", "shm_full"),
    "open_files": ("shm_full", "mpi_", "nccl_"),
    "port_taken": ("nccl_", "mpi_"),
    "processes": ("node_memory", "mpi_"),
    "program_": ("mpi_", "library_"),
    "ranks_differ": ("nccl_", "horovod_"),
    "shm_full": ("disk_full", "nccl_", "mpi_"),
    "ssh_": ("mpi_", "node_lost"),
    "ssh_missing": ("ssh_",),
    "user_unknown": ("mpi_", "ssh_"),
}
"""Consequences of a cause, by prefixes of the causes' names. Others contradict each other."""


def leads_to(cause: str, consequence: str) -> bool:
    return any(
        cause.startswith(start) and consequence.startswith(prefix)
        for start, prefix in _LEADS_TO.items()
    )


def family(cause: str) -> str:
    return cause.partition("_")[0]


def select_causes(matches: Sequence[RuleMatch]) -> tuple[RuleMatch, ...]:
    """Return the finding that explains the others; several if they contradict each other, or none.

    Only those of the best weight count. Within a family, and of two that cause each other, the
    earlier one is the cause: ``matches`` are in the order of the lines of one log.
    """
    if not matches:
        return ()
    weight = min(match.rule.weight.value for match in matches)
    best_matches = [match for match in matches if match.rule.weight.value == weight]
    if weight != Weight.CAUSE.value:
        return (best_matches[0],)
    kept_matches: list[RuleMatch] = []
    for match in best_matches:
        if any(
            family(k.cause) == family(match.cause) or leads_to(k.cause, match.cause)
            for k in kept_matches
        ):
            continue
        kept_matches = [k for k in kept_matches if not leads_to(match.cause, k.cause)]
        kept_matches.append(match)
    return tuple(kept_matches)
