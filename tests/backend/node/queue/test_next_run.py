"""The next run that a node queues itself: its launch, its nodes and its place in the queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.node.queue import entries, next_run
from backend.node.queue.next_run import next_launch, queue_next
from backend.node.run.launch_command import command, environment
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import RUN_VARIABLE, DataRoot
from backend.records.base.timestamps import stamp
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch, RankLauncher, rank_plans
from backend.records.jobs.placement import Placement
from tests.integration.tiny import raw_job

NODES = ("gpu01", "gpu02", "gpu03")
HOSTS = {node: f"10.0.0.{number}" for number, node in enumerate(NODES, 1)}


def place_on(*nodes: str, processes: int = 2) -> tuple[Placement, ...]:
    return tuple(Placement(node, processes) for node in nodes)


def make_config(placement: tuple[Placement, ...]) -> JobConfig:
    raw = raw_job(placement=[element.to_dict() for element in placement])
    config = parse_job(raw).config
    assert config is not None
    return config


def launch(folder: Path, config: JobConfig, run: int) -> Launch:
    """Return a launch as the desktop makes it."""
    return Launch(
        job_id=folder.name,
        run=run,
        config=config,
        ranks=rank_plans(config, HOSTS),
        model_source="/data/m",
        loader_source="/data/l",
        dataset_files="/data/d",
        python="/env/bin/python",
        job_folder=str(folder),
        code_root="/code",
        launcher=RankLauncher("/usr/bin/mpirun", networks="10.0.0.0/24"),
        ssh_config="/data/ssh_config",
    )


@pytest.mark.parametrize(
    "remaining_nodes", [NODES, NODES[:2], NODES[1:], ("gpu03", "gpu01"), ("gpu02",)], ids=" ".join
)
def test_next_launch_is_the_one_that_a_desktop_would_make(
    tmp_path: Path, remaining_nodes: tuple[str, ...]
) -> None:
    config = make_config(place_on(*NODES))
    fewer = replace(config, placement=place_on(*remaining_nodes))
    previous_launch = launch(tmp_path, config, 1)

    new_launch = next_launch(previous_launch, fewer, "/data/checkpoint.pt")

    expected_launch = launch(tmp_path, fewer, 2)
    assert new_launch == replace(expected_launch, resume_from="/data/checkpoint.pt")
    assert command(new_launch) == command(expected_launch)


def test_next_run_waits_before_the_queued_jobs_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = DataRoot(tmp_path)
    folder = root.job("a-job")
    folder.checkpoints.mkdir(parents=True)
    previous_launch = launch(folder.path, make_config(place_on(*NODES)), 3)

    entry = queue_next(
        folder,
        previous_launch,
        "gpu02 was lost.",
        placement=place_on("gpu01", "gpu03"),
        quiet_s=300,
    )

    (queued_entry,) = entries.entries(root)
    assert queued_entry == entry
    assert (queued_entry.run, queued_entry.reason, queued_entry.quiet_s) == (
        4,
        "gpu02 was lost.",
        300,
    )
    queued = Launch.from_dict(read_json(folder.queued_launch))
    assert {plan.node for plan in queued.ranks} == {"gpu01", "gpu03"}
    assert environment(queued)[RUN_VARIABLE].endswith("4")
    replace_json(folder.queued, replace(entry, position=0.0).to_dict())
    other_job = root.job("b-job")
    other_job.checkpoints.mkdir(parents=True)
    assert (
        queue_next(other_job, launch(other_job.path, make_config(place_on(*NODES)), 1), "").position
        < 0
    )


@pytest.mark.parametrize(
    ("begin_h", "hours", "nodes", "is_kept"),
    [
        (-1, 2, (), True),
        (-1, 2, NODES[:2], True),
        (-1, 2, (*NODES[:2], "gpu09"), False),
        (-3, 2, (), False),
        (-1, 0, (), False),
    ],
    ids=["again", "on fewer nodes", "on another node", "its time is over", "none"],
)
def test_a_next_run_keeps_the_reservation_of_the_run_before_on_its_nodes(
    tmp_path: Path, begin_h: float, hours: float, nodes: tuple[str, ...], is_kept: bool
) -> None:
    folder = DataRoot(tmp_path).job("a-job")
    folder.checkpoints.mkdir(parents=True)
    begin = stamp(datetime.now(UTC) + timedelta(hours=begin_h))
    previous_launch = replace(
        launch(folder.path, make_config(place_on(*NODES)), 1),
        reserved_from=begin,
        reserved_s=hours * 3600.0,
    )
    hosts = {**HOSTS, "gpu09": "10.0.0.9"}
    entry = queue_next(folder, previous_launch, "", placement=place_on(*nodes), hosts=hosts)
    expected_time = (begin, hours * 3600.0) if is_kept else ("", 0.0)
    assert (entry.not_before, entry.length_s) == expected_time


def test_invalid_settings_queue_nothing(tmp_path: Path) -> None:
    folder = DataRoot(tmp_path).job("a-job")
    folder.checkpoints.mkdir(parents=True)
    previous_launch = launch(folder.path, make_config(place_on(*NODES)), 1)

    with pytest.raises(BackendError, match="batch_size"):
        next_run.queue_next(folder, previous_launch, "", changes={"batch_size": 0})

    assert not folder.queued.exists()
