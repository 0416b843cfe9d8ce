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
from tests.chaos.acts import Act, drawn
from tests.chaos.invariants import Broken

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
    """``world`` makes a fresh one; ``require`` raises `Broken`; ``rest`` ends a day in order."""

    acts: Sequence[Act]
    world: Callable[[], AbstractContextManager[Any]]
    require: Callable[[Any], None]
    rest: Callable[[Any], None] = lambda world: None
    say: Say = _say
    counts: Counter[str] = field(default_factory=Counter)
    begin: float = field(default_factory=time.monotonic)
    refusals: Counter[str] = field(default_factory=Counter)

    def live(self, steps: Iterable[tuple[str, int]], number: int) -> Failure | None:
        """Do that many of the acts in a fresh world, until a promise is broken."""
        table = {act.name: act for act in self.acts}
        done: Steps = []
        with self.world() as world:
            try:
                for name, chance in steps:
                    if len(done) == number:
                        break
                    if not table[name].able(world):
                        continue
                    done.append((name, chance))
                    self.counts[name] += 1
                    try:
                        what = table[name].do(world, random.Random(chance)) or ""
                    except BackendError as error:
                        self.refusals[name] += 1
                        what = f"refused: {error.with_remedy}"
                    self.say(f"{time.monotonic() - self.begin:6.1f} s {len(done)}. {name}: {what}")
                    self.require(world)
                self.rest(world)
                self.require(world)
            except Broken as broken:
                return Failure(broken.promise, str(broken), done)
            except Exception as error:  # noqa: BLE001 - a fault of the program, which is reported
                text = "".join(traceback.format_exception(error))
                return Failure(type(error).__name__, text, done)
        return None

    def shortened(self, failure: Failure, limit_s: float) -> Failure:
        """Replay ever shorter sequences, each in a fresh world; keep what breaks the same."""
        end = time.monotonic() + limit_s
        size = max(1, len(failure.steps) // 2)
        while time.monotonic() < end:
            for begin in range(0, len(failure.steps), size):
                fewer = failure.steps[:begin] + failure.steps[begin + size :]
                if not fewer or time.monotonic() > end:
                    continue
                again = self.live(fewer, len(fewer))
                if again is not None and again.promise == failure.promise:
                    failure = again
                    size = max(1, min(size, len(failure.steps) // 2))
                    break
            else:
                if size == 1:
                    break
                size //= 2
        return failure

    def day(self, seed: int, number: int, shorten_s: float) -> Failure | None:
        """Live one day; a failure is shortened and reported."""
        failure = self.live(drawn(seed, self.acts), number)
        if failure is None:
            return None
        self.say(f"Seed {seed}, after {len(failure.steps)} acts: {failure.text}")
        short = self.shortened(failure, shorten_s)
        self.say(f"The shortest sequence found, of seed {seed}:\n  {written(short.steps)}")
        self.say(short.text)
        return short

    def summary(self) -> str:
        refused = self.refusals
        names = sorted(act.name for act in self.acts)
        parts = (f"{name} {self.counts[name]} ({refused[name]} refused)" for name in names)
        return f"{self.counts.total()} acts: {', '.join(parts)}"


def written(steps: Steps) -> str:
    """Write a sequence as it is given to ``--acts``."""
    return "; ".join(f"{name} {number}" for name, number in steps)


def read(text: str) -> Steps:
    pairs = (one.strip().rpartition(" ") for one in text.split(";"))
    return [(name, int(number)) for name, _, number in pairs]
