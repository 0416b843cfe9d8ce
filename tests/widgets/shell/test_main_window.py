"""The frame: places by click and by key, back and forward, a rail where the window is narrow."""

from dataclasses import replace
from itertools import product

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QDialog, QWidget

from backend.records.jobs.placement import Placement
from backend.records.nodes.reading import Cpu, NodeReading, NodeState, Presence
from tests.job_views import replace_fields
from tests.widgets import drags
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.nodes import samples
from tests.windows import find_only, page_buttons, shows_text, visible_texts
from widgets.common.buttons import IconButton
from widgets.common.dialog import Scrim
from widgets.common.labels import IconLabel, Label
from widgets.common.state_badge import RankRing
from widgets.common.theme import RAIL_W, SIDEBAR_W
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PAGES
from widgets.shell.side_bar import RunningJob, ring_segments

READING = NodeReading(
    "this-computer", "lab", 1, Cpu("some", 8, 1.0, 0.1), 64 << 30, 1, 0, 0, "/d", 10**12, 10**11
)


@pytest.fixture
def window(qtbot):
    window = MainWindow()
    for key in (*(page_entry.key for page_entry in PAGES), "new-job", "settings", "help"):
        window.add_page(key, QWidget())
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    window.open_page("jobs")
    return window


def test_a_click_on_a_place_opens_it(window, qtbot):
    qtbot.mouseClick(page_buttons(window.side_bar)["models"], Qt.MouseButton.LeftButton)
    assert window.page_key == "models"


@pytest.mark.parametrize("page", ["settings", "help", "new-job"])
def test_no_place_is_lit_while_a_page_without_a_place_is_shown(window, qtbot, page):
    def lit():
        return [key for key, button in page_buttons(window.side_bar).items() if button.isChecked()]

    window.open_page("nodes")
    assert lit() == ["nodes"]
    window.open_page(page)
    assert lit() == []
    window.back()
    assert lit() == ["nodes"]
    window.open_page(page)
    qtbot.mouseClick(page_buttons(window.side_bar)["nodes"], Qt.MouseButton.LeftButton)
    assert (window.page_key, lit()) == ("nodes", ["nodes"])


@pytest.mark.parametrize(
    ("button", "attribute"), [("Keyboard shortcuts", "keys"), ("Help", "help")]
)
@pytest.mark.parametrize("width", [1000, 1440])
def test_keys_and_help_have_a_button(window, qtbot, button, attribute, width):
    window.resize(width, 640)
    icon_button = next(b for b in window.findChildren(IconButton) if b.accessibleName() == button)
    assert icon_button.isVisible()
    with qtbot.waitSignal(getattr(window.side_bar, attribute).clicked):
        qtbot.mouseClick(icon_button, Qt.MouseButton.LeftButton)


def test_back_and_forward_work_as_in_a_browser(window):
    window.open_page("datasets")
    window.open_page("new-job")
    window.back()
    assert window.page_key == "datasets"
    window.back()
    assert window.page_key == "jobs"
    window.forward()
    assert window.page_key == "datasets"
    window.open_page("nodes")
    window.forward()
    assert window.page_key == "nodes", "a new way forgets the old one"


def test_a_window_used_for_weeks_remembers_the_last_hundred_steps(window):
    for _ in range(500):
        window.open_page("datasets")
        window.open_page("nodes")
    for _ in range(1001):
        window.back()
    assert window.page_key == "nodes", "not the jobs, where it began"


def test_below_1180_px_the_side_bar_is_a_rail(window):
    assert window.side_bar.width() == SIDEBAR_W
    window.resize(1100, 700)
    assert window.side_bar.width() == RAIL_W


def test_running_jobs_are_seen_from_every_place_and_a_click_opens_one(window, qtbot):
    window.open_page("datasets")
    live = tuple(replace(LIVE, id=name, name=f"job {name}") for name in "abcde")
    window.side_bar.show_live(live)
    jobs = window.side_bar.findChildren(RunningJob)
    assert [job.isVisible() for job in jobs] == [True] * 3
    assert "and 2 more" in visible_texts(window.side_bar)
    with qtbot.waitSignal(window.side_bar.job_opened) as signal:
        qtbot.mouseClick(jobs[1], Qt.MouseButton.LeftButton)
    assert signal.args == ["b"]


def test_the_side_bar_has_room_for_all_that_it_shows_at_every_height(window, qapp):
    errors = ("", "/lab/ring does not answer. What is shown may be old.")
    bar, layout = window.side_bar, window.side_bar.layout()
    # Only the layout is read; painting would take half of the time.
    window.setUpdatesEnabled(False)
    for error, jobs, nodes in product(errors, (0, 1, 2, 3, 5), (0, 1, 12, 20, 64)):
        live = tuple(replace(LIVE, id=f"job {n}") for n in range(jobs))
        offline_nodes = tuple(map(samples.offline_node, samples.cluster(nodes)))
        for height in range(600, 1100, 50):
            window.resize(1440, height)
            # As at the first update of a window.
            bar.show_live(())
            bar.show_nodes(())
            bar.show_live(live)
            bar.show_nodes(offline_nodes)
            bar.show_error(error)
            for _ in range(3):
                # What is hidden is taken from one layout after the other.
                qapp.processEvents()
            visible_count = sum(job.isVisible() for job in bar._jobs)
            by_width = layout.hasHeightForWidth() and layout.minimumHeightForWidth(bar.width())
            needed_h = by_width or layout.minimumSize().height()
            assert needed_h <= height, (visible_count, bar.cluster.map.isVisible())
            assert visible_count >= min(jobs, 1 if height < 900 or error else 3)


def test_the_side_bar_says_that_nothing_is_running_once_it_knows(window):
    window.side_bar.show_nodes(())
    window.side_bar.set_available_height(900)
    assert "Nothing is running" not in visible_texts(window.side_bar)
    window.side_bar.show_live(())
    assert "Nothing is running" in visible_texts(window.side_bar)


def test_an_unhealthy_node_is_one_sentence(window):
    state = NodeState(READING.name, Presence.ONLINE, replace(READING, disk_free_bytes=5 * 10**8))
    window.side_bar.show_nodes((samples.with_findings(state),))
    note = window.side_bar.cluster.notes.itemAt(0).widget()
    assert "0.5 GB left" in note.accessibleName().replace("\xa0", " ")


def test_a_data_root_that_does_not_answer_is_a_red_line_and_mutes_the_figures(window):
    bar = window.side_bar
    bar.show_live((LIVE,))
    bar.show_error("/lab/ring does not answer.")
    assert shows_text(bar, "does not answer")
    assert bar._jobs[0]._percent.color_role() == bar._jobs[0]._time_left.color_role() == "text3"
    bar.show_live((LIVE,))
    assert bar._jobs[0]._time_left.color_role() == "text3", "what is shown again is no newer"
    bar.show_error("")
    assert not shows_text(bar, "does not answer")
    assert bar._jobs[0]._percent.color_role() == "text"


def test_the_rail_says_the_percent_in_the_ring_and_that_the_data_root_is_silent(window):
    bar = window.side_bar
    bar.show_live((LIVE,))
    bar.show_error("/lab/ring does not answer.")
    window.resize(1100, 700)
    assert find_only(RankRing, bar._jobs[0])._with_figure
    assert not shows_text(bar, "does not answer")
    assert find_only(IconLabel, bar).isVisible()
    assert "does not answer" in find_only(IconLabel, bar).toolTip()
    window.resize(1400, 700)
    assert not find_only(RankRing, bar._jobs[0])._with_figure
    assert shows_text(bar, "does not answer")
    assert not find_only(IconLabel, bar).isVisible()


def test_the_ring_of_a_running_job_has_a_segment_for_each_rank_or_each_node_of_very_many():
    for nodes, count in ((4, 32), (32, 32)):
        placement = tuple(Placement(f"gpu{n}", processes=8) for n in range(nodes))
        config = replace(LIVE.config, placement=placement)
        marks = ring_segments(replace_fields(LIVE, slow_ranks=(8 * nodes - 1,), config=config))
        assert (len(marks), marks[-1], set(marks[:-1])) == (count, "warn", {""})


def test_a_veil_lies_over_the_window_while_a_dialog_is_in_front(window, qtbot):
    dialog = QDialog(window)
    dialog.open()
    qtbot.waitUntil(find_only(Scrim, window).isVisible)
    window.resize(1100, 700)
    assert find_only(Scrim, window).geometry() == window.rect()
    dialog.reject()
    qtbot.waitUntil(find_only(Scrim, window).isHidden)


def test_a_drop_anywhere_signals_its_path(window, qtbot, tmp_path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    event = QDropEvent(
        QPointF(500, 300),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    with qtbot.waitSignal(window.dropped) as dropped:
        window.dropEvent(event)
    assert dropped.args == [str(tmp_path)]


def test_a_dropped_web_address_is_refused(window, qtbot):
    data = QMimeData()
    data.setUrls([QUrl("https://lab.example/plankton.zip")])
    assert not drags.drag_over(window, data)
    assert not window.drop_overlay.isVisible()
    with qtbot.assertNotEmitted(window.dropped):
        drags.drop(window, data)


def test_the_window_refuses_a_drag_that_began_in_it(window, tmp_path):
    class OwnDragEvent(QDragEnterEvent):
        def source(self):
            return window

    data = drags.file(tmp_path / "digits.zip")
    button_and_keys = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    event = OwnDragEvent(QPoint(500, 300), Qt.DropAction.CopyAction, data, *button_and_keys)
    window.dragEnterEvent(event)
    assert not event.isAccepted()
    assert not window.drop_overlay.isVisible()


def test_every_place_has_its_key_in_its_tool_tip(window):
    for page_entry in PAGES:
        assert (
            f"Ctrl+{page_entry.number}" in page_buttons(window.side_bar)[page_entry.key].toolTip()
        )


def test_a_window_without_pages_says_that_it_opens(qtbot):
    window = MainWindow()
    qtbot.addWidget(window)
    window.show()
    assert "Opening…" in [label.text() for label in window.findChildren(Label) if label.isVisible()]
