"""Output of a set-up: progress while it works, one sentence when it cannot continue."""

from __future__ import annotations

import io
import pty
import sys
from pathlib import Path

import pytest

from installers.console import PreparationError, Progress, explain_failure, run_logged
from tests.waiting import Clock


def test_a_log_gets_a_whole_line_every_ten_seconds() -> None:
    output, clock = io.StringIO(), Clock(0.0)
    progress = Progress(output, clock)
    with progress.step("Building"):
        for second in range(25):
            clock.now = second
            progress.detail(f"{4 * second} %")
    assert output.getvalue().splitlines() == [
        "Building …",
        "Building: 10 s, 40 %",
        "Building: 20 s, 80 %",
        "Building: 24 s, done",
    ]


def test_a_terminal_gets_one_line_that_moves() -> None:
    reader_fd, terminal_fd = pty.openpty()
    with open(terminal_fd, "w") as terminal:
        progress = Progress(terminal, Clock())
        with progress.step("Building"):
            progress.detail("50 %")
    with open(reader_fd, "rb") as screen:
        # What was written comes in as many pieces as the terminal likes.
        text = b"".join(iter(lambda: screen.read1(1), b"\n")).decode() + "\n"
    assert text.endswith("Building: 0 s, done\r\n")


def run(tmp_path: Path, code: str, on_line=lambda line: None) -> str:
    log = tmp_path / "log"
    run_logged(
        [sys.executable, "-c", code],
        log=log,
        progress=Progress(io.StringIO()),
        label="The build",
        on_line=on_line,
    )
    return log.read_text(errors="replace")


def test_every_line_arrives_also_the_last_without_its_end(tmp_path: Path) -> None:
    lines: list[str] = []
    run(tmp_path, "print('[ 12%] one'); print('two', end='')", lines.append)
    assert lines == ["[ 12%] one", "two"]


def test_undecodable_bytes_do_no_harm(tmp_path: Path) -> None:
    lines: list[str] = []
    run(tmp_path, r"import os; os.write(1, b'a\xff\n')", lines.append)
    assert lines == ["a\ufffd"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("OSError: [Errno 28] No space left on device", "is full; free some space"),
        ("NewConnectionError: Connection refused", "cannot be reached; check the network"),
        ("SSLError: CERTIFICATE_VERIFY_FAILED, Max retries exceeded", "PIP_CERT=FILE"),
        ("x.cc:3:1: error: no member named 'y'", "stopped: x.cc:3:1: error: no member named 'y'"),
        ("Killed", "stopped with exit code 3"),
    ],
)
def test_a_program_that_stops_becomes_one_sentence(
    tmp_path: Path, output: str, message: str
) -> None:
    with pytest.raises(PreparationError) as error_info:
        run(tmp_path, f"print({output!r}); raise SystemExit(3)")
    assert str(error_info.value).startswith("The build stopped")
    assert message in str(error_info.value)
    assert str(tmp_path) in str(error_info.value)


def test_a_full_disk_is_named_before_the_errors_it_causes() -> None:
    output = "error: cannot write\nNo space left on device"
    assert "is full" in explain_failure("The build", 1, output, Path("/cache/log"))
