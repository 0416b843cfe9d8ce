"""JupyterLab on a node, as the script of a job: it ends when unused, or at its time limit.

The server listens on 127.0.0.1 only. Its token is in a folder of the node's user alone (0700), from
which ``session open`` reads it over SSH: it is in no argument, variable, log or data root.
Python 3.9, and packages that every node has: the node's Python runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

KINDS = ("jupyter", "terminal")
SESSIONS = ".ringmaster/sessions"
"""Folder in the home of the node's user, as `NodeHome.sessions`."""
_POLL_S = 10.0
_START_LIMIT_S = 180.0
_END_LIMIT_S = 20.0
_WARNING_S = 300.0
_BUSY_CORES = 0.1
"""More than an idle kernel uses."""


def last_use_s(
    now_s: float,
    kernels: Sequence[Mapping[str, Any]],
    terminals: Sequence[Mapping[str, Any]],
    gpu_percent: int = 0,
    cores: float = 0.0,
) -> float:
    """Return the time of the last use: now, or the last activity that Jupyter names; 0 if none."""
    is_busy = any(kernel["execution_state"] == "busy" for kernel in kernels)
    if is_busy or gpu_percent or cores > _BUSY_CORES:
        return now_s
    texts = [activity["last_activity"] for activity in (*kernels, *terminals)]
    times = [datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in texts]
    return min(now_s, max(times, default=0.0))


def time_to_end(
    now_s: float, started_s: float, used_s: float, hours: float, idle_min: float
) -> tuple[float, str]:
    """Return the seconds after which the session ends by itself, and the reason."""
    limit_s, idle_s = started_s + hours * 3600 - now_s, used_s + idle_min * 60 - now_s
    if idle_s < limit_s:
        return idle_s, f"no kernel is busy and no GPU is used for {idle_min:g} min"
    return limit_s, f"the time limit is {hours:g} h"


class Server:
    """The process of JupyterLab, and what it is doing."""

    def __init__(self, folder: Path, work: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        self._token = secrets.token_urlsafe(32)
        self._cpu_s: dict[int, float] = {}
        config = folder / "config.json"
        _write_private(config, {"IdentityProvider": {"token": self._token}})
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        settings = {
            "ip": "127.0.0.1",
            "port": port,
            # All that the user may read; hidden folders are not shown.
            "root_dir": "/",
        }
        command += [f"--ServerApp.{name}={value}" for name, value in settings.items()]
        command += [f"--FileContentsManager.preferred_dir={work}"]
        command += [f"--config={config}", "--Application.log_level=WARN"]
        environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(folder)}
        self.process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL
        )
        self._server = psutil.Process(self.process.pid)
        self._port = 0

    def is_ready(self) -> bool:
        """Write the file that ``session open`` reads as soon as the server listens."""
        if not self._port:
            try:
                text = (self._folder / f"jpserver-{self.process.pid}.json").read_text("utf-8")
                self._port = json.loads(text)["port"]
            except (OSError, ValueError):
                return False
            session = {"port": self._port, "token": self._token}
            if self._kind == "terminal":
                self.open_terminal()
            _write_private(self._folder / "session.json", session)
        return True

    def open_terminal(self) -> None:
        """Start the terminal that its page shows; a page that is opened again shows the same."""
        self._read("terminals", b'{"name": "1"}')

    def last_use_s(self) -> float:
        cores, gpu_percent = self._cores(), _gpu_percent()
        try:
            kernels, terminals = self._read("kernels"), self._read("terminals")
        except (OSError, ValueError):
            # A server that does not answer is busy, or its process ends.
            return time.time()
        return last_use_s(time.time(), kernels, terminals, gpu_percent, cores)

    def _read(self, name: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/{name}",
            body,
            {"Authorization": f"token {self._token}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_POLL_S) as answer:
            return json.load(answer)

    def _cores(self) -> float:
        """Return the cores that kernels and terminals have used since the last call."""
        previous_cpu_s, self._cpu_s = self._cpu_s, {}
        try:
            for process in self._server.children(recursive=True):
                self._cpu_s[process.pid] = sum(process.cpu_times()[:2])
        except psutil.Error:
            return 0.0
        used_s = [cpu_s - previous_cpu_s.get(pid, cpu_s) for pid, cpu_s in self._cpu_s.items()]
        return sum(used_s) / _POLL_S

    def end(self) -> None:
        """End the server with its kernels and terminals."""
        self.process.terminate()
        try:
            self.process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _gpu_percent() -> int:
    """Return the highest use of the session's GPUs; 0 if it cannot be read."""
    devices = list(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    if not devices:
        return 0
    import pynvml

    percents = [0]
    try:
        pynvml.nvmlInit()
        for device in devices:
            is_index = device.isdecimal()
            handle = (
                pynvml.nvmlDeviceGetHandleByIndex(int(device))
                if is_index
                else pynvml.nvmlDeviceGetHandleByUUID(device)
            )
            percents.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except pynvml.NVMLError:
        pass
    return max(percents)


def _write_private(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that only its user may read, in one step."""
    temporary = path.with_name(f".{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
    temporary.rename(path)


def write_unused(seconds: float) -> None:
    """Write the time without use where the job's page reads it, if there is room."""
    try:
        path = Path(os.environ["RINGMASTER_OUTPUT"], ".unused_s")
        path.write_text(f"{max(0.0, seconds):.0f}", "ascii")
    except OSError:
        pass


def make_folder(home: Path, run: str) -> Path:
    """Make the private folder of a run, and remove those of earlier runs of its job."""
    sessions = home / SESSIONS
    sessions.mkdir(parents=True, exist_ok=True, mode=0o700)
    sessions.chmod(0o700)
    job_id = run.partition("/")[0]
    for earlier_folder in sessions.glob(f"{job_id}-*"):
        shutil.rmtree(earlier_folder, ignore_errors=True)
    folder = sessions / run.replace("/", "-")
    folder.mkdir(mode=0o700)
    return folder


def _positive(text: str) -> float:
    if not float(text) > 0:
        raise argparse.ArgumentTypeError(f"“{text}” should be more than 0")
    return float(text)


def _say(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=_positive, default=8.0, help="time limit")
    parser.add_argument("--idle-min", type=_positive, default=30.0, help="end after minutes unused")
    parser.add_argument("--folder", default="", help="folder to begin in; default: the home")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="page in the browser")
    parser.add_argument("--again", action="store_true", help="changes nothing: a later run")
    options = parser.parse_args()
    work = Path(options.folder).expanduser() if options.folder else Path.home()
    if not work.is_dir():
        _say(f"The folder {work} does not exist on {socket.gethostname()}.")
        return 1
    # Other users may not change a notebook, which runs as its owner, whatever the data root allows.
    os.umask(os.umask(0) | 0o022)
    stop_signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop_signals.append(number))
    run = os.environ["RINGMASTER_RUN"]
    folder = make_folder(Path.home(), run)
    server = Server(folder, work, options.kind)
    try:
        return _watch(server, options, stop_signals)
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


def _watch(server: Server, options: argparse.Namespace, stop_signals: Sequence[int]) -> int:
    """Watch the server until it ends, is asked to end, or is not used any longer."""
    started_s = used_s = time.time()
    polled_s, is_ready, warning = 0.0, False, ""
    while server.process.poll() is None and not stop_signals:
        time.sleep(0.25)
        if not is_ready:
            is_ready = server.is_ready()
            if is_ready:
                _say("JupyterLab is ready. Open it with “Open session”.")
            elif time.time() > started_s + _START_LIMIT_S:
                _say(f"JupyterLab was not ready after {_START_LIMIT_S:g} s.")
                return 1
            continue
        if time.monotonic() < polled_s + _POLL_S:
            continue
        polled_s = time.monotonic()
        used_s = max(used_s, server.last_use_s())
        write_unused(time.time() - used_s)
        left_s, reason = time_to_end(
            time.time(), started_s, used_s, options.hours, options.idle_min
        )
        if left_s <= 0:
            _say(f"The session ends: {reason}.")
            return 0
        if left_s > _WARNING_S:
            warning = ""
        elif reason != warning:
            warning = reason
            _say(f"The session ends in {max(1, round(left_s / 60))} min: {reason}.")
    code = server.process.poll()
    if code is not None and not stop_signals:
        _say(f"JupyterLab ended {'by itself' if code == 0 else f'with code {code}'}.")
    return abs(code or 0)


if __name__ == "__main__":
    sys.exit(main())
