"""F58: what people call their things is plain text in every label and every tool tip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTableView, QTextEdit, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.item import Combination, Kind
from backend.records.library.preview import ClassCount
from backend.records.nodes.reading import Finding
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.pictures.gallery import LARGE
from tests.pictures.screens.jobs import open_job
from tests.pictures.screens.library import item, preview
from tests.pictures.stage import Stage
from tests.widgets.compare import compare_samples
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.page.jobs_page import JobsPage
from widgets.library.import_dialog import ImportDialog
from widgets.library.library_detail import Trial
from widgets.shell.command_palette import CommandPalette, PaletteEntry
from widgets.shell.notification_list import NoticeItem, NoticeList

EVIL = "<img src=x><b>bold"
ROWS = 40


def evil(view=lab.LIVE, **more):
    """A job of which everything that people name is called so."""
    config = replace(
        view.config,
        name=EVIL,
        model=EVIL,
        dataset=EVIL,
        loader=EVIL,
        checkpoint=replace(view.config.checkpoint, best_metric=f"validation/{EVIL}"),
    )
    return replace_fields(
        view,
        name=EVIL,
        user=EVIL,
        notes=EVIL,
        tags=(EVIL,),
        config=config,
        message=f"{EVIL} said so.",
        best_metric=(f"validation/{EVIL}", 0.5),
        metrics={"loss": 0.1, EVIL: 0.2},
        **more,
    )


def _jobs(stage: Stage, view=lab.LIVE, tab: str = "") -> JobsPage:
    shown = evil(view)
    others = tuple(one for one in lab.JOBS if one.id != view.id)
    return open_job(stage, shown, (shown, *others), tab=tab)


def _job(tab: str) -> Callable[[Stage], None]:
    def draw(stage: Stage) -> None:
        _jobs(stage, tab=tab)

    return draw


def _narrow_job(stage: Stage) -> None:
    """Where facts have no room they go into a tool tip."""
    stage.window.resize(900, 600)
    page = _jobs(stage)
    page.open_job(lab.LIVE.id)
    name = f"validation/{EVIL}, {lab.LONG}"
    page.show_view(replace(evil(), best_metric=(name, 0.5)))


def _failed(stage: Stage) -> None:
    error = replace(lab.FAILED.error, message=f"{EVIL} raised.", traceback=f"{EVIL}\n{EVIL}")
    _jobs(stage, replace_fields(lab.FAILED, error=error), tab="failure")


def _checkpoints(stage: Stage) -> None:
    page = _jobs(stage, tab="checkpoints")
    found: tuple[Checkpoint, ...] = lab.checkpoints(lab.LIVE)
    metrics = {f"validation/{EVIL}": 0.5}
    page.detail.show_checkpoints(lab.LIVE.id, tuple(replace(c, metrics=metrics) for c in found))


def _table(stage: Stage) -> None:
    page = _jobs(stage)
    page.show_table()
    page.table.view.selectAll()


def _nodes(stage: Stage, opened: str = "") -> None:
    first, *rest = lab.nodes()
    reading = first.reading
    assert reading is not None
    gpus = tuple(
        replace(gpu, name=EVIL, processes=tuple(replace(p, user=EVIL) for p in gpu.processes))
        for gpu in reading.gpus
    )
    entry = first.entry and replace(first.entry, name=EVIL)
    called = replace(
        first,
        name=EVIL,
        entry=entry,
        reading=replace(reading, gpus=gpus, gpu_message=EVIL, disk_path=f"/{EVIL}", host=EVIL),
    )
    stage.show_cluster((evil(),), (called, *rest))
    stage.nodes.show_nodes((called, *rest))
    stage.nodes.show_jobs((evil(),))
    if opened:
        stage.nodes.open_node(opened)
        stage.nodes.show_findings(opened, (Finding(EVIL, False, f"{EVIL} is missing.", EVIL),))


def _library(kind: Kind) -> Callable[[Stage], None]:
    def draw(stage: Stage) -> None:
        page = stage.library(kind)
        page.show_items((item(kind, EVIL), item(kind, "other")))
        page.detail.show_companions((EVIL,), (EVIL,), (Combination("other", EVIL),))
        page.show_item(EVIL)
        page.detail.show_files(f"{EVIL}@1", (EVIL, f"{EVIL}/{EVIL}.py"))
        page.detail.show_text(f"{EVIL}@1", EVIL, EVIL)
        if kind is Kind.DATASET:
            shown = preview()
            samples = tuple(replace(s, of_class=EVIL, target=EVIL) for s in shown.samples)
            classes = (ClassCount(EVIL, 3), ClassCount("other", 500))
            shown = replace(shown, samples=samples, classes=classes, warnings=(f"{EVIL} is rare.",))
            page.detail.show_preview(Trial(f"{EVIL}@1", EVIL), shown)

    return draw


def _unreadable(stage: Stage) -> None:
    stage.library(Kind.MODEL).show_error(f"{EVIL} does not answer.", EVIL)


def _compare(stage: Stage) -> None:
    from tests.pictures.screens.compare import put_updates

    updates = [replace(one, view=evil(one.view)) for one in compare_samples.three_updates()]
    put_updates(stage, updates)


def _notices(stage: Stage) -> None:
    _jobs(stage)
    notices = NoticeList(stage.window)
    notices.show_items([NoticeItem(f"Failed: {EVIL}", f"{EVIL} raised.", "14:02", "bad", True)])
    notices.open(stage.window.side_bar.bell)


def _palette(stage: Stage) -> None:
    palette = CommandPalette(stage.window)
    palette.open()
    palette.show_targets([PaletteEntry("job", "x", EVIL, EVIL)])


def _importing(stage: Stage) -> None:
    dialog = ImportDialog(
        Kind.DATASET, f"/{EVIL}", EVIL, {k: {EVIL: 1} for k in Kind}, stage.window
    )
    dialog.show_error(f"{EVIL} is there.", EVIL)
    stage.lay_over(dialog)


PAGES: dict[str, Callable[[Stage], None]] = {
    **{f"job, {tab}": _job(tab) for tab in ("curves", "ranks", "log", "settings", "notes")},
    "job, narrow": _narrow_job,
    "job, what happened": _failed,
    "job, checkpoints": _checkpoints,
    "table": _table,
    "nodes": _nodes,
    "node": lambda stage: _nodes(stage, EVIL),
    **{kind.value: _library(kind) for kind in Kind},
    "unreadable": _unreadable,
    "compare": _compare,
    "notices": _notices,
    "palette": _palette,
    "import": _importing,
}


def listed(widget: QWidget, role: Qt.ItemDataRole) -> Iterator[str]:
    """What a list says in this role, its first rows."""
    model = widget.model() if isinstance(widget, QAbstractItemView) else None
    if model is None:
        return
    columns = range(model.columnCount()) if isinstance(widget, QTableView) else (0,)
    for row in range(min(ROWS, model.rowCount())):
        for column in columns:
            said = model.index(row, column).data(role)
            if isinstance(said, str):
                yield said


def rich(widget: QWidget) -> Iterator[str]:
    """Where a name would be read as markup, in a widget or what it lists."""
    if isinstance(widget, QLabel):
        how = widget.textFormat()
        # A `Label` may show less than it holds.
        text = QLabel.text(widget)
        may_be = how is Qt.TextFormat.AutoText and Qt.mightBeRichText(text)
        if EVIL[:5] in text and (may_be or how is Qt.TextFormat.RichText):
            yield f"label {text!r}"
    shown = widget.toPlainText() if isinstance(widget, QTextEdit) else ""
    if "bold" in shown and "<b>" not in shown:
        yield f"text {shown!r}"
    for tip in (widget.toolTip(), *listed(widget, Qt.ItemDataRole.ToolTipRole)):
        if EVIL in tip and Qt.mightBeRichText(tip):
            yield f"tool tip {tip!r} of {type(widget).__name__}"


@pytest.mark.parametrize("page", PAGES)
def test_f58_no_name_is_read_as_markup(page: str, theme_manager: ThemeManager) -> None:
    stage = Stage(LARGE)
    try:
        PAGES[page](stage)
        stage.settle()
        widgets = [stage.window, *stage.window.findChildren(QWidget)]
        if stage.over is not None:
            widgets += [stage.over, *stage.over.findChildren(QWidget)]
        said = [widget.accessibleName() for widget in widgets]
        said += [text for each in widgets for text in listed(each, Qt.ItemDataRole.DisplayRole)]
        assert any(EVIL in name for name in said), "the name is nowhere to be seen"
        assert [found for widget in widgets for found in rich(widget)] == []
    finally:
        stage.close()
