"""Modules are imported without their source being read.

PySide6 puts a function of its own in the place of ``__import__``, for ``from __feature__ import``,
which nobody here writes. After each import of any module that looks into the module's source for
the word PySide6, and `linecache` keeps what it read: 450,000 lines of 1,160 files, 40 MB, and a
tenth of what the processor does until the window is there (measured with 6.11.3).
"""

import builtins

import PySide6.QtCore  # noqa: F401 - it is this that puts the function there


def restore() -> None:
    """From now on, everywhere in this process."""
    if builtins.__import__ is getattr(builtins, "__feature_import__", None):
        # What was there before: Python's own, or what other parts of PySide6 need.
        builtins.__import__ = builtins.__orig_import__  # type: ignore[attr-defined]
