"""The tab Notes shows who started, stopped and changed the job."""

from backend.records.jobs.audit_entry import AuditEntry
from tests.widgets.jobs.detail.test_job_detail import LIVE
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.notes_tab import NotesTab


def test_actions_are_listed_below_the_notes_newest_first(qtbot, theme_manager):
    tab = NotesTab(JobActions())
    qtbot.addWidget(tab)
    tab.open_job(LIVE)
    tab.show_audit_entries(
        (
            AuditEntry("2020-11-21T15:04:00Z", "Stopped", "ben", "desk-7"),
            AuditEntry("2020-11-21T14:02:00Z", "Started", "mai", "desk-3"),
            AuditEntry("", "The share does not answer."),
        )
    )
    lines = tab._history.toPlainText().split("\n")
    assert lines[0].endswith("Stopped by ben on desk-7")
    assert "2020" in lines[0]
    assert lines[1].endswith("Started by mai on desk-3")
    assert lines[2].endswith("The share does not answer.")
    tab.open_job(LIVE)
    assert tab._history.toPlainText() == ""
