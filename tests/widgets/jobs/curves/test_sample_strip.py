"""The fixed validation samples beside the curves: what the job said at the pointer's step."""

import pytest

from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.prediction import Box, Guess, PredictedSample
from backend.records.jobs.sample_history import SampleAnswer, SampleHistory, SampleValidation
from backend.records.jobs.view import RunUpdate
from backend.records.library.preview import SamplePreview
from tests.asks import expect_request
from tests.widgets.jobs.curves.test_curves_tab import tab  # noqa: F401 - a fixture
from tests.widgets.jobs.detail.test_job_detail import LIVE, detail  # noqa: F401 - a fixture
from tests.windows import find_only, visible_texts
from widgets.common.fields import Slider
from widgets.jobs.actions import job_actions
from widgets.jobs.curves.curves_layout import LargePlot

SAMPLES = tuple(PredictedSample(SamplePreview(n, (), str(n)), "") for n in range(10))


def history(samples=SAMPLES):
    """At step 20 s the answer for sample n is n in the validations from the n-th on, else 0."""
    validations = [
        SampleValidation(
            20 * number,
            number,
            tuple(SampleAnswer((Guess(str(n if n <= number else 0), 0.75),)) for n in range(10)),
        )
        for number in range(1, 4)
    ]
    return SampleHistory(samples, tuple(validations))


def described(curves):
    return curves.samples._pictures.accessibleDescription().split("; ")


def test_the_pointer_and_else_the_slider_choose_the_validation(tab):  # noqa: F811
    assert not tab.samples.isVisible()
    tab.samples.show_samples(history())
    assert tab.samples.isVisible()
    assert "epoch 3, step 60" in visible_texts(tab.samples)
    assert described(tab)[2:5] == ["2: ✓ 2, 75\xa0%", "3: ✓ 3, 75\xa0%", "4: ✗ 0, 75\xa0%"]
    plot = find_only(LargePlot, tab)
    plot.move_pointer(45.0)
    assert "epoch 2, step 40" in visible_texts(tab.samples)
    assert described(tab)[3] == "3: ✗ 0, 75\xa0%"
    plot.move_pointer(None)
    find_only(Slider, tab.samples).set_share(0.0)
    assert "epoch 1, step 20" in visible_texts(tab.samples)
    tab.clear("another")
    assert not tab.samples.isVisible()


@pytest.mark.parametrize(
    ("boxes", "answer"), [((Box("a", 0.5, (0, 0, 1, 1)),), "1 box"), ((), "0 boxes")]
)
def test_a_detector_has_boxes_and_their_colours(tab, boxes, answer):  # noqa: F811
    truth = (Box("a", 1.0, (0, 0, 1, 1)),)
    samples = (PredictedSample(SamplePreview(3, (), "1 box"), "", truth=truth),)
    validation = SampleValidation(20, 1, (SampleAnswer(boxes=boxes),))
    tab.samples.show_samples(SampleHistory(samples, (validation,)))
    assert described(tab) == [f"1 box: {answer}"]
    assert tab.samples._legend.isVisible()


def test_a_validation_asks_for_the_samples_of_the_open_job(detail):  # noqa: F811
    detail.open_job(LIVE)
    with expect_request(detail.job_actions, job_actions.READ_SAMPLES) as request:
        history = HistoryUpdate([1], [1], [0.0], {"validation/loss": [0.5]})
        detail.show_update(RunUpdate(LIVE, history))
    assert request.args == [LIVE.id]
