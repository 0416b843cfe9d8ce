"""The visible part of the program."""

import os

# By default PySide6 makes each type on first use. Two threads that request types of one module at
# the same time end the process: measured with 6.11.3, ten of ten by SIGSEGV, and none of ten with
# this (tests/app/main/test_window.py). Here a worker imports pages, and Qt's modules with them,
# while events bring types to the GUI thread. It costs nothing: qtawesome requests all types.
os.environ.setdefault("PYSIDE6_OPTION_LAZY", "0")

from widgets.shell import import_hook

import_hook.restore()
