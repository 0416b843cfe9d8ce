"""Finds what a person means by a few letters: acts, places, jobs, nodes, things of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from widgets.shell.command_palette import PaletteEntry

MOST = 50
Source = Callable[[str], Iterable[PaletteEntry]]
"""Gives what might fit to a text, case folded; what does not is left out afterwards."""
FarSource = Callable[[str, Callable[[tuple[PaletteEntry, ...]], None]], None]
"""The same for what takes a moment to look through: it answers later, the best first."""


@dataclass(frozen=True)
class WindowCommand:
    """Something the window can do. ``is_able`` says whether it can now."""

    target: PaletteEntry
    do: Callable[[], object]
    is_able: Callable[[], bool] = lambda: True


class CommandSearch:
    """All that can be gone to.

    Every word typed must stand in a target's title or behind it. A title that begins with the
    text comes first, then one with a word that does, then the rest; acts before things.
    """

    def __init__(self) -> None:
        self._acts: dict[str, WindowCommand] = {}
        self._sources: list[Source] = []
        self._far: list[FarSource] = []
        self._wanted = ""
        self._here: tuple[PaletteEntry, ...] = ()
        self._elsewhere: tuple[PaletteEntry, ...] = ()
        self._openers: dict[str, Callable[[str], object]] = {}

    def add_act(self, act: WindowCommand) -> None:
        self._acts[act.target.key] = act

    def offer_page(self, here: Sequence[PaletteEntry], elsewhere: Sequence[PaletteEntry]) -> None:
        """Acts that are read off the pages when somebody begins to look; see `PageActs`.

        Those before the eyes come first where nothing is typed.
        """
        self._here, self._elsewhere = tuple(here), tuple(elsewhere)

    @property
    def acts(self) -> tuple[str, ...]:
        """The titles of those that are possible now, without those of the pages."""
        return tuple(act.target.title for act in self._acts.values() if act.is_able())

    def add_opener(self, kind: str, open_it: Callable[[str], object]) -> None:
        """For targets of a kind that come from another's source, or from the pages."""
        self._openers[kind] = open_it

    def add_source(self, kind: str, source: Source, open_it: Callable[[str], object]) -> None:
        """Targets of one kind, opened by their key."""
        self._sources.append(source)
        self._openers[kind] = open_it

    def add_background_source(
        self, kind: str, source: FarSource, open_it: Callable[[str], object]
    ) -> None:
        """Targets of one kind that are looked for elsewhere; see `ask`."""
        self._far.append(source)
        self._openers[kind] = open_it

    def ask(self, text: str, then: Callable[[tuple[PaletteEntry, ...], bool], None]) -> None:
        """Find in all sources.

        ``then`` gets what is near at once, and all of it when the far sources have answered, each
        time with whether it is all; no more when another text was asked for meanwhile.
        """
        self._wanted = text
        joined = " ".join(text.casefold().split())
        asks_far = bool(joined and self._far)
        then(self.find(text), not asks_far)
        if not asks_far:
            return
        waited_for = list(self._far)
        answers: list[PaletteEntry] = []

        def answered(source: FarSource, targets: tuple[PaletteEntry, ...]) -> None:
            if self._wanted != text:
                return
            answers.extend(targets)
            waited_for.remove(source)
            if not waited_for:
                then(self.find(text, answers), True)

        for source in self._far:
            source(joined, partial(answered, source))

    def find(self, text: str, more: Iterable[PaletteEntry] = ()) -> tuple[PaletteEntry, ...]:
        """The best targets for a text, ``more`` among them; without one, all acts possible now."""
        wanted = text.casefold().split()
        own = (act.target for act in self._acts.values() if act.is_able())
        targets = [*self._here, *own, *self._elsewhere]
        if wanted:
            joined = " ".join(wanted)
            for source in self._sources:
                targets += source(joined)
            targets += more
        ranked = [
            (rank, number, target)
            for number, target in enumerate(targets)
            if (rank := _rank(target, wanted)) is not None
        ]
        return tuple(target for _, _, target in sorted(ranked, key=_by_rank)[:MOST])

    def open(self, target: PaletteEntry) -> None:
        if target.key in self._acts and target == self._acts[target.key].target:
            self._acts[target.key].do()
        else:
            self._openers[target.kind](target.key)


def _rank(target: PaletteEntry, wanted: Sequence[str]) -> int | None:
    """0 is best; None does not fit."""
    title = target.title.casefold()
    whole = f"{title} {target.aside.casefold()}"
    if not all(word in whole for word in wanted):
        return None
    if not wanted or title.startswith(" ".join(wanted)):
        return 0
    return 1 if any(word.startswith(wanted[0]) for word in title.split()) else 2


def _by_rank(ranked: tuple[int, int, PaletteEntry]) -> tuple[int, int]:
    return ranked[:2]
