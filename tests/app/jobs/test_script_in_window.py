"""From a folder with a training program to its job: each click is counted."""

from __future__ import annotations

import pytest

from backend.records.library.item import Kind
from backend.records.sweeps.values import parse_axis
from tests.app.jobs.test_own_model import Mouse, dialog_of
from tests.app.library.test_gallery_in_window import program  # noqa: F401 - a fixture
from tests.windows import find_only, setting_field, visible_texts
from widgets.common.fields import LineEdit
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.swept_fields import MultiValueButton

LINE = '--out {output} --lr 0.1 --note "it\'s mine"'
ARGUMENTS = ("--out", "{output}", "--lr", "0.1", "--note", "it's mine")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train.py").write_text("print('{}')\n")
    (folder / "model.py").write_text("")
    return folder


def field(program, name):  # noqa: F811
    (line_edit,) = (e for e in program.form.findChildren(LineEdit) if e.accessibleName() == name)
    return line_edit


def visible_buttons(program):  # noqa: F811
    """The buttons for several values that Tab reaches."""
    buttons = program.form.findChildren(MultiValueButton)
    return {b.accessibleName() for b in buttons if b.isVisible()}


def test_from_a_folder_with_a_program_to_its_job_in_four_clicks(program, folder, qtbot):  # noqa: F811
    mouse = Mouse(qtbot, program)
    mouse.drop(folder)
    mouse.click("Import", dialog_of(qtbot))
    mouse.click("New job with it", program.library[Kind.SCRIPT].detail)
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    # A layout shows what is new in it in the next turn of the loop.
    qtbot.waitUntil(lambda: "It runs train.py, found by itself" in visible_texts(program.form))
    assert not field(program, "Epochs").isVisible()
    assert "Several values of Loader" not in visible_buttons(program)
    assert "Several values of Arguments" in visible_buttons(program)
    mouse.type(field(program, "Arguments"), LINE)
    qtbot.waitUntil(lambda: program.form.draft().raw.get("arguments") == list(ARGUMENTS))
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    previous_count = program.jobs.job_count
    mouse.click("Start", program.form)
    qtbot.waitUntil(
        lambda: program.jobs.job_count > previous_count and program.window.page_key == "jobs"
    )
    view = program.jobs.open_view
    assert {kind: pin.reference for kind, pin in view.pins.items()} == {"script": "mnist@1"}
    assert (view.name, view.config.entry, view.config.arguments) == (
        "mnist 1",
        "train.py",
        ARGUMENTS,
    )
    assert (mouse.clicks, mouse.typed_count) == (4, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('--note "half', "quotation needs its end"),
        ("--data {where}", "“{where}” is not one"),
    ],
)
def test_arguments_that_cannot_be_are_a_fault_of_their_field(program, folder, qtbot, line, message):  # noqa: F811
    program._services.library.import_item(Kind.SCRIPT, folder, "mnist")
    program._job_controllers.jobs.drafts.new_job_with(Kind.SCRIPT, "mnist@1")
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    field(program, "Arguments").setText(line)
    program.form._fields.changed.emit()
    qtbot.waitUntil(lambda: "problem" in program.form._result.text())
    assert message in setting_field(program.form, "arguments").error()
    find_only(FormSections, program.form).job_kind.choose("model")
    find_only(FormSections, program.form).job_kind.activated.emit(0)
    assert field(program, "Epochs").isVisible()
    assert "Several values of Arguments" not in visible_buttons(program)
    assert "Several values of Loader" in visible_buttons(program)
    assert "arguments" not in program.form.draft().raw


PROGRAM = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1, help="rate (default: %(default)s)")
parser.add_argument("--opt", choices=["sgd", "adam"])
parser.parse_args()
"""


def test_the_arguments_of_a_script_are_fields_and_several_values_are_a_sweep(
    program,  # noqa: F811
    folder,
    qtbot,
):
    (folder / "train.py").write_text(PROGRAM)
    program._services.library.import_item(Kind.SCRIPT, folder, "mnist")
    program._job_controllers.jobs.drafts.new_job_with(Kind.SCRIPT, "mnist@1")
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    mouse = Mouse(qtbot, program)
    mouse.click("Fields from --help", program.form)
    qtbot.waitUntil(lambda: "arguments.opt" in program.form._fields._fields, timeout=60_000)
    mouse.type(field(program, "lr"), "0.2")
    qtbot.waitUntil(lambda: program.form.draft().raw.get("arguments") == ["--lr", "0.2"])
    program.form._fields.swept_fields.show_axis(parse_axis("arguments.lr", "0.2, 0.3"))
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to queue 2 jobs")
    (folder / "train.py").write_text("raise SystemExit('no data')")
    program._services.library.import_item(Kind.SCRIPT, folder, "other")
    program._job_controllers.jobs.drafts.new_job_with(Kind.SCRIPT, "other@1")
    part = program.form._sections.arguments
    qtbot.waitUntil(lambda: not part.switch.isChecked())
    mouse.click("Fields from --help", program.form)
    qtbot.waitUntil(lambda: "ended with 1: no data" in part._message.text(), timeout=60_000)
