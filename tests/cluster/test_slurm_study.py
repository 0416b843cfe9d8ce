"""A study whose jobs run in a real Slurm cluster: its table, and the report that is sent on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from backend.training.run_environment import program_version
from tests.cluster.slurm import NODES, SlurmCluster
from tests.cluster.slurm_jobs import SlurmJobs
from tests.cluster.test_slurm_jobs import jobs, services, slurm

__all__ = ["jobs", "services", "slurm"]
pytestmark = pytest.mark.slow
STUDY: dict[str, Any] = {
    "title": "Workers",
    "question": "One worker or two?",
    "source": "none",
    "measure": "error",
    "also": ["epoch time"],
    "job": {
        **dict.fromkeys(("model", "loader", "dataset"), "tiny"),
        "epochs": 3,
        "batch_size": 64,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "slurm": {"cluster": THIS_COMPUTER, "processes": 1, "time_limit_min": 10},
    },
    "rows": [
        {"name": "one", "job": {"strategy": {"name": "alone"}}, "published": 50},
        {"name": "two", "workers": 2, "job": {"strategy": {"name": "ddp"}}},
    ],
    "small": {"minutes": 1, "seeds": [1]},
    "full": {"minutes": 1},
}


def test_a_study_in_slurm_fills_its_table_from_nodes_that_slurm_chose(
    slurm: SlurmCluster, services: Services, jobs: SlurmJobs, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(STUDY))
    queued_study = services.studies.start(str(tmp_path / "mine.toml"))
    views = [
        jobs.wait_until(view.id, lambda view: view.state.is_over, "the end", 120)
        for view in queued_study.jobs
    ]
    assert [view.state for view in views] == [JobState.FINISHED] * 2, jobs.describe(views[-1])
    assert [view.status.world_size for view in views] == [1, 2]
    (started,) = services.studies.started_studies()
    table = services.studies.table(started)
    assert all(row.value.n == 1 and (row.further_cells[0].mean or 0) > 0 for row in table.rows)
    environments = [job.environment for job in table.jobs if job.environment is not None]
    assert [e.processes for e in environments] == [1, 2]
    assert [set(e.nodes) <= set(NODES) for e in environments] == [True, True]
    (ran_on,) = (remark for remark in table.remarks if remark.startswith("Ran on"))
    assert ran_on.endswith(f", program {program_version()}.")
    report = services.reports.write([started.sweep], tmp_path / "report.html").read_text()
    assert ran_on in report
    assert not {*NODES, THIS_COMPUTER} & set(re.findall(r"[\w-]+", report))
