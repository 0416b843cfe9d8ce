"""What people and machines do on one computer, in one table."""

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
from tests.chaos.world import World, one
from tests.integration.tiny import ALONE, CALM, MODEL, raw_job
from tests.waiting import wait_for

_MOST_LIVE = 2
_MOST_JOBS = 8
Do = Callable[[World, random.Random], object]
OfJob = Callable[[Services, str], object]


@dataclass(frozen=True)
class Act:
    """``do`` returns what it did. An act that is not ``able`` at its turn is left out.

    A `BackendError` of ``do`` is a refusal in a sentence; any other exception is a fault.
    """

    name: str
    weight: int
    able: Callable[[World], object]
    do: Do


def on_a_job(
    of: Callable[[World], list[str]], do: OfJob, *marks: Callable[[World, str], object]
) -> Do:
    """An act of a desktop on one of some jobs; ``marks`` note what may follow from it."""

    def act(world: World, chance: random.Random) -> str:
        job = one(chance, of(world))
        for mark in marks:
            mark(world, job)
        do(one(chance, world.desktops), job)
        return job

    return act


def raw(world: World, chance: random.Random) -> dict[str, Any]:
    """A job that ends soon, or one that lasts until it is stopped; some are scripts."""
    is_long = chance.random() < 0.7
    placement = world.placement(chance)
    is_alone = sum(place["processes"] for place in placement) == 1
    policy = {"shrink": True} if len(placement) > 1 and chance.random() < 0.5 else {}
    policies: tuple[dict[str, Any], ...] = ({}, {}, {"retries": 1, **policy})
    again = one(chance, policies)
    if chance.random() < 0.2:
        return {
            "name": "tiny script",
            "script": "tiny",
            "arguments": ["--out", "{output}", "--steps", "100000" if is_long else "40"],
            "resume_arguments": ["--resume", "{checkpoint}"],
            "placement": placement,
            "on_failure": again,
        }
    strategy: dict[str, Any] = ALONE if is_alone else {}
    return raw_job(
        epochs=100_000 if is_long else 2,
        environment=CALM if is_long else {},
        checkpoint={**one(chance, ({"every_steps": 10}, {"every_epochs": 1})), "keep_latest": 2},
        placement=placement,
        on_failure=again,
        **strategy,
    )


def import_model(world: World, chance: random.Random) -> str:
    folder = world.folder / "sources" / "model"
    (folder / "bks_model.py").write_text(f"{MODEL}\n# {chance.random()}\n")
    item = one(chance, world.desktops).library.import_item(Kind.MODEL, folder, "tiny")
    return f"version {item.version}"


def create(world: World, chance: random.Random) -> str:
    return one(chance, world.desktops).jobs.create(raw(world, chance)).id


def create_and_start(world: World, chance: random.Random) -> str:
    return one(chance, world.desktops).jobs.create_and_start(raw(world, chance)).id


def sweep(world: World, chance: random.Random) -> str:
    base = raw(world, chance)
    axes = (Axis("seed", (1, 2)),)
    if "script" not in base:
        base |= {"epochs": 1, "environment": {}}
        axes = (Axis("batch_size", (64, 128)),)
    return one(chance, world.desktops).sweeps.queue(Sweep(base, axes)).tag


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


_AT_ONCE: dict[str, OfJob] = {
    "start": _start,
    "resume": _resume,
    "stop": _stop,
    "queue": _queue,
    "leave": _leave,
    "name": lambda services, job: services.jobs.annotate(job, name=f"{id(services)}"),
}


def both(world: World, chance: random.Random) -> str:
    """Let two desktops do something to one job at the same moment."""
    job = one(chance, world.jobs())
    chosen = [one(chance, list(_AT_ONCE)) for _ in world.desktops]
    if "stop" in chosen:
        # Whichever run is the newest when the stop comes.
        run = world.folder_of(job).newest_run()
        world.stopped |= {(job, run), (job, run + 1)}

    def do(services: Services, what: str) -> None:
        with suppress(BackendError):
            _AT_ONCE[what](services, job)

    with ThreadPoolExecutor(len(chosen)) as pool:
        list(pool.map(do, world.desktops, chosen))
    return f"{' and '.join(chosen)} {job}"


def reopen(world: World, chance: random.Random) -> str:
    number = chance.randrange(2)
    world.desktops[number].close()
    is_lost = chance.random() < 0.3
    for file in world.catalogue(number).parent.glob("catalogue.sqlite*") if is_lost else ():
        if file.is_file():
            file.unlink()
    world.desktops[number] = world.opened(number)
    return f"desktop {number}{' without its catalogue' if is_lost else ''}"


def killed_command(world: World, chance: random.Random) -> str:
    """Kill a program of a desktop at a random moment of what it does."""
    job = one(chance, world.resting())
    model = str(world.folder / "sources" / "model")
    commands = [("job", what, job) for what in ("start", "resume", "queue", "remove")]
    words = one(chance, [*commands, ("model", "import", model, "--name", "tiny")])
    process = world.command(chance.randrange(2), *words)
    moment = time.monotonic() + chance.uniform(0.3, 4)
    while process.poll() is None and time.monotonic() < moment:
        time.sleep(0.01)
    process.kill()
    process.wait()
    world.harm(job)
    return " ".join(words)


def killing(what: str, number: signal.Signals = signal.SIGKILL) -> Do:
    """An act that signals one process of a run, by a word in its command line."""

    def kill(world: World, chance: random.Random) -> str:
        job = one(chance, world.live())
        found = world.processes(job, what)
        if found:
            world.harm(job)
            world.kill(one(chance, found), number)
        return f"{job}{'' if found else ' has none'}"

    return kill


def shut_down(world: World, chance: random.Random) -> None:
    """Signal everything, as a computer that shuts down does, and kill it at once."""
    world.harm()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in [each for job in world.jobs() for each in world.processes(job)]:
            world.kill(process, number)
        world.kill(world.keeper(), number)


def make_read_only(world: World, chance: random.Random) -> str:
    folders = [world.root.models, world.root.queue]
    folders += [world.folder_of(job).path for job in world.jobs()]
    folder = one(chance, [folder for folder in folders if folder.is_dir()])
    world.make_read_only(folder)
    return folder.name


def repair(world: World, chance: random.Random) -> str:
    name = one(chance, sorted(world.faults))
    world.harm()
    world.faults.pop(name)()
    return name


def jump_clock(world: World, chance: random.Random) -> str:
    offset_s = one(chance, (-86_400.0, -3_600.0, -30.0, 0.0, 30.0, 3_600.0, 86_400.0))
    world.clock.set(offset_s)
    return f"to {offset_s:+.0f} s"


def let_it_train(world: World, chance: random.Random) -> str:
    """Wait until a job has made some more steps, or is over."""
    job = one(chance, world.live())
    view = world.desktops[0].jobs.queries.show(job)
    goal = view.step + chance.randrange(1, 30)

    def has() -> bool:
        world.tick()
        now = world.desktops[0].jobs.queries.show(job)
        return now.step >= goal or now.run != view.run or not now.state.is_live

    # With a full disk, or a stop that is on its way, no step is reported.
    with suppress(AssertionError):
        wait_for(has, limit_s=30)
    return job


def end_of_day(world: World) -> None:
    """Repair everything, stop all runs, and see a job start from the queue and end."""
    world.harm()
    world.clock.set(0)
    while world.faults:
        world.faults.popitem()[1]()
    services = world.desktops[0]

    def is_at_rest() -> bool:
        # A run that a machine ended may be tried again.
        for job in _queued(world):
            services.queue.dequeue(job)
        services.queue.resume()
        for job in world.live():
            world.ask_to_stop(job)
            services.jobs.lifecycle.stop(job)
        return not world.live() and not _queued(world)

    world.until(is_at_rest, "the end of all runs")
    last = raw_job(1, epochs=1, placement=world.placement(random.Random(0)))
    job = services.jobs.create(last).id
    services.queue.enqueue(job)

    def has_run() -> bool:
        return services.jobs.queries.show(job).state is JobState.FINISHED

    world.until(has_run, "the end of a queued job")


def _may_start(world: World) -> bool:
    return len(world.live()) < _MOST_LIVE


def _resumable(world: World) -> list[str]:
    over = {v.id for v in world.views() if v.state.is_over and v.state is not JobState.FINISHED}
    return [job for job in world.with_checkpoints() if job in over]


def _queued(world: World) -> list[str]:
    return [view.id for view in world.views() if view.state is JobState.QUEUED]


def _few(world: World) -> bool:
    return len(world.jobs()) < _MOST_JOBS


def _always(_world: World) -> bool:
    return True


def is_whole(world: World) -> bool:
    return not world.faults


_rests, _saved, _trashed = World.resting, World.with_checkpoints, World.trashed
PEOPLE: tuple[Act, ...] = (
    Act("import", 2, _always, import_model),
    Act("create", 3, _few, create),
    Act("create and start", 6, lambda world: _few(world) and _may_start(world), create_and_start),
    Act("start", 3, lambda w: _may_start(w) and w.resting(), on_a_job(_rests, _start)),
    Act("resume", 8, lambda w: _may_start(w) and _resumable(w), on_a_job(_resumable, _resume)),
    Act("stop", 6, World.live, on_a_job(World.live, _stop, World.ask_to_stop)),
    Act("kill", 2, World.live, on_a_job(World.live, _kill, World.ask_to_stop, World.harm)),
    Act("both", 6, World.jobs, both),
    Act(
        *("clone", 2, lambda w: _few(w) and w.jobs()),
        on_a_job(World.jobs, lambda s, job: s.jobs.create(s.jobs.clone(job))),
    ),
    Act("queue", 5, World.resting, on_a_job(_rests, _queue)),
    Act("leave the queue", 2, _queued, on_a_job(_queued, _leave)),
    Act(
        "pause the queue",
        1,
        _always,
        lambda w, chance: one(chance, w.desktops).queue.pause().pause_message,
    ),
    Act(
        "resume the queue",
        3,
        _always,
        lambda w, chance: one(chance, w.desktops).queue.resume().pause_message,
    ),
    Act("sweep", 2, _few, sweep),
    Act("export", 2, _saved, on_a_job(_saved, _export)),
    Act(
        "predict", 2, _saved, on_a_job(_saved, lambda s, job: s.predictions.predict(job, "latest"))
    ),
    Act("remove", 2, World.resting, on_a_job(_rests, lambda s, job: s.jobs.remove(job))),
    Act("restore", 2, _trashed, on_a_job(_trashed, lambda s, job: s.jobs.restore(job))),
    Act("reopen", 2, lambda world: world.may_compare(), reopen),
    Act("let it train", 12, World.live, let_it_train),
    Act("repair", 8, lambda world: world.faults, repair),
    Act("kill rank", 3, World.live, killing("backend.training")),
    Act("kill guard", 3, World.live, killing("rank_guard")),
    Act("kill mpirun", 3, World.live, killing("mpirun")),
    Act("kill supervisor", 4, World.live, killing("run.supervisor")),
    Act("end supervisor", 1, World.live, killing("run.supervisor", signal.SIGTERM)),
)
ACTS: tuple[Act, ...] = (
    *PEOPLE,
    Act("killed command", 5, World.resting, killed_command),
    Act("shut down", 1, World.live, shut_down),
    Act("kill keeper", 2, World.keeper, lambda world, chance: world.kill(world.keeper())),
    Act("fill disk", 2, is_whole, lambda world, chance: world.fill_disk()),
    Act("make read-only", 2, is_whole, make_read_only),
    Act("jump clock", 2, _always, jump_clock),
)


def drawn(seed: int, acts: Sequence[Act]) -> Iterator[tuple[str, int]]:
    """Draw acts for ever, each with the number that decides all else about it."""
    chance = random.Random(seed)
    names, weights = [act.name for act in acts], [act.weight for act in acts]
    while True:
        yield chance.choices(names, weights)[0], chance.randrange(10**6)
