"""Where notices go besides the desktop: what can be used applies at once, the rest says why not."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from backend.records.notifications.notification import PLAIN, TLS, Channels, Mail
from tests.windows import (
    find_button,
    find_by_name,
    find_field,
    find_line,
    find_only,
    shows_text,
    visible_texts,
)
from widgets.common.buttons import Button, Switch
from widgets.common.fields import ComboBox
from widgets.shell.notification_settings import ChannelTest, NoticeSettings

MAIL = Mail("smtp.lab", ("a@lab", "b@lab"), "ring@lab", user="ring")


@pytest.fixture
def settings(qtbot: QtBot) -> NoticeSettings:
    settings = NoticeSettings()
    qtbot.addWidget(settings)
    settings.show()
    return settings


@pytest.fixture
def chosen_channels(settings: NoticeSettings) -> list[tuple[Channels, object]]:
    choices: list[tuple[Channels, object]] = []
    settings.channels_chosen.connect(
        lambda channels, password: choices.append((channels, password))
    )
    return choices


def senders(settings: NoticeSettings) -> list[Button]:
    """The buttons that test the webhook, and the mail."""
    return [b for b in settings.findChildren(Button) if b.text() == "Send a test"]


def leave(edit: QLineEdit, text: str) -> None:
    edit.setText(text)
    edit.editingFinished.emit()


def test_a_webhook_applies_when_its_field_is_left(settings, chosen_channels) -> None:
    assert not senders(settings)[0].isEnabled()
    leave(find_line(settings, "Webhook"), "hooks.example")
    assert chosen_channels == []
    assert find_field(settings, "Webhook").error().startswith("A webhook address begins")
    leave(find_line(settings, "Webhook"), "https://hooks.example/T0")
    assert find_field(settings, "Webhook").error() == ""
    leave(find_line(settings, "Webhook"), "https://hooks.example/T0")
    assert chosen_channels == [(Channels("https://hooks.example/T0"), None)], "once"
    assert senders(settings)[0].isEnabled()
    leave(find_line(settings, "Webhook"), "")
    assert chosen_channels[-1] == (Channels(), None)
    echo_mode = find_line(settings, "Webhook").echoMode()
    assert echo_mode is QLineEdit.EchoMode.PasswordEchoOnEdit


def test_an_incomplete_mail_is_not_used_and_its_missing_fields_are_named(
    settings, chosen_channels
) -> None:
    leave(find_line(settings, "Mail to"), "a@lab, b@lab")
    assert chosen_channels == []
    assert (
        "Not used yet: Enter the mail server's host name, such as smtp.lab.example."
        in visible_texts(settings)
    )
    leave(find_line(settings, "Mail server"), "smtp.lab")
    leave(find_line(settings, "User"), "ring")
    assert chosen_channels == []
    leave(find_line(settings, "Mail from"), "ring@lab")
    assert chosen_channels == [(Channels(mail=MAIL), None)]
    assert not shows_text(settings, "Not used yet")
    find_line(settings, "Password").setText("secret")
    find_line(settings, "Password").editingFinished.emit()
    assert chosen_channels[-1] == (Channels(mail=MAIL), "secret")
    find_only(ComboBox, settings).choose(PLAIN)
    assert shows_text(settings, "over TLS only")
    assert chosen_channels[-1][0].mail == MAIL
    find_only(ComboBox, settings).choose(TLS)
    assert find_line(settings, "Port").placeholderText() == "465"
    leave(find_line(settings, "Port"), "2525")
    assert chosen_channels[-1][0].mail is not None
    assert (chosen_channels[-1][0].mail.port, chosen_channels[-1][0].mail.security) == (2525, TLS)


def test_stored_settings_are_shown_without_the_password(settings, chosen_channels) -> None:
    settings.show_channels(Channels("https://a.example/x", MAIL, from_nodes=True), True)
    assert "a@lab, b@lab" in visible_texts(settings)
    assert find_line(settings, "Port").text() == ""
    assert find_line(settings, "Password").text() == ""
    assert find_by_name(Switch, settings, "Also from the nodes").isChecked()
    assert chosen_channels == []


def test_without_a_keyring_it_is_said_how_long_a_password_lasts(settings) -> None:
    settings.show_keyring("This computer has no system keyring that could keep it.")
    assert shows_text(
        settings,
        "This computer has no system keyring that could keep it. "
        "The password is used until this window closes.",
    )


def test_a_test_is_sent_with_the_typed_settings_and_its_result_is_a_sentence(
    settings, qtbot: QtBot
) -> None:
    settings.show_channels(Channels(mail=MAIL), False)
    find_line(settings, "Password").setText("typed")
    with qtbot.waitSignal(settings.test_requested) as requested:
        qtbot.mouseClick(senders(settings)[1], Qt.MouseButton.LeftButton)
    assert requested.args == [ChannelTest("mail", Channels(mail=MAIL), "typed")]
    assert not find_button(settings, "Sending…").isEnabled()
    settings.show_test_result("mail", "smtp.lab did not accept the user or the password.", "bad")
    assert shows_text(settings, "smtp.lab did not accept the user")
    assert [b.isEnabled() for b in senders(settings)] == [False, True]
