"""A short random day, and what the driver makes of programs that break their promises."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from backend.node.system.start_supervisor import CODE_ROOT
from tests.chaos.acts import ACTS, Act, draw_acts
from tests.chaos.driver import Driver, format_steps, parse_steps
from tests.chaos.invariants import BrokenPromiseError
from tests.waiting import LIMIT_S


def run_chaos(root: Path, *argv: str) -> tuple[int, str]:
    completed = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *argv],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=4 * LIMIT_S,
        check=False,
    )
    return completed.returncode, completed.stdout + completed.stderr


def test_a_random_day_breaks_no_promise() -> None:
    code, output = run_chaos(
        CODE_ROOT, "--days", "1", "--seed", "36", "--length", "24", "--shorten", "0"
    )
    assert code == 0, output


@pytest.mark.slow  # a copy of the program for each
@pytest.mark.parametrize(
    ("file", "line", "instead", "acts", "promise"),
    [
        (
            "backend/node/run/supervisor.py",
            "write_until_done(self._attempt.exit, record.to_dict(), _WRITE_LIMIT_S)",
            "pass",
            "create and start 1; let it train 2; stop 3",
            "ends have causes",
        ),
        (
            "backend/training/checkpoint.py",
            "            replace_json(self._folder.latest, self.last_checkpoint.to_dict())",
            "            pass",
            "create and start 1; let it train 2; stop 3",
            "ends are saved",
        ),
    ],
)
def test_a_broken_program_is_found(
    tmp_path: Path, file: str, line: str, instead: str, acts: str, promise: str
) -> None:
    copy = tmp_path / "copy"
    unneeded = shutil.ignore_patterns(
        ".git", "__pycache__", "pictures", "build", "dist", ".*_cache"
    )
    shutil.copytree(CODE_ROOT, copy, ignore=unneeded, symlinks=True)
    text = (copy / file).read_text()
    assert line in text
    (copy / file).write_text(text.replace(line, instead))
    code, output = run_chaos(copy, "--acts", acts)
    assert (code, promise in output) == (1, True), output


def test_a_day_is_the_same_for_its_seed_and_can_be_written_down() -> None:
    day, same_day, other_day = ([*islice(draw_acts(seed, ACTS), 50)] for seed in (7, 7, 8))
    assert day == same_day != other_day
    assert parse_steps(format_steps(day)) == day


@pytest.mark.parametrize(
    ("needed_names", "noise"),
    [
        *(("a", 0), ("a", 30), ("ab", 30)),
        *(("ba", 30), ("aba", 60), ("abcba", 60)),
    ],
)
def test_the_shortest_sequence_is_found(needed_names: str, noise: int) -> None:
    chance = random.Random(noise)
    names = chance.choices("xyz", k=noise)
    for index in sorted(chance.choices(range(noise + 1), k=len(needed_names)), reverse=True):
        names.insert(index, needed_names[-1 - sum(name in "abc" for name in names)])

    def require_no_sequence(world: list[str]) -> None:
        remaining_names = iter(world)
        if all(any(name == done_name for done_name in remaining_names) for name in needed_names):
            raise BrokenPromiseError("order", "".join(world))

    def act(name: str) -> Act:
        return Act(name, 1, lambda world: True, lambda world, chance: world.append(name))  # type: ignore[attr-defined]

    def world() -> contextlib.nullcontext[list[str]]:
        return contextlib.nullcontext([])

    acts = [act(name) for name in "abcxyz"]
    driver = Driver(acts, world, require_no_sequence, say=lambda text: None)
    failure = driver.replay([(name, n) for n, name in enumerate(names)], len(names))
    assert failure is not None
    shortest_failure = driver.shorten(failure, LIMIT_S)
    assert [name for name, _ in shortest_failure.steps] == list(needed_names)
