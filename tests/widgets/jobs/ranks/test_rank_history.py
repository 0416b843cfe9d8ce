"""S13: the tab Ranks has the columns that its job can fill.

Below them stands what the nodes did while the job ran, under its own time and in its curves.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractSlider, QApplication, QTableView

from backend.datastore.nodes.history import read_past
from backend.node.metrics.history_writer import HistoryWriter
from backend.records.base.layout import DataRoot
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import RunUpdate
from backend.records.nodes.health import CALM_READINGS, Health
from backend.records.nodes.history import PastGpu, PastReading
from backend.records.nodes.reading import bad_gpu_uuids, problems_by_gpu
from tests.backend.node.metrics.test_probe import Watch
from tests.fakes.nvml.driver import FakeDriver, build
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.nodes import samples
from tests.windows import find_only, open_tab, show_widget, shows_text
from widgets.common import theme
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import VerticalScrollArea
from widgets.common.fields import ComboBox
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.curves.curves_layout import LargePlot
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.ranks.rank_rows import rank_rows
from widgets.jobs.ranks.rank_strip import RankStrip
from widgets.jobs.ranks.ranks_tab import RanksTab
from widgets.nodes.history.node_history import NodeHistory, to_history_data

pytestmark = pytest.mark.usefixtures("theme_manager")
NOON = 1_700_000_000.0
EVERY_S = 20
HOT_FROM_S, HOT_TO_S = 1000, 1600
"""Of the job's time, which has 3000 seconds."""


def timestamp(unix_s):
    return datetime.fromtimestamp(unix_s, UTC).isoformat()


def job(*placement, state=JobState.TRAINING, ended_at="", **changes):
    config = replace(LIVE.config, placement=placement)
    started = timestamp(NOON)
    return replace_fields(
        LIVE, state=state, started_at=started, updated_at=ended_at, config=config, **changes
    )


def curve(view, seconds=3000, began_s=NOON):
    """A step each ten seconds."""
    steps = list(range(1, seconds // 10 + 1))
    history = HistoryUpdate(
        steps,
        [1 + step // 100 for step in steps],
        [10.0 * (step - 1) for step in steps],
        {"loss": [1 / step for step in steps], "samples_per_second": [100.0 for _ in steps]},
        (RunStart(1, 1),),
        0,
        started_s=began_s,
    )
    return RunUpdate(view, history)


def node_past(*uuids, description="slowed by heat", is_bad=True, over_s=3000, before_s=0):
    """What an agent kept: the last GPU was unhealthy for ten minutes."""
    lines = []
    for second in range(-before_s, over_s, EVERY_S):
        hot = HOT_FROM_S <= second < HOT_TO_S
        unhealthy = PastGpu(uuids[-1], 91.0, 1060.0, 99.0, 76.0, 372.0, description, is_bad)
        well = [PastGpu(uuid, 66.0, 1410.0, 94.0, 76.0, 372.0) for uuid in uuids]
        gpus = (*well[:-1], unhealthy if hot else well[-1])
        lines.append(PastReading(NOON + second, 40.0, 1e9, tuple(gpus)))
    return to_history_data(lines)


def history_of(node_past):
    history = NodeHistory()
    history.set_agent_history(node_past)
    return history


@pytest.fixture
def detail(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(1100, 900)
    detail.show()
    return detail


@pytest.fixture
def library(tmp_path):
    return build(tmp_path / "library")


def is_amber(page, plot, x, other_x):
    """Whether the ground of a plot is amber at a place, and as everywhere beside it."""
    for _ in range(3):
        QApplication.processEvents()
    image = page.grab().toImage()
    origin = plot.mapTo(page, QPoint(0, plot.height() // 3))
    start_px, right = plot.visible_span_px()
    x0, x1 = plot.x_range()

    def background(x_px):
        px = QPoint(round(start_px + (x_px - x0) / (x1 - x0) * (right - start_px)), 0)
        return image.pixelColor(origin + px)

    assert background(other_x).name() == theme.current().q("surface").name()
    colour = background(x)
    return colour.red() > colour.green() + 4 and colour.green() > colour.blue() + 8


def test_s13_a_slowdown_that_the_driver_reports_is_amber_in_both_plots(detail, library, tmp_path):
    """From NVML's own ABI over the agent's file to the pixels."""
    root = DataRoot(tmp_path)
    root.node("gpu1").path.mkdir(parents=True)
    now = iter(range(10_000))
    writer = HistoryWriter(root.node("gpu1"), every_s=0, clock=lambda: NOON + EVERY_S * next(now))
    watch = Watch(FakeDriver(library, tmp_path / "state"))
    try:
        well = ("temperature 1 66", "ecc 1 12 0 12 0")
        cool = watch.read("reasons 1 0", *well)
        hot = watch.read("reasons 1 72", *well)
    finally:
        watch.end()
    for beat in range(150):
        reading = replace(hot if 50 <= beat < 80 else cool, heartbeat=beat)
        writer.append(writer.lines(reading), reading)
    lines = read_past(root.node("gpu1"), NOON + 3000, 0.0, 86_400.0)
    history = history_of(to_history_data(lines))

    uuid = cool.gpus[1].uuid
    view = job(
        Placement("gpu1", gpus=(uuid,)), state=JobState.FINISHED, ended_at=timestamp(NOON + 3000)
    )
    detail.open_job(view)
    detail.show_update(curve(view))
    find_only(SegmentedControl, detail.curves).choose("time")
    detail.curves._set_axis("time")
    node = replace(samples.state("gpu1"), reading=cool)
    detail.show_nodes((node,))
    detail.show_node_histories({"gpu1": history}, {}, NOON + 3000)

    (in_curves,) = find_only(LargePlot, detail.curves).marks.spans
    assert (in_curves.color_role, in_curves.text) == ("warn", "gpu1 slowed by heat")
    # It lasts until some readings in a row were without it.
    last_s = 80 * EVERY_S + (CALM_READINGS - 1) * EVERY_S
    assert (in_curves.x0, in_curves.x1) == pytest.approx((1000, last_s))
    assert is_amber(detail, find_only(LargePlot, detail.curves), 1300, 2400)

    open_tab(detail, "ranks")
    plot = detail.ranks.history.plot
    (in_history,) = plot.marks.spans
    assert (in_history.color_role, in_history.text) == ("warn", "Slowed by heat")
    assert (in_history.x0 - NOON, in_history.x1 - NOON) == pytest.approx((1000, last_s))
    assert is_amber(detail, plot, NOON + 1300, NOON + 2400)


def test_s13_software_that_lowers_a_clock_for_heat_is_less_bad_than_hardware():
    (gpu,) = samples.gpus("free", 1)
    for reason, is_bad in (("hardware thermal slowdown", True), ("software thermal slowdown", 0)):
        hot = replace(gpu, clock_event_reasons=(reason,))
        findings = Health().after_reading(samples.reading("gpu1", gpus=(hot,)), 0.0).findings
        assert problems_by_gpu(findings) == {gpu.uuid: "slowed by heat"}
        assert bad_gpu_uuids(findings) == (frozenset([gpu.uuid]) if is_bad else frozenset())


def show_history(detail, view, pasts, kind="ours", count=2):
    """The job with what is known of its nodes."""
    detail.open_job(view)
    detail.show_update(curve(view))
    detail.show_nodes(tuple(samples.state(name, kind, count) for name in pasts))
    histories = {name: history_of(past) for name, past in pasts.items()}
    detail.show_node_histories(histories, dict.fromkeys(pasts, "now"), NOON + 3000)
    open_tab(detail, "ranks")
    return detail.ranks.history


TWO = (Placement("gpu1", gpus=("GPU-0", "GPU-1")), Placement("gpu2", gpus=("GPU-0", "GPU-1")))
GPU_UUIDS = ("GPU-0", "GPU-1")


def test_an_unhealthy_time_has_one_colour_however_bad_it_was(detail):
    view = job(*TWO)
    history = show_history(
        detail, view, {"gpu1": node_past(*GPU_UUIDS, is_bad=False), "gpu2": node_past(*GPU_UUIDS)}
    )
    assert {span.color_role for span in history.plot.marks.spans} == {"warn"}
    assert [span.color_role for span in find_only(LargePlot, detail.curves).marks.spans] == [
        "warn",
        "warn",
    ]


def test_the_axis_covers_the_time_of_the_job_and_not_the_history_of_the_node(detail):
    view = job(*TWO, state=JobState.FINISHED, ended_at=timestamp(NOON + 3000))
    history = show_history(
        detail, view, {"gpu1": node_past(*GPU_UUIDS, over_s=9000, before_s=9000)}
    )
    start, end = history.plot.x_range()
    assert start == pytest.approx(NOON, abs=60)
    assert NOON + 3000 <= end < NOON + 3600


def test_the_first_unhealthy_node_is_shown_until_the_user_chooses_another(detail):
    view = job(*TWO)
    well = node_past(*GPU_UUIDS, description="")
    history = show_history(detail, view, {"gpu1": well, "gpu2": node_past(*GPU_UUIDS)})
    assert (history.node, history._title.text()) == ("gpu2", "During this job")
    find_only(ComboBox, history).choose("gpu1")
    find_only(ComboBox, history).activated.emit(0)
    detail.show_view(view)
    assert history.node == "gpu1"


def test_findings_after_the_end_of_a_job_are_not_shown(detail):
    view = job(TWO[0], state=JobState.FINISHED, ended_at=timestamp(NOON + HOT_FROM_S - 100))
    history = show_history(detail, view, {"gpu1": node_past(*GPU_UUIDS)})
    assert history.isVisible()
    assert history.plot.marks.spans == ()
    assert find_only(LargePlot, detail.curves).marks.spans == ()
    assert not [curve.name for curve in history.plot.curves.values() if curve.with_label]


def test_only_the_gpus_of_the_job_are_plotted_and_named_by_their_ranks(detail):
    view = job(Placement("gpu1", gpus=("GPU-1",)))
    history = show_history(detail, view, {"gpu1": node_past("GPU-0", "GPU-1")})
    assert [curve.name for curve in history.plot.curves.values()] == ["GPU 1, rank 0"]


def test_a_node_of_which_nothing_is_known_of_that_time_has_no_empty_plot(detail):
    view = job(*TWO, state=JobState.FINISHED, ended_at=timestamp(NOON + 3000))
    history = show_history(
        detail, view, {"gpu1": node_past(*GPU_UUIDS, over_s=-100, before_s=9000)}
    )
    assert not history.isVisible()
    assert history.node == ""


@pytest.mark.parametrize(("axis", "start", "end"), [("step", 101, 161), ("time", 1000, 1600)])
def test_the_span_lies_in_the_curves_where_the_job_was_then(detail, axis, start, end):
    show_history(detail, job(TWO[0]), {"gpu1": node_past(*GPU_UUIDS)})
    detail.curves._set_axis(axis)
    for plot in detail.curves._panels():
        (span,) = plot.marks.spans
        assert (span.x0, span.x1) == pytest.approx((start, end))


def test_another_job_has_no_spans_of_the_one_before(detail):
    show_history(detail, job(TWO[0]), {"gpu1": node_past(*GPU_UUIDS)})
    assert find_only(LargePlot, detail.curves).marks.spans
    detail.open_job(replace(LIVE, id="b"))
    assert not find_only(LargePlot, detail.curves).marks.spans


def test_a_curve_has_the_time_of_day_of_each_step(detail):
    view = job(TWO[0])
    detail.open_job(view)
    detail.show_update(curve(view))
    assert detail.curves.curve("loss").times_s[0] == NOON
    assert detail.curves.curve("loss").times_s[-1] == NOON + 2990


def test_a_narrow_window_keeps_the_node_of_each_rank_and_never_scrolls_sideways(detail):
    detail.resize(554, 600)
    show_history(detail, job(*TWO), {"gpu1": node_past(*GPU_UUIDS), "gpu2": node_past(*GPU_UUIDS)})
    for _ in range(3):
        QApplication.processEvents()
    table = find_only(QTableView, detail.ranks)
    assert table.columnWidth(1) >= 80
    assert table.horizontalScrollBar().maximum() == 0
    for key, page in (("ranks", detail.ranks), ("curves", detail.curves)):
        open_tab(detail, key)
        for _ in range(3):
            QApplication.processEvents()
        scroll = page.findChild(VerticalScrollArea)
        assert scroll.widget().width() <= scroll.viewport().width()


def test_the_read_out_names_a_span_however_narrow(detail):
    show_history(detail, job(TWO[0]), {"gpu1": node_past(*GPU_UUIDS)})
    rows, _ = find_only(LargePlot, detail.curves).readout(130)
    assert ("gpu1 slowed by heat", "") in rows
    rows, _ = find_only(LargePlot, detail.curves).readout(200)
    assert [name for name, _ in rows if "heat" in name] == []


def test_a_rank_shows_its_node_and_the_figures_of_its_gpu():
    node = samples.state("gpu1", "ours", 2)
    view = job(Placement("gpu1", gpus=("GPU-0", "GPU-1")), id="j1", rank_step_ms=(100.0, 140.0))
    first, second = rank_rows(view, {"gpu1": node}, {"gpu1": "now"})
    assert (first.node, first.gpu, first.pid, first.heartbeat_age) == (
        "gpu1",
        "GPU 0",
        "4200",
        "now",
    )
    figures = [
        text.replace("\xa0", " ") for text in (second.step_time, second.memory, second.gpu_use)
    ]
    assert figures == ["140 ms", "61 of 80 GiB", "97 %"]


def test_the_slow_rank_stands_out_and_is_in_sight_until_the_user_scrolls(detail, qtbot):
    detail.resize(900, 480)
    detail.open_job(lab.LIVE)
    detail.show_view(lab.LIVE)
    open_tab(detail, "ranks")
    table, model = find_only(QTableView, detail.ranks), detail.ranks._model
    amber = [n for n, row in enumerate(model.rows) if row.is_slow or row.has_failed]
    assert amber == [11]
    step = model.index(11, 4)
    assert step.data(Qt.ItemDataRole.ForegroundRole) == theme.current().q("warn")
    assert not step.data(Qt.ItemDataRole.DecorationRole).isNull()
    assert model.index(10, 4).data(Qt.ItemDataRole.ForegroundRole) is None

    def visible_ranks():
        return table.viewport().rect().contains(table.visualRect(step).center())

    qtbot.waitUntil(lambda: table.verticalScrollBar().maximum() > 0 and visible_ranks())
    table.verticalScrollBar().triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
    assert not visible_ranks()
    detail.show_view(replace_fields(lab.LIVE, step=lab.LIVE.step + 1))
    assert not visible_ranks(), "it stays where the user scrolled"


def test_a_server_is_named_and_its_missing_step_time_counts_for_no_other_rank():
    placement = Placement("cpu1", 3)
    view = job(placement, rank_step_ms=(0.0, 100.0, 150.0), slow_ranks=(2,))
    view = replace(view, config=replace(view.config, strategy=StrategyConfig("downpour")))
    rows = rank_rows(view)
    assert [row.is_server for row in rows] == [True, False, False]
    assert [row.step_time.replace("\xa0", " ") for row in rows[:2]] == ["–", "100 ms"]
    assert view.slowest() == (2, 0.5)
    strip = RankStrip()
    strip.show_view(view)
    assert shows_text(strip, "rank 2 is 50 % slower")


@pytest.mark.parametrize(
    ("strategy", "step_ms", "cells"),
    [
        ("allreduce", (0.0, 0.0), [("0", "–"), ("1", "–")]),
        ("allreduce", (0.0, 100.0), [("0", "–"), ("1", "100 ms")]),
        ("allreduce", (100.0, 150.0), [("0", "100 ms"), ("1", "150 ms")]),
        ("ddp", (0.0, 0.0), [("0", "–"), ("1", "–")]),
        ("downpour", (0.0, 100.0), [("0 · server", "–"), ("1", "100 ms")]),
        ("downpour", (0.0, 0.0), [("0 · server", "–"), ("1", "–")]),
        ("dc-asgd", (0.0, 100.0), [("0 · server", "–"), ("1", "100 ms")]),
    ],
)
def test_a_rank_is_a_server_by_its_strategy_and_not_by_a_step_time_of_zero(
    strategy, step_ms, cells
):
    view = job(Placement("cpu1", 2), rank_step_ms=step_ms)
    view = replace(view, config=replace(view.config, strategy=StrategyConfig(strategy)))
    strip = RankStrip()
    strip.show_view(view)
    show_history = [strip._cells.cell_texts(rank) for rank in range(2)]
    assert [(name, took.replace("\xa0", " ")) for name, took in show_history] == cells
    assert [row.step_time.replace("\xa0", " ") for row in rank_rows(view)] == [
        took for _, took in cells
    ]


def test_the_rank_that_failed_is_red():
    rows = rank_rows(lab.FAILED)
    assert [row.rank for row in rows if row.has_failed] == [3]
    assert not any(row.is_slow for row in rows)


def test_an_ended_job_has_no_process_and_no_current_figures():
    node = samples.state("gpu1", "ours", 2)
    view = job(TWO[0], id="j1", state=JobState.FINISHED, ended_at=timestamp(NOON))
    first, _ = rank_rows(view, {"gpu1": node}, {"gpu1": "now"})
    assert {first.pid, first.memory, first.gpu_use, first.heartbeat_age} == {"–"}


def test_ranks_on_processors_and_on_missing_nodes_show_dashes():
    view = job(Placement("gone", gpus=("GPU-123456789abcdef",)), Placement("cpu1", 2))
    rows = rank_rows(view)
    assert [row.rank for row in rows] == [0, 1, 2]
    assert (rows[0].gpu, rows[1].gpu) == ("GPU-12345678", "–")


OF_GPUS = {"GPU", "Process", "Memory", "Use"}


@pytest.fixture
def tab(qtbot, theme_manager):
    return show_widget(qtbot, RanksTab(), 1000, 700)


def titles(tab):
    model, table = tab._model, find_only(QTableView, tab)
    headers = [
        model.headerData(n, table.horizontalHeader().orientation())
        for n in range(model.columnCount())
    ]
    return {head for n, head in enumerate(headers) if not table.isColumnHidden(n)}


def test_a_job_on_cpus_has_no_columns_of_gpus(tab):
    for view, has_gpus in (
        (lab.FINISHED, False),
        (lab.LIVE, True),
        (lab.FINISHED, False),
        (replace_fields(lab.LIVE, rank_step_ms=()), True),
    ):
        assert view.config.uses_gpus is has_gpus
        tab.show_view(view)
        assert (titles(tab) & OF_GPUS == OF_GPUS) is has_gpus
        assert bool(titles(tab) & OF_GPUS) is has_gpus
        assert {"Rank", "Where", "Step", "Heartbeat"} <= titles(tab)


def test_a_table_of_two_ranks_has_the_room_of_two(tab):
    tab.show_view(lab.FINISHED)
    QApplication.processEvents()
    table = find_only(QTableView, tab)
    rows = tab._model.rowCount() * table.verticalHeader().defaultSectionSize()
    assert table.viewport().height() < rows + table.verticalHeader().defaultSectionSize()
