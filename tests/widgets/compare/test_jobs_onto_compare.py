"""Jobs that are dragged onto Compare, or onto its place in the side bar, are compared, too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QItemSelectionModel, QMimeData, Qt
from PySide6.QtGui import QDrag
from PySide6.QtWidgets import QApplication, QToolTip

from app.jobs.compare_controller import CompareController
from app.jobs.file_export import FileExport
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.queue.entry import Queue, QueuedJob, QueueEntry
from tests.app.jobs.test_compare_controller import Service
from tests.job_views import replace_fields
from tests.widgets import drags
from tests.widgets.compare.compare_samples import draft, eight_updates
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import add_widget, page_buttons, show_widget
from widgets.common import theme
from widgets.common.drag_and_drop import dragged_jobs, put_jobs
from widgets.compare.compare_page import ComparePage
from widgets.jobs.list import job_list_view, job_table_view
from widgets.jobs.list.job_list_view import MIME as QUEUE
from widgets.jobs.page.jobs_page import JobsPage
from widgets.shell.side_bar import SideBar

pytestmark = pytest.mark.usefixtures("theme_manager")
EIGHT_IDS = tuple(f"id{number}" for number in range(8))


@pytest.fixture
def page(qtbot):
    page = show_widget(qtbot, ComparePage(), 1100, 800)
    yield page
    page.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def controller(page, immediately):
    service = Service((*eight_updates(), draft()))
    controller = CompareController(
        service, immediately, page, FileExport(service, immediately, page), service.find
    )
    controller.notifications = immediately.notifications
    return controller


@pytest.fixture
def nav_button(qtbot, page, controller):
    """Compare in the side bar."""
    side_bar = add_widget(qtbot, SideBar())
    side_bar.accept_jobs(page.offer_for)
    side_bar.jobs_dropped.connect(controller.add_dropped)
    side_bar.show()
    yield page_buttons(side_bar)["compare"]
    side_bar.close()


def test_the_page_announces_a_drop_and_the_jobs_join_the_others(controller, page):
    controller.compare(("id0", "id1"))
    assert drags.drag_over(page, drags.jobs("id2"))
    assert page.drop_overlay.isVisible()
    assert page.drop_overlay.accessibleName() == "Compare “id2”"
    drags.drag_away(page)
    assert not page.drop_overlay.isVisible()
    drags.drop(page, drags.jobs("id2", "id3"))
    assert page.ids == ("id0", "id1", "id2", "id3")
    assert not page.drop_overlay.isVisible()
    assert controller.notifications == ["4 jobs are compared"]


def test_the_place_in_the_side_bar_takes_them_too_and_says_so(controller, page, nav_button):
    assert drags.drag_over(nav_button, drags.jobs("id0", "id1"))
    assert nav_button.accessibleDescription() == "Compare 2 jobs"
    drags.drop(nav_button, drags.jobs("id0", "id1"))
    assert page.ids == ("id0", "id1")
    assert nav_button.accessibleDescription() == ""


def test_a_drag_that_stays_over_the_place_opens_it(nav_button, qtbot):
    with qtbot.waitSignal(nav_button.drag_dwelt):
        drags.drag_over(nav_button, drags.jobs("id0"))
    drags.drag_over(nav_button, drags.jobs("id0"))
    drags.drag_away(nav_button)
    assert not nav_button._dwell_timer.isActive()


@pytest.mark.parametrize(
    ("compared_ids", "dropped_ids", "message"),
    [
        (EIGHT_IDS, ("id8",), "At most 8 jobs can be compared: remove one first"),
        (EIGHT_IDS[:6], ("id6", "id7", "id8"), "At most 8 jobs can be compared: remove one first"),
        (EIGHT_IDS[:7], ("id7", "id8", "id9"), "At most 8 jobs can be compared: remove 2 first"),
        ((), (*EIGHT_IDS, "id8"), "At most 8 jobs can be compared at once"),
    ],
)
def test_a_ninth_job_is_refused_in_one_sentence_while_it_is_held_and_when_it_is_dropped(
    controller, page, nav_button, compared_ids, dropped_ids, message
):
    controller.add_dropped(compared_ids)
    controller.notifications.clear()
    previous_ids = page.ids
    drags.drag_over(page, drags.jobs(*dropped_ids))
    assert page.drop_overlay.accessibleName() == message
    drags.drop(page, drags.jobs(*dropped_ids))
    drags.drop(nav_button, drags.jobs(*dropped_ids))
    assert controller.notifications == [message, message]
    assert page.ids == previous_ids, "all of them, or none"


def test_the_place_has_the_frame_of_a_target_only_for_an_accepted_drag(controller, nav_button):
    def has_frame():
        edge = nav_button.grab().toImage().pixelColor(nav_button.width() // 2, 0)
        return edge.name() == theme.current().q("focus").name()

    drags.drag_over(nav_button, drags.jobs("id0"))
    assert has_frame()
    drags.drag_away(nav_button)
    controller.add_dropped(EIGHT_IDS)
    drags.drag_over(nav_button, drags.jobs("id8"))
    assert not has_frame()
    refusal = nav_button.accessibleDescription()
    assert refusal == "At most 8 jobs can be compared: remove one first"
    assert nav_button._fits_text(refusal), "it is seen whole, in two lines"
    assert not nav_button._fits_text(2 * refusal)
    drags.drag_away(nav_button)


def test_dropping_a_compared_job_changes_nothing_and_says_so(controller, page):
    controller.compare(("id0", "id1"))
    drags.drag_over(page, drags.jobs("id1"))
    assert page.drop_overlay.accessibleName() == "“id1” is compared already"
    drags.drop(page, drags.jobs("id1"))
    assert page.ids == ("id0", "id1")
    assert controller.notifications == ["2 jobs are compared already"]


@pytest.mark.parametrize("content", [drags.jobs("id0"), drags.file("/data")])
def test_the_place_is_not_highlighted_after_a_drag(controller, nav_button, content):
    drags.drop(nav_button, content)
    assert not nav_button.underMouse()
    drags.drag_over(nav_button, content)
    drags.drag_away(nav_button)
    assert not nav_button.underMouse()


def test_page_and_place_accept_only_jobs(page, nav_button, tmp_path):
    for content in (drags.file(tmp_path), QMimeData()):
        assert not drags.drag_over(page, content)
        assert not drags.drag_over(nav_button, content)
    assert not page.drop_overlay.isVisible()


def test_a_sentence_that_has_no_room_stands_beside_the_rail(nav_button):
    nav_button.set_narrow(True)
    nav_button.resize(48, 32)
    drags.drag_over(nav_button, drags.jobs("id0"))
    assert QToolTip.text() == "Compare “id0”"
    drags.drag_away(nav_button)


def test_the_keys_that_do_the_same_stand_in_its_tool_tip(nav_button):
    assert "Ctrl+K, “Compare the open job”" in nav_button.toolTip()
    assert "Ctrl+2" in nav_button.toolTip()


def test_a_drag_of_thousands_of_jobs_carries_only_some():
    content = QMimeData()
    put_jobs(content, tuple(map(str, range(100_000))), "100 000 jobs")
    assert len(content.data("application/x-ringmaster-jobs")) < 1000
    assert dragged_jobs(content).label == "100 000 jobs"


@pytest.fixture
def started_drags(monkeypatch):
    """Record the content of each drag at its start."""
    drags = []

    class RecordedDrag(QDrag):
        def exec(self, *acts):
            content = self.mimeData()
            drags.append((dragged_jobs(content), content.hasFormat(QUEUE), acts[0]))
            return Qt.DropAction.IgnoreAction

    for module in (job_list_view, job_table_view):
        monkeypatch.setattr(module, "QDrag", RecordedDrag)
    return drags


@pytest.fixture
def jobs(qtbot):
    jobs = show_widget(qtbot, JobsPage(), 1200, 800)
    queued_view = replace_fields(CREATED, state=JobState.QUEUED)
    views = [replace(CREATED, id=name, name=f"job {name}") for name in "ab"]
    sweep_views = [
        replace(FAILED, id=name, name=f"lr {name}", tags=("sweep:lr",)) for name in "stu"
    ]
    show_jobs(jobs, (*views, *sweep_views, replace(queued_view, id="w", name="next")))
    entry = QueueEntry("w", "next", 1, (Placement("this-computer", 1),), "m1")
    jobs.show_queue(Queue((QueuedJob(entry, 1, None, None),), ""), is_immediate=True)
    return jobs


def test_any_row_of_the_list_can_be_dragged_and_one_that_waits_into_the_queue_as_well(
    jobs, started_drags
):
    view, model = jobs.list.view, jobs.model
    for key in ("a", "w", "sweep:lr"):
        index = model.index(model.row_of(key), 0)
        assert model.flags(index) & Qt.ItemFlag.ItemIsDragEnabled
        view.setCurrentIndex(index)
        view.startDrag(Qt.DropAction.CopyAction)
    contents = [(dragged.ids, dragged.label, queued) for dragged, queued, _ in started_drags]
    assert contents[0] == (("a",), "“job a”", False)
    assert contents[1] == (("w",), "“next”", True)
    assert (sorted(contents[2][0]), *contents[2][1:]) == (["s", "t", "u"], "3 jobs", False)
    assert not started_drags[0][2] & Qt.DropAction.MoveAction, "no other target may take it away"


def test_all_ticked_rows_are_dragged_together_and_another_row_alone(jobs, started_drags):
    view, model = jobs.list.view, jobs.model
    model.ticks.add(("a", "w"))
    for key in ("w", "b"):
        view.setCurrentIndex(model.index(model.row_of(key), 0))
        view.startDrag(Qt.DropAction.CopyAction)
    (ticked_drag, into_queue, _), (other_drag, _, _) = started_drags
    assert (sorted(ticked_drag.ids), ticked_drag.label) == (["a", "w"], "2 jobs")
    assert not into_queue, "the queue takes one at a time"
    assert (other_drag.ids, other_drag.label) == (("b",), "“job b”")


def test_all_chosen_rows_of_the_table_are_dragged_together(jobs, started_drags):
    jobs.show_table()
    jobs.table.show_rows(jobs.model.rows)
    view, model = jobs.table.view, jobs.table.model
    view.startDrag(Qt.DropAction.CopyAction)
    assert started_drags == []
    for key in ("a", "b"):
        flag = QItemSelectionModel.SelectionFlag
        view.selectionModel().select(model.index(model.row_of(key), 0), flag.Select | flag.Rows)
    view.startDrag(Qt.DropAction.CopyAction)
    assert (sorted(started_drags[0][0].ids), started_drags[0][0].label) == (["a", "b"], "2 jobs")
