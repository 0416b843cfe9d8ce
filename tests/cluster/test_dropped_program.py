"""A training program of one's own, from a dropped folder to its curve on three nodes: ten clicks.

Then everything else that a job of this program does is done with it, in the window, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.user import User
from tests.programs import services_of
from tests.waiting import LIMIT_MS
from tests.windows import find_only
from widgets.jobs.log.log_view import LogView
from widgets.library.import_dialog import ImportDialog

pytestmark = pytest.mark.slow

MOST_CLICKS = 10
NODES = ("node1", "node2", "node3")
PROGRAM = """
import argparse, os, time
import torch, torch.distributed
given = argparse.ArgumentParser()
given.add_argument("--lr", type=float, default=0.05, help="learning rate")
given.add_argument("--hidden", type=int, default=8, help="units of the hidden layer")
given.add_argument("--epochs", type=int, default=100000)
given.add_argument("--save", default="model.pt")
given.add_argument("--resume", default="")
given = given.parse_args()
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
net = torch.nn.Sequential(
    torch.nn.Linear(4, given.hidden), torch.nn.Tanh(), torch.nn.Linear(given.hidden, 1))
first = 1
if given.resume:
    saved = torch.load(given.resume)
    first = saved["epoch"] + 1
    net.load_state_dict(saved["net"])
net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), given.lr)
for epoch in range(first, given.epochs + 1):
    data = torch.randn(32, 4)
    loss = (net(data) - data.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"| epoch {epoch:3d} | ms/batch {3.25} | loss {loss.item():.4f}", flush=True)
        if epoch == first:
            torch.save({"epoch": epoch, "net": net.module.state_dict()}, given.save)
    time.sleep(0.1)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


@pytest.fixture
def user(program: Program, qtbot: QtBot, tmp_path: Path) -> Iterator[User]:
    yield User(program, qtbot, tmp_path / "pictures")
    jobs = services_of(program).jobs
    for view in jobs.queries.list():
        jobs.lifecycle.stop(view.id)
        jobs.queries.wait(view.id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my-program"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (folder / "utilities.py").write_text("")
    return folder


@pytest.mark.timeout(1500)
def test_a_dropped_program_trains_on_three_nodes_in_ten_clicks_and_does_all_that_a_job_does(
    program: Program, user: User, folder: Path, tmp_path: Path
) -> None:
    open_form(program, user, folder)
    user.write_field("Arguments", "--save {output}/model.pt")
    user.tab_to("Arguments to resume")
    user.type_text("--resume {checkpoint}")
    start(program, user)
    mark(program, user, "loss")
    wait_for_curve(program, user, "loss")
    assert user.clicks <= MOST_CLICKS
    first = displayed_job(program)
    assert first.nodes == NODES

    user.press_button("Stop")
    user.wait(lambda: displayed_job(program).state.is_over)
    assert displayed_job(program).state is JobState.INTERRUPTED, displayed_job(program).error
    stopped_at = displayed_job(program).step
    user.take_pictures("stopped")
    user.press_button("Resume")
    user.wait(lambda: displayed_job(program).run == 2)
    wait_for_curve(program, user, "loss", stopped_at + 3)
    user.press_button("Stop")
    user.wait(lambda: displayed_job(program).state.is_over)

    user.choose_from_menu(program.jobs.detail.header.menu_button, "Bundle…")
    bundle = tmp_path / "mine.ringmaster"
    user.write_field("To", str(bundle))
    user.take_pictures("bundle")
    user.press_button("Bundle")
    user.wait(bundle.exists)
    user.press_button("Close")

    _queue_sweep(program, user)


def _queue_sweep(program: Program, user: User) -> None:
    previous_ids = {view.id for view in services_of(program).jobs.queries.list()}
    user.choose_from_menu(program.jobs.detail.header.menu_button, "Clone")
    form = program._pages.form
    user.wait(lambda: form.isVisible() and form.draft().raw.get("script"))
    user.write_field("Arguments", "--save {output}/model.pt --epochs 20")
    user.press_button("Fields from --help")
    for name, values in (("lr", "0.1, 0.01"), ("hidden", "4, 8")):
        user.press_button(f"Several values of {name}", 2 * LIMIT_MS)
        user.press_key("Ctrl+A")
        user.type_text(values)
        user.press_button("Use 2 values")
    user.take_pictures("sweep")
    user.press_button("Queue 4 jobs")

    def sweep_jobs() -> list[JobView]:
        views = services_of(program).jobs.queries.list()
        return [view for view in views if view.id not in previous_ids]

    user.wait(lambda: len(sweep_jobs()) == 4)
    user.take_pictures("swept")
    user.wait(lambda: all(view.state.is_over for view in sweep_jobs()), 600_000)
    assert {view.state for view in sweep_jobs()} == {JobState.FINISHED}, [
        v.error for v in sweep_jobs()
    ]
    lines = {" ".join(view.config.arguments) for view in sweep_jobs()}
    assert len(lines) == 4
    assert all("--epochs 20" in line for line in lines)


# Used by tries with other programs, too.


def displayed_job(program: Program) -> JobView:
    view = program.jobs.open_view
    assert view is not None
    return view


def open_form(program: Program, user: User, folder: Path) -> None:
    user.drop(folder)
    user.wait(lambda: user.open_dialogs(ImportDialog))
    user.take_pictures("dropped")
    user.press_button("Import")
    user.press_button("New job with it")
    form = program._pages.form
    user.wait(lambda: form.isVisible() and form.draft().raw.get("script") == folder.name)
    assert services_of(program).library.list(Kind.SCRIPT)


def start(program: Program, user: User) -> None:
    previous_ids = {view.id for view in services_of(program).jobs.queries.list()}
    user.press_button("Select 3 nodes for me")
    user.wait(lambda: len(program._pages.form.draft().raw["placement"]) == 3)
    user.take_pictures("new-job")
    user.press_button("Start on 3 processes")
    user.wait(lambda: (view := program.jobs.open_view) and view.id not in previous_ids)
    user.wait(
        lambda: (
            displayed_job(program).state is JobState.TRAINING
            or displayed_job(program).state.is_over
        )
    )
    assert displayed_job(program).state is JobState.TRAINING, displayed_job(program).error
    user.take_pictures("training")


def mark(program: Program, user: User, name: str) -> None:
    """Draw a number that the program prints."""
    user.press_button("Log")
    view = find_only(LogView, program.jobs.detail)

    user.wait(lambda: name in (view.line_text(view.first_line) or ""))
    user.take_pictures("log")
    user.wait(lambda: name in (view.line_text(view.first_line) or ""))
    user.open_menu(view.viewport(), QPoint(80, 2))
    user.pick_entry(f"Draw .*{name}.*")
    user.take_pictures("number")
    user.press_button("Draw")


def wait_for_curve(program: Program, user: User, curve_name: str, point_count: int = 3) -> None:
    """Wait for a curve of the open job."""

    def is_shown() -> bool:
        shown_curve = program.jobs.detail.curves.curve(curve_name)
        is_drawn = shown_curve is not None and len(shown_curve) >= point_count
        return displayed_job(program).state.is_over or is_drawn

    user.wait(is_shown, 600_000)
    assert not displayed_job(program).state.is_over, displayed_job(program).error
    user.take_pictures(f"curve-{curve_name.replace('/', '-')}")
