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
from tests.job_views import changed
from tests.widgets import drags
from tests.widgets.compare.compare_samples import draft, eight
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import on_screen, owned, places_of
from widgets.common import theme
from widgets.common.job_mime import dragged_jobs, put_jobs
from widgets.compare.compare_page import ComparePage
from widgets.jobs.list import job_list_view, job_table_view
from widgets.jobs.list.job_list_view import MIME as QUEUE
from widgets.jobs.page.jobs_page import JobsPage
from widgets.shell.side_bar import SideBar

pytestmark = pytest.mark.usefixtures("theme_manager")
EIGHT = tuple(f"id{number}" for number in range(8))


@pytest.fixture
def page(qtbot):
    page = on_screen(qtbot, ComparePage(), 1100, 800)
    yield page
    page.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def controller(page, immediately):
    service = Service((*eight(), draft()))
    made = CompareController(
        service, immediately, page, FileExport(service, immediately, page), service.find
    )
    made.heard = immediately.heard
    return made


@pytest.fixture
def place(qtbot, page, controller):
    """Compare in the side bar."""
    side_bar = owned(qtbot, SideBar())
    side_bar.accept_jobs(page.offer_for)
    side_bar.jobs_dropped.connect(controller.add_dropped)
    side_bar.show()
    yield places_of(side_bar)["compare"]
    side_bar.close()


def test_the_page_announces_a_drop_and_the_jobs_join_the_others(controller, page):
    controller.compare(("id0", "id1"))
    assert drags.over(page, drags.jobs("id2"))
    assert page.drop_overlay.isVisible()
    assert page.drop_overlay.accessibleName() == "Compare “id2”"
    drags.away(page)
    assert not page.drop_overlay.isVisible()
    drags.drop(page, drags.jobs("id2", "id3"))
    assert page.ids == ("id0", "id1", "id2", "id3")
    assert not page.drop_overlay.isVisible()
    assert controller.heard == ["4 jobs are compared"]


def test_the_place_in_the_side_bar_takes_them_too_and_says_so(controller, page, place):
    assert drags.over(place, drags.jobs("id0", "id1"))
    assert place.accessibleDescription() == "Compare 2 jobs"
    drags.drop(place, drags.jobs("id0", "id1"))
    assert page.ids == ("id0", "id1")
    assert place.accessibleDescription() == ""


def test_a_drag_that_stays_over_the_place_opens_it(place, qtbot):
    with qtbot.waitSignal(place.drag_dwelt):
        drags.over(place, drags.jobs("id0"))
    drags.over(place, drags.jobs("id0"))
    drags.away(place)
    assert not place._dwell_timer.isActive()


@pytest.mark.parametrize(
    ("there", "more", "sentence"),
    [
        (EIGHT, ("id8",), "At most 8 jobs can be compared: remove one first"),
        (EIGHT[:6], ("id6", "id7", "id8"), "At most 8 jobs can be compared: remove one first"),
        (EIGHT[:7], ("id7", "id8", "id9"), "At most 8 jobs can be compared: remove 2 first"),
        ((), (*EIGHT, "id8"), "At most 8 jobs can be compared at once"),
    ],
)
def test_a_ninth_job_is_refused_in_one_sentence_while_it_is_held_and_when_it_is_dropped(
    controller, page, place, there, more, sentence
):
    controller.add_dropped(there)
    controller.heard.clear()
    before = page.ids
    drags.over(page, drags.jobs(*more))
    assert page.drop_overlay.accessibleName() == sentence
    drags.drop(page, drags.jobs(*more))
    drags.drop(place, drags.jobs(*more))
    assert controller.heard == [sentence, sentence]
    assert page.ids == before, "all of them, or none"


def test_the_place_has_the_frame_of_a_target_only_for_an_accepted_drag(controller, place):
    def has_frame():
        edge = place.grab().toImage().pixelColor(place.width() // 2, 0)
        return edge.name() == theme.current().q("focus").name()

    drags.over(place, drags.jobs("id0"))
    assert has_frame()
    drags.away(place)
    controller.add_dropped(EIGHT)
    drags.over(place, drags.jobs("id8"))
    assert not has_frame()
    refusal = place.accessibleDescription()
    assert refusal == "At most 8 jobs can be compared: remove one first"
    assert place._fits_text(refusal), "it is seen whole, in two lines"
    assert not place._fits_text(2 * refusal)
    drags.away(place)


def test_dropping_a_compared_job_changes_nothing_and_says_so(controller, page):
    controller.compare(("id0", "id1"))
    drags.over(page, drags.jobs("id1"))
    assert page.drop_overlay.accessibleName() == "“id1” is compared already"
    drags.drop(page, drags.jobs("id1"))
    assert page.ids == ("id0", "id1")
    assert controller.heard == ["2 jobs are compared already"]


@pytest.mark.parametrize("content", [drags.jobs("id0"), drags.file("/data")])
def test_the_place_is_not_highlighted_after_a_drag(controller, place, content):
    drags.drop(place, content)
    assert not place.underMouse()
    drags.over(place, content)
    drags.away(place)
    assert not place.underMouse()


def test_page_and_place_accept_only_jobs(page, place, tmp_path):
    for content in (drags.file(tmp_path), QMimeData()):
        assert not drags.over(page, content)
        assert not drags.over(place, content)
    assert not page.drop_overlay.isVisible()


def test_a_sentence_that_has_no_room_stands_beside_the_rail(place):
    place.set_narrow(True)
    place.resize(48, 32)
    drags.over(place, drags.jobs("id0"))
    assert QToolTip.text() == "Compare “id0”"
    drags.away(place)


def test_the_keys_that_do_the_same_stand_in_its_tool_tip(place):
    assert "Ctrl+K, “Compare the open job”" in place.toolTip()
    assert "Ctrl+2" in place.toolTip()


def test_a_drag_of_thousands_of_jobs_carries_only_some():
    content = QMimeData()
    put_jobs(content, tuple(map(str, range(100_000))), "100 000 jobs")
    assert len(content.data("application/x-ringmaster-jobs")) < 1000
    assert dragged_jobs(content).label == "100 000 jobs"


@pytest.fixture
def held(monkeypatch):
    """What is dragged, as soon as the drag begins."""
    held = []

    class Held(QDrag):
        def exec(self, *acts):
            content = self.mimeData()
            held.append((dragged_jobs(content), content.hasFormat(QUEUE), acts[0]))
            return Qt.DropAction.IgnoreAction

    for module in (job_list_view, job_table_view):
        monkeypatch.setattr(module, "QDrag", Held)
    return held


@pytest.fixture
def jobs(qtbot):
    jobs = on_screen(qtbot, JobsPage(), 1200, 800)
    waiting = changed(CREATED, state=JobState.QUEUED)
    views = [replace(CREATED, id=name, name=f"job {name}") for name in "ab"]
    swept = [replace(FAILED, id=name, name=f"lr {name}", tags=("sweep:lr",)) for name in "stu"]
    show_jobs(jobs, (*views, *swept, replace(waiting, id="w", name="next")))
    entry = QueueEntry("w", "next", 1, (Placement("this-computer", 1),), "m1")
    jobs.show_queue(Queue((QueuedJob(entry, 1, None, None),), ""), is_immediate=True)
    return jobs


def test_any_row_of_the_list_can_be_dragged_and_one_that_waits_into_the_queue_as_well(jobs, held):
    view, model = jobs.list.view, jobs.model
    for key in ("a", "w", "sweep:lr"):
        index = model.index(model.row_of(key), 0)
        assert model.flags(index) & Qt.ItemFlag.ItemIsDragEnabled
        view.setCurrentIndex(index)
        view.startDrag(Qt.DropAction.CopyAction)
    contents = [(dragged.ids, dragged.label, queued) for dragged, queued, _ in held]
    assert contents[0] == (("a",), "“job a”", False)
    assert contents[1] == (("w",), "“next”", True)
    assert (sorted(contents[2][0]), *contents[2][1:]) == (["s", "t", "u"], "3 jobs", False)
    assert not held[0][2] & Qt.DropAction.MoveAction, "no other target may take it away"


def test_all_ticked_rows_are_dragged_together_and_another_row_alone(jobs, held):
    view, model = jobs.list.view, jobs.model
    model.ticks.add(("a", "w"))
    for key in ("w", "b"):
        view.setCurrentIndex(model.index(model.row_of(key), 0))
        view.startDrag(Qt.DropAction.CopyAction)
    (ticked, into_queue, _), (other, _, _) = held
    assert (sorted(ticked.ids), ticked.label) == (["a", "w"], "2 jobs")
    assert not into_queue, "the queue takes one at a time"
    assert (other.ids, other.label) == (("b",), "“job b”")


def test_all_chosen_rows_of_the_table_are_dragged_together(jobs, held):
    jobs.show_table()
    jobs.table.show_rows(jobs.model.rows)
    view, model = jobs.table.view, jobs.table.model
    view.startDrag(Qt.DropAction.CopyAction)
    assert held == []
    for key in ("a", "b"):
        flag = QItemSelectionModel.SelectionFlag
        view.selectionModel().select(model.index(model.row_of(key), 0), flag.Select | flag.Rows)
    view.startDrag(Qt.DropAction.CopyAction)
    assert (sorted(held[0][0].ids), held[0][0].label) == (["a", "b"], "2 jobs")
