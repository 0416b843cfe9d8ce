"""The files of agents are not trusted, and their clocks do not say whether they are online."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datastore.access.root_access import OpenRoot
from backend.datastore.nodes import files
from backend.datastore.nodes import files as node_files
from backend.datastore.nodes.files import StatusWatch
from backend.node.metrics.probe import Probe
from backend.records.base.atomic_files import replace_json
from backend.records.nodes.reading import (
    Cpu,
    Finding,
    Gpu,
    GpuProcess,
    MigInstance,
    NodeReading,
    Presence,
)
from tests.fakes.mounted_root import mounted
from tests.waiting import Clock

READING = NodeReading(
    name="gpu1",
    host="gpu1.lab",
    heartbeat=7,
    cpu=Cpu("some", 2, 20.0, 0.5, 0.4, 0.3, (10.0, 30.0)),
    memory_total_bytes=64 << 30,
    memory_used_bytes=8 << 30,
    swap_total_bytes=0,
    swap_used_bytes=0,
    disk_path="/d",
    disk_total_bytes=10**12,
    disk_free_bytes=None,
    gpus=(
        Gpu(
            0,
            "GPU-a",
            "H100",
            clock_event_reasons=("idle",),
            processes=(GpuProcess(7, "alice", None, "python"),),
            mig_instances=(MigInstance(0, "MIG-a", "1g"),),
        ),
    ),
)


@pytest.fixture
def root(tmp_path: Path) -> OpenRoot:
    root = mounted(tmp_path)
    root.node("gpu1").path.mkdir(parents=True)
    return root


Write = Callable[..., "NodeReading | Finding"]


@pytest.fixture
def read_back(root: OpenRoot) -> Write:
    """What is read after a reading with other values was written."""

    def write(**changes: Any) -> NodeReading | Finding:
        raw = json.dumps({**READING.to_dict(), **changes})
        root.node("gpu1").status.write_text(raw)
        return node_files.read_status(root, "gpu1")

    return write


def refusal(result: NodeReading | Finding) -> str:
    assert isinstance(result, Finding)
    assert not result.ok
    assert result.message.count("\n") == 0
    return result.message


def test_the_status_of_an_agent_reads_back_unchanged(root: OpenRoot, read_back: Write) -> None:
    assert read_back() == READING
    own_reading = Probe("gpu1", root.path).read()
    replace_json(root.node("gpu1").status, own_reading.to_dict())
    assert node_files.read_status(root, "gpu1") == own_reading


def test_no_status_yet_is_said(root: OpenRoot) -> None:
    assert refusal(node_files.read_status(root, "gpu1")) == (
        "The agent of gpu1 has not written a status yet."
    )


def test_f59_a_terabyte_is_not_read(root: OpenRoot) -> None:
    with root.node("gpu1").status.open("wb") as file:
        file.truncate(2**40)
    assert "larger than 1000000 bytes" in refusal(node_files.read_status(root, "gpu1"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"heartbeat": ' + b"9" * 100_000 + b"}",
        b'{"name": "\\ud800"}',
    ],
    ids=["empty", "half", "list", "null", "bytes", "deep", "deeper", "long number", "surrogate"],
)
def test_f59_a_malformed_status_is_refused_in_one_sentence(root: OpenRoot, content: bytes) -> None:
    root.node("gpu1").status.write_bytes(content)
    message = refusal(node_files.read_status(root, "gpu1"))
    assert message.startswith("The agent of gpu1 writes a status that cannot be used: ")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"heartbeat": "seven"}, "heartbeat must be a whole number, not text"),
        ({"heartbeat": True}, "heartbeat must be a whole number, not true or false"),
        ({"heartbeat": 1.5}, "heartbeat must be a whole number, not a number"),
        ({"heartbeat": -1}, "heartbeat is out of range"),
        ({"heartbeat": 2**64}, "heartbeat is out of range"),
        ({"uptime_s": float("nan")}, "uptime_s is out of range"),
        ({"uptime_s": float("inf")}, "uptime_s is out of range"),
        ({"uptime_s": float("-inf")}, "uptime_s is out of range"),
        ({"cpu": None}, "cpu must be a table"),
        ({"cpu": {"model": "m"}}, "cpu.cores is missing"),
        ({"gpus": {"0": 1}}, "gpus must be a list, not a table"),
        ({"gpus": [{}] * 5000}, "gpus contains more than 4096 elements"),
        ({"host": ["h"]}, "host must be text, not a list"),
        ({"gpus": [{"index": 0, "uuid": "u", "name": 5}]}, "gpus[0].name must be text"),
        (
            {"gpus": [{"index": 0, "uuid": "u", "name": "n", "lost": "no"}]},
            "gpus[0].lost must be true or false, not text",
        ),
        (
            {"gpus": [{"index": 0, "uuid": "u", "name": "n", "temperature_c": -300}]},
            "gpus[0].temperature_c is out of range",
        ),
    ],
)
def test_f59_values_of_the_wrong_kind_make_a_node_faulty(
    read_back: Write, changes: dict[str, Any], complaint: str
) -> None:
    assert complaint in refusal(read_back(**changes))


def test_f59_names_can_command_no_terminal_and_turn_no_line(read_back: Write) -> None:
    hostile = (
        "\x1b[31mred\x1b]0;title\x07 <b>bold</b><img src=x> \u202egnp.exe \u2066x\n\0" + "é" * 999
    )
    process = {"pid": 1, "user": hostile, "memory_bytes": None, "command": hostile}
    gpu = {"index": 0, "uuid": "u", "name": hostile, "processes": [process]}
    reading = read_back(host=hostile, name=hostile, gpu_message=hostile, gpus=[gpu])
    assert isinstance(reading, NodeReading)
    assert reading.name == "gpu1"
    texts = (
        reading.host,
        reading.gpus[0].name,
        reading.gpus[0].processes[0].user,
        reading.gpu_message,
    )
    for text in texts:
        assert text.isprintable()
        assert text.startswith("?[31mred?]0;title? <b>bold</b><img src=x> ?gnp.exe ?x??é")
        assert len(text) == 300


def test_f59_a_long_complaint_is_cut_and_printable(read_back: Write) -> None:
    assert len(refusal(read_back(cpu={"model": "m", "cores": "\x1b" * 10_000}))) < 400


@pytest.mark.parametrize("kind", ["fifo", "folder", "link to a device"])
def test_f59_an_irregular_file_is_refused_without_a_wait(root: OpenRoot, kind: str) -> None:
    path = root.node("gpu1").status
    {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link to a device": lambda: path.symlink_to("/dev/zero"),
    }[kind]()
    assert "is not a regular file" in refusal(node_files.read_status(root, "gpu1"))


def test_keys_of_a_newer_agent_are_left_out(read_back: Write) -> None:
    assert read_back(wisdom=42, cpu={**READING.to_dict()["cpu"], "brand": "new"}) == READING


text = st.text("aé\x1b\u202e<\0", max_size=5)
plain = st.none() | st.booleans() | st.integers() | st.floats() | text
anything = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)


@given(st.dictionaries(st.sampled_from(sorted(READING.to_dict())), anything))
def test_f59_any_written_data_is_a_reading_or_is_refused(changes: dict[str, Any]) -> None:
    raw = {
        **READING.to_dict(),
        "gpus": [],
        "cpu": {"model": "", "cores": 1, "use_percent": None, "load_1min": 0},
        **changes,
    }
    with suppress(ValueError):
        reading = files.build_record(NodeReading, raw)
        assert reading.heartbeat >= 0
        assert reading.host.isprintable()
        assert json.loads(json.dumps(reading.to_dict(), allow_nan=False))


# Who lives.


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(root: OpenRoot, clock: Clock) -> StatusWatch:
    return StatusWatch(root, clock)


def beat(root: OpenRoot, number: int, **changes: Any) -> None:
    replace_json(root.node("gpu1").status, replace(READING, heartbeat=number, **changes).to_dict())


def test_m15_a_node_is_offline_after_three_missed_heartbeats_and_online_with_the_next(
    root: OpenRoot, watch: StatusWatch, clock: Clock
) -> None:
    beat(root, 1)
    assert watch.read("gpu1").presence is None
    beat(root, 2)
    clock.now += 2
    assert watch.read("gpu1").presence is Presence.ONLINE
    clock.now += 6
    assert watch.read("gpu1").presence is Presence.ONLINE
    clock.now += 0.1
    state = watch.read("gpu1")
    assert state.presence is Presence.OFFLINE
    assert state.message.startswith("no news since ")
    assert state.reading is not None
    assert round(state.silent_s, 3) == 6.1
    beat(root, 3)
    assert watch.read("gpu1").presence is Presence.ONLINE


def test_a_node_with_a_year_old_status_is_never_called_online(
    root: OpenRoot, watch: StatusWatch, clock: Clock
) -> None:
    beat(root, 900)
    assert watch.read("gpu1").presence is None
    clock.now += 7
    state = watch.read("gpu1")
    assert (state.presence, state.message) == (Presence.OFFLINE, "no news")


@pytest.mark.parametrize("off_s", [600, -600, 10**9])
def test_f44_the_clock_of_a_node_is_not_read(
    root: OpenRoot, watch: StatusWatch, clock: Clock, off_s: int
) -> None:
    path = root.node("gpu1").status
    for number in range(1, 6):
        beat(root, number, uptime_s=1.0)
        os.utime(path, (time.time() + off_s, time.time() + off_s))
        clock.now += 2
        presence = watch.read("gpu1").presence
        assert presence is (Presence.ONLINE if number > 1 else None)


@pytest.mark.parametrize("off_s", [0, 20, -20, 45, -45, 600, -600, 10**9])
@pytest.mark.parametrize("is_frozen", [True, False])
@pytest.mark.parametrize("is_first_read", [True, False])
def test_a_frozen_node_is_silent_whatever_the_clocks_say_and_another_node_never(
    root: OpenRoot,
    watch: StatusWatch,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    off_s: int,
    is_frozen: bool,
    is_first_read: bool,
) -> None:
    number, wall_s = 1, 2e9

    def passes(seconds: float) -> None:
        nonlocal number, wall_s
        clock.now, wall_s = clock.now + seconds, wall_s + seconds
        number += not is_frozen
        beat(root, number)
        written_s = 2e9 if is_frozen else wall_s
        os.utime(root.node("gpu1").status, (written_s + off_s,) * 2)

    monkeypatch.setattr(node_files.time, "sleep", passes)
    monkeypatch.setattr(node_files.time, "time", lambda: wall_s)
    if not is_first_read:
        for _ in range(5):
            passes(2.0)
            watch.silent_nodes(["gpu1"])
    passes(100.0)
    assert watch.silent_nodes(["gpu1"]) == (("gpu1",) if is_frozen else ())


def test_f44_the_desktops_own_wall_clock_may_jump(
    root: OpenRoot, watch: StatusWatch, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(root, 1)
    watch.read("gpu1")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    beat(root, 2)
    clock.now += 2
    assert watch.read("gpu1").presence is Presence.ONLINE


def test_an_agent_that_counts_from_one_again_is_online(
    root: OpenRoot, watch: StatusWatch, clock: Clock
) -> None:
    beat(root, 500)
    watch.read("gpu1")
    clock.now += 20
    beat(root, 1)
    assert watch.read("gpu1").presence is Presence.ONLINE


@pytest.mark.parametrize(("interval_s", "limit_s"), [(1e9, 180), (0.0, 3), (10.0, 30)])
def test_f59_no_interval_of_an_agent_keeps_it_online_always(
    root: OpenRoot, watch: StatusWatch, clock: Clock, interval_s: float, limit_s: float
) -> None:
    for number in (1, 2):
        beat(root, number, interval_s=interval_s)
        watch.read("gpu1")
    clock.now += limit_s
    assert watch.read("gpu1").presence is Presence.ONLINE
    clock.now += 0.1
    assert watch.read("gpu1").presence is Presence.OFFLINE


def test_f59_a_status_that_turns_hostile_keeps_the_last_good_reading_and_is_reported(
    root: OpenRoot, watch: StatusWatch, clock: Clock
) -> None:
    for number in (1, 2):
        beat(root, number)
        watch.read("gpu1")
    root.node("gpu1").status.write_text('{"heartbeat": NaN}')
    clock.now += 1
    state = watch.read("gpu1")
    assert state.problem is not None
    assert (state.reading, state.presence) == (replace(READING, heartbeat=2), Presence.ONLINE)
    clock.now += 6
    assert watch.read("gpu1").presence is Presence.OFFLINE


def test_a_node_set_up_again_starts_over(root: OpenRoot, watch: StatusWatch, clock: Clock) -> None:
    for number in (1, 2):
        beat(root, number)
        watch.read("gpu1")
    watch.remove("gpu1")
    state = watch.read("gpu1")
    assert (state.presence, state.silent_s) == (None, 0.0)
