"""Errors of user code, as messages.

Every exception of user code becomes a `UserCodeError`: a message, a remedy, and the traceback
without the program's own frames. Out of memory is not the user's bug and is raised unchanged.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.library.packages import PYPI_NAMES
from backend.training.user_code.sources import UserSource, known_sources

FORWARD = "The model's forward"
LOSS = "The model's loss"


class UserCodeError(BackendError):
    """The user's code cannot be used as it is.

    ``traceback`` begins in the user's file; "" without one. ``index`` is the item of the dataset at
    which it happened, if known. ``part``: see `ToolError`. ``called_function``: its label, such as
    `FORWARD`, if the user's code raised. ``package``: the name on PyPI of a missing package, or ""
    where only its ``module`` is known.
    """

    part = ""
    package = ""
    module = ""
    called_function = ""

    def __init__(
        self, message: str, remedy: str = "", traceback: str = "", index: int | None = None
    ) -> None:
        super().__init__(message, remedy)
        self.traceback = traceback
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return UserCodeError, (self.message, self.remedy, self.traceback, self.index)


@contextlib.contextmanager
def calling(subject: str, source: UserSource | None = None) -> Iterator[None]:
    """Turn any exception of user code into a `UserCodeError`: ``with calling("The loss")``."""
    try:
        yield
    except (BackendError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise
        raise explain(error, subject, source) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the computer or a GPU ran out of memory."""
    import torch

    return isinstance(
        error, (MemoryError, torch.OutOfMemoryError)
    ) or "DefaultCPUAllocator" in _text(error)


def explain(error: BaseException, subject: str, source: UserSource | None = None) -> UserCodeError:
    """Describe an exception of user code in a message, which begins with ``subject``."""
    trace = clean_traceback(error)
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return UserCodeError(
            f"{subject} exited the program (sys.exit({code})).",
            'Move code for direct execution below if __name__ == "__main__":.',
            trace,
        )
    if isinstance(error, SyntaxError) and error.filename:
        file = _relative_path(error.filename, source)
        return UserCodeError(
            f"{file}, line {error.lineno or 1}: {error.msg}.",
            f"Correct {file} and import it again.",
            trace,
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing_name, location = _public_names(error.name), _location_of(error, source)
        root = missing_name.partition(".")[0]
        package = PYPI_NAMES.get(root, "")
        if package:
            suffix = f" ({location})" if location else ""
            package_error = UserCodeError(
                f"{_owner_label(location)} needs {package}{suffix}.",
                f"Install it with {sys.executable} -m pip install {package}.",
                trace,
            )
            package_error.package = package
            return package_error
        import_hint = _own_import_hint(root, source)
        module_error = UserCodeError(
            f"{location or subject} needs the module “{missing_name}”, which is not installed "
            "here.",
            import_hint
            or f"If “{root}” is a file or folder of your project, import the folder that contains "
            "it, with bks_model.py or bks_dataset.py at the top of that folder. If it is a "
            f"package, install it for {sys.executable}.",
            trace,
        )
        module_error.module = "" if import_hint else root
        return module_error
    location = _location_of(error, source)
    suffix = f" ({location})" if location else ""
    user_error = UserCodeError(
        f"{subject} raised {describe(error)}{suffix}.", _remedy(error, subject, location), trace
    )
    user_error.called_function = subject
    return user_error


def _owner_label(location: str) -> str:
    file = Path(location.partition(",")[0]).stem
    return {"bks_dataset": "The loader", "bks_model": "The model"}.get(file, "The code")


def _own_import_hint(module: str, source: UserSource | None) -> str:
    """Return how to import a module that is a part of the project, "" if it is none."""
    for known_source in [source] if source else known_sources.values():
        for path in sorted(known_source.folder.rglob("*")):
            if path.stem == module and (path.is_dir() or path.suffix == ".py"):
                package_path = path.parent.relative_to(known_source.folder)
                package = ".".join(package_path.parts)
                return f"It is in {package_path.as_posix()}: import it from {package}."
    return ""


_CALL = re.compile(r"(\w+)\(\) (?:missing \d+ required|takes [\w ]+ but \d+ )")
_SIGNATURES = {
    "forward": "The model is called with one object, the data of the loader; unpack it: def "
    "forward(self, data): left, right = data.",
    "loss": "It is called with the output and the target: def loss(self, output, target).",
    "metrics": "It is called with the output and the target: def metrics(self, output, target).",
    "collate": "It is called with a list of items: def collate(self, items).",
    "__getitem__": "It is called with a number: def __getitem__(self, index).",
    "UserModel()": "The model is created without arguments: give each argument a default value.",
    "UserDataset()": "The loader is created with only the dataset's folder: give each other "
    "argument a default value.",
}
_DENIED = re.compile("Read-only file system|Permission denied")
_TYPES = re.compile(
    r"Found dtype \w+ but expected|expected scalar type|have the same dtype|dtype to be \w+"
    r"|Input type \((?!.*cuda).* type|not implemented for '(?:Int|Short|Byte|Char|Bool|Double)'"
)


def _remedy(error: BaseException, subject: str, location: str) -> str:
    """Return the remedy for common mistakes; otherwise ""."""
    text = _text(error)
    if isinstance(error, TypeError) and not location and (call := _CALL.search(text)):
        # No line of user code: the call itself failed, not one inside the function.
        return _SIGNATURES.get(subject.replace("UserVal", "User"), _SIGNATURES.get(call[1], ""))
    if isinstance(error, ImportError) and "relative import" in text:
        return (
            "The import goes beyond the imported files. Import the folder above, with "
            "bks_model.py or bks_dataset.py at the top of that folder."
        )
    if isinstance(error, OSError | RuntimeError) and _DENIED.search(text):
        return (
            "The files of the library are read-only, so that every job gets the same: keep a cache "
            "in memory, or in a folder of your own, such as Path.home() / '.cache'."
        )
    if isinstance(error, RuntimeError | NotImplementedError) and _TYPES.search(text):
        return (
            "Return data and targets in the type that the model computes with: usually 32-bit "
            "floats (.float()), and class numbers as 64-bit integers (.long())."
        )
    return ""


def describe(error: BaseException, limit: int = 300) -> str:
    """Return ``ValueError: the message``, on one line and without a full stop."""
    text = " ".join(_public_names(_text(error)).split()).rstrip(".")
    name = type(error).__name__
    return name if not text else f"{name}: {text if len(text) < limit else text[:limit] + '…'}"


def _text(error: BaseException) -> str:
    # A user's exception may have a __str__ that raises.
    with suppress(Exception):
        return str(error)
    return ""


def _public_names(text: str) -> str:
    """Return ``text`` with module names as the user wrote them."""
    for name in sorted(known_sources, key=len, reverse=True):
        text = text.replace(f"{name}.", "")
    return text


def _relative_path(filename: str, source: UserSource | None) -> str:
    for known_source in [source] if source else known_sources.values():
        with suppress(ValueError):
            return Path(filename).relative_to(known_source.folder).as_posix()
    return Path(filename).name


def _is_user_file(filename: str) -> bool:
    return any(filename.startswith(f"{source.folder}{os.sep}") for source in known_sources.values())


def _location_of(error: BaseException, source: UserSource | None) -> str:
    """Return the last line of the user's own code that raised or passed the error, or ""."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_file(f.filename)]
    return (
        f"{_relative_path(frames[-1].filename, source)}, line {frames[-1].lineno}" if frames else ""
    )


def clean_traceback(error: BaseException, limit: int = 20_000) -> str:
    """Return the traceback from the user's first line on, without the import machinery."""
    trace_back = traceback.TracebackException.from_exception(error, limit=-200)
    frames = [f for f in trace_back.stack if not f.filename.startswith("<frozen importlib")]
    first_index = next((n for n, f in enumerate(frames) if _is_user_file(f.filename)), None)
    if first_index is not None:
        frames = frames[first_index:]
    trace_back.stack = traceback.StackSummary.from_list(
        [f for f in frames if Path(f.filename).parent != Path(__file__).parent]
    )
    text = "".join(trace_back.format(chain=False))
    return text if len(text) <= limit else f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"


def with_article(name: str) -> str:
    """Return the name with its article."""
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
