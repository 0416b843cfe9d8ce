"""What the window says of a script is true: no epoch 0, no Resume without arguments for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.script import SESSION
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import summary_of
from backend.records.jobs.view import NO_RESUME_REASON
from backend.records.library.item import Pin
from tests.asks import open_menu_entries
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.windows import shows_text, visible_texts
from widgets.common.labels import Label
from widgets.jobs.actions.job_actions import (
    MOVE,
    QUEUE,
    RESUME,
    START_OVER,
    JobActions,
    JobSubject,
    main_action,
)
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab
from widgets.jobs.checkpoints.export_dialog import ExportDialog, Exporter, checkpoint_title
from widgets.jobs.detail.header_texts import header_figures, run_details, stop_cost_message
from widgets.jobs.failure.failure_tab import FailureTab

FILE = replace(
    checkpoint(10),
    name="step-000010",
    epoch=0,
    step=10,
    file="output/checkpoint-10",
    is_latest=True,
)


def script(state=JobState.INTERRUPTED, **settings):
    raw = {"name": "mine", "script": "mine", "placement": [{"node": "a", "processes": 2}]}
    config = parse_job({**raw, **settings}).config
    pins = {"script": Pin("mine", 1, "ab" * 32)}
    none = {"epoch": 0, "epochs": 0, "total_steps": 0, "eta_s": None, "steps_per_epoch": 0}
    return replace_fields(replace(LIVE, config=config, pins=pins), state=state, **none)


RESUMES = {"resume_arguments": ["--resume", "{checkpoint}"]}


@pytest.mark.parametrize("state", [JobState.INTERRUPTED, JobState.ERROR, JobState.LOST])
@pytest.mark.parametrize("settings", [{}, RESUMES])
@pytest.mark.parametrize("make_view", [lambda view: view, summary_of], ids=["open", "in the list"])
def test_without_arguments_for_it_resume_is_off_and_says_why(state, settings, make_view):
    subject = JobSubject(make_view(script(state, **settings)), has_checkpoints=True)
    act = main_action(subject)
    assert act.text == RESUME.text
    assert act.is_enabled(subject) == bool(settings)
    assert (act.disabled_tip == NO_RESUME_REASON) == (not settings)
    assert QUEUE.is_offered(subject) == MOVE.is_offered(subject) == bool(settings)
    queued_subject = JobSubject(
        make_view(script(JobState.QUEUED, **settings)), has_checkpoints=True
    )
    assert main_action(queued_subject) == (RESUME if settings else START_OVER)


def test_a_session_shows_its_time_its_use_and_its_gpus_and_no_steps():
    settings = {
        "script": SESSION,
        "processes_per": "node",
        "placement": [{"node": "a", "gpus": ["GPU-a", "GPU-b"]}],
        "arguments": ["--hours", "8", "--idle-min", "30"],
    }
    started = (datetime.now(UTC) - timedelta(hours=3, minutes=30)).isoformat()
    live = replace_fields(
        script(JobState.TRAINING, **settings),
        started_at=started,
        samples_per_second=3.0,
        metrics={},
    )
    for unused_s, unused_text in ((None, None), (8.0, "in use"), (740.0, "12\xa0min 20\xa0s")):
        figures = header_figures(replace_fields(live, unused_s=unused_s))
        texts = {figure.caption: figure.value for figure in figures}
        expected = {"Time left": "4\xa0h 30", "GPUs": "2"}
        expected |= {} if unused_text is None else {"Unused for": unused_text}
        assert texts == expected
    assert run_details(live).startswith("2 GPUs on a")
    ended = header_figures(replace_fields(live, state=JobState.FINISHED, metrics={}))
    assert [figure.caption for figure in ended if "Took" not in figure.caption] == []


def test_a_script_without_epochs_has_none_in_the_header():
    for state in JobState:
        view = script(state)
        assert "Epoch" not in {figure.caption for figure in header_figures(view)}
        for checkpoints in ((), (FILE,)):
            assert "epoch" not in stop_cost_message(view, checkpoints)
    with_epochs = replace_fields(script(JobState.TRAINING), epoch=3, epochs=10)
    assert ("Epoch", "3 of 10") in [
        (figure.caption, figure.value) for figure in header_figures(with_epochs)
    ]
    live = {figure.caption for figure in header_figures(script(JobState.TRAINING))}
    assert "Runs for" in live
    assert "Ready at" not in live


@pytest.mark.parametrize(
    ("state", "checkpoints", "message"),
    [
        (JobState.TRAINING, (), "stopping loses all work"),
        (JobState.TRAINING, (FILE,), "Newest checkpoint: step 10,"),
        (JobState.STOPPING, (FILE,), "The script was asked to stop. Newest checkpoint: step 10,"),
        (JobState.INTERRUPTED, (), "There is no checkpoint."),
        (JobState.INTERRUPTED, (FILE,), "Newest checkpoint: step 10,"),
        (JobState.ERROR, (), "There is no checkpoint."),
    ],
)
def test_the_cost_of_a_stop_depends_on_the_checkpoints_of_the_script(state, checkpoints, message):
    assert message in stop_cost_message(script(state), checkpoints)


@pytest.mark.parametrize("settings", [{}, RESUMES, {"remove_old_checkpoints": True}])
def test_the_checkpoints_of_a_script_are_its_own(qtbot, theme_manager, settings):
    actions = JobActions()
    tab = CheckpointsTab(actions, Exporter(actions, None))
    qtbot.addWidget(tab)
    view = script(**settings)
    tab.show_checkpoints(view, ())
    assert "checkpoint-*/" in " ".join(text.text() for text in tab._empty_state.findChildren(Label))
    tab.show_checkpoints(view, (FILE,))
    assert tab.model.index(0, 0).data() == "checkpoint-10 (step 10)"
    assert checkpoint_title(FILE) == "checkpoint-10 (step 10) (latest)"
    assert tab._resume_button.isEnabled() == (settings == RESUMES)
    assert (NO_RESUME_REASON in tab._resume_button.toolTip()) == (settings != RESUMES)
    assert (tab._try_button.isEnabled(), tab._export_button.isEnabled()) == (False, True)
    menu = open_menu_entries(tab.more_button)
    assert {text: entry.isEnabled() for text, entry in menu.items()} == {
        "New job from this": False,
        "Look inside…": False,
        "Keep always": True,
        "Check file": True,
    }
    all_stay = "All are kept as the script wrote them." in tab._policy_label.text()
    assert all_stay == ("remove_old_checkpoints" not in settings)


def test_a_script_s_checkpoint_is_exported_as_it_is(qtbot, theme_manager):
    dialog = ExportDialog(JobActions(), script(), (FILE,), "", "/tmp", "onnx")
    qtbot.addWidget(dialog)
    assert dialog._format.key() == "zip"
    assert shows_text(dialog, "as the script wrote it")
    assert any(text.endswith(".zip") for text in visible_texts(dialog))


@pytest.mark.parametrize("settings", [{}, RESUMES])
def test_a_failed_script_offers_resume_only_with_arguments_for_it(qtbot, theme_manager, settings):
    from tests.widgets.jobs.detail.test_job_detail import FAILED
    from widgets.plots.run_curves import RunCurves

    tab = FailureTab(JobActions(), RunCurves())
    qtbot.addWidget(tab)
    view = script(JobState.ERROR, **settings)
    tab.show_view(replace_fields(view, error=FAILED.error))
    tab.show_checkpoints((FILE,))
    assert tab._rerun_button.text() == ("Resume" if settings else "Start over")
    assert ("step 10." in tab._resume_note.text()) == bool(settings)
    assert (NO_RESUME_REASON in tab._resume_note.text()) == (not settings)
