"""The table of checks of a data root: the subject of each check, its finding, and its repair.

A check yields a `CheckFinding` for each finding and changes nothing. The command line, the window
and the guide read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.base.room import disk_space
from backend.datastore.access.root_access import OpenJob, make_above, move_into
from backend.datastore.jobs import checkpoint_files
from backend.datastore.library import library_files, staging
from backend.datastore.library.library_files import VersionFolder
from backend.node.queue import entries as queue_entries
from backend.node.run.finalize import Supervision
from backend.records.base import access_modes, number_format, timestamps
from backend.records.base.atomic_files import TEMPORARY_NAME, read_json
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    LATEST,
    MANUAL_RUNS,
    SIDECAR_SUFFIX,
    DataRoot,
    JobFolder,
    names_in,
)
from backend.records.base.validation import sanitize
from backend.records.jobs.checkpoint import Checkpoint, read_record
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.library.item import KINDS, WEIGHTS_DETAIL, Kind, Pin
from backend.records.nodes.reading import Orphan
from backend.services.verify.scan import Scan, ScannedJob, ScannedVersion
from backend.ssh.interface import Unreachable

_DISK_REMEDY = "Check the disk of the data root, and whether you may read it."


@dataclass(frozen=True)
class CheckFinding:
    """A finding of a check.

    Attributes:
        subject: The job, version or other part of the data root.
        values: The values of the message.
        moves: The paths that a repair moves to the trash.
        repair: A repair that does more than that.
        remedy: The action of the user, if there is no repair.
    """

    subject: str
    values: Mapping[str, object] = field(default_factory=dict)
    moves: Sequence[Path] = ()
    repair: Callable[[], object] | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """A check of a data root.

    Attributes:
        finding: The message of a finding, with placeholders.
        repair: The description of a repair. Moved paths go to a new folder in the trash.
        find: Yields the findings.
    """

    name: str
    subject: str
    finding: str
    repair: str
    find: Callable[[Scan], Iterable[CheckFinding]]


def _is_damaged(path: Path) -> bool:
    """Return whether a record was cut or overwritten; False for an unreadable record."""
    try:
        read_json(path)
    except (OSError, ValueError) as error:
        swallowed(error)
        return isinstance(error, ValueError)
    return False


def _check_unfinished(scan: Scan) -> Iterator[CheckFinding]:
    for kind in Kind:
        folder = library_files.kind_folder(scan.root, kind)
        for staging_folder in staging.stagings(folder, scan.names(folder)):
            if staging_folder.is_left_over:
                yield CheckFinding(
                    f"import of the {kind.value} {sanitize(staging_folder.name)}",
                    {},
                    [staging_folder.path],
                )
    for name in scan.names(scan.root.jobs):
        path = scan.root.jobs / name
        if name.startswith(".") and name.endswith(".new") and scan.is_stale(path):
            yield CheckFinding(f"new job {sanitize(name[1:-4])}", {}, [path])


def _check_temporary(scan: Scan) -> Iterator[CheckFinding]:
    root = scan.root
    root_folders = [root.path, root.jobs, root.queue, root.templates, root.studies, root.nodes]
    folders = [("data root", path) for path in root_folders]
    folders += [("data root", root.nodes / name) for name in scan.names(root.nodes)]
    folders += [(v.folder.text, v.folder.path) for v in scan.versions]
    for job in scan.jobs:
        job_folder = job.folder
        parts = (job_folder.checkpoints, job_folder.output, job_folder.attempts, job_folder.acts)
        folders += [(job.subject, job_folder.path), *((job.subject, path) for path in parts)]
    for subject, folder in folders:
        for name in scan.names(folder):
            if TEMPORARY_NAME.fullmatch(name) and scan.is_stale(folder / name):
                yield CheckFinding(subject, {"file": sanitize(name)}, [folder / name])


def _check_version_records(scan: Scan) -> Iterator[CheckFinding]:
    for version in scan.versions:
        folder = version.folder
        if version.error is None or scan.cannot_list(folder.path):
            continue
        is_lost = folder.meta.name not in scan.names(folder.path) or _is_damaged(folder.meta)
        is_used = folder.removed.name in scan.names(folder.path.parent)
        repair = partial(_move_version, scan, folder) if is_lost and not is_used else None
        moves = [folder.path] if is_lost else []
        yield CheckFinding(folder.text, {"why": version.error}, moves, repair, version.error.remedy)


def _move_version(scan: Scan, folder: VersionFolder) -> None:
    root, target = scan.root, scan.trash_folder / folder.path.relative_to(scan.root.path)
    removal_record = {
        "removed": timestamps.utc_now("seconds"),
        "trash": str(target.relative_to(root.trash)),
    }
    root.files.replace_json(folder.removed, removal_record)
    try:
        move_into(root, folder.path, target)
    except BaseException:
        root.files.remove(folder.removed)
        raise
    scan.services.catalogue.remove_item(folder.kind, folder.name, folder.version)


def _check_version_files(scan: Scan) -> Iterator[CheckFinding]:
    library = scan.services.library
    for number, version in enumerate(scan.versions):
        scan.progress.step(number, len(scan.versions), "Reading the library")
        if (item := version.item) is None:
            continue
        pin = Pin(item.name, item.version, item.sha256)
        try:
            if scan.hashes:
                library.verify(item.kind, pin, _ByteProgress(scan), thorough=True)
            else:
                library.verify_names(item.kind, pin)
            _check_weights(scan, version)
        except (Cancelled, Unreachable):
            raise
        except BackendError as error:
            added_paths: tuple[str, ...] = ()
            with suppress(BackendError):  # The first error is shown.
                added_paths = library.added_files(item.kind, item.reference)
            moves = [version.folder.content / path for path in added_paths]
            yield CheckFinding(version.folder.text, {"why": error}, moves, remedy=error.remedy)


class _ByteProgress(Progress):
    """Adds the bytes of one version to those of the scan."""

    def __init__(self, scan: Scan) -> None:
        super().__init__()
        self._scan, self._done_amount = scan, 0.0

    def step(self, done_amount: float, total: float, title: str) -> None:
        self._scan.on_bytes(int(done_amount - self._done_amount))
        self._done_amount = done_amount


def _check_weights(scan: Scan, version: ScannedVersion) -> None:
    weights_record = version.item.details.get(WEIGHTS_DETAIL) if version.item is not None else None
    if not isinstance(weights_record, dict):
        return
    path, files = version.folder.path / str(weights_record.get("name", "")), scan.root.files
    reason = ""
    try:
        if files.size(path) != weights_record.get("bytes"):
            reason = "their size differs"
        elif scan.hashes and files.sha256(path, scan.on_bytes) != weights_record.get("sha256"):
            reason = "their contents differ"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise BackendError(
            f"The weights of the {version.folder.text} are not those that were added to it: "
            f"{reason}.",
            "Restore the file from a backup, or import the model again.",
        )


def _check_pinned_versions(scan: Scan) -> Iterator[CheckFinding]:
    versions = {(v.folder.kind, v.folder.name, v.folder.version): v for v in scan.versions}
    users: dict[tuple[Kind, Pin], int] = {}
    for job in scan.jobs:
        # An imported job may come without its dataset.
        if job.file is not None and job.folder.origin.name not in job.names:
            for key, pin in job.file.pins.items():
                if (kind := KINDS.get(key)) is not None:
                    users[kind, pin] = users.get((kind, pin), 0) + 1
    for (kind, pin), count in users.items():
        folder = VersionFolder(scan.root, kind, pin.name, pin.version)
        version = versions.get((kind, pin.name, pin.version))
        if version is None and folder.removed.name in scan.names(folder.path.parent):
            continue
        if version is None or (version.item is not None and version.item.sha256 != pin.sha256):
            reason = "is missing" if version is None else "differs from the version that was used"
            values = {"why": reason, "jobs": f"{count} job{'' if count == 1 else 's'}"}
            remedy = f"Restore {scan.root.display_path(folder.path)} from a backup."
            yield CheckFinding(folder.text, values, remedy=remedy)


def _check_job_records(scan: Scan) -> Iterator[CheckFinding]:
    for job in scan.jobs:
        if job.error is not None:
            record_names = {job.folder.meta.name, job.folder.config.name}
            moves = [] if record_names & job.names else [job.folder.path]
            yield CheckFinding(job.subject, {"why": job.error}, moves, remedy=job.error.remedy)


def _check_small_records(scan: Scan) -> Iterator[CheckFinding]:
    for job in scan.jobs:
        folder = job.folder
        if job.is_live:
            continue
        paths = [folder.status, folder.notes, folder.placement, folder.origin, folder.queued]
        paths = [path for path in (*paths, folder.queued_launch) if path.name in job.names]
        attempt = folder.attempt(folder.newest_run())
        for path in (*paths, folder.latest, attempt.exit, attempt.supervisor):
            if _is_damaged(path):
                yield CheckFinding(job.subject, {"file": path.relative_to(folder.path)}, [path])


def _check_run_ends(scan: Scan) -> Iterator[CheckFinding]:
    node_names = {entry.name for entry in scan.services.cluster.known_entries()}
    for job in scan.jobs:
        if job.run_inspection is None:
            continue
        run_facts, state = job.run_inspection
        values = {"job": job.folder.job_id, "run": run_facts.run}
        if state.unrecorded_end is not None:
            reason = state.unrecorded_end.message
            repair = partial(_record_end, scan, job.folder)
            yield CheckFinding(job.subject, {**values, "why": reason}, repair=repair)
        elif (
            job.is_live
            and run_facts.supervision is Supervision.ON_OTHER_HOST
            and job.file
            and job.file.config.allocation is None
        ):
            head = job.file.config.placement[0].node
            if head not in (THIS_COMPUTER, *node_names):
                reason = f"Its node {sanitize(head)} was removed, and only its agent can record it."
                remedy = f"Add {sanitize(head)} again, or move the job to the trash."
                yield CheckFinding(job.subject, {**values, "why": reason}, remedy=remedy)


def _record_end(scan: Scan, folder: OpenJob) -> None:
    # The end replaces the last status.
    if folder.status.exists():
        backup_path = scan.trash_folder / folder.status.relative_to(scan.root.path)
        make_above(scan.root, backup_path)
        scan.root.files.replace_bytes(backup_path, folder.status.read_bytes())
    scan.services.reaper.reap(folder.job_id)


def _check_queue(scan: Scan) -> Iterator[CheckFinding]:
    root = scan.root
    marks = {
        name for name in scan.names(root.queue) if name[0] != "." and name != root.pause_file.name
    }
    for name in sorted(marks - set(scan.job_ids)):
        if scan.is_missing(f"job {name}", root.job(name).path):
            reason = "The queue lists a job that does not exist"
            yield CheckFinding(f"job {name}", {"why": reason}, [root.queue / name])
    for job in scan.jobs:
        folder = job.folder
        mark, is_listed = root.queue / folder.job_id, folder.job_id in marks
        if queue_entries.entry_of(folder) is not None:
            if not is_listed and scan.is_stale(folder.queued):
                reason = "The job waits, but the queue does not list it, so it never starts"
                repair = partial(_restore_mark, scan, mark)
                yield CheckFinding(job.subject, {"why": reason}, repair=repair)
            continue
        leftover_paths = [p for p in (folder.queued, folder.queued_launch) if p.name in job.names]
        leftover_paths += [mark] if is_listed else []
        leftover_paths = [p for p in leftover_paths if scan.is_stale(p)]
        if leftover_paths and not any(
            map(_is_damaged, leftover_paths[: len(leftover_paths) - is_listed])
        ):
            yield CheckFinding(
                job.subject,
                {"why": "The job does not wait, but was left in the queue"},
                leftover_paths,
            )


def _restore_mark(scan: Scan, mark: Path) -> None:
    scan.root.files.make_folder(mark.parent, exist_ok=True)
    scan.root.files.replace_bytes(mark, b"")


def _check_checkpoints(scan: Scan) -> Iterator[CheckFinding]:
    for job in scan.jobs:
        for folder in scan.outputs(job):
            yield from _check_checkpoint_folder(scan, job, folder)


def _check_checkpoint_folder(
    scan: Scan, job: ScannedJob, folder: OpenJob
) -> Iterator[CheckFinding]:
    checkpoint_folder, names = folder.checkpoints, scan.names(folder.checkpoints)
    newest_name = "" if job.is_live else checkpoint_files.newest_name(folder)
    if newest_name and newest_name + SIDECAR_SUFFIX not in names:
        reason = f"{LATEST} names {sanitize(newest_name)}, which does not exist"
        yield CheckFinding(job.subject, {"why": reason}, [folder.latest])
    for name in names:
        stem, suffix = name[:-5], name[-5:]
        if name[0] == "." or name == LATEST or suffix != SIDECAR_SUFFIX:
            continue
        parts = (stem + CHECKPOINT_SUFFIX, name, stem + KEEP_SUFFIX)
        moves = [checkpoint_folder / part for part in parts if part in names]
        scan.checkpoints += 1
        error = _checkpoint_error(scan, job, checkpoint_folder / name)
        if error is not None:
            remedy = error[1] or ("Check again when its run has ended." if job.is_live else "")
            moves += [folder.latest] if stem == newest_name else []
            yield CheckFinding(
                job.subject, {"why": error[0]}, [] if remedy else moves, remedy=remedy
            )
    for name in () if job.is_live else names:
        stem = name.removesuffix(CHECKPOINT_SUFFIX)
        if name[0] == "." or name == stem or stem + SIDECAR_SUFFIX in names:
            continue
        if scan.is_stale(checkpoint_folder / name):
            reason = f"The checkpoint {sanitize(stem)} has no record, so it cannot be verified"
            yield CheckFinding(job.subject, {"why": reason}, [checkpoint_folder / name])


def _checkpoint_error(scan: Scan, job: ScannedJob, sidecar: Path) -> tuple[str, str] | None:
    """Return the error of a checkpoint and its remedy, "" for a move; None for a valid one."""
    name = sidecar.stem
    try:
        record = read_record(sidecar)
    except FileNotFoundError:
        if job.is_live:
            return None
        return f"The file of the checkpoint {name} is missing", ""
    except ValueError as error:
        swallowed(error)
        return f"The record of the checkpoint {name} was cut or overwritten", ""
    except OSError as error:
        return f"The record of the checkpoint {name} cannot be read: {error.strerror}", _DISK_REMEDY
    file_path = Path(record.path)
    has_file = (
        scan.root.files.exists(file_path)
        if record.file
        else file_path.name in scan.names(sidecar.parent)
    )
    return _content_error(scan, job, record, has_file)


def _content_error(
    scan: Scan, job: ScannedJob, record: Checkpoint, has_file: bool
) -> tuple[str, str] | None:
    if not has_file:
        # The oldest checkpoints of a live job are removed meanwhile.
        return None if job.is_live else (f"The file of the checkpoint {record.name} is missing", "")
    read_bytes = 0

    def count(read: int, _total: int) -> None:
        nonlocal read_bytes
        scan.on_bytes(read - read_bytes)
        read_bytes = read

    try:
        checkpoint_files.verify(scan.root.files, record, count, hashes=scan.hashes)
    except checkpoint_files.DamagedCheckpoint as error:
        return error.message.rstrip("."), ""
    except (Cancelled, Unreachable):
        raise
    except BackendError as error:
        return error.message.rstrip("."), _DISK_REMEDY
    return None


def _check_catalogue(scan: Scan) -> Iterator[CheckFinding]:
    catalogue = scan.services.catalogue
    for job_id in sorted(catalogue.job_ids() - set(scan.job_ids)):
        if scan.is_missing(f"job {job_id}", scan.root.job(job_id).path):
            yield CheckFinding(f"job {job_id}", repair=partial(catalogue.remove_jobs, [job_id]))
    version_keys = {(v.folder.kind, v.folder.name, v.folder.version) for v in scan.versions}
    for kind in Kind:
        if not library_files.kind_folder(scan.root, kind).is_dir():
            # Nothing was imported yet, or the folder is not mounted at the moment.
            continue
        for item in catalogue.items(kind):
            folder = VersionFolder(scan.root, kind, item.name, item.version)
            key = (kind, item.name, item.version)
            if key not in version_keys and scan.is_missing(folder.text, folder.path):
                yield CheckFinding(folder.text, repair=partial(catalogue.remove_item, *key))


def _check_processes(scan: Scan) -> Iterator[CheckFinding]:
    ready_names = [e.name for e in scan.services.cluster.known_entries() if e.is_ready]
    node_names = [THIS_COMPUTER, *ready_names]
    is_included = scan.subjects is None or any(s.startswith("process ") for s in scan.subjects)
    if not scan.job_ids or not is_included:
        return

    def find_orphans(node: str) -> tuple[Orphan, ...] | BackendError:
        try:
            return scan.services.nodes.orphans(node)
        except BackendError as error:
            return error

    with ThreadPoolExecutor(len(node_names)) as pool:
        for node, orphans in zip(node_names, pool.map(find_orphans, node_names), strict=True):
            if isinstance(orphans, BackendError):
                scan.not_checked.append(f"{node}: {orphans.with_remedy}")
                continue
            for orphan in orphans:
                subject = f"process {orphan.process.pid} on {node}"
                values = {"command": sanitize(orphan.command, 60), "why": orphan.message}
                yield CheckFinding(
                    subject, values, repair=partial(_end_process, scan, node, orphan)
                )


def _end_process(scan: Scan, node: str, orphan: Orphan) -> None:
    remaining_orphans = scan.services.nodes.end_orphans(node, (orphan,))
    if any(o.process == orphan.process for o in remaining_orphans):
        raise BackendError(
            f"The process {orphan.process.pid} on {node} did not end.",
            "Ask the administrator of the computer.",
        )


def _check_access(scan: Scan) -> Iterator[CheckFinding]:
    if not scan.root.files.is_mounted:
        return
    root = scan.root.path.stat()
    paths = [("data root", scan.root.path / name) for name in scan.names(scan.root.path)]
    for job in scan.jobs:
        job_folder = job.folder
        paths += [
            (job.subject, path)
            for path in (job_folder.path, job_folder.history, job_folder.tensorboard)
        ]
        for folder in (job_folder.path, job_folder.logs, job_folder.checkpoints):
            paths += [(job.subject, folder / name) for name in scan.names(folder)]
    for subject, path in paths:
        with suppress(FileNotFoundError):
            if path.name[0] != "." and access_modes.is_closed(path, root):
                repair = partial(access_modes.inherit_access, path, scan.root.path)
                yield CheckFinding(
                    subject, {"path": sanitize(scan.root.display_path(path), 300)}, repair=repair
                )


def _check_foreign_files(scan: Scan) -> Iterator[CheckFinding]:
    usual_names = {*(kind.folder for kind in Kind), "shared", "lost+found"}
    folders: list[tuple[str, DataRoot | JobFolder]] = [("data root", scan.root)]
    # A folder that is no job is a finding of its own.
    folders += [(job.subject, job.folder) for job in scan.jobs if job.file is not None]
    for subject, folder in folders:
        known_names = names_in(folder) | (usual_names if folder is scan.root else {MANUAL_RUNS})
        for name in scan.names(folder.path):
            if name[0] != "." and name not in known_names:
                remedy = "Move it out of the data root if no script needs it."
                yield CheckFinding(subject, {"file": sanitize(name)}, remedy=remedy)


def _check_disk_space(scan: Scan) -> Iterator[CheckFinding]:
    if not scan.root.files.is_mounted:
        scan.not_checked.append(
            f"{scan.root.name} is not mounted here, so its free space and imports of other "
            "computers that were not finished are checked only on its host."
        )
        return
    needed_bytes, free_bytes = scan.needed_bytes, disk_space(scan.root.path).free_bytes
    if needed_bytes > free_bytes:
        values = {
            "needed": number_format.size(needed_bytes),
            "free": number_format.size(free_bytes),
        }
        yield CheckFinding(
            "disk", values, remedy="Free some space, or move jobs to the trash and empty it."
        )


CHECKS = (
    Check(
        "half made",
        "Imports and new jobs that were begun and not finished",
        "The {what} was begun and not finished.",
        "Moves what was copied.",
        _check_unfinished,
    ),
    Check(
        "temporary files",
        "Temporary files of the program that were not changed for an hour",
        "The temporary file {file} was left behind ({what}).",
        "Moves it.",
        _check_temporary,
    ),
    Check(
        "version records",
        "The record of each version",
        "{why}",
        "Moves the version; its number is not used again.",
        _check_version_records,
    ),
    Check(
        "version files",
        "The files and weights of each version, against its list of files",
        "{why}",
        "Moves the files that were added.",
        _check_version_files,
    ),
    Check(
        "pinned versions",
        "The versions that jobs use",
        "The {what}, used by {jobs}, {why}.",
        "",
        _check_pinned_versions,
    ),
    Check(
        "job files",
        "Job file and record of each job",
        "{why}",
        "Moves a folder that holds no job.",
        _check_job_records,
    ),
    Check(
        "small records",
        "Status, notes, placement and end of each job",
        "{file} of the {what} was cut or overwritten.",
        "Moves it; the program does without it.",
        _check_small_records,
    ),
    Check(
        "runs without an end",
        "Runs that are over and have no end on record",
        "Run {run} of the job {job} has no end on record. {why}",
        "Ends what is left of the run, and records its end.",
        _check_run_ends,
    ),
    Check(
        "queue",
        "The list of the queue, against the jobs that wait",
        "{why} ({what}).",
        "Moves what was left, or lists the job again.",
        _check_queue,
    ),
    Check(
        "checkpoints",
        "Each checkpoint, against its record",
        "{why} ({what}).",
        "Moves it; a resume takes an older checkpoint.",
        _check_checkpoints,
    ),
    Check(
        "catalogue",
        "Jobs and versions that only the catalogue of this computer has",
        "The catalogue lists the {what}, which the data root does not have.",
        "Removes it from the catalogue.",
        _check_catalogue,
    ),
    Check(
        "processes",
        "Processes on this computer and the nodes whose run is over",
        "The {what} was left behind ({command}). {why}",
        "Ends it.",
        _check_processes,
    ),
    Check(
        "access",
        "Folders and files that other users of the data root could not use in the next run",
        "Not all users of the data root may use {path} ({what}).",
        "Gives it the rights of the data root; only its owner can.",
        _check_access,
    ),
    Check(
        "foreign files",
        "Files of other programs in the data root, and in the folders of jobs",
        "{file} is no file of the program ({what}).",
        "",
        _check_foreign_files,
    ),
    Check(
        "disk space",
        "The space that the next checkpoints of running and queued jobs need",
        "The next checkpoints need {needed}; {free} are free.",
        "",
        _check_disk_space,
    ),
)


def checks_table() -> str:
    """Return the table of checks in Markdown, for the guide."""
    lines = ["| what is checked | what a repair does |", "|---|---|"]
    lines += [
        f"| {check.subject} | {check.repair or 'Nothing: the finding says what to do.'} |"
        for check in CHECKS
    ]
    return "\n".join(lines)
