"""A `Shell` to this computer, with a home of its own: keeps the promises of the one over SSH."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from backend.records.base.atomic_files import replace_bytes
from backend.ssh.interface import CommandResult, Unreachable
from backend.ssh.sftp import RemoteFile

_CHUNK_BYTES = 1 << 20


class LocalShell:
    """Executes here. A test cuts the connection with `broken`, or listens with `on_run`.

    ``tools`` stands first in PATH, so that what it holds is found instead of the system's.
    """

    def __init__(self, home: Path, tools: Path | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.is_broken = False
        self.sent_bytes = 0
        self.commands: list[tuple[str, ...]] = []
        self.on_run: Callable[[tuple[str, ...]], CommandResult | None] = lambda argv: None
        """Sees every command first; what it returns is the answer, and None executes."""
        first = f"{tools}:" if tools else ""
        first += f"{_tools_without_schedulers(home)}:"
        self._variables = {
            "HOME": str(home),
            "PATH": f"{first}/usr/local/bin:/usr/bin:/bin:/usr/games",
            "LANG": "C.UTF-8",
        }

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        limit_s: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> CommandResult:
        self._check()
        self.commands.append(tuple(argv))
        fake_result = self.on_run(tuple(argv))
        self._check()
        if fake_result is not None:
            return fake_result
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._variables,
                cwd=self.home,
                start_new_session=True,
            )
        except OSError as error:
            return CommandResult(127, "", f"{argv[0]}: {error.strerror}")
        kill_timer = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
        kill_timer.start()
        error_output: list[bytes] = []
        with process:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            errors = process.stderr
            reader = threading.Thread(target=lambda: error_output.append(errors.read()))
            reader.start()
            lines = []
            try:
                # Who does not read it may have ended, and what it said counts all the same.
                with suppress(BrokenPipeError):
                    process.stdin.write(input)
                with suppress(BrokenPipeError):
                    process.stdin.close()
                for raw in process.stdout:
                    lines.append(raw.decode("utf-8", "replace"))
                    if on_line is not None:
                        on_line(lines[-1].rstrip("\n"))
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                reader.join()
                code = process.wait()
                is_timeout = kill_timer.finished.is_set()
                kill_timer.cancel()
        if is_timeout:
            raise Unreachable(f"{argv[0]} did not end within {limit_s:g} s.")
        return CommandResult(
            code, "".join(lines), b"".join(error_output).decode("utf-8", "replace")
        )

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._check()
        self.sent_bytes += len(content)
        replace_bytes(Path(path), content, mode)

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        self._check()
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(limit_bytes)

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        self._check()
        with os.scandir(path) as entries:
            return tuple(
                RemoteFile(entry.path, stat.st_size, entry.is_dir(), mtime_s=int(stat.st_mtime))
                for entry in entries
                if (stat := entry.stat(follow_symlinks=False))
            )

    def send(
        self, source: Path, path: str, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        self._copy(source, Path(path), on_bytes)
        self.sent_bytes += source.stat().st_size

    def fetch(
        self, path: str, target: Path, on_bytes: Callable[[int, int], None] | None = None
    ) -> None:
        self._copy(Path(path), target, on_bytes)

    def open_port(self, port: int) -> socket.socket:
        self._check()
        return socket.create_connection(("127.0.0.1", port))

    def close(self) -> None:
        self.is_broken = True

    def _check(self) -> None:
        if self.is_broken:
            raise Unreachable("The connection is gone.", "Try again.")

    def _copy(
        self, source: Path, target: Path, on_bytes: Callable[[int, int], None] | None
    ) -> None:
        self._check()
        total, copied_bytes = source.stat().st_size, 0
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with source.open("rb") as reading, temporary.open("xb") as writing:
                while chunk := reading.read(_CHUNK_BYTES):
                    writing.write(chunk)
                    copied_bytes += len(chunk)
                    self._check()
                    if on_bytes is not None:
                        on_bytes(copied_bytes, total)
            shutil.move(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def _tools_without_schedulers(home: Path) -> Path:
    """What an agent installs here must not be started by the crontab of who runs the tests."""
    folder = home / ".no-keepers"
    folder.mkdir(exist_ok=True)
    for name in ("crontab", "systemctl", "loginctl"):
        path = folder / name
        path.write_text("#!/bin/sh\nexit 127\n")
        path.chmod(0o755)
    return folder
