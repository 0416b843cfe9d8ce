"""The folder of a job: created in one step, claimed by making a folder, moved and never deleted.

Two desktops may act on one job at the same moment without knowing of each other, so each action
that must happen once is one file system call that only one of them can win: the folder of a new job
is renamed into place, a run is claimed by ``mkdir``, a stop request is created exclusively, an
action of a user is a file that is added and never changed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import socket
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs import owners
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import cached_reader, read_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.schema import json_value
from backend.records.base.validation import sanitize
from backend.records.jobs.audit_entry import AuditEntry, add_entry, entry_number
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import ParsedJob, parse_job, with_changes
from backend.records.jobs.metric_names import measures_quality, usual_mode
from backend.records.jobs.schedulers import is_replaced
from backend.records.jobs.settings import CHANGEABLE, default_value, is_of, value_at
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.jobs.stop_request import StopRequest, pause_requested, stop_requested
from backend.records.jobs.view import JobView
from backend.records.library.item import PARTS, Kind, Pin
from backend.records.sweeps.search import Proposal, StoredSearch
from backend.records.sweeps.spec import sweep_name, sweep_of

_SCHEMA = 1
_CONFIGS_REMEMBERED = 256
_CHANGE_KEYS = {"optimizer.lr": "learning_rate"}
"""Keys of ``placement.json`` that are not the path of the setting."""
_PUT_BACK = "Restore it from a backup. The other files of the job are unchanged"
# Without letters and digits that are easily confused.
_ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"

_VALIDATES = re.compile(r"val|eval|test", re.IGNORECASE)


@dataclass(frozen=True)
class JobFile:
    """The content of a job's folder; everything except name, notes and tags is written once."""

    id: str
    config: JobConfig
    pins: Mapping[str, Pin]
    created: str
    user: str
    name: str
    notes: str
    tags: tuple[str, ...]

    def parts(self) -> dict[Kind, Pin]:
        """Return model, dataset and loader of the job.

        Raises:
            BackendError: It runs a script.
        """
        if self.config.script:
            raise BackendError(
                f"The job {self.id} runs a script, and only the script knows its model.",
                "Open its checkpoints with the program that wrote them.",
            )
        return {kind: self.pins[kind.value] for kind in PARTS}


def view_of(
    file: JobFile,
    status: RunStatus,
    best_metric: tuple[str, float] | None = None,
    uncertainty: str = "",
) -> JobView:
    """Build the job's view: its settings and its status."""
    if status.run <= 1:
        # If an older version wrote the job's first run, there is none before it.
        status = replace(status, earlier_gpu_s=0.0)
    if best_metric is None and file.config.script:
        best_metric = _drawn_metric(file.config.checkpoint.best_metric, status.metrics)
    if status.state is JobState.STOPPING:
        status = replace(status, eta_s=None)
    config, run = file.config, status.continuation
    if run is not None:
        config = replace(config, placement=run.placement, batch_size=run.batch_size)
    return JobView(
        id=file.id,
        name=file.name,
        config=config,
        created=file.created,
        status=status,
        best_metric=best_metric,
        user=file.user,
        notes=file.notes,
        tags=file.tags,
        pins=file.pins,
        contact_warning=uncertainty,
    )


def _drawn_metric(
    best_metric: str, metrics: Mapping[str, float | None]
) -> tuple[str, float] | None:
    """Return the newest value by which a script is judged.

    A script names its metrics itself: without ``best_metric`` it is the first one whose name says
    which values are better, of a validation before others, or else the first that may.
    """
    values = {name: value for name, value in metrics.items() if value is not None}
    names = [name for name in values if measures_quality(name)]
    names.sort(key=lambda name: (not usual_mode(name), not _VALIDATES.search(name)))
    if best_metric in values:
        return best_metric, values[best_metric]
    return (names[0], values[names[0]]) if names else None


def create_job(root: OpenRoot, config: JobConfig, pins: Mapping[str, Pin]) -> JobFile:
    """Make the folder of a new job in one step."""
    root.files.make_folder(root.jobs, exist_ok=True)
    user, created = user_name(), timestamps.utc_now()
    while True:
        job_id = new_id()
        folder = root.job(job_id)
        new_folder = root.jobs / f".{job_id}.new"
        if root.files.exists(folder.path):
            continue
        try:
            root.files.make_folder(new_folder)
        except FileExistsError:
            continue
        try:
            new_job = OpenJob(new_folder, root.files)
            make_parts(new_job)
            root.files.replace_bytes(new_job.config, tomli_w.dumps(config.to_dict()).encode())
            meta = meta_of(job_id, config, pins, created, user)
            root.files.replace_json(new_job.meta, meta)
            root.files.rename(new_folder, folder.path)
        except BaseException:
            root.files.remove_tree(new_folder)
            raise
        return JobFile(
            job_id, config, dict(pins), created, user, config.name, config.notes, config.tags
        )


def new_id() -> str:
    """Return a job id that is most likely unused."""
    today = datetime.now(UTC).strftime("%Y%m%d")
    return f"{today}-{''.join(secrets.choice(_ID_LETTERS) for _ in range(6))}"


def meta_of(
    job_id: str, config: JobConfig, pins: Mapping[str, Pin], created: str, user: str
) -> dict[str, Any]:
    """Return the content of ``meta.json`` for a new job."""
    return {
        "schema": _SCHEMA,
        "id": job_id,
        "created": created,
        "user": user,
        "host": socket.gethostname(),
        "pins": json_value(pins),
        "config_sha256": config.sha256(),
    }


def make_parts(folder: OpenJob) -> None:
    """Make the subfolders of a job, which its ranks fill."""
    for part in (folder.logs, folder.output, folder.checkpoints, folder.attempts):
        folder.files.make_folder(part)


def read_job(folder: JobFolder) -> JobFile:
    """Read the folder of a job.

    Raises:
        BackendError: It is not a job's folder, or cannot be read.
    """
    with _naming_file(folder, folder.meta):
        meta = read_json(folder.meta)
        if int(meta["schema"]) > _SCHEMA:
            raise BackendError(
                f"The job {folder.job_id} was made by a newer Ringmaster.",
                "Update Ringmaster on this computer.",
            )
        pins = {
            str(kind): Pin(str(pin["name"]), int(pin["version"]), str(pin["sha256"]))
            for kind, pin in meta["pins"].items()
        }
        created, user = str(meta["created"]), str(meta.get("user", ""))
    with _naming_file(folder, folder.config):
        parsed_job = _config_in(folder.config)
    config = parsed_job.config
    if config is None:
        raise BackendError(
            f"config.toml of the job {folder.job_id} was changed and is no longer a job file: "
            f"{parsed_job.errors[0].message}"
        )
    with suppress(FileNotFoundError, ValueError, KeyError):
        try:
            record = read_json(folder.placement)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BackendError(
                f"placement.json of the job {folder.job_id} cannot be read: {error.strerror}."
            ) from error
        keys = {path: _CHANGE_KEYS.get(path, path) for path in CHANGEABLE}
        changes = {path: record[key] for path, key in keys.items() if key in record}
        # Together, because a rule may connect them; one that is damaged does not spoil the others.
        parts = (
            [changes]
            if with_changes(config, changes).config
            else [{path: value} for path, value in changes.items()]
        )
        for part in parts:
            config = with_changes(config, part).config or config
    proposal = stored_record(Proposal, folder.proposal) if folder.proposal.exists() else None
    if proposal is not None:
        config = with_changes(config, proposal.values).config or config
    name, notes, tags = config.name, config.notes, config.tags
    with suppress(OSError, ValueError):
        edited_notes = read_json(folder.notes)
        name, notes = str(edited_notes.get("name", name)), str(edited_notes.get("notes", notes))
        tags = tuple(str(tag) for tag in edited_notes.get("tags", tags))
    return JobFile(folder.job_id, config, pins, created, user, name, notes, tags)


@contextlib.contextmanager
def _naming_file(folder: JobFolder, path: Path) -> Iterator[None]:
    """Name the file of a job that cannot be read, and what to do."""
    file_label = f"{path.name} of the job {folder.job_id}"
    try:
        yield
    except FileNotFoundError as error:
        if not any(os.path.exists(job_path) for job_path in (folder.meta, folder.config)):
            raise BackendError(f"There is no job {folder.job_id} here.") from error
        raise BackendError(f"{file_label} is missing.", f"{_PUT_BACK} in {folder.path}.") from error
    except OSError as error:
        raise BackendError(f"{file_label} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendError(f"{file_label} is damaged.", f"{_PUT_BACK} in {folder.path}.") from error


@cached_reader(_CONFIGS_REMEMBERED)
def _config_in(path: Path) -> ParsedJob:
    return parse_job(tomllib.loads(path.read_text(encoding="utf-8-sig")))


def pending_search(folder: OpenJob, view: JobView) -> StoredSearch | None:
    """Return the search that is to propose the values of a job, None if there is none."""
    tag = sweep_of(view.tags)
    path = DataRoot(folder.path.parent.parent).search(sweep_name(tag)).definition
    if not tag or folder.proposal.exists():
        return None
    folder.files.refresh_file(path)
    search = stored_record(StoredSearch, path)
    return search if search is not None and view.id in search.jobs else None


def write_placement(folder: OpenJob, config: JobConfig) -> None:
    """Let the job run with the `CHANGEABLE` settings of ``config`` from now on."""
    raw = config.to_dict()
    changes = {}
    for path in CHANGEABLE:
        is_used = not is_replaced(path.partition(".")[0], raw)
        # A job with a script has no batch size and no learning rate.
        if is_used and is_of(path, script=bool(config.script)):
            value = value_at(raw, path)
            # The job file may have another value than the default.
            changes[_CHANGE_KEYS.get(path, path)] = default_value(path) if value is None else value
    folder.files.replace_json(folder.placement, changes)


def write_notes(
    folder: OpenJob,
    name: str,
    notes: str,
    tags: tuple[str, ...],
) -> None:
    folder.files.replace_json(folder.notes, {"name": name, "notes": notes, "tags": list(tags)})


def request_stop(folder: OpenJob, run: int) -> bool:
    """Create ``job.lock`` for ``run``. Return False if that request existed already.

    It takes the place of one by which the job only gives way.
    """
    request = json_value(_stop_request(run))
    try:
        _create_request(folder, json.dumps(request).encode())
    except FileExistsError:
        folder.files.refresh_file(folder.stop_request)
        # One that cannot be read here cannot be read by the ranks either.
        with suppress(PermissionError):
            if stop_requested(folder.stop_request, run) and not pause_requested(
                folder.stop_request, run
            ):
                return False
        folder.files.replace_json(folder.stop_request, request)
    return True


def request_kill(folder: OpenJob, run: int) -> None:
    """Request that ``run`` ends at once, after a stop request had no effect."""
    folder.files.replace_json(folder.stop_request, json_value(_stop_request(run, kills_run=True)))


def _stop_request(run: int, *, kills_run: bool = False) -> StopRequest:
    return StopRequest(run, user_name(), socket.gethostname(), timestamps.utc_now(), kills_run)


def _create_request(folder: OpenJob, request: bytes) -> None:
    try:
        folder.files.create(folder.stop_request, request)
    except FileExistsError:
        raise
    except (OSError, BackendError):
        # A full disk can still create a name, and an empty lock is a request (`stop_request`).
        folder.files.create(folder.stop_request, b"")


def move_to_trash(root: OpenRoot, folder: OpenJob) -> Path:
    root_of_jobs = root.trash / "jobs"
    root.files.make_folder(root.trash, exist_ok=True)
    root.files.make_folder(root_of_jobs, exist_ok=True)
    target, number = root_of_jobs / folder.job_id, 1
    while root.files.exists(target):
        number += 1
        target = root_of_jobs / f"{folder.job_id}.{number}"
    root.files.rename(folder.path, target)
    return target


def take_from_trash(root: OpenRoot, job_id: str) -> bool:
    """Restore the folder that was moved to the trash last. Return False if there is none.

    Raises:
        FileExistsError: A folder of that name exists; both are unchanged.
    """
    root_of_jobs = root.trash / "jobs"
    try:
        names = root.files.names(root_of_jobs)
    except FileNotFoundError:
        return False
    folder_names = {}
    for name in names:
        stem, _, number = name.partition(".")
        if stem == job_id and (number.isdecimal() or not number):
            folder_names[int(number or 1)] = name
    if not folder_names:
        return False
    folder = root.job(job_id)
    if root.files.exists(folder.path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder.path))
    root.files.rename(root_of_jobs / folder_names[max(folder_names)], folder.path)
    return True


class JobFolderReader:
    """Reads jobs only from their folders."""

    def __init__(self, root: OpenRoot) -> None:
        self._root = root

    def ids(self) -> list[str]:
        """Return the names of the folders of jobs, oldest first.

        Raises:
            FileNotFoundError: No job was made yet, or the data root is not mounted.
        """
        return sorted(name for name in os.listdir(self._root.jobs) if not name.startswith("."))

    def read(self, job_id: str) -> JobView:
        """Read a job's folder, without checking processes: a live job may have ended.

        Raises:
            BackendError: It is not a job's folder, or cannot be read.
        """
        folder = self._root.job(job_id)
        file = read_job(folder)
        status = RunStatus(JobState.CREATED)
        try:
            status = RunStatus.from_dict(read_json(folder.status))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise BackendError(f"The status of the job {job_id} cannot be read: {error}.") from (
                error
            )
        try:
            run_exit = RunExit.from_dict(read_json(folder.attempt(status.run).exit))
            status = status.with_exit(run_exit)
        except (OSError, ValueError):
            # The run is active, or its end was not recorded; the status is all there is.
            pass
        return view_of(file, status)


_REMEMBERED = 4096
_IN_A_ROW_S = 600.0
_REASON_CHARS = 200
_log = logging.getLogger(__name__)


def add_action(folder: OpenJob, action: str, reason: str = "") -> None:
    """Record an action, also for the owner of the job. A failure is logged and prevents nothing."""
    if reason := sanitize(" ".join(reason.split()), _REASON_CHARS):
        action = f"{action}: {reason}"
    try:
        entry = add_entry(folder, folder.files, action, user_name())
        file = read_job(folder)
        owners.notify_owner(folder, file.user, file.name, entry.message)
    except (OSError, BackendError):
        _log.warning("%s: “%s” could not be recorded", folder.job_id, action, exc_info=True)


def add_once(folder: OpenJob, file: JobFile, action: str) -> None:
    """Record repeated actions once: notes are saved while they are typed."""
    newest_entry = acts_of(folder, file)[0]
    is_recent = abs(time.time() - timestamps.seconds(newest_entry.time)) < _IN_A_ROW_S
    if not (is_recent and (newest_entry.action, newest_entry.user) == (action, user_name())):
        add_action(folder, action)


def acts_of(folder: JobFolder, file: JobFile) -> tuple[AuditEntry, ...]:
    """Return all actions on a job, the newest first, its creation last."""
    entries = []
    paths = sorted(folder.acts.glob("*.json"), key=lambda p: entry_number(p.name), reverse=True)
    for path in paths:
        # Skip an incomplete file, or one of another program.
        with suppress(OSError, ValueError, AttributeError):
            entries.append(_read_entry(path))
    return (*entries, AuditEntry(file.created, "Created", file.user))


@cached_reader(_REMEMBERED)
def _read_entry(path: Path) -> AuditEntry:
    return AuditEntry.from_dict(read_json(path))
