"""The depth planner of the window: live plans, bad input, and the network in the library."""

import pytest

from app.library.depth_controller import DepthController
from backend.records.library.depth_plan import NETWORK, plan_depth
from backend.records.library.item import Kind
from backend.services.context.container import open_services
from tests.windows import find_button
from widgets.common.fields import Slider
from widgets.library.gallery_dialog import GalleryDialog, GalleryPreset
from widgets.library.library_page import LibraryPage


@pytest.fixture
def services(tmp_path):
    services = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    yield services
    services.close()


@pytest.fixture
def page(qtbot):
    page = LibraryPage(Kind.MODEL)
    qtbot.addWidget(page)
    return page


@pytest.fixture
def added_items():
    return []


@pytest.fixture
def dialog(page, services, immediately, added_items):
    page.controller = DepthController(services.gallery, immediately, added_items.append, page)
    page.controller.plan()
    return page.controller.dialog


def drawing_text(dialog):
    return dialog.drawing.accessibleDescription()


def test_the_drawing_follows_the_sliders_and_the_fields(dialog):
    dialog.grab()
    assert dialog.summary.text() == "20 convolutions in 4 stages"
    assert drawing_text(dialog).startswith(
        "9 convolutions, 128 px, sees 18 px, c-value 0.17; 4 conv"
    )
    dialog.limit.choose("printed")
    dialog.limit.key_chosen.emit("printed")
    assert dialog.summary.text() == "34 convolutions in 3 stages"
    assert drawing_text(dialog).startswith(
        "18 convolutions, 128 px, sees 36 px, c-value 0.08; 9 conv"
    )
    dialog.limit.choose("kept")
    dialog.limit.key_chosen.emit("kept")
    slider = next(s for s in dialog.findChildren(Slider) if "z" in s.accessibleName())
    slider.set_share(0)
    assert dialog.side.value() == 8
    assert dialog.summary.text() == "4 convolutions in 1 stage"
    dialog.side.setValue(4000)
    assert slider.share() == 1
    assert dialog.side.value() == 4000, "the slider ends earlier and does not pull it back"


@pytest.mark.parametrize(
    ("side", "kernel", "min_fan", "message"),
    [
        (4, 5, 6, "A side of 4 is smaller than the kernel of 5"),
        (128, 1, 6, "A kernel of 1"),
        (128, 0, 6, "A kernel of 0"),
        (0, 3, 6, "A side of 0"),
        (99_999, 3, 6, "too large"),
        (128, 3, 0, "c-value must be from 1/100 to 1, not 0"),
        (128, 3, 999, "c-value must be from 1/100 to 1"),
    ],
)
def test_bad_input_is_a_sentence_and_no_network(
    dialog, added_items, side, kernel, min_fan, message
):
    dialog.side.setValue(side)
    dialog.kernel.setValue(kernel)
    dialog.min_c_value.setValue(min_fan)
    dialog.grab()
    assert message in dialog._error.text()
    assert not find_button(dialog, "Use this network").isEnabled()
    assert drawing_text(dialog) == ""
    dialog._request_network()
    assert added_items == []
    for box, value in ((dialog.side, 128), (dialog.kernel, 3), (dialog.min_c_value, 6)):
        box.setValue(value)
    assert (dialog._error.text(), find_button(dialog, "Use this network").isEnabled()) == ("", True)


@pytest.mark.parametrize(
    ("side", "kernel", "min_fan"), [(8192, 2, 100), (3, 3, 1), (99, 99, 1), (8192, 99, 100)]
)
def test_any_plan_is_drawn(dialog, side, kernel, min_fan):
    dialog.side.setValue(side)
    dialog.kernel.setValue(kernel)
    dialog.min_c_value.setValue(min_fan)
    dialog.grab()
    assert len(drawing_text(dialog).split("; ")) == len(dialog._plan.stages)


def test_the_network_is_added_and_opened(dialog, page, services, added_items):
    dialog.channels.choose("3")
    dialog.classes.setValue(4)
    dialog.name.setText(" deep ")
    find_button(dialog, "Use this network").click()
    (item,) = added_items
    assert (item.kind, item.reference) == (Kind.MODEL, "deep@1")
    code = (services.library.content(Kind.MODEL, "deep@1") / "bks_model.py").read_text()
    stages = plan_depth(128, 3).text
    assert f"\nCLASSES = 4\nCHANNELS = 3\nSIDE = 128\nKERNEL = 3\nSTAGES = '{stages}'\n" in code
    assert page.controller.dialog is None


def test_a_name_that_the_library_refuses_stays_in_the_dialog(dialog, page, added_items):
    dialog.name.setText("a/b")
    find_button(dialog, "Use this network").click()
    assert dialog._error.text()
    assert page.controller.dialog is dialog
    assert added_items == []


def test_only_the_card_of_the_planned_network_has_the_button(qtbot, services):
    dialog = GalleryDialog(Kind.MODEL, {}, GalleryPreset(NETWORK))
    qtbot.addWidget(dialog)
    dialog.show_entries(services.gallery.list(Kind.MODEL))
    dialog.show()
    plan = find_button(dialog, "Plan the depth…")
    assert plan.isVisible()
    with qtbot.waitSignal(dialog.plan_requested):
        plan.click()
    dialog._select_entry("lenet-5")
    assert not plan.isVisible()
