"""What a window without a job says of this computer."""

import pytest

from backend.records.nodes.reading import Finding
from tests.widgets.nodes import samples
from widgets.common.labels import Label
from widgets.jobs.page.welcome_page import WelcomePage

SOUND = (Finding("Python", True, "Python 3.12 with PyTorch 2.13."),)
LACKING = (*SOUND, Finding("Horovod", False, "Horovod is not built.", "Run doctor."))
READY = "This computer is ready:"


@pytest.fixture
def first_start(qtbot):
    first_start = WelcomePage()
    qtbot.addWidget(first_start)
    first_start.show()
    return first_start


def texts(first_start):
    return [label.text() for label in first_start.findChildren(Label)]


def test_a_computer_is_called_ready_only_after_its_check(first_start):
    first_start.show_reading(samples.reading("this-computer"))
    assert READY not in texts(first_start)
    first_start.show_findings(SOUND)
    assert READY in texts(first_start)


def test_missing_software_stays_shown_after_other_updates_of_the_computer(first_start):
    first_start.show_findings(LACKING)
    for gpu_count in (2, 0):
        first_start.show_reading(samples.reading("this-computer", count=gpu_count))
        assert "Horovod is not built. Run doctor." in texts(first_start)
        assert READY not in texts(first_start)
