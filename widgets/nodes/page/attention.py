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

MAX_CARDS = 3
_CARD_MIN_W = 320


@dataclass(frozen=True)
class Attention:
    """The content of a card; its button is for the action."""

    node: str
    family: Family
    icon: str
    title: str
    text: str
    action: NodeAction


def attention_cards(
    states: Iterable[NodeState],
    rows: Mapping[str, NodeRow],
    jobs: Iterable[JobView],
    problem_starts: Mapping[str, float],
    now_s: float | None = None,
) -> tuple[Attention, ...]:
    """Return at most `MAX_CARDS` cards: affected jobs first, then problems, offline and new nodes.

    Args:
        problem_starts: The Unix time at which each node stopped being healthy, if known.
        now_s: Unix time.
    """
    now_s = time.time() if now_s is None else now_s
    titles = strip_domain([row.title for row in rows.values()])
    names = dict(zip(rows, titles, strict=True))
    live_views = [view for view in jobs if view.state.is_live]
    ranked_cards: list[tuple[int, Attention]] = []
    for state in states:
        condition, reason = condition_of(state)
        row = rows[state.name]
        job_names = [view.name for view in live_views if state.name in view.nodes]
        gpu_owners = [cell.owner for cell in row.gpus if cell.use == "ours"]
        affected_jobs = list(dict.fromkeys(job_names + gpu_owners))
        if not condition.is_notable and (
            condition is not Condition.NEW or row.subtitle_color == "live"
        ):
            continue
        start_s = problem_starts.get(state.name)
        start_text = f"since {formats.time_with_day(start_s, now_s)}" if start_s is not None else ""
        priority = list(Condition).index(condition) - (10 if affected_jobs else 0)
        slowdown = _slowdown(live_views, state.name)
        ranked_cards.append(
            (
                priority,
                _card(row, names[row.name], condition, reason, start_text, affected_jobs, slowdown),
            )
        )
    ranked_cards.sort(key=lambda pair: pair[0])
    return tuple(card for _, card in ranked_cards[:MAX_CARDS])


def _slowdown(live_views: Iterable[JobView], node: str) -> str:
    """Describe the delay of the job that a node slows most: "takes 25 % longer for it"."""
    shares = {}
    for view in live_views:
        slowest_rank = view.slowest()
        if slowest_rank is not None:
            rank, share = slowest_rank
            slow_node = next(
                placement.node for number, placement, _ in view.ranks() if number == rank
            )
            if slow_node == node:
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
    start_text: str,
    affected_jobs: list[str],
    slowdown: str,
) -> Attention:
    family, icon = condition.family, condition.icon
    if condition is Condition.UNHEALTHY:
        temperature_c = next((c.temperature_c for c in row.gpus if c.problem), None)
        current_text = (
            f"now {formats.temperature(temperature_c)}"
            if temperature_c is not None and "heat" in reason
            else ""
        )
        problem_text = upper_first(", ".join(part for part in (start_text, current_text) if part))
        jobs_text = (
            f"{_job_names(affected_jobs)} {'runs' if len(affected_jobs) == 1 else 'run'} on it."
            if affected_jobs
            else ""
        )
        effect = slowdown or jobs_text
        text = _join_sentences(problem_text, effect) or "No job is on it."
        return Attention(row.name, family, icon, f"{name}: {reason}", text, SHOW)
    if condition is Condition.OFFLINE:
        effect = f"{_job_names(affected_jobs)} ran on it." if affected_jobs else ""
        start_text = "" if "since" in reason else start_text
        text = _join_sentences(upper_first(reason), upper_first(start_text), effect)
        return Attention(row.name, family, icon, f"{name} is offline", text, RETRY)
    text = _join_sentences(
        row.subtitle if row.subtitle_color == "bad" else "",
        "Jobs cannot use it until it is set up.",
    )
    return Attention(row.name, family, icon, f"{name} is not set up", text, SET_UP)


def _job_names(jobs: list[str]) -> str:
    return jobs[0] if len(jobs) == 1 else f"{jobs[0]} and {len(jobs) - 1} more"


def _join_sentences(*parts: str) -> str:
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


class AttentionCards(QWidget):
    """The cards side by side, or stacked in a narrow window."""

    def __init__(self, actions: NodeActions) -> None:
        super().__init__()
        self._actions = actions
        self.cards: tuple[Attention, ...] = ()
        self._row = row(gap=S3)
        self.setLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.hide()

    def show_cards(self, cards: tuple[Attention, ...]) -> None:
        """Show these cards; without cards hide the widget."""
        if cards == self.cards:
            return
        same_nodes = [card.node for card in cards] == [card.node for card in self.cards]
        self.cards = cards
        self.setVisible(bool(cards))
        self._set_direction()
        if same_nodes and all(isinstance(self._banner(n), Banner) for n in range(len(cards))):
            # Only texts changed: a button must not disappear under the pointer.
            for number, card in enumerate(cards):
                self._fill_banner(self._banner(number), card)
            return
        clear(self._row)
        for card in cards:
            banner = Banner(is_stacked=True)
            self._row.addWidget(banner, 1)
            self._fill_banner(banner, card)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_direction()

    def _set_direction(self) -> None:
        is_narrow = self.width() < _CARD_MIN_W * len(self.cards)
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.TopToBottom if is_narrow else direction.LeftToRight)

    def _banner(self, number: int) -> Banner:
        item = self._row.itemAt(number)
        banner = item.widget() if item is not None else None
        assert isinstance(banner, Banner)
        return banner

    def _fill_banner(self, banner: Banner, card: Attention) -> None:
        banner.set_finding(card.family, card.title, card.text, icon=card.icon)
        action = card.action
        button = Button(action.text, icon=action.icon if action == RETRY else "")
        button.setAccessibleName(f"{action.text}: {card.node}")
        button.clicked.connect(lambda: self._actions.ask(action, card.node))
        banner.set_actions([button])
