"""Jobs from the job file to the exported checkpoint, for the window and the command line.

`queries` reads jobs, `lifecycle` starts and stops them; this module creates, copies, renames,
exports and removes them.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from backend.base.errors import BackendError, as_backend_error, exists_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.bundles.imported_job import mark_replay
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs import usage_files
from backend.datastore.jobs.checkpoint_files import (
    DamagedCheckpoint,
    checkpoint_named,
    keep,
    list_checkpoints,
    require_checkpoint,
    verify,
)
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.jobs.owners import owner_rule, require_right, rule_refusal, set_owner_rule
from backend.datastore.queue import files as queue_files
from backend.node.run import launch_command
from backend.records.base import content
from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import JobFolder
from backend.records.base.validation import (
    ConfigError,
    job_name_error,
    notes_error,
    sanitize,
    tags_error,
)
from backend.records.jobs.audit_entry import AuditEntry, OwnerRule
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import RANDOM_WEIGHTS, JobConfig
from backend.records.jobs.job_file import parse_job, shareable_config, without_shared_gpus
from backend.records.jobs.launch import Launch
from backend.records.jobs.rate_search import RateSearch
from backend.records.jobs.simulation import Simulation
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCheck, JobCommand, JobView
from backend.records.library.item import Kind
from backend.records.sweeps.spec import sweep_of
from backend.services.jobs.forecast import JobForecaster
from backend.services.jobs.lifecycle import JobLifecycle
from backend.services.jobs.model_card import model_card
from backend.services.jobs.queries import JobQueries
from backend.services.jobs.run_history import settings_of
from backend.services.jobs.run_reaper import RunReaper
from backend.services.jobs.run_starter import RunStarter
from backend.services.jobs.single_process import find_rate, simulate
from backend.services.jobs.validation import (
    CheckedJob,
    DataSizeCounter,
    JobValidator,
    check_batch_size,
    learning_rates,
    memory_hint,
)
from backend.services.preflight.service import PreflightService
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from backend.services.tools.training_python import training_error

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.services.library.service import LibraryService
    from backend.services.nodes.launchers import LauncherService
    from backend.services.nodes.service import NodeService

_NAME_BYTES = 255
_COPY_SUFFIX = re.compile(r"( \(copy( \d+)?\))+$")
_MAX_COPIES = 1000
_BATCH_PARTS = ("model", "dataset", "loader")
_SOURCES = ("script", "model", "loader")
_FIGURE_SETTINGS = ("epochs", "batch_size", "optimizer", "schedule", "strategy", "placement")


class JobService:
    """Jobs; see `docs/architecture.md`. Every call blocks and may run on any thread.

    Attributes:
        queries: Reads jobs.
        lifecycle: Starts and stops jobs.
    """

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
        preflight: PreflightService,
        index: Catalogue,
        cache: Path,
        queries: JobQueries,
        reaper: RunReaper,
        launchers: LauncherService,
    ) -> None:
        self.queries = queries
        self._reaper = reaper
        self._root = root
        self._library = library
        self._preflight = preflight
        self._index = index
        self._validator = JobValidator(root, library, nodes, queries.ids_of)
        self._starter = RunStarter(root, library, nodes, launchers)
        self._sizes = DataSizeCounter(library, cache / "sizes")
        self.lifecycle = JobLifecycle(
            queries, reaper, self._validator, self._starter, preflight, self._sizes, launchers
        )
        self._forecaster = JobForecaster(root, library, index)

    # Making a job.

    def check(self, raw: Mapping[str, Any]) -> JobCheck:
        """Check a job file for the form; runs no user code."""
        check, checked_job = self._check_job(raw)
        pins = [checked_job.pins[key] for key in _BATCH_PARTS if key in checked_job.pins]
        if len(pins) == len(_BATCH_PARTS):
            hashes = tuple(pin.sha256 for pin in pins)
            check = replace(check, content_hashes=hashes, trial=self._library.cached_check(*pins))
        if checked_job.config is None:
            return check
        if check.trial is not None and not checked_job.config.script:
            hint = memory_hint(checked_job.config, check.trial, self._validator.node_states())
            check = replace(check, findings=(*check.findings, *hint))
        pins_by_key, steps_per_epoch = checked_job.pins, check.steps_per_epoch
        forecast = self._forecaster.estimate(checked_job.config, pins_by_key, steps_per_epoch)
        return replace(check, forecast=forecast)

    def try_batch(
        self, raw: Mapping[str, Any], progress: Progress | None = None, *, fetch: bool = True
    ) -> bool:
        """Try one batch of the dataset in the model, once for the same files.

        The user's code runs in a process of its own. Without ``fetch``, there is no trial on a
        computer without the files of the dataset or without PyTorch.

        Returns:
            Whether the batch was tried.

        Raises:
            BackendError: The parts do not fit together, or cannot be tried.
        """
        model, dataset, loader = (self._validator.check(raw).pins[key] for key in _BATCH_PARTS)
        is_ready = (
            self._library.is_local(Kind.DATASET, dataset.reference) and training_error() is None
        )
        if not (fetch or is_ready):
            return False
        self._library.check_model(model.reference, dataset.reference, loader.reference, progress)
        return True

    def count_items(self, raw: Mapping[str, Any], progress: Progress | None = None) -> bool:
        """Count the samples of the dataset with the loader, once for the same files.

        The user's loader runs in a process of its own.

        Returns:
            Whether the number is known now.

        Raises:
            BackendError: The loader cannot be used, or did not finish.
        """
        checked_job = self._validator.check(raw)
        return self._sizes.count(checked_job.pins, progress or Progress()) is not None

    def simulate(
        self,
        raw: Mapping[str, Any],
        staleness: int,
        is_random: bool = False,
        progress: Progress | None = None,
    ) -> Simulation:
        """Train a job file in one process on this computer, with simulated staleness.

        Raises:
            BackendError: The file has an error, its strategy has no staleness, or the training
                failed.
        """
        return simulate(self._validator.check(raw), self._library, staleness, is_random, progress)

    def find_rate(self, raw: Mapping[str, Any], progress: Progress | None = None) -> RateSearch:
        """Search for the learning rate of a job file, in one process on this computer.

        Raises:
            BackendError: The file has an error, the job has no learning rate, or training failed.
        """
        return find_rate(self._validator.check(raw), self._library, progress)

    def config_errors(self, raw: Mapping[str, Any]) -> tuple[ConfigError, ...]:
        """Return the errors of a job file without its figures, which is fast for many files."""
        return self._check_job(raw)[0].errors

    def reported_metrics(self, raw: Mapping[str, Any]) -> frozenset[str]:
        """Return the metrics of finished jobs with the same sources; empty if there is none."""
        pins = self._validator.check(raw).pins
        views = (v for v in self.queries.list() if v.state is JobState.FINISHED)
        same_views = (v for v in views if all(v.pins.get(k) == pins.get(k) for k in _SOURCES))
        return frozenset(name for view in same_views for name in view.status.metrics)

    def _check_job(self, raw: Mapping[str, Any]) -> tuple[JobCheck, CheckedJob]:
        checked_job = self._validator.check(raw)
        size = self._sizes.cached_size(checked_job.pins)
        check_batch_size(checked_job, size)
        config = checked_job.config
        if config is None and not checked_job.has_error(*_FIGURE_SETTINGS):
            # An error in another setting does not remove the figures.
            config = checked_job.draft
        if config is None:
            job_check = JobCheck(
                errors=tuple(checked_job.errors),
                findings=tuple(checked_job.findings),
                is_counted=size is not None,
                usual_strategy=checked_job.usual_strategy,
            )
            return job_check, checked_job
        steps = config.steps_per_epoch(size.training) if size is not None else None
        if not checked_job.errors:
            try:
                self._starter.plan(config, "JOB", 1)
            except BackendError as error:
                message = " ".join(filter(None, (str(error), error.remedy)))
                checked_job.add_error("placement", message)
        if config.script:
            job_check = JobCheck(
                errors=tuple(checked_job.errors),
                global_batch=0,
                findings=tuple(checked_job.findings),
            )
            return job_check, checked_job
        job_check = JobCheck(
            errors=tuple(checked_job.errors),
            global_batch=config.global_batch_size,
            workers=config.workers,
            servers=config.strategy.servers,
            learning_rate=config.optimizer.lr * config.lr_factor,
            steps_per_epoch=steps,
            rates=learning_rates(config, steps or 100),
            findings=tuple(checked_job.findings),
            is_counted=size is not None,
            usual_strategy=checked_job.usual_strategy,
        )
        return job_check, checked_job

    def command(self, job_id: str) -> JobCommand:
        """Return the command of the newest run for a manual run, or that of the first run."""
        folder, file, view = self.queries.read(job_id)
        launch = stored_record(Launch, folder.launch)
        if launch is None:
            with suppress(BackendError):
                launch = self._starter.plan(file.config, job_id, view.run + 1).launch
                return JobCommand(launch_command.shell_line(launch_command.command(launch), {}))
            return JobCommand()
        name = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        remote_folder = JobFolder(Path(launch.job_folder))
        return JobCommand(
            launch_command.manual_command(launch, name),
            launch.ranks[0].node,
            str(remote_folder.manual_run(name).path),
        )

    def create(
        self, raw: Mapping[str, Any], progress: Progress | None = None, replay_of: str = ""
    ) -> JobView:
        """Create a job; an invalid job file creates nothing.

        Args:
            replay_of: The id of the job that the new job replays, or "".

        Raises:
            BackendError: The job file is invalid; the message has every error.
        """
        checked_job, config = self._checked_config(raw, progress or Progress())
        return self.queries.show(self._create_job(checked_job, config, replay_of).id)

    def create_and_start(
        self, raw: Mapping[str, Any], progress: Progress | None = None, replay_of: str = ""
    ) -> JobView:
        """Create a job and start it; a job that cannot start is not created.

        Raises:
            PreflightFailed: The nodes cannot run the job.
            Cancelled: By ``progress``.
            BackendError: As `create` and `start`.
        """
        checked_job, config = self._checked_config(raw, progress or Progress())
        weights = self.lifecycle.weights(config.start_from)
        self._preflight.require(config, progress=progress)
        self._validator.check_again(checked_job, config)
        file = self._create_job(checked_job, config, replay_of)
        folder = self.queries.folder(file.id)
        try:
            return self.lifecycle.run(folder, file, 1, False, progress, start_from=weights)
        except BackendError:
            # A claimed run stays: it may have begun, and has the reason of its failure.
            with suppress(BackendError, OSError):
                if not self._root.files.names(folder.attempts):
                    self.remove(file.id)
            raise

    def _checked_config(
        self, raw: Mapping[str, Any], progress: Progress
    ) -> tuple[CheckedJob, JobConfig]:
        checked_job = self._validator.check(raw)
        if checked_job.config is not None and not checked_job.errors:
            # A loader may need values that only a run has; then the ranks report the error.
            with suppress(ToolError):
                check_batch_size(checked_job, self._sizes.count(checked_job.pins, progress))
        if checked_job.errors or checked_job.config is None:
            raise BackendError(
                " ".join(error.message for error in checked_job.errors),
                "Change the job file; nothing was created.",
            )
        return checked_job, checked_job.config

    def _create_job(self, checked_job: CheckedJob, config: JobConfig, replay_of: str) -> JobFile:
        with as_backend_error("The job could not be created"):
            file = job_files.create_job(self._root, config, checked_job.pins)
        if replay_of:
            with as_backend_error(f"That {file.id} is a replay could not be written down"):
                mark_replay(self._root.job(file.id), replay_of)
        return file

    def clone(self, job_id: str) -> dict[str, Any]:
        """Return a job file that repeats a job: same settings, same versions, another name."""
        file = read_job(self.queries.folder(job_id))
        raw = without_shared_gpus(file.config.to_dict())
        raw.update(name=self._copy_name(file.name))
        for key, pin in file.pins.items():
            raw[key] = pin.reference
        if not file.config.start_from and "model" in file.pins:
            # The model may have got weights since, with which this job did not begin.
            with suppress(BackendError):
                if self._library.weights(raw["model"]) is not None:
                    raw["start_from"] = RANDOM_WEIGHTS
        # With other settings the copy is no job of that sweep.
        tags = [tag for tag in file.tags if not sweep_of((tag,))]
        for key, value in (("notes", file.notes), ("tags", tags)):
            raw.pop(key, None)
            if value:
                raw[key] = value
        return raw

    def _copy_name(self, name: str) -> str:
        """Return the first free name of "digits (copy)", "digits (copy 2)" and so on."""
        stem = _COPY_SUFFIX.sub("", name)
        taken_names = {view.name for view in self.queries.search(f"{stem} (copy", _MAX_COPIES)}
        suffixes = (f" (copy{f' {number}' * (number > 1)})" for number in itertools.count(1))
        names = (
            stem.encode()[: _NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix
            for suffix in suffixes
        )
        return next(name for name in names if name not in taken_names)

    # Changes by a user.

    def annotate(
        self,
        job_id: str,
        name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> JobView:
        """Change the name, the notes or the tags of a job; None leaves a value unchanged."""
        folder, file, _ = self.queries.read(job_id)
        errors = (
            "" if name is None else job_name_error(name),
            "" if tags is None else tags_error(tags),
            "" if notes is None else notes_error(notes),
        )
        if any(errors):
            raise BackendError(" ".join(filter(None, errors)))
        with as_backend_error("The notes could not be written"):
            job_files.write_notes(
                folder,
                file.name if name is None else name,
                file.notes if notes is None else notes,
                file.tags if tags is None else tuple(tags),
            )
        for entry in _changes(file, name, notes, tags):
            job_files.add_once(folder, file, entry)
        return self.queries.show(job_id)

    def keep(self, job_id: str, checkpoint: str, *, is_kept: bool = True) -> Checkpoint:
        """Keep a checkpoint always, or apply the job's policy again.

        Raises:
            BackendError: The checkpoint does not exist any more.
        """
        folder = self.queries.fresh_folder(job_id)
        policy = read_job(folder).config.checkpoint
        record = require_checkpoint(list_checkpoints(folder, policy), checkpoint, job_id)
        if record.is_kept == is_kept:
            return record
        with as_backend_error(f"The checkpoint {record.name} could not be marked"):
            keep(folder.files, record, is_kept)
            # After this second list, rank 0 certainly saw the mark before a removal.
            checkpoints = list_checkpoints(self.queries.fresh_folder(job_id), policy)
        kept_checkpoint = checkpoint_named(checkpoints, record.name)
        if kept_checkpoint is None:
            with as_backend_error(f"The mark of {record.name} could not be removed"):
                keep(folder.files, record, False)
            raise BackendError(
                f"The run has just removed the checkpoint {record.name} to make room.",
                "Keep a newer one.",
            )
        verb = "Always kept" if is_kept else "No longer always kept"
        job_files.add_action(folder, f"{verb}: {record.name}")
        return replace(kept_checkpoint, path=self._root.display_path(Path(kept_checkpoint.path)))

    def find_damage(self, job_id: str, checkpoint: str) -> str:
        """Read the file of a checkpoint, and return its damage, "" if it is valid.

        Raises:
            BackendError: The file cannot be read.
        """
        folder = self.queries.fresh_folder(job_id)
        policy = read_job(folder).config.checkpoint
        record = require_checkpoint(list_checkpoints(folder, policy), checkpoint, job_id)
        try:
            verify(folder.files, record)
        except DamagedCheckpoint as error:
            return error.message
        return ""

    def audit_entries(self, job_id: str) -> tuple[AuditEntry, ...]:
        """Return the audit log of the job, newest first."""
        folder = self.queries.fresh_folder(job_id)
        with as_backend_error(f"The audit log of job {job_id} could not be read"):
            return job_files.acts_of(folder, read_job(folder))

    def edit(self, job_id: str, field: str, previous_value: object, new_value: object) -> JobView:
        """Change the "name", the "notes" or the "tags" of a job, if still ``previous_value``.

        Raises:
            BackendError: The new value is invalid, or another desktop changed the value meanwhile.
        """
        file = self.queries.read(job_id)[1]
        current_value = {"name": file.name, "notes": file.notes, "tags": file.tags}[field]
        if current_value == new_value:
            return self.queries.show(job_id)
        if current_value != previous_value:
            current_text = ", ".join(file.tags) if field == "tags" else str(current_value)
            verb = "is" if field == "name" else "are"
            raise BackendError(
                f"The {field} {verb} now “{sanitize(current_text)}”, changed by someone else; "
                f"yours {'was' if verb == 'is' else 'were'} not saved.",
                "Change it again if you still want to.",
            )
        if field == "tags":
            tags = new_value if isinstance(new_value, (tuple, list)) else ()
            return self.annotate(job_id, tags=tuple(map(str, tags)))
        return self.annotate(job_id, **{field: str(new_value)})

    def retag(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> JobView:
        """Add and remove tags of a job; other tags stay, also those of other desktops."""
        tags = self.queries.read(job_id)[1].tags
        kept_tags = [tag for tag in tags if tag not in remove]
        new_tags = tuple(dict.fromkeys((*kept_tags, *add)))
        if new_tags == tags:
            return self.queries.show(job_id)
        return self.annotate(job_id, tags=new_tags)

    def size_bytes(self, job_id: str) -> int:
        """Return the disk space of a job in the data root, in bytes."""
        folder, file, _ = self.queries.read(job_id)
        with as_backend_error(f"The job {job_id} could not be measured"):
            weight_bytes = {
                Path(c.path).name: c.bytes
                for c in list_checkpoints(folder, file.config.checkpoint)
                if not c.file
            }
            other_bytes = 0
            for entry in folder.path.rglob("*"):
                # A rank may take a file away meanwhile.
                with suppress(FileNotFoundError):
                    is_file = not entry.is_symlink() and entry.is_file()
                    if is_file and entry.name not in weight_bytes:
                        other_bytes += entry.stat().st_size
        return other_bytes + sum(weight_bytes.values())

    def export(
        self,
        job_id: str,
        checkpoint: str,
        format: str,
        output: Path,
        progress: Progress | None = None,
    ) -> Path:
        """Write a checkpoint for use elsewhere; ``checkpoint`` is a name, "latest" or "best"."""
        folder, file, view = self.queries.read(job_id)
        checkpoints = list_checkpoints(folder, file.config.checkpoint)
        record = require_checkpoint(checkpoints, checkpoint, job_id)
        with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
            self._root.files.bring_file(Path(record.path), progress or Progress())
            self._root.files.refresh_history(folder)
        if file.config.script and format in ("pt", "zip"):
            with as_backend_error(f"{output} cannot be written"):
                _copy_out(Path(record.path), output, is_zip=format == "zip")
            return output.absolute()
        all_runs = self.queries.runs(job_id)
        runs = [run for run in all_runs if run.number <= record.run and not run.put_away]
        run_settings = parse_job(settings_of(folder, record.run))
        file = replace(file, config=run_settings.config or file.config)
        pins = file.parts()
        # A dataset is read for ONNX alone, and may be large.
        find_content = self._library.open_content if format == "onnx" else self._library.content
        tool_process.export(
            Path(record.path),
            format,
            output,
            self._library.open_content(Kind.MODEL, pins[Kind.MODEL].reference),
            find_content(Kind.LOADER, pins[Kind.LOADER].reference),
            find_content(Kind.DATASET, pins[Kind.DATASET].reference),
            files={
                "job.toml": tomli_w.dumps(shareable_config(file.config)),
                "CARD.md": model_card(file, record, runs),
            },
            history=folder.history if folder.history.exists() else None,
            progress=progress,
            is_live=view.state.is_live,
        )
        return output.absolute()

    def remove(self, job_id: str, reason: str = "") -> JobView:
        """Move the job's folder to the trash of the data root; refused while it is live.

        ``reason`` as in `JobLifecycle.stop`.
        """
        folder, file, view = self._reaper.read_reaped(job_id)
        if view.state.is_live:
            raise BackendError(f"The job {job_id} is {view.state_label.lower()}.", "Stop it first.")
        require_right(folder, file.user)
        self.lifecycle.bring_home(folder)
        with as_backend_error(f"The job {job_id} could not be moved to the trash"):
            queue_files.leave(self._root, folder)
            usage_files.keep_runs(self._root, folder, file, view.run)
            job_files.add_action(folder, "Moved to the trash", reason)
            job_files.move_to_trash(self._root, folder)
        self._index.remove_jobs([job_id])
        return view

    def owner_rule(self) -> OwnerRule | None:
        """Return the rule that only the owner stops a job, None without it."""
        with as_backend_error("The rule of the data root could not be read"):
            return owner_rule(self._root)

    def rule_refusal(self) -> str:
        """Return why this user may not change the rule, "" if the user may."""
        with as_backend_error("The rule of the data root could not be read"):
            return rule_refusal(self._root)

    def set_owner_rule(self, *, is_set: bool) -> OwnerRule | None:
        """Set or remove the rule that only the owner stops or removes a job."""
        with as_backend_error("The rule of the data root could not be changed"):
            set_owner_rule(self._root, is_set=is_set)
        return self.owner_rule()

    def restore(self, job_id: str) -> JobView:
        """Move a job's folder back from the trash; the job is not in the queue any more.

        Raises:
            BackendError: The job is not in the trash, or exists again already.
        """
        if not job_id or job_id != Path(job_id).name or job_id.startswith("."):
            raise _not_in_trash(job_id)
        with as_backend_error(f"The job {job_id} could not be moved back from the trash"):
            try:
                is_restored = job_files.take_from_trash(self._root, job_id)
            except FileExistsError as error:
                raise BackendError(f"Job {job_id} already exists; it was not restored.") from error
        if not is_restored:
            raise _not_in_trash(job_id)
        job_files.add_action(self._root.job(job_id), "Moved back from the trash")
        return self.queries.show(job_id)


def _copy_out(path: Path, output: Path, *, is_zip: bool) -> None:
    """Copy the checkpoint of a script, zipped or unchanged; an existing file is not replaced."""
    if path.is_dir() and not is_zip:
        raise BackendError(f"The checkpoint {path.name} is a folder.", "Export it as zip.")
    if output.exists():
        raise exists_error(output)
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        if is_zip:
            with zipfile.ZipFile(temporary, "x") as archive:
                for name, file_path in content.files_of(path):
                    archive.write(file_path, f"{path.name}/{name}" if name else path.name)
        else:
            shutil.copyfile(path, temporary)
        temporary.rename(output)
    finally:
        temporary.unlink(missing_ok=True)


def _changes(
    file: JobFile, name: str | None, notes: str | None, tags: Sequence[str] | None
) -> Iterator[str]:
    if name is not None and name != file.name:
        yield f"Name changed from “{file.name}” to “{name}”"
    if notes is not None and notes != file.notes:
        yield "Notes changed"
    if tags is not None and tuple(tags) != file.tags:
        yield f"Tags changed to {', '.join(tags)}" if tags else "Tags removed"


def _not_in_trash(job_id: str) -> BackendError:
    return BackendError(
        f"There is no job “{sanitize(job_id)}” in the trash.",
        "Use the full job id.",
    )
