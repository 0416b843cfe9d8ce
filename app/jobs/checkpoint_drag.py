"""Export a checkpoint by dragging it out of the window."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections import deque
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from app.runtime.background import Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.services.jobs.service import JobService
from widgets.common.drag_and_drop import FilePromise
from widgets.jobs.actions.job_actions import DRAG_CHECKPOINT, CheckpointDrag, JobActions

_QUEUE = "carry out"
_MAX_FILES = 3
"""The number of finished files that are kept: a target may still be copying the last ones."""


class CheckpointDragSource(QObject):
    """Export into a temporary folder off the GUI thread, from the start of the drag."""

    def __init__(
        self,
        jobs: JobService,
        runner: Runner,
        actions: JobActions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._runner = runner
        self._folder = Path(tempfile.gettempdir()) / f"ringmaster-{secrets.token_hex(8)}"
        self._exported_files: deque[Path] = deque()
        self._late_files: dict[tuple[str, ...], Path] = {}
        actions.add_handler(DRAG_CHECKPOINT, self.start_export)

    def start_export(self, drag: CheckpointDrag) -> None:
        """Export the dragged file, or reuse a file that came too late for an earlier drag."""
        checkpoint, name, promise = drag.checkpoint, drag.file_name, drag.promise
        key = (drag.job_id, checkpoint.sha256, drag.format, name)
        late_file = self._late_files.pop(key, None)
        if late_file is not None:
            promise.path = str(late_file)
            promise.fulfil()
            return
        target = self._folder / secrets.token_hex(4) / name
        promise.path = str(target)
        progress = self._runner.progress(lambda _share, _step: None)
        promise.abandoned.connect(progress.cancel)
        promise.timed_out.connect(partial(self._remember_late, promise, key))
        stale_files = [
            self._exported_files.popleft()
            for _ in range(len(self._exported_files) - _MAX_FILES + 1)
        ]
        self._late_files = {
            k: path for k, path in self._late_files.items() if path not in stale_files
        }
        self._runner.notify(f"Making “{name}”…")

        def make() -> Path:
            for file in stale_files:
                shutil.rmtree(file.parent, ignore_errors=True)
            try:
                # Other users of this computer must not read it.
                self._folder.mkdir(mode=0o700, exist_ok=True)
                target.parent.mkdir()
            except OSError as error:
                raise BackendError(
                    f"“{name}” cannot be made in {self._folder.parent}: {error.strerror or error}.",
                    f"Free some space in {self._folder.parent}, or use Export….",
                ) from error
            return self._jobs.export(drag.job_id, checkpoint.name, drag.format, target, progress)

        self._runner.run(
            _QUEUE,
            make,
            partial(self._finish_export, promise, key),
            partial(self._handle_error, promise, key),
        )

    def close(self) -> None:
        """Delete the files that were not copied; block until they are deleted."""
        with suppress(OSError):
            shutil.rmtree(self._folder)

    def _finish_export(self, promise: FilePromise, key: tuple[str, ...], path: Path) -> None:
        self._exported_files.append(path)
        promise.fulfil()
        if key in self._late_files:
            self._runner.notify(f"“{path.name}” is ready: drag it again")
        elif not promise.is_drag_over:
            self._runner.notify(f"“{path.name}” is ready: drop it in a folder")

    def _remember_late(self, promise: FilePromise, key: tuple[str, ...]) -> None:
        path = Path(promise.path)
        self._late_files[key] = path
        self._runner.notify(
            f"“{path.name}” was not ready yet; a message will say when to drag it again"
        )

    def _handle_error(
        self, promise: FilePromise, key: tuple[str, ...], error: BackendError
    ) -> None:
        self._late_files.pop(key, None)
        promise.finish()
        if not isinstance(error, Cancelled):
            self._runner.notify(error.with_remedy)
