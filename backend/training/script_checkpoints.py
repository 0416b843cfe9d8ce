"""The checkpoints of a script: files and folders that it writes, recorded where they are.

Only the records are ours. A file or folder is recorded when it no longer grows, again when the
script has written it again, and no more when the script has removed it. The files themselves are
removed only if the user chose ``remove_old_checkpoints``.
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
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints, retired
from backend.records.jobs.launch import Launch
from backend.records.jobs.script import USUAL_CHECKPOINTS
from backend.records.jobs.status import last_status

_TEMPORARY = (".", "tmp-")
"""How names begin while what they name is written, by Hugging Face too."""
_STATES = ("random_states_0.pkl", "optimizer.bin", "scheduler.bin")
_ZIP_BEGIN = b"PK\3\4"
_OPTIMIZER_BEGINS = pickle.dumps({"state": {}, "param_groups": []}, 2).partition(b"q\2")[0]
_QUIET_NS = 2_000_000_000
_NUMBER = re.compile(r"\d+")
_OF_EPOCH = re.compile(r"(?<![a-z])(?:ep(?:och)?s?|v)[\W_]*$", re.IGNORECASE)
"""What is before the number of an epoch or a version."""
_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class TrainingState:
    """A step of a script, and the values of its curves at it."""

    epoch: int
    step: int
    metrics: Mapping[str, float | None]


class ScriptCheckpoints:
    """The only writer of ``checkpoints/`` in a job with a script."""

    def __init__(
        self,
        folder: JobFolder,
        launch: Launch,
        work: Path,
        on_bytes: Callable[[int], None] = lambda _count: None,
        source: Path | None = None,
    ) -> None:
        """Begin with what is known.

        Args:
            work: The copy of the script, as it was imported.
            on_bytes: Is called while bytes are hashed.
            source: What was copied, if the script has written to its copy already.
        """
        self._folder = folder
        self._launch = launch
        self._places = (folder.output, work)
        self._on_bytes = on_bytes
        make_folders(folder.checkpoints)
        known = read_checkpoints(folder.checkpoints, SIDECAR_SUFFIX)
        self._records = {Path(one.path): one for one in known}
        # What came with the script is no checkpoint of the job.
        given = [path for path in self._found() if path.is_relative_to(work)]
        if source is not None:
            given = [path for path in given if (source / path.relative_to(work)).exists()]
        self._seen = {path: _signature(path) for path in (*self._records, *given)}
        self._done = {path: signature for path, signature in self._seen.items() if signature}

    def update(
        self,
        state_at: Callable[[Path, int], TrainingState],
        *,
        is_over: bool = False,
        ended_well: bool = False,
        ended_ns: int = 0,
    ) -> None:
        """Record what is new and complete.

        Args:
            state_at: Returns the state in which the script wrote a file, by its path and the time
                of its last change in nanoseconds.
            is_over: The script has ended, and ``ended_well``: not in the middle of its work.
            ended_ns: When it ended, by the clock of the files.
        """
        fresh: list[tuple[int, Path]] = []
        for path in self._found():
            # The script may remove it meanwhile.
            with suppress(OSError):
                now = _signature(path)
                is_same = self._seen.get(path) == now
                self._seen[path] = now
                changed = max((time for _, _, time in now), default=0)
                is_quiet = ended_well or changed < ended_ns - _QUIET_NS
                is_ready = is_same or (is_over and (is_quiet or not path.is_dir()))
                is_new = now != self._done.get(path)
                if is_new and (is_ready or _is_zip(path)) and _is_whole(path):
                    fresh.append((changed, path))
        self._forget_changed()
        for changed, path in sorted(fresh):
            with suppress(OSError):
                self._record(path, state_at(path, changed))
        if fresh and self._launch.config.remove_old_checkpoints:
            self._retire()

    def _found(self) -> Iterator[Path]:
        patterns = self._launch.config.checkpoint_files
        for place in self._places:
            for here, folders, names in os.walk(place):
                folders[:] = [name for name in folders if not name.startswith(_TEMPORARY)]
                names = [name for name in names if not name.startswith(_TEMPORARY)]
                for path in [Path(here, name) for name in sorted((*folders, *names))]:
                    kinds = [one for one in patterns if one.endswith("/") == (path.name in folders)]
                    is_matched = any(path.match(one) for one in kinds)
                    if path.is_symlink() or not (is_matched or self._is_state(path)):
                        continue
                    yield path
                    if path.name in folders:
                        # The files in it are parts of it.
                        folders.remove(path.name)

    def _is_state(self, path: Path) -> bool:
        """Return whether a folder holds a whole state, as `save_state` of Accelerate writes it.

        One of its files would match by itself, and could not be resumed from.
        """
        is_usual = self._launch.config.checkpoint_files == USUAL_CHECKPOINTS
        return is_usual and any(path.joinpath(name).exists() for name in _STATES)

    def _record(self, path: Path, state: TrainingState) -> None:
        signature = _signature(path)
        record = Checkpoint(
            name=_free_name(self._folder, state.epoch, state.step),
            run=self._launch.run,
            epoch=state.epoch,
            step=state.step,
            epoch_step=0,
            bytes=size_of(path),
            sha256=sha256_of(path, self._on_bytes),
            config_sha256=self._launch.config.sha256(),
            created=timestamps.utc_now(),
            metrics=dict(state.metrics),
            reason="script",
            file=str(path.relative_to(self._folder.path)),
            holds_only=_only_part(path),
            path=str(path),
        )
        if _signature(path) != signature:
            return
        replace_json(record.sidecar, record.to_dict())
        self._write_latest()
        self._records[path], self._done[path] = record, signature

    def _forget_changed(self) -> None:
        """Remove the records of what is gone or is being written again."""
        gone = [path for path in self._records if _signature(path) != self._done.get(path)]
        for path in gone:
            self._records.pop(path).sidecar.unlink(missing_ok=True)
            self._done.pop(path, None)
        if gone:
            self._write_latest()

    def _write_latest(self) -> None:
        """Name the newest from which a script can resume: a part of a state only without others."""
        records = read_checkpoints(self._folder.checkpoints)
        for part in ("", "weights", "optimizer"):
            if of_part := [record for record in records if record.holds_only == part]:
                newest = max(of_part, key=lambda record: record.created)
                replace_json(self._folder.latest, newest.to_dict())
                return
        self._folder.latest.unlink(missing_ok=True)

    def _retire(self) -> None:
        known = read_checkpoints(self._folder.checkpoints)
        for old in retired(known, self._launch.config.checkpoint):
            path = Path(old.path)
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._forget_changed()


def step_of(path: Path, is_step: Callable[[int], bool], newest_step: int) -> int | None:
    """Return the last number in a name that is a step, and not one of an epoch or of a series.

    Files ``model_1.pt`` and ``model_2.pt`` are numbered by epochs, or one after the other, unless
    their numbers come up to the newest step.
    """
    for match in reversed([*_NUMBER.finditer(path.stem)]):
        number, before = int(match[0]), path.stem[: match.start()]
        after = path.name[match.end() :]
        last = number
        while path.with_name(f"{before}{last + 1}{after}").exists():
            last += 1
        in_series = last > number or path.with_name(f"{before}{number - 1}{after}").exists()
        is_counted = _OF_EPOCH.search(before) or (in_series and last < newest_step - 1)
        if is_step(number) and not is_counted:
            return number
    return None


def main(arguments: list[str] | None = None) -> None:
    """Record what a script completed before it was killed, with the process that records it."""
    parser = argparse.ArgumentParser(prog="backend.training.script_checkpoints")
    parser.add_argument("--job", type=Path, required=True)
    given = parser.parse_args(arguments)
    folder = JobFolder(given.job)
    launch = Launch.from_dict(read_json(folder.launch))
    status = last_status(folder)
    step, epoch = (status.step, status.epoch) if status else (0, 0)
    first = launch.ranks[0]
    record = folder.attempt(launch.run).rank_exit(first.rank)
    ended = record if record.exists() else folder.rank_log(first.rank)
    work, source = folder.work(launch.run, first.node), Path(launch.script_source)
    ScriptCheckpoints(folder, launch, work, source=source).update(
        lambda path, _: TrainingState(
            epoch,
            step_of(path, lambda number: 0 < number <= step, step) or step,
            status.metrics if status else {},
        ),
        is_over=True,
        ended_ns=ended.stat().st_mtime_ns,
    )


def _signature(path: Path) -> _Signature:
    """Return what changes while a file or folder is written; () if there is nothing in it."""
    found: list[tuple[str, int, int]] = []
    with suppress(FileNotFoundError):
        for name, one in files_of(path):
            status = one.lstat()
            found.append((name, status.st_size, status.st_mtime_ns))
    return tuple(found) if any(size for _, size, _ in found) else ()


def _is_zip(path: Path) -> bool:
    """Return whether it is a whole zip, as PyTorch writes it: its end is written last."""
    return path.is_file() and _begins_as_zip(path) and zipfile.is_zipfile(path)


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ZIP_BEGIN)) == _ZIP_BEGIN


def _is_whole(path: Path) -> bool:
    """Return whether no file is cut off: a zip, as PyTorch writes it, has an end."""
    parts = [one for _, one in files_of(path) if not one.is_symlink()]
    if any(_begins_as_zip(one) and not zipfile.is_zipfile(one) for one in parts):
        return False
    return any(one.stat().st_size for one in parts)


def _only_part(path: Path) -> str:
    """Return "weights" or "optimizer" if a file holds only that, "" for more and for folders.

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
    """Return a name that no checkpoint has yet: a script may save several at one step."""
    name, number = script_checkpoint_name(epoch, step), 2
    while (folder.checkpoints / f"{name}{SIDECAR_SUFFIX}").exists():
        name, number = f"{script_checkpoint_name(epoch, step)}-{number}", number + 1
    return name


if __name__ == "__main__":
    main()
