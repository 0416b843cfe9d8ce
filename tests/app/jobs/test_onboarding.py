"""After the example a strip leads to the first own job, and is gone with it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, Qt

from app.jobs.onboarding import Onboarding
from backend.records.library.item import Kind
from tests.widgets.library.test_library_page import item
from widgets.jobs.page.welcome_page import OnboardingStrip

EXAMPLE = {("model", "digits@1"): 2, ("dataset", "digits@1"): 2, ("loader", "digits@1"): 2}
DIGITS = {kind: (item("digits", kind=kind),) for kind in Kind}


@pytest.fixture
def strip(qtbot):
    strip = OnboardingStrip()
    qtbot.addWidget(strip)
    strip.pressed = []
    strip.leads = Onboarding(
        strip,
        strip.pressed.append,
        lambda: strip.pressed.append("node"),
        QObject(strip),
    )
    return strip


def done_steps(strip):
    return [key for key, step in strip.steps.items() if step.accessibleDescription() == "done"]


def test_the_strip_is_shown_from_the_example_to_the_first_own_job(strip):
    strip.leads.see_items(DIGITS)
    assert strip.isHidden()
    strip.leads.see_uses(EXAMPLE)
    assert not strip.isHidden()
    strip.leads.see_uses({**EXAMPLE, ("model", "resnet@1"): 1})
    assert strip.isHidden()


def test_each_step_is_marked_when_done_and_leads_to_its_place(strip, qtbot):
    strip.leads.see_uses(EXAMPLE)
    strip.leads.see_items({**DIGITS, Kind.DATASET: (item("plankton"),)})
    assert done_steps(strip) == ["data"]
    strip.leads.see_nodes(2)
    assert done_steps(strip) == ["data", "node"]
    strip.leads.see_items({**DIGITS, Kind.MODEL: (item("net", kind=Kind.MODEL),)})
    assert done_steps(strip) == ["node"], "a model needs a loader for its data"
    for step in strip.steps.values():
        qtbot.mouseClick(step, Qt.MouseButton.LeftButton)
    assert strip.pressed == [Kind.DATASET, Kind.MODEL, "node"]
