"""New job from what there is: templates, another job, a replay, and what it is expected to take."""

from __future__ import annotations

from dataclasses import replace

from app.runtime.controller import ignore
from backend.records.jobs.template import Template
from backend.records.jobs.view import JobForecast
from tests.pictures import lab
from tests.pictures.gallery import LARGE, SMALL, SMALLEST, screen
from tests.pictures.screens.new_job import RAW, READY, filled_form
from tests.pictures.stage import Stage
from widgets.jobs.form.job_fields import JobDraft, Origin
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.load_dialog import JOBS, LoadDialog, name_question

THREE = (LARGE, SMALL, SMALLEST)
FORECAST = JobForecast(
    22_900, 17_500.0, "retinanet-r50 · coco", 0.753, 312_000_000, 3, 10**12, 280_000.0, 1.1e8
)
TEMPLATES = (
    Template("night run", "retinanet · sgd 0.02 · 50 epochs"),
    Template("quick look", "digits · adam 0.001 · 1 epoch"),
    Template(lab.LONG_NAME, "digits · sgd 0.05 · 20 epochs"),
    Template("broken", "", "/lab/ring/templates/broken.toml", "broken.toml, line 3: expected “=”."),
    Template("search", "digits · sgd 0.05 · 20 epochs · sweep"),
)
NAME = "“retinanet-r50 · coco”"


@screen("new-job-differs", THREE)
def new_job_differs(stage: Stage) -> None:
    """Made from another job: what is not as there, and how long it will take."""
    form = filled_form(stage)
    form.show_templates(TEMPLATES)
    origin = Origin(NAME, {**RAW, "epochs": 10})
    raw = {**RAW, "optimizer": {"name": "sgd", "lr": 0.08, "momentum": 0.9}, "seed": 7}
    form.show_draft(JobDraft(raw, origin=origin))
    form.show_check(replace(READY, forecast=FORECAST))


def _replay(stage: Stage) -> JobForm:
    form = filled_form(stage)
    form.show_templates(TEMPLATES)
    form.show_draft(JobDraft(RAW, origin=Origin(NAME, RAW, "a")))
    form.show_check(replace(READY, forecast=JobForecast(22_900)))
    return form


screen("new-job-replay")(_replay)


@screen("new-job-no-replay")
def new_job_no_replay(stage: Stage) -> None:
    form = _replay(stage)
    form._fields.field("epochs").control.setText("3")
    form._request_check()


def _load(stage: Stage, templates: tuple[Template, ...] = TEMPLATES) -> LoadDialog:
    filled_form(stage)
    dialog = stage.lay_over(LoadDialog(stage.window))
    dialog.show_templates(templates)
    return dialog


screen("load", THREE)(_load)


@screen("load-damaged")
def load_damaged(stage: Stage) -> None:
    dialog = _load(stage)
    dialog._template_table.selectRow(3)
    dialog.show_error("The template “night run” exists already and was not changed.")


screen("load-empty")(lambda stage: _load(stage, ()))


@screen("load-jobs")
def load_jobs(stage: Stage) -> None:
    dialog = _load(stage)
    dialog.show_jobs((*lab.LONG_JOBS, *lab.JOBS))
    dialog.show_kind(JOBS)


@screen("template-name")
def template_name(stage: Stage) -> None:
    filled_form(stage)
    stage.lay_over(
        name_question(
            "Save as template",
            "Save",
            "night run",
            ["night run"],
            ignore,
            stage.window,
            note="Everything in the form but the name, for all who train in this data root.",
            may_replace=True,
        )
    )
