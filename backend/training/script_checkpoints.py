"""Checkpoints of a script: records of the files and folders that the script writes.

Only the records are Ringmaster's. A file or folder is recorded when it no longer grows, and again
when the script has written it again; the record is removed when the script has removed the file.
The files themselves are removed only if the user chose ``remove_old_checkpoints``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.base.log import suppress
from backend.records.base import timestamps
from backend.records.base.access_modes import make_folders
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.content import files_of, sha256_of, size_of
from backend.records.base.layout import SIDECAR_SUFFIX, JobFolder, script_checkpoint_name
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints, retired_checkpoints
from backend.records.jobs.launch import Launch
from backend.records.jobs.script import USUAL_CHECKPOINTS
from backend.records.jobs.status import last_status

_TEMPORARY = (".", "tmp-")
"""Prefixes of the names of unfinished files, also those of Hugging Face."""
_STATE_FILES = ("random_states_0.pkl", "optimizer.bin", "scheduler.bin")
_ZIP_BEGIN = b"PK\3\4"
_OPTIMIZER_BEGINS = pickle.dumps({"state": {}, "param_groups": []}, 2).partition(b"q\2")[0]
_QUIET_NS = 2_000_000_000
_NUMBER = re.compile(r"\d+")
_EPOCH_PREFIX = re.compile(r"(?<![a-z])(?:ep(?:och)?s?|v)[\W_]*$", re.IGNORECASE)
"""Pattern of the text before the number of an epoch or a version."""
_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class ScriptPosition:
    """Step and epoch of a script, with the values of its curves."""

    epoch: int
    step: int
    metrics: Mapping[str, float | None]


class ScriptCheckpoints:
    """Only writer of ``checkpoints/`` in a job with a script."""

    def __init__(
        self,
        folder: JobFolder,
        launch: Launch,
        work: Path,
        on_bytes: Callable[[int], None] = lambda _count: None,
        source: Path | None = None,
    ) -> None:
        """Begin with the recorded checkpoints.

        Args:
            work: The copy of the script, as it was imported.
            on_bytes: Is called while bytes are hashed.
            source: The original of the copy, if the script has written to its copy already.
        """
        self._folder = folder
        self._launch = launch
        self._folders = (folder.output, work)
        self._on_bytes = on_bytes
        make_folders(folder.checkpoints)
        checkpoints = read_checkpoints(folder.checkpoints, SIDECAR_SUFFIX)
        self._records = {Path(checkpoint.path): checkpoint for checkpoint in checkpoints}
        # A file that came with the script is no checkpoint of the job.
        script_paths = [path for path in self._find_paths() if path.is_relative_to(work)]
        if source is not None:
            script_paths = [
                path for path in script_paths if (source / path.relative_to(work)).exists()
            ]
        self._last_signatures = {path: _signature(path) for path in (*self._records, *script_paths)}
        self._recorded_signatures = {
            path: signature for path, signature in self._last_signatures.items() if signature
        }

    def update(
        self,
        position_at: Callable[[Path, int], ScriptPosition],
        *,
        is_over: bool = False,
        ended_well: bool = False,
        ended_ns: int = 0,
    ) -> None:
        """Record new and complete checkpoints.

        Args:
            position_at: Returns the position at which the script wrote a file, by its path and the
                time of its last change in nanoseconds.
            is_over: The script has ended, and ``ended_well``: not in the middle of its work.
            ended_ns: The time of its end, by the clock of the files.
        """
        new_paths: list[tuple[int, Path]] = []
        for path in self._find_paths():
            # The script may remove it meanwhile.
            with suppress(OSError):
                signature = _signature(path)
                is_same = self._last_signatures.get(path) == signature
                self._last_signatures[path] = signature
                changed_ns = max((time for _, _, time in signature), default=0)
                is_quiet = ended_well or changed_ns < ended_ns - _QUIET_NS
                is_ready = is_same or (is_over and (is_quiet or not path.is_dir()))
                is_new = signature != self._recorded_signatures.get(path)
                if is_new and (is_ready or _is_zip(path)) and _is_complete(path):
                    new_paths.append((changed_ns, path))
        self._forget_changed()
        for changed_ns, path in sorted(new_paths):
            with suppress(OSError):
                self._record(path, position_at(path, changed_ns))
        if new_paths and self._launch.config.remove_old_checkpoints:
            self._retire()

    def _find_paths(self) -> Iterator[Path]:
        patterns = self._launch.config.checkpoint_files
        for root in self._folders:
            for folder, folders, names in os.walk(root):
                folders[:] = [name for name in folders if not name.startswith(_TEMPORARY)]
                names = [name for name in names if not name.startswith(_TEMPORARY)]
                for path in [Path(folder, name) for name in sorted((*folders, *names))]:
                    kind_patterns = [
                        pattern
                        for pattern in patterns
                        if pattern.endswith("/") == (path.name in folders)
                    ]
                    is_matched = any(path.match(pattern) for pattern in kind_patterns)
                    if path.is_symlink() or not (is_matched or self._is_state(path)):
                        continue
                    yield path
                    if path.name in folders:
                        # The files in it are parts of it.
                        folders.remove(path.name)

    def _is_state(self, path: Path) -> bool:
        """Return whether a folder holds a whole state, as `save_state` of Accelerate writes it.

        A single file of it would match, too, and could not be resumed from.
        """
        is_usual = self._launch.config.checkpoint_files == USUAL_CHECKPOINTS
        return is_usual and any(path.joinpath(name).exists() for name in _STATE_FILES)

    def _record(self, path: Path, position: ScriptPosition) -> None:
        signature = _signature(path)
        record = Checkpoint(
            name=_free_name(self._folder, position.epoch, position.step),
            run=self._launch.run,
            epoch=position.epoch,
            step=position.step,
            epoch_step=0,
            bytes=size_of(path),
            sha256=sha256_of(path, self._on_bytes),
            config_sha256=self._launch.config.sha256(),
            created=timestamps.utc_now(),
            metrics=dict(position.metrics),
            reason="script",
            file=str(path.relative_to(self._folder.path)),
            holds_only=_only_part(path),
            path=str(path),
        )
        if _signature(path) != signature:
            return
        replace_json(record.sidecar, record.to_dict())
        self._write_latest()
        self._records[path], self._recorded_signatures[path] = record, signature

    def _forget_changed(self) -> None:
        """Remove the records of files that are removed or being written again."""
        changed_paths = [
            path
            for path in self._records
            if _signature(path) != self._recorded_signatures.get(path)
        ]
        for path in changed_paths:
            self._records.pop(path).sidecar.unlink(missing_ok=True)
            self._recorded_signatures.pop(path, None)
        if changed_paths:
            self._write_latest()

    def _write_latest(self) -> None:
        """Record the newest checkpoint for a resume: a part of a state only without a whole one."""
        records = read_checkpoints(self._folder.checkpoints)
        for part in ("", "weights", "optimizer"):
            if part_records := [record for record in records if record.holds_only == part]:
                newest_record = max(part_records, key=lambda record: record.created)
                replace_json(self._folder.latest, newest_record.to_dict())
                return
        self._folder.latest.unlink(missing_ok=True)

    def _retire(self) -> None:
        checkpoints = read_checkpoints(self._folder.checkpoints)
        for checkpoint in retired_checkpoints(checkpoints, self._launch.config.checkpoint):
            path = Path(checkpoint.path)
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._forget_changed()


def step_of(path: Path, is_step: Callable[[int], bool], newest_step: int) -> int | None:
    """Return the last number in a name that is a step, and not the number of an epoch or a series.

    Files ``model_1.pt`` and ``model_2.pt`` are numbered by epochs, or one after the other, unless
    their numbers come up to the newest step.
    """
    for match in reversed([*_NUMBER.finditer(path.stem)]):
        number, prefix = int(match[0]), path.stem[: match.start()]
        suffix = path.name[match.end() :]
        last_number = number
        while path.with_name(f"{prefix}{last_number + 1}{suffix}").exists():
            last_number += 1
        is_in_series = (
            last_number > number or path.with_name(f"{prefix}{number - 1}{suffix}").exists()
        )
        is_counted = _EPOCH_PREFIX.search(prefix) or (
            is_in_series and last_number < newest_step - 1
        )
        if is_step(number) and not is_counted:
            return number
    return None


def main(arguments: list[str] | None = None) -> None:
    """Record the files that a script completed before it was killed with its own recorder."""
    parser = argparse.ArgumentParser(prog="backend.training.script_checkpoints")
    parser.add_argument("--job", type=Path, required=True)
    options = parser.parse_args(arguments)
    folder = JobFolder(options.job)
    launch = Launch.from_dict(read_json(folder.launch))
    status = last_status(folder)
    step, epoch = (status.step, status.epoch) if status else (0, 0)
    first_rank = launch.ranks[0]
    record = folder.attempt(launch.run).rank_exit(first_rank.rank)
    end_file = record if record.exists() else folder.rank_log(first_rank.rank)
    work, source = folder.work(launch.run, first_rank.node), Path(launch.script_source)
    ScriptCheckpoints(folder, launch, work, source=source).update(
        lambda path, _: ScriptPosition(
            epoch,
            step_of(path, lambda number: 0 < number <= step, step) or step,
            status.metrics if status else {},
        ),
        is_over=True,
        ended_ns=end_file.stat().st_mtime_ns,
    )


def _signature(path: Path) -> _Signature:
    """Return sizes and times, which change while a file or folder is written; () if it is empty."""
    entries: list[tuple[str, int, int]] = []
    with suppress(FileNotFoundError):
        for name, file in files_of(path):
            status = file.lstat()
            entries.append((name, status.st_size, status.st_mtime_ns))
    return tuple(entries) if any(size for _, size, _ in entries) else ()


def _is_zip(path: Path) -> bool:
    """Return whether a file is a complete zip, as PyTorch writes it, with the end written last."""
    return path.is_file() and _begins_as_zip(path) and zipfile.is_zipfile(path)


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ZIP_BEGIN)) == _ZIP_BEGIN


def _is_complete(path: Path) -> bool:
    """Return whether no file is cut off: a zip, as PyTorch writes it, has an end record."""
    files = [file for _, file in files_of(path) if not file.is_symlink()]
    if any(_begins_as_zip(file) and not zipfile.is_zipfile(file) for file in files):
        return False
    return any(file.stat().st_size for file in files)


def _only_part(path: Path) -> str:
    """Return "weights" or "optimizer" if a file holds only these, "" for more and for folders.

    ``state_dict()`` of every optimizer of PyTorch is ``{"state": {}, "param_groups": []}``. The
    pickle in a file of ``torch.save`` is searched for these keys, and not executed.
    """
    if path.is_dir() or not zipfile.is_zipfile(path):
        return "weights" if path.suffix == ".safetensors" else ""
    with zipfile.ZipFile(path) as archive:
        pickles = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
    if any(content.startswith(_OPTIMIZER_BEGINS) for content in pickles):
        return "optimizer"
    return "" if any(b"param_groups" in content for content in pickles) else "weights"


def _free_name(folder: JobFolder, epoch: int, step: int) -> str:
    """Return a name that no checkpoint has yet, as a script may save several at one step."""
    name, number = script_checkpoint_name(epoch, step), 2
    while (folder.checkpoints / f"{name}{SIDECAR_SUFFIX}").exists():
        name, number = f"{script_checkpoint_name(epoch, step)}-{number}", number + 1
    return name


if __name__ == "__main__":
    main()
