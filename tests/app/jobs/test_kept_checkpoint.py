"""Keep always and Check file in the window: what the service says comes back to the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.base.errors import BackendError
from backend.records.jobs.audit_entry import AuditEntry
from tests.app.nodes.test_move_off_node import RUNS, Jobs, controller, page, poller
from tests.widgets.jobs.checkpoints.test_checkpoints_tab import cells
from tests.widgets.jobs.detail.test_job_detail import checkpoint
from tests.windows import button, says, the
from widgets.common.banner import Banner

__all__ = ["controller", "page", "poller"]

pytestmark = pytest.mark.usefixtures("controller")


class Keeping(Jobs):
    def __init__(self):
        super().__init__()
        self.done = []
        self.found = (checkpoint(30),)
        self.fault = ""

    def keep(self, job_id, name, *, is_kept):
        if self.refusal is not None:
            raise self.refusal
        self.done.append((job_id, name, is_kept))
        self.found = tuple(replace(one, is_kept=is_kept) for one in self.found)
        return self.found[0]

    def find_damage(self, _job_id, _name):
        if self.refusal is not None:
            raise self.refusal
        return self.fault

    def audit_entries(self, _job_id):
        return tuple(AuditEntry("", f"Always kept: {name}") for _, name, _ in self.done)


@pytest.fixture
def jobs():
    return Keeping()


@pytest.fixture
def tab(page):
    tab = page.detail.checkpoints
    page.detail.show_checkpoints(RUNS.id, (checkpoint(30),))
    return tab


def test_notes_record_that_a_checkpoint_is_always_kept(jobs, page, tab):
    name = checkpoint(30).name
    button(tab, "Keep always").click()
    assert jobs.done == [(RUNS.id, name, True)]
    assert button(tab, "Stop keeping").text() == "Stop keeping"
    assert cells(tab, "") == ["kept"]
    assert says(tab, "and 1 that you chose")
    assert says(page.detail.notes, f"Always kept: {name}")
    button(tab, "Stop keeping").click()
    assert jobs.done[-1] == (RUNS.id, name, False)


def test_the_page_says_that_a_checkpoint_is_gone(jobs, page, tab):
    jobs.refusal = BackendError("The run has just removed the checkpoint.")
    button(tab, "Keep always").click()
    assert "has just removed" in the(Banner, page.detail).accessibleName()


@pytest.mark.parametrize(
    ("fault", "refusal", "wanted"),
    [
        ("", None, "checked"),
        ("Its contents have changed.", None, "damaged"),
        ("", BackendError("The share does not answer."), "not checked"),
    ],
)
def test_the_file_of_a_checkpoint_is_checked(jobs, tab, fault, refusal, wanted):
    jobs.fault, jobs.refusal = fault, refusal
    button(tab, "Check file").click()
    assert cells(tab, "") == [wanted]
    said = fault or getattr(refusal, "sentence", "its hash matches")
    (tip,) = cells(tab, "", Qt.ItemDataRole.ToolTipRole)
    assert said in tip
