"""S14: processes of runs that are over are found; anybody else's are never offered."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.node.checks import orphans
from backend.node.system import process_identity
from backend.records.base.layout import RUN_VARIABLE, TOOL_TAG, DataRoot
from backend.records.nodes.reading import Orphan
from tests.waiting import LIMIT_S

Plant = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    root = DataRoot(tmp_path)
    root.jobs.mkdir()
    return root


@pytest.fixture
def job(root: DataRoot) -> str:
    """A job whose run 1 is over and whose run 2 is under way."""
    name = f"test-{secrets.token_hex(6)}"
    for run in (1, 2):
        root.job(name).attempt(run).path.mkdir(parents=True)
    root.job(name).attempt(1).exit.write_text("{}")
    return name


@pytest.fixture
def plant() -> Iterator[Plant]:
    processes: list[subprocess.Popen[bytes]] = []

    def start_process(tag: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", "import signal; print(flush=True); signal.pause()", "planted"],
            env={**os.environ, **({RUN_VARIABLE: tag} if tag else {})},
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()  # A process that has only just begun has hardly any memory.
        return process

    yield start_process
    for process in processes:
        process.kill()
        process.communicate()


def pids(root: DataRoot, *among: subprocess.Popen[bytes]) -> list[int]:
    return [orphan.process.pid for orphan in find_orphans(root, *among)]


def find_orphans(root: DataRoot, *among: subprocess.Popen[bytes]) -> list[Orphan]:
    """Return the orphans among these processes; this computer may run other tests, too."""
    known_pids = {orphan.pid for orphan in among}
    return [orphan for orphan in orphans.find(root) if orphan.process.pid in known_pids]


def test_s14_a_planted_orphan_is_found_and_a_foreign_process_is_not(
    root: DataRoot, job: str, plant: Plant
) -> None:
    ended_process, alive, foreign = plant(f"{job}/1"), plant(f"{job}/2"), plant("")
    assert pids(root, ended_process, alive, foreign) == [ended_process.pid]
    (process,) = find_orphans(root, ended_process)
    assert (process.user, process.run_tag) == (getpass.getuser(), f"{job}/1")
    assert process.command.endswith("planted")
    assert process.message == "Run 1 of its job is over."
    assert 0 <= process.age_s < 10 * LIMIT_S
    assert process.memory_bytes > 1_000_000


def test_a_run_of_a_removed_or_restarted_job_is_over(
    root: DataRoot, job: str, plant: Plant
) -> None:
    removed = f"{job}-removed"
    (root.trash / "jobs" / removed).mkdir(parents=True)
    tags = (f"{removed}/1", f"{job}/7", "../../etc/1", "nonsense")
    planted = [plant(tag) for tag in tags]
    messages = {orphan.run_tag: orphan.message for orphan in find_orphans(root, *planted)}
    assert [messages[tag] for tag in tags] == [
        "Its job was removed.",
        "Run 7 of its job was started over.",
        "No job started it.",
        "No job started it.",
    ]


def test_a_tool_at_work_is_no_orphan(root: DataRoot, plant: Plant) -> None:
    assert pids(root, plant(f"{TOOL_TAG}0a1b")) == []


def test_s14_a_run_of_another_data_root_is_left_alone(
    root: DataRoot, job: str, plant: Plant
) -> None:
    assert pids(root, plant(f"{job}-of-another-root/1")) == []


def test_the_processes_of_another_user_are_not_listed(
    root: DataRoot, job: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_process = plant(f"{job}/1")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert pids(root, ended_process) == []


def test_f32_orphans_cannot_be_found_without_the_data_root(
    root: DataRoot, plant: Plant, job: str
) -> None:
    plant(f"{job}/1")
    root.jobs.rename(root.path / "away")
    with pytest.raises(FileNotFoundError):
        orphans.find(root)


def test_only_requested_processes_that_are_still_orphans_are_ended(
    root: DataRoot, job: str, plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, alive = plant(f"{job}/1"), plant(f"{job}/1"), plant(f"{job}/2")
    requested_keys = [_process_key(first, 0), _process_key(second, 1), _process_key(alive, 0)]
    code = orphans.main(["--data-root", str(root.path), "--end", *requested_keys])
    assert code == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["left"] == []
    assert first.wait(LIMIT_S) != 0
    assert (second.poll(), alive.poll()) == (None, None)
    listed_pids = [Orphan.from_dict(raw).process.pid for raw in answer["orphans"]]
    assert second.pid in listed_pids
    assert not {first.pid, alive.pid} & set(listed_pids)


def _process_key(process: subprocess.Popen[bytes], off: int) -> str:
    process_id = process_identity.process(process.pid)
    assert process_id is not None
    return f"{process_id.pid}:{process_id.start_ticks + off}"


def test_an_unreadable_data_root_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert orphans.main(["--data-root", str(tmp_path / "gone")]) == 1
    message = (
        f"The jobs in {tmp_path / 'gone' / 'jobs'} cannot be read: No such file or directory.\n"
    )
    assert capsys.readouterr().err == message
