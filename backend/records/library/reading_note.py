"""Notes on what reading data left out, dropped, guessed, or could have read in two ways.

Imports, recognised shapes and loaders make them; previews, scans, trials and the preflight check
show their sentences. Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.records.base import number_format
from backend.records.base.schema import Record
from backend.records.base.validation import sanitize
from backend.records.library.preview import TOOL_RULES

_NAMES_SHOWN = 3
_NAME_LENGTH = 80


@dataclass(frozen=True)
class ReadingNote(Record, label="reading note", rules=TOOL_RULES):
    """A number of items that were read in a way that the user should know.

    Attributes:
        reason: What was done and why: "Left out, because they are in no folder of a class".
        count: The number of items.
        names: The first of them.
        item: The noun for one of them.
    """

    reason: str
    count: int
    names: tuple[str, ...] = ()
    item: str = "file"

    @classmethod
    def from_names(cls, reason: str, names: Sequence[str], item: str = "file") -> ReadingNote:
        return cls(reason, len(names), tuple(names[:_NAMES_SHOWN]), item)

    @property
    def message(self) -> str:
        """The note as a sentence: "Left out, …: 24 pictures (a.png, b.png, c.png and 21 more)."."""
        plural = "es" if self.item.endswith(("s", "x")) else "s"
        items = f"{number_format.count(self.count)} {self.item}{'' if self.count == 1 else plural}"
        shown_names = [sanitize(name, _NAME_LENGTH) for name in self.names[:_NAMES_SHOWN]]
        hidden_count = self.count - len(shown_names)
        names = ", ".join(shown_names) + (
            f" and {number_format.count(hidden_count)} more" if hidden_count > 0 else ""
        )
        return f"{self.reason}: {items}{f' ({names})' if shown_names else ''}."


def note_messages(raw: object) -> tuple[str, ...]:
    """Return the messages of a loader's ``reading_notes``, a list of dicts.

    Raises:
        ValueError: It is another value.
    """
    if not isinstance(raw, (list, tuple)):
        raise ValueError("it is no list")
    return tuple(ReadingNote.from_dict(note).message for note in raw)
