"""The list of what a job can start from, over a real data root."""

from __future__ import annotations

import hashlib

import pytest
from PySide6.QtWidgets import QFileDialog

from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.checkpoint import Checkpoint
from tests.app.test_bad_input import form, page
from tests.backend.services.sweeps.test_sweep_service import paths, services
from tests.fakes import trained
from tests.integration.tiny import raw_job
from tests.windows import finish_timers, setting_field
from widgets.jobs.form.job_fields import JobDraft

__all__ = ["form", "page", "paths", "services"]

NAME = "epoch-3-step-30"


def trained_job(paths, services, name="kept"):
    """A job with one checkpoint, as the catalogue knows it."""
    job_id = trained.job(paths[0], name, [1.0] * 30)
    folder = DataRoot(paths[0]).job(job_id).checkpoints
    folder.mkdir(exist_ok=True)
    content = b"weights"
    (folder / f"{NAME}.pt").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    checkpoint = Checkpoint(
        NAME, 1, 3, 30, 0, len(content), sha256, "0" * 64, "2026-11-21T08:00:00Z"
    )
    replace_json(folder / f"{NAME}.json", checkpoint.to_dict())
    services.jobs.queries.list()
    return job_id


def rows(form):
    return [r.text for r in form.start_from.popover.rows.rows]


@pytest.mark.parametrize("start_from", ["kept", "kept/latest", f"kept/{NAME}", "{id}"])
def test_a_job_is_given_by_its_name_and_pinned_by_its_id(paths, services, start_from):
    job_id = trained_job(paths, services)
    trained_job(paths, services, "kept by others")
    raw = {**raw_job(1), "start_from": start_from.format(id=job_id)}
    assert services.jobs.create(raw).config.start_from == f"{job_id}/{NAME}"


def test_a_name_of_two_jobs_is_refused_with_their_ids(paths, services):
    ids = {trained_job(paths, services), trained_job(paths, services)}
    (error,) = services.jobs.check({**raw_job(1), "start_from": "kept"}).errors
    assert "“kept” is the name of 2 jobs" in error.message
    assert all(job_id in error.message for job_id in ids)


def test_a_checkpoint_is_chosen_of_jobs_that_match_and_passes_the_check(form, paths, services):
    job_id = trained_job(paths, services)
    trained_job(paths, services, "other")
    form.show_draft(JobDraft(raw_job(1)))
    form.start_from.open()
    popover = form.start_from.popover
    assert rows(form)[3:] == ["other", "kept"]
    popover.search.setText("kept")
    finish_timers(popover.search)
    assert rows(form) == ["kept", "Use “kept”"]
    popover._choose_row(popover.rows.index(0, 0))
    assert rows(form) == ["Back to all jobs", "Epoch 3, step 30"]
    popover._choose_row(popover.rows.index(1, 0))
    assert form.draft().raw["start_from"] == f"{job_id}/{NAME}"
    finish_timers(form)
    assert setting_field(form, "start_from").error() == ""


def test_a_draft_that_starts_from_a_checkpoint_shows_the_name_of_its_job(form, paths, services):
    job_id = trained_job(paths, services)
    form.controller.show_draft(JobDraft(raw_job(1, start_from=f"{job_id}/latest")))
    assert form.start_from.text() == "kept, latest"
    assert form.draft().raw["start_from"] == f"{job_id}/latest"
    form.controller.show_draft(JobDraft(raw_job(1, start_from="gone/latest")))
    assert form.start_from.text() == "gone/latest"


def test_a_file_is_chosen_in_the_systems_own_dialog(form, tmp_path, monkeypatch):
    file = tmp_path / "w.pt"
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    form.show_draft(JobDraft(raw_job(1)))
    form.start_from.file_requested.emit()
    assert form.draft().raw["start_from"] == str(file)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    form.start_from.file_requested.emit()
    assert form.draft().raw["start_from"] == str(file)
