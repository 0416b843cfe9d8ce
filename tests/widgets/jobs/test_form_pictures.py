"""New job in its states, both themes, both sizes; the pictures go to a scratch folder."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from backend.records.job_view import JobCheck, JobForecast, JobView
from backend.records.library import Kind
from backend.records.node import Finding, NodeState, Presence
from backend.records.state import JobState
from backend.records.sweep_values import Axis, Span
from backend.records.template import Template
from backend.records.torch_settings import OPTIMIZERS
from backend.records.values import Fault
from tests.widgets.jobs.test_job_form import DIGITS, gpu, item, reading
from widgets.common.look import ThemeChoice
from widgets.jobs.job_fields import JobDraft, Origin
from widgets.jobs.job_form import JobForm
from widgets.jobs.load_dialog import JOBS, LoadDialog
from widgets.jobs.template_dialog import NameDialog
from widgets.main_window import MainWindow

LONG = "A night of very long names that nobody would type but somebody has saved, take " + "9" * 40
GPUS = {**DIGITS, "placement": [{"node": "gpu09", "gpus": ["GPU-0", "GPU-1", "GPU-2"]}]}
CHECK = JobCheck(
    global_batch=256,
    learning_rate=0.08,
    steps_per_epoch=458,
    rates=tuple(0.08 * min(1.0, n / 12, (60 - n) / 48) for n in range(60)),
    command=("mpirun", "--bind-to", "none", "-np", "3", "-H", "gpu09:3", "python", "-m", "rank"),
    findings=(
        Finding("gpu", True, "All 3 GPUs are free"),
        Finding("steps", True, "The last batch of an epoch is left out when it is not whole"),
    ),
    forecast=JobForecast(9160, 6900.0, "digits, four workers", 0.753, 312_000_000, 3, 10**12),
)
TEMPLATES = (
    Template("night run", "retinanet · sgd 0.02 · 50 epochs"),
    Template("quick look", "digits · adam 0.001 · 1 epoch"),
    Template(LONG, "digits · sgd 0.05 · 20 epochs"),
    Template("broken", "", "/lab/ring/templates/broken.toml", "broken.toml, line 3: expected “=”."),
    Template("search", "digits · sgd 0.05 · 20 epochs · sweep"),
)


def nodes():
    free = replace(reading((gpu(0), gpu(1), gpu(2), gpu(3))), name="gpu09")
    held = replace(reading((gpu(0, "alice"), gpu(1, "alice"), gpu(2), gpu(3))), name="gpu03")
    return (
        NodeState("this-computer", Presence.ONLINE, reading()),
        NodeState("gpu03", Presence.ONLINE, held),
        NodeState("gpu09", Presence.ONLINE, free),
        NodeState("gpu11", Presence.OFFLINE, None, "no heartbeat for 12 h"),
    )


def many_nodes():
    cards = tuple(gpu(n) for n in range(8))
    return tuple(
        NodeState(f"gpu{n:02d}", Presence.ONLINE, replace(reading(cards), name=f"gpu{n:02d}"))
        for n in range(64)
    )


@pytest.fixture
def window(qtbot, look):
    window = MainWindow()
    qtbot.addWidget(window)
    window.form = JobForm()
    window.add_page("new-job", window.form)
    window.form.show_choices((item(Kind.MODEL),), (item(Kind.DATASET),), (item(Kind.LOADER),))
    yield window
    window.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def save(widget, folder, name):
    for _ in range(3):
        QApplication.processEvents()
    image = widget.grab().toImage()
    assert image.save(os.fspath(folder / f"{name}.png"))
    across, down = range(0, image.width(), 5), range(0, image.height(), 5)
    assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{name} is nearly blank"


@pytest.mark.parametrize("choice", [ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (1000, 640)], ids=["large", "small"])
def test_the_form_in_its_states(window, look, choice, size, tmp_path):
    look.choose(choice)
    form = window.form
    window.resize(*size)
    window.show()
    window.go("new-job")
    words = f"{size[0]}x{size[1]}-{choice.value}"

    form.show_nodes(nodes())
    form.show_templates(TEMPLATES)
    origin = Origin("“digits, two workers”", {**DIGITS, "epochs": 10})
    raw = {**GPUS, "optimizer": {"name": "sgd", "lr": 0.08, "momentum": 0.9}, "seed": 7}
    form.show_draft(JobDraft(raw, origin=origin))
    form.show_check(CHECK)
    save(window, tmp_path, f"form-ready-{words}")
    # What is not room for is behind "All templates…", and no chip is cut.
    strip = form._sections.templates
    for chip in strip._buttons:
        assert chip.isHidden() or chip.geometry().right() <= strip.width()
    assert form._side._changed_head.text() == "Differs from “digits, two workers”"

    form.show_draft(JobDraft(GPUS, origin=Origin("“digits, two workers”", GPUS, "a")))
    form.show_check(replace(CHECK, forecast=JobForecast(9160)))
    save(window, tmp_path, f"form-replay-{words}")
    form._fields.field("epochs").control.setText("3")
    form._wish_check()
    assert form._banner.accessibleName().startswith("No replay of “digits, two workers” any more.")
    assert form.draft().origin.replays == ""
    save(window, tmp_path, f"form-no-replay-{words}")

    axes = (Axis("batch_size", (16, 32)), Axis("optimizer.lr", span=Span(1e-3, 0.1, 0, "log")))
    form.show_draft(JobDraft(GPUS, axes, 12, 3))
    form.show_check(replace(CHECK, jobs=12))
    form._sections.sweep.parentWidget().parentWidget().parentWidget()
    scroll = form._sections.parentWidget().parentWidget()
    scroll.ensureWidgetVisible(form._sections.sweep)
    save(window, tmp_path, f"form-draw-{words}")

    faults = (
        Fault("epochs", "epochs: is 0; it must be between 1 and 1000000."),
        Fault("sweep.random", "sweep.random: draws 1 to 200 jobs, not 900."),
        Fault("placement", "placement: there is no node “gpu12”; did you mean “gpu11”?"),
    )
    form.show_check(JobCheck(faults=faults))
    save(window, tmp_path, f"form-faults-{words}")

    form.show_nodes(many_nodes())
    form.show_draft(JobDraft({**DIGITS, "name": LONG, "placement": []}))
    form.show_check(JobCheck(faults=(Fault("placement", "placement: needs at least one node."),)))
    scroll.verticalScrollBar().setValue(0)
    save(window, tmp_path, f"form-64-nodes-{words}")


@pytest.mark.parametrize("choice", [ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def test_the_dialogs_of_templates(window, look, choice, tmp_path):
    look.choose(choice)
    window.resize(1000, 640)
    window.show()
    load = LoadDialog(window)
    load.show_templates(TEMPLATES)
    load.open()
    save(load, tmp_path, f"load-{choice.value}")
    load._template_table.selectRow(3)
    load.show_error("There is a template “night run” already, and it is left as it is.")
    save(load, tmp_path, f"load-damaged-{choice.value}")
    load.show_error("")
    jobs = tuple(_job(n) for n in range(30))
    load.show_jobs(jobs)
    load.show_kind(JOBS)
    save(load, tmp_path, f"load-jobs-{choice.value}")
    load.show_jobs(())
    save(load, tmp_path, f"load-nothing-{choice.value}")
    assert load._nothing.isVisible()
    load.reject()
    keep = NameDialog(
        "Save as template",
        "Save",
        "night run",
        ["night run"],
        window,
        note="Everything in the form but the name, for all who train in this data root.",
        may_replace=True,
    )
    keep.open()
    save(keep, tmp_path, f"keep-{choice.value}")
    assert keep._go.text() == "Replace it"
    keep.reject()
    for dialog in (load, keep):
        dialog.deleteLater()


def _job(number):
    from backend.records.job import parse_job

    config = parse_job({**DIGITS, "name": f"digits {number}"}).config
    assert config is not None
    assert config.optimizer.name in OPTIMIZERS
    name = f"digits {number}" if number else LONG
    return JobView(f"id{number}", name, JobState.FINISHED, config, "2026-11-22T06:00:00Z")
