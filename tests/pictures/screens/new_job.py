"""New job: ready, at fault, on many nodes, with several values for a field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PySide6.QtWidgets import QWidget

from app.runtime.controller import ignore
from backend.records.base.validation import ConfigError, variable_error
from backend.records.jobs.plan import BatchFit, JobPlan, MemoryPlan, NodesPlan
from backend.records.jobs.rate_search import RateSearch, RateStep
from backend.records.jobs.script_help import ScriptHelp, read_help
from backend.records.jobs.view import JobCheck
from backend.records.library.item import Kind
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.records.nodes.partition import Partition, PartitionNode
from backend.records.nodes.reading import Finding, GpuProcess, NodeState, Presence
from backend.records.queue.entry import QueueEntry
from backend.records.sweeps.values import Axis, parse_axis
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE, LARGE_SMALL, SMALL, SMALLEST, screen
from tests.pictures.screens.library import item
from tests.pictures.stage import Stage
from tests.widgets.nodes import samples
from widgets.jobs.actions.job_questions import queue_question
from widgets.jobs.form.form_layout import Details
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.plan_dialog import PlanDialog
from widgets.jobs.form.rate_dialog import RateDialog
from widgets.jobs.form.start_from import StartFrom
from widgets.jobs.form.trial_status import BatchTrial, TrialState
from widgets.jobs.placement.gpu_choice import share_question

_HELPS = Path(__file__).parents[2] / "data/script_help"


def placement_on(*nodes: str, uuids: Sequence[str] = lab.EIGHT) -> list[dict[str, object]]:
    return [{"node": node, "gpus": list(uuids)} for node in nodes]


RAW = {
    **lab.config("retinanet-r50 · coco").to_dict(),
    "name": "retinanet-r50 · coco 2x, sqrt",
    "loader": "coco-boxes",
    "placement": placement_on("gpu09", "gpu12"),
}
RATES = tuple(
    0.08 * (n / 6 if n < 6 else 0.5 + 0.5 * math.cos(math.pi * (n - 6) / 94)) for n in range(101)
)
READY = JobCheck(
    global_batch=256,
    learning_rate=0.08,
    steps_per_epoch=458,
    rates=RATES,
    findings=(
        Finding("GPUs", True, "All 16 GPUs are free."),
        Finding("model", True, "Model and loader fit."),
        Finding("network", True, "One network, 10.0.4.0/24; the data root is seen by both."),
        Finding("rate", True, "The learning rate is twice that of your best job."),
    ),
)

MEMORY = MemoryPlan(
    145_000_000, 145_000_000, 145_000_000, 12_400_000_000, 1_900_000_000, 80 * 2**30
)
PLAN = JobPlan(
    *("gpu09", MEMORY, 16, None, 0.212, 118, 27.4, 6.1, 4200.0, 0.02, 290_000_000, 3, 412 * 10**9),
    by_nodes=(
        NodesPlan(1, 128, 45_800, 0.212, 0, 9716.0, 4.1e7),
        NodesPlan(2, 256, 22_900, 2.387, 272_000_000, 54_670.0, 4.6e8),
        NodesPlan(4, 512, 11_450, 2.459, 281_000_000, 28_160.0, 4.7e8),
    ),
)

GOOD_TRIAL = BatchTrial(TrialState.SUCCEEDED, "One batch was tried: loss 1.83")


def filled_form(stage: Stage, nodes=None, raw=RAW) -> JobForm:
    """The form with a job that could start at once."""
    form = stage.form
    form.show_choices(
        (item(Kind.MODEL, "retinanet-r50", 4), item(Kind.MODEL, "unet-cells")),
        (item(Kind.DATASET, "coco", 2), item(Kind.DATASET, "coco-val")),
        (item(Kind.LOADER, "coco-boxes", 3),),
        (item(Kind.SCRIPT, "imagenet-torchrun", 2),),
    )
    form.show_nodes(lab.nodes() if nodes is None else nodes)
    form.show_jobs(lab.JOBS)
    form.show_draft(JobDraft(raw))
    form.show_check(READY, GOOD_TRIAL)
    return form


screen("new-job", EVERY, ("light",))(filled_form)


@screen("new-job-later", LARGE_SMALL)
def new_job_later(stage: Stage) -> None:
    filled_form(stage)
    entry = QueueEntry("", str(RAW["name"]), 1, (), "", not_before="2026-12-24T17:00:00Z")
    stage.lay_over(queue_question(replace(entry, length_s=14_400.0), ignore, stage.window))


@screen("new-job-rate", LARGE_SMALL)
def new_job_rate(stage: Stage) -> None:
    """The search for the learning rate, with its proposal."""
    filled_form(stage)
    losses = [2.4 - 1.9 * math.exp(-((n / 60 - 1.2) ** 2) * 9) for n in range(88)]
    noise = np.random.default_rng(2).normal(0, 0.08, len(losses))
    steps = (
        RateStep(10 ** (7 * n / 99 - 6), loss + noise[n], loss) for n, loss in enumerate(losses)
    )
    dialog = RateDialog(stage.window)
    dialog.show_search(RateSearch(tuple(steps), 0.01))
    stage.lay_over(dialog)


@screen("new-job-plan", LARGE_SMALL)
def new_job_plan(stage: Stage) -> None:
    """The needs of a job whose batch fits."""
    filled_form(stage)
    dialog = PlanDialog(stage.window)
    dialog.show_plan(PLAN)
    stage.lay_over(dialog)


@screen("new-job-plan-too-large", LARGE_SMALL)
def new_job_plan_too_large(stage: Stage) -> None:
    """A batch that does not fit into the GPU, and the two ways out."""
    filled_form(stage)
    dialog = PlanDialog(stage.window)
    memory = replace(PLAN.memory, other_bytes=None, capacity_bytes=11 * 2**30)
    dialog.show_plan(JobPlan("gpu09", memory, 64, BatchFit(48, 32, 2, 2)))
    stage.lay_over(dialog)


@screen("new-job-slurm", LARGE_SMALL)
def new_job_slurm(stage: Stage) -> None:
    """A job for which Slurm chooses the nodes, with its rare settings open."""
    table = {"cluster": "hpc", "nodes": 4, "gpus": 4, "partition": "a100", "time_limit_min": 720}
    nodes = tuple(PartitionNode(f"g{n}", "idle", 64, 512_000, {"a100": 4}) for n in range(8))
    cluster_node = NodeEntry("hpc", NodeAddress("login.example"), scheduler="slurm")
    states = (*lab.nodes(), NodeState("hpc", Presence.ONLINE, entry=cluster_node))
    form = filled_form(stage, states, {**RAW, "placement": [], "slurm": table})
    form.show_partitions("hpc", (Partition("a100", True, True, 172_800, nodes),))
    for details in form.findChildren(Details):
        stage.settle()
        if (
            details.button.isVisible()
            and details.button.isVisibleTo(form)
            and "sbatch" in details.button.toolTip()
        ):
            details.button.click()


@screen("new-job-more", LARGE_SMALL)
def new_job_more(stage: Stage) -> None:
    """Settings that are rarely changed are shown, too."""
    form = filled_form(stage)
    for details in form.findChildren(Details):
        stage.settle()
        if details.button.isVisible():
            details.button.click()


@screen("new-job-script", LARGE_SMALL)
def new_job_script(stage: Stage) -> None:
    """A job with a training program of the user's own, and what is rarely changed."""
    raw = {
        "name": "imagenet-torchrun 3",
        "script": "imagenet-torchrun",
        "entry": "train.py",
        "arguments": ["--data", "{dataset}", "--out", "{output}", "--lr", "0.1", "--note", "it's"],
        "resume_arguments": ["--resume", "{checkpoint}"],
        "dataset": "coco",
        "placement": placement_on("gpu09", "gpu12"),
    }
    form = filled_form(stage, raw=raw)
    stage.settle()
    form._sections._script_details.button.click()


@screen("new-job-arguments", LARGE_SMALL)
def new_job_arguments(stage: Stage) -> None:
    """The arguments that the script's --help names, one of them with several values."""
    text = (_HELPS / "argparse.txt").read_text("utf-8")
    raw = {
        "name": "imagenet-torchrun 3",
        "script": "imagenet-torchrun",
        "arguments": ["{dataset}", "--arch", "resnet50", "--amp", "--opt", "lion", "--lr", "0.1"],
        "dataset": "coco",
        "placement": placement_on("gpu09", "gpu12"),
    }
    form = filled_form(stage, raw=raw)
    form._sections.arguments.switch.click()
    form.show_arguments(ScriptHelp(read_help(text)))
    form._fields.swept_fields.show_axis(parse_axis("arguments.lr", "0.1, 0.3"))


@screen("new-job-downpour", LARGE_SMALL)
def new_job_downpour(stage: Stage) -> None:
    """A strategy with servers was chosen."""
    form = filled_form(stage, raw={**RAW, "optimizer": {"name": "adagrad", "lr": 0.02}})
    form._fields.field("strategy.name").control.choose("downpour")
    form._sections._follow_strategy()
    form._fields.field("strategy.policy").control.choose("portion")
    rates = tuple(rate / 4 for rate in RATES)
    check = replace(READY, global_batch=16, learning_rate=0.02, rates=rates, steps_per_epoch=7328)
    form.show_check(replace(check, workers=15, servers=1), GOOD_TRIAL)
    scroll_to(stage, form, form._fields.field("strategy.servers"))


@screen("new-job-allreduce", LARGE_SMALL)
def new_job_allreduce(stage: Stage) -> None:
    form = filled_form(stage)
    form._fields.field("strategy.compression").control.choose("fp16")
    form._fields.field("strategy.reduction").control.choose("hierarchical")
    form._sections._follow_strategy()
    scroll_to(stage, form, form._fields.field("strategy.reduction"))


@screen("new-job-dc-asgd")
def new_job_dc_asgd(stage: Stage) -> None:
    form = filled_form(stage)
    form._fields.field("strategy.name").control.choose("dc-asgd")
    form._fields.field("strategy.variant").control.choose("constant")
    form._sections._follow_strategy()
    error = ConfigError(
        "strategy.policy", "strategy.policy: A quorum of 75 % needs 4 workers or more."
    )
    form.show_check(JobCheck(errors=(error,)), GOOD_TRIAL)
    scroll_to(stage, form, form._fields.field("strategy.lambda"))


@screen("new-job-consensus")
def new_job_consensus(stage: Stage) -> None:
    form = filled_form(stage)
    form._fields.field("strategy.name").control.choose("consensus")
    form._fields.field("strategy.variant").control.choose("dual-layer")
    form._sections._follow_strategy()
    scroll_to(stage, form, form._fields.field("strategy.cut"))


@screen("new-job-sandblaster")
def new_job_sandblaster(stage: Stage) -> None:
    form = filled_form(stage, raw={**RAW, "optimizer": {"name": "lbfgs", "lr": 1.0}})
    form._fields.field("strategy.name").control.choose("sandblaster")
    form._sections._follow_strategy()
    scroll_to(stage, form, form._fields.field("strategy.portion"))


def open_start_from(stage: Stage) -> StartFrom:
    """The list of what a job can start from is open."""
    start_from = filled_form(stage).start_from
    stage.settle()
    start_from.open()
    start_from.show_jobs(lab.JOBS)
    return start_from


screen("new-job-start-from", LARGE_SMALL)(open_start_from)


@screen("new-job-checkpoint")
def new_job_checkpoint(stage: Stage) -> None:
    """The checkpoints of one job."""
    choice = open_start_from(stage).popover
    assert choice is not None
    choice.search.setFocus()
    row_number = next(
        number for number, row in enumerate(choice.rows.rows) if row.key == lab.LIVE.id
    )
    choice.table.clicked.emit(choice.rows.index(row_number, 0))
    choice.show_checkpoints(lab.LIVE.id, lab.checkpoints())


# Model, dataset and loader are just being tried together.
screen("new-job-untried", LARGE_SMALL)(
    lambda stage: filled_form(stage).show_check(
        READY, BatchTrial(TrialState.RUNNING, "Running the model's forward…")
    )
)


@screen("new-job-misfit", (LARGE, SMALL, SMALLEST))
def new_job_misfit(stage: Stage) -> None:
    """A batch was tried and failed."""
    message = (
        "The model's forward raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x64 "
        "and 2352x10) in bks_model.py, line 31. Look at that line of the model."
    )
    filled_form(stage).show_check(READY, BatchTrial(TrialState.FAILED, message, "model"))


screen("new-job-faults", (LARGE, SMALL, SMALLEST))(
    lambda stage: filled_form(stage).show_check(
        JobCheck(
            errors=(
                ConfigError("epochs", "epochs: must be between 1 and 1\u202f000\u202f000."),
                ConfigError("optimizer.lr", "optimizer.lr: must be a number, not text."),
                ConfigError(
                    "environment.A B",
                    f"environment.A B: {variable_error('A B')}",
                ),
            )
        )
    )
)


@screen("new-job-empty")
def new_job_empty(stage: Stage) -> None:
    """Nothing was imported yet, and the cluster is this computer."""
    form = stage.form
    form.show_choices((), (), ())
    form.show_nodes((samples.state("this-computer", "free", 0),))
    form.show_draft(JobDraft({"placement": [{"node": "this-computer", "processes": 2}]}))
    form.show_check(JobCheck(errors=(ConfigError("model", "model: choose one."),)))


screen("new-job-64")(
    lambda stage: filled_form(
        stage, samples.cluster(64), {**RAW, "placement": placement_on("gpu10", "gpu12")}
    )
)


@screen("new-job-taken", LARGE_SMALL)
def new_job_taken(stage: Stage) -> None:
    """Two of the GPUs were taken between form and start."""
    message = "GPU 6 of gpu03 is in use by alice; the job starts when it is free."
    form = filled_form(stage, raw={**RAW, "placement": placement_on("gpu02", "gpu03")})
    form.show_check(
        replace(READY, findings=(Finding("gpu", False, message), *READY.findings[1:])), GOOD_TRIAL
    )


def form_with_shared_gpu(stage: Stage) -> JobForm:
    """A computer with a display on a GPU, and a GPU that is used beside alice."""
    local_state = samples.state("this-computer", count=2)
    assert local_state.reading is not None
    screen_on = GpuProcess(900, "gdm", 307 << 20, "Xorg", only_draws=True)
    display_gpu = replace(
        local_state.reading.gpus[0], processes=(screen_on,), memory_used_bytes=307 << 20
    )
    reading = replace(local_state.reading, gpus=(display_gpu, local_state.reading.gpus[1]))
    nodes = (replace(local_state, reading=reading), *lab.nodes())
    placement = {"node": "gpu03", "gpus": ["GPU-5", "GPU-6"], "beside": {"GPU-6": "alice"}}
    form = filled_form(stage, nodes, {**RAW, "placement": [placement]})
    finding = Finding("gpu", True, "GPU 6 of gpu03 is shared with alice (your choice).")
    form.show_check(replace(READY, findings=(finding, *READY.findings[1:])), GOOD_TRIAL)
    return form


screen("new-job-shared", LARGE_SMALL)(form_with_shared_gpu)


@screen("use-gpu-anyway")
def use_gpu_anyway(stage: Stage) -> None:
    form = form_with_shared_gpu(stage)
    gpu = samples.gpus("few")[7]
    stage.settle()
    stage.lay_over(share_question("gpu03", gpu, ignore, form.window()))


@screen("new-job-long-names")
def new_job_long_names(stage: Stage) -> None:
    names = [lab.LONG_NODE.format(n) for n in (2, 6)]
    raw = {**RAW, "name": lab.LONG_NAME, "placement": placement_on(*names, uuids=("GPU-0",))}
    filled_form(stage, samples.cluster(12, lab.LONG_NODE), raw)


screen("new-job-refused")(
    lambda stage: filled_form(stage).show_error(
        "The name “retinanet-r50 · coco 2x, sqrt” cannot be written to disk."
    )
)


def scroll_to(stage: Stage, form: JobForm, part: QWidget) -> None:
    """Brings a part of the form into the middle of what is seen of it."""
    stage.settle()
    scroll = form._sections.parentWidget().parentWidget()
    scroll.ensureWidgetVisible(part, 0, scroll.height() // 2)
    stage.settle()


def show_sweep(stage: Stage) -> JobForm:
    """The form with six jobs of two fields."""
    form = filled_form(stage)
    form._fields.swept_fields.show_axis(Axis("optimizer.lr", (0.01, 0.03, 0.1)))
    form._fields.swept_fields.show_axis(Axis("batch_size", (16, 32)))
    form.show_check(
        JobCheck(
            jobs=6,
            global_batch=256,
            learning_rate=0.04,
            steps_per_epoch=458,
            rates=RATES,
            findings=READY.findings,
        ),
        GOOD_TRIAL,
    )
    return form


screen("sweep", published=("light",))(show_sweep)


@screen("sweep-popover")
def sweep_popover(stage: Stage) -> None:
    form = show_sweep(stage)
    scroll_to(stage, form, form._fields.field("optimizer.lr"))
    form._fields.swept_fields.open("optimizer.lr")
