"""The log of each process, and errors that are swallowed on purpose."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.base import log
from backend.base.log import suppress, swallowed
from tests.waiting import LIMIT_S


@pytest.fixture
def loggers() -> Iterator[None]:
    """Leave the loggers of this process as they were."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {n: logging.getLogger(n).level for n in log.PACKAGES}
    yield
    for handler in [h for h in root.handlers if h not in handlers]:
        root.removeHandler(handler)
        handler.close()
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_a_swallowed_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, __name__)
    with suppress(KeyError, OSError):
        raise FileNotFoundError("status.json")
    (record,) = caplog.records
    assert (record.name, record.levelname) == (__name__, "DEBUG")
    assert record.exc_info is not None
    assert "FileNotFoundError: status.json" in caplog.text


def test_the_same_error_at_the_same_place_is_logged_the_1st_10th_and_100th_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, __name__)
    for _ in range(150):
        with suppress(ValueError):
            int("x")
    suffixes = [record.getMessage().partition(", ")[2] for record in caplog.records]
    assert suffixes == ["", "10 times until now", "100 times until now"]


def test_another_error_is_not_swallowed() -> None:
    with pytest.raises(TypeError), suppress(ValueError):
        raise TypeError("a bug")


def test_a_callback_that_swallows_logs_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, __name__)
    swallowed(OSError("gone"))
    assert "OSError: gone" in caplog.text


@pytest.mark.usefixtures("loggers")
def test_a_log_is_readable_by_its_user_alone_and_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "state" / "window.log"
    log.to_file(path)
    logger = logging.getLogger("app.test")
    for _ in range(4 * log.FILES):
        logger.info("x" * 400_000)
    files = sorted(file.name for file in path.parent.iterdir())
    assert files == ["window.log", "window.log.1", "window.log.2"]
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert all(file.stat().st_size <= 2**20 for file in path.parent.iterdir())


def test_records_for_a_share_are_written_at_the_end_and_the_folder_may_be_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "attempt" / "guard-0.log"
    script = (
        "import logging, pathlib, sys\n"
        "from backend.base import log\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "log.to_file_at_end(path)\n"
        "logging.getLogger('backend.x').info('here')\n"
        "assert not path.exists()\n"
        "log.write_out(60.0)\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    completed = subprocess.run(command, env=environment, capture_output=True, timeout=LIMIT_S)
    assert (completed.returncode, completed.stderr) == (0, b"")
    path.parent.mkdir()
    subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
    assert "INFO backend.x: here" in path.read_text()
