"""Notes on what a loader left out, guessed, or could have read in two ways.

A dataset has them as ``reading_notes``; previews, scans and the trial before a start show them.
"""

from collections.abc import Collection, Sequence


class Notes(list):
    """A list of dicts: reason, count, names (the first ones) and item (the noun for one)."""

    def add(self, reason: str, names: Collection[str], item: str) -> None:
        """Add a note unless ``names``, which are those of all the items, is empty."""
        if names:
            first = [str(name) for name in list(names)[:3]]
            self.append({"reason": reason, "count": len(names), "names": first, "item": item})

    def add_unused(
        self, names: Sequence[str], membership: Sequence[bool | None], item: str
    ) -> None:
        """Add the items that `splits.divide` puts into neither set."""
        unused = [name for name, is_held in zip(names, membership, strict=True) if is_held is None]
        self.add("Used in neither set, because others are named for validation", unused, item)

    def add_missing(self, classes: Sequence[str], labels: Collection[int]) -> None:
        """Add the classes that have no sample in this set."""
        missing = [name for label, name in enumerate(classes) if label not in labels]
        self.add("Without a sample in this set", missing, "class")
