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
from widgets.common.lazy_file_drag import FilePromise
from widgets.jobs.actions.job_actions import DRAG_CHECKPOINT, CheckpointDrag, JobActions

_LANE = "carry out"
_KEPT = 3
"""How long a finished file is kept: the target may still be copying it."""


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
        self._made: deque[Path] = deque()
        self._missed: dict[tuple[str, ...], Path] = {}
        actions.add_handler(DRAG_CHECKPOINT, self.begin)

    def begin(self, drag: CheckpointDrag) -> None:
        """Make the dragged file, or reuse the one that came too late for the last drag."""
        checkpoint, name, promise = drag.checkpoint, drag.file_name, drag.promise
        key = (drag.job_id, checkpoint.sha256, drag.format, name)
        missed = self._missed.pop(key, None)
        if missed is not None:
            promise.path = str(missed)
            promise.fulfil()
            return
        target = self._folder / secrets.token_hex(4) / name
        promise.path = str(target)
        progress = self._runner.progress(lambda _share, _what: None)
        promise.abandoned.connect(progress.cancel)
        promise.timed_out.connect(partial(self._too_late, promise, key))
        stale = [self._made.popleft() for _ in range(len(self._made) - _KEPT + 1)]
        self._missed = {k: path for k, path in self._missed.items() if path not in stale}
        self._runner.notify(f"Making “{name}”…")

        def make() -> Path:
            for old in stale:
                shutil.rmtree(old.parent, ignore_errors=True)
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
            _LANE, make, partial(self._kept, promise, key), partial(self._refused, promise, key)
        )

    def close(self) -> None:
        """Delete the files that were not copied; block until they are deleted."""
        with suppress(OSError):
            shutil.rmtree(self._folder)

    def _kept(self, promise: FilePromise, key: tuple[str, ...], path: Path) -> None:
        self._made.append(path)
        promise.fulfil()
        if key in self._missed:
            self._runner.notify(f"“{path.name}” is ready: drag it again")
        elif not promise.is_drag_over:
            self._runner.notify(f"“{path.name}” is ready: drop it in a folder")

    def _too_late(self, promise: FilePromise, key: tuple[str, ...]) -> None:
        path = Path(promise.path)
        self._missed[key] = path
        self._runner.notify(
            f"“{path.name}” was not ready yet; a message will say when to drag it again"
        )

    def _refused(self, promise: FilePromise, key: tuple[str, ...], error: BackendError) -> None:
        self._missed.pop(key, None)
        promise.settle()
        if not isinstance(error, Cancelled):
            self._runner.notify(error.with_remedy)
