"""Restore the standard import function, so that modules' sources are not read.

PySide6 replaces ``__import__`` by a function of its own for ``from __feature__ import``, which this
program does not use. After each import that function searches the module's source for the word
PySide6, and `linecache` keeps what it read: 450,000 lines of 1,160 files, 40 MB, and a tenth of the
processor time until the window appears (measured with 6.11.3).
"""

import builtins

import PySide6.QtCore  # noqa: F401 - it is this that puts the function there


def restore() -> None:
    """Restore it for the whole process."""
    if builtins.__import__ is getattr(builtins, "__feature_import__", None):
        # The earlier function: Python's own, or one that other parts of PySide6 need.
        builtins.__import__ = builtins.__orig_import__  # type: ignore[attr-defined]
