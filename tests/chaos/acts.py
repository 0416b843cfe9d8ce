"""What people and machines do on one computer, in one table."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
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
Do = Callable[[World, random.Random], str]


@dataclass(frozen=True)
class Act:
    """``do`` returns what it did. An act that is not ``able`` at its turn is left out.

    A `BackendError` of ``do`` is a refusal in a sentence; any other exception is a fault.
    """

    name: str
    weight: int
    able: Callable[[World], object]
    do: Do


def _desktop(world: World, chance: random.Random) -> Services:
    return one(chance, world.desktops)


def _raw(chance: random.Random) -> dict[str, Any]:
    is_long = chance.random() < 0.7
    processes = one(chance, (1, 1, 2))
    return raw_job(
        processes,
        epochs=100_000 if is_long else 2,
        environment=CALM if is_long else {},
        checkpoint={**one(chance, ({"every_steps": 10}, {"every_epochs": 1})), "keep_latest": 2},
        **({} if processes > 1 else ALONE),
    )


def import_model(world: World, chance: random.Random) -> str:
    folder = world.folder / "sources" / "model"
    (folder / "bks_model.py").write_text(f"{MODEL}\n# {chance.random()}\n")
    item = _desktop(world, chance).library.import_item(Kind.MODEL, folder, "tiny")
    return f"version {item.version}"


def create(world: World, chance: random.Random) -> str:
    return _desktop(world, chance).jobs.create(_raw(chance)).id


def create_and_start(world: World, chance: random.Random) -> str:
    return _desktop(world, chance).jobs.create_and_start(_raw(chance)).id


def start(world: World, chance: random.Random) -> str:
    job = one(chance, world.resting())
    has_run = world.folder_of(job).newest_run() > 0
    _desktop(world, chance).jobs.lifecycle.start(job, start_over=has_run)
    return f"{job}{' over' if has_run else ''}"


def resume(world: World, chance: random.Random) -> str:
    job = one(chance, _resumable(world))
    _desktop(world, chance).jobs.lifecycle.resume(job)
    return job


def stop(world: World, chance: random.Random) -> str:
    job = one(chance, world.live())
    world.ask_to_stop(job)
    _desktop(world, chance).jobs.lifecycle.stop(job)
    return job


def kill_stopping(world: World, chance: random.Random) -> str:
    job = one(chance, world.live())
    world.ask_to_stop(job)
    world.harm(job)
    services = _desktop(world, chance)
    services.jobs.lifecycle.stop(job)
    services.jobs.lifecycle.kill(job)
    return job


def both(world: World, chance: random.Random) -> str:
    """Let two desktops do something to one job at the same moment."""
    job = one(chance, world.jobs())
    chosen = [one(chance, ("start", "resume", "stop", "queue", "leave", "name")) for _ in "12"]
    if "stop" in chosen:
        # Whichever run is the newest when the stop comes.
        world.stopped |= {(job, world.folder_of(job).newest_run() + more) for more in (0, 1)}

    def do(services: Services, what: str) -> None:
        with suppress(BackendError):
            match what:
                case "start":
                    services.jobs.lifecycle.start(job, start_over=True)
                case "resume":
                    services.jobs.lifecycle.resume(job)
                case "stop":
                    services.jobs.lifecycle.stop(job)
                case "queue":
                    services.queue.enqueue(job)
                case "leave":
                    services.queue.dequeue(job)
                case "name":
                    services.jobs.annotate(job, name=f"{threading.get_ident()}")

    failed: list[BaseException] = []

    def guarded(services: Services, what: str) -> None:
        try:
            do(services, what)
        except Exception as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    threads = [
        threading.Thread(target=guarded, args=pair)
        for pair in zip(world.desktops, chosen, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return f"{' and '.join(chosen)} {job}"


def clone(world: World, chance: random.Random) -> str:
    services = _desktop(world, chance)
    job = one(chance, world.jobs())
    return f"{job} as {services.jobs.create(services.jobs.clone(job)).id}"


def enqueue(world: World, chance: random.Random) -> str:
    job = one(chance, world.resting())
    start_over = job not in _resumable(world) and world.folder_of(job).newest_run() > 0
    _desktop(world, chance).queue.enqueue(job, chance.randrange(3), start_over=start_over)
    return job


def dequeue(world: World, chance: random.Random) -> str:
    job = one(chance, _queued(world))
    _desktop(world, chance).queue.dequeue(job)
    return job


def pause_queue(world: World, chance: random.Random) -> str:
    _desktop(world, chance).queue.pause()
    return ""


def resume_queue(world: World, chance: random.Random) -> str:
    _desktop(world, chance).queue.resume()
    return ""


def sweep(world: World, chance: random.Random) -> str:
    raw = raw_job(1, epochs=1, **ALONE)
    made = _desktop(world, chance).sweeps.queue(Sweep(raw, (Axis("batch_size", (64, 128)),)))
    return made.tag


def export(world: World, chance: random.Random) -> str:
    job = one(chance, world.with_checkpoints())
    output = world.folder / f"export-{chance.randrange(10**9)}.zip"
    _desktop(world, chance).jobs.export(job, "latest", "zip", output)
    return job


def predict(world: World, chance: random.Random) -> str:
    job = one(chance, world.with_checkpoints())
    _desktop(world, chance).predictions.predict(job, "latest")
    return job


def remove(world: World, chance: random.Random) -> str:
    job = one(chance, world.resting())
    _desktop(world, chance).jobs.remove(job)
    return job


def restore(world: World, chance: random.Random) -> str:
    job = one(chance, world.trashed())
    _desktop(world, chance).jobs.restore(job)
    return job


def reopen(world: World, chance: random.Random) -> str:
    number = chance.randrange(2)
    world.desktops[number].close()
    lost = chance.random() < 0.3
    if lost:
        for file in world.catalogue(number).parent.glob("catalogue.sqlite*"):
            if file.is_file():
                file.unlink()
    world.desktops[number] = world.opened(number)
    return f"desktop {number}{' without its catalogue' if lost else ''}"


def killed_command(world: World, chance: random.Random) -> str:
    """Kill a program of a desktop at a random moment of what it does."""
    job = one(chance, world.resting())
    words = one(
        chance,
        (
            ("job", "start", job),
            ("job", "resume", job),
            ("job", "queue", job),
            ("model", "import", str(world.folder / "sources" / "model"), "--name", "tiny"),
            ("job", "remove", job, "--yes"),
        ),
    )
    process = world.command(chance.randrange(2), *words)
    moment = time.monotonic() + chance.uniform(0.3, 4)
    while process.poll() is None and time.monotonic() < moment:
        time.sleep(0.01)
    process.kill()
    process.wait()
    if world.folder_of(job).path.exists():
        world.harm(job)
    return " ".join(words)


def killing(what: str) -> Do:
    """An act that kills one process of a run by the word in its command line."""

    def kill(world: World, chance: random.Random) -> str:
        job = one(chance, world.live())
        found = world.processes(job, what)
        if not found:
            return f"{job} has none"
        world.harm(job)
        world.kill(one(chance, found))
        return job

    return kill


def ending_supervisor(number: signal.Signals) -> Do:
    def end(world: World, chance: random.Random) -> str:
        job = one(chance, world.live())
        world.harm(job)
        world.kill(world.supervisor(job, world.folder_of(job).newest_run()), number)
        return job

    return end


def shut_down(world: World, chance: random.Random) -> str:
    """Signal everything, as a computer that shuts down does, then take the power."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for job in world.live():
            world.harm(job)
            world.kill(world.supervisor(job, world.folder_of(job).newest_run()), number)
            for process in world.processes(job):
                world.kill(process, number)
        world.kill(world.keeper(), number)
    return ""


def kill_keeper(world: World, chance: random.Random) -> str:
    world.kill(world.keeper())
    return ""


def fill_disk(world: World, chance: random.Random) -> str:
    world.harm()
    world.fill_disk()
    return ""


def make_read_only(world: World, chance: random.Random) -> str:
    folders: list[Path] = [world.root.models, world.root.queue]
    folders += [world.folder_of(job).path for job in world.jobs()]
    folder = one(chance, [folder for folder in folders if folder.is_dir()])
    world.harm()
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
    goal, run = view.step + chance.randrange(1, 30), view.run

    def has() -> bool:
        world.tick()
        now = world.desktops[0].jobs.queries.show(job)
        return now.step >= goal or now.run != run or not now.state.is_live

    # A full disk, or a stop that is on its way, lets no step be told.
    with suppress(AssertionError):
        wait_for(has, limit_s=20)
    return job


def end_of_day(world: World) -> None:
    """Repair everything, stop all runs, and see each waiting job start and end."""
    world.clock.set(0)
    for fault in sorted(world.faults):
        world.harm()
        world.faults.pop(fault)()
    services = world.desktops[0]
    for job in _queued(world):
        services.queue.dequeue(job)
    services.queue.resume()

    def is_at_rest() -> bool:
        world.tick()
        for job in world.live():
            world.ask_to_stop(job)
            services.jobs.lifecycle.stop(job)
        return not world.live()

    wait_for(is_at_rest, "the end of all runs", hint=lambda: str(world.live()))
    job = services.jobs.create(raw_job(1, epochs=1, **ALONE)).id
    services.queue.enqueue(job)

    def has_run() -> bool:
        world.tick()
        return services.jobs.queries.show(job).state is JobState.FINISHED

    wait_for(has_run, "the end of a queued job", hint=lambda: str(services.queue.read()))


def _room(world: World) -> bool:
    return len(world.live()) < _MOST_LIVE and bool(world.resting())


def _resumable(world: World) -> list[str]:
    over = {v.id for v in world.views() if v.state.is_over and v.state is not JobState.FINISHED}
    return [job for job in world.with_checkpoints() if job in over]


def _queued(world: World) -> list[str]:
    return [view.id for view in world.views() if view.state is JobState.QUEUED]


def _few(world: World) -> bool:
    return len(world.jobs()) < _MOST_JOBS


def _always(_world: World) -> bool:
    return True


ACTS: tuple[Act, ...] = (
    Act("import", 2, _always, import_model),
    Act("create", 3, _few, create),
    Act("create and start", 6, lambda w: _few(w) and len(w.live()) < _MOST_LIVE, create_and_start),
    Act("start", 3, _room, start),
    Act("resume", 8, lambda w: len(w.live()) < _MOST_LIVE and _resumable(w), resume),
    Act("stop", 6, World.live, stop),
    Act("kill stopping", 2, World.live, kill_stopping),
    Act("both", 6, World.jobs, both),
    Act("clone", 2, lambda w: _few(w) and w.jobs(), clone),
    Act("queue", 5, World.resting, enqueue),
    Act("leave the queue", 2, _queued, dequeue),
    Act("pause the queue", 1, _always, pause_queue),
    Act("resume the queue", 3, _always, resume_queue),
    Act("sweep", 2, _few, sweep),
    Act("export", 2, World.with_checkpoints, export),
    Act("predict", 2, World.with_checkpoints, predict),
    Act("remove", 2, World.resting, remove),
    Act("restore", 2, World.trashed, restore),
    Act("reopen", 2, _always, reopen),
    Act("killed command", 5, World.resting, killed_command),
    Act("kill rank", 3, World.live, killing("backend.training")),
    Act("kill guard", 3, World.live, killing("rank_guard")),
    Act("kill mpirun", 3, World.live, killing("mpirun")),
    Act("kill supervisor", 4, World.live, ending_supervisor(signal.SIGKILL)),
    Act("end supervisor", 1, World.live, ending_supervisor(signal.SIGTERM)),
    Act("shut down", 1, World.live, shut_down),
    Act("kill keeper", 2, World.keeper, kill_keeper),
    Act("fill disk", 2, lambda w: not w.faults, fill_disk),
    Act("make read-only", 2, lambda w: not w.faults, make_read_only),
    Act("repair", 8, lambda w: w.faults, repair),
    Act("jump clock", 2, _always, jump_clock),
    Act("let it train", 12, World.live, let_it_train),
)


def drawn(seed: int, number: int, acts: Sequence[Act]) -> list[tuple[str, int]]:
    """Return the acts of a day, each with the number that decides all else about it."""
    chance = random.Random(seed)
    weights = [act.weight for act in acts]
    names = chance.choices([act.name for act in acts], weights, k=number)
    return [(name, chance.randrange(10**6)) for name in names]
