"""The keys of a new job."""

from __future__ import annotations

from tests.app.key_desk import presses
from tests.widgets.nodes import samples
from tests.windows import find_only
from widgets.jobs.placement.placement_picker import PlacementPicker


@presses("Start", "New job")
def _(desk, press):
    desk.window.open_page("new-job")
    form = desk.program.form
    started = []
    form._may_start, form._is_busy = True, False
    form.start_requested.disconnect()
    form.start_requested.connect(started.append)
    try:
        press()
    finally:
        form.start_requested.disconnect(started.append)
        form.start_requested.connect(desk.program._job_controllers.jobs.drafts._start_draft)
    assert len(started) == 1


GPUS = "GPUs of a new job"
_ROWS = ("gpu01", "gpu02")


def _gpus(check):
    """The form shows two nodes with GPUs, the first of which has the focus."""

    def run(desk, press):
        program = desk.program
        program._node_controller.stop()
        try:
            desk.window.open_page("new-job")
            states = (samples.state("gpu01"), samples.state("gpu02", "few"))
            program.form.show_nodes(states)
            desk.hands.tab_to("GPUs of gpu01")
            check(desk, press)
        finally:
            program._node_controller.start()
            desk.wait(
                lambda: list(find_only(PlacementPicker, program.form)._rows) == ["this-computer"]
            )

    return run


def _selected_gpus(desk, node="gpu01"):
    placement = desk.program.form.draft().raw.get("placement", ())
    return next((p.get("gpus") for p in placement if p["node"] == node), [])


@presses("Select or deselect the GPU", GPUS)
@_gpus
def _(desk, press):
    selected = list(_selected_gpus(desk))
    press()
    assert _selected_gpus(desk) != selected
    press()
    assert _selected_gpus(desk) == selected


@presses("Select all free GPUs of the node", GPUS)
@_gpus
def _(desk, press):
    desk.press("Down")
    press()
    assert len(_selected_gpus(desk, "gpu02")) == 6


def _is_on_second(desk):
    selected = set(_selected_gpus(desk))
    desk.press("Space")
    assert set(_selected_gpus(desk)) ^ selected == {"GPU-1"}
    desk.press("Space")


@presses("The GPU on the left", GPUS)
@_gpus
def _(desk, press):
    desk.press("Right", "Right")
    press()
    _is_on_second(desk)


@presses("The GPU on the right", GPUS)
@_gpus
def _(desk, press):
    press()
    _is_on_second(desk)


@presses("The node below", GPUS)
@_gpus
def _(desk, press):
    press()
    assert desk.hands.name() == "GPUs of gpu02"


@presses("The node above", GPUS)
@_gpus
def _(desk, press):
    desk.press("Down")
    press()
    assert desk.hands.name() == "GPUs of gpu01"
