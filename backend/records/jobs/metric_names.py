"""Names of metrics: the program's own, the user's, and both as columns.

A user may give a metric any name. If the program has a metric of that name, the user's gets a
prefix on input, and keeps it in curves, tables, checkpoints and rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

VALIDATION = "validation/"
"""Prefix of metrics that the validation measured."""
_USER = "user/"
STALENESS = ("staleness mean", "staleness p95", "staleness max")
PUSHES_PER_SECOND = "pushes per second"
PUSH_WINDOW = 100
"""Pushes of an epoch over which that rate is a mean, at most."""
OF_SERVERS = (*STALENESS, PUSHES_PER_SECOND, "server queue")
"""Metrics of strategies with servers."""
OF_NO_DATA = ("learning_rate", "gradient_norm", "samples_per_second", *OF_SERVERS)
"""Metrics of the training itself, which do not measure the model."""
OWN_NAMES = ("loss", *OF_NO_DATA)
_COLUMNS = ("step", "epoch")
"""Columns of every table besides the metrics."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def name_of_user_metric(name: str) -> str:
    """Return the name under which a user's metric is stored; the names stay distinct."""
    base_name = name
    while base_name.startswith(_USER):
        base_name = base_name[len(_USER) :]
    is_taken = base_name in OWN_NAMES or base_name in _COLUMNS or base_name.startswith(VALIDATION)
    return _USER + name if is_taken else name


def spreadsheet_text(text: str) -> str:
    """Return ``text`` safe for a spreadsheet, which would run a text that begins as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def headings(head: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return headings for ``names`` after ``head``: each unique, and none a formula."""
    used_headings = list(head)
    for name in names:
        heading = spreadsheet_text(name)
        while heading in used_headings:
            heading = _USER + heading
        used_headings.append(heading)
    return used_headings
