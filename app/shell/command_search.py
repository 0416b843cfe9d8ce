"""Find commands, pages, jobs, nodes and library items by a few letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from PySide6.QtGui import QAction

from widgets.shell.command_palette import PaletteEntry

MAX_RESULTS = 50
_ACT = "act"
Source = Callable[[str], Iterable[PaletteEntry]]
"""Return candidates for a text, case folded; those that do not match are dropped later."""
RemoteSource = Callable[[str, Callable[[tuple[PaletteEntry, ...]], None]], None]
"""A slow search for a text: its callback gets the candidates later, the best first."""


class CommandSearch:
    """All commands and targets of the palette.

    Every word typed must occur in a target's title, remark or further words. Titles that begin with
    the text come first, then titles with a word that does, then the rest; commands before targets.
    """

    def __init__(self) -> None:
        self._actions: dict[str, QAction] = {}
        self._sources: list[Source] = []
        self._remote: list[RemoteSource] = []
        self._query = ""
        self._visible_entries: tuple[PaletteEntry, ...] = ()
        self._hidden_entries: tuple[PaletteEntry, ...] = ()
        self._openers: dict[str, Callable[[str], object]] = {}

    def add_action(self, action: QAction) -> None:
        """Add a command of the window, offered while it is enabled; its data names its icon."""
        self._actions[action.text()] = action

    def offer_page(
        self, visible_entries: Sequence[PaletteEntry], hidden_entries: Sequence[PaletteEntry]
    ) -> None:
        """Set the commands read from the pages when the palette opens; see `PageCommands`.

        Without a text, the commands of the visible page come first.
        """
        self._visible_entries, self._hidden_entries = tuple(visible_entries), tuple(hidden_entries)

    @property
    def action_titles(self) -> tuple[str, ...]:
        """The titles of the commands that are possible now, without those of the pages."""
        return tuple(text for text, action in self._actions.items() if action.isEnabled())

    def add_opener(self, kind: str, open_target: Callable[[str], object]) -> None:
        """Set the opener for a kind of target that another source or the pages provide."""
        self._openers[kind] = open_target

    def add_source(self, kind: str, source: Source, open_target: Callable[[str], object]) -> None:
        """Add a source of one kind of target, opened by key."""
        self._sources.append(source)
        self._openers[kind] = open_target

    def add_background_source(
        self, kind: str, source: RemoteSource, open_target: Callable[[str], object]
    ) -> None:
        """Add a source that searches in the background; see `ask`."""
        self._remote.append(source)
        self._openers[kind] = open_target

    def ask(self, text: str, on_result: Callable[[tuple[PaletteEntry, ...], bool], None]) -> None:
        """Search all sources.

        ``on_result`` gets the local targets at once, and all targets when the background sources
        have answered, each time with True if they are complete; nothing after another search.
        """
        self._query = text
        normalized_text = " ".join(text.casefold().split())
        asks_remote = bool(normalized_text and self._remote)
        on_result(self.find(text), not asks_remote)
        if not asks_remote:
            return
        pending_sources = list(self._remote)
        remote_targets: list[PaletteEntry] = []

        def add_answer(source: RemoteSource, targets: tuple[PaletteEntry, ...]) -> None:
            if self._query != text:
                return
            remote_targets.extend(targets)
            pending_sources.remove(source)
            if not pending_sources:
                on_result(self.find(text, remote_targets), True)

        for source in self._remote:
            source(normalized_text, partial(add_answer, source))

    def find(
        self, text: str, remote_targets: Iterable[PaletteEntry] = ()
    ) -> tuple[PaletteEntry, ...]:
        """Return the best targets for a text; without a text, all possible commands."""
        tokens = text.casefold().split()
        action_entries = (_entry(self._actions[text]) for text in self.action_titles)
        targets = [*self._visible_entries, *action_entries, *self._hidden_entries]
        if tokens:
            normalized_text = " ".join(tokens)
            for source in self._sources:
                targets += source(normalized_text)
            targets += remote_targets
        ranked_targets = [
            (rank, index, target)
            for index, target in enumerate(targets)
            if (rank := _rank(target, tokens)) is not None
        ]
        return tuple(target for _, _, target in sorted(ranked_targets, key=_by_rank)[:MAX_RESULTS])

    def open(self, target: PaletteEntry) -> None:
        if target.kind == _ACT:
            self._actions[target.key].trigger()
        else:
            self._openers[target.kind](target.key)


def _entry(action: QAction) -> PaletteEntry:
    text, key = action.text(), action.shortcut().toString()
    return PaletteEntry(_ACT, text, text, "", action.data() or "", key)


def _rank(target: PaletteEntry, tokens: Sequence[str]) -> int | None:
    """Return the rank of a target, 0 for the best; None if the target does not match."""
    title = target.title.casefold()
    full_text = f"{title} {target.remark} {target.search_terms}".casefold()
    if not all(word in full_text for word in tokens):
        return None
    if not tokens or title.startswith(" ".join(tokens)):
        return 0
    return 1 if any(word.startswith(tokens[0]) for word in title.split()) else 2


def _by_rank(ranked_target: tuple[int, int, PaletteEntry]) -> tuple[int, int]:
    return ranked_target[:2]
