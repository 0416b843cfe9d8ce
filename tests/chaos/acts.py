"""Acts of people and machines on one computer, in one table."""

from __future__ import annotations

import random
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services
from tests.chaos.world import World, choose
from tests.integration.tiny import ALONE, CALM, MODEL, raw_job
from tests.waiting import wait_for

_MAX_LIVE_JOBS = 2
_MAX_JOBS = 8
RunAct = Callable[[World, random.Random], object]
JobAction = Callable[[Services, str], object]


@dataclass(frozen=True)
class Act:
    """``do`` returns the act's outcome. An act that is not possible at its turn is left out.

    A `BackendError` of ``do`` is a refusal in a sentence; any other exception is a fault.
    """

    name: str
    weight: int
    is_possible: Callable[[World], object]
    do: RunAct


def on_random_job(
    list_jobs: Callable[[World], list[str]], do: JobAction, *marks: Callable[[World, str], object]
) -> RunAct:
    """Return an act of a desktop on one of some jobs; ``marks`` note its consequences."""

    def act(world: World, chance: random.Random) -> str:
        job = choose(chance, list_jobs(world))
        for mark in marks:
            mark(world, job)
        do(choose(chance, world.desktops), job)
        return job

    return act


def random_job(world: World, chance: random.Random) -> dict[str, Any]:
    """A job that ends soon, or one that lasts until it is stopped; some are scripts."""
    is_long = chance.random() < 0.7
    placement = world.placement(chance)
    is_alone = sum(node_processes["processes"] for node_processes in placement) == 1
    policy = {"shrink": True} if len(placement) > 1 and chance.random() < 0.5 else {}
    policies: tuple[dict[str, Any], ...] = ({}, {}, {"retries": 1, **policy})
    retry_policy = choose(chance, policies)
    if chance.random() < 0.2:
        return {
            "name": "tiny script",
            "script": "tiny",
            "arguments": ["--out", "{output}", "--steps", "100000" if is_long else "40"],
            "resume_arguments": ["--resume", "{checkpoint}"],
            "placement": placement,
            "on_failure": retry_policy,
        }
    strategy: dict[str, Any] = ALONE if is_alone else {}
    return raw_job(
        epochs=100_000 if is_long else 2,
        environment=CALM if is_long else {},
        checkpoint={**choose(chance, ({"every_steps": 10}, {"every_epochs": 1})), "keep_latest": 2},
        placement=placement,
        on_failure=retry_policy,
        **strategy,
    )


def import_model(world: World, chance: random.Random) -> str:
    folder = world.folder / "sources" / "model"
    (folder / "bks_model.py").write_text(f"{MODEL}\n# {chance.random()}\n")
    item = choose(chance, world.desktops).library.import_item(Kind.MODEL, folder, "tiny")
    return f"version {item.version}"


def create(world: World, chance: random.Random) -> str:
    return choose(chance, world.desktops).jobs.create(random_job(world, chance)).id


def create_and_start(world: World, chance: random.Random) -> str:
    return choose(chance, world.desktops).jobs.create_and_start(random_job(world, chance)).id


def sweep(world: World, chance: random.Random) -> str:
    base = random_job(world, chance)
    axes = (Axis("seed", (1, 2)),)
    if "script" not in base:
        base |= {"epochs": 1, "environment": {}}
        axes = (Axis("batch_size", (64, 128)),)
    return choose(chance, world.desktops).sweeps.queue(Sweep(base, axes)).tag


def _start(services: Services, job: str) -> None:
    has_run = services.jobs.queries.show(job).run > 0
    services.jobs.lifecycle.start(job, start_over=has_run)


def _resume(services: Services, job: str) -> None:
    services.jobs.lifecycle.resume(job)


def _stop(services: Services, job: str) -> None:
    services.jobs.lifecycle.stop(job)


def _kill(services: Services, job: str) -> None:
    services.jobs.lifecycle.stop(job)
    services.jobs.lifecycle.kill(job)


def _queue(services: Services, job: str) -> None:
    has_run = services.jobs.queries.show(job).run > 0
    start_over = has_run and not services.jobs.queries.checkpoints(job)
    services.queue.enqueue(job, start_over=start_over)


def _leave(services: Services, job: str) -> None:
    services.queue.dequeue(job)


def _export(services: Services, job: str) -> None:
    output = Path(services.catalogue.path).with_name(f"{secrets.token_hex(4)}.zip")
    services.jobs.export(job, "latest", "zip", output)


_SIMULTANEOUS_ACTIONS: dict[str, JobAction] = {
    "start": _start,
    "resume": _resume,
    "stop": _stop,
    "queue": _queue,
    "leave": _leave,
    "name": lambda services, job: services.jobs.annotate(job, name=f"{id(services)}"),
}


def act_on_both_desktops(world: World, chance: random.Random) -> str:
    """Let two desktops act on one job at the same moment."""
    job = choose(chance, world.jobs())
    action_names = [choose(chance, list(_SIMULTANEOUS_ACTIONS)) for _ in world.desktops]
    if "stop" in action_names:
        # Whichever run is the newest when the stop comes.
        run = world.folder_of(job).newest_run()
        world.stopped_runs |= {(job, run), (job, run + 1)}

    def run_action(services: Services, action_name: str) -> None:
        with suppress(BackendError):
            _SIMULTANEOUS_ACTIONS[action_name](services, job)

    with ThreadPoolExecutor(len(action_names)) as pool:
        list(pool.map(run_action, world.desktops, action_names))
    return f"{' and '.join(action_names)} {job}"


def reopen(world: World, chance: random.Random) -> str:
    number = chance.randrange(2)
    world.desktops[number].close()
    is_lost = chance.random() < 0.3
    for file in world.catalogue(number).parent.glob("catalogue.sqlite*") if is_lost else ():
        if file.is_file():
            file.unlink()
    world.desktops[number] = world.open_desktop(number)
    return f"desktop {number}{' without its catalogue' if is_lost else ''}"


def kill_command(world: World, chance: random.Random) -> str:
    """Kill a command of a desktop at a random moment of its work."""
    job = choose(chance, world.resting_jobs())
    model = str(world.folder / "sources" / "model")
    commands = [("job", action, job) for action in ("start", "resume", "queue", "remove")]
    command = choose(chance, [*commands, ("model", "import", model, "--name", "tiny")])
    process = world.start_command(chance.randrange(2), *command)
    kill_time_s = time.monotonic() + chance.uniform(0.3, 4)
    while process.poll() is None and time.monotonic() < kill_time_s:
        time.sleep(0.01)
    process.kill()
    process.wait()
    world.mark_harmed(job)
    return " ".join(command)


def kill_process_with(command_word: str, number: signal.Signals = signal.SIGKILL) -> RunAct:
    """Return an act that signals one process of a run, by a word in its command line."""

    def kill(world: World, chance: random.Random) -> str:
        job = choose(chance, world.live_jobs())
        processes = world.processes(job, command_word)
        if processes:
            world.mark_harmed(job)
            world.kill(choose(chance, processes), number)
        return f"{job}{'' if processes else ' has none'}"

    return kill


def shut_down(world: World, chance: random.Random) -> None:
    """Signal everything, as a computer that shuts down does, and kill it at once."""
    world.mark_harmed()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in [p for job in world.jobs() for p in world.processes(job)]:
            world.kill(process, number)
        world.kill(world.keeper(), number)


def make_read_only(world: World, chance: random.Random) -> str:
    folders = [world.root.models, world.root.queue]
    folders += [world.folder_of(job).path for job in world.jobs()]
    folder = choose(chance, [folder for folder in folders if folder.is_dir()])
    world.make_read_only(folder)
    return folder.name


def repair(world: World, chance: random.Random) -> str:
    damage_name = choose(chance, sorted(world.repairs))
    world.mark_harmed()
    world.repairs.pop(damage_name)()
    return damage_name


def jump_clock(world: World, chance: random.Random) -> str:
    offset_s = choose(chance, (-86_400.0, -3_600.0, -30.0, 0.0, 30.0, 3_600.0, 86_400.0))
    world.clock.set_offset(offset_s)
    return f"to {offset_s:+.0f} s"


def let_it_train(world: World, chance: random.Random) -> str:
    """Wait until a job has made some more steps, or is over."""
    job = choose(chance, world.live_jobs())
    view = world.desktops[0].jobs.queries.show(job)
    goal_step = view.step + chance.randrange(1, 30)

    def has_advanced() -> bool:
        world.tick()
        latest = world.desktops[0].jobs.queries.show(job)
        return latest.step >= goal_step or latest.run != view.run or not latest.state.is_live

    # With a full disk, or a stop that is on its way, no step is reported.
    with suppress(AssertionError):
        wait_for(has_advanced, limit_s=30)
    return job


def end_of_day(world: World) -> None:
    """Repair everything, stop all runs, and see a job start from the queue and end."""
    world.mark_harmed()
    world.clock.set_offset(0)
    while world.repairs:
        world.repairs.popitem()[1]()
    services = world.desktops[0]

    def is_at_rest() -> bool:
        # A run that a machine ended may be tried again.
        for job in _queued_jobs(world):
            services.queue.dequeue(job)
        services.queue.resume()
        for job in world.live_jobs():
            world.mark_stopped(job)
            services.jobs.lifecycle.stop(job)
        return not world.live_jobs() and not _queued_jobs(world)

    world.wait_until(is_at_rest, "the end of all runs")
    last_job = raw_job(1, epochs=1, placement=world.placement(random.Random(0)))
    job = services.jobs.create(last_job).id
    services.queue.enqueue(job)

    def has_run() -> bool:
        return services.jobs.queries.show(job).state is JobState.FINISHED

    world.wait_until(has_run, "the end of a queued job")


def _may_start(world: World) -> bool:
    return len(world.live_jobs()) < _MAX_LIVE_JOBS


def _resumable_jobs(world: World) -> list[str]:
    over_ids = {v.id for v in world.views() if v.state.is_over and v.state is not JobState.FINISHED}
    return [job for job in world.jobs_with_checkpoints() if job in over_ids]


def _queued_jobs(world: World) -> list[str]:
    return [view.id for view in world.views() if view.state is JobState.QUEUED]


def _has_few_jobs(world: World) -> bool:
    return len(world.jobs()) < _MAX_JOBS


def _always(_world: World) -> bool:
    return True


def is_whole(world: World) -> bool:
    return not world.repairs


_resting_jobs, _trashed_jobs = World.resting_jobs, World.trashed_jobs
_saved_jobs = World.jobs_with_checkpoints
PEOPLE: tuple[Act, ...] = (
    Act("import", 2, _always, import_model),
    Act("create", 3, _has_few_jobs, create),
    Act(
        "create and start",
        6,
        lambda world: _has_few_jobs(world) and _may_start(world),
        create_and_start,
    ),
    Act(
        "start",
        3,
        lambda w: _may_start(w) and w.resting_jobs(),
        on_random_job(_resting_jobs, _start),
    ),
    Act(
        "resume",
        8,
        lambda w: _may_start(w) and _resumable_jobs(w),
        on_random_job(_resumable_jobs, _resume),
    ),
    Act("stop", 6, World.live_jobs, on_random_job(World.live_jobs, _stop, World.mark_stopped)),
    Act(
        "kill",
        2,
        World.live_jobs,
        on_random_job(World.live_jobs, _kill, World.mark_stopped, World.mark_harmed),
    ),
    Act("both", 6, World.jobs, act_on_both_desktops),
    Act(
        *("clone", 2, lambda w: _has_few_jobs(w) and w.jobs()),
        on_random_job(World.jobs, lambda s, job: s.jobs.create(s.jobs.clone(job))),
    ),
    Act("queue", 5, World.resting_jobs, on_random_job(_resting_jobs, _queue)),
    Act("leave the queue", 2, _queued_jobs, on_random_job(_queued_jobs, _leave)),
    Act(
        "pause the queue",
        1,
        _always,
        lambda w, chance: choose(chance, w.desktops).queue.pause().pause_message,
    ),
    Act(
        "resume the queue",
        3,
        _always,
        lambda w, chance: choose(chance, w.desktops).queue.resume().pause_message,
    ),
    Act("sweep", 2, _has_few_jobs, sweep),
    Act("export", 2, _saved_jobs, on_random_job(_saved_jobs, _export)),
    Act(
        "predict",
        2,
        _saved_jobs,
        on_random_job(_saved_jobs, lambda s, job: s.predictions.predict(job, "latest")),
    ),
    Act(
        "remove",
        2,
        World.resting_jobs,
        on_random_job(_resting_jobs, lambda s, job: s.jobs.remove(job)),
    ),
    Act(
        "restore",
        2,
        _trashed_jobs,
        on_random_job(_trashed_jobs, lambda s, job: s.jobs.restore(job)),
    ),
    Act("reopen", 2, lambda world: world.may_compare(), reopen),
    Act("let it train", 12, World.live_jobs, let_it_train),
    Act("repair", 8, lambda world: world.repairs, repair),
    Act("kill rank", 3, World.live_jobs, kill_process_with("backend.training")),
    Act("kill guard", 3, World.live_jobs, kill_process_with("rank_guard")),
    Act("kill mpirun", 3, World.live_jobs, kill_process_with("mpirun")),
    Act("kill supervisor", 4, World.live_jobs, kill_process_with("run.supervisor")),
    Act("end supervisor", 1, World.live_jobs, kill_process_with("run.supervisor", signal.SIGTERM)),
)
ACTS: tuple[Act, ...] = (
    *PEOPLE,
    Act("killed command", 5, World.resting_jobs, kill_command),
    Act("shut down", 1, World.live_jobs, shut_down),
    Act("kill keeper", 2, World.keeper, lambda world, chance: world.kill(world.keeper())),
    Act("fill disk", 2, is_whole, lambda world, chance: world.fill_disk()),
    Act("make read-only", 2, is_whole, make_read_only),
    Act("jump clock", 2, _always, jump_clock),
)


def draw_acts(seed: int, acts: Sequence[Act]) -> Iterator[tuple[str, int]]:
    """Draw acts for ever, each with the seed of its own choices."""
    chance = random.Random(seed)
    names, weights = [act.name for act in acts], [act.weight for act in acts]
    while True:
        yield chance.choices(names, weights)[0], chance.randrange(10**6)
