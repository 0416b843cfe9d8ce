"""The strategy in New job: its settings, what it does, and what it changes of other fields."""

import pytest
from PySide6.QtCore import Qt

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.torch_options import STRATEGIES
from backend.records.jobs.view import JobCheck
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.windows import all_fields, find_only, job_fields, setting_field, shows_text, side_of
from widgets.common.fields import ComboBox
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormFoot
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.strategy_note import OPTIONS, StrategyView

FOUR = [{"node": "this-computer", "processes": 4}]


def job(**strategy):
    placement = FOUR if strategy["name"] != "alone" else [{**FOUR[0], "processes": 1}]
    return {**DIGITS, "strategy": strategy, "placement": placement}


def choose(form, qtbot, name):  # noqa: F811
    """Choose a strategy as a user does, with keys."""
    control = setting_field(form, "strategy.name").control
    control.setFocus()
    while control.findData(name) < control.currentIndex():
        qtbot.keyClick(control, Qt.Key.Key_Up)
    while control.findData(name) > control.currentIndex():
        qtbot.keyClick(control, Qt.Key.Key_Down)


def test_each_strategy_shows_its_own_settings_and_no_others(form):  # noqa: F811
    for name in STRATEGIES:
        form.show_draft(JobDraft(job(name=name)))
        own_settings = {f"strategy.{key}" for key in STRATEGIES[name]}
        visible_settings = {path for path in all_fields(form) if path.startswith("strategy.")}
        assert visible_settings == own_settings | {"strategy.name", "strategy.lr_scaling"}
        for key, setting in STRATEGIES[name].items():
            control = setting_field(form, f"strategy.{key}").control
            if setting.kind == "choice":
                assert isinstance(control, ComboBox)
                assert [control.itemData(n) for n in range(control.count())] == [*setting.choices]
        assert parse_job(form.draft().raw).config == parse_job(job(name=name)).config


def test_settings_of_a_strategy_are_kept_and_defaults_are_left_out(form):  # noqa: F811
    raw = job(name="dc-asgd", variant="constant", servers=2, policy="portion")
    form.show_draft(JobDraft(raw))
    assert form.draft().raw["strategy"] == {**raw["strategy"], "lr_scaling": "linear"}
    control = setting_field(form, "strategy.policy").control
    control.choose("none")
    assert "policy" not in form.draft().raw["strategy"]
    name_text = setting_field(form, "strategy.name").control.display_text()
    assert name_text == "DC-ASGD, variant Constant, servers 2"


def test_the_default_of_lambda_is_that_of_the_variant(form):  # noqa: F811
    form.show_draft(JobDraft(job(name="dc-asgd")))
    line = setting_field(form, "strategy.lambda").control
    assert line.placeholderText() == "2"
    setting_field(form, "strategy.variant").control.choose("constant")
    assert line.placeholderText() == "0.04"


@pytest.mark.usefixtures("theme_manager")
def test_strategies_whose_servers_apply_the_rate_offer_no_scaling(form):  # noqa: F811
    form.show()
    form.show_draft(JobDraft(job(name="downpour")))
    assert not setting_field(form, "strategy.lr_scaling").isVisible()
    form.show_draft(JobDraft(job(name="ddp")))
    assert setting_field(form, "strategy.lr_scaling").isVisible()


@pytest.mark.usefixtures("theme_manager")
def test_a_chosen_strategy_is_described_and_takes_its_usual_optimizer(form, qtbot):  # noqa: F811
    form.show()
    form.show_draft(JobDraft({**DIGITS, "optimizer": {"name": "sgd", "lr": 0.05}}))
    note = find_only(StrategyView, find_only(FormSections, form))
    assert not note.isVisible()
    choose(form, qtbot, "downpour")
    assert note.isVisible()
    assert [line.text() for line in note._lines][:3] == [
        STRATEGIES["downpour"].description,
        STRATEGIES["downpour"].advantage,
        STRATEGIES["downpour"].costs,
    ]
    assert job_fields(form).key("optimizer.name") == "adagrad"
    choose(form, qtbot, "dc-asgd")
    assert job_fields(form).key("optimizer.name") == "sgd"
    setting_field(form, "optimizer.name").control.choose("adam")
    choose(form, qtbot, "downpour")
    assert job_fields(form).key("optimizer.name") == "adam", "the user chose it"


def test_a_file_without_an_optimizer_shows_that_of_its_strategy(form):  # noqa: F811
    raw = {**job(name="downpour"), "optimizer": {"lr": 0.01}}
    form.show_draft(JobDraft(raw))
    assert parse_job(form.draft().raw).config.optimizer == parse_job(raw).config.optimizer
    assert job_fields(form).key("optimizer.name") == "adagrad"


def test_an_option_says_when_it_pays(form):  # noqa: F811
    form.show_draft(JobDraft(job(name="allreduce", compression="fp16", reduction="adasum")))
    description = find_only(StrategyView, find_only(FormSections, form))._lines[3].text()
    assert OPTIONS["compression", "fp16"] in description
    assert OPTIONS["reduction", "adasum"] in description
    form.show_draft(JobDraft(job(name="allreduce")))
    assert find_only(StrategyView, find_only(FormSections, form))._lines[3].text() == ""


def test_every_option_is_described():
    options = {
        (key, choice)
        for settings in STRATEGIES.values()
        for key, setting in settings.items()
        for choice in [*setting.choices][1:]
    }
    assert set(OPTIONS) == options


def test_the_processes_that_serve_are_counted(form):  # noqa: F811
    check = JobCheck(global_batch=32, learning_rate=0.05, workers=3, servers=1)
    form.show_check(check)
    assert shows_text(side_of(form), "3 processes train, 1 serves")
    assert "3 processes train, 1 serves" in find_only(FormFoot, form).figures.text()
    form.show_check(JobCheck(global_batch=64, learning_rate=0.05, workers=2))
    assert "train" not in side_of(form)._basis.text() + find_only(FormFoot, form).figures.text()
