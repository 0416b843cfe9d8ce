"""The page SSH: the settings in use, the accepted host keys, and their removal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.records.nodes.entry import SshOverview
from backend.ssh.known_hosts import host_key
from tests.windows import find_button, find_only, shows_text, visible_texts
from widgets.common.buttons import IconButton
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.shell.settings_rows import SettingsRow
from widgets.shell.ssh_settings import SshSettings

pytestmark = pytest.mark.usefixtures("theme_manager")
OVERVIEW = SshOverview(config="", known_hosts="/home/ada/.ringmaster/known_hosts")
OTHER_KEYS_NOTE = "Nodes and ~/.ssh/config can specify other keys."
KEYS = tuple(
    host_key(host, port, "ssh-ed25519", content)
    for host, port, content in (
        ("gpu07.lab", 22, b"a key"),
        ("gpu07.lab", 2222, b"another"),
        ("gpu08.lab", 22, b"a third"),
    )
)


@pytest.fixture
def page(qtbot):
    page = SshSettings()
    qtbot.addWidget(page)
    page.show()
    return page


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "No SSH agent is running; there is no key file in ~/.ssh."),
        ({"agent_keys": 0}, "The SSH agent holds 0 keys; there is no key file in ~/.ssh."),
        (
            {"agent_keys": 1, "keys": ("~/.ssh/id_rsa",)},
            "The SSH agent holds 1 key; the key file ~/.ssh/id_rsa is tried.",
        ),
        (
            {"agent_keys": 2, "keys": ("~/.ssh/id_ed25519", "~/.ssh/id_rsa")},
            "The SSH agent holds 2 keys; "
            "the key files ~/.ssh/id_ed25519 and ~/.ssh/id_rsa are tried.",
        ),
    ],
)
def test_the_page_shows_the_tried_keys(page, changes, text):
    page.show_details(replace(OVERVIEW, **changes))
    assert f"{text} {OTHER_KEYS_NOTE}" in visible_texts(page)


def test_the_page_counts_passphrases_and_says_why_none_can_be_kept(page):
    page.show_details(OVERVIEW)
    assert not shows_text(page, "known now")
    page.show_details(replace(OVERVIEW, passphrases=1, keyring_error="There is no keyring here."))
    text = page._passphrases.text()
    assert text.endswith("1 passphrase is kept now. There is no keyring here.")
    page.show_details(replace(OVERVIEW, passphrases=2))
    assert shows_text(page, "2 passphrases are kept now.")


def test_the_page_shows_the_fingerprint_of_the_chosen_machine_and_forgets_its_key(page, qtbot):
    page.show_details(replace(OVERVIEW, accepted_keys=KEYS))
    for key in KEYS:
        find_only(ComboBox, page).choose(f"{key.host}:{key.port}")
        assert find_only(SettingsRow, page).description.text() == f"ssh-ed25519 {key.fingerprint}"
        with qtbot.waitSignal(page.forget_requested) as requested:
            find_button(page, "Forget").click()
        assert requested.args == [key]


def test_the_page_has_no_forget_button_without_a_trusted_machine(page):
    page.show_details(OVERVIEW)
    assert not find_button(page, "Forget").isVisible()
    assert find_only(SettingsRow, page).description.text().startswith("None yet.")


def test_the_files_are_named_and_their_folder_is_opened(page, qtbot):
    page.show_details(OVERVIEW)
    hosts, config = (
        next(b for b in page.findChildren(IconButton) if b.accessibleName() == name)
        for name in ("Open file of accepted host keys", "Open SSH client settings")
    )
    assert {OVERVIEW.known_hosts, "none"} <= {label.text() for label in page.findChildren(Label)}
    assert not config.isEnabled(), "there are none"
    with qtbot.waitSignal(page.path_opened) as signal:
        hosts.click()
    assert signal.args == [OVERVIEW.known_hosts]


def test_the_page_shows_a_read_error_until_a_read_succeeds(page):
    page.show_error("known_hosts cannot be read.")
    assert "known_hosts cannot be read." in visible_texts(page)
    page.show_details(OVERVIEW)
    assert shows_text(page, "No SSH agent")
