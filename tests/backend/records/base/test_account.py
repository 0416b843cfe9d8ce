"""A user of a container, whom the password file may not have."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from backend.base.cores import usable_cores
from backend.base.errors import BackendError
from backend.cli.main import run
from backend.node.checks import node_facts
from backend.records.base import account
from backend.ssh import client, client_config

_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def unlisted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No user is in the password file, as if its uid were another one."""

    def missing(key: object) -> None:
        raise KeyError(f"getpwuid(): uid not found: {key}")

    monkeypatch.setattr(pwd, "getpwuid", missing)
    monkeypatch.setattr(pwd, "getpwnam", missing)
    for name in _NAMES:
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("variable", ["", *_NAMES, "OTHER"])
def test_a_user_unknown_to_the_system_has_a_name(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable or "OTHER", "ada")
    account.prepare_account()
    assert account.user_name() == ("ada" if variable in _NAMES else str(os.getuid()))
    assert account.password_file_home() is None


@pytest.mark.parametrize("command", [["job", "list"], ["node", "list"], ["doctor"], []])
def test_without_a_home_every_command_says_what_to_set(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOME")
    assert run(command, lambda *_: pytest.fail("no window")) == 1
    assert capsys.readouterr().err.endswith("Set HOME to a folder of yours.\n")
    with pytest.raises(BackendError):
        account.prepare_account()


@pytest.mark.parametrize("path", ["~nosuchuser/a", "~nosuchuser", "/a", "a/~b", "~", "~/a"])
def test_a_path_of_an_unknown_user_stays_as_it_is(path: str, tmp_path: Path) -> None:
    expanded = account.expand_home(path)
    assert expanded == Path(path.replace("~", str(tmp_path), 1) if path in ("~", "~/a") else path)


def test_ssh_is_not_asked_for_a_user_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_config.subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    account.prepare_account()
    settings_of = client._lookup(None)
    assert settings_of(client_config.NodeAddress("node.example"))["hostname"] == "node.example"


def test_the_facts_of_such_a_node_have_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a node this file precedes it.
    monkeypatch.setattr(node_facts, "usable_cores", usable_cores, raising=False)
    assert node_facts.collect()["user"] == str(os.getuid())


def test_only_one_module_replaces_the_tilde() -> None:
    """`Path.expanduser` raises `RuntimeError` for an unknown user."""
    for tree in ("app", "backend", "widgets"):
        for path in (ROOT / tree).rglob("*.py"):
            has_it = ".expanduser()" in path.read_text("utf-8")
            assert has_it == (path.name == "account.py"), path
