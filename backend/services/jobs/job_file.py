"""Job files of the user: read and write the TOML that a job is created from, and templates.

Templates are named job files in ``templates/`` of the data root and not among one user's
preferences: a template names models, datasets and nodes of that data root, a team uses the same
ones, and they are backed up and read as plain files.
"""

from __future__ import annotations

import os
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenRoot
from backend.records.base import number_format
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import closest_match, name_error, sanitize
from backend.records.jobs.template import SUFFIX, Template, describe, template_of

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


class TemplateService:
    """Load and save templates. Every call blocks and may run on any thread."""

    def __init__(self, root: OpenRoot) -> None:
        self._root = root

    def list(self) -> tuple[Template, ...]:
        """Return all templates by name; a damaged file has an error and hides no other."""
        return tuple(self._entry(name) for name in self._names())

    def load(self, name: str) -> dict[str, Any]:
        """Return the settings, as a job file without a name.

        Raises:
            BackendError: There is no such template, or its file is damaged.
        """
        names = self._names()
        if name not in names:
            suggestion = closest_match(name, names)
            raise BackendError(
                f"There is no template “{sanitize(name)}”.",
                f"Did you mean “{sanitize(suggestion)}”?"
                if suggestion
                else f"List the templates: {COMMAND} template list",
            )
        return self._read(name)

    def save(self, name: str, raw: Mapping[str, Any], *, overwrite: bool = False) -> Template:
        """Save settings under a name.

        Raises:
            BackendError: The name is invalid, or exists and ``overwrite`` is not set; nothing was
                changed.
        """
        self._require_valid_name(name)
        content = tomli_w.dumps(template_of(raw)).encode()
        path = self._path(name)
        with as_backend_error(f"The template “{name}” could not be saved"):
            self._root.files.make_folder(self._root.templates, exist_ok=True)
            if overwrite:
                self._root.files.replace_bytes(path, content)
            else:
                self._create(name, content)
        return self._entry(name)

    def rename(self, name: str, new_name: str) -> Template:
        """Rename a template; an existing template is never overwritten."""
        self._require_valid_name(new_name)
        self.load(name)
        with as_backend_error(f"The template “{name}” could not be renamed"):
            self._create(new_name, self._path(name).read_bytes())
            self._root.files.remove(self._path(name))
        return self._entry(new_name)

    def remove(self, name: str) -> Template:
        """Move a template to the trash of the data root, even a damaged one."""
        if name not in self._names():
            self.load(name)
        template = self._entry(name)
        trash = self._root.trash / "templates"
        with as_backend_error(f"The template “{name}” could not be moved to the trash"):
            self._root.files.make_folder(self._root.trash, exist_ok=True)
            self._root.files.make_folder(trash, exist_ok=True)
            target = trash / f"{name}{SUFFIX}"
            while self._root.files.exists(target):
                target = trash / f"{name}-{secrets.token_hex(3)}{SUFFIX}"
            self._root.files.rename(self._path(name), target)
        return template

    def _names(self) -> tuple[str, ...]:
        with (
            as_backend_error("The templates could not be read"),
            suppress(FileNotFoundError),
        ):
            entries = self._root.files.names(self._root.templates)
            names = (
                entry.removesuffix(SUFFIX)
                for entry in entries
                if entry.endswith(SUFFIX) and not entry.startswith(".")
            )
            return tuple(sorted(names, key=str.casefold))
        return ()

    def _entry(self, name: str) -> Template:
        path = self._root.display_path(self._path(name))
        try:
            return Template(name, describe(self._read(name)), path)
        except BackendError as error:
            return Template(name, "", path, str(error))

    def _read(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        with as_backend_error(f"The template “{name}” could not be read"):
            self._root.files.refresh_file(path)
        return template_of(read_job_file(path))

    def _create(self, name: str, content: bytes) -> None:
        try:
            self._root.files.create(self._path(name), content)
        except FileExistsError as error:
            raise BackendError(
                f"The template “{name}” exists already and was not changed.",
                "Choose another name, or replace the template.",
            ) from error

    def _path(self, name: str) -> Path:
        return self._root.templates / f"{name}{SUFFIX}"

    @staticmethod
    def _require_valid_name(name: str) -> None:
        error = name_error(name)
        if error:
            raise BackendError(error, "Nothing was changed.")
