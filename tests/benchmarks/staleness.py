"""Test error by staleness: the full form of the study “staleness”, in which the delay is made.

Zheng et al. (arXiv 1609.08326, table 1) find the error of delay-compensated SGD below that of
asynchronous SGD and close to that of plain SGD, each with a rate that was tuned. A row of n workers
is simulated (`Simulator`) with gradients that are n - 1 updates late, so only the updates differ.
``python -m tests.benchmarks.staleness`` writes the table into its page.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from backend.records.jobs.launch import Launch
from backend.records.jobs.run_environment import RunEnvironment
from backend.records.studies.study import (
    FormName,
    GalleryPart,
    Measure,
    StartedStudy,
    StudyJob,
    library_of,
    read_study,
    sweep_of_study,
)
from backend.records.studies.table import JobMeasures, StudyTable, study_table
from backend.records.sweeps.spec import expand
from backend.services.context.example import EXAMPLE
from backend.services.jobs.job_file import read_job_file
from backend.services.studies.service import FILE, GALLERY
from backend.training.parameter_server import Delays
from backend.training.run_environment import environment_of
from backend.training.simulation import Simulator
from backend.training.user_code import load_loader
from tests.backend.training.training_rig import parsed
from tests.benchmarks.figures import Figure
from tests.benchmarks.study_pages import write
from tests.gallery.figures import SERVICE

NAME = "staleness"
FORM = FormName.FULL


def measure() -> list[Figure]:
    """Return what delay compensation gains, each at its best learning rate, by seed."""
    table = simulated_table(GALLERY / NAME / FILE)
    best_rows = {row.series: row for row in table.rows if row.is_best}
    asgd, dc_asgd = best_rows["asgd, 17 workers"], best_rows["dc-asgd adaptive, 17 workers"]
    errors = {(job.row, job.seed): job.values[Measure.TEST_ERROR] for job in table.jobs}
    return [
        Figure(
            NAME,
            "test error, asgd − dc-asgd, 16 updates late, each at its best rate",
            tuple(errors[asgd.name, seed] - errors[dc_asgd.name, seed] for seed in table.seeds),
            0.0,
            "%",
            at_least=True,
            context="; ".join(
                f"{row.name} {row.further_cells[-1].mean}" for row in (asgd, dc_asgd)
            ),
        )
    ]


def simulated_table(path: Path) -> StudyTable:
    """Simulate a study; return its table."""
    torch.set_num_threads(1)
    study = read_study(read_job_file(path))
    library = dict.fromkeys(("dataset", "loader", "model"), "digits")
    sweep, cells = sweep_of_study(study, FORM, (), library)
    rows = {row.name: row for row in study.rows}
    jobs: list[StudyJob] = []
    measures: dict[str, JobMeasures] = {}
    environments: dict[str, RunEnvironment] = {}
    for number, (job, (row, seed)) in enumerate(zip(expand(sweep).jobs, cells, strict=True), 1):
        jobs.append(StudyJob(str(number), row, seed))
        part = library_of(study, FORM, rows[row])["loader"]
        assert isinstance(part, GalleryPart)
        with tempfile.TemporaryDirectory() as folder:
            SERVICE.write(part.entry, dict(part.settings), Path(folder, "loader"))
            launch = Launch(
                job_id="simulation",
                run=1,
                config=parsed(job.raw),
                ranks=(),
                model_source=str(EXAMPLE / "model"),
                loader_source=str(Path(folder, "loader")),
                dataset_files=str(EXAMPLE / "dataset"),
            )
            errors = measures[str(number)] = errors_of(launch, rows[row].workers - 1)
        environments[str(number)] = environment_of(1, launch, torch.device("cpu"))
        sys.stderr.write(f"{number} of {len(cells)}: {row}, {seed}: {errors}\n")
    started_study = StartedStudy(NAME, FORM, "", tuple(jobs))
    return study_table(study, started_study, measures, environments=environments)


def errors_of(launch: Launch, staleness: int) -> JobMeasures:
    """Return the errors after training on two halves of the digits for validation.

    The first half chooses the learning rates, the second one is the test set.
    """
    simulator = Simulator(launch, Delays(staleness))
    last_epoch = simulator.run()[-1]
    digits: Any = load_loader(Path(launch.loader_source)).validation(EXAMPLE / "dataset")
    with torch.no_grad():
        output = simulator.model.eval()(digits.user_dataset.pictures)
    is_wrong = (output.argmax(1) != digits.user_dataset.digits).double()
    chooses, tests = is_wrong.chunk(2)
    return {
        Measure.ERROR: 100 * float(chooses.mean()),
        Measure.TEST_ERROR: 100 * float(tests.mean()),
        Measure.STALENESS: last_epoch.staleness_mean,
    }


if __name__ == "__main__":
    origin = f"Simulated, {datetime.now(UTC):%Y-%m-%d}."
    write(NAME, simulated_table(GALLERY / NAME / FILE), origin)
