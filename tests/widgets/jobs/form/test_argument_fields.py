"""The fields of a script's arguments: the line has all of them, typed or chosen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from backend.records.jobs.script_help import ScriptArgument, ScriptHelp
from backend.records.jobs.view import JobCheck
from backend.records.sweeps.values import Axis, parse_axis
from tests.windows import find_only, job_fields, shows_text
from widgets.common.fields import ComboBox
from widgets.jobs.form import argument_fields
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.swept_fields import MultiValueButton

ARGUMENTS = (
    ScriptArgument("--lr", "number", "0.1", help_text="the rate", aliases=("--learning-rate",)),
    ScriptArgument("--batch-size", "whole", "32", aliases=("-b",)),
    ScriptArgument("--opt", "choice", "sgd", ("sgd", "adam")),
    ScriptArgument("--amp", "flag"),
    ScriptArgument("--out"),
)
HYDRA = (
    ScriptArgument("epochs=", "whole", "10"),
    ScriptArgument("model=", "choice", "", ("a", "b")),
)
LINE = ["fit", "--out", "{output}", "-b", "64"]


class Rig:
    """A form with a job that runs a script."""

    def __init__(self, qtbot, arguments, axes=()) -> None:
        self.qtbot, self.form = qtbot, JobForm()
        qtbot.addWidget(self.form)
        self.form.resize(1400, 900)
        self.requests = []
        self.form.help_requested.connect(self.requests.append)
        raw = {"name": "x", "script": "mine", "arguments": arguments, "placement": []}
        self.form.show_draft(JobDraft(raw, axes))
        self.form.show()
        self.fields = job_fields(self.form)
        self.part = find_only(FormSections, self.form).arguments

    def control(self, name):
        return self.fields.field(f"arguments.{name}").control

    def type(self, control, text):
        (control.lineEdit() if isinstance(control, ComboBox) else control).selectAll()
        self.qtbot.keyClicks(control, text)
        if not text:
            self.qtbot.keyClick(control, Qt.Key.Key_Delete)

    @property
    def arguments(self):
        return self.form.draft().raw.get("arguments")

    @property
    def names(self):
        return [path.partition(".")[2] for path in self.part._paths]


def sweep_button_names(form):
    """The buttons for several values that Tab reaches."""
    buttons = form.findChildren(MultiValueButton)
    return {button.accessibleName() for button in buttons if button.isVisible()}


@pytest.fixture
def rig(qtbot):
    new_rig = Rig(qtbot, LINE)
    new_rig.part.switch.click()
    new_rig.form.show_arguments(ScriptHelp(ARGUMENTS))
    return new_rig


def test_the_switch_requests_the_arguments_and_the_fields_show_the_line(rig):
    assert [raw["script"] for raw in rig.requests] == ["mine"]
    assert rig.names == ["lr", "b", "opt", "amp", "out"]
    assert (rig.control("lr").text(), rig.control("lr").placeholderText()) == ("", "0.1")
    assert (rig.control("b").text(), rig.control("out").text()) == ("64", "{output}")
    assert (rig.control("opt").currentText(), rig.control("amp").isChecked()) == (
        "sgd (default)",
        False,
    )
    assert rig.arguments == LINE


def test_a_field_writes_its_value_into_the_line(rig):
    rig.type(rig.control("lr"), "1e-3")
    rig.type(rig.control("b"), "128")
    rig.control("opt").choose("adam")
    rig.control("amp").click()
    rig.type(rig.control("out"), "{output}/my run")
    expected_words = [
        "fit",
        "--out",
        "{output}/my run",
        "-b",
        "128",
        "--lr",
        "1e-3",
        "--opt",
        "adam",
        "--amp",
    ]
    assert rig.arguments == expected_words
    rig.type(rig.control("lr"), "")
    rig.control("opt").setCurrentIndex(0)
    rig.control("amp").click()
    assert rig.arguments == expected_words[:5]


def test_the_fields_show_arguments_typed_in_the_line(rig):
    line = rig.fields.field("arguments").control
    rig.type(line, "--lr 0.5 --amp --opt adam x")
    assert (rig.control("lr").text(), rig.control("opt").key()) == ("0.5", "adam")
    assert (rig.control("amp").isChecked(), rig.control("out").text()) == (True, "")
    rig.type(line, '--lr 0.5 --note "half')
    assert not rig.fields.field("arguments.lr").isEnabled()
    assert rig.arguments == '--lr 0.5 --note "half'
    rig.qtbot.keyClicks(line, '"')
    assert rig.fields.field("arguments.lr").isEnabled()
    assert rig.arguments == ["--lr", "0.5", "--note", "half"]


@pytest.mark.parametrize(
    ("name", "text", "has_error"),
    [
        ("lr", "1e-4", False),
        ("lr", "much", True),
        ("lr", "{seed}", False),
        ("b", "3.5", True),
        ("b", "-3", False),
        ("out", "much", False),
        ("lr", "", False),
    ],
)
def test_a_value_that_is_no_number_is_marked_and_can_be_started(rig, name, text, has_error):
    rig.type(rig.control(name), text)
    rig.form.show_check(JobCheck(global_batch=1))
    assert ("names a" in rig.fields.field(f"arguments.{name}").error()) == has_error
    assert rig.form._may_start


def test_tab_goes_from_the_switch_through_the_fields(rig):
    chain, widget = [], rig.part.switch
    while len(chain) < 60:
        widget = widget.nextInFocusChain()
        chain.append(widget)
    indices = [chain.index(rig.control(name)) for name in rig.names]
    assert indices == sorted(indices)
    assert max(indices) < 30


def test_the_switch_takes_the_fields_away_and_the_line_stays(rig):
    rig.type(rig.control("lr"), "0.2")
    arguments = rig.arguments
    rig.part.switch.click()
    assert (rig.names, rig.arguments) == ([], arguments)


@pytest.mark.parametrize("path", ["script", "entry", "python"])
def test_another_script_or_entry_takes_the_fields_away(rig, path):
    if path == "script":
        rig.fields.set_options("script", (("other", "other"),))
        rig.fields.field("script").control.choose("other")
    else:
        rig.type(rig.fields.field(path).control, "x")
    assert (rig.names, rig.part.switch.isChecked()) == ([], False)


def test_a_script_without_help_is_a_sentence_and_the_line_stays(rig):
    rig.form.show_arguments_error("train.py --help ended with 1: no. Type its arguments.")
    assert shows_text(rig.part, "ended with 1")
    assert (rig.part.switch.isChecked(), rig.arguments) == (False, LINE)


def test_an_argument_of_hydra_is_written_as_hydra_has_it(qtbot):
    rig = Rig(qtbot, [])
    rig.form.show_arguments(ScriptHelp(HYDRA))
    rig.type(rig.control("epochs"), "3")
    rig.control("model").choose("b")
    assert rig.arguments == ["epochs=3", "model=b"]
    rig.fields.swept_fields.show_axis(parse_axis("arguments.epochs", "4,5"))
    assert rig.arguments == ["epochs=4", "model=b"]


def test_several_values_of_an_argument_are_an_axis(rig):
    rig.fields.swept_fields.show_axis(parse_axis("arguments.lr", "0.1,0.01"))
    rig.fields.swept_fields.show_axis(Axis("arguments.amp", (True, False)))
    draft = rig.form.draft()
    assert [axis.path for axis in draft.axes] == ["arguments.lr", "arguments.amp"]
    assert draft.raw["arguments"] == [*LINE, "--lr", "0.1", "--amp"]
    rig.part.switch.click()
    assert rig.names == ["lr", "amp"]
    assert rig.form.draft().axes == draft.axes
    find_only(FormSections, rig.form).job_kind.choose("model")
    rig.form._choose_job_kind()
    assert rig.form.draft().axes == ()


def test_a_job_with_a_script_has_no_gallery_and_no_trial_until_it_runs_a_model(rig):
    def visible_parts():
        rig.form.show_check(JobCheck(global_batch=1))
        return find_only(FormSections, rig.form).gallery.isVisible(), find_only(
            FormSections, rig.form
        ).trial.isVisible()

    assert visible_parts() == (False, False)
    for kind, is_visible in (("model", True), ("script", False), ("model", True)):
        find_only(FormSections, rig.form).job_kind.choose(kind)
        rig.form._choose_job_kind()
        assert visible_parts() == (is_visible, is_visible)


def test_a_sweep_over_arguments_comes_back_into_the_form(qtbot):
    axes = (parse_axis("arguments.lr", "0.1, 0.2"),)
    rig = Rig(qtbot, ["--lr", "0.1"], axes)
    assert (rig.names, rig.form.draft().axes) == (["lr"], axes)
    rig.form.show_draft(JobDraft({"name": "y", "script": "mine", "arguments": ["--x"]}))
    assert (rig.names, rig.form.draft().axes, rig.arguments) == ([], (), ["--x"])


def test_a_program_with_very_many_arguments_has_fields_for_the_first(qtbot):
    rig = Rig(qtbot, [])
    many = tuple(ScriptArgument(f"--x{n}") for n in range(argument_fields.MAX_FIELDS + 7))
    rig.form.show_arguments(ScriptHelp(many))
    assert len(rig.names) == argument_fields.MAX_FIELDS
    assert shows_text(rig.part, f"of {argument_fields.MAX_FIELDS + 7}")
    qtbot.waitUntil(lambda: "Several values of x0" in sweep_button_names(rig.form))


def test_the_next_job_with_a_script_has_its_fields_again(qtbot) -> None:
    rig = Rig(qtbot, LINE)
    rig.part.switch.setChecked(True)
    rig.form.show_arguments(ScriptHelp(ARGUMENTS))
    axis = parse_axis("arguments.lr", "0.1, 0.2")
    raw = {"name": "y", "script": "mine", "arguments": LINE, "placement": []}
    rig.form.show_draft(JobDraft(raw, (axis,)))
    assert rig.part.switch.isChecked()
    assert rig.control("opt") is not None
    assert rig.form.draft().axes == (axis,)
    assert len(rig.requests) == 1
    rig.form.show_draft(JobDraft({**raw, "script": "other"}))
    assert not rig.part.switch.isChecked()
