"""Screens outside the pages: notices, settings, help, palette, keys, a refused data root."""

from __future__ import annotations

from dataclasses import replace

from app.runtime.controller import ignore
from app.shell.help import read_topics
from backend.records.nodes.entry import HostKey, SshOverview
from backend.records.nodes.reading import Finding
from backend.records.notifications.notification import Channels, Mail
from backend.records.verify.finding import Verification, VerifyFinding
from tests.pictures import lab
from tests.pictures.gallery import LARGE, SMALL, SMALLEST, screen
from tests.pictures.screens.jobs import SOUND, open_job
from tests.pictures.stage import Stage
from tests.widgets.shell.test_notification_list import ITEMS
from tests.widgets.shell.test_notification_list import LONG as LONG_NOTICE
from widgets.common.cards import EmptyState
from widgets.shell.command_palette import CommandPalette, PaletteEntry
from widgets.shell.notification_list import NoticeItem, NoticeList
from widgets.shell.settings_page import SettingsPage, SettingsPaths, SettingsValues
from widgets.shell.shortcuts import ShortcutsDialog
from widgets.shell.verify_section import repair_question


def _notices(stage: Stage, items: list[NoticeItem]) -> None:
    open_job(stage)
    stage.settle()
    notices = NoticeList(stage.window)
    stage.window.side_bar.set_unread(sum(item.is_new for item in items))
    notices.show_items(items)
    notices.open(stage.window.side_bar.bell)


screen("notices")(lambda stage: _notices(stage, ITEMS))
screen("notices-empty")(lambda stage: _notices(stage, []))
screen("notices-huge")(lambda stage: _notices(stage, [LONG_NOTICE, *ITEMS] * 20))


SSH = SshOverview(
    config="/home/mai/.ssh/config",
    known_hosts="/home/mai/.config/ringmaster/known_hosts",
    accepted_keys=tuple(
        HostKey(f"gpu{n:02}.lab", 22, "ssh-ed25519", "", "SHA256:kJ8cQ0pVtB2m4yR9dE1oXw7uZ5sLhN3f")
        for n in range(1, 9)
    ),
    keys=("~/.ssh/id_ed25519", "~/.ssh/id_rsa"),
    agent_keys=2,
    passphrases=1,
)


def _settings(stage: Stage) -> SettingsPage:
    page = stage.settings
    page.show_choices(SettingsValues(stays_in_tray=True))
    page.show_paths(
        SettingsPaths("/lab/ring", "~/.local/share/ringmaster/catalogue.sqlite",
               "~/.config/ringmaster/settings.toml",
               "~/.local/state/ringmaster/window.log")
    )  # fmt: skip
    page.ssh.show_details(SSH)
    page.show_checks(
        (*SOUND, Finding("GPU", False, "No NVIDIA driver answers here.", "Train on nodes."))
    )
    return page


screen("settings", (LARGE, SMALL, SMALLEST))(_settings)


@screen("settings-notices")
def settings_notices(stage: Stage) -> None:
    from PySide6.QtWidgets import QScrollArea

    page = _settings(stage)
    mail = Mail("smtp.lab", ("mai@lab.example.org", "ben@lab.example.org"), "ring@lab", user="ring")
    page.notices.show_channels(Channels("https://hooks.example.org/T0", mail), True)
    page.notices.show_test_result("mail", "smtp.lab did not answer for 10 s.", "bad")
    page._scale.choose("125")
    stage.settle()
    for area in page.findChildren(QScrollArea):
        area.ensureWidgetVisible(page.notices)


screen("settings-ssh")(lambda stage: _to_ssh(stage, _settings(stage)))


@screen("settings-no-ssh")
def settings_no_ssh(stage: Stage) -> None:
    """Nothing was ever accepted, and no agent runs."""
    page = _settings(stage)
    message = "This computer has no system keyring that could keep it."
    page.ssh.show_details(SshOverview("", SSH.known_hosts, keyring_error=message))
    _to_ssh(stage, page)


def _to_ssh(stage: Stage, page: SettingsPage) -> None:
    from PySide6.QtWidgets import QScrollArea

    stage.settle()
    for area in page.findChildren(QScrollArea):
        area.ensureWidgetVisible(page.ssh)


ID = "20261124-5wx8g7"
FINDINGS = (
    VerifyFinding(
        "half made", "import of the dataset faces",
        "The import of the dataset faces was begun and not finished.", "Moves what was copied.", "",
        ("datasets/.faces.importing-desk7-5b1c0de8aa31-48211-1193482-0f3a9c1e",),
    ),
    VerifyFinding(
        "checkpoints", f"job {ID}",
        "The checkpoint epoch-0012-step-001440 is damaged: its contents changed after it was "
        f"saved (job {ID}).", "Moves it; a resume takes an older checkpoint.", "",
        (*(f"jobs/{ID}/checkpoints/epoch-0012-step-001440.{suffix}" for suffix in ("pt", "json")),
         f"jobs/{ID}/checkpoints/latest.json"),
    ),
    VerifyFinding(
        "version files", "dataset digits@2",
        "The dataset digits@2 is missing “train/0412.png” and 3 more, which was in it when it was "
        "imported.", "", "Restore the file, or import the folder again as a new version.",
    ),
)  # fmt: skip


def _to_verify(stage: Stage, page: SettingsPage) -> None:
    from PySide6.QtWidgets import QScrollArea

    stage.settle()
    for area in page.findChildren(QScrollArea):
        area.ensureWidgetVisible(page.verify)


@screen("settings-verify")
def settings_verify(stage: Stage) -> None:
    page = _settings(stage)
    error = "gpu07 did not answer for 8 s. Check that it is switched on."
    verification = Verification(1204, 31, 5120, 812_000_000_000, 0, FINDINGS, (error,))
    page.verify.contents.setChecked(True)
    page.verify.show_result(verification)
    _to_verify(stage, page)


@screen("settings-verifying", (LARGE, SMALL))
def settings_verifying(stage: Stage) -> None:
    page = _settings(stage)
    page.verify.show_progress(0.42, "Comparing contents")
    _to_verify(stage, page)


@screen("settings-verified", (SMALL,))
def settings_verified(stage: Stage) -> None:
    page = _settings(stage)
    page.verify.show_result(Verification(1204, 31, 5120, None, 0, ()))
    _to_verify(stage, page)


@screen("repair")
def repair(stage: Stage) -> None:
    _settings(stage)
    stage.lay_over(
        repair_question([finding for finding in FINDINGS if finding.repair], ignore, stage.window)
    )


@screen("repair-many", (SMALL,))
def repair_many(stage: Stage) -> None:
    _settings(stage)
    findings = [replace(FINDINGS[0], moves=(f"jobs/{ID}/.status.json.{n}.0f3a9c1e.tmp",)) for n in
            range(60)]  # fmt: skip
    stage.lay_over(repair_question(findings, ignore, stage.window))


@screen("settings-checking")
def settings_checking(stage: Stage) -> None:
    from PySide6.QtWidgets import QScrollArea

    page = _settings(stage)
    page.show_checking()
    stage.settle()
    for area in page.findChildren(QScrollArea):
        area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())


screen("help", (LARGE, SMALL, SMALLEST))(lambda stage: stage.help.show_topics(read_topics()))


@screen("help-no-match")
def help_no_match(stage: Stage) -> None:
    stage.help.show_topics(read_topics())
    stage.help._search.setText("zeppelin")
    stage.help._search._send_text()


def _palette(stage: Stage, text: str, targets: list[PaletteEntry]) -> None:
    open_job(stage)
    palette = CommandPalette(stage.window)
    palette.open()
    palette._field.setText(text)
    palette.show_entries(targets)


TARGETS = [
    *(PaletteEntry("job", view.id, view.name, view.state.label, "stack") for view in lab.JOBS[:4]),
    PaletteEntry("node", "gpu07", "gpu07", "node", "hard-drives"),
    PaletteEntry("act", "new", "New job", "", "plus", "Ctrl+N"),
    PaletteEntry("act", "settings", "Settings", "", "gear", "Ctrl+,"),
    PaletteEntry("job", "x", lab.LONG_NAME, "Finished", "stack"),
]


screen("palette")(lambda stage: _palette(stage, "r", TARGETS))
screen("palette-nothing")(lambda stage: _palette(stage, "zeppelin", []))


@screen("keys", (LARGE, SMALL, SMALLEST))
def keys(stage: Stage) -> None:
    open_job(stage)
    stage.lay_over(ShortcutsDialog(stage.window))


@screen("refusal", (LARGE, SMALL, SMALLEST))
def refusal(stage: Stage) -> None:
    stage.show_cluster((), ())
    page = EmptyState("warning-octagon", "", "", button="Try again")
    page.show_message(
        "warning-octagon",
        "The catalogue ~/.local/share/ringmaster/catalogue.sqlite is damaged: file is no database.",
        "It is only an index of the data root; a new one is built from what lies there.",
        button="Set it aside and build a new one",
    )
    stage.window.add_page("refusal", page)
    stage.window.open_page("refusal")


@screen("toast")
def toast(stage: Stage) -> None:
    open_job(stage)
    stage.window.toast.show_message("Moved 4.2 GB to the trash.", undo_tag="x")
