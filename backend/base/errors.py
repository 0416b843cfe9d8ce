"""Failures that the user can understand and act on.

A missing file or a silent node raises a `BackendError` whose text is a sentence for the user. A bug
raises its own exception, which is not caught.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator

_log = logging.getLogger(__name__)
_REMEDIES = {
    errno.EROFS: "Its disk or share is mounted read-only; mount it so that you may write to it.",
    errno.ESTALE: "Its share was replaced on the server; mount it again.",
}


class BackendError(Exception):
    """A failure outside this program.

    ``str(error)`` is one sentence: what happened, and where. ``remedy`` says what to do, or is "".
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    @property
    def message(self) -> str:
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
def as_backend_error(prefix: str) -> Iterator[None]:
    """Turn an ``OSError`` into a `BackendError`; ``prefix`` begins its message."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "")
        raise BackendError(f"{prefix}: {error.strerror or error}.", remedy) from error


def exists_error(path: object, remedy: str = "Choose another name.") -> BackendError:
    return BackendError(f"{path} exists already and was not changed.", remedy)


def unforeseen(error: OSError) -> BackendError:
    """Return the sentence about an ``OSError`` that no caller turned into one, and log it."""
    _log.info("Not expected here", exc_info=error)
    path_prefix = f"{error.filename}: " if error.filename else ""
    return BackendError(
        f"{path_prefix}{error.strerror or str(error) or type(error).__name__}.",
        _REMEDIES.get(error.errno or 0, "Check its disk or share, and whether you may use it."),
    )
