"""Commands as they are typed, on the services of a test."""

from __future__ import annotations

from typing import Any

from backend.cli.main import make_parser
from backend.cli.session import Session


def run_command(services: Any, *argv: str) -> int:
    """Run a command; return its exit code. Errors are raised."""
    options = make_parser(argv).parse_args(argv)
    session = Session(options, lambda *_: 0)
    vars(session)["services"] = services
    return session.call(options.chosen)
