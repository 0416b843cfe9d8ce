"""Options of a set-up: each has a hint, and each conflict is shown at once."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.records.nodes.provisioning_options import (
    IN_JOB,
    LIMITS_KEY,
    SHARED,
    SYSTEM_MPI,
    WITHOUT_HOROVOD,
    SetUpOptions,
)
from tests.widgets.nodes import samples
from tests.windows import add_widget, find_button, show_widget
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog
from widgets.nodes.provisioning.options_form import OptionsForm
from widgets.nodes.provisioning.reprovision_dialog import SetUpAgainDialog, installation_text

pytestmark = pytest.mark.usefixtures("theme_manager")
LEFT_BUTTON = Qt.MouseButton.LeftButton


def node(name, *, is_ready=True, **changes):
    entry = samples.entry(name, is_ready=is_ready)
    info = {"mpirun": "/usr/bin/mpirun", "mpi_version": "4.1.4", "data_root": "/lab/ring"}
    info = replace(entry.info, **{**info, "data_root_writable": True, **changes})
    return replace(entry, info=info)


THREE_NODES = (node("gpu1"), node("gpu2"), node("gpu3", is_ready=False))


@pytest.fixture
def ask(qtbot):
    def ask(entries=THREE_NODES, selected_names=("gpu1",), options=None):
        return show_widget(
            qtbot, SetUpAgainDialog(entries, selected_names, options or SetUpOptions(), "5.0.11")
        )

    return ask


def test_the_dialog_requests_the_choice_of_the_user(ask, qtbot):
    dialog = ask(selected_names=("gpu1", "gpu2"))
    dialog.choices.switch(SHARED).click()
    dialog.choices.switch(LIMITS_KEY).click()
    dialog.choices.switch(WITHOUT_HOROVOD).click()
    with qtbot.waitSignal(dialog.set_up_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Set up 2 nodes"), LEFT_BUTTON)
    options = SetUpOptions(shared=True, limits_key=False, without_horovod=True)
    assert requested.args == [("gpu1", "gpu2"), options]
    assert not dialog.isVisible()


def test_a_job_for_the_environment_is_offered_if_a_selected_node_has_slurm(ask):
    login_node = replace(node("hpc"), scheduler="slurm")
    dialog = ask(entries=(node("gpu1"), login_node), selected_names=("gpu1",))
    assert not dialog.choices.switch(IN_JOB).isVisible()
    dialog._boxes["hpc"].click()
    switch, button = dialog.choices.switch(IN_JOB), find_button(dialog, "Set up 2 nodes")
    assert switch.isVisible()
    switch.click()
    assert dialog.choices.hint_text(IN_JOB).startswith("gpu1 is not a login node of Slurm")
    assert not button.isEnabled()
    dialog._boxes["gpu1"].click()
    assert dialog.choices.options().in_job
    assert button.isEnabled()
    dialog._boxes["gpu1"].click()
    dialog._boxes["hpc"].click()
    assert not switch.isVisible()
    assert not dialog.choices.options().in_job
    assert button.isEnabled()


def test_a_sentence_explains_each_choice(ask):
    dialog = ask()
    for key in (SYSTEM_MPI, SHARED, LIMITS_KEY, WITHOUT_HOROVOD):
        assert dialog.choices.hint_text(key).endswith(".")
        assert dialog.choices.switch(key).accessibleDescription() == dialog.choices.hint_text(key)


def test_an_unsuitable_option_is_explained_at_its_switch_and_blocks_the_set_up(ask):
    dialog = ask()
    assert find_button(dialog, "Set up").isEnabled()
    dialog.choices.switch(SYSTEM_MPI).click()
    assert "gpu2 has 5.0.11" in dialog.choices.hint_text(SYSTEM_MPI)
    assert not find_button(dialog, "Set up").isEnabled()
    # Together with the node that was apart it fits.
    dialog._boxes["gpu2"].click()
    assert find_button(dialog, "Set up 2 nodes").isEnabled()
    assert "gpu2" not in dialog.choices.hint_text(SYSTEM_MPI)


def test_refresh_finds_changes_on_a_node(ask, qtbot):
    node_without_mpi = node("gpu1", mpirun="", mpi_version="")
    dialog = ask((node_without_mpi,), options=SetUpOptions(system_mpi=True))
    assert dialog.choices.hint_text(SYSTEM_MPI).startswith("gpu1 has no Open MPI.")
    with qtbot.waitSignal(dialog.refresh_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Refresh"), LEFT_BUTTON)
    assert requested.args == [("gpu1",)]
    dialog.show_error("gpu1 did not answer for 10 s.")
    assert dialog._failure.isVisible()
    dialog.show_entries((node("gpu1"),))
    assert (
        find_button(dialog, "Set up").isEnabled(),
        find_button(dialog, "Refresh").isVisible(),
    ) == (
        True,
        False,
    )
    assert not dialog._failure.isVisible()


def test_the_button_counts_the_nodes_and_without_one_there_is_nothing_to_do(ask, qtbot):
    dialog = ask(selected_names=("gpu2",))
    assert (dialog._title.text(), find_button(dialog, "Set up").text()) == ("Set up gpu2", "Set up")
    qtbot.mouseClick(find_button(dialog, "All"), LEFT_BUTTON)
    assert find_button(dialog, "Set up 3 nodes").text() == "Set up 3 nodes"
    qtbot.mouseClick(find_button(dialog, "None"), LEFT_BUTTON)
    assert (dialog.selected_names(), find_button(dialog, "Set up 0 nodes").isEnabled()) == (
        (),
        False,
    )


def test_all_of_many_nodes_are_ticked_at_once(ask, qtbot):
    names = tuple(f"gpu{number}" for number in range(64))
    dialog = ask(tuple(node(name) for name in names), selected_names=("gpu1", "gpu60"))
    assert (dialog.selected_names(), find_button(dialog, "Set up 2 nodes").text()) == (
        ("gpu1", "gpu60"),
        "Set up 2 nodes",
    )
    qtbot.mouseClick(find_button(dialog, "All"), LEFT_BUTTON)
    assert dialog.selected_names() == names
    assert all(box.isChecked() for box in dialog._boxes.values())
    dialog._boxes["gpu63"].click()
    assert dialog.selected_names() == names[:-1]


def test_one_node_alone_has_no_list(ask):
    assert not ask((node("gpu1"),))._nodes.isVisible()


def test_a_key_of_the_users_own_is_not_limited_and_the_dialog_says_so(qtbot):
    choices = add_widget(qtbot, OptionsForm())
    choices.show_options(SetUpOptions(own_key="/home/mai/.ssh/lab", system_mpi=True))
    assert not choices.switch(LIMITS_KEY).isEnabled()
    assert "key of your own" in choices.hint_text(LIMITS_KEY)
    assert choices.options().own_key == "/home/mai/.ssh/lab"


def test_words_describe_how_a_node_is_set_up():
    entry = node("gpu1")
    changes = {"mpirun": "/usr/bin/mpirun", "limits_key": True, "without_horovod": True}
    entry = replace(entry, installation=replace(entry.installation, **changes))
    assert installation_text(entry) == "its own Open MPI 5.0.11, restricted key, no Horovod"
    assert installation_text(node("gpu2", is_ready=False)) == "not set up"
    entry = node("hpc")
    entry = replace(entry, installation=replace(entry.installation, in_job=True))
    assert installation_text(entry) == "Open MPI 5.0.11, made in a job"


def test_the_choices_are_behind_more_where_a_node_is_added(qtbot):
    dialog = show_widget(qtbot, AddNodeDialog(options=SetUpOptions(system_mpi=True)))
    assert not dialog.choices.isVisible()
    qtbot.mouseClick(find_button(dialog, "More"), LEFT_BUTTON)
    assert dialog.choices.isVisible()
    dialog.choices.switch(SHARED).click()
    assert dialog.choices.options() == SetUpOptions(system_mpi=True, shared=True)
    assert dialog.height() <= 600, "it does not fit a small screen"
