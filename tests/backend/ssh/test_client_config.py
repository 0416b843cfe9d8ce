"""`~/.ssh/config` means here what it means to ssh: with ssh asked, and without ssh at all."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.nodes.entry import NodeAddress
from backend.ssh.client import hops_of

WITH_AND_WITHOUT_SSH = pytest.mark.parametrize("has_ssh", [True, False], ids=["ssh", "no ssh"])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path / ".ssh/config"


def hide_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


@WITH_AND_WITHOUT_SSH
def test_a_comment_behind_a_value_ends_the_value(
    settings: Path, monkeypatch: pytest.MonkeyPatch, has_ssh: bool
) -> None:
    settings.write_text(
        "Host gpu1  # the first\n HostName 10.0.0.1 # in the lab\n Port 22033 # the lab\n"
        ' User root\t# the admin\n IdentityFile "~/.ssh/a # b" # odd\n'
        " IdentityFile ~/c#d\n"
    )
    if not has_ssh:
        hide_ssh(monkeypatch)
    (hop,) = hops_of(NodeAddress("gpu1"))
    assert (hop.host, hop.port, hop.user) == ("10.0.0.1", 22033, "root")
    home = str(settings.parent.parent)
    assert [identity.replace("~", home) for identity in hop.identities] == [
        f"{home}/.ssh/a # b",
        f"{home}/c#d",
    ]


@WITH_AND_WITHOUT_SSH
@pytest.mark.parametrize(
    ("first", "user"),
    [
        ("Match final all", "lab"),
        ("Match !final host *", "lab"),
        ("Match all", "lab"),
        ("Match host other*.example", getpass.getuser()),
        ("Match host gpu*,!gpu7 user *", "lab"),
        ("Match originalhost=gpu1 !localuser nobody", "lab"),
    ],
)
def test_a_match_block_holds_where_it_holds_for_ssh(
    settings: Path, monkeypatch: pytest.MonkeyPatch, first: str, user: str, has_ssh: bool
) -> None:
    settings.write_text(f"{first}\n User lab\nHost gpu1\n Port 2022\n")
    if not has_ssh:
        monkeypatch.setattr("shutil.which", lambda _name: None)
    (hop,) = hops_of(NodeAddress("gpu1"))
    assert (hop.user, hop.port) == (user, 2022)


@pytest.mark.parametrize(
    "first",
    [
        "Match localnetwork 192.0.2.0/24",
        "Match tagged lab",
        "Match !tagged lab",
        "Match command rsync",
        "Match sessiontype shell",
        "Match exec true",
        "Match host",
        'Match host "gpu1',
        'Host "gpu1',
        "OneWordAlone",
    ],
)
def test_without_ssh_an_unknown_match_block_holds_for_no_host(
    settings: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    settings.write_text(f"{first}\n ProxyJump bastion\n User lab\nHost gpu*\n Port 2022\n")
    hide_ssh(monkeypatch)
    (hop,) = hops_of(NodeAddress("gpu1"))
    assert (hop.port, hop.user) == (2022, getpass.getuser())


def test_ssh_evaluates_a_match_block_that_runs_a_program(settings: Path) -> None:
    settings.write_text(
        "Match exec false\n User root2\nMatch originalhost gpu1 !exec false\n User lab\n"
    )
    assert hops_of(NodeAddress("gpu1"))[0].user == "lab"


def test_a_fault_is_shown_in_the_words_of_ssh_with_file_and_line(settings: Path) -> None:
    settings.write_text("Host gpu1\n ForwardEverything yes\n")
    with pytest.raises(BackendError) as caught:
        hops_of(NodeAddress("gpu7"))
    assert (
        f"{settings}: line 2: Bad configuration option: forwardeverything" in caught.value.message
    )
    assert "terminating" not in caught.value.message


def test_given_user_and_port_decide_which_blocks_match(settings: Path) -> None:
    settings.write_text("Match user lab\n IdentityFile ~/.ssh/lab\nHost *\n User root\n")
    (hop,) = hops_of(NodeAddress("gpu1", user="lab"))
    assert hop.identities == ("~/.ssh/lab",)


def test_includes_tokens_and_jumps_are_those_of_ssh(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    (settings.parent / "more").write_text(
        "Host gpu1\n HostName %h.lab.example\n User lab\n ProxyJump admin@door:2222\n"
        " IdentityFile ${KEYS}/%n-%r-%h%%\n IdentityFile %d/x\n"
        "Host door\n HostName 192.0.2.1\n"
    )
    settings.write_text(f"Include {settings.parent}/more\n")
    door, node = hops_of(NodeAddress("gpu1"))
    assert (door.host, door.port, door.user) == ("192.0.2.1", 2222, "admin")
    assert node.host == "gpu1.lab.example"
    assert node.identities == ("/keys/gpu1-lab-gpu1.lab.example%", f"{Path.home()}/x")


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("", None),
        ("IdentityAgent none", ""),
        ("IdentityAgent SSH_AUTH_SOCK", None),
        ("IdentityAgent /run/keys.sock", "/run/keys.sock"),
        ("IdentityAgent $KEY_AGENT", "/run/other.sock"),
    ],
)
def test_the_agent_is_the_one_that_the_settings_name(
    settings: Path, monkeypatch: pytest.MonkeyPatch, text: str, agent: str | None
) -> None:
    monkeypatch.setenv("KEY_AGENT", "/run/other.sock")
    settings.write_text(f"{text}\n")
    assert hops_of(NodeAddress("gpu1"))[0].agent == agent
