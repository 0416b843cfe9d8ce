"""``installers/chaos``: let chance use and break the program, and see that it keeps its promises."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import invariants
from tests.chaos.acts import ACTS, end_of_day
from tests.chaos.driver import Driver, read
from tests.chaos.world import Clock, World, make_stock
from tests.cluster.cluster import check_rights

_PLACE = "RINGMASTER_CHAOS"


def main() -> int:
    parser = argparse.ArgumentParser(prog="installers/chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no new day after these")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first day; the next has one more"
    )
    parser.add_argument("--length", type=int, default=40, help="acts of a day")
    parser.add_argument("--shorten", type=float, default=10.0, help="minutes for the search")
    parser.add_argument("--acts", default="", help="a printed sequence, to be repeated")
    given = parser.parse_args()
    if _PLACE not in os.environ:
        check_rights()
        return _apart()
    return _days(given, Path(os.environ[_PLACE]))


def _apart() -> int:
    """Run this again with mounts of its own, and with a clock that can be set."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, **Clock(Path(folder)).preload(), _PLACE: folder}
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m"]
        return os.spawnvpe(
            os.P_WAIT, command[0], [*command, "tests.chaos", *sys.argv[1:]], environment
        )


def _days(given: argparse.Namespace, folder: Path) -> int:
    os.environ["XDG_DATA_HOME"] = str(folder / "data-home")
    make_stock(folder / "stock")
    numbers = itertools.count(1)

    def world() -> World:
        return World(folder / f"day-{next(numbers)}", folder / "stock", Clock(folder))

    driver = Driver(
        ACTS, world, invariants.require, end_of_day, lambda text: print(text, flush=True)
    )
    end = time.monotonic() + 60 * given.minutes
    failures = 0
    if given.acts:
        failure = driver.live(read(given.acts))
        failures += failure is not None
        print(failure.text if failure is not None else "Every promise held.")
    else:
        for seed in itertools.count(given.seed):
            failures += driver.day(seed, given.length, 60 * given.shorten) is not None
            if time.monotonic() > end:
                break
    done, refused = driver.counts, driver.refusals
    parts = (f"{name} {done[name]} ({refused[name]} refused)" for name in sorted(done))
    print(f"{done.total()} acts, {failures} failures: {', '.join(parts)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
