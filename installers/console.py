"""Output of the set-up, and programs that it runs.

A terminal gets one line that is updated; a file or a CI log gets a whole line at intervals, because
a build that is silent for a minute looks hung.  The output of the other programs goes to a log, and
its last lines become a sentence when they fail.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

Argument = str | os.PathLike[str]

_PLAIN_INTERVAL_S = 10.0
_TERMINAL_INTERVAL_S = 0.2

_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution"
    r"|Temporary failure resolving|Could not resolve|Network is unreachable|Connection refused"
    r"|Max retries exceeded|ConnectTimeout|ReadTimeout|Read timed out|ProxyError"
    r"|Connection broken|Connection aborted|IncompleteRead|Unable to connect to"
    r"|error sending request|tcp connect error|dns error"
)
_NO_TRUST = re.compile(r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate")


class PreparationError(Exception):
    """The set-up cannot continue.  str() is one sentence for the user, with the remedy."""


class Progress:
    """Reports on one stream what is done, for how long, and how much of it is complete."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        self._stream = stream or sys.stderr
        self._clock = clock
        self._is_terminal = self._stream.isatty()
        self._text = ""
        self._detail = ""
        self._started_s = self._reported_s = clock()

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Report everything until the end of the block as this step."""
        self._text, self._detail = text, ""
        self._started_s = self._reported_s = self._clock()
        self._show(f"{text} …")
        yield
        self._detail = "done"
        self._report()
        if self._is_terminal:
            self._stream.write("\n")
        self._text = ""

    def detail(self, detail: str) -> None:
        """Set the step's progress, in a few words."""
        self._detail = detail
        self.tick()

    def tick(self) -> None:
        """Update the line as time passes."""
        interval = _TERMINAL_INTERVAL_S if self._is_terminal else _PLAIN_INTERVAL_S
        if self._clock() - self._reported_s >= interval:
            self._report()

    def _report(self) -> None:
        self._reported_s = self._clock()
        details = [f"{self._reported_s - self._started_s:.0f} s"] + (
            [self._detail] if self._detail else []
        )
        self._show(f"{self._text}: {', '.join(details)}")

    def _show(self, line: str) -> None:
        if self._is_terminal:
            width = os.get_terminal_size(self._stream.fileno()).columns or 80
            self._stream.write(f"\r\x1b[K{line[: width - 1]}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def _clear(self) -> None:
        if self._is_terminal and self._text:
            self._stream.write("\r\x1b[K")


def run_logged(
    command: Sequence[Argument],
    *,
    log: Path,
    progress: Progress,
    label: str,
    on_line: Callable[[str], None] = lambda line: None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    hold: Sequence[int] = (),
) -> None:
    """Run a program to its end, with its output in `log`.

    `hold` are descriptors that the program inherits.  A lock's descriptor belongs there: if this
    process is killed, the lock stays taken until the orphans have ended too, so the next start
    cannot clear a folder in which they still write.
    """
    tail: list[str] = []

    def handle_line(line: str) -> None:
        tail.append(line)
        del tail[:-400]
        on_line(line)

    with log.open("ab") as log_file:
        log_file.write(f"\n$ {' '.join(map(str, command))}\n".encode())
        log_file.flush()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            cwd=folder,
            pass_fds=hold,
            start_new_session=True,  # so that a build's compilers can be ended together with it
        )
        try:
            with process:
                for line in _read_lines(process, progress.tick):
                    log_file.write(line)
                    handle_line(line.decode(errors="replace").rstrip())
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise PreparationError(explain_failure(label, process.returncode, "\n".join(tail), log))


def _read_lines(process: subprocess.Popen[bytes], tick: Callable[[], None]) -> Iterator[bytes]:
    assert process.stdout is not None
    partial_line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            tick()
            if not selector.select(timeout=_TERMINAL_INTERVAL_S):
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            *lines, partial_line = (partial_line + chunk).split(b"\n")
            yield from (line + b"\n" for line in lines)
    if partial_line:
        yield partial_line


def explain_failure(label: str, exit_code: int, output: str, log: Path) -> str:
    """Return one sentence for a program that failed: the cause and the remedy."""
    if _NO_SPACE.search(output):
        return (
            f"{label} stopped because the disk that holds {log.parent} is full; free some space "
            "and start again, it continues from here."
        )
    if _NO_TRUST.search(output):
        return (
            f"{label} stopped because this machine does not trust the package index's "
            "certificate; if your institute uses a proxy with its own certificate, set "
            f"PIP_CERT=FILE to it (details: {log})."
        )
    if _NO_NETWORK.search(output):
        return (
            f"{label} stopped because the package index cannot be reached; check the network and "
            f"the proxy, then start again, it continues from here (details: {log})."
        )
    # uv names the reason in lines of its own below the error.
    error_text = re.sub(r"\n\s+cause: ", ": ", output)
    errors = [
        line.strip() for line in error_text.splitlines() if re.search(r"\berror\b", line, re.I)
    ]
    cause = f": {errors[0][:300]}" if errors else f" with exit code {exit_code}"
    return f"{label} stopped{cause} (its whole output is in {log})."
