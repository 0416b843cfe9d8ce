"""The frame by keyboard: go to anything, settings that apply at once, every key in its sheet."""

import os
import re
from datetime import datetime

import pytest
import tomli_w
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QDialog, QListView, QSystemTrayIcon
from pytestqt.qtbot import QtBot

from app.notifications.notification_rules import Notice
from app.notifications.notification_store import NotificationStore
from app.runtime.settings import Settings, notices_file, settings_file
from app.shell.help import DOCS, TOPICS, read_topics
from backend.base.errors import BackendError
from backend.records.bundles.job_archive import SUFFIX
from backend.ssh.known_hosts import host_key
from tests.integration.tiny import raw_job
from tests.programs import open_program, services_of
from tests.widgets import drags
from tests.windows import (
    find_button,
    find_label,
    find_line,
    find_only,
    pick,
    shows_text,
    visible_texts,
)
from widgets.common import formats, theme
from widgets.common.dialog import Question
from widgets.common.fields import ComboBox, LineEdit, SearchField
from widgets.common.key_value_row import KeyValueRow
from widgets.common.labels import Label
from widgets.common.rich_text import RichText
from widgets.common.theme_manager import ThemeChoice, scale_for
from widgets.jobs.page.bundle_dialog import UnbundleDialog
from widgets.library.import_dialog import ImportDialog
from widgets.shell.help_page import HelpPage
from widgets.shell.overlay import RECORD_ROLE
from widgets.shell.settings_page import SettingsPage
from widgets.shell.settings_rows import SettingsRow
from widgets.shell.shortcuts import SHORTCUTS


@pytest.fixture(scope="module")
def program(qapp, request, tmp_path_factory):
    """One window for all: none of these tests needs a fresh one."""
    folder = tmp_path_factory.mktemp("frame")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        paths = folder / "root", folder / "catalogue.sqlite"
        with open_program(qapp, QtBot(request), *paths) as program:
            yield program


@pytest.fixture
def restored_theme(program):
    """Undo what a test chooses of theme and motion."""
    yield
    program._themes.choose(ThemeChoice.LIGHT)
    program._themes.reduce_motion(False)


def type_into_palette(qtbot, program, text):
    program.frame.open_palette()
    palette = program.frame.palette
    qtbot.keyClicks(find_only(LineEdit, palette), text)
    return palette


def test_ctrl_k_goes_to_a_place_by_a_few_letters_and_enter(qtbot, program):
    palette = type_into_palette(qtbot, program, "load")
    qtbot.keyClick(find_only(LineEdit, palette), Qt.Key.Key_Return)
    assert program.window.page_key == "loaders"
    assert not palette.isVisible()


def test_ctrl_k_opens_a_node_by_its_name(qtbot, program):
    palette = type_into_palette(qtbot, program, "this-comp")
    qtbot.keyClick(find_only(LineEdit, palette), Qt.Key.Key_Return)
    assert program.window.page_key == "nodes"


def test_ctrl_k_walks_by_arrows_and_escape_leaves_all_as_it_was(qtbot, program):
    previous_key = program.window.page_key
    palette = type_into_palette(qtbot, program, "")
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up):
        qtbot.keyClick(find_only(LineEdit, palette), key)
    assert find_only(QListView, palette).currentIndex().row() == 1
    qtbot.keyClick(find_only(LineEdit, palette), Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert program.window.page_key == previous_key


def test_the_palette_says_that_nothing_matches(qtbot, program):
    palette = type_into_palette(qtbot, program, "qqqq <b>")
    qtbot.waitUntil(lambda: "No match for “qqqq <b>”." in visible_texts(palette))
    assert find_label(palette, "No match for “qqqq <b>”.").textFormat() is Qt.TextFormat.PlainText


@pytest.mark.usefixtures("restored_theme")
def test_a_choice_in_the_settings_applies_at_once_and_is_remembered(qtbot, program):
    program.frame.open_settings()
    page = find_only(SettingsPage, program.window)
    assert program.window.page_key == "settings"
    page.theme.key_chosen.emit("dark")
    assert theme.current().name == "dark"
    page.motion.click()
    assert theme.motion_reduced()
    page.notices.finished_switch.click()
    page._scale.key_chosen.emit("125")
    assert page._restart_line.isVisible()
    program._settings_writer.save()
    preferences = Settings(settings_file()).preferences
    assert (preferences.theme, preferences.reduced_motion, preferences.tell_finished) == (
        "dark",
        True,
        False,
    )
    assert preferences.scale_percent == 125
    assert scale_for(preferences.scale_percent) == "1.25"


def test_the_owner_of_the_data_root_switches_who_stops_jobs(qtbot, program, monkeypatch):
    program.frame.open_settings()
    page, rule = find_only(SettingsPage, program.window), services_of(program).jobs.owner_rule
    qtbot.waitUntil(page.owner_switch.isEnabled)
    page.owner_switch.click()
    qtbot.waitUntil(lambda: rule() is not None)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    page.owner_switch.click()
    qtbot.waitUntil(lambda: not page.owner_switch.isEnabled())
    assert page.owner_switch.isChecked()
    assert "who owns the folder of the data root" in page._owner_row.description.text()
    assert rule() is not None


def test_everything_is_checked_from_the_settings_and_a_leftover_is_moved(qtbot, program):
    program.frame.open_settings()
    page = find_only(SettingsPage, program.window).verify
    leftover = services_of(program).data_root.jobs / "copy" / "notes.txt"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("a note")
    qtbot.mouseClick(page.check, Qt.MouseButton.LeftButton)
    message = "Checked 1 job, 0 versions and 0 checkpoints. 1 finding."
    qtbot.waitUntil(lambda: page.status.message.text() == message)
    row = page.rows.itemAt(0).layout()
    button = row.itemAt(0).layout().itemAt(2).widget()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    dialog = program.window.findChild(Question)
    dialog.action_button.click()
    qtbot.waitUntil(lambda: "No findings." in page.status.message.text())
    moved_files = services_of(program).data_root.trash.glob("repaired-*/jobs/copy/notes.txt")
    assert [path.read_text() for path in moved_files] == ["a note"]


def test_the_settings_list_folders_and_installed_software(qtbot, program):
    page = find_only(SettingsPage, program.window)
    program.frame.check()
    qtbot.waitUntil(lambda: str(services_of(program).catalogue.path) in visible_texts(page))
    assert os.fspath(services_of(program).data_root.path) in visible_texts(page)


def test_the_bell_counts_a_notification_and_its_list_opens_the_place(qtbot, program):
    side_bar = program.window.side_bar
    program.window.open_page("jobs")
    notice = Notice("Offline: this-computer", "", datetime.now().astimezone(), node="this-computer")
    program.frame.notice_rules.notified.emit(notice)
    assert side_bar.bell.accessibleName() == "1 new notification"
    notices_path = notices_file()
    qtbot.waitUntil(
        lambda: notices_path.exists() and NotificationStore(notices_path).unseen_count == 1
    )
    qtbot.mouseClick(side_bar.bell, Qt.MouseButton.LeftButton)
    assert side_bar.bell.accessibleName() == "Notifications"
    notices = program.frame.bell.list
    assert notices.isVisible()
    assert find_only(QListView, notices).model().index(0, 0).data(RECORD_ROLE).is_new
    notices.notice_opened.emit(0)
    assert program.window.page_key == "nodes"
    qtbot.waitUntil(lambda: NotificationStore(notices_path).unseen_count == 0)
    notices.dismiss()
    tray = QSystemTrayIcon.isSystemTrayAvailable()
    program.frame.open_settings()
    page = find_only(SettingsPage, program.window)
    assert shows_text(page.notices, "This desktop has no tray") is not tray


def test_the_sheet_lists_exactly_the_keys_of_the_window(program):
    window = program.window
    window.ensurePolished()
    window_keys = {shortcut.key() for shortcut in window.findChildren(QShortcut)}
    window_keys |= {
        button.shortcut()
        for button in window.findChildren(QAbstractButton)
        if not button.shortcut().isEmpty()
    }
    window_keys |= {act.shortcut() for act in window.actions() if not act.shortcut().isEmpty()}
    # Esc closes what is open wherever one is, as everywhere.
    window_keys -= {QKeySequence("Esc")}
    sheet_keys = {QKeySequence(key.key) for key in SHORTCUTS if not key.with_focus}
    assert {key.toString() for key in window_keys - sheet_keys} == set(), (
        "keys that the sheet does not list"
    )
    assert {key.toString() for key in sheet_keys - window_keys} == set(), "keys that do nothing"


def test_f1_opens_the_help_and_its_links_lead_to_its_own_pages(qtbot, program):
    with qtbot.waitActive(program.window):
        program.window.activateWindow()
    qtbot.keyClick(program.window, Qt.Key.Key_F1)
    page = find_only(HelpPage, program.window)
    assert program.window.page_key == "help"
    qtbot.waitUntil(lambda: find_only(QListView, page).model().rowCount() == len(TOPICS))
    assert (
        find_only(RichText, page).document().firstBlock().text().startswith("Train your own model")
    )
    find_only(RichText, page).anchorClicked.emit(QUrl("first-node.md"))
    assert find_only(RichText, page).document().firstBlock().text() == "Add your first node"


def test_ctrl_k_opens_the_page_that_explains_the_words(qtbot, program):
    palette = type_into_palette(qtbot, program, "what the words")
    qtbot.keyClick(find_only(LineEdit, palette), Qt.Key.Key_Return)
    page = find_only(HelpPage, program.window)
    qtbot.waitUntil(
        lambda: find_only(QListView, page).currentIndex().data() == "What the words mean"
    )


def test_a_word_is_found_in_the_help_or_said_to_be_missing(qtbot, program):
    program.frame.open_help("terms.md")
    page = find_only(HelpPage, program.window)
    qtbot.waitUntil(lambda: find_only(QListView, page).model().rowCount() > 0)
    qtbot.keyClicks(find_only(SearchField, page), "allreduce")
    qtbot.waitUntil(lambda: find_only(RichText, page).textCursor().selectedText() == "allreduce")
    find_only(SearchField, page).setText("zeppelin")
    qtbot.waitUntil(lambda: "No match on this page for “zeppelin”." in visible_texts(page))


def test_each_page_for_users_is_in_the_help():
    for_developers = {"architecture.md", "slurm.md"}
    page_names = {path.name for path in DOCS.glob("*.md")} - for_developers
    assert {name for name, _ in TOPICS} == page_names


def test_no_page_of_the_help_leads_nowhere():
    for topic in read_topics():
        for address in re.findall(r"\]\((?!https://)([^)]+)\)", topic.markdown):
            page, _, heading = address.partition("#")
            assert (DOCS / page).is_file(), f"{topic.key} → {address}"
            if heading:
                assert heading in headings((DOCS / page).read_text()), f"{topic.key} → {address}"


def headings(markdown):
    """What a link to each heading ends with."""
    titles = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


# What is dropped on the window


@pytest.fixture
def dialog_of(qtbot, program):
    """The dialog of a kind that opened; it is closed in the end."""
    dialogs = []

    def find(kind):
        qtbot.waitUntil(lambda: any(d.isVisible() for d in program.window.findChildren(kind)))
        dialogs.extend(d for d in program.window.findChildren(kind) if d.isVisible())
        return dialogs[-1]

    yield find
    for dialog in dialogs:
        dialog.reject()


def test_a_dropped_zip_opens_the_import_with_a_guess_of_kind_and_name(program, tmp_path, dialog_of):
    path = tmp_path / "plankton.zip"
    path.write_bytes(b"PK\5\6" + bytes(18))
    assert drags.drag_over(program.window, drags.file(path))
    assert program.window.drop_overlay.accessibleName() == "Import “plankton.zip”"
    drags.drop(program.window, drags.file(path))
    assert program.window.drop_overlay.isHidden()
    dialog = dialog_of(ImportDialog)
    assert (find_line(dialog, "From").text(), find_line(dialog, "Name").text()) == (
        str(path),
        "plankton",
    )


def test_a_dropped_job_file_becomes_a_new_job(qtbot, program, tmp_path):
    path = tmp_path / "from the lab.toml"
    path.write_text(tomli_w.dumps(raw_job(1, name="dropped")))
    drags.drop(program.window, drags.file(path))
    qtbot.waitUntil(lambda: program.window.page_key == "new-job")
    assert program.form.draft().raw["name"] == "dropped"
    program.window.open_page("jobs")


def test_a_dropped_bundle_is_imported(qtbot, program, tmp_path, dialog_of):
    path = tmp_path / f"resnet{SUFFIX}"
    path.write_bytes(b"half of one")
    assert drags.drag_over(program.window, drags.file(path))
    assert program.window.drop_overlay.accessibleName() == f"Import the job from “resnet{SUFFIX}”"
    drags.drop(program.window, drags.file(path))
    dialog = dialog_of(UnbundleDialog)
    qtbot.waitUntil(lambda: any(path.name in t.text() for t in dialog.findChildren(Label)))


def test_several_files_at_once_are_refused_with_a_sentence(program, tmp_path):
    paths = [tmp_path / name for name in ("one.zip", "two.zip", "three.toml")]
    for path in paths:
        path.write_bytes(b"")
    previous_key = program.window.page_key
    assert drags.drag_over(program.window, drags.file(*paths)), "it is said while they are held"
    sheet = program.window.drop_overlay
    assert sheet.accessibleName() == "3 files: drop them one by one"
    assert not sheet._is_accepted
    drags.drop(program.window, drags.file(*paths))
    assert find_only(Label, program.window.toast).text() == "3 files: drop them one by one"
    assert program.window.page_key == previous_key
    assert not any(d.isVisible() for d in program.window.findChildren(QDialog))


def test_weights_dropped_next_to_a_model_say_where_they_belong(program, tmp_path):
    drags.drop(program.window, drags.file(tmp_path / "best.pt"))
    assert (
        find_only(Label, program.window.toast)
        .text()
        .endswith("drop “best.pt” on a model in Models")
    )


# Units, contrast, SSH


@pytest.mark.usefixtures("restored_theme")
def test_units_apply_at_once_and_are_remembered(qtbot, program):
    page = find_only(SettingsPage, program.window)
    node = program.nodes.detail
    program.window.open_page("nodes")
    qtbot.waitUntil(lambda: any("free" in f.value for f in find_only(KeyValueRow, node).items))

    def free_text():
        return next(f.value for f in find_only(KeyValueRow, node).items if "free" in f.value)

    controls = ((page._sizes, "binary"), (page._clock, "12"), (page._temperature, "fahrenheit"))
    assert "iB" not in free_text()
    for control, key in controls:
        pick(control, key)
    assert formats.units() == formats.Units("binary", "fahrenheit", "12")
    assert "iB free" in free_text(), "what is shown already is written again"
    program._settings_writer.save()
    assert Settings(settings_file()).preferences.units == formats.units()
    for control, _ in controls:
        control.findChildren(QAbstractButton)[0].click()
    assert formats.units() == formats.Units()


@pytest.mark.usefixtures("restored_theme")
def test_more_contrast_applies_at_once_and_is_remembered(program):
    page = find_only(SettingsPage, program.window)
    page.contrast.click()
    assert theme.current().high_contrast
    assert theme.current().line == theme.current().line_strong
    assert program._settings_writer.preferences.high_contrast
    page.contrast.click()
    assert not theme.current().high_contrast


def test_the_settings_show_the_files_of_ssh_and_remove_a_machine(qtbot, program):
    cluster = services_of(program).cluster
    for port in (22, 2222):
        cluster.accept_key(host_key("gpu07.lab", port, "ssh-ed25519", b"a key"))
    program.window.open_page("jobs")
    program.frame.open_settings()
    ssh = find_only(SettingsPage, program.window).ssh
    qtbot.waitUntil(lambda: find_only(ComboBox, ssh).count() == 2)
    assert [find_only(ComboBox, ssh).itemText(i) for i in range(2)] == [
        "gpu07.lab",
        "gpu07.lab, port 2222",
    ]
    assert find_only(SettingsRow, ssh).description.text().startswith("ssh-ed25519 SHA256:")
    find_only(ComboBox, ssh).choose("gpu07.lab:2222")
    qtbot.mouseClick(find_button(ssh, "Forget"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: find_only(ComboBox, ssh).count() == 1)
    assert find_only(Label, program.window.toast).text() == (
        "The next connection to gpu07.lab will ask you to confirm its key"
    )
    assert [key.port for key in cluster.ssh_overview().accepted_keys] == [22]
    cluster.remove_host_key("gpu07.lab")


def test_the_settings_show_why_ssh_facts_cannot_be_read(qtbot, program, monkeypatch):
    def refuse():
        raise BackendError("The accepted host keys cannot be read.", "Check their file.")

    monkeypatch.setattr(services_of(program).cluster, "ssh_overview", refuse)
    program.window.open_page("jobs")
    program.frame.open_settings()
    page = find_only(SettingsPage, program.window)
    message = "The accepted host keys cannot be read. Check their file."
    qtbot.waitUntil(lambda: message in visible_texts(page.ssh))
