"""Where notices go besides the desktop: what can be used applies at once, the rest says why not."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from backend.records.notifications.notification import PLAIN, TLS, Channels, Mail
from tests.windows import button, the
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.shell.notification_settings import ChannelTest, NoticeSettings

MAIL = Mail("smtp.lab", ("a@lab", "b@lab"), "ring@lab", user="ring")


@pytest.fixture
def settings(qtbot: QtBot) -> NoticeSettings:
    settings = NoticeSettings()
    qtbot.addWidget(settings)
    settings.show()
    return settings


@pytest.fixture
def chosen(settings: NoticeSettings) -> list[tuple[Channels, object]]:
    found: list[tuple[Channels, object]] = []
    settings.channels_chosen.connect(lambda channels, password: found.append((channels, password)))
    return found


def leave(edit: QLineEdit, text: str) -> None:
    edit.setText(text)
    edit.editingFinished.emit()


def test_a_webhook_applies_when_its_field_is_left(settings, chosen) -> None:
    assert not settings._webhook_test.isEnabled()
    leave(settings._webhook, "hooks.example")
    assert chosen == []
    assert settings._webhook_field.error().startswith("A webhook address begins")
    leave(settings._webhook, "https://hooks.example/T0")
    assert settings._webhook_field.error() == ""
    leave(settings._webhook, "https://hooks.example/T0")
    assert chosen == [(Channels("https://hooks.example/T0"), None)], "once"
    assert settings._webhook_test.isEnabled()
    leave(settings._webhook, "")
    assert chosen[-1] == (Channels(), None)
    shown = settings._webhook.echoMode()
    assert shown is QLineEdit.EchoMode.PasswordEchoOnEdit


def test_a_mail_that_is_not_whole_is_not_used_and_says_what_it_lacks(settings, chosen) -> None:
    leave(settings._to, "a@lab, b@lab")
    assert chosen == []
    assert the(Label, settings._mail_said).text() == (
        "Not used yet: Enter the mail server's host name, such as smtp.lab.example."
    )
    leave(settings._host, "smtp.lab")
    leave(settings._user, "ring")
    assert chosen == []
    leave(settings._sender, "ring@lab")
    assert chosen == [(Channels(mail=MAIL), None)]
    assert not settings._mail_said.isVisible()
    settings._password.setText("secret")
    settings._password.editingFinished.emit()
    assert chosen[-1] == (Channels(mail=MAIL), "secret")
    the(ComboBox, settings).choose(PLAIN)
    assert "over TLS only" in the(Label, settings._mail_said).text()
    assert chosen[-1][0].mail == MAIL
    the(ComboBox, settings).choose(TLS)
    assert settings._port.placeholderText() == "465"
    leave(settings._port, "2525")
    assert chosen[-1][0].mail is not None
    assert (chosen[-1][0].mail.port, chosen[-1][0].mail.security) == (2525, TLS)


def test_what_was_kept_is_shown_and_the_password_is_not(settings, chosen) -> None:
    settings.show_channels(Channels("https://a.example/x", MAIL, from_nodes=True), True)
    assert settings._to.text() == "a@lab, b@lab"
    assert settings._port.text() == ""
    assert settings._password.text() == ""
    assert settings._from_nodes.isChecked()
    assert chosen == []


def test_without_a_keyring_it_is_said_how_long_a_password_lasts(settings) -> None:
    settings.show_keyring("This computer has no system keyring that could keep it.")
    assert settings._password_field._below.text() == (
        "This computer has no system keyring that could keep it. "
        "The password is used until this window closes."
    )


def test_a_test_is_sent_with_what_stands_there_and_its_outcome_is_a_sentence(
    settings, qtbot: QtBot
) -> None:
    settings.show_channels(Channels(mail=MAIL), False)
    settings._password.setText("typed")
    with qtbot.waitSignal(settings.test_requested) as requested:
        qtbot.mouseClick(settings._mail_test, Qt.MouseButton.LeftButton)
    assert requested.args == [ChannelTest("mail", Channels(mail=MAIL), "typed")]
    assert (button(settings, "Sending…").text(), button(settings, "Sending…").isEnabled()) == (
        "Sending…",
        False,
    )
    settings.show_said("mail", "smtp.lab did not accept the user or the password.", "bad")
    assert settings._mail_said.isVisible()
    assert (settings._mail_test.text(), settings._mail_test.isEnabled()) == ("Send a test", True)
