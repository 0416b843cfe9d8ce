"""Long names of nodes in little room: what all of them share goes first.

Machines of a cluster are often called ``node-rack3-007.cluster.example.org``. Cut at the end, all
such names look the same; what tells them apart must stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics

from widgets.common import theme
from widgets.common.theme import Role

_ALIKE = 3
"""Names that begin with so many of the same letters differ at their end."""


def without_domain(titles: Sequence[str]) -> tuple[str, ...]:
    """The names without the domain that all of them are in."""
    ends = {title.partition(".")[2] for title in titles if "." in title}
    if len(ends) != 1:
        return tuple(titles)
    heads = [title.partition(".")[0] for title in titles]
    # An address is no name with a domain, and two names must stay two.
    if any(head.isdecimal() for head in heads) or len(set(heads)) < len(set(titles)):
        return tuple(titles)
    return tuple(heads)


def fitted(titles: Sequence[str], width: float, role: Role) -> tuple[str, ...]:
    """The names as they are written in a column of `width` pixels, in the order given."""
    metrics = QFontMetrics(theme.font(role))
    heads = without_domain(titles)
    at_front = len({head[:_ALIKE] for head in heads}) == 1 < len(heads)
    mode = Qt.TextElideMode.ElideLeft if at_front else Qt.TextElideMode.ElideRight
    return tuple(metrics.elidedText(head, mode, int(width) + 1) for head in heads)
