"""The check of a compute node in a real Slurm cluster: a job of seconds, one sentence for each."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import Cancelled
from backend.base.progress import Progress
from backend.cli.main import run
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.slurm.placement import SlurmPlacement
from backend.services.context.container import Services
from backend.services.preflight.compute_node import ComputeNodeCheck
from backend.services.preflight.names import COMPUTE_NODE
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs
from tests.cluster.test_slurm_jobs import jobs, services, slurm
from tests.waiting import wait_for

__all__ = ["jobs", "services", "slurm"]


@pytest.fixture
def config(jobs: SlurmJobs) -> JobConfig:
    config = parse_job(jobs.raw(nodes=2)).config
    assert config is not None
    return config


def finding_of(
    services: Services,
    config: JobConfig,
    progress: Progress | None = None,
    start_limit_s: float = 60.0,
    **changes: str,
) -> PreflightFinding:
    """Return the finding on a node where the paths of the run are others."""
    site = services.nodes.login_site(THIS_COMPUTER)
    assert site is not None
    changed_site = replace(site, **changes)
    check = ComputeNodeCheck(
        services.data_root,
        services.launchers.cluster,
        lambda name: changed_site,
        start_limit_s,
        poll_s=0.5,
    )
    preflight = services.preflight.run(config)
    assert preflight.succeeded
    result = check.run(config, preflight, progress or Progress())
    (finding,) = (f for f in result.findings if f.check == COMPUTE_NODE)
    return finding


def test_before_a_node_is_checked_the_preflight_check_says_so_and_offers_it(
    services: Services, config: JobConfig
) -> None:
    preflight = services.preflight.run(config)
    (warning,) = preflight.warnings
    assert warning.fix is Fix.CHECK_COMPUTE_NODE
    assert "It was not checked whether a compute node sees the data root" in warning.message


def test_a_node_that_can_run_the_job_is_named_with_its_versions(
    services: Services,
    jobs: SlurmJobs,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_id = services.jobs.create(jobs.raw(nodes=2)).id
    paths = ("--data-root", str(services.data_root.path), "--catalogue", str(tmp_path / "c.sqlite"))
    code = run(["job", "preflight", job_id, "--compute-node", *paths], lambda *_: 1)
    output = capsys.readouterr().out
    assert code == 0, output
    for part in ("ok     sn1 sees the data root", "PyTorch 2.", "Open MPI ", "2 passed"):
        assert part in output


def test_each_fault_of_a_compute_node_is_one_sentence(
    services: Services, config: JobConfig, tmp_path: Path
) -> None:
    broken_python = services.data_root.path / "python"
    broken_python.write_text(
        "#!/bin/sh\necho \"python: version 'GLIBC_2.38' not found\" >&2\nexit 1\n"
    )
    broken_python.chmod(stat.S_IRWXU)
    changes_of_nodes = (
        {"data_root": str(tmp_path / "elsewhere")},
        {"python": str(broken_python)},
        {"python": "/opt/gone/bin/python"},
        {"mpirun": "/opt/gone/bin/mpirun"},
    )

    def check(changes: dict[str, str]) -> PreflightFinding:
        return finding_of(services, config, **changes)

    with ThreadPoolExecutor(len(changes_of_nodes)) as pool:
        findings = list(pool.map(check, changes_of_nodes))
    assert list(services.data_root.jobs.glob(".preflight-*")) == []
    patterns = (
        rf"do not see the data root at {tmp_path}/elsewhere",
        rf"{broken_python} does not start on sn\d: python: version 'GLIBC_2.38' not found\.",
        r"/opt/gone/bin/python does not start on sn\d: /opt/gone/bin/python: not found\.",
        r"mpirun does not start on sn\d: No such file or directory\.",
    )
    for finding, pattern in zip(findings, patterns, strict=True):
        assert re.search(pattern, finding.message)


class Canceller(Progress):
    """Cancels when the job of the check waits in Slurm."""

    def report(self, done: float, total: float, label: str) -> None:
        self.cancel()


def test_a_check_that_does_not_begin_is_named_with_the_reason_and_leaves_the_queue(
    slurm: SlurmCluster, services: Services, config: JobConfig
) -> None:
    slurm.call("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    wait_for(lambda: "idle" not in slurm.states().values(), "three busy nodes")
    finding = finding_of(services, config, start_limit_s=3.0)
    assert (finding.is_warning, finding.fix) == (True, Fix.CHECK_COMPUTE_NODE)
    assert finding.message.startswith("Slurm has not begun the check: It waits for nodes or GPUs")
    with pytest.raises(Cancelled):
        finding_of(services, config, Canceller())
    assert "ringmaster-check" not in slurm.call("squeue", "-h", "-o", "%j")


def test_what_slurm_refuses_is_its_own_sentence(services: Services, config: JobConfig) -> None:
    placement = config.allocation
    assert isinstance(placement, SlurmPlacement)
    refused_placement = replace(placement, options=("--no-such-option=1",))
    refused_config = replace(config, allocation=refused_placement)
    assert "unrecognized option" in finding_of(services, refused_config).message


def test_a_trial_that_is_cancelled_while_it_waits_leaves_the_queue(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs
) -> None:
    slurm.call("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    wait_for(lambda: "idle" not in slurm.states().values(), "three busy nodes")
    job_id = services.jobs.create(jobs.raw(nodes=2)).id
    with pytest.raises(Cancelled):
        services.trial_runs.run(job_id, is_cancelled=lambda: True)
    assert "ringmaster" not in slurm.call("squeue", "-h", "-o", "%j")
