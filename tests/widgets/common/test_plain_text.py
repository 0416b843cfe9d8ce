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
from widgets.library.trial_pages import Trial
from widgets.shell.command_palette import CommandPalette, PaletteEntry
from widgets.shell.notification_list import NoticeItem, NoticeList

EVIL = "<img src=x><b>bold"
ROWS = 40


def evil_job(view=lab.LIVE, **changes):
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
        **changes,
    )


def _jobs(stage: Stage, view=lab.LIVE, tab: str = "") -> JobsPage:
    shown_view = evil_job(view)
    other_views = tuple(v for v in lab.JOBS if v.id != view.id)
    return open_job(stage, shown_view, (shown_view, *other_views), tab=tab)


def _job(tab: str) -> Callable[[Stage], None]:
    def draw(stage: Stage) -> None:
        _jobs(stage, tab=tab)

    return draw


def _narrow_job(stage: Stage) -> None:
    """Where facts have no room they go into a tool tip."""
    stage.window.resize(900, 600)
    page = _jobs(stage)
    page.open_job(lab.LIVE.id)
    name = f"validation/{EVIL}, {lab.LONG_NAME}"
    page.show_view(replace(evil_job(), best_metric=(name, 0.5)))


def _failed(stage: Stage) -> None:
    error = replace(lab.FAILED.error, message=f"{EVIL} raised.", traceback=f"{EVIL}\n{EVIL}")
    _jobs(stage, replace_fields(lab.FAILED, error=error), tab="failure")


def _checkpoints(stage: Stage) -> None:
    page = _jobs(stage, tab="checkpoints")
    checkpoints: tuple[Checkpoint, ...] = lab.checkpoints(lab.LIVE)
    metrics = {f"validation/{EVIL}": 0.5}
    page.detail.show_checkpoints(
        lab.LIVE.id, tuple(replace(c, metrics=metrics) for c in checkpoints)
    )


def _table(stage: Stage) -> None:
    page = _jobs(stage)
    page.show_table()
    page.table.view.selectAll()


def _nodes(stage: Stage, open_name: str = "") -> None:
    first_node, *other_nodes = lab.nodes()
    reading = first_node.reading
    assert reading is not None
    gpus = tuple(
        replace(gpu, name=EVIL, processes=tuple(replace(p, user=EVIL) for p in gpu.processes))
        for gpu in reading.gpus
    )
    entry = first_node.entry and replace(first_node.entry, name=EVIL)
    called = replace(
        first_node,
        name=EVIL,
        entry=entry,
        reading=replace(reading, gpus=gpus, gpu_message=EVIL, disk_path=f"/{EVIL}", host=EVIL),
    )
    stage.show_cluster((evil_job(),), (called, *other_nodes))
    stage.nodes.show_nodes((called, *other_nodes))
    stage.nodes.show_jobs((evil_job(),))
    if open_name:
        stage.nodes.open_node(open_name)
        stage.nodes.show_findings(open_name, (Finding(EVIL, False, f"{EVIL} is missing.", EVIL),))


def _library(kind: Kind) -> Callable[[Stage], None]:
    def draw(stage: Stage) -> None:
        page = stage.library(kind)
        page.show_items((item(kind, EVIL), item(kind, "other")))
        page.detail.show_companions((EVIL,), (EVIL,), (Combination("other", EVIL),))
        page.show_item(EVIL)
        page.detail.show_files(f"{EVIL}@1", (EVIL, f"{EVIL}/{EVIL}.py"))
        page.detail.show_text(f"{EVIL}@1", EVIL, EVIL)
        if kind is Kind.DATASET:
            shown_preview = preview()
            samples = tuple(replace(s, of_class=EVIL, target=EVIL) for s in shown_preview.samples)
            classes = (ClassCount(EVIL, 3), ClassCount("other", 500))
            shown_preview = replace(
                shown_preview, samples=samples, classes=classes, warnings=(f"{EVIL} is rare.",)
            )
            page.detail.show_preview(Trial(f"{EVIL}@1", EVIL), shown_preview)

    return draw


def _unreadable(stage: Stage) -> None:
    stage.library(Kind.MODEL).show_error(f"{EVIL} does not answer.", EVIL)


def _compare(stage: Stage) -> None:
    from tests.pictures.screens.compare import put_updates

    updates = [
        replace(update, view=evil_job(update.view)) for update in compare_samples.three_updates()
    ]
    put_updates(stage, updates)


def _notices(stage: Stage) -> None:
    _jobs(stage)
    notices = NoticeList(stage.window)
    notices.show_items([NoticeItem(f"Failed: {EVIL}", f"{EVIL} raised.", "14:02", "bad", True)])
    notices.open(stage.window.side_bar.bell)


def _palette(stage: Stage) -> None:
    palette = CommandPalette(stage.window)
    palette.open()
    palette.show_entries([PaletteEntry("job", "x", EVIL, EVIL)])


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


def item_texts(widget: QWidget, role: Qt.ItemDataRole) -> Iterator[str]:
    """Return the texts of the first rows of a list in a role."""
    model = widget.model() if isinstance(widget, QAbstractItemView) else None
    if model is None:
        return
    columns = range(model.columnCount()) if isinstance(widget, QTableView) else (0,)
    for row in range(min(ROWS, model.rowCount())):
        for column in columns:
            text = model.index(row, column).data(role)
            if isinstance(text, str):
                yield text


def rich_texts(widget: QWidget) -> Iterator[str]:
    """Where a name would be read as markup, in a widget or what it lists."""
    if isinstance(widget, QLabel):
        text_format = widget.textFormat()
        # A `Label` may show less than it holds.
        text = QLabel.text(widget)
        may_be = text_format is Qt.TextFormat.AutoText and Qt.mightBeRichText(text)
        if EVIL[:5] in text and (may_be or text_format is Qt.TextFormat.RichText):
            yield f"label {text!r}"
    plain_text = widget.toPlainText() if isinstance(widget, QTextEdit) else ""
    if "bold" in plain_text and "<b>" not in plain_text:
        yield f"text {plain_text!r}"
    for tip in (widget.toolTip(), *item_texts(widget, Qt.ItemDataRole.ToolTipRole)):
        if EVIL in tip and Qt.mightBeRichText(tip):
            yield f"tool tip {tip!r} of {type(widget).__name__}"


@pytest.mark.parametrize("page", PAGES)
def test_f58_no_name_is_read_as_markup(page: str, theme_manager: ThemeManager) -> None:
    stage = Stage(LARGE)
    try:
        PAGES[page](stage)
        stage.settle()
        widgets = [stage.window, *stage.window.findChildren(QWidget)]
        if stage.overlay is not None:
            widgets += [stage.overlay, *stage.overlay.findChildren(QWidget)]
        names = [widget.accessibleName() for widget in widgets]
        names += [text for w in widgets for text in item_texts(w, Qt.ItemDataRole.DisplayRole)]
        assert any(EVIL in name for name in names), "the name is nowhere to be seen"
        assert [rich_text for widget in widgets for rich_text in rich_texts(widget)] == []
    finally:
        stage.close()
