"""The script of a session: when it ends, and who can read its token."""

from __future__ import annotations

import stat
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "resources/session/session.py"
NOW = 1_796_000_000.0
STAMP = "2026-11-30T00:50:00.000000Z"
STAMP_S = 1_795_999_800.0
IDLE = {"execution_state": "idle", "last_activity": STAMP}
BUSY = {"execution_state": "busy", "last_activity": STAMP}
TERMINAL = {"name": "1", "last_activity": "2026-11-30T00:52:00Z"}


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("session_script", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kernels", "terminals", "readings", "used_s"),
    [
        ([], [], {}, 0.0),
        ([IDLE], [], {}, STAMP_S),
        ([IDLE, BUSY], [], {}, NOW),
        ([IDLE], [TERMINAL], {}, STAMP_S + 120),
        # A kernel whose browser is closed has this state until its first message.
        ([{**IDLE, "execution_state": "starting"}], [], {}, STAMP_S),
        ([IDLE], [], {"gpu_percent": 1}, NOW),
        ([], [TERMINAL], {"cores": 0.5}, NOW),
        ([], [TERMINAL], {"cores": 0.02}, STAMP_S + 120),
        # The clock was set back.
        ([{**IDLE, "last_activity": "2027-01-01T00:00:00Z"}], [], {}, NOW),
    ],
)
def test_a_busy_kernel_a_gpu_or_a_working_terminal_is_a_use(
    script: Any, kernels: list[Any], terminals: list[Any], readings: dict[str, Any], used_s: float
) -> None:
    assert script.last_use_s(NOW, kernels, terminals, **readings) == used_s


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hours", "nan"], "argument --hours: “nan” should be more than 0"),
        (["--idle-min", "-1"], "argument --idle-min: “-1” should be more than 0"),
        (["--hours", "8h"], "argument --hours: invalid _positive value: '8h'"),
    ],
)
def test_a_limit_that_is_none_ends_it_with_an_error(options: list[str], message: str) -> None:
    completed = subprocess.run([sys.executable, SOURCE, *options], capture_output=True, text=True)
    assert (completed.returncode, message in completed.stderr) == (2, True)


@pytest.mark.parametrize(
    ("now_min", "used_min", "left_min", "reason"),
    [
        (0, 0, 30, "no kernel is busy and no GPU is used for 30 min"),
        (29, 0, 1, "no kernel is busy and no GPU is used for 30 min"),
        (31, 0, -1, "no kernel is busy and no GPU is used for 30 min"),
        (31, 31, 29, "the time limit is 1 h"),
        (61, 61, -1, "the time limit is 1 h"),
    ],
)
def test_it_ends_when_unused_or_at_its_limit_whichever_is_first(
    script: Any, now_min: int, used_min: int, left_min: int, reason: str
) -> None:
    times_s = (NOW + now_min * 60, NOW, NOW + used_min * 60)
    assert script.time_to_end(*times_s, hours=1, idle_min=30) == (left_min * 60, reason)


def test_only_the_user_of_the_node_reads_the_token(script: Any, tmp_path: Path) -> None:
    (tmp_path / script.SESSIONS).mkdir(parents=True, mode=0o755)
    earlier_folder = script.make_folder(tmp_path, "job/1")
    other_folder = script.make_folder(tmp_path, "job2/1")
    folder = script.make_folder(tmp_path, "job/2")
    script._write_private(folder / "session.json", {"port": 1})
    script._write_private(folder / "session.json", {"port": 2})
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)]
    assert modes == [0o700, 0o700]
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not earlier_folder.exists()
    assert other_folder.exists()


@pytest.mark.parametrize(
    ("devices", "percent"),
    [("", 0), ("GPU-a", 0), ("GPU-a,GPU-b", 40), ("1", 40), ("MIG-c", 0)],
)
def test_the_use_of_a_gpu_is_read_from_the_driver(
    script: Any, monkeypatch: pytest.MonkeyPatch, devices: str, percent: int
) -> None:
    class NVMLError(Exception):
        pass

    uses = {"GPU-a": 0, "GPU-b": 40, 0: 0, 1: 40}

    def utilization(handle: Any) -> Any:
        if handle not in uses:
            # A part of a GPU (MIG) has no figure.
            raise NVMLError
        return SimpleNamespace(gpu=uses[handle])

    driver = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=int,
        nvmlDeviceGetHandleByUUID=str,
        nvmlDeviceGetUtilizationRates=utilization,
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
    assert script._gpu_percent() == percent
