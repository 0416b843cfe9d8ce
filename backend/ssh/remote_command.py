"""Send a command to a node and separate its output from the login shell's.

The login shell that sshd starts may read a ``~/.bashrc`` that prints, sets traps or ends; it may be
csh or fish, whose quoting differs from POSIX shells. So it gets one command, ``/bin/sh``, with
words that all of them read alike. That prints a random mark before and after the real command, with
the exit code after the second: output outside the marks is the login shell's and is stored
separately. Without any mark, the command never began.
"""

from __future__ import annotations

import re
import secrets
import selectors
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

OUTPUT_LIMIT_BYTES = 4_000_000
"""Of each stream; the end is kept, because it contains the errors."""
_LINE_LIMIT_BYTES = 64 * 1024
_PIECE_BYTES = 32 * 1024
# The mark consists of two halves that only printing joins: a list of processes, which the command
# may print, shows them separately. It is not $0 either, with which the shell's own errors begin.
_SCRIPT = (
    'a=$1; b=$2; shift 2; printf "%s%s\\n" "$a" "$b"; printf "%s%s\\n" "$a" "$b" >&2; "$@"; c=$?; '
    'printf "%s%s%d\\n" "$a" "$b" "$c"; printf "%s%s%d\\n" "$a" "$b" "$c" >&2; exit "$c"'
)
_LOADER = 'eval "$(printf %b "$@")"'
_UNSAFE = re.compile(rb"[^ -~]|['\\\\!]")
"""Characters that shells read differently within quotes: csh ends a quoted text at a line break and
expands history at ``!``, fish reads a backslash as an escape."""
_WORD_LENGTH = 500
"""csh refuses words of some 10 KB; such a character becomes five."""
_SENDING_POLL_S = 0.02
"""Polling interval while input is left, because waiting for the send window is not possible."""


class Channel(Protocol):
    """The part of paramiko's channel that is used here."""

    def exec_command(self, command: str) -> None: ...
    def fileno(self) -> int: ...
    def recv_ready(self) -> bool: ...
    def recv(self, nbytes: int) -> bytes: ...
    def recv_stderr_ready(self) -> bool: ...
    def recv_stderr(self, nbytes: int) -> bytes: ...
    def send_ready(self) -> bool: ...
    def send(self, s: bytes) -> int: ...
    def shutdown_write(self) -> None: ...
    def recv_exit_status(self) -> int: ...
    @property
    def status_event(self) -> threading.Event: ...
    @property
    def eof_received(self) -> bool: ...
    @property
    def closed(self) -> bool: ...


class Stream:
    """One output stream: the text between the marks, limited in size, and line by line."""

    def __init__(self, mark: bytes, on_line: Callable[[str], None] | None) -> None:
        self._mark = mark
        self._on_line = on_line
        self._pending_bytes = b""
        self._line = bytearray()
        self._content = bytearray()
        self.login_output = b""
        """Output of the login shell itself."""
        self.has_begun = False
        self.code: int | None = None

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def feed(self, chunk: bytes) -> None:
        if self.code is not None:
            return
        self._pending_bytes += chunk
        if not self.has_begun and not self._find_begin():
            return
        output, mark, tail = self._pending_bytes.partition(self._mark)
        if not mark:
            # The beginning of the mark may have arrived already.
            held_bytes = next(
                (n for n in range(len(self._mark) - 1, 0, -1) if output.endswith(self._mark[:n])), 0
            )
            cut_index = len(output) - held_bytes
            self._add_content(output[:cut_index])
            self._pending_bytes = output[cut_index:]
        elif b"\n" in tail:
            self._add_content(output)
            self.code = int(tail.partition(b"\n")[0])
            self.end()

    def end(self) -> None:
        """End the stream: the last line may have no line end."""
        if self._line:
            self._pass_lines()

    def _find_begin(self) -> bool:
        login_output, mark, tail = self._pending_bytes.partition(self._mark + b"\n")
        if not mark:
            self._pending_bytes = login_output[-OUTPUT_LIMIT_BYTES:]
            self.login_output = self._pending_bytes
            return False
        self.login_output, self._pending_bytes, self.has_begun = login_output, tail, True
        return True

    def _add_content(self, chunk: bytes) -> None:
        self._content += chunk
        del self._content[:-OUTPUT_LIMIT_BYTES]
        if self._on_line is None:
            return
        *lines, last_line = chunk.split(b"\n")
        for line in lines:
            self._line += line
            self._pass_lines()
        self._line += last_line
        if len(self._line) > _LINE_LIMIT_BYTES:
            self._pass_lines()

    def _pass_lines(self) -> None:
        line, self._line = self._line, bytearray()
        if self._on_line is not None:
            self._on_line(line.decode("utf-8", "replace").rstrip("\r"))


class LoginTimeout(TimeoutError):
    """The login shell began no command in time; the argument is what it printed."""


class CommandEnd:
    """A command that ended. ``began`` is False if the login shell ended before it."""

    def __init__(self, out: Stream, err: Stream, code: int) -> None:
        self.has_begun = out.has_begun
        self.code = code
        self.out = out.content
        self.err = err.content
        self.login_output = _login_output(out, err)


def _login_output(out: Stream, err: Stream) -> str:
    return (err.login_output + b"\n" + out.login_output).decode("utf-8", "replace").strip()


def in_any_shell(script: str) -> str:
    """Return a command line that starts ``/bin/sh`` with ``script`` from any login shell."""
    text = script.encode()
    chunks = (text[start : start + _WORD_LENGTH] for start in range(0, len(text), _WORD_LENGTH))
    arguments = (
        _UNSAFE.sub(lambda match: b"\\0%03o" % match[0][0], chunk).decode() for chunk in chunks
    )
    return " ".join(("/bin/sh", "-c", f"'{_LOADER}'", "sh", *(f"'{word}'" for word in arguments)))


def execute(
    channel: Channel,
    argv: Sequence[str],
    *,
    input: bytes,
    limit_s: float,
    on_line: Callable[[str], None] | None,
) -> CommandEnd:
    """Run ``argv`` on a fresh channel and wait for its end.

    The input is sent when the command has begun, not to a ``~/.bashrc`` that reads an answer.

    Raises:
        LoginTimeout: The login shell did not begin the command within ``limit_s``.
        TimeoutError: The command did not end within ``limit_s``.
        EOFError: The connection closed without the command's exit code.
        OSError: The connection broke.
    """
    halves = secrets.token_hex(8), secrets.token_hex(8)
    mark = "".join(halves).encode()
    deadline = time.monotonic() + limit_s
    out, err = Stream(mark, on_line), Stream(mark, on_line)
    channel.exec_command(in_any_shell(f"set -- {shlex.join([*halves, *argv])}; {_SCRIPT}"))
    unsent_bytes = memoryview(input)
    if not unsent_bytes:
        channel.shutdown_write()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while out.code is None or err.code is None:
            # Read this flag first: data that arrives meanwhile is read in the next round.
            is_over = channel.eof_received or channel.closed
            if _read(channel, out, err):
                continue
            if is_over:
                return _early_end(channel, out, err, deadline)
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError if out.has_begun else LoginTimeout(_login_output(out, err))
            if unsent_bytes and out.has_begun and channel.send_ready():
                unsent_bytes = _send(channel, unsent_bytes)
                continue
            selector.select(
                min(remaining_s, _SENDING_POLL_S) if unsent_bytes and out.has_begun else remaining_s
            )
    return CommandEnd(out, err, out.code)


def _early_end(channel: Channel, out: Stream, err: Stream, deadline: float) -> CommandEnd:
    """Handle an early end of the login shell or of ``sh``; sshd may report an exit code."""
    if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
        raise TimeoutError
    code = channel.recv_exit_status()
    if code < 0:
        raise EOFError
    out.end()
    err.end()
    return CommandEnd(out, err, code)


def _read(channel: Channel, out: Stream, err: Stream) -> bool:
    has_data = False
    if channel.recv_ready():
        out.feed(channel.recv(_PIECE_BYTES))
        has_data = True
    if channel.recv_stderr_ready():
        err.feed(channel.recv_stderr(_PIECE_BYTES))
        has_data = True
    return has_data


def _send(channel: Channel, unsent_bytes: memoryview) -> memoryview:
    try:
        unsent_bytes = unsent_bytes[channel.send(bytes(unsent_bytes[:_PIECE_BYTES])) :]
    except OSError:
        # The command ended without reading all input; its exit code will follow.
        return memoryview(b"")
    if not unsent_bytes:
        channel.shutdown_write()
    return unsent_bytes
