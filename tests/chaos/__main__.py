"""``installers/chaos``: let chance use and break the program, and check all of its promises."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.chaos import acts, invariants, nodes
from tests.chaos.driver import Driver, read
from tests.chaos.world import Clock, World, make_stock
from tests.cluster.cluster import check_rights
from tests.cluster.ready import patience

_PLACE = "RINGMASTER_CHAOS"


def main() -> int:
    parser = argparse.ArgumentParser(prog="installers/chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no new day after these")
    parser.add_argument("--seed", type=int, default=1, help="of the first day; the next has + 1")
    parser.add_argument("--length", type=int, default=40, help="acts of a day")
    parser.add_argument("--days", type=int, default=0, help="this many, however long they take")
    parser.add_argument("--shorten", type=float, default=10.0, help="minutes for the search")
    parser.add_argument("--on", choices=("computer", "cluster"), default="computer")
    parser.add_argument("--acts", default="", help="a printed sequence, to be repeated")
    given = parser.parse_args()
    if _PLACE not in os.environ:
        check_rights()
        return _apart(given.on == "computer")
    # So that no process of the day is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        return _days(given, Path(os.environ[_PLACE]), stack)


def _apart(has_clock: bool) -> int:
    """Run this again with mounts of its own, and with a clock that can be set."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, _PLACE: folder, "XDG_DATA_HOME": f"{folder}/data-home"}
        if not has_clock:
            command = [sys.executable, "-m", "tests.chaos", *sys.argv[1:]]
            return os.spawnve(os.P_WAIT, command[0], command, environment)
        environment |= Clock(Path(folder)).preload()
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m"]
        command += ["tests.chaos", *sys.argv[1:]]
        return os.spawnvpe(os.P_WAIT, command[0], command, environment)


def _days(given: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    numbers, clock = itertools.count(1), Clock(folder)
    if given.on == "cluster":
        stack.enter_context(patience())
        place = stack.enter_context(nodes.made(folder))
    else:
        make_stock(folder / "stock")

    def world() -> World:
        day = folder / f"day-{next(numbers)}"
        if given.on == "cluster":
            return nodes.Nodes(day, place, clock)
        return World(day, folder / "stock", clock)

    table = nodes.ACTS if given.on == "cluster" else acts.ACTS
    driver = Driver(table, world, invariants.require, acts.end_of_day)
    end = time.monotonic() + 60 * given.minutes
    failures = 0
    if given.acts:
        steps = read(given.acts)
        failure = driver.live(steps, len(steps))
        failures += failure is not None
        driver.say(failure.text if failure is not None else "Every promise held.")
    else:
        for seed in itertools.count(given.seed):
            failures += driver.day(seed, given.length, 60 * given.shorten) is not None
            is_last = seed + 1 == given.seed + given.days
            if is_last if given.days else time.monotonic() > end:
                break
    driver.say(f"{failures} failures in {driver.summary()}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
