"""The file of accepted keys, as OpenSSH's own tools read it."""

from __future__ import annotations

import base64
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.records.nodes.entry import HostKey
from backend.ssh.known_hosts import KnownHosts, fingerprint, host_key, host_name
from tests.backend.ssh.sshd_rig import make_key

hosts = st.sampled_from(["gpu1", "GPU2.lab", "10.0.0.7", "fe80::1", "127.0.0.1"])
ports = st.sampled_from([22, 2222, 65535])
blobs = st.binary(min_size=1, max_size=40)
keys = st.builds(host_key, hosts, ports, st.sampled_from(["ssh-ed25519", "ssh-rsa"]), blobs)
foreign = st.one_of(
    st.sampled_from(["# who this is", "@revoked gpu1 ssh-rsa AAAA", "|1|c2FsdA==|aGFzaA== k AAAA"]),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=60),
)


def empty(tmp_path_factory: pytest.TempPathFactory) -> KnownHosts:
    return KnownHosts(tmp_path_factory.mktemp("profile") / "known_hosts")


@given(st.lists(keys, max_size=12))
def test_an_added_key_is_found_only_under_its_host(
    tmp_path_factory: pytest.TempPathFactory, added: list[HostKey]
) -> None:
    known_hosts = empty(tmp_path_factory)
    for key in added:
        known_hosts.add(key)
    for key in added:
        found_keys = known_hosts.keys(key.host, key.port)
        expected_keys = [
            host_key for host_key in added if (host_key.host, host_key.port) == (key.host, key.port)
        ]
        assert list(found_keys) == list(dict.fromkeys(expected_keys))
        assert known_hosts.keys(key.host, 1) == ()


@given(st.lists(st.one_of(keys, foreign), max_size=12), keys)
def test_removing_touches_no_other_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[HostKey | str], removed_key: HostKey
) -> None:
    known_hosts = empty(tmp_path_factory)
    known_hosts.path.parent.mkdir(exist_ok=True)
    name = host_name(removed_key.host, removed_key.port)
    texts = [
        f"{host_name(line.host, line.port)} {line.text}" if isinstance(line, HostKey) else line
        for line in lines
    ]
    known_hosts.path.write_text("".join(f"{text}\n" for text in texts), newline="\n")
    known_hosts.add(removed_key)
    assert known_hosts.remove(removed_key.host, removed_key.port) >= 1
    assert known_hosts.keys(removed_key.host, removed_key.port) == ()
    remaining_lines = known_hosts.path.read_bytes().decode().split("\n")[:-1]
    # A line of anything else may by chance be one of this host's.
    assert remaining_lines == [
        text for text in texts if text and not str(text).strip().startswith(f"{name} ")
    ]
    assert known_hosts.remove(removed_key.host, removed_key.port) == 0


@given(st.binary(max_size=400))
def test_any_bytes_are_read_and_kept(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    known_hosts = empty(tmp_path_factory)
    known_hosts.path.write_bytes(content)
    known_hosts.keys("gpu1")
    known_hosts.add(host_key("gpu1", 22, "ssh-ed25519", b"key"))
    kept_content = known_hosts.path.read_bytes()
    assert [line for line in content.split(b"\n") if line] == kept_content.split(b"\n")[:-2]
    assert len(known_hosts.keys("gpu1")) == 1


def test_a_line_of_several_names_loses_the_one(tmp_path: Path) -> None:
    known_hosts = KnownHosts(tmp_path / "known_hosts")
    text = f"ssh-rsa {base64.b64encode(b'key').decode()} a comment"
    known_hosts.path.write_text(f"gpu1,10.0.0.1,[gpu1]:2222 {text}\n")
    assert len(known_hosts.keys("GPU1")) == len(known_hosts.keys("10.0.0.1")) == 1
    assert known_hosts.remove("gpu1") == 1
    assert known_hosts.path.read_text() == f"10.0.0.1,[gpu1]:2222 {text}\n"


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_openssh_reads_the_file_and_prints_the_same_fingerprint(tmp_path: Path, kind: str) -> None:
    public = Path(f"{make_key(tmp_path / 'key', kind=kind)}.pub").read_text().split()
    blob = base64.b64decode(public[1])
    known_hosts = KnownHosts(tmp_path / "profile" / "known_hosts")
    known_hosts.add(host_key("gpu1", 2222, public[0], blob))
    for arguments in (
        ["-lf", str(known_hosts.path)],
        ["-lF", "[gpu1]:2222", "-f", str(known_hosts.path)],
    ):
        completed = subprocess.run(
            ["ssh-keygen", *arguments], capture_output=True, text=True, check=True
        )
        assert fingerprint(blob) in completed.stdout


def test_f61_file_and_folder_are_the_users_alone(tmp_path: Path) -> None:
    known_hosts = KnownHosts(tmp_path / "profile" / "known_hosts")
    known_hosts.add(host_key("gpu1", 22, "ssh-rsa", b"1"))
    known_hosts.path.chmod(0o644)
    known_hosts.path.parent.chmod(0o755)
    known_hosts.add(host_key("gpu2", 22, "ssh-rsa", b"2"))
    assert known_hosts.path.stat().st_mode & 0o777 == 0o600
    assert known_hosts.path.parent.stat().st_mode & 0o777 == 0o700


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"

    def add(first: int) -> None:
        for n in range(first, first + 10):
            KnownHosts(path).add(host_key(f"gpu{n}", 22, "ssh-rsa", str(n).encode()))

    threads = [threading.Thread(target=add, args=(k * 10,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(KnownHosts(path).keys(f"gpu{n}")) == 1 for n in range(60))


def test_a_file_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").mkdir()
    with pytest.raises(BackendError, match="known_hosts cannot be read"):
        KnownHosts(tmp_path / "known_hosts").keys("gpu1")
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match="cannot be"):
        KnownHosts(tmp_path / "file" / "known_hosts").add(host_key("g", 22, "ssh-rsa", b"1"))


@given(st.lists(keys, max_size=8))
def test_all_accepted_keys_are_listed_with_host_and_port(
    tmp_path_factory: pytest.TempPathFactory, accepted: list[HostKey]
) -> None:
    known_hosts = empty(tmp_path_factory)
    for key in accepted:
        known_hosts.add(key)
    expected_keys = {(key.host.lower(), key.port, key.text, key.fingerprint) for key in accepted}
    assert {
        (key.host, key.port, key.text, key.fingerprint) for key in known_hosts.all()
    } == expected_keys
