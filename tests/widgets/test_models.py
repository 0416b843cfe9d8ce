"""Every model of rows keeps the promises that Qt's views rely on, empty and through its changes."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest
from PySide6.QtCore import QAbstractItemModel

import app
import widgets
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.item import Kind, LibraryItem
from backend.records.library.layers import Layer
from backend.records.sweeps.parallel_coordinates import parallel_plot
from tests.app.jobs.test_status_poller import LIVE
from tests.widgets.compare.sweep_samples import sweep
from tests.widgets.jobs.jobs_rig import rows_of
from tests.widgets.nodes import samples
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.compare.parallel_card import _LineModel
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointModel
from widgets.jobs.form import start_from
from widgets.jobs.list.job_list_model import JobListModel
from widgets.library.item_groups import EntryModel, group_by_name
from widgets.library.layers_view import LayerModel
from widgets.nodes.page.rack import RackModel
from widgets.nodes.row.node_row import node_row
from widgets.shell.overlay import RecordListModel

pytestmark = pytest.mark.usefixtures("theme_manager")
SHOWN_INDICES = ((0, 1, 2, 3), (3, 1, 0), (), (2,), (0, 1, 2, 3))
"""The shown rows, one set after the other: fewer, others, none, another order, all again."""


def jobs(in_columns):
    model = JobListModel(has_columns=in_columns)
    all_rows = rows_of(*(replace(LIVE, id=name, name=name) for name in "abcd"))
    return model, lambda indices: model.show_rows(
        replace(all_rows, order=all_rows.order[list(indices)])
    )


def records(kind, record, columns=1):
    title = TableColumn("Name", str, str)
    model = kind(tuple([title] * columns))
    return model, lambda indices: model.set_records([record(number) for number in indices])


def checkpoint(number):
    name = f"epoch-{number}"
    return Checkpoint(name, 1, number, 0, 0, 9, "0" * 64, "", "", path=f"/{name}.pt")


def best_lines():
    lines = parallel_plot(sweep()).ranked()
    return records(_LineModel, lambda number: lines[number], 2)


def library():
    model = EntryModel()
    items = [LibraryItem(Kind.MODEL, f"m{n}", 1, "0" * 64, 9, 1, "") for n in range(4)]
    return model, lambda indices: model.set_entries(
        group_by_name(tuple(items[number] for number in indices))
    )


def layers():
    model = LayerModel()
    all_layers = [Layer(f"layer{n}", "Linear", (1, n), n, n, n, True) for n in range(4)]
    return model, lambda indices: model.show_layers(tuple(all_layers[number] for number in indices))


def nodes():
    model = RackModel()
    rows = [node_row(samples.state(f"gpu{number}")) for number in range(4)]
    return model, lambda indices: model.set_rows([rows[number] for number in indices])


def titles():
    model = RecordListModel(lambda title: (title, "aside"), str, None)
    return model, lambda indices: model.replace(tuple(f"title {number}" for number in indices))


MODELS = {
    "jobs as a list": (JobListModel, lambda: jobs(False)),
    "jobs as a table": (JobListModel, lambda: jobs(True)),
    "any records": (RowTableModel, lambda: records(RowTableModel, lambda n: f"record {n}", 3)),
    "checkpoints": (CheckpointModel, lambda: records(CheckpointModel, checkpoint, 2)),
    "jobs of a sweep": (_LineModel, best_lines),
    "what a job can start from": (
        start_from._RowModel,
        lambda: records(
            start_from._RowModel, lambda n: start_from._Row(f"row {n}", action="value"), 2
        ),
    ),
    "library": (EntryModel, library),
    "layers": (LayerModel, layers),
    "nodes": (RackModel, nodes),
    "targets and notices": (RecordListModel, titles),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_the_promises_of_qt(name, qtmodeltester):
    model, show = MODELS[name][1]()
    qtmodeltester.check(model)
    for indices in SHOWN_INDICES:
        show(indices)
        assert model.rowCount() == len(indices)
        # The tester keeps watching the signals between these; this checks what is there now.
        qtmodeltester.check(model)


def test_no_model_of_the_window_is_left_out():
    for package in (app, widgets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    tested_kinds = {kind for kind, _ in MODELS.values()}
    assert {
        kind.__qualname__ for kind in project_subclasses(QAbstractItemModel) - tested_kinds
    } == set()


def project_subclasses(kind):
    """Return all subclasses of a class in this project."""
    subclasses = set()
    for child in kind.__subclasses__():
        if child.__module__.partition(".")[0] in ("app", "widgets"):
            subclasses.add(child)
        subclasses |= project_subclasses(child)
    return subclasses
