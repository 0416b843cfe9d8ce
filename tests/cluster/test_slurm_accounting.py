"""Slurm keeps the ends of jobs in a database or in a file: both are read, also after hours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.launch.slurm import SlurmCluster as Queue
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import is_own
from tests.cluster.slurm import ACCOUNT, SlurmCluster
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(params=[True, False], ids=["database", "file"])
def has_database(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def slurm(tmp_path: Path, has_database: bool) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path, has_database=has_database) as cluster:
        yield cluster


def test_a_cancelled_job_is_known_after_slurm_has_dropped_it_from_the_queue(
    slurm: SlurmCluster, has_database: bool
) -> None:
    options = ("--job-name=ringmaster-x", "--comment=ringmaster:x:1", "--output=/dev/null")
    number = slurm.call("sbatch", "--parsable", *options, "--wrap=sleep 600").strip()
    wait_for(lambda: slurm.call("squeue", "-h", "-o", "%T").strip() == "RUNNING", "its start")
    slurm.call("scancel", number)
    # MinJobAge without the wait.
    slurm.set_shortest_job_age()
    wait_for(lambda: number not in slurm.call("squeue", "-h", "-t", "all", "-o", "%A"), "its loss")
    job = Queue(slurm).job(number)
    assert job is not None
    assert job.state == "CANCELLED"
    assert job.cancelled_by == (0 if has_database else None)
    assert is_own(job, "x")


@pytest.mark.parametrize("has_database", [True], ids=["database"])
def test_an_account_or_a_qos_that_is_not_allowed_is_named_with_those_that_are(
    slurm: SlurmCluster,
) -> None:
    (account_error,) = Queue(slurm).check(SlurmPlacement(account="chemistry"))
    assert "You may not use the account “chemistry”" in account_error.message
    assert ACCOUNT in account_error.remedy
    (qos_error,) = Queue(slurm).check(SlurmPlacement(account=ACCOUNT, qos="night"))
    assert qos_error.remedy == "Choose one of yours: normal."
