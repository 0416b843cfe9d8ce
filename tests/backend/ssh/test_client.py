"""Getting in: whom we trust, which keys are tried, and a sentence for each way to fail."""

from __future__ import annotations

import base64
import logging
import os
import re
import secrets
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.provisioning import cluster_key
from backend.records.nodes.entry import NodeAddress
from backend.ssh.client import connect
from backend.ssh.interface import (
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    PassphraseNeeded,
    Shell,
    Unreachable,
)
from tests.backend.ssh.sshd_rig import USER, Sshd, make_key
from tests.waiting import LIMIT_S

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]
PASSPHRASE = f"korrekt-pferd-{secrets.token_hex(8)}"
"""In the list of processes, no test beside this one may show it."""


def enter(sshd: Sshd, **changed: object) -> Shell:
    address = replace(sshd.address, **changed)
    return connect(address, sshd.known_hosts, ssh_config=sshd.ssh_config)


def gets_in(shell: Shell) -> bool:
    try:
        return shell.run(["echo", "in"]).out == "in\n"
    finally:
        shell.close()


def test_a_key_and_a_trusted_host_get_in(sshd: Sshd) -> None:
    assert gets_in(enter(sshd))


def test_f56_a_host_never_seen_is_refused_with_its_fingerprint(sshd: Sshd) -> None:
    sshd.known_hosts.remove("127.0.0.1", sshd.port)
    with pytest.raises(HostKeyUnknown) as caught:
        enter(sshd)
    assert sshd.fingerprint in caught.value.message
    assert f"--accept-key {sshd.fingerprint}" in caught.value.remedy
    assert caught.value.key == sshd.host_key
    assert sshd.known_hosts.keys("127.0.0.1", sshd.port) == ()
    # Refused before the login: the server does not learn who wanted in.
    sshd.stop()
    assert "Accepted" not in sshd.log
    assert "Authentication" not in sshd.log


def test_f56_a_key_that_the_user_accepts_stays_accepted(sshd: Sshd) -> None:
    sshd.known_hosts.remove("127.0.0.1", sshd.port)
    with pytest.raises(HostKeyUnknown) as caught:
        enter(sshd)
    sshd.known_hosts.add(caught.value.key)
    assert gets_in(enter(sshd))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_f55_a_changed_host_key_is_refused_until_the_old_one_is_removed(
    sshd: Sshd, kind: str
) -> None:
    old = sshd.fingerprint
    sshd.stop()
    sshd.new_host_key(kind)
    sshd.start()
    with pytest.raises(HostKeyChanged) as caught:
        enter(sshd)
    assert old in caught.value.message
    assert sshd.fingerprint in caught.value.message
    assert (caught.value.accepted_fingerprint, caught.value.key.fingerprint) == (
        old,
        sshd.fingerprint,
    )
    assert f"node forget 127.0.0.1 --port {sshd.port}" in caught.value.remedy
    sshd.known_hosts.remove("127.0.0.1", sshd.port)
    with pytest.raises(HostKeyUnknown):
        enter(sshd)
    sshd.trust()
    assert gets_in(enter(sshd))


def test_f55_the_client_requests_the_accepted_kind_of_host_key(
    make_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    second = make_key(tmp_path / "second-host-key", kind="ecdsa")
    sshd = make_sshd(f"HostKey {second}")
    for public in (Path(f"{second}.pub"), sshd.home.parent / "host-key.pub"):
        sshd.known_hosts.remove("127.0.0.1", sshd.port)
        kind, text = public.read_text().split()[:2]
        sshd.known_hosts.add(replace(sshd.host_key, kind=kind, text=f"{kind} {text}"))
        assert gets_in(enter(sshd))


def test_only_the_known_hosts_of_the_program_are_used(sshd: Sshd) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir(mode=0o700)
    line = f"[127.0.0.1]:{sshd.port} {sshd.host_key.text}\n"
    (folder / "known_hosts").write_text(line)
    sshd.known_hosts.remove("127.0.0.1", sshd.port)
    with pytest.raises(HostKeyUnknown):
        enter(sshd)
    assert (folder / "known_hosts").read_text() == line


def test_keys_of_the_home_folder_and_of_the_settings_are_tried(sshd: Sshd, tmp_path: Path) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir(mode=0o700)
    key = make_key(folder / "id_ed25519")
    sshd.allow(key)
    assert gets_in(enter(sshd, identity=""))
    other_key = make_key(tmp_path / "other")
    sshd.allow(other_key)
    with pytest.raises(LoginRefused):
        enter(sshd, identity="")
    sshd.ssh_config.write_text(f"IdentityFile {other_key}\n")
    assert gets_in(enter(sshd, identity=""))


def test_the_settings_give_host_port_user_and_key(sshd: Sshd) -> None:
    sshd.ssh_config.write_text(
        f"Host gpu1\n HostName 127.0.0.1\n Port {sshd.port}\n User {USER}\n"
        f" IdentityFile {sshd.client_key}\n"
    )
    assert gets_in(connect(NodeAddress("gpu1"), sshd.known_hosts, ssh_config=sshd.ssh_config))


def test_without_a_file_named_the_users_own_settings_are_read(sshd: Sshd) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir(mode=0o700)
    (folder / "config").write_text(f"Host gpu1\n HostName 127.0.0.1\n Port {sshd.port}\n")
    address = replace(sshd.address, host="gpu1", port=0)
    assert gets_in(connect(address, sshd.known_hosts))


@contextmanager
def agent_with(*keys: Path) -> Iterator[None]:
    """A real ssh-agent that holds ``keys``, in this process's environment."""
    agent_output = subprocess.run(
        ["ssh-agent", "-s"], capture_output=True, text=True, check=True
    ).stdout
    values = dict(
        part.split("=", 1) for part in agent_output.replace("\n", ";").split(";") if "=" in part
    )
    agent_variables = {name.strip(): value for name, value in values.items()}
    os.environ.update(agent_variables)
    try:
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], check=True)
        yield
    finally:
        subprocess.run(["ssh-agent", "-k"], capture_output=True, check=True)
        for name in agent_variables:
            os.environ.pop(name, None)


def test_keys_of_the_agent_are_tried(sshd: Sshd) -> None:
    with agent_with(sshd.client_key):
        assert gets_in(enter(sshd, identity=""))
    with pytest.raises(LoginRefused):
        enter(sshd, identity="")


def test_the_requested_key_comes_before_many_keys_of_the_agent(sshd: Sshd, tmp_path: Path) -> None:
    # sshd ends the talk after six wrong keys.
    with agent_with(*(make_key(tmp_path / f"other-{n}") for n in range(8))):
        assert gets_in(enter(sshd))
        with pytest.raises(LoginRefused, match=r"other-0.*other-5"):
            enter(sshd, identity="")


@contextmanager
def agent_that_signs_nothing(*keys: tuple[str, bytes]) -> Iterator[None]:
    """An agent that lists ``keys``, each a comment and a public blob, and refuses all else."""

    def text(value: bytes) -> bytes:
        return struct.pack(">I", len(value)) + value

    def answer(line: socket.socket) -> None:
        with line, line.makefile("rb") as request:
            while len(head := request.read(4)) == 4:
                question = request.read(*struct.unpack(">I", head))
                key_list = b"".join(text(blob) + text(name.encode()) for name, blob in keys)
                answer = b"\x0c" + struct.pack(">I", len(keys)) + key_list
                line.sendall(text(answer if question[0] == 11 else b"\x05"))

    def serve() -> None:
        with suppress(OSError):
            while True:
                answer(server.accept()[0])

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/agent")
        server.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        os.environ["SSH_AUTH_SOCK"] = f"{folder}/agent"
        try:
            yield
        finally:
            os.environ.pop("SSH_AUTH_SOCK")
            server.shutdown(socket.SHUT_RDWR)
            serving.join(LIMIT_S)


def blob(kind: str, *parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in (kind.encode(), *parts))


STICK = ("mai@stick", blob("sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:"))


def test_a_key_that_the_agent_does_not_sign_with_is_passed_over(sshd: Sshd) -> None:
    public = Path(f"{sshd.client_key}.pub").read_text().split()[1]
    own_key = ("mai@own", base64.b64decode(public))
    broken = ("mai@broken", blob("ssh-ed25519", b"short"))
    sshd.ssh_config.write_text(f"IdentityFile {sshd.client_key}\n")
    with agent_that_signs_nothing(STICK, broken, own_key):
        assert gets_in(enter(sshd, identity=""))


def test_with_no_other_key_the_one_of_the_stick_is_named(sshd: Sshd) -> None:
    with agent_that_signs_nothing(STICK), pytest.raises(LoginRefused) as caught:
        enter(sshd, identity="")
    assert "no key could be used" in caught.value.message
    assert "“mai@stick” of the agent, on a hardware security key" in caught.value.message
    assert "ssh-keygen -t ed25519" in caught.value.remedy


def test_an_agent_of_the_settings_is_asked_and_none_is_none(sshd: Sshd) -> None:
    with agent_with(sshd.client_key):
        sshd.ssh_config.write_text("IdentityAgent none\n")
        with pytest.raises(LoginRefused, match="no key on this computer"):
            enter(sshd, identity="")
        sshd.ssh_config.write_text(f"IdentityAgent {os.environ.pop('SSH_AUTH_SOCK')}\n")
        assert gets_in(enter(sshd, identity=""))


def test_a_key_of_a_kind_that_the_server_has_not_is_passed_over(
    make_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    sshd = make_sshd("PubkeyAcceptedAlgorithms ssh-ed25519")
    other_key = make_key(tmp_path / "rsa", kind="rsa")
    sshd.ssh_config.write_text(f"IdentityFile {other_key}\nIdentityFile {sshd.client_key}\n")
    assert gets_in(enter(sshd, identity=""))


STICK_FILE = (
    b"-----BEGIN OPENSSH PRIVATE KEY-----\n"
    + base64.encodebytes(b"openssh-key-v1\0" + blob("none", b"none", b"") + STICK[1])
    + b"-----END OPENSSH PRIVATE KEY-----\n"
)
UNUSABLE = {
    "stick": (STICK_FILE, "on a hardware security key", "ssh-keygen -t ed25519"),
    "putty": (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "a PuTTY key", "puttygen"),
    "public": (b"ssh-ed25519 AAAA mai\n", "a public key", "without .pub"),
    "empty": (b"", "which is empty", "again"),
    "cut": (STICK_FILE[:60], "which is truncated", "Copy that key"),
    "letter": (b"Dear node,\n", "not a private key that can be read", "--identity"),
    "bytes": (bytes(range(256)), "not a private key that can be read", "--identity"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_key_file_that_cannot_be_used_is_passed_over_or_named_with_the_way_out(
    sshd: Sshd, tmp_path: Path, kind: str
) -> None:
    content, reason, remedy = UNUSABLE[kind]
    (tmp_path / kind).write_bytes(content)
    sshd.ssh_config.write_text(f"IdentityFile {tmp_path / kind}\n")
    with pytest.raises(LoginRefused, match=reason) as caught:
        enter(sshd, identity="")
    assert str(tmp_path / kind) in caught.value.message
    assert re.search(remedy, caught.value.remedy)
    sshd.ssh_config.write_text(f"IdentityFile {tmp_path / kind}\nIdentityFile {sshd.client_key}\n")
    assert gets_in(enter(sshd, identity=""))


def test_a_key_of_an_unknown_cipher_is_passed_over(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", PASSPHRASE, cipher="chacha20-poly1305@openssh.com")
    sshd.allow(key)
    address = replace(sshd.address, identity=str(key))
    with pytest.raises(LoginRefused, match="in a format that Ringmaster does not read") as caught:
        connect(address, sshd.known_hosts, passphrase=PASSPHRASE, ssh_config=sshd.ssh_config)
    assert f"ssh-keygen -p -f {key}" in caught.value.remedy


@pytest.mark.parametrize(
    ("cipher", "to"), [("aes256-gcm@openssh.com", ""), ("", "PKCS8"), ("", "PEM")]
)
@pytest.mark.parametrize("passphrase", ["", PASSPHRASE], ids=["open", "locked"])
def test_a_key_of_any_form_that_openssh_writes_gets_in(
    sshd: Sshd, tmp_path: Path, cipher: str, to: str, passphrase: str
) -> None:
    key = make_key(tmp_path / "key", passphrase, "rsa" if to else "ed25519", cipher, to)
    sshd.allow(key)
    address = replace(sshd.address, identity=str(key))
    if passphrase:
        with pytest.raises(PassphraseNeeded):
            enter(sshd, identity=str(key))
        with pytest.raises(PassphraseNeeded, match="does not open"):
            connect(address, sshd.known_hosts, passphrase="x", ssh_config=sshd.ssh_config)
    shell = connect(address, sshd.known_hosts, passphrase=passphrase, ssh_config=sshd.ssh_config)
    assert gets_in(shell)


@pytest.mark.parametrize("trusts", [True, False])
def test_a_certificate_is_shown_first_and_the_bare_key_after_it(
    make_sshd: Callable[..., Sshd], tmp_path: Path, trusts: bool
) -> None:
    authority, key = make_key(tmp_path / "authority"), make_key(tmp_path / "key")
    sign = ["ssh-keygen", "-qs", str(authority), "-I", "mai", "-n", USER, f"{key}.pub"]
    subprocess.run(sign, check=True, capture_output=True)
    sshd = make_sshd(*([f"TrustedUserCAKeys {authority}.pub"] if trusts else []))
    if not trusts:
        sshd.allow(key)
    assert gets_in(enter(sshd, identity=str(key)))


def test_a_key_file_that_cannot_be_opened_is_named(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    sshd.ssh_config.write_text(f"IdentityFile {tmp_path / 'folder'}\n")
    with pytest.raises(LoginRefused, match=r"folder, which cannot be read \(Is a directory\)"):
        enter(sshd, identity="")


def lock(sshd: Sshd) -> str:
    key = make_key(sshd.home.parent / "locked-key", PASSPHRASE)
    sshd.allow(key)
    return str(key)


def test_f52_a_locked_key_asks_for_its_passphrase(sshd: Sshd) -> None:
    key = lock(sshd)
    with pytest.raises(PassphraseNeeded, match="needs its passphrase") as caught:
        enter(sshd, identity=key)
    assert caught.value.identity == key
    address = replace(sshd.address, identity=key)
    with pytest.raises(PassphraseNeeded, match="does not open") as caught:
        connect(address, sshd.known_hosts, passphrase="wrong", ssh_config=sshd.ssh_config)
    assert "wrong" not in f"{caught.value.message} {caught.value.remedy}"
    shell = connect(address, sshd.known_hosts, passphrase=PASSPHRASE, ssh_config=sshd.ssh_config)
    assert gets_in(shell)


def test_the_key_of_the_cluster_runs_the_requested_command(sshd: Sshd) -> None:
    public = " ".join(Path(f"{sshd.client_key}.pub").read_text().split()[:2])
    sshd.allowed.write_text(cluster_key.authorized_line(public, "127.0.0.1/32") + "\n")
    assert gets_in(enter(sshd))


def test_an_unneeded_locked_key_asks_for_no_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    locked = make_key(tmp_path / "locked", PASSPHRASE)
    sshd.ssh_config.write_text(f"IdentityFile {locked}\nIdentityFile {sshd.client_key}\n")
    assert gets_in(enter(sshd, identity=""))


def test_f60_a_passphrase_is_in_no_file_log_or_process_list(
    sshd: Sshd, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    address = replace(sshd.address, identity=lock(sshd))
    with caplog.at_level(logging.DEBUG):
        shell = connect(
            address, sshd.known_hosts, passphrase=PASSPHRASE, ssh_config=sshd.ssh_config
        )
        processes = shell.run(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"])
        shell.close()
        with pytest.raises(PassphraseNeeded) as caught:
            connect(address, sshd.known_hosts, passphrase=f"{PASSPHRASE}x")
    assert caplog.records, "paramiko logs what it does, and the log was checked"
    assert PASSPHRASE not in caplog.text
    assert PASSPHRASE not in processes.out
    assert PASSPHRASE not in f"{caught.value} {caught.value.remedy}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if PASSPHRASE.encode() in path.read_bytes()] == []


def test_f61_the_accepted_keys_are_the_users_alone(sshd: Sshd) -> None:
    path = sshd.known_hosts.path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_f52_a_wrong_key_names_user_host_and_the_tried_keys(sshd: Sshd, tmp_path: Path) -> None:
    wrong_key = make_key(tmp_path / "wrong-key")
    with pytest.raises(LoginRefused) as caught:
        enter(sshd, identity=str(wrong_key))
    message = caught.value.message
    assert f"127.0.0.1 refuses {USER}" in message
    assert str(wrong_key) in message
    assert "ssh-copy-id" in caught.value.remedy


def test_f52_a_wrong_user_is_named(sshd: Sshd) -> None:
    with pytest.raises(LoginRefused, match="refuses nobody-here"):
        enter(sshd, user="nobody-here")


def test_f52_no_key_at_all_and_no_such_key_are_named(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(LoginRefused, match="no key on this computer"):
        enter(sshd, identity="")
    with pytest.raises(BackendError, match="There is no key file /no/such/key"):
        enter(sshd, identity="/no/such/key")
    (tmp_path / "letter").write_text("Dear node, let me in.")
    with pytest.raises(LoginRefused, match="letter, which is not a private key that can be read"):
        enter(sshd, identity=str(tmp_path / "letter"))


def test_f52_a_server_that_takes_no_keys_is_named(make_sshd: Callable[..., Sshd]) -> None:
    sshd = make_sshd("PubkeyAuthentication no", "GSSAPIAuthentication yes")
    with pytest.raises(LoginRefused, match="only, and Ringmaster needs a key"):
        enter(sshd)


def test_f52_a_second_factor_is_named(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    sshd = make_sshd("AuthenticationMethods publickey,publickey")
    with pytest.raises(LoginRefused, match="requires a second factor"):
        enter(sshd)


def test_f52_an_unknown_host_is_named(sshd: Sshd) -> None:
    with pytest.raises(Unreachable, match=r"The host no-such-host\.invalid was not found"):
        enter(sshd, host="no-such-host.invalid")


def test_f52_a_refused_connection_is_named(sshd: Sshd) -> None:
    # Bound and not listened at: it refuses, and nothing else can take it meanwhile.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(Unreachable, match=f"127.0.0.1 refuses connections on port {port}"):
            enter(sshd, port=port)


def test_f52_no_route_is_named(sshd: Sshd) -> None:
    # Linux has no route for a TCP connection to a broadcast address, in any network.
    with pytest.raises(Unreachable, match=r"There is no route to 255\.255"):
        enter(sshd, host="255.255.255.255")


def test_f52_a_host_that_does_not_answer_is_named(sshd: Sshd) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        # The queue holds one; what comes after it gets no answer.
        connection = socket.create_connection(("127.0.0.1", port))
        address = replace(sshd.address, port=port)
        with pytest.raises(Unreachable, match=f"did not answer on port {port} within 1 s"):
            connect(address, sshd.known_hosts, limit_s=1.0, ssh_config=sshd.ssh_config)
        connection.close()


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not an SSH server"),
        (b"220 mail.lab ESMTP\r\n", "is not an SSH server"),
        (b"\x00\xff" * 500, "is not an SSH server"),
        (None, "sent no greeting within 1 s"),
    ],
)
def test_f52_a_port_of_something_else_is_named(
    sshd: Sshd, greeting: bytes | None, message: str
) -> None:
    with socket.socket() as other_key:
        other_key.bind(("127.0.0.1", 0))
        other_key.listen()
        address = replace(sshd.address, port=other_key.getsockname()[1])
        connections = []

        def answer() -> None:
            peer, _ = other_key.accept()
            connections.append(peer)
            if greeting is not None:
                peer.sendall(greeting)
                peer.shutdown(socket.SHUT_WR)

        answering = threading.Thread(target=answer)
        answering.start()
        limit_s = 1.0 if greeting is None else LIMIT_S
        with pytest.raises(Unreachable, match=message):
            connect(address, sshd.known_hosts, limit_s=limit_s, ssh_config=sshd.ssh_config)
        answering.join(LIMIT_S)
        for peer in connections:
            peer.close()


def test_f52_a_server_that_stands_still_is_given_up(sshd: Sshd) -> None:
    sshd.freeze()
    with pytest.raises(Unreachable, match="sent no greeting within 1 s"):
        connect(sshd.address, sshd.known_hosts, limit_s=1.0, ssh_config=sshd.ssh_config)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch x", "a b", "a@b", "a/b", "a\nb"])
def test_f54_an_invalid_host_name_is_refused_in_words(sshd: Sshd, host: str) -> None:
    with pytest.raises(BackendError, match="is not a valid host name"):
        enter(sshd, host=host)


def test_settings_that_cannot_be_used_are_named(sshd: Sshd) -> None:
    sshd.ssh_config.write_text("Port not-a-number\n")
    with pytest.raises(BackendError, match=f"{sshd.ssh_config} line 1: Bad"):
        enter(sshd, port=0)
    sshd.ssh_config.write_text("ThisLineHasOneWord\n")
    with pytest.raises(BackendError, match=str(sshd.ssh_config)):
        enter(sshd)
    sshd.ssh_config.unlink()
    with pytest.raises(BackendError, match=str(sshd.ssh_config)):
        enter(sshd)
    sshd.ssh_config.write_text("Host *\n ProxyCommand touch /tmp/x\n")
    with pytest.raises(BackendError, match="ProxyCommand"):
        enter(sshd)


def test_a_node_behind_a_jump_host(make_sshd: Callable[..., Sshd]) -> None:
    jump, node = make_sshd(), make_sshd()
    jump.allow(node.client_key)
    jump_address = f"{USER}@127.0.0.1:{jump.port}"
    with pytest.raises(HostKeyUnknown) as caught:
        enter(node, jump=jump_address)
    assert caught.value.key == jump.host_key
    node.known_hosts.add(jump.host_key)
    node.ssh_config.write_text(f"IdentityFile {node.client_key}\n")
    assert gets_in(enter(node, jump=jump_address))
    node.ssh_config.write_text(
        f"IdentityFile {node.client_key}\nHost gpu1\n HostName 127.0.0.1\n Port {node.port}\n"
        f" ProxyJump way-in\nHost way-in\n HostName 127.0.0.1\n Port {jump.port}\n"
    )
    assert gets_in(enter(node, host="gpu1", port=0))


def test_f55_a_changed_key_of_a_jump_host_is_refused(make_sshd: Callable[..., Sshd]) -> None:
    jump, node = make_sshd(), make_sshd()
    jump.allow(node.client_key)
    node.ssh_config.write_text(f"IdentityFile {node.client_key}\n")
    node.known_hosts.add(replace(node.host_key, port=jump.port))
    with pytest.raises(HostKeyChanged) as caught:
        enter(node, jump=f"127.0.0.1:{jump.port}")
    assert caught.value.key == jump.host_key


def test_f52_a_node_that_the_jump_host_does_not_reach_is_named(
    make_sshd: Callable[..., Sshd],
) -> None:
    jump, node = make_sshd(), make_sshd()
    jump.allow(node.client_key)
    node.ssh_config.write_text(f"IdentityFile {node.client_key}\n")
    node.known_hosts.add(jump.host_key)
    node.stop()
    with pytest.raises(Unreachable, match=r"jump host 127.0.0.1 could not reach 127.0.0.1 on port"):
        enter(node, jump=f"127.0.0.1:{jump.port}")
