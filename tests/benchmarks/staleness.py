"""Test error by staleness: the full form of the study “staleness”, in which the delay is made.

Zheng et al. (arXiv 1609.08326, table 1) find the error of delay-compensated SGD below that of
asynchronous SGD and close to that of plain SGD, each with a rate that was tuned. A row of n workers
is simulated (`Simulator`) with gradients that are n - 1 updates late, so only the updates differ.
``python -m tests.benchmarks.staleness`` writes the table into its page.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from backend.records.jobs.launch import Launch
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
from backend.records.studies.table import Measured, StudyTable, in_markdown, study_table
from backend.records.sweeps.spec import expand
from backend.services.context.example import EXAMPLE
from backend.services.jobs.job_file import read_job_file
from backend.services.studies.service import FILE, GALLERY
from backend.training.parameter_server import Delays
from backend.training.simulation import Simulator
from backend.training.user_code import load_loader
from tests.backend.training.training_rig import parsed
from tests.benchmarks.figures import Figure
from tests.benchmarks.study_pages import PAGES, write
from tests.gallery.figures import HERE

NAME = "staleness"
FORM = FormName.FULL


def measure() -> list[Figure]:
    """Return what delay compensation gains, each at its best learning rate, by seed."""
    table, errors = simulated(GALLERY / NAME / FILE)
    best = {row.series: row for row in table.rows if row.is_best}
    figures = []
    for late in (8, 16):
        asgd, dc_asgd = (
            best[f"{name}, {late + 1} workers"] for name in ("asgd", "dc-asgd adaptive")
        )
        pairs = zip(errors[asgd.name], errors[dc_asgd.name], strict=True)
        figures.append(
            Figure(
                NAME,
                f"error, asgd − dc-asgd, {late} updates late, each at its best rate",
                tuple(one - other for one, other in pairs),
                0.0,
                "%",
                at_least=True,
                context=f"{asgd.name} {asgd.value.mean}; {dc_asgd.name} {dc_asgd.value.mean}",
            )
        )
    return figures


def simulated(path: Path) -> tuple[StudyTable, dict[str, list[float]]]:
    """Simulate a study; return its table, and the errors of each row."""
    torch.set_num_threads(1)
    study = read_study(read_job_file(path))
    library = dict.fromkeys(("dataset", "loader", "model"), "digits")
    sweep, cells = sweep_of_study(study, FORM, (), library)
    rows = {row.name: row for row in study.rows}
    jobs: list[StudyJob] = []
    measured: dict[str, Measured] = {}
    errors: dict[str, list[float]] = {}
    for job, (row, seed) in zip(expand(sweep).jobs, cells, strict=True):
        jobs.append(StudyJob(str(len(jobs)), row, seed))
        part = library_of(study, FORM, rows[row])["loader"]
        assert isinstance(part, GalleryPart)
        with tempfile.TemporaryDirectory() as folder:
            HERE.write(part.entry, dict(part.settings), Path(folder, "loader"))
            found = errors_of(job.raw, rows[row].workers - 1, Path(folder, "loader"))
        measured[jobs[-1].id] = found
        errors.setdefault(row, []).append(found[Measure.ERROR])
        sys.stderr.write(f"{len(jobs)} of {len(cells)}: {row}, {seed}: {found}\n")
    started = StartedStudy(NAME, FORM, "", tuple(jobs))
    return study_table(study, started, measured), errors


def errors_of(raw: object, late: int, loader: Path) -> Measured:
    """Return the errors after training on two halves of the digits for validation.

    The first half chooses the learning rates, the second one is the test set.
    """
    config = parsed(raw)  # type: ignore[arg-type] # it is a job file
    launch = Launch(
        job_id="simulation",
        run=1,
        config=config,
        argv=(),
        ranks=(),
        model_source=str(EXAMPLE / "model"),
        loader_source=str(loader),
        dataset_files=str(EXAMPLE / "dataset"),
    )
    simulator = Simulator(launch, Delays(late))
    last = simulator.run()[-1]
    digits: Any = load_loader(loader).validation(EXAMPLE / "dataset")
    with torch.no_grad():
        output = simulator.model.eval()(digits.user_dataset.pictures)
    is_wrong = (output.argmax(1) != digits.user_dataset.digits).double()
    chooses, tests = is_wrong.chunk(2)
    return {
        Measure.ERROR: 100 * float(chooses.mean()),
        Measure.TEST_ERROR: 100 * float(tests.mean()),
        Measure.STALENESS: last.staleness_mean,
    }


if __name__ == "__main__":
    write(PAGES / f"{NAME}.md", in_markdown(simulated(GALLERY / NAME / FILE)[0]))
