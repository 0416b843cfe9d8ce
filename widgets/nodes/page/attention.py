"""The cards above the rack: a problem, its start, the affected job, and one action."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.layout import clear, row
from widgets.common.theme import S3, Family
from widgets.nodes.page.node_actions import RETRY, SET_UP, SHOW, NodeAction, NodeActions
from widgets.nodes.row.node_names import strip_domain
from widgets.nodes.row.node_row import Condition, NodeRow, condition_of, upper_first

MOST_CARDS = 3
_CARD_LEAST_W = 320


@dataclass(frozen=True)
class Attention:
    """One card; its button is for the action."""

    node: str
    family: Family
    icon: str
    title: str
    text: str
    action: NodeAction


def attentions(
    states: Iterable[NodeState],
    rows: Mapping[str, NodeRow],
    jobs: Iterable[JobView],
    since: Mapping[str, float],
    now: float | None = None,
) -> tuple[Attention, ...]:
    """Return at most `MOST_CARDS`: jobs affected first, then problems, offline and new nodes.

    Args:
        since: The time when each node stopped being healthy, Unix time; not all are known.
        now: Unix time.
    """
    now = time.time() if now is None else now
    titles = strip_domain([row.title for row in rows.values()])
    names = dict(zip(rows, titles, strict=True))
    live = [view for view in jobs if view.state.is_live]
    found: list[tuple[int, Attention]] = []
    for state in states:
        condition, reason = condition_of(state)
        row = rows[state.name]
        placed = [view.name for view in live if state.name in view.nodes]
        seen = [cell.owner for cell in row.gpus if cell.use == "ours"]
        costs = list(dict.fromkeys(placed + seen))
        if not condition.is_notable and (condition is not Condition.NEW or row.subtitle_color == "live"):
            continue
        moment = since.get(state.name)
        when = f"since {formats.time_with_day(moment, now)}" if moment is not None else ""
        rank = list(Condition).index(condition) - (10 if costs else 0)
        slows = _slowed(live, state.name)
        found.append((rank, _card(row, names[row.name], condition, reason, when, costs, slows)))
    found.sort(key=lambda pair: pair[0])
    return tuple(card for _, card in found[:MOST_CARDS])


def _slowed(live: Iterable[JobView], node: str) -> str:
    """The delay of the job that a node slows most: "takes 25 % longer for it"."""
    shares = {}
    for view in live:
        slowest = view.slowest()
        if slowest is not None:
            rank, share = slowest
            place = next(placement.node for number, placement, _ in view.ranks() if number == rank)
            if place == node:
                shares[view.name] = share
    if not shares:
        return ""
    name = max(shares, key=lambda name: shares[name])
    return f"{name} takes {formats.percent(shares[name])} longer for it."


def _card(
    row: NodeRow,
    name: str,
    condition: Condition,
    reason: str,
    when: str,
    costs: list[str],
    slows: str,
) -> Attention:
    family, icon = condition.family, condition.icon
    if condition is Condition.UNHEALTHY:
        heat = next((c.temperature_c for c in row.gpus if c.problem), None)
        now = f"now {formats.temperature(heat)}" if heat is not None and "heat" in reason else ""
        facts = upper_first(", ".join(part for part in (when, now) if part))
        runs = f"{_names(costs)} {'runs' if len(costs) == 1 else 'run'} on it." if costs else ""
        effect = slows or runs
        text = _sentences(facts, effect) or "No job is on it."
        return Attention(row.name, family, icon, f"{name}: {reason}", text, SHOW)
    if condition is Condition.OFFLINE:
        effect = f"{_names(costs)} ran on it." if costs else ""
        when = "" if "since" in reason else when
        text = _sentences(upper_first(reason), upper_first(when), effect)
        return Attention(row.name, family, icon, f"{name} is offline", text, RETRY)
    text = _sentences(
        row.subtitle if row.subtitle_color == "bad" else "", "Jobs cannot use it until it is set up."
    )
    return Attention(row.name, family, icon, f"{name} is not set up", text, SET_UP)


def _names(jobs: list[str]) -> str:
    return jobs[0] if len(jobs) == 1 else f"{jobs[0]} and {len(jobs) - 1} more"


def _sentences(*parts: str) -> str:
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


class AttentionCards(QWidget):
    """The cards side by side, or below each other where they would be narrow."""

    def __init__(self, actions: NodeActions) -> None:
        super().__init__()
        self._actions = actions
        self._shown: tuple[Attention, ...] = ()
        self._row = row(gap=S3)
        self.setLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.hide()

    @property
    def shown(self) -> tuple[Attention, ...]:
        return self._shown

    def show_cards(self, cards: tuple[Attention, ...]) -> None:
        """Show these cards; hide everything if there are none."""
        if cards == self._shown:
            return
        same = [card.node for card in cards] == [card.node for card in self._shown]
        self._shown = cards
        self.setVisible(bool(cards))
        self._settle()
        if same and all(isinstance(self._banner(n), Banner) for n in range(len(cards))):
            # Only texts changed: a button must not disappear under the pointer.
            for number, card in enumerate(cards):
                self._fill(self._banner(number), card)
            return
        clear(self._row)
        for card in cards:
            banner = Banner(stacked=True)
            self._row.addWidget(banner, 1)
            self._fill(banner, card)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def _settle(self) -> None:
        narrow = self.width() < _CARD_LEAST_W * len(self._shown)
        way = QBoxLayout.Direction
        self._row.setDirection(way.TopToBottom if narrow else way.LeftToRight)

    def _banner(self, number: int) -> Banner:
        item = self._row.itemAt(number)
        banner = item.widget() if item is not None else None
        assert isinstance(banner, Banner)
        return banner

    def _fill(self, banner: Banner, card: Attention) -> None:
        banner.set_finding(card.family, card.title, card.text, icon=card.icon)
        action = card.action
        button = Button(action.text, icon=action.icon if action == RETRY else "")
        button.setAccessibleName(f"{action.text}: {card.node}")
        button.clicked.connect(lambda: self._actions.ask(action, card.node))
        banner.set_actions([button])
