"""Names of metrics: the program's own, those of the user beside them, and both as columns.

A user may call a metric anything. One whose name is the program's gets a prefix where it comes
in, and stands under that name everywhere: in curves, tables, checkpoints and rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

VALIDATION = "validation/"
"""Before the names of what a validation measured."""
_USER = "user/"
OWN_NAMES = ("loss", "learning_rate", "gradient_norm", "samples_per_second")
_COLUMNS = ("step", "epoch")
"""Beside the metrics in every table."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def name_of_user_metric(name: str) -> str:
    """The name under which a user's metric is kept; no two names become one."""
    bare = name
    while bare.startswith(_USER):
        bare = bare[len(_USER) :]
    is_taken = bare in OWN_NAMES or bare in _COLUMNS or bare.startswith(VALIDATION)
    return _USER + name if is_taken else name


def in_spreadsheet(text: str) -> str:
    """``text`` as a spreadsheet shows it; one that begins so would be a formula, and be run."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def headings(head: Sequence[str], names: Iterable[str]) -> list[str]:
    """Headings for ``names`` behind ``head``: each once, and none a formula."""
    taken = list(head)
    for name in names:
        heading = in_spreadsheet(name)
        while heading in taken:
            heading = _USER + heading
        taken.append(heading)
    return taken
