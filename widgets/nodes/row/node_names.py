"""Shorten long node names: first without the part that all names share.

Machines of a cluster are often named ``node-rack3-007.cluster.example.org``. Cut at the end, all
such names look the same; the distinguishing part must stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics

from widgets.common import theme
from widgets.common.theme import Role

_SHARED_PREFIX_LENGTH = 3
"""Names with so many equal leading letters differ at their end."""


def strip_domain(titles: Sequence[str]) -> tuple[str, ...]:
    """Return the names without the domain that all names share."""
    domains = {title.partition(".")[2] for title in titles if "." in title}
    if len(domains) != 1:
        return tuple(titles)
    short_names = [title.partition(".")[0] for title in titles]
    # An address has no domain, and two names must remain different.
    if any(head.isdecimal() for head in short_names) or len(set(short_names)) < len(set(titles)):
        return tuple(titles)
    return tuple(short_names)


def elide_names(titles: Sequence[str], width: float, role: Role) -> tuple[str, ...]:
    """Return the names shortened to a column of `width` pixels, in the same order."""
    metrics = QFontMetrics(theme.font(role))
    short_names = strip_domain(titles)
    shares_prefix = (
        len({head[:_SHARED_PREFIX_LENGTH] for head in short_names}) == 1 < len(short_names)
    )
    mode = Qt.TextElideMode.ElideLeft if shares_prefix else Qt.TextElideMode.ElideRight
    return tuple(metrics.elidedText(head, mode, int(width) + 1) for head in short_names)
