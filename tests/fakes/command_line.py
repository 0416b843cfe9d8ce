"""Commands as they are typed, on the services of a test."""

from __future__ import annotations

from typing import Any

from backend.cli.parser import make_parser
from backend.cli.session import Session


def call(services: Any, *words: str) -> int:
    """Run a command; return its exit code. Errors are raised."""
    options = make_parser(words).parse_args(words)
    session = Session(options, lambda *_: 0)
    vars(session)["services"] = services
    return session.call(options.chosen)
