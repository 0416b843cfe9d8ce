"""The rack: every node at its place, repainted one by one, reachable by keys."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication

from tests.widgets.nodes import samples
from tests.windows import find_only, show_widget
from widgets.nodes.page.rack import DIMMED_ROLE, Density, Rack, RackDelegate, RowReadOut, density_of
from widgets.nodes.page.rack_paint import use_figure
from widgets.nodes.row.node_row import node_row

pytestmark = pytest.mark.usefixtures("theme_manager")


def rows(count, **changes):
    return [
        node_row(s, samples.JOBS, heartbeat_age_s=1.0) for s in samples.cluster(count, **changes)
    ]


@pytest.fixture
def rack(qtbot):
    return show_widget(qtbot, Rack(), 1100, 600)


@pytest.mark.parametrize(
    ("count", "density"),
    [
        (2, Density.TALL),
        (12, Density.TALL),
        (13, Density.LOW),
        (24, Density.LOW),
        (25, Density.WALL),
        (64, Density.WALL),
    ],
)
def test_rows_shrink_with_their_number(count, density):
    assert density_of(count) is density


@pytest.mark.parametrize("width", [600, 860, 1100, 2000])
@pytest.mark.parametrize("count", [2, 12, 20, 24, 25, 61, 64])
def test_every_node_is_in_the_picture_and_no_two_cover_each_other(rack, count, width):
    rack.resize(width, rack.height())
    rack.show_rows(rows(count))
    QApplication.processEvents()
    model = rack.rows_model
    rects = [rack.visualRect(model.index(number)) for number in range(count)]
    viewport_rect = rack.viewport().rect()
    assert all(viewport_rect.contains(rect) for rect in rects)
    assert not any(a.intersects(b) for n, a in enumerate(rects) for b in rects[n + 1 :])
    left_edges = {rect.left() for rect in rects}
    assert len(left_edges) <= 4


def test_a_wall_reads_down_its_columns(rack):
    rack.show_rows(rows(64))
    QApplication.processEvents()
    model = rack.rows_model
    first_rect, second_rect = (rack.visualRect(model.index(number)) for number in (0, 1))
    assert first_rect.left() == second_rect.left()
    assert first_rect.top() < second_rect.top()


def test_an_update_of_one_node_repaints_only_its_row(rack, monkeypatch, qtbot):
    painted_rows = []
    paint = RackDelegate.paint

    def record_paint(self, painter, option, index):
        painted_rows.append(index.row())
        paint(self, painter, option, index)

    monkeypatch.setattr(RackDelegate, "paint", record_paint)
    for count in (12, 64):
        rack.show_rows(rows(count))
        qtbot.waitUntil(lambda count=count: set(painted_rows) >= set(range(count)))
        QApplication.processEvents()
        painted_rows.clear()
        changed_rows = rows(count)
        changed_rows[5] = replace(changed_rows[5], processor=0.77)
        rack.show_rows(changed_rows)
        qtbot.waitUntil(lambda: 5 in painted_rows)
        QApplication.processEvents()
        # A neighbour shares a line of pixels with it.
        assert set(painted_rows) <= {4, 5, 6}
        painted_rows.clear()
        rack.show_rows(list(changed_rows))
        QApplication.processEvents()
        assert painted_rows == []


def test_a_click_opens_a_node(rack, qtbot):
    rack.show_rows(rows(12))
    QApplication.processEvents()
    center = rack.visualRect(rack.rows_model.index(6)).center()
    with qtbot.waitSignal(rack.node_opened) as signal:
        qtbot.mouseClick(rack.viewport(), Qt.MouseButton.LeftButton, pos=center)
    assert signal.args == ["gpu07"]


@pytest.mark.parametrize(
    ("count", "keys", "name"),
    [
        (12, [Qt.Key.Key_Down, Qt.Key.Key_Down], "gpu03"),
        (12, [Qt.Key.Key_End], "gpu12"),
        (64, [Qt.Key.Key_Down, Qt.Key.Key_Right], "gpu18"),
    ],
)
def test_arrows_lead_to_a_node_and_enter_opens_it(rack, qtbot, count, keys, name):
    rack.show_rows(rows(count))
    QApplication.processEvents()
    rack.setFocus()
    rack.setCurrentIndex(rack.rows_model.index(0))
    for key in keys:
        qtbot.keyClick(rack, key)
    with qtbot.waitSignal(rack.node_opened) as signal:
        qtbot.keyClick(rack, Qt.Key.Key_Return)
    assert signal.args == [name]


def test_each_row_can_be_heard(rack):
    rack.show_rows(rows(12))
    QApplication.processEvents()
    interface = QAccessible.queryAccessibleInterface(rack)
    assert interface.text(QAccessible.Text.Name) == "Nodes"
    assert interface.childCount() == 12
    assert (
        interface.child(6)
        .text(QAccessible.Text.Name)
        .startswith("gpu07, Needs attention, GPU 3 slowed")
    )


def test_the_tool_tip_of_a_cell_describes_its_gpu(rack):
    rack.show_rows(rows(20))
    QApplication.processEvents()
    row = rack.visualRect(rack.rows_model.index(6))
    x = int(rack.columns.cell_x(3) + 5)
    tip = rack.tip_at(QPoint(x, row.center().y()))
    assert tip.startswith("gpu07: GPU 3, in use by retinanet-r50 · coco 2x")
    assert "slowed by heat" in tip
    assert rack.tip_at(QPoint(20, row.center().y())).startswith("gpu07, Needs attention")


def test_pointing_at_a_wall_shows_the_node_large_until_the_pointer_leaves(rack, qtbot):
    rack.show_rows(rows(64))
    QApplication.processEvents()
    center = rack.visualRect(rack.rows_model.index(6)).center()
    qtbot.mouseMove(rack.viewport(), center)
    qtbot.waitUntil(
        lambda: find_only(RowReadOut, rack) is not None and find_only(RowReadOut, rack).isVisible()
    )
    assert find_only(RowReadOut, rack)._row.name == "gpu07"
    rack.viewportEntered.emit()
    assert not find_only(RowReadOut, rack).isVisible()


def test_dimming_takes_nothing_away(rack):
    rack.show_rows(rows(12))
    rack.dim(frozenset({"gpu02", "gpu05"}))
    model = rack.rows_model
    dimmed_rows = [n for n in range(model.rowCount()) if model.index(n).data(DIMMED_ROLE)]
    assert dimmed_rows == [1, 4]
    rack.dim(frozenset())
    assert not any(model.index(n).data(DIMMED_ROLE) for n in range(12))


def test_nodes_of_different_sizes_share_their_columns(rack):
    small_row = node_row(samples.state("a", "free", 2))
    large_row = node_row(samples.state("b", "free", 16))
    empty_row = node_row(samples.state("c", "free", 0))
    rack.show_rows([small_row, large_row, empty_row])
    columns = rack.columns
    assert columns.cell_count == 16
    assert columns.cell_x(15) + columns.cell_w < columns.meters_x
    assert not rack.grab().isNull()


def test_other_nodes_are_other_rows(rack):
    rack.show_rows(rows(4))
    rack.show_rows(rows(30))
    assert rack.density is Density.WALL
    rack.show_rows(rows(3))
    assert rack.density is Density.TALL
    assert rack.rows_model.rowCount() == 3


def test_a_figure_is_whole_in_a_narrow_cell_too():
    assert use_figure(92, 60) == "92%"
    assert use_figure(100, 26) == "100"
