"""The tab Settings has the words of the form, in its order, and stresses what is unusual."""

from dataclasses import replace

import pytest

from backend.records.jobs.config import parse_job
from backend.records.jobs.settings import name_and_unit
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.windows import all_fields, show_widget
from widgets.jobs.detail.settings_tab import SettingsTab


@pytest.fixture
def shown_settings(qtbot, theme_manager):
    tab = show_widget(qtbot, SettingsTab(), 900, 900)

    def show(**raw):
        tab.show_job(replace(LIVE, config=parse_job({**DIGITS, **raw}).config, pins={}))
        return [
            (head.text(), caption.text(), value.text())
            for head, caption, value in tab._lines
            if caption.isVisibleTo(tab)
        ]

    return show


def test_settings_are_called_as_in_the_form(shown_settings, form):  # noqa: F811
    rows = {caption: value for _, caption, value in shown_settings()}
    assert rows["Rate scaling"] == "× processes"
    assert rows["Optimizer"] == "SGD"
    assert rows["Warm-up, epochs"] == "2"
    assert rows["Best by"] == "validation/loss"
    assert rows["Best is"] == "lowest"
    assert rows["Stall limit, s"] == "600"
    for path, field in all_fields(form).items():
        assert field.label() == name_and_unit(path)[0]
    in_form = {field.label() for field in all_fields(form).values()}
    assert {"Rate scaling", "Optimizer", "Warm-up", "Best by"} <= in_form


def test_settings_stand_under_the_parts_of_the_form(shown_settings):
    headers = [head for head, *_ in shown_settings() if head]
    assert headers == ["What", "Where", "How", "Keep"]
    assert [
        head for head, *_ in shown_settings(early_stop={"patience_epochs": 3}) if head
    ] == headers


def test_settings_that_differ_from_the_default_are_bold(qtbot, theme_manager):
    tab = show_widget(qtbot, SettingsTab())
    raw = {**DIGITS, "strategy": {"lr_scaling": "none"}}
    tab.show_job(replace(LIVE, config=parse_job(raw).config, pins={}))
    weights = {caption.text(): value.font().weight() for _, caption, value in tab._lines}
    assert weights["Rate scaling"] > weights["Seed"]
    assert weights["Momentum"] > weights["Dampening"]
