"""Selection of samples of each class, even rare ones, limited in total."""

from __future__ import annotations

from backend.records.library.preview import SamplePreview

_OF_EACH, _IN_ALL = 24, 240


class ClassSamples:
    """The first ones of each class, in the order in which the set is read.

    As more classes appear, each keeps fewer, down to one: of a thousand classes a thousand samples
    stay.
    """

    def __init__(self) -> None:
        self._by_class: dict[str, list[SamplePreview]] = {}
        self._of_each = _OF_EACH

    def wants(self, of_class: str) -> bool:
        """Return whether one more of this class is kept; no class ("") keeps none."""
        return bool(of_class) and len(self._by_class.get(of_class, ())) < self._of_each

    def add(self, sample: SamplePreview) -> None:
        self._by_class.setdefault(sample.of_class, []).append(sample)
        while self._of_each > 1 and sum(map(len, self._by_class.values())) > _IN_ALL:
            self._of_each -= 1
            for kept in self._by_class.values():
                del kept[self._of_each :]

    def all(self) -> tuple[SamplePreview, ...]:
        """Return the samples by their number in the set."""
        kept = (sample for samples in self._by_class.values() for sample in samples)
        return tuple(sorted(kept, key=lambda sample: sample.index))
