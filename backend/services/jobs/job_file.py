"""Job files of the user: read and write the TOML that a job is created from."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from backend.base.errors import BackendError
from backend.records.base import number_format
from backend.records.base.atomic_files import replace_bytes

_JOB_FILE_BYTES = 1_000_000


def read_job_file(path: Path) -> dict[str, Any]:
    """Read a job file as plain values.

    Raises:
        BackendError: The file cannot be read or is not TOML; the message names the line.
    """
    try:
        with path.open("rb") as file:
            if not os.path.isfile(path):
                raise BackendError(f"{path} is not a file.")
            content = file.read(_JOB_FILE_BYTES + 1)
    except OSError as error:
        raise BackendError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(content) > _JOB_FILE_BYTES:
        limit = number_format.count(_JOB_FILE_BYTES)
        raise BackendError(f"{path} is larger than {limit} bytes, so it is not a job file.")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BackendError(
            f"{path}, line {line}: a byte is not UTF-8.", "Save the file as UTF-8."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise BackendError(
            f"{path}, {_locate_message(str(error), content)}", "Fix that line of the job file."
        ) from error
    except RecursionError as error:
        raise BackendError(f"{path} is nested too deeply for a job file.") from error


def write_job_file(raw: Mapping[str, Any], path: Path, *, overwrite: bool = False) -> Path:
    """Write a job file to change and create; replace an existing file only on request."""
    content = tomli_w.dumps(raw).encode()
    try:
        if overwrite:
            replace_bytes(path, content)
            return path.absolute()
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise BackendError(
            f"{path} exists already and is left as it is.", "Choose another name."
        ) from error
    except OSError as error:
        raise BackendError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path.absolute()


def _locate_message(message: str, content: bytes) -> str:
    """Format tomllib's "Expected '=' … (at line 3, column 5)" as ``line 3: expected '=' …``."""
    problem, separator, location = message.rpartition(" (at ")
    if not separator:
        return message
    location = location.rstrip(")")
    if location == "end of document":
        location = f"line {content.count(bytes([10])) + 1}"
    line = location.partition(",")[0]
    return f"{line}: {problem[0].lower() + problem[1:]}."
