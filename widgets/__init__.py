"""All that is seen."""

import os

# By default PySide6 makes each type when it is first asked for. Two threads that ask for those of a
# module at the same time end the process: measured with 6.11.3, ten of ten by SIGSEGV, and none of
# ten with this (tests/app/main/test_window.py). Here pages, and Qt's modules with
# them, are imported on a worker while events bring types to the GUI thread. It costs nothing:
# qtawesome asks for all.
os.environ.setdefault("PYSIDE6_OPTION_LAZY", "0")

from widgets.shell import import_hook

import_hook.restore()
