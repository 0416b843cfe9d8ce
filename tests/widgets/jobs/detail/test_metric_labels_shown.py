"""The window says which metric and which loss: raw, smoothed or of the validation."""

from dataclasses import replace

import numpy as np

from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.summary import summary_of
from tests.job_views import replace_fields
from tests.widgets.jobs.curves.test_curves_tab import small_plots
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.windows import find_only, finish_timers, setting_field, visible_texts
from widgets.common.fields import Slider
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.curves.curves_layout import LargePlot
from widgets.jobs.curves.curves_tab import CurvesTab
from widgets.jobs.detail.header_texts import header_figures
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.list.job_columns import JobColumn, best_metric_labels, cell_text
from widgets.jobs.sweeps.sweep_pane import _sort_best_first

MEASURED_VIEW = replace_fields(LIVE, metrics={"loss": 0.5}, best_metric=("validation/loss", 0.25))


def test_the_head_of_a_job_says_which_loss_it_shows():
    values = {figure.caption: figure.value for figure in header_figures(MEASURED_VIEW)}
    assert values["Best saved: val. loss"] == "0.250"
    assert values["Loss, raw"] == "0.500"
    assert "Loss" not in values


def test_lists_distinguish_training_loss_and_validation_loss():
    assert best_metric_labels(MEASURED_VIEW)[0] == "val. loss"
    line = summary_of(replace(MEASURED_VIEW, best_metric=("loss", 0.25)))
    assert cell_text(line, JobColumn.BEST) == "train loss 0.250"


def test_jobs_of_a_sweep_are_ranked_among_those_of_their_metric():
    lines = [
        summary_of(replace(MEASURED_VIEW, id=str(number), best_metric=best))
        for number, best in enumerate(
            [("validation/loss", 0.2), ("validation/accuracy", 0.9), ("validation/loss", 0.1), None]
        )
    ]
    assert [line.id for line in _sort_best_first(lines)] == ["1", "2", "0", "3"]


def test_curves_are_labelled_smoothed_raw_and_validation(qtbot, theme_manager):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    steps = np.arange(1, 21)
    metrics = {
        "loss": 1.0 / steps,
        "accuracy": 1 - 1.0 / steps,
        "dice": 1 - 1.0 / steps,
        "validation/dice": np.where(steps == 20, 0.7, np.nan),
    }
    tab.append(
        HistoryUpdate(
            steps, np.ones(20), steps / 20, metrics, (RunStart(1, 1),), 0, (), 1.7e9, steps * 1.0
        )
    )
    assert len(small_plots(tab)) == 2
    assert [name for name, _ in find_only(LargePlot, tab).readout(20.0)[0]] == [
        "train, smoothed",
        "train, raw",
    ]
    find_only(Slider, tab).set_share(0)
    assert [name for name, _ in find_only(LargePlot, tab).readout(20.0)[0]] == ["train"]
    finish_timers(tab)
    plots = small_plots(tab)
    assert "raw" in visible_texts(plots["Accuracy"])
    assert "val." in visible_texts(plots["Dice"])


def test_the_form_shows_the_metric_of_the_best_checkpoint(form):  # noqa: F811
    form.show_draft(JobDraft(DIGITS))
    best = setting_field(form, "checkpoint.best_mode").control
    assert best.currentText() == "lowest (default)"
    metric = setting_field(form, "checkpoint.best_metric").control
    metric.setText("validation/accuracy")
    metric.textEdited.emit(metric.text())
    assert best.currentText() == "highest (default)"
    policy = parse_job(form.draft().raw).config.checkpoint
    assert (policy.best_metric, policy.best_mode) == ("validation/accuracy", "max")


def test_another_metric_in_a_clone_takes_direction_and_early_stop_along(form):  # noqa: F811
    raw = parse_job({**DIGITS, "early_stop": {"patience_epochs": 3}}).config.to_dict()
    form.show_draft(JobDraft(raw))
    assert parse_job(form.draft().raw).config.to_dict() == raw
    metric = setting_field(form, "checkpoint.best_metric").control
    metric.setText("validation/accuracy")
    metric.textEdited.emit(metric.text())
    config = parse_job(form.draft().raw).config
    assert config.checkpoint.best_mode == "max"
    assert (config.early_stop.metric, config.early_stop.mode) == ("validation/accuracy", "max")


def test_an_emptied_early_stop_is_off(form):  # noqa: F811
    stop = {"metric": "validation/accuracy", "mode": "max", "patience_epochs": 3}
    form.show_draft(JobDraft({**DIGITS, "early_stop": stop}))
    setting_field(form, "early_stop.patience_epochs").control.setText("")
    assert parse_job(form.draft().raw).config.early_stop is None


def test_known_metrics_are_offered(form):  # noqa: F811
    form.show_metrics(["validation/loss", "validation/mAP"])
    completer = setting_field(form, "checkpoint.best_metric").control.completer()
    completer.setCompletionPrefix("map")
    assert completer.currentCompletion() == "validation/mAP"
