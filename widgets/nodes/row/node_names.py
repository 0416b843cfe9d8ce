"""Shorten long node names: the part that all of them share is dropped first.

Machines of a cluster are often named ``node-rack3-007.cluster.example.org``. Cut at the end, all
such names look the same; the distinguishing part must stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics

from widgets.common import theme
from widgets.common.theme import Role

_ALIKE = 3
"""Names with this many equal leading letters differ at their end."""


def without_domain(titles: Sequence[str]) -> tuple[str, ...]:
    """The names without the domain that all of them share."""
    ends = {title.partition(".")[2] for title in titles if "." in title}
    if len(ends) != 1:
        return tuple(titles)
    heads = [title.partition(".")[0] for title in titles]
    # An address has no domain, and two names must remain different.
    if any(head.isdecimal() for head in heads) or len(set(heads)) < len(set(titles)):
        return tuple(titles)
    return tuple(heads)


def fitted(titles: Sequence[str], width: float, role: Role) -> tuple[str, ...]:
    """The names as they fit into a column of `width` pixels, in the given order."""
    metrics = QFontMetrics(theme.font(role))
    heads = without_domain(titles)
    at_front = len({head[:_ALIKE] for head in heads}) == 1 < len(heads)
    mode = Qt.TextElideMode.ElideLeft if at_front else Qt.TextElideMode.ElideRight
    return tuple(metrics.elidedText(head, mode, int(width) + 1) for head in heads)
