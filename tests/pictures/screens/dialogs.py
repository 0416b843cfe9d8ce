"""The dialogs of jobs and of the library, each in all its states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.runtime.controller import ignore
from backend.records.bundles.job_archive import ImportedJob, WrittenBundle
from backend.records.library.item import Kind
from backend.records.library.project import ImportGuess, Project, ProjectPart
from backend.records.nodes.preflight import Preflight, PreflightFinding, TrialResult
from backend.services.preflight.compute_node import unchecked_finding
from tests.pictures import lab
from tests.pictures.gallery import LARGE, LARGE_SMALL, SMALL, SMALLEST, screen
from tests.pictures.screens.jobs import open_job, table
from tests.pictures.screens.library import dataset
from tests.pictures.stage import Stage
from tests.widgets.jobs import preflight_samples as checks
from tests.widgets.jobs.checkpoints import test_inspection_dialog as inspected
from widgets.common.dialog import ProgressDialog
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.actions.job_questions import (
    MoveQuestion,
    TrashQuestion,
    queue_question,
    reason_question,
    tag_question,
)
from widgets.jobs.checkpoints.export_dialog import ExportDialog
from widgets.jobs.checkpoints.inspection_dialog import InspectionDialog
from widgets.jobs.page.bundle_dialog import BundleDialog, UnbundleDialog
from widgets.jobs.page.report_dialog import ReportDialog
from widgets.jobs.preflight.preflight_dialog import PreflightDialog
from widgets.library.depth_dialog import DepthDialog
from widgets.library.import_dialog import ImportDialog


def _preflight(stage: Stage, preflight: Preflight | None) -> PreflightDialog:
    open_job(stage, lab.DRAFT)
    dialog = stage.lay_over(PreflightDialog(True, stage.window))
    if preflight is not None:
        dialog.show_preflight(preflight, checks.PLACEMENT)
    return dialog


screen("preflight", (LARGE, SMALL, SMALLEST))(
    lambda stage: _preflight(
        stage, checks.preflight(checks.MPI, checks.BUSY, checks.ROOT, checks.CLOCK)
    )
)
screen("preflight-reserved", (LARGE, SMALL))(
    lambda stage: _preflight(stage, checks.preflight(checks.RESERVED))
)
screen("preflight-checking")(lambda stage: _preflight(stage, None))
screen("preflight-fixing")(
    lambda stage: _preflight(
        stage, checks.preflight(checks.MPI, checks.AGENT, checks.BUSY)
    ).show_fixing((checks.MPI,), "Horovod…")
)
screen("preflight-64")(lambda stage: _preflight(stage, checks.many(64)))


@screen("preflight-tried")
def preflight_tried(stage: Stage) -> None:
    dialog = _preflight(stage, checks.preflight(checks.MPI, checks.AGENT, checks.CLOCK))
    dialog.show_preflight(checks.preflight(checks.CLOCK), checks.PLACEMENT)
    dialog.show_trial(checks.BROKEN)


screen("preflight-sound")(
    lambda stage: _preflight(stage, checks.preflight()).show_trial(checks.SOUND)
)


def _preflight_of_cluster(stage: Stage, *findings: PreflightFinding) -> PreflightDialog:
    accepted = PreflightFinding("Slurm", True, "Slurm accepts the job.", nodes=("hpc",))
    dialog = _preflight(stage, None)
    preflight = Preflight(("hpc",), (*findings, accepted), 1.0)
    dialog.show_preflight(preflight, lab.IN_SLURM.config.placement)
    return dialog


screen("preflight-slurm", LARGE_SMALL)(
    lambda stage: _preflight_of_cluster(stage, unchecked_finding("hpc"))
)
screen("preflight-slurm-busy", LARGE_SMALL)(
    lambda stage: _preflight_of_cluster(stage, checks.NOT_BEGUN)
)
screen("preflight-slurm-failed", LARGE_SMALL)(
    lambda stage: _preflight_of_cluster(stage, checks.UNSEEN)
)


@screen("preflight-slurm-checked", LARGE_SMALL)
def preflight_slurm_checked(stage: Stage) -> None:
    dialog = _preflight_of_cluster(stage, unchecked_finding("hpc"))
    passed = replace(checks.UNSEEN, ok=True, message=checks.COMPUTE_NODE_TEXT)
    dialog.show_preflight(Preflight(("hpc",), (passed,), 9.0), lab.IN_SLURM.config.placement)
    dialog.show_trial(TrialResult(True, checks.COMPUTE_NODE_TEXT, 9.0))


TAKEN_NAMES = {kind: {"digits": 2} if kind is Kind.DATASET else {} for kind in Kind}


def _import(stage: Stage, source: str = "", name: str = "") -> ImportDialog:
    dataset(stage)
    return stage.lay_over(ImportDialog(Kind.DATASET, source, name, TAKEN_NAMES, stage.window))


screen("import")(_import)
screen("import-version")(lambda stage: _import(stage, "/home/mai/Downloads/digits.zip"))


@screen("import-three")
def import_three(stage: Stage) -> None:
    parts = {
        Kind.DATASET: ProjectPart("digits"),
        Kind.LOADER: ProjectPart("reader"),
        Kind.MODEL: ProjectPart("convolutional-network"),
    }
    guess = ImportGuess(
        Kind.DATASET, Project(parts, ("README.md", "job.toml", "notebooks/", "runs/"))
    )
    _import(stage, "/home/mai/digits").show_guess("/home/mai/digits", guess)


screen("import-fault")(lambda stage: _import(stage, "/home/mai/a folder", "two words/and a slash"))
screen("import-under-way")(
    lambda stage: _import(stage, "/home/mai/plankton").show_progress(0.42, "Copying train/0412.png")
)
screen("import-refused")(
    lambda stage: _import(stage, "/home/mai/plankton").show_error(
        "“plankton.zip” holds a path that leads out of it: ../../etc/passwd.",
        "Nothing was imported.",
    )
)


def _inspection(stage: Stage, tab: str = "") -> InspectionDialog:
    open_job(stage, lab.FINISHED)
    checkpoints = lab.checkpoints(lab.FINISHED)
    dialog = stage.lay_over(InspectionDialog(checkpoints, checkpoints[-1].name, stage.window))
    if tab:
        count = range(12)
        inspection = replace(
            inspected.INSPECTION,
            weights=tuple(
                replace(
                    inspected.INSPECTION.weights[n % 2], name=f"backbone.layer{n // 2}.{n % 2}.conv"
                )
                for n in count
            ),
            activations=tuple(
                replace(inspected.INSPECTION.activations[0], name=f"backbone.layer{n}.conv")
                for n in count
            ),
        )
        dialog.show_inspection(inspection)
        dialog._tabs.choose(tab)
        dialog._show_tab(tab)
    return dialog


for _tab in ("weights", "activations", "saliency"):
    screen(f"inspection-{_tab}", (LARGE, SMALL, SMALLEST))(
        lambda stage, tab=_tab: _inspection(stage, tab)
    )
screen("inspection-under-way")(lambda stage: _inspection(stage).request_inspection())
screen("inspection-refused")(
    lambda stage: _inspection(stage).show_error(
        "The weights in epoch-3 do not belong to this model: no name matches the model's. "
        "Choose weights that were trained with this model."
    )
)


def _export(stage: Stage) -> ExportDialog:
    open_job(stage, lab.FINISHED)
    checkpoints = lab.checkpoints(lab.FINISHED)
    return stage.lay_over(
        ExportDialog(
            JobActions(), lab.FINISHED, checkpoints, folder="/home/mai", parent=stage.window
        )
    )


screen("export")(_export)
screen("export-under-way")(lambda stage: _export(stage).show_progress(0.4, "Checking the hash"))
screen("export-done")(
    lambda stage: _export(stage).show_exported(Path("/home/mai/digits two workers.zip"))
)
screen("export-refused")(
    lambda stage: _export(stage).show_error(
        "There is a file /home/mai/digits.zip already. Choose another name."
    )
)


def _bundle(stage: Stage) -> BundleDialog:
    open_job(stage, lab.FINISHED)
    checkpoints = lab.checkpoints(lab.FINISHED)
    return stage.lay_over(BundleDialog(lab.FINISHED.name, checkpoints, "/home/mai", stage.window))


screen("bundle")(_bundle)
screen("bundle-under-way")(
    lambda stage: _bundle(stage).show_progress(0.7, "Packing epoch-0020-step-007800")
)
screen("bundle-done")(
    lambda stage: _bundle(stage).show_done(
        WrittenBundle("/home/mai/digits.ringmaster", 4_200_000, 31, omitted_variables=("KEY",))
    )
)


def _report(stage: Stage) -> ReportDialog:
    open_job(stage, lab.FINISHED)
    return stage.lay_over(ReportDialog("/home/mai/digits.html", stage.window))


screen("report")(_report)
screen("report-under-way")(lambda stage: _report(stage).show_progress(0.3, "Reading the curves"))
screen("report-done")(lambda stage: _report(stage).show_done(Path("/home/mai/digits.html")))


@screen("unbundle")
def unbundle(stage: Stage) -> None:
    open_job(stage)
    dialog = stage.lay_over(UnbundleDialog("digits.ringmaster", stage.window))
    dialog.show_progress(0.5, "Checking model/bks_model.py")


@screen("unbundle-notes")
def unbundle_notes(stage: Stage) -> None:
    open_job(stage)
    dialog = stage.lay_over(UnbundleDialog("digits.ringmaster", stage.window))
    notes = (
        "The dataset digits (version 2) is neither in this data root nor in the bundle. Import it.",
        "It was trained with PyTorch 2.12, and here is 2.13.",
    )
    origin = "Imported from a bundle of the job j6, made by lan."
    dialog.show_done(ImportedJob(lab.FINISHED, origin, notes=notes))


@screen("unbundle-refused")
def unbundle_refused(stage: Stage) -> None:
    open_job(stage)
    dialog = stage.lay_over(UnbundleDialog("digits.ringmaster", stage.window))
    dialog.show_error(
        "“model/bks_model.py” was changed since the bundle was made. Nothing was made."
    )


@screen("replay")
def replay(stage: Stage) -> None:
    open_job(stage, lab.FINISHED)
    message = "The same curve: all 7 800 steps have the same loss, bit for bit."
    dialog = stage.lay_over(ProgressDialog("Replay", parent=stage.window))
    dialog.show_result("good", message)


@screen("tensorboard", (LARGE, SMALL))
def tensorboard(stage: Stage) -> None:
    open_job(stage, lab.FINISHED)
    dialog = stage.lay_over(ProgressDialog("TensorBoard", parent=stage.window))
    dialog.show_progress(0.4, "Writing the weights")


@screen("resume-elsewhere", (LARGE, SMALL, SMALLEST))
def resume_elsewhere(stage: Stage) -> None:
    open_job(stage, lab.STOPPED)
    placement = [{"node": "gpu07", "gpus": list(lab.EIGHT)}]
    nodes = lab.nodes()
    name = lab.STOPPED.name
    stage.lay_over(
        MoveQuestion(name, placement, nodes, ignore, stage.window, excluded_node="gpu07")
    )


@screen("queue-priority")
def queue_priority(stage: Stage) -> None:
    views, queue = lab.long_queue()
    page = open_job(stage, views[1], views)
    page.show_queue(queue, is_immediate=True)
    stage.lay_over(queue_question(queue.jobs[0].entry, ignore, stage.window))


NAMES = [view.name for view in lab.JOBS[5:8]]


@screen("tag-jobs")
def tag_jobs(stage: Stage) -> None:
    table(stage)
    stage.lay_over(tag_question(NAMES, ("baseline", "roads"), ignore, stage.window))


@screen("trash-jobs")
def trash_jobs(stage: Stage) -> None:
    table(stage)
    dialog = stage.lay_over(TrashQuestion([lab.LONG_NAME, *NAMES], ignore, stage.window))
    dialog.show_size(4_200_000_000)


def _depth(
    stage: Stage, side: int = 128, kernel: int = 3, min_value: int = 6, *, as_printed: bool = False
) -> DepthDialog:
    stage.library(Kind.MODEL).show_items(())
    dialog = stage.lay_over(DepthDialog(stage.window))
    dialog.limit.choose("printed" if as_printed else "kept")
    for box, value in (
        (dialog.side, side),
        (dialog.kernel, kernel),
        (dialog.min_c_value, min_value),
    ):
        box.setValue(value)
    dialog._replan()
    return dialog


screen("depth-plan", (LARGE, SMALL, SMALLEST))(_depth)
screen("depth-plan-printed")(lambda stage: _depth(stage, as_printed=True))
screen("depth-plan-largest")(lambda stage: _depth(stage, 8192, 2, 100))
screen("depth-plan-one")(lambda stage: _depth(stage, 3, 3, 1))
screen("depth-plan-refused")(lambda stage: _depth(stage, 4, 5))


@screen("job-of-another-user", (LARGE, SMALLEST))
def job_of_another_user(stage: Stage) -> None:
    open_job(stage)
    names = (lab.LIVE.name, lab.FINISHED.name)
    stage.lay_over(reason_question("Stop", names, "ben and dora.lindqvist", ignore, stage.window))
