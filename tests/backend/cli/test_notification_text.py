"""S20: the command line sets who is notified of the end of a job, and shows no secret."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest

from backend.cli.commands import notice
from backend.cli.main import run
from tests.backend.services.nodes.test_node_registry import MemoryKeyring
from tests.fakes.mail_server import MailServer
from tests.fakes.webhook_server import WebhookServer

SECRET = "planted-notice-secret"
Say = Callable[..., tuple[int, Any]]


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    previous_keyring, memory = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(previous_keyring)


@pytest.fixture
def say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ring: MemoryKeyring,
) -> Say:
    """Speaks to the program, as a user with a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(notice.PASSWORD, raising=False)
    (tmp_path / "home").mkdir()
    options = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]

    def speak(*args: str, typed_text: str | None = None, as_json: bool = True) -> tuple[int, Any]:
        if typed_text is not None:
            monkeypatch.setattr("sys.stdin", io.StringIO(typed_text))
        code = run(["notice", *args, *options, *(["--json"] if as_json else [])], lambda *_: 0)
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        return code, json.loads(printed.out) if as_json else printed.out

    return speak


def test_a_webhook_is_stored_tested_and_removed(say: Say, tmp_path: Path) -> None:
    server = WebhookServer()
    try:
        address = f"{server.url}/{SECRET}"
        code, stored = say("webhook", address)
        assert (code, stored["webhook"]) == (0, "http://127.0.0.1/…")
        assert say("show")[1]["webhook"] == "http://127.0.0.1/…"
        assert say("test", "webhook") == (0, {"sent": "webhook"})
        assert [path.rpartition("/")[2] for path in server.paths] == [SECRET]
    finally:
        server.close()
    (kept_file,) = (tmp_path / "home" / ".ringmaster" / "notices").iterdir()
    assert kept_file.stat().st_mode & 0o077 == 0
    assert say("webhook", "none")[1]["webhook"] == ""
    code, error = say("test", "webhook")
    assert code == 1
    assert error["error"]["sentence"] == "No webhook is set up."


def test_the_address_of_a_webhook_can_come_from_stdin(say: Say) -> None:
    assert say("webhook", "-", typed_text=f"https://chat.example/{SECRET}\n")[1]["webhook"] == (
        "https://chat.example/…"
    )
    code, error = say("webhook", "chat.example")
    assert code == 1
    assert error["error"]["sentence"].startswith("A webhook address begins with")
    assert say("show")[1]["webhook"] == "https://chat.example/…", "what was kept stays"


def test_mail_is_kept_with_its_password_in_the_keyring_alone(
    say: Say, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(notice.PASSWORD, SECRET)
    code, stored = say(
        *("mail", "you@lab.example", "ben@lab.example"),
        *("--server", "smtp.lab.example", "--user", "robot", "--security", "tls"),
    )
    assert code == 0
    assert stored["mail"] == {
        "to": ["you@lab.example", "ben@lab.example"],
        "sender": "you@lab.example",
        "host": "smtp.lab.example",
        "port": 465,
        "security": "tls",
        "user": "robot",
    }
    assert list(ring.passwords.values()) == [SECRET]
    contents = [p.read_text() for p in (tmp_path / "home").rglob("*") if p.is_file()]
    assert contents
    assert not any(SECRET in text for text in contents)
    _, report = say("show", as_json=False)
    assert "you@lab.example, ben@lab.example" in report
    assert say("mail", "none")[1]["mail"] is None
    assert ring.passwords == {}, "a password that nothing needs is kept nowhere"


def test_a_mail_arrives_without_a_password_where_the_server_wants_none(say: Say) -> None:
    server = MailServer()
    try:
        args = ("--server", "127.0.0.1", "--port", str(server.port), "--security", "none")
        assert say("mail", "you@lab.example", *args)[0] == 0
        assert say("test", "mail") == (0, {"sent": "mail"})
        (mail,) = server.mails
        assert mail["To"] == "you@lab.example"
    finally:
        server.close()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("mail", "you"), "Enter the mail server's host name, such as smtp.lab.example."),
        (("mail", "you", "--server", "h"), "“you” is not a mail address."),
        (("test", "mail"), "No mail is set up."),
    ],
)
def test_a_refused_setting_is_one_sentence_and_changes_nothing(
    say: Say, args: tuple[str, ...], message: str
) -> None:
    previous_keyring = say("show")[1]
    code, error = say(*args)
    assert (code, error["error"]["sentence"]) == (1, message)
    assert say("show")[1] == previous_keyring


def test_the_command_line_sets_the_sent_ends_and_the_senders(say: Say) -> None:
    assert say("set", "--finished", "off", "--from-nodes", "on")[1]["from_nodes"] is True
    report = say("show")[1]
    assert (report["tells_finished"], report["from_nodes"]) == (False, True)
    assert say("set", "--finished", "on")[1]["tells_finished"] is True
