"""The ledger of a data root: it has the runs of jobs that are gone, and of one that runs."""

from __future__ import annotations

import getpass
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.ledger import LedgerKey, ledger_rows
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.services.context.container import Services
from tests.integration.conftest import is_training
from tests.integration.test_cli import Cli
from tests.integration.tiny import ALONE, ENDLESS, raw_job


@pytest.fixture
def cli(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(workplace, capsys)


def test_a_run_is_in_the_ledger_while_it_runs_when_it_ended_and_after_its_job_is_gone(
    services: Services, cli: Cli, workplace: Path
) -> None:
    root = services.data_root
    job = services.jobs.create_and_start({**raw_job(1, **ENDLESS, **ALONE), "tags": ["vision"]})
    services.queries.wait(job.id, is_finished=is_training)
    (live_run,) = services.usage.read().runs
    assert (live_run.job_id, live_run.user) == (job.id, getpass.getuser())
    assert [node.node for node in live_run.nodes] == [socket.gethostname()]

    services.jobs.lifecycle.stop(job.id)
    services.queries.wait(job.id)
    took_s = RunExit.from_dict(read_json(root.job(job.id).attempt(1).exit)).took_s
    (ended_run,) = services.usage.read().runs
    assert ended_run.took_s == took_s > 0
    assert len(list(root.usage.glob("runs-*.jsonl"))) == 1

    # Another project counts from now on for this run, too; also after the job is gone.
    services.jobs.annotate(job.id, tags=["speech"])
    services.jobs.remove(job.id)
    shutil.rmtree(root.trash)
    (row,) = ledger_rows(services.usage.read().runs, (LedgerKey.PROJECT,))
    assert (row.keys, row.node_s) == (("speech",), took_s)

    code, out, err = cli("usage", "--by", "project", "--by", "node")
    assert (code, err) == (0, "")
    head, line = out.splitlines()
    assert head.split()[:3] == ["PROJECT", "NODE", "RUNS"]
    assert line.split()[:4] == ["speech", "this", "computer", "1"]
    assert line.split()[5] in ("ms", "s", "min"), "a short run has more than 0.00 hours"
    table = cli("usage", "--csv")[1].splitlines()
    assert table[0].startswith("user,runs,node_hours,gpu_hours,energy_kwh")
    assert table[1].startswith(f"{getpass.getuser()},1,")
    (document,) = cli.json("usage")
    assert document["node_hours"] == pytest.approx(took_s / 3600)
    assert cli("usage", "--until", "2001")[1:] == ("", "Nothing was used.\n")
    assert "--since is later than" in cli.error("usage", "--since", "2026-12", "--until", "2026-11")


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        pytest.param(lambda root: shutil.rmtree(root.usage), True, id="a ledger that was lost"),
        pytest.param(
            lambda root: [p.write_text("{\n[]\n\x00") for p in root.usage.iterdir()],
            True,
            id="a damaged ledger",
        ),
        pytest.param(
            lambda root: [p.write_text("\n" + p.read_text() + "{") for p in root.usage.iterdir()],
            True,
            id="a line that was not finished",
        ),
    ],
)
def test_what_the_ledger_lacks_is_read_from_the_folders(
    services: Services,
    finished: str,
    job_that_finished: Path,
    change: Callable[..., object],
    is_known: bool,
) -> None:
    root = services.data_root
    shutil.copytree(job_that_finished.parents[1] / "usage", root.usage)
    services.queries.list()
    (run,) = services.usage.read().runs
    change(root)
    assert services.usage.read().runs == (run,)


def test_a_run_of_an_earlier_version_is_counted_as_unknown(
    services: Services, finished: str, cli: Cli
) -> None:
    path = services.data_root.job(finished).attempt(1).exit
    record = read_json(path)
    del record["nodes"]
    replace_json(path, record)
    assert services.queries.show(finished).state is JobState.FINISHED
    assert services.usage.read().unknown_runs == 1
    assert "Not in it: 1 runs without" in cli("usage")[2]


def test_a_data_root_says_who_may_stop_jobs(
    services: Services, finished: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("owners")[1] == "Every user may stop and remove every job.\n"
    monkeypatch.setenv("LOGNAME", "admin")
    rule = "Only its owner, and admin, may stop or remove a job.\n"
    assert cli("owners", "--only-owner-stops")[1] == cli("owners")[1] == rule
    monkeypatch.setenv("LOGNAME", "ben")
    assert "belongs to" in cli.error("job", "remove", finished, "--reason", "it is old")
    monkeypatch.setenv("LOGNAME", "admin")
    assert cli.json("owners", "--everyone-stops") == {"only_owner_stops": False, "rule": None}
    assert cli("job", "remove", finished, "--reason", "it is old")[0] == 0
    monkeypatch.delenv("LOGNAME")
    (notice,) = services.notifications.take_notices()
    assert notice.message.startswith("Moved to the trash: it is old (by admin")
