"""What the agent keeps of the last hours, and what a desktop makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backend.datastore.nodes.history import read_past
from backend.node.metrics.history_writer import LIMIT_BYTES, HistoryLines, HistoryWriter
from backend.node.system.background_service import ServiceLock
from backend.records.base.layout import DataRoot, NodeFolder
from backend.records.nodes.history import (
    WEEK_EVERY_S,
    HistoryParser,
    PastReading,
    names_line,
    past_line,
)
from backend.records.nodes.reading import Cpu, Gpu, NodeReading
from tests.fakes.nvml.driver import FakeDriver, build
from tests.waiting import Clock, wait_for
from widgets.nodes.history.node_history import to_history_data

ROOT = Path(__file__).parents[4]
DAY_S = 86_400.0
GPU = Gpu(0, "GPU-a", "H100", 40, 80, 93, 66, 371.6, sm_clock_mhz=1410)
READING = NodeReading(
    "gpu1",
    "gpu1.lab",
    1,
    Cpu("c", 8, 46.0, 0.1),
    100,
    50,
    0,
    0,
    "/d",
    None,
    None,
    network_in_bytes_per_s=1e9,
    network_out_bytes_per_s=0.4,
    gpus=(GPU, replace(GPU, index=1, uuid="GPU-b", power_w=None)),
)
HOT = replace(GPU, clock_event_reasons=("hardware thermal slowdown",))


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    root = DataRoot(tmp_path)
    root.node("gpu1").path.mkdir(parents=True)
    return root


@pytest.fixture
def folder(root: DataRoot) -> NodeFolder:
    return root.node("gpu1")


@pytest.fixture
def clock() -> Clock:
    """A line each 20 seconds, without the wait."""
    return Clock(1_700_000_000.0, step_s=20)


def keep(writer: HistoryWriter, *readings: NodeReading) -> None:
    for reading in readings:
        writer.append(writer.lines(reading), reading)


def beats(count: int, first: int = 1) -> list[NodeReading]:
    return [replace(READING, heartbeat=first + n) for n in range(count)]


def read(root: DataRoot, clock: Clock) -> tuple[PastReading, ...]:
    return read_past(root.node("gpu1"), clock.now, 0.0, DAY_S)


def test_a_line_has_the_figures_of_its_reading(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    keep(HistoryWriter(folder, every_s=0, clock=clock), READING)
    (line,) = read(root, clock)
    assert (line.processor_percent, line.network_bytes_per_s) == (46.0, 1e9)
    first, second = line.gpus
    assert (first.uuid, first.temperature_c, first.sm_clock_mhz) == ("GPU-a", 66, 1410)
    assert (first.use_percent, first.memory_percent, first.power_w) == (93, 50.0, 372)
    assert (second.uuid, second.power_w, second.health_problem) == ("GPU-b", None, "")


def test_s13_a_slowdown_between_two_lines_is_in_the_next_one(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    writer = HistoryWriter(folder, every_s=3600, clock=clock)
    keep(writer, READING)
    keep(writer, replace(READING, heartbeat=2, gpus=(HOT, READING.gpus[1])), *beats(9, 3))
    writer._hours._next_s = 0.0
    keep(writer, *beats(1, 20))
    first_line, second_line = read(root, clock)
    assert [gpu.health_problem for gpu in first_line.gpus] == ["", ""]
    assert [gpu.health_problem for gpu in second_line.gpus] == ["slowed by heat", ""]


def test_s13_the_agent_of_a_node_whose_gpu_is_slowed_by_heat_keeps_it(
    root: DataRoot, folder: NodeFolder, tmp_path: Path
) -> None:
    driver = FakeDriver(build(tmp_path / "library"), tmp_path / "state")
    driver.describe("gpus 2", "temperature 1 91", "reasons 1 64", "ecc 1 0 0 0 0")
    command = [
        sys.executable,
        "-m",
        "backend.node.agent.agent",
        "--name",
        "gpu1",
        "--interval",
        "0.1",
    ]
    command += ["--folder", str(folder.path), "--data-root", str(root.path)]
    agent = subprocess.Popen(command, env={**driver.environment, "PYTHONPATH": str(ROOT)})

    def line_with_gpus() -> PastReading | None:
        """The first one; the driver may not answer at once."""
        return next(
            (reading for reading in read_past(folder, time.time(), 0.0, DAY_S) if reading.gpus),
            None,
        )

    try:
        line = wait_for(line_with_gpus, "a line")
    finally:
        agent.terminate()
        agent.wait()
        ServiceLock(folder.path).path.unlink(missing_ok=True)
    assert line is not None
    assert [gpu.health_problem for gpu in line.gpus] == ["", "slowed by heat, runs hot, 91 °C"]
    assert line.gpus[1].temperature_c == 91


def test_both_files_together_stay_below_the_bound_and_the_newest_is_never_lost(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    writer = HistoryWriter(folder, every_s=0, limit_bytes=2_000, clock=clock)
    for n in range(300):
        keep(writer, replace(READING, heartbeat=n, cpu=replace(READING.cpu, use_percent=n / 10)))
        assert folder.history.stat().st_size <= 2_000
    assert folder.earlier_history.stat().st_size <= 2_000
    readings = [reading.processor_percent for reading in read(root, clock)]
    assert readings[-1] == 29.9
    assert len(readings) > 20


def test_a_day_of_eight_gpus_is_a_megabyte() -> None:
    counts = replace(GPU, ecc_corrected=12, ecc_uncorrected=0)
    eight = tuple(replace(counts, index=n, uuid=f"GPU-{n}") for n in range(8))
    line = past_line(replace(READING, gpus=eight), 1_700_000_000.0, {})
    assert len(line) * DAY_S / 20 < LIMIT_BYTES
    assert len(line) * 7 * DAY_S / WEEK_EVERY_S < LIMIT_BYTES


def test_memory_errors_are_kept_where_a_gpu_counts_them(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    counts = replace(GPU, ecc_corrected=12, ecc_uncorrected=1)
    reading = replace(READING, gpus=(counts, READING.gpus[1]))
    keep(HistoryWriter(folder, every_s=0, clock=clock), reading)
    (line,) = read(root, clock)
    assert [(gpu.ecc_corrected, gpu.ecc_uncorrected) for gpu in line.gpus] == [
        (12, 1),
        (None, None),
    ]


def write_days(folder: NodeFolder, clock: Clock, fine_days: float, wide_days: float) -> None:
    """Lines as an agent wrote them so many days long, the newest now."""
    for path, days, every_s in (
        (folder.history, fine_days, 20.0),
        (folder.week_history, wide_days, WEEK_EVERY_S),
    ):
        times = [clock.now - every_s * n for n in range(round(days * DAY_S / every_s))]
        single_gpu = replace(READING, gpus=(GPU,))
        lines = [past_line(single_gpu, at_s, {}) for at_s in reversed(times)]
        path.write_bytes(names_line(("GPU-a",)) + b"".join(lines))


def test_a_week_is_known_in_wide_steps_and_its_last_day_in_narrow_ones(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    write_days(folder, clock, fine_days=1.2, wide_days=8)
    readings = read_past(root.node("gpu1"), clock.now, 0.0, 7 * DAY_S)
    ages = [clock.now - reading.at_s for reading in readings]
    assert ages == sorted(set(ages), reverse=True)
    assert (ages[0], ages[-1]) == (7 * DAY_S, 0.0)
    assert {reading.every_s for reading in readings if clock.now - reading.at_s > DAY_S} == {
        WEEK_EVERY_S
    }
    assert {reading.every_s for reading in readings if clock.now - reading.at_s < DAY_S} == {20.0}
    # And the curve of it has no gap.
    assert not np.isnan(to_history_data(readings).values["GPU-a", "temperature"]).any()


def test_a_slowdown_between_two_lines_of_the_week_is_in_the_next_one(
    folder: NodeFolder, clock: Clock
) -> None:
    writer = HistoryWriter(folder, every_s=0, clock=clock)
    writer.lines(READING)
    writer.lines(replace(READING, heartbeat=2, gpus=(HOT, READING.gpus[1])))
    assert writer.lines(replace(READING, heartbeat=3)).week is None
    writer._week._next_s = 0.0
    due = writer.lines(replace(READING, heartbeat=4))
    assert due.week is not None
    assert b"slowed by heat" in due.week
    writer.append(HistoryLines(week=due.week), READING)
    assert not folder.history.exists()
    assert folder.week_history.read_bytes().endswith(due.week)


def test_a_file_that_filled_up_between_two_reads_is_found_again(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    writer = HistoryWriter(folder, every_s=0, limit_bytes=1_200, clock=clock)
    line_count = 0
    for n in range(40):
        keep(writer, *beats(1, n))
        readings = read(root, clock)
        assert [reading.at_s for reading in readings] == sorted(
            {reading.at_s for reading in readings}
        )
        line_count = max(line_count, len(readings))
    assert line_count > 5


def test_a_line_that_an_agent_did_not_finish_takes_no_other_along(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    keep(HistoryWriter(folder, every_s=0, clock=clock), READING)
    with folder.history.open("ab") as file:
        file.write(b'{"t":17000')
    later = replace(READING, heartbeat=2, cpu=replace(READING.cpu, use_percent=99.0))
    keep(HistoryWriter(folder, every_s=0, clock=clock), later)
    assert [reading.processor_percent for reading in read(root, clock)] == [46.0, 99.0]


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
def test_the_times_are_the_readers_however_wrong_the_clock_of_the_node_is(
    root: DataRoot, folder: NodeFolder, ahead_s: float
) -> None:
    now = 1_700_000_000.0
    lines = [past_line(READING, now + ahead_s - age, {}) for age in (60, 40, 20)]
    folder.history.write_bytes(names_line(("GPU-a", "GPU-b")) + b"".join(lines))
    readings = read_past(root.node("gpu1"), now, ahead_s, DAY_S)
    assert [round(now - reading.at_s) for reading in readings] == [60, 40, 20]


def test_a_clock_set_back_hides_no_newer_line(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    now = 1_700_000_000.0
    times = (now - 80, now + 3600, now + 3620, now - 40, now - 20)
    folder.history.write_bytes(
        names_line(()) + b"".join(past_line(replace(READING, gpus=()), t, {}) for t in times)
    )
    readings = read_past(root.node("gpu1"), now, 0.0, DAY_S)
    assert [now - reading.at_s for reading in readings] == [80, 40, 20]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[]",
        b"7",
        b'{"t":"noon","g":[]}',
        b'{"t":1e400,"g":[]}',
        b'{"t":NaN,"g":[]}',
        b'{"t":1,"g":7}',
        b'{"t":1,"g":[7]}',
        b'{"t":1,"g":[],"w":[]}' + b"[" * 50_000,
        b'{"gpus":7}',
    ],
)
def test_malformed_lines_are_skipped(line: bytes) -> None:
    good = past_line(READING, 1_700_000_000.0, {})
    lines = HistoryParser()
    readings = lines.feed(names_line(("GPU-a", "GPU-b")) + line + b"\n" + good)
    assert [reading.at_s for reading in readings] == [1_700_000_000.0]


def test_foreign_lines_cannot_control_a_terminal() -> None:
    lines = HistoryParser()
    (readings,) = lines.feed(
        b'{"gpus":["\\u001b[31mGPU"]}\n{"t":1,"g":[[1,true,"x",null]],"w":{"0":"\\u202eevil"}}\n'
    )
    (gpu,) = readings.gpus
    assert (gpu.uuid, gpu.health_problem) == ("?[31mGPU", "?evil")
    assert (gpu.temperature_c, gpu.sm_clock_mhz, gpu.use_percent) == (1, None, None)


def test_lines_that_each_name_other_gpus_get_bounded_columns(
    root: DataRoot, folder: NodeFolder
) -> None:
    lines = 30_000
    folder.history.write_text(
        "".join(
            f'{{"gpus":["{n}"]}}\n{{"t":{n},"g":[[1,2,3,4,5]],"w":{{"0":"{n}"}}}}\n'
            for n in range(lines)
        )
    )
    readings = read_past(root.node("gpu1"), lines, 0.0, DAY_S)
    assert len(readings) == 10_000
    assert [gpu.uuid for reading in readings for gpu in reading.gpus] == [
        str(n) for n in range(lines - 64, lines)
    ]
    assert len(to_history_data(readings).values) < 700


def test_a_pipe_in_its_place_blocks_no_reader(
    root: DataRoot, folder: NodeFolder, clock: Clock
) -> None:
    os.mkfifo(folder.history)
    assert read(root, clock) == ()
