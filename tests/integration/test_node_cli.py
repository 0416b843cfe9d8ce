"""The node commands as their user meets them, with a real sshd at the other end."""

from __future__ import annotations

import json
import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as Fail

from backend.cli.main import run
from backend.node.system.start_supervisor import CODE_ROOT
from tests.backend.ssh.sshd_rig import Sshd, make_key

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]
Main = Callable[..., tuple[int, str, str]]
PASSPHRASE = "korrekt-pferd-batterie"


@pytest.fixture
def common(tmp_path: Path) -> list[str]:
    catalogue = tmp_path / "desktop" / "catalogue.sqlite"
    return ["--data-root", str(tmp_path / "data"), "--catalogue", str(catalogue)]


@pytest.fixture
def main(common: list[str], capsys: pytest.CaptureFixture[str]) -> Main:
    """main.py with no terminal anywhere: its code and what it printed."""

    def main(*args: str) -> tuple[int, str, str]:
        code = run([*common, *args], no_window)
        return code, *capsys.readouterr()

    return main


def no_window(*_: object) -> int:
    raise AssertionError("these words open no window")


def add_node_args(sshd: Sshd, *options: str) -> list[str]:
    key = str(sshd.client_key)
    return ["node", "add", "127.0.0.1", "--port", str(sshd.port), "--identity", key, *options]


def test_f56_the_refusal_holds_the_fingerprint_and_the_flag_that_accepts_it(
    main: Main, sshd: Sshd, tmp_path: Path
) -> None:
    code, out, err = main(*add_node_args(sshd))
    assert (code, out) == (1, "")
    assert sshd.fingerprint in err
    assert f"--accept-key {sshd.fingerprint}" in err
    assert "Traceback" not in err
    code, out, err = main(*add_node_args(sshd, "--json", "--accept-key", "SHA256:other"))
    assert (code, err) == (1, "")
    assert f"--accept-key {sshd.fingerprint}" in json.loads(out)["error"]["remedy"]
    assert not (tmp_path / "data" / "nodes").exists()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("key_choice", ["right", "other", "both"])
def test_a_command_that_connects_accepts_a_removed_key_again(
    main: Main, sshd: Sshd, tmp_path: Path, is_first: bool, key_choice: str
) -> None:
    right_args, other_args = ("--accept-key", sshd.fingerprint), ("--accept-key", "SHA256:other")
    accept = {"right": right_args, "other": other_args, "both": (*other_args, *right_args)}[
        key_choice
    ]
    assert main(*add_node_args(sshd, *right_args, "--name", "gpu1"))[0] == 0
    assert main("node", "forget", "127.0.0.1", "--port", str(sshd.port))[0] == 0
    # It has no Open MPI of its own, which only a connection can find out.
    provision_args = ("node", "provision", "gpu1", "--system-mpi")
    code, _, err = main(*accept, *provision_args) if is_first else main(*provision_args, *accept)
    assert code == 1
    assert ("has not been accepted here" in err) is (key_choice == "other")
    forget_result = main("node", "forget", "127.0.0.1", "--port", str(sshd.port))
    assert forget_result[0] == (1 if key_choice == "other" else 0)


def test_a_node_is_added_and_removed(main: Main, sshd: Sshd, tmp_path: Path) -> None:
    accept = ("--accept-key", sshd.fingerprint)
    code, out, err = main(*add_node_args(sshd, *accept, "--name", "gpu1", "--json"))
    assert (code, err) == (0, "")
    entry = json.loads(out)
    assert (entry["name"], entry["facts"]["data_root"]) == ("gpu1", str(tmp_path / "data"))
    code, out, err = main(*add_node_args(sshd, "--node-data-root", "/mnt/nothing"))
    assert code == 0
    assert out.startswith("Added 127.0.0.1.\n")
    assert "--node-data-root PATH" in err
    code, out, err = main(*add_node_args(sshd, "--name", "gpu1"))
    assert (code, out) == (1, "")
    assert "“gpu1” exists already" in err
    code, out, _ = main("node", "remove", "gpu1")
    assert (code, out) == (0, f"Moved node gpu1 to {tmp_path / 'data' / 'trash'}.\n")
    code, _, err = main("node", "remove", "gpu1")
    assert code == 1
    assert "There is no node “gpu1”" in err
    code, out, _ = main("node", "forget", "127.0.0.1", "--port", str(sshd.port))
    assert (code, out) == (0, "Removed 1 host key of 127.0.0.1.\n")


class Terminal:
    """main.py at a terminal of its own; ``type`` answers what was printed last."""

    def __init__(self, args: list[str]) -> None:
        self.output = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execv(sys.executable, [sys.executable, str(CODE_ROOT / "main.py"), *args])

    def until(self, text: str) -> None:
        while text not in self.output:
            chunk = os.read(self._terminal, 4096).decode()
            assert chunk, self.output
            self.output += chunk

    def type(self, line: str) -> None:
        self.output = ""
        os.write(self._terminal, f"{line}\n".encode())

    def end(self) -> int:
        try:
            while chunk := os.read(self._terminal, 4096):
                self.output += chunk.decode()
        except OSError:
            pass  # so Linux says that the other side of a terminal has gone
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.mark.parametrize(("answer", "code"), [("y", 1), ("yes", 0)])
def test_f56_at_a_terminal_only_a_written_yes_is_a_yes(
    common: list[str], sshd: Sshd, tmp_path: Path, answer: str, code: int
) -> None:
    terminal = Terminal([*common, *add_node_args(sshd)])
    terminal.until("Type yes")
    assert sshd.fingerprint in terminal.output
    terminal.type(answer)
    assert terminal.end() == code
    assert (tmp_path / "data" / "nodes").exists() == (code == 0)


def test_f60_a_passphrase_typed_at_a_terminal_is_not_shown(
    common: list[str], main: Main, sshd: Sshd, tmp_path: Path
) -> None:
    key = make_key(tmp_path / "locked-key", PASSPHRASE)
    sshd.allow(key)
    args = add_node_args(sshd, "--accept-key", sshd.fingerprint)
    args[args.index(str(sshd.client_key))] = str(key)
    code, _, err = main(*args)
    assert code == 1
    assert f"ssh-add {key}" in err
    terminal = Terminal([*common, *args])
    terminal.until(f"Passphrase of {key}: ")
    terminal.type(PASSPHRASE)
    assert terminal.end() == 0
    assert PASSPHRASE not in terminal.output
    assert "Added 127.0.0.1." in terminal.output
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if PASSPHRASE.encode() in path.read_bytes()] == []


def test_f61_only_the_user_can_read_the_files_of_the_desktop(
    main: Main, sshd: Sshd, tmp_path: Path
) -> None:
    assert main(*add_node_args(sshd, "--accept-key", sshd.fingerprint))[0] == 0
    profile = tmp_path / "desktop" / "catalogue.sqlite.cluster"
    assert profile.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in profile.iterdir()] == ["known_hosts"]
    assert (profile / "known_hosts").stat().st_mode & 0o777 == 0o600


def test_without_a_system_keyring_no_node_with_a_kept_passphrase_is_added(
    main: Main, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", Fail)
    args = add_node_args(sshd, "--accept-key", sshd.fingerprint, "--keep-passphrase")
    code, _, err = main(*args)
    assert code == 1
    assert "no system keyring" in err
    assert not (tmp_path / "data" / "nodes").exists()
