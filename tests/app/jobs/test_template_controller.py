"""What a new job begins with, in the window: templates, jobs, files; and what is kept for later."""

from __future__ import annotations

import html
from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from app.jobs.form_controller import FormController
from app.shell.help import read_terms
from backend.records.jobs.settings import OPTIONS, SETTINGS
from backend.records.library.item import Combination, Kind
from backend.records.sweeps.values import Axis, ValueRange
from tests.backend.services.sweeps.test_sweep_service import paths, services
from tests.integration.tiny import raw_job, write_sources
from tests.windows import (
    all_fields,
    find_button,
    find_only,
    finish_timers,
    setting_field,
    side_of,
    start_buttons,
    visible_texts,
)
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.dialog import Question
from widgets.common.fields import Field, LineEdit, SearchField
from widgets.jobs.form import form_side
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.load_dialog import LoadDialog
from widgets.jobs.page.jobs_page import JobsPage

__all__ = ["paths", "services"]

RATE = Axis("optimizer.lr", (0.01, 0.1))
LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def started():
    """The requests for a start."""
    return []


@pytest.fixture
def form(qtbot, services, immediately, started):
    page, form = JobsPage(), JobForm()
    for widget in (page, form):
        qtbot.addWidget(widget)
    starts = SimpleNamespace(start=started.append, cancel=lambda _id: None)
    form.controller = FormController(services, immediately, starts, page, form, form)
    form.notifications = immediately.notifications
    form.resize(1200, 800)
    form.show()
    form.show_nodes(services.nodes.list())
    yield form
    form.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def dialog(form):
    return form.controller.templates.dialog


def save_template(form, name):
    """Save what is in the form as a template."""
    form._save_menu.actions()[0].trigger()
    name_dialog = dialog(form)
    assert isinstance(name_dialog, Question)
    find_only(LineEdit, name_dialog).setText(name)
    find_button(name_dialog, "Save").click()


def chips(form):
    return [b for b in find_only(FormSections, form).templates._buttons if not b.isHidden()]


def test_a_job_of_a_template_takes_three_clicks(form, services, started, qtbot):
    services.templates.save("night run", raw_job(1, epochs=7))
    form.controller.new_job()  # New job
    (chip,) = chips(form)
    assert chip.text() == "night run"
    qtbot.mouseClick(chip, LEFT_BUTTON)
    finish_timers(form)
    assert form.draft().raw["epochs"] == 7
    assert form.draft().raw["name"] == "tiny 1", "its name is its own"
    qtbot.mouseClick(start_buttons(form).start, LEFT_BUTTON)
    assert len(started) == 1


def chosen_parts(form):
    raw = form.draft().raw
    return [raw.get(key, "") for key in ("model", "dataset", "loader")]


def test_a_new_job_has_parts_that_fit_together(form, services, tmp_path):
    model, loader, dataset = write_sources(tmp_path / "more")
    for name in ("aaa", "zzz"):
        services.library.import_item(Kind.DATASET, dataset, name)
        services.library.import_item(Kind.MODEL, model, name)
    services.library.import_item(Kind.LOADER, loader, "zzz")
    form.show_choices(*(services.library.list(k) for k in (Kind.MODEL, Kind.DATASET, Kind.LOADER)))
    form.controller.new_job_with(Kind.DATASET, "zzz@1")
    assert chosen_parts(form) == ["zzz", "zzz", "zzz"], "its namesakes"
    services.jobs.create(raw_job(1))
    form.controller.new_job()
    assert chosen_parts(form) == ["tiny", "tiny", "tiny"], "as the newest job"
    form.controller.new_job_with(Kind.DATASET, "aaa@1")
    assert chosen_parts(form) == ["aaa", "aaa", ""], "no loader is known to read it"
    services.library.remove(Kind.MODEL, "tiny")
    form.controller.new_job()
    assert chosen_parts(form) == ["", "tiny", "tiny"], "what is gone is not chosen"


def test_a_new_job_prefers_parts_that_worked_together_and_newer_imports(form, services, tmp_path):
    _, loader, dataset = write_sources(tmp_path / "more")
    latest_job = services.jobs.create(raw_job(1))
    dataset = services.library.import_item(Kind.DATASET, dataset, "plankton")
    services.library.import_item(Kind.LOADER, loader, "nets")
    services.catalogue.put_item(replace(dataset, created="2999-01-01T00:00:00Z"))
    services.catalogue.put_job(replace(latest_job, created="2998-01-01T00:00:00Z"))
    form.show_choices(*(services.library.list(k) for k in (Kind.MODEL, Kind.DATASET, Kind.LOADER)))
    form.controller.new_job()
    assert chosen_parts(form) == ["", "plankton", ""], "the dataset came after the last job"
    combinations = (Combination("plankton", "nets", "tiny"),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(services.library), "known_combinations", lambda _: combinations)
        form.controller.new_job_with(Kind.DATASET, "plankton@1")
        assert chosen_parts(form) == ["tiny", "plankton", "nets"]


def test_a_job_is_named_after_its_model_until_the_user_names_it(form, services, tmp_path):
    model, *_ = write_sources(tmp_path / "more")
    services.library.import_item(Kind.MODEL, model, "resnet")
    form.show_choices(*(services.library.list(k) for k in (Kind.MODEL, Kind.DATASET, Kind.LOADER)))
    form.controller.new_job_with(Kind.MODEL, "tiny@1")
    name = setting_field(form, "name").control
    assert name.text() == "tiny 1"
    setting_field(form, "model").control.choose("resnet")
    finish_timers(form)
    assert name.text() == "resnet 1"
    name.setText("my job")
    setting_field(form, "model").control.choose("tiny")
    finish_timers(form)
    assert name.text() == "my job"


def test_the_settings_of_the_form_become_a_template_and_come_back(form, services):
    form.show_draft(JobDraft(raw_job(1, epochs=9), (RATE,), 2, 5))
    save_template(form, "search")
    assert form.notifications == ["Saved the template “search”"]
    assert services.templates.load("search")["sweep"] == {
        "random": 2,
        "seed": 5,
        "axes": {"optimizer.lr": [0.01, 0.1]},
    }
    form.show_draft(JobDraft(raw_job(1)))
    form.controller.templates.load("search")
    reloaded = form.draft()
    assert (reloaded.raw["epochs"], reloaded.axes, reloaded.draws, reloaded.seed) == (
        9,
        (RATE,),
        2,
        5,
    )
    assert reloaded.origin.label == "the template “search”"


def test_a_template_is_overwritten_only_by_its_own_button(form, services):
    form.show_draft(JobDraft(raw_job(1)))
    save_template(form, "night")
    form.show_draft(JobDraft(raw_job(1, epochs=5)))
    form._save_menu.actions()[0].trigger()
    name_dialog = dialog(form)
    find_only(LineEdit, name_dialog).setText("night")
    assert find_button(name_dialog, "Replace").text() == "Replace"
    assert (
        find_only(Field, name_dialog)._message_label.text()
        == "A template named “night” already exists and will be replaced."
    )
    find_only(LineEdit, name_dialog).setText("a/b")
    assert not find_button(name_dialog, "Save").isEnabled()
    assert "contains /" in find_only(Field, name_dialog).error()
    find_only(LineEdit, name_dialog).setText("night")
    find_button(name_dialog, "Replace").click()
    assert services.templates.load("night")["epochs"] == 5


def test_a_damaged_template_is_one_sentence_beside_start_and_changes_nothing(form, services):
    services.templates.save("night", raw_job(1))
    (services.data_root.templates / "night.toml").write_text("epochs = \n")
    form.show_draft(JobDraft(raw_job(1)))
    draft = form.draft()
    form.controller.templates.load("night")
    assert "line 1: invalid value" in side_of(form).refusal.text()
    assert side_of(form).refusal.isVisible()
    assert form.draft() == draft
    (services.data_root.templates / "odd.toml").write_text("[sweep]\naxes = 3\n")
    form.controller.templates.load("odd")
    assert side_of(form).refusal.text().startswith("sweep.axes: names no field.")


def test_templates_are_renamed_and_removed_where_they_are_listed(form, services, qtbot):
    for name in ("day", "night"):
        services.templates.save(name, raw_job(1))
    services.templates.save("bad", raw_job(1))
    (services.data_root.templates / "bad.toml").write_text("[")
    form.load_requested.emit()
    load_dialog = dialog(form)
    assert isinstance(load_dialog, LoadDialog)
    assert [t.name for t in load_dialog.templates.rows] == ["bad", "day", "night"]
    assert not find_button(load_dialog, "Load").isEnabled(), "the damaged one is chosen"
    load_dialog._template_table.selectRow(1)
    find_button(load_dialog, "Rename…").click()
    find_only(LineEdit, find_only(Question, load_dialog)).setText("night")
    assert not find_button(find_only(Question, load_dialog), "Rename").isEnabled()
    find_only(LineEdit, find_only(Question, load_dialog)).setText("Tag")
    find_button(find_only(Question, load_dialog), "Rename").click()
    assert [t.name for t in load_dialog.templates.rows] == ["bad", "night", "Tag"]
    load_dialog._template_table.selectRow(0)
    find_button(load_dialog, "Move to trash").click()
    assert [t.name for t in services.templates.list()] == ["night", "Tag"]
    assert [t.text() for t in chips(form)] == ["night", "Tag"]
    find_only(SearchField, load_dialog).setText("nig")
    finish_timers(find_only(SearchField, load_dialog))
    assert [t.name for t in load_dialog.templates.rows] == ["night"]
    find_only(SearchField, load_dialog).setText("nothing")
    finish_timers(find_only(SearchField, load_dialog))
    assert find_only(EmptyState, load_dialog).isVisible()
    find_only(SearchField, load_dialog).clear()
    load_dialog._template_table.selectRow(0)
    QTest.keyClick(load_dialog, Qt.Key.Key_Return)
    assert dialog(form) is None
    assert form.draft().origin.label == "the template “night”"


def test_the_settings_of_any_job_can_be_found_and_loaded(form, services):
    names = ("alpha", "beta", "gamma")
    views = [
        services.jobs.create(raw_job(1, name=name, epochs=n)) for n, name in enumerate(names, 1)
    ]
    form.load_requested.emit()
    load_dialog = dialog(form)
    assert find_only(SegmentedControl, load_dialog).key() == "jobs", "there is no template"
    assert len(load_dialog.jobs.rows) == 3
    find_only(SearchField, load_dialog).setText("beta")
    finish_timers(find_only(SearchField, load_dialog))
    assert [r.id for r in load_dialog.jobs.rows] == [views[1].id]
    find_button(load_dialog, "Load").click()
    assert form.draft().raw["epochs"] == 2
    assert form.draft().origin.label == "“beta”"
    assert form.draft().raw["model"] == "tiny@1", "the very version"


def test_the_form_lists_the_differences_from_the_loaded_job(form, services):
    job = services.jobs.create(raw_job(1, name="digits 3"))
    form.controller.load_job(job.id)
    assert "Same settings as “digits 3”" in visible_texts(side_of(form))
    for path, text in (("epochs", "9"), ("optimizer.lr", "0.1")):
        setting_field(form, path).control.setText(text)
    finish_timers(form)
    assert "Differs from “digits 3”" in visible_texts(side_of(form))
    rows = [
        side_of(form)._changes.itemAt(n).layout() for n in range(side_of(form)._changes.count())
    ]
    labels = [tuple(row.itemAt(n).widget().text() for n in (0, 1)) for row in rows]
    assert labels == [("Epochs", "4 → 9"), ("Learning rate", "0.05 → 0.1")]
    form.controller.new_job()
    assert side_of(form)._differences.isHidden()


def test_a_sweep_file_is_opened_in_the_form_and_saved_from_it(
    form, tmp_path, monkeypatch, services
):
    axis = Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, "log"))
    form.show_draft(JobDraft(raw_job(1), (axis,), 4, 9))
    path = tmp_path / "search.toml"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    form._save_menu.actions()[1].trigger()
    assert form.notifications == [f"Wrote {path}"]
    assert services.sweeps.read(path).draws == 4
    form.controller.new_job()
    form.controller.open_job_file(path)
    reloaded = form.draft()
    assert (reloaded.axes, reloaded.draws, reloaded.seed) == ((axis,), 4, 9)
    finish_timers(form)
    assert start_buttons(form).start.text() == "Queue 4 jobs"
    start_buttons(form).start.click()
    assert len(services.queue.read().jobs) == 4
    path.write_text("[sweep]\nrandom = 'many'\n[sweep.axes]\nlr = [1, 2]\n")
    form.controller.open_job_file(path)
    assert "sweep.random: must be a whole number, not text." in side_of(form).refusal.text()


def test_a_draw_of_too_many_or_no_number_is_an_error_at_its_field(form):
    form.show_draft(JobDraft(raw_job(1), (RATE,), 2, 1))
    card = find_only(FormSections, form).sweep
    assert card.isVisible()
    card._draw_count.control.setText("many")
    finish_timers(form)
    assert card._draw_count.error() == "Jobs must be 1 to 200, not 0."
    assert not start_buttons(form).start.isEnabled()
    card._draw_count.control.setText("9")
    form._request_check()
    assert "these values give only 2 different ones" in setting_field(form, "optimizer.lr").error()
    find_only(SegmentedControl, card)._group.button(0).click()
    form._request_check()
    assert start_buttons(form).start.text() == "Queue 2 jobs"
    assert form.draft().draws is None


def test_the_items_of_the_dataset_are_counted_once(form, services, monkeypatch):
    dataset_names = []
    monkeypatch.setattr(
        services.jobs, "count_items", lambda raw: dataset_names.append(raw["dataset"]) or False
    )
    form.show_draft(JobDraft(raw_job(1)))
    for _ in range(3):
        finish_timers(form)
    assert dataset_names == ["tiny"]


def test_every_term_of_the_form_is_explained_in_the_help(form):
    terms = read_terms()
    used_terms = {s.term for s in SETTINGS.values() if s.term}
    assert used_terms | {*form_side._TERMS.values()} <= set(terms)
    assert terms["rank"].startswith("One training process of a job")
    for table, options in OPTIONS.items():
        for name in options:
            setting_field(form, f"{table}.name").control.choose(name)
            for path, field in all_fields(form).items():
                term = SETTINGS[path].term
                assert path == "name" or term, f"{path} is not explained"
                if term:
                    assert terms[term][:40] in html.unescape(field._label.toolTip())


def test_a_help_that_cannot_be_read_explains_nothing(tmp_path):
    assert read_terms(tmp_path / "gone.md") == {}
