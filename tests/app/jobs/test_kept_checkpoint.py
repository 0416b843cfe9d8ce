"""Keep always and Check file in the window: what the service says comes back to the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.base.errors import BackendError
from backend.records.jobs.audit_entry import AuditEntry
from tests.app.nodes.test_move_off_node import RUNS, Jobs, controller, page, poller
from tests.asks import open_menu_entries
from tests.widgets.jobs.checkpoints.test_checkpoints_tab import cells
from tests.widgets.jobs.detail.test_job_detail import checkpoint
from tests.windows import find_only, shows_text
from widgets.common.banner import Banner

__all__ = ["controller", "page", "poller"]

pytestmark = pytest.mark.usefixtures("controller")


class KeepingJobs(Jobs):
    def __init__(self):
        super().__init__()
        self.calls = []
        self.saved_checkpoints = (checkpoint(30),)
        self.damage = ""

    def keep(self, job_id, name, *, is_kept):
        if self.refusal is not None:
            raise self.refusal
        self.calls.append((job_id, name, is_kept))
        self.saved_checkpoints = tuple(replace(c, is_kept=is_kept) for c in self.saved_checkpoints)
        return self.saved_checkpoints[0]

    def find_damage(self, _job_id, _name):
        if self.refusal is not None:
            raise self.refusal
        return self.damage

    def audit_entries(self, _job_id):
        return tuple(AuditEntry("", f"Always kept: {name}") for _, name, _ in self.calls)


@pytest.fixture
def jobs():
    return KeepingJobs()


@pytest.fixture
def tab(page):
    tab = page.detail.checkpoints
    page.detail.show_checkpoints(RUNS.id, (checkpoint(30),))
    return tab


def test_notes_record_that_a_checkpoint_is_always_kept(jobs, page, tab):
    name = checkpoint(30).name
    open_menu_entries(tab.more_button)["Keep always"].trigger()
    assert jobs.calls == [(RUNS.id, name, True)]
    assert cells(tab, "") == ["kept"]
    assert shows_text(tab, "and 1 that you chose")
    assert shows_text(page.detail.notes, f"Always kept: {name}")
    open_menu_entries(tab.more_button)["Stop keeping"].trigger()
    assert jobs.calls[-1] == (RUNS.id, name, False)


def test_the_page_says_that_a_checkpoint_is_gone(jobs, page, tab):
    jobs.refusal = BackendError("The run has just removed the checkpoint.")
    open_menu_entries(tab.more_button)["Keep always"].trigger()
    assert "has just removed" in find_only(Banner, page.detail).accessibleName()


@pytest.mark.parametrize(
    ("damage", "refusal", "mark"),
    [
        ("", None, "checked"),
        ("Its contents have changed.", None, "damaged"),
        ("", BackendError("The share does not answer."), "not checked"),
    ],
)
def test_the_file_of_a_checkpoint_is_checked(jobs, tab, damage, refusal, mark):
    jobs.damage, jobs.refusal = damage, refusal
    open_menu_entries(tab.more_button)["Check file"].trigger()
    assert cells(tab, "") == [mark]
    tip_part = damage or getattr(refusal, "message", "its hash matches")
    (tip,) = cells(tab, "", Qt.ItemDataRole.ToolTipRole)
    assert tip_part in tip
