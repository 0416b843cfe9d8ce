"""The wide table: search, sorting, filters, changes, actions and layout."""

import time
from dataclasses import astuple, replace
from itertools import product

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunStatus
from backend.records.jobs.summary import summary_of
from backend.records.jobs.view import JobView
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import add_widget, find_only, finish_timers, show_widget, visible_texts
from widgets.common.fields import LineEdit
from widgets.common.labels import Label
from widgets.common.painting import text_width
from widgets.common.state_badge import RankRing
from widgets.common.theme import SIDEBAR_W
from widgets.jobs.actions import job_actions
from widgets.jobs.list.job_columns import JobColumn, cell_text
from widgets.jobs.list.job_list_model import JOB_ROLE
from widgets.jobs.list.job_table_delegate import LEFT_W, RIGHT_W
from widgets.jobs.list.job_table_view import _DEFAULT_COLUMNS, _WIDTHS
from widgets.jobs.page.jobs_page import LIST, JobsPage
from widgets.shell.side_bar import RunningJob

LONG = "a name that goes on and on, because nobody told its owner where a name is to end " * 2
NOW = time.time()


def stamp(hours_ago):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - 3600 * hours_ago))


def config(nodes, gpus, **changes):
    return parse_job(
        {
            "name": "job",
            "model": "resnet",
            "dataset": "coco",
            "loader": "coco",
            "epochs": 50,
            "batch_size": 32,
            "optimizer": {"name": "adamw", "lr": 0.001},
            "placement": [
                {"node": node, "gpus": [f"GPU-{n}" for n in range(gpus)]}
                if gpus
                else {"node": node, "processes": 2}
                for node in nodes
            ],
            **changes,
        }
    ).config


LOCAL_CONFIG = config(["this-computer"], 0)
TWO = config(["gpu06", "gpu07"], 8, optimizer={"name": "sgd", "lr": 0.08})
NODE = config(["gpu03"], 8)
MANY = config([f"gpu{n:02d}" for n in range(1, 65)], 8)


def job(name, state, config, share=0.0, best=None, user="mai", begun=None, took=None, **changes):
    begun_at = "" if begun is None else stamp(begun)
    ended_at = "" if begun is None or took is None else stamp(begun - took)
    view = JobView(
        name[:40],
        name,
        config,
        stamp((begun or 1) + 1),
        RunStatus(
            state,
            run=0 if begun is None else 1,
            step=int(share * 1000),
            total_steps=1000,
            started_at=begun_at,
            updated_at=ended_at,
        ),
        best_metric=best,
        user=user,
    )
    return replace_fields(view, **changes)


S = JobState
VIEWS = (
    job("retinanet-r50 · coco 2x", S.TRAINING, TWO, 0.64, ("mAP", 0.371), begun=1.2,
        tags=("baseline",)),
    job("unet-cells · dice v3", S.EVALUATING, NODE, 0.91, ("dice", 0.902), "ben", 0.9),
    job("warming up", S.SETUP, MANY, 0.0, None, "chen", 0.01, tags=("sweep", "lr", "night")),
    job("retinanet-r50 · lr 0.08", S.QUEUED, TWO),
    job("gan-textures · 256", S.CREATED, NODE, user="chen", notes="wait for the new textures"),
    job("vit-s16 · plankton", S.INTERRUPTED, NODE, 0.48, ("validation/top-1", 0.824), "mai", 20,
        3.4, message="Stopped by ben"),
    job("vit-s16 · plankton adamw", S.ERROR, NODE, 0.41, ("validation/top-1", 0.817), "mai", 6, 2.2,
        error=RankError("Out of GPU memory.", 3, "gpu03"), tags=("plankton", "adamw")),
    job(LONG, S.LOST, MANY, 0.77, ("validation/a metric with a long name", 0.142),
        "somebody-with-a-long-name", 44, 5.7, tags=("a tag that goes on and on", "b", "c", "d")),
    job("digits, two workers", S.FINISHED, LOCAL_CONFIG, 1.0, ("validation/accuracy", 0.981), "lan",
        5, 0.016, notes="as good as it gets"),
    *(
        job(f"deeplab · road scenes {n}", S.FINISHED, NODE, 1.0, ("mIoU", 0.7 + n / 100), "chen",
            70 + 24 * n, 5.03, tags=("roads",))
        for n in range(30)
    ),
)  # fmt: skip


@pytest.fixture
def page(qtbot):
    page = show_widget(qtbot, JobsPage(), 1200, 800)
    show_jobs(page, VIEWS)
    page.show_table()
    return page


def names(page):
    model = page.table.model
    return [model.index(row, 0).data(JOB_ROLE).name for row in range(model.rowCount())]


def click_head(page, column):
    page.table.view._sort_by_section(column)


def search(page, text):
    page.table.search.setText(text)
    finish_timers(page.table.search)


SEARCHES = {
    "failed plankton": ["vit-s16 · plankton adamw"],
    "wait textures": ["gan-textures · 256"],
    "baseline": ["retinanet-r50 · coco 2x"],
    "evaluating": ["unet-cells · dice v3"],
    "lr=0.08 training": ["retinanet-r50 · coco 2x"],
    "ACCURACY=0.981": ["digits, two workers"],
    "lr>0.01 training": ["retinanet-r50 · coco 2x"],
    "dice>0.9": ["unet-cells · dice v3"],
    "dice>0.95": [],
    "found nowhere": [],
}


def test_a_job_is_found_by_name_notes_tags_state_settings_and_metrics(page):
    for text, expected_names in SEARCHES.items():
        search(page, text)
        assert names(page) == expected_names, text


def test_a_head_sorts_the_other_way_next_and_then_gives_the_lists_own_order_back(page):
    own_order = names(page)
    click_head(page, JobColumn.BEST)
    assert page.table.model.index(0, 0).data(JOB_ROLE).best_metric == ("dice", 0.902)
    assert page.table.model.index(2, 0).data(JOB_ROLE).best_metric == ("mIoU", 0.99)
    none_last = page.table.model.index(len(VIEWS) - 1, 0).data(JOB_ROLE)
    assert none_last.best_metric is None
    click_head(page, JobColumn.BEST)
    assert page.table.model.index(1, 0).data(JOB_ROLE).best_metric == ("mAP", 0.371)
    assert page.table.model.index(2, 0).data(JOB_ROLE).best_metric == ("mIoU", 0.7)
    none_last = page.table.model.index(len(VIEWS) - 1, 0).data(JOB_ROLE)
    assert none_last.best_metric is None, "what has no value comes last both ways"
    click_head(page, JobColumn.BEST)
    assert names(page) == own_order


def test_names_are_sorted_without_regard_to_capitals(page):
    show_jobs(page, [replace(VIEWS[0], id=name, name=name) for name in ("b", "C", "a")])
    click_head(page, JobColumn.NAME)
    assert names(page) == ["a", "b", "C"]


def test_the_funnel_offers_existing_values_and_filters_by_them(page):
    page.table._filter_button.click()
    funnel = page.table.filter_panel
    assert [funnel._user.itemText(n) for n in range(funnel._user.count())] == [
        "Any user", "ben", "chen", "lan", "mai", "somebody-with-a-long-name",
    ]  # fmt: skip
    funnel._user.setCurrentText("mai")
    funnel._low.setText("0,8")
    funnel._low.editingFinished.emit()
    assert names(page) == ["vit-s16 · plankton", "vit-s16 · plankton adamw"][::-1]
    assert f"2 of {len(VIEWS)} jobs" in visible_texts(page.table)
    assert page.table._filter_button._icon_name == "funnel-fill"
    funnel._high.setText("much")
    funnel._high.editingFinished.emit()
    assert funnel._high_field.error() == "Enter a number, such as 0.9 or 1e-3."
    funnel.clear()
    assert len(names(page)) == len(VIEWS)


def test_columns_widths_and_order_are_remembered_and_invalid_ones_are_not(qtbot, page):
    view = page.table.view
    layouts = []
    view.layout_changed.connect(layouts.append)
    menu = view.column_menu()
    actions = {action.text(): action for action in menu.actions()}
    assert not actions["Name"].isEnabled(), "a table without names is useless"
    actions["Notes"].trigger()
    actions["User"].trigger()
    view.setColumnWidth(JobColumn.STATE, 180)
    click_head(page, JobColumn.STARTED)
    other_page = add_widget(qtbot, JobsPage())
    other_page.table.view.restore(layouts[-1])
    assert other_page.table.view.layout_state() == layouts[-1] == view.layout_state()
    assert "notes" in layouts[-1]["columns"]
    assert "user" not in layouts[-1]["columns"]
    assert layouts[-1]["widths"]["state"] == 180
    assert other_page.table.query.order == "started"
    assert other_page.table.query.descending
    layout = other_page.table.view.layout_state()
    for nonsense in ({"columns": "x", "widths": 3, "order": 7}, {"columns": [], "order": "notes"}):
        other_page.table.view.restore(nonsense)
        assert other_page.table.view.layout_state()["order"] == layout["order"]
        assert "name" in other_page.table.view.layout_state()["columns"]


def choose(page, *columns):
    view, model = page.table.view, page.table.model
    view.clearSelection()
    for name in columns:
        row = names(page).index(name)
        view.scrollTo(model.index(row, 0))
        view.setCurrentIndex(model.index(row, 1))
        view.clearSelection() if name == columns[0] else None
    rows = [names(page).index(name) for name in columns]
    for row in rows:
        flags = view.selectionModel().SelectionFlag
        view.selectionModel().select(model.index(row, 0), flags.Select | flags.Rows)


def test_settings_are_columns_that_can_be_chosen_and_sorted_by(page):
    view = page.table.view
    rate = JobColumn.LR
    assert view.isColumnHidden(rate), "it was not chosen yet"
    menu = next(a.menu() for a in view.column_menu().actions() if a.text() == "Settings")
    actions = {action.text(): action for action in menu.actions()}
    assert list(actions) == [
        "Learning rate",
        "Batch size",
        "Optimizer",
        "Epochs",
        "Model",
        "Dataset",
        "Strategy",
        "Seed",
        "Script",
        "Arguments",
    ]
    actions["Learning rate"].trigger()
    actions["Optimizer"].trigger()
    page.resize(1600, 800)
    assert not view.isColumnHidden(rate)
    click_head(page, rate)
    assert page.table.query.order == "lr"
    rate_text = page.table.model.index(0, rate).data()
    assert rate_text == "0.08"
    assert page.table.model.index(0, JobColumn.OPTIMIZER).data() == "SGD"
    assert page.table.model.index(0, JobColumn.SEED).data() == "1"
    click_head(page, rate)
    assert page.table.model.index(0, rate).data() == "0.001"


@pytest.mark.parametrize(
    ("state", "total_steps", "arguments", "percent"),
    [
        (JobState.CREATED, 0, "–", "0 %"),
        (JobState.TRAINING, 0, "–", "–"),
        (JobState.INTERRUPTED, 0, "–", "–"),
        (JobState.TRAINING, 14, "50 %", "50 %"),
        (JobState.INTERRUPTED, 14, "50 %", "50 %"),
        (JobState.FINISHED, 0, "100 %", "100 %"),
    ],
)
def test_a_script_has_its_arguments_and_no_percentage_of_an_unknown_total(
    qtbot, state, total_steps, arguments, percent
):
    raw = {
        "name": "mine",
        "script": "makemore",
        "arguments": ["--type", "LSTM", "--learning-rate", "0.05"],
        "placement": [{"node": "gpu06", "processes": 2}],
    }
    run = int(state is not JobState.CREATED)
    step = 7 * run
    status = RunStatus(state, run=run, step=step, total_steps=total_steps)
    view = JobView("s", "mine", parse_job(raw).config, stamp(1), status)
    line = summary_of(view)
    assert cell_text(line, JobColumn.PROGRESS).replace("\xa0", " ") == arguments
    assert cell_text(line, JobColumn.ARGUMENTS) == "--type LSTM --learning-rate 0.05"
    assert cell_text(line, JobColumn.LR) == "0.05"
    other_summary = summary_of(job("other", state, LOCAL_CONFIG, begun=1, took=1))
    assert cell_text(other_summary, JobColumn.ARGUMENTS) == "–"
    ring, running = add_widget(qtbot, RankRing()), add_widget(qtbot, RunningJob())
    ring.set_progress(view.state, view.progress)
    assert ("percent" in ring.accessibleName()) == (percent != "–")
    running.show_job(view)
    accessible_text = running.accessibleName().replace("\xa0", " ")
    assert accessible_text == f"mine, {state.label}, {percent}"


def test_gpu_hours_and_energy_are_columns_where_there_is_room_for_them(page):
    view, model = page.table.view, page.table.model
    gpu_job = job(
        "used", JobState.FINISHED, NODE, begun=5, took=2, earlier_gpu_s=3600.0, energy_j=9e6
    )
    unknown = job("unknown", JobState.FINISHED, NODE, begun=4, took=2, earlier_gpu_s=None)
    cpu_job = job("on processors", JobState.FINISHED, LOCAL_CONFIG, begun=3, took=2)
    show_jobs(page, (gpu_job, unknown, cpu_job))
    texts = {
        name: (
            model.index(row, JobColumn.GPU_HOURS).data(),
            model.index(row, JobColumn.ENERGY).data().replace("\xa0", " "),
        )
        for row, name in enumerate(names(page))
    }
    assert texts == {
        # Two hours of eight GPUs, and one of the runs before.
        "used": ("17.0", "2.50 kWh"),
        "unknown": ("–", "–"),
        "on processors": ("–", "–"),
    }
    took = model.index(names(page).index("used"), JobColumn.TOOK)
    tip = took.data(Qt.ItemDataRole.ToolTipRole).replace("\xa0", " ")
    assert tip == "2 h 00 · 17.0 GPU hours · 2.50 kWh"
    page.resize(1700, 800)
    QApplication.processEvents()
    assert not view.isColumnHidden(JobColumn.GPU_HOURS)
    page.resize(1000, 640)
    QApplication.processEvents()
    assert view.isColumnHidden(JobColumn.ENERGY)
    actions = {action.text(): action for action in view.column_menu().actions()}
    actions["Energy"].trigger()
    assert not view.isColumnHidden(JobColumn.ENERGY), "one click shows it"


def test_a_column_is_ticked_if_it_is_seen(page):
    def actions():
        return {action.text(): action for action in page.table.view.column_menu().actions()}

    for width, title in product(
        (900, 1000, 1100, 1300, 1440, 1920), ("Energy", "GPU hours", "User")
    ):
        view = page.table.view
        page.resize(width, 700)
        QApplication.processEvents()
        ticks = {text: action.isChecked() for text, action in actions().items()}
        for column in JobColumn:
            if column.title in ticks:
                assert ticks[column.title] is not view.isColumnHidden(column)
        is_ticked = ticks[title]
        actions()[title].trigger()
        assert actions()[title].isChecked() is not is_ticked, "one click"


def test_space_chooses_rows_and_a_bar_offers_suitable_actions(qtbot, page):
    view, model = page.table.view, page.table.model
    assert page.table.selection_bar.isHidden()
    first, failed = names(page)[0], names(page).index("vit-s16 · plankton adamw")
    view.clearSelection()
    for row in (0, failed):
        view.selectionModel().setCurrentIndex(
            model.index(row, 1), view.selectionModel().SelectionFlag.NoUpdate
        )
        qtbot.keyClick(view, Qt.Key.Key_Space)
    bar = page.table.selection_bar
    assert bar.isVisible()
    assert find_only(Label, bar).text() == "2 jobs selected"
    with expect_request(page.job_actions, job_actions.COMPARE_ALL) as compared:
        bar._buttons[job_actions.COMPARE_ALL].click()
    ids = (model.index(0, 0).data(JOB_ROLE).id, "vit-s16 · plankton adamw")
    assert compared.args == [ids]
    assert first == names(page)[0]
    assert bar._buttons[job_actions.STOP_ALL].isEnabled(), "one of them runs"
    assert not bar._buttons[job_actions.TRASH_ALL].isEnabled(), "one of them runs"
    assert bar._buttons[job_actions.CLONE_ALL].isEnabled(), "a draft each"
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert bar.isHidden()


def test_a_cell_is_edited_in_place_and_the_request_has_the_old_value(qtbot, page):
    view = page.table.view
    row = names(page).index("retinanet-r50 · coco 2x")
    for column, text, request in (
        (JobColumn.NAME, " new name ", ("name", "retinanet-r50 · coco 2x", "new name")),
        (JobColumn.TAGS, "a, b ,,a", ("tags", ("baseline",), ("a", "b"))),
        (JobColumn.NOTES, "two\nlines", ("notes", "", "two\nlines")),
    ):
        view.edit_cell(row, column)
        editor = view.indexWidget(view.currentIndex()) or view.viewport().focusWidget()
        assert view._is_editing()
        with qtbot.waitSignal(page.table.model.edited) as edited:
            view.itemDelegate().setModelData(_filled(editor, text), None, view.currentIndex())
        assert astuple(edited.args[0])[1:] == request
        view.closeEditor(editor, view.itemDelegate().EndEditHint.NoHint)
    assert names(page)[row] == "retinanet-r50 · coco 2x", "it changes when it has come true"


def test_editing_a_cell_keeps_its_text_and_the_order_of_rows(qtbot, page):
    view, model = page.table.view, page.table.model
    name = "retinanet-r50 · coco 2x"
    row = names(page).index(name)
    view.edit_cell(row, JobColumn.NAME)
    editor = find_only(LineEdit, view.viewport())
    editor.selectAll()
    qtbot.keyClicks(editor, "half a na")
    names_before = list(names(page))
    rows = model.rows
    model.show_rows(replace(rows, order=rows.order[::-1]))
    model.emit_all_changed()
    assert editor.text() == "half a na"
    assert names(page) == names_before
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert names(page) == names_before[::-1]


def _filled(editor, text):
    editor.setPlainText(text) if hasattr(editor, "setPlainText") else editor.setText(text)
    return editor


def test_enter_opens_a_job_beside_the_list(qtbot, page):
    view = page.table.view
    row = names(page).index("digits, two workers")
    view.setCurrentIndex(page.table.model.index(row, 1))
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert page.open_id == "digits, two workers"
    assert page.detail.isVisible()


def test_a_narrow_window_shows_fewer_columns_and_never_less_than_name_and_state(page):
    view = page.table.view
    for width in (1300, 1000, 800, 600):
        page.resize(width, 640)
        QApplication.processEvents()
        columns = [c for c in JobColumn if not view.isColumnHidden(c)]
        assert {JobColumn.STATE, JobColumn.NAME} <= set(columns)
        assert sum(view.columnWidth(c) for c in columns) <= view.viewport().width()
    assert JobColumn.USER not in columns


def test_a_wide_window_keeps_the_other_columns_near_the_name(page):
    view = page.table.view
    widths = view.layout_state()["widths"]
    for width in (2500, 2200, 2500):
        page.resize(width, 900)
        QApplication.processEvents()
        columns = [c for c in JobColumn if not view.isColumnHidden(c)]
        assert view.columnWidth(JobColumn.NAME) < 620
        assert sum(view.columnWidth(c) for c in columns) == view.viewport().width()
    assert view.layout_state()["widths"] == widths, "what the window gives, the user did not choose"
    view.setColumnWidth(JobColumn.STATE, view.columnWidth(JobColumn.STATE) + 30)
    assert view.layout_state()["widths"]["state"] == widths["state"] + 30


@pytest.mark.parametrize("column", [JobColumn.NAME, JobColumn.GPUS, JobColumn.TOOK])
def test_the_sort_mark_stands_next_to_the_title(page, column):
    header = page.table.view.horizontalHeader()
    section_x, width = header.sectionViewportPosition(column), header.sectionSize(column)
    title_w = QFontMetrics(header.font()).horizontalAdvance(column.title)
    title_left = section_x + (width - RIGHT_W - title_w if column.is_figure else LEFT_W)

    def mark_columns():
        head = header.grab().toImage()
        return head, head.copy(title_left, 0, title_w, head.height())

    head, title = mark_columns()
    click_head(page, column)
    sorted_head, sorted_title = mark_columns()
    assert sorted_title == title, "the mark covers the title"
    assert sorted_head != head
    click_head(page, column)
    assert mark_columns()[0] != sorted_head, "both directions look the same"


def test_in_a_narrow_column_the_sort_mark_takes_room_from_the_title(page):
    for column in (column for column in JobColumn if column.can_sort):
        view = page.table.view
        header = view.horizontalHeader()
        view.setColumnHidden(column, False)
        header.resizeSection(column, header.minimumSectionSize())
        header.show_order(column, descending=True)
        title = header.elided_title(column)
        rect = QRect(0, 0, header.sectionSize(column), header.height())
        title_w = QFontMetrics(header.font()).horizontalAdvance(title)
        mark_x = header.mark_x(rect, column)
        text_left = rect.width() - RIGHT_W - title_w if column.is_figure else LEFT_W
        mark, text = QRect(mark_x, 0, 12, 9), QRect(text_left, 0, title_w, 9)
        assert not mark.intersects(text)
        assert rect.contains(mark.united(text))


@pytest.mark.parametrize(
    "seconds", [0.3, 59, 3599, 86_399, 56 * 86_400 + 82_000, 99 * 86_400 + 82_000]
)
def test_a_duration_is_never_cut_in_the_column_took(theme_manager, seconds):
    available_width = _WIDTHS[JobColumn.TOOK] - LEFT_W - RIGHT_W
    line = summary_of(job("one", JobState.FINISHED, NODE, begun=1, took=1))
    line = line._replace(started_s=1.0, ended_s=1.0 + seconds, earlier_s=0.0)
    assert text_width(cell_text(line, JobColumn.TOOK)) <= available_width


def test_at_1440_px_all_usual_columns_but_those_of_hardware_are_shown(page):
    for count in (0, 1, 5, 22, 30, 300):
        jobs = [job(f"job {n}", JobState.FINISHED, NODE, begun=n, took=1) for n in range(count)]
        show_jobs(page, jobs)
        # With many rows, the scroll bar takes some of the width.
        page.resize(1440 - SIDEBAR_W, 900)
        QApplication.processEvents()
        view = page.table.view
        hidden = {c for c in _DEFAULT_COLUMNS if view.isColumnHidden(c)}
        assert hidden <= {JobColumn.ENERGY, JobColumn.GPU_HOURS}


@pytest.mark.parametrize(
    ("figures", "empty"),
    [
        ({}, {JobColumn.ENERGY}),
        ({"energy_j": None}, {JobColumn.ENERGY}),
        ({"energy_j": 9e6}, set()),
        ({"config": LOCAL_CONFIG}, {JobColumn.ENERGY, JobColumn.GPU_HOURS}),
        ({"config": LOCAL_CONFIG, "energy_j": 5.0}, {JobColumn.GPU_HOURS}),
        (None, {JobColumn.ENERGY, JobColumn.GPU_HOURS}),
    ],
)
def test_a_column_without_a_figure_of_any_job_is_not_shown_before_it_is_chosen(
    page, figures, empty
):
    values = {"config": NODE, "begun": 5, "took": 2, **(figures or {})}
    measured_job = job("one", JobState.FINISHED, values.pop("config"), **values)
    show_jobs(page, () if figures is None else (measured_job,))
    page.resize(1900, 800)
    QApplication.processEvents()
    view = page.table.view
    of_hardware = (JobColumn.ENERGY, JobColumn.GPU_HOURS)
    assert {c for c in of_hardware if view.isColumnHidden(c)} == empty
    for column in empty:
        view._toggle_column(column, True)
        assert not view.isColumnHidden(column)


@pytest.mark.parametrize(("text", "group"), [("unet", "all"), ("", "ended"), ("lr<0.1", "live")])
def test_list_and_table_have_one_search(qtbot, text, group):
    page = show_widget(qtbot, JobsPage(), 1200, 800)
    show_jobs(page, VIEWS)
    page.list.search.setText(text)
    page.list.groups.choose(group)
    query_before = page.list.query
    page.show_table()
    assert (page.table.query.text, page.table.query.group) == (
        query_before.text,
        query_before.group,
    )
    page.table.search.setText("vit")
    page.table.groups.choose("all")
    requested = []
    page.rows_requested.connect(lambda *request: requested.append(request))
    page.show_list()
    assert (page.list.query.text, page.list.query.group) == ("vit", None)
    assert (LIST, page.list.query) in requested
    page.table.search.setText("hidden")
    page.show_list()
    assert page.list.search.text() == "vit"


def test_the_rename_key_edits_the_name_in_the_list_and_on_any_cell_of_the_table(qtbot):
    page = show_widget(qtbot, JobsPage(), 1200, 800)
    show_jobs(page, VIEWS)
    page.show_views(VIEWS)
    page.open_job(VIEWS[0].id)
    QApplication.processEvents()
    page.list.view.setFocus()
    qtbot.keyClick(page.list.view, Qt.Key.Key_F2)
    assert page.detail.header._name._is_editing()
    qtbot.keyClick(page.detail.header._name._edit, Qt.Key.Key_Escape)
    page.show_table()
    view = page.table.view
    view.setCurrentIndex(view.model().index(0, JobColumn.TAGS))
    qtbot.keyClick(view, Qt.Key.Key_F2)
    assert view.currentIndex().column() == JobColumn.NAME
