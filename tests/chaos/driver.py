"""Lives days of random acts, and finds the shortest sequence that breaks a promise."""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from backend.base.errors import BackendError
from tests.chaos.acts import Act, draw_acts
from tests.chaos.invariants import BrokenPromiseError

Steps = list[tuple[str, int]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Failure:
    """``promise`` names what was broken; ``steps`` are the acts up to it."""

    promise: str
    text: str
    steps: Steps


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass
class Driver:
    """``require`` raises `BrokenPromiseError`; ``end_day`` ends a day in order."""

    acts: Sequence[Act]
    make_world: Callable[[], AbstractContextManager[Any]]
    require: Callable[[Any], None]
    end_day: Callable[[Any], None] = lambda make_world: None
    say: Say = _say
    counts: Counter[str] = field(default_factory=Counter)
    started_s: float = field(default_factory=time.monotonic)
    refusals: Counter[str] = field(default_factory=Counter)

    def replay(self, steps: Iterable[tuple[str, int]], act_count: int) -> Failure | None:
        """Do that many of the acts in a fresh world, until a promise is broken."""
        act_table = {act.name: act for act in self.acts}
        completed_steps: Steps = []
        with self.make_world() as world:
            try:
                for name, seed in steps:
                    if len(completed_steps) == act_count:
                        break
                    if not act_table[name].is_possible(world):
                        continue
                    completed_steps.append((name, seed))
                    self.counts[name] += 1
                    try:
                        outcome = act_table[name].do(world, random.Random(seed)) or ""
                    except BackendError as error:
                        self.refusals[name] += 1
                        outcome = f"refused: {error.with_remedy}"
                    elapsed_s = time.monotonic() - self.started_s
                    self.say(f"{elapsed_s:6.1f} s {len(completed_steps)}. {name}: {outcome}")
                    self.require(world)
                self.end_day(world)
                self.require(world)
            except BrokenPromiseError as broken:
                return Failure(broken.promise, str(broken), completed_steps)
            except Exception as error:  # noqa: BLE001 - a fault of the program, which is reported
                text = "".join(traceback.format_exception(error))
                return Failure(type(error).__name__, text, completed_steps)
        return None

    def shorten(self, failure: Failure, limit_s: float) -> Failure:
        """Replay ever shorter sequences, each in a fresh world; keep what breaks the same."""
        deadline_s = time.monotonic() + limit_s
        size = max(1, len(failure.steps) // 2)
        while time.monotonic() < deadline_s:
            for start in range(0, len(failure.steps), size):
                fewer_steps = failure.steps[:start] + failure.steps[start + size :]
                if not fewer_steps or time.monotonic() > deadline_s:
                    continue
                repeated_failure = self.replay(fewer_steps, len(fewer_steps))
                if repeated_failure is not None and repeated_failure.promise == failure.promise:
                    failure = repeated_failure
                    size = max(1, min(size, len(failure.steps) // 2))
                    break
            else:
                if size == 1:
                    break
                size //= 2
        return failure

    def run_day(self, seed: int, act_count: int, shorten_s: float) -> Failure | None:
        """Live one day; a failure is shortened and reported."""
        failure = self.replay(draw_acts(seed, self.acts), act_count)
        if failure is None:
            return None
        self.say(f"Seed {seed}, after {len(failure.steps)} acts: {failure.text}")
        shortest_failure = self.shorten(failure, shorten_s)
        text = format_steps(shortest_failure.steps)
        self.say(f"The shortest sequence found, of seed {seed}:\n  {text}")
        self.say(shortest_failure.text)
        return shortest_failure

    def summary(self) -> str:
        refusals = self.refusals
        names = sorted(act.name for act in self.acts)
        parts = (f"{name} {self.counts[name]} ({refusals[name]} refused)" for name in names)
        return f"{self.counts.total()} acts: {', '.join(parts)}"


def format_steps(steps: Steps) -> str:
    """Write a sequence as it is given to ``--acts``."""
    return "; ".join(f"{name} {number}" for name, number in steps)


def parse_steps(text: str) -> Steps:
    pairs = (step.strip().rpartition(" ") for step in text.split(";"))
    return [(name, int(number)) for name, _, number in pairs]
