"""The command line: parse, then call one command. Exit codes are 0, 1 and 2.

Everything heavy is imported by the command that needs it: listing jobs must not wait for numpy.
"""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backend.cli.parser import make_parser

if TYPE_CHECKING:
    from backend.cli.session import Draw, Window


def _open_streams() -> None:
    """Open the standard streams that were closed by the caller, such as a service or ``>&-``.

    Otherwise the next file that is opened would get the number of a stream, and its output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))


def run(argv: Sequence[str], open_window: Window, draw: Draw | None = None) -> int:
    """Do what ``argv`` says; the exit code. The window is the caller's: here no Qt is known."""
    _open_streams()
    # Python reads and writes UTF-8 (PYTHONUTF8), the terminal what its locale says. A name may have
    # characters that this lacks; a result is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding=locale.getencoding(), errors="replace")
    options = make_parser(argv).parse_args(argv)
    # Imported late: `--help` and `--version` end before.
    from backend.cli.session import Session

    return Session(options, open_window, draw).run(options.chosen)
