"""TensorBoard on the event files of a job: a process for each job, ended with this process."""

from __future__ import annotations

import json
import secrets
import select
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

from backend.base import process_signals
from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.node.system.start_supervisor import own_environment
from backend.services.tools.training_python import training_python

_START_LIMIT_S = 120.0
_END_LIMIT_S = 5.0


class EventViewers:
    """The running servers. `open` blocks; every call may run on any thread."""

    def __init__(self, root: OpenRoot) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._servers: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def open(self, job_id: str, progress: Progress | None = None) -> str:
        """Return the secret address for a browser on this computer.

        Raises:
            BackendError: The job has no event files, or TensorBoard is not installed.
        """
        progress = progress or Progress()
        folder = self._root.job(job_id).tensorboard
        with as_backend_error(f"The event files of the job {job_id} cannot be read"):
            try:
                files = self._root.files.list_files(folder)
            except FileNotFoundError:
                files = []
            for file in files:
                self._root.files.bring_file(folder / file.path, progress)
        if not files:
            raise BackendError(
                f"The job {job_id} has no event files yet.",
                "A run writes them a few seconds after its first step.",
            )
        with self._lock:
            process, url = self._servers.get(job_id, (None, ""))
            if process is None or process.poll() is not None:
                process, url = _start(folder, progress)
                self._servers[job_id] = process, url
        return url

    def close(self) -> None:
        """End all servers."""
        with self._lock:
            for process, _ in self._servers.values():
                _end(process)
            self._servers.clear()


def _start(folder: Path, progress: Progress) -> tuple[subprocess.Popen[str], str]:
    pythons = dict.fromkeys((training_python(), sys.executable))
    for python in pythons:
        process = _launch(python, folder)
        try:
            answer = _read_answer(process, progress)
        except BaseException:
            _end(process)
            raise
        if url := answer.get("url"):
            return process, url
        _end(process)
        if answer["error"]:
            raise BackendError(f"TensorBoard did not start: {answer['error']}.")
    raise BackendError(
        "TensorBoard is not installed.",
        f"Install it: {shlex.quote(next(iter(pythons)))} -m pip install tensorboard",
    )


def _launch(python: str, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [python, "-m", "backend.training.tools.event_viewer"],
        env=own_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    request = {"folder": str(folder.absolute()), "token": secrets.token_urlsafe(24)}
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
    return process


def _read_answer(process: subprocess.Popen[str], progress: Progress) -> dict[str, str]:
    """Wait for the line with the answer of the process."""
    assert process.stdout is not None
    deadline = time.monotonic() + _START_LIMIT_S
    while not select.select([process.stdout], [], [], 0.1)[0]:
        progress.step(0, 0, "Starting TensorBoard")
        if time.monotonic() > deadline:
            return {"error": f"no answer within {_START_LIMIT_S:.0f} s"}
    try:
        return dict(json.loads(process.stdout.readline()))
    except ValueError as error:
        swallowed(error)
        return {"error": "its process ended"}


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process_signals.end(process, _END_LIMIT_S)
