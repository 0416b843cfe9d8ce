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
from tests.chaos.driver import Driver, parse_steps
from tests.chaos.world import Clock, World, make_stock
from tests.cluster.cluster import check_rights
from tests.cluster.ready import patience

_FOLDER_VARIABLE = "RINGMASTER_CHAOS"


def main() -> int:
    parser = argparse.ArgumentParser(prog="installers/chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no new day after these")
    parser.add_argument("--seed", type=int, default=1, help="of the first day; the next has + 1")
    parser.add_argument("--length", type=int, default=40, help="acts of a day")
    parser.add_argument("--days", type=int, default=0, help="this many, however long they take")
    parser.add_argument("--shorten", type=float, default=10.0, help="minutes for the search")
    parser.add_argument("--on", choices=("computer", "cluster"), default="computer")
    parser.add_argument("--acts", default="", help="a printed sequence, to be repeated")
    args = parser.parse_args()
    if _FOLDER_VARIABLE not in os.environ:
        check_rights()
        return _run_isolated(args.on == "computer")
    # So that no process of the day is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        return _run_days(args, Path(os.environ[_FOLDER_VARIABLE]), stack)


def _run_isolated(has_clock: bool) -> int:
    """Run this again with mounts of its own, and with a clock that can be set."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, _FOLDER_VARIABLE: folder}
        environment["XDG_DATA_HOME"] = f"{folder}/data-home"
        if not has_clock:
            command = [sys.executable, "-m", "tests.chaos", *sys.argv[1:]]
            return os.spawnve(os.P_WAIT, command[0], command, environment)
        environment |= Clock(Path(folder)).preload()
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m"]
        command += ["tests.chaos", *sys.argv[1:]]
        return os.spawnvpe(os.P_WAIT, command[0], command, environment)


def _run_days(args: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    day_numbers, clock = itertools.count(1), Clock(folder)
    if args.on == "cluster":
        stack.enter_context(patience())
        cluster_desktops = stack.enter_context(nodes.open_cluster_desktops(folder))
    else:
        make_stock(folder / "stock")

    def world() -> World:
        day = folder / f"day-{next(day_numbers)}"
        if args.on == "cluster":
            return nodes.ClusterWorld(day, cluster_desktops, clock)
        return World(day, folder / "stock", clock)

    act_table = nodes.ACTS if args.on == "cluster" else acts.ACTS
    driver = Driver(act_table, world, invariants.require_invariants, acts.end_of_day)
    deadline_s = time.monotonic() + 60 * args.minutes
    failure_count = 0
    if args.acts:
        steps = parse_steps(args.acts)
        failure = driver.replay(steps, len(steps))
        failure_count += failure is not None
        driver.say(failure.text if failure is not None else "Every promise held.")
    else:
        for seed in itertools.count(args.seed):
            failure_count += driver.run_day(seed, args.length, 60 * args.shorten) is not None
            is_last = seed + 1 == args.seed + args.days
            if is_last if args.days else time.monotonic() > deadline_s:
                break
    driver.say(f"{failure_count} failures in {driver.summary()}")
    return 1 if failure_count else 0


if __name__ == "__main__":
    sys.exit(main())
