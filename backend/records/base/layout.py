"""Paths of all files under the data root, and the writers of each file.

====================================  ============================================================
file                                  its writers
====================================  ============================================================
datasets|models|loaders/<name>/v<n>/  the desktop that imports (built elsewhere, renamed whole)
templates/<name>.toml                 any desktop
trash/                                any desktop: removed jobs, nodes, templates and versions
jobs/<id>/config.toml, meta.json      the desktop that creates the job, once
jobs/<id>/notes.json                  any desktop: name, notes, tags as edited later
jobs/<id>/origin.json                 the desktop that imports the job or makes it to replay another
jobs/<id>/placement.json              the desktop that starts a run elsewhere than the job file
                                      says, or with another batch size or
                                      learning rate
jobs/<id>/launch.json                 the desktop that starts a run, or the queue, before the
                                      supervisor
jobs/<id>/whole-launch.json           the program that continues a job on fewer nodes: the launch
                                      with all of them
jobs/<id>/queued-launch.json          the desktop that queues the job: the launch.json to come
jobs/<id>/queued.json                 any desktop, and its head node if it cannot be started: the
                                      job waits, unless its run is claimed
queue/<id>                            any desktop: empty, says where a queued.json is;
                                      created before it and removed after it
queue/paused.json                     any desktop: the queue starts nothing
jobs/<id>/job.lock                    any desktop, or the supervisor of a run that gives way: the
                                      request to stop; created exclusively
jobs/<id>/status.json                 the starting desktop, then rank 0, then the supervisor: each
                                      begins when the one before it has ended
jobs/<id>/attempts/<n>/               the program that starts run n (a desktop, or the agent of its
                                      head node from the queue): creating it is the claim
    claimed.json                      the agent or queue keeper that claimed run n
    carried.json                      any desktop: the nodes of run n do not see the data root
                                      (`records.nodes.remote_run`), until all of it was fetched
    supervisor.json, exit.json        the supervisor of run n; exit.json and status.json after its
                                      loss: the agent or a desktop (`node.run.finalize`)
    supervisor.log                    the supervisor of run n
    guard-<k>.log                     the guard of rank k
    rank-<k>.json                     the guard of rank k, when the rank has ended
    settings.json                     the program that starts run n: the settings of the run
    environment.json                  rank 0: versions, devices (`records.jobs.run_environment`)
    rank-<k>.error.json               rank k itself, when the user's code or ours raised
    (`AttemptFolder.delivery_file`)   the program that reports its end; the highest number counts
jobs/<id>/logs/rank-<k>.log           the guard of rank k (appends); mpirun.log: mpirun
jobs/<id>/output/history.toml         rank 0 (appends); samples.jsonl: rank 0
jobs/<id>/checkpoints/                rank 0
    <name>.keep                       any desktop: the checkpoint is never removed
jobs/<id>/work/<n>/<node>/            the ranks of run n on the node: the copy of a script
jobs/<id>/by-hand/<name>/             the processes of a run that a user started in a shell; the
                                      files are those of a job
jobs/<id>/acts/                       any desktop, the supervisor, the queue: one file for each
                                      action of a user or of the program
jobs/<id>/runs/<n>/                   what "start over" moved away, whole
jobs/<id>/proposal.json               the head node of a search: the values of a trial, and its end
only-owner.json                       the desktop that sets the rule; others may only read it
notices/<user>/                       any other user's desktop: a file for each action on a job of
                                      this user, whose window removes it
studies/<sweep>.json                  the desktop that starts the study, once
searches/<sweep>/search.json          the desktop that makes the search, once
    journal.log, progress.json        the head node of the search (`node.queue.search_turn`)
usage/runs-<host>-<user>.jsonl        the processes of a user on a host that record the end of a run
                                      (append): what it used
usage/removed-<id>.jsonl              the desktop that moves the job to the trash: its runs
nodes/<name>/node.json                the desktop that adds or sets up the node
nodes/<name>/info.json, status.json   the agent of the node; if the node does not see the data root,
                                      any desktop, which fetches them from its staged root
nodes/<name>/past.jsonl, week.jsonl   the agent of the node (appends); earlier.jsonl and
                                      earlier-week.jsonl: the full files before them
shared/environments/<name>, wheels/   the node that makes it for all similar nodes (renamed whole)
shared/.relay-*/                      nodes that are set up together; removed afterwards
====================================  ============================================================

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Protocol, TypeVar

RUN_VARIABLE = "RINGMASTER_RUN"
"""Environment variable on every process of a run: ``<job id>/<run>``."""
TOOL_TAG = "tool/"
"""Prefix of that variable on the processes of a check, a preview or an export."""

STARTED_OVER = ("output", "checkpoints", "logs", "status.json", "launch.json", "whole-launch.json")
"""Entries of earlier runs in a job's folder, besides ``attempts``; starting over moves them."""

MANUAL_RUNS = "by-hand"
LATEST = "latest.json"
CHECKPOINT_SUFFIX = ".pt"
SIDECAR_SUFFIX = ".json"
"""Suffix of the file next to each checkpoint:

hash, size, epoch, step, metrics (`records.jobs.checkpoint`).
"""
KEEP_SUFFIX = ".keep"
"""Suffix of the mark next to a checkpoint that is never removed."""


def run_tag(job_id: str, run: int) -> str:
    return f"{job_id}/{run}"


P = TypeVar("P", bound=PurePath)
P_co = TypeVar("P_co", bound=PurePath, covariant=True)


class _Folder(Protocol[P_co]):
    @property
    def path(self) -> P_co: ...


class _PathBelow:
    """A name in the folders of a class: the attribute is its path below ``path``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: _Folder[P], _: object) -> P:
        return folder.path / self._name


@dataclass(frozen=True)
class DataRoot:
    """The folder that every node sees, or a desktop's mirror of it."""

    path: Path

    datasets = _PathBelow("datasets")
    models = _PathBelow("models")
    loaders = _PathBelow("loaders")
    jobs = _PathBelow("jobs")
    nodes = _PathBelow("nodes")
    queue = _PathBelow("queue")
    pause_file = _PathBelow("queue/paused.json")
    templates = _PathBelow("templates")
    """Job files without a name, to start new jobs from."""
    usage = _PathBelow("usage")
    """Ledger of the runs, which outlives their jobs (`records.jobs.usage`)."""
    owner_rule = _PathBelow("only-owner.json")
    """The rule that only the owner of a job stops it; missing without the rule."""
    notices = _PathBelow("notices")
    """Actions on the jobs of each user by other users, until the user has seen them."""
    studies = _PathBelow("studies")
    """Records of the started studies, each with a copy of its study file."""
    searches = _PathBelow("searches")
    trash = _PathBelow("trash")
    """Folder of removed jobs and versions; the program empties it only when asked."""

    def node(self, name: str) -> NodeFolder:
        return NodeFolder(self.nodes / name)

    def job(self, job_id: str) -> JobFolder:
        return JobFolder(self.jobs / job_id)

    def search(self, name: str) -> SearchFolder:
        return SearchFolder(self.searches / name)


@dataclass(frozen=True)
class JobFolder:
    """A job's folder. Only this class knows the names in it."""

    path: Path

    config = _PathBelow("config.toml")
    meta = _PathBelow("meta.json")
    notes = _PathBelow("notes.json")
    origin = _PathBelow("origin.json")
    placement = _PathBelow("placement.json")
    proposal = _PathBelow("proposal.json")
    status = _PathBelow("status.json")
    stop_request = _PathBelow("job.lock")
    launch = _PathBelow("launch.json")
    whole_launch = _PathBelow("whole-launch.json")
    queued = _PathBelow("queued.json")
    queued_launch = _PathBelow("queued-launch.json")
    logs = _PathBelow("logs")
    work_folders = _PathBelow("work")
    mpirun_log = _PathBelow("logs/mpirun.log")
    output = _PathBelow("output")
    history = _PathBelow("output/history.toml")
    samples = _PathBelow("output/samples.jsonl")
    """What the job says about fixed validation samples (`records.jobs.sample_history`)."""
    tensorboard = _PathBelow("output/tensorboard")
    checkpoints = _PathBelow("checkpoints")
    acts = _PathBelow("acts")
    latest = _PathBelow(f"checkpoints/{LATEST}")
    """Names the newest verified checkpoint; changes only after verification."""
    started_over_runs = _PathBelow("runs")
    attempts = _PathBelow("attempts")

    @property
    def job_id(self) -> str:
        return self.path.name

    def work(self, run: int, node: str) -> Path:
        """The copy of a script in which a node runs it."""
        return self.work_folders / str(run) / node / "script"

    def rank_log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.log"

    def manual_run(self, name: str) -> JobFolder:
        """Return the folder of a run that the user starts with the job's command in a shell."""
        return JobFolder(self.path / MANUAL_RUNS / name)

    def attempt(self, run: int) -> AttemptFolder:
        return AttemptFolder(self.attempts / str(run))

    def newest_run(self) -> int:
        """Return the number of the newest claimed run, 0 if there was none."""
        if not self.attempts.is_dir():
            return 0
        return max(
            (int(entry.name) for entry in self.attempts.iterdir() if entry.name.isdecimal()),
            default=0,
        )


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one run about its supervision and its end."""

    path: Path

    claimer = _PathBelow("claimed.json")
    staged_marker = _PathBelow("carried.json")
    supervisor = _PathBelow("supervisor.json")
    supervisor_log = _PathBelow("supervisor.log")
    exit = _PathBelow("exit.json")
    settings = _PathBelow("settings.json")
    environment = _PathBelow("environment.json")

    def submission(self, scheduler: str) -> Path:
        return self.path / f"{scheduler}.json"

    def scheduler_log(self, scheduler: str) -> Path:
        return self.path / f"{scheduler}.log"

    def guard_log(self, rank: int) -> Path:
        return self.path / f"guard-{rank}.log"

    def rank_exit(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.json"

    def rank_error(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.error.json"

    def delivery_file(self, target: str, number: int) -> Path:
        return self.path / f"told-{target}.{number}.json"


@dataclass(frozen=True)
class SearchFolder:
    """The files of one search, in a folder with the name of its sweep."""

    path: Path

    definition = _PathBelow("search.json")
    journal = _PathBelow("journal.log")
    progress = _PathBelow("progress.json")


@dataclass(frozen=True)
class NodeFolder:
    """The files about one node in the data root."""

    path: Path

    entry = _PathBelow("node.json")
    info = _PathBelow("info.json")
    status = _PathBelow("status.json")
    history = _PathBelow("past.jsonl")
    earlier_history = _PathBelow("earlier.jsonl")
    week_history = _PathBelow("week.jsonl")
    earlier_week_history = _PathBelow("earlier-week.jsonl")


@dataclass(frozen=True)
class NodeHome:
    """The program's folder on a node, in the home of the user who runs jobs on the node."""

    path: PurePosixPath

    environments = _PathBelow("environments")
    wheels = _PathBelow("wheels")
    bundles = _PathBelow("bundles")
    ssh = _PathBelow("ssh")
    """0700: the cluster's key, known hosts and client settings."""
    state = _PathBelow("state")
    """Folder of the agent's files while the share is not mounted on the node."""
    notification_settings = _PathBelow("notices")
    """Folder of the user's notification settings (0700), one file for each data root."""
    sessions = _PathBelow("sessions")
    """0700: port and token of each session that runs, as `resources/session` writes them."""
    agent_log = _PathBelow("agent.log")

    @classmethod
    def shared_in(cls, data_root: PurePosixPath) -> NodeHome:
        """Return the folder of shared environments: only `environments` and `wheels`."""
        return cls(data_root / "shared")

    def staged_root(self, key: str) -> PurePosixPath:
        """Return the folder that replaces the data root on a node that does not see it.

        It has the same layout. ``key`` separates two data roots and is the same on all nodes of
        one, because the ranks of a run must see the same paths.
        """
        return self.path / "carried" / key

    def import_check(self, node: str) -> PurePosixPath:
        """Return the file with the result of importing torch and Horovod on a node.

        Several nodes may share one home.
        """
        return self.path / f"imports-{node}.json"


def checkpoint_name(epoch: int, step: int) -> str:
    """Return the name of the checkpoint after ``step`` steps in all, made in ``epoch``."""
    return f"epoch-{epoch:04d}-step-{step:06d}"


def script_checkpoint_name(epoch: int, step: int) -> str:
    """Return the name of a script's checkpoint; ``epoch`` is 0 if the script has none."""
    return checkpoint_name(epoch, step) if epoch else f"step-{step:06d}"


def epoch_and_step(checkpoint: str) -> tuple[int, int] | None:
    """Return epoch and step of a checkpoint's name, None for another name."""
    match = re.fullmatch(r"(?:epoch-(\d+)-)?step-(\d+)", checkpoint)
    return None if match is None else (int(match[1] or 0), int(match[2]))


def checkpoint_text(name: str) -> str:
    """Return "epoch 3, step 540" for the name of a checkpoint, another name as it is."""
    position = epoch_and_step(name)
    return name if position is None else position_text(*position)


def position_text(epoch: int, step: int, count: Callable[[int], str] = "{:,}".format) -> str:
    """Return "epoch 3, step 540", without an epoch only the step."""
    return f"epoch {count(epoch)}, step {count(step)}" if epoch else f"step {count(step)}"


def names_in(folder: DataRoot | JobFolder) -> frozenset[str]:
    """Return the names that the program uses in a folder, whether or not they exist."""
    paths = (getattr(folder, name) for name in dir(folder) if name[0] != "_")
    return frozenset(p.name for p in paths if isinstance(p, Path) and p.parent == folder.path)
