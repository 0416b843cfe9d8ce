"""Failures that the user can understand and act on.

A missing file or a silent node raises a `BackendError` whose text is a sentence for the user. A bug
raises its own exception, which is not caught.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class BackendError(Exception):
    """A failure outside this program.

    ``str(error)`` is one sentence: what happened, and where. ``remedy`` says what to do, or is "".
    """

    def __init__(self, sentence: str, remedy: str = "") -> None:
        super().__init__(sentence)
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        return str(self)

    @property
    def with_remedy(self) -> str:
        """The sentence and the remedy, if there is one."""
        return f"{self} {self.remedy}".strip()


class Cancelled(BackendError):
    """The user cancelled the work; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Cancelled; nothing was changed.")


@contextlib.contextmanager
def as_backend_error(what: str) -> Iterator[None]:
    """Turn an ``OSError`` into a `BackendError`; ``what`` begins its sentence."""
    try:
        yield
    except OSError as error:
        raise BackendError(f"{what}: {error.strerror or error}.") from error
