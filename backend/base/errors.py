"""Failures that the user can understand and act on.

Two kinds of failure exist: the world (a file is missing, a node is silent) raises a `BackendError`
whose text is a sentence for the user; a bug raises whatever it raises, and nobody catches it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class BackendError(Exception):
    """Something outside this program went wrong.

    ``str(error)`` is one sentence: what, where. ``remedy`` says what to do, or is empty.
    """

    def __init__(self, sentence: str, remedy: str = "") -> None:
        super().__init__(sentence)
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        return str(self)

    @property
    def with_remedy(self) -> str:
        """The sentence and, where there is one, the remedy."""
        return f"{self} {self.remedy}".strip()


class Cancelled(BackendError):
    """The user cancelled; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Cancelled; nothing was changed.")


@contextlib.contextmanager
def as_backend_error(what: str) -> Iterator[None]:
    """Put an error of the file system into words; ``what`` begins the sentence."""
    try:
        yield
    except OSError as error:
        raise BackendError(f"{what}: {error.strerror or error}.") from error
