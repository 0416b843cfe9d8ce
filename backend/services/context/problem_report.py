"""Write a problem report: versions, checks and the ends of the logs, without secrets.

Nothing is sent. Secrets are found by where they are: the values of environment variables whose
names say so, and every value of a job's own environment.
"""

from __future__ import annotations

import json
import os
import platform
import re
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from backend import VERSION
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base.schema import json_value

if TYPE_CHECKING:
    from backend.services.context.container import Services

_LIBRARIES = ("PySide6", "pyqtgraph", "numpy", "SQLAlchemy", "fabric", "paramiko")
_LOG_BYTES = 2**20
_MAX_JOBS = 20
HIDDEN = "(left out)"
SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
_MIN_SECRET_LENGTH = 4
"""Shorter values ("1", "yes") are no secrets, and replacing them would spoil many words."""


def write_report(services: Services, path: Path, log: Path) -> Path:
    """Write the report as a zip to ``path``.

    Raises:
        BackendError: The file cannot be written.
    """
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in _report_files(services, log).items():
                archive.writestr(name, text)
    except OSError as error:
        raise BackendError(
            f"The report could not be written to {path}: {error.strerror}.",
            "Choose another folder.",
        ) from error
    return path


def _report_files(services: Services, log: Path) -> dict[str, str]:
    views = services.jobs.queries.list()
    newest_views = sorted(views, key=lambda view: view.created, reverse=True)[:_MAX_JOBS]
    secret_filter = SecretFilter([dict(os.environ)], (view.config.environment for view in views))
    jobs = [
        {
            "id": view.id,
            "state": view.state.value,
            "run": view.run,
            "ranks": view.world_size,
            "message": view.status.message,
            "sentence": view.error.message if view.error else "",
            "traceback": view.error.traceback if view.error else "",
        }
        for view in newest_views
    ]
    files = {
        "versions.json": _json(_versions() | {"jobs": len(views)}),
        "checks.json": _json(json_value(services.nodes.doctor())),
        "jobs.json": _json(jobs),
        **{path.name: _tail(path) for path in log.parent.glob(f"{log.name}*")},
        "agent.log": _tail(Path.home() / ".ringmaster" / "agent.log"),
    }
    for view in newest_views:
        attempt = services.data_root.job(view.id).attempt(view.run)
        for path in (attempt.supervisor_log, *attempt.path.glob("guard-*.log")):
            files[f"{view.id}/{path.name}"] = _tail(path)
    return {name: secret_filter(text) for name, text in files.items() if text}


class SecretFilter:
    """Takes secrets and the user's home folder out of a text."""

    def __init__(
        self,
        environments: Iterable[Mapping[str, str]],
        job_environments: Iterable[Mapping[str, str]],
    ) -> None:
        values = {
            v
            for environment in environments
            for k, v in environment.items()
            if SECRET_NAME.search(k)
        }
        values |= {value for environment in job_environments for value in environment.values()}
        self._values = sorted(
            (value for value in values if len(value) >= _MIN_SECRET_LENGTH), key=len, reverse=True
        )

    def __call__(self, text: str) -> str:
        for value in self._values:
            # As it stands in a log, and as JSON writes it.
            for form in {
                value,
                json.dumps(value)[1:-1],
                json.dumps(value, ensure_ascii=False)[1:-1],
            }:
                text = text.replace(form, HIDDEN)
        return text.replace(str(Path.home()), "~")


def _versions() -> dict[str, object]:
    return {
        "ringmaster": VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        swallowed(error)
        return ""


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
