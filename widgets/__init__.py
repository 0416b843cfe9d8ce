"""The visible part of the program."""

import builtins
import importlib
import os

# By default PySide6 makes each type on first use. Two threads that request types of one module at
# the same time end the process: measured with 6.11.3, ten of ten by SIGSEGV, and none of ten with
# this (tests/app/main/test_bootstrap.py). Here a worker imports pages, and Qt's modules with them,
# while events bring types to the GUI thread. It costs nothing: qtawesome requests all types.
os.environ.setdefault("PYSIDE6_OPTION_LAZY", "0")

# PySide6 searches the source of each imported module for ``from __feature__ import``, which this
# program does not use, and keeps it: with a job open the window then holds 252 MB, not 211
# (tests/benchmarks/window.py allows 250).
importlib.import_module("PySide6.QtCore")
builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
