"""The cluster's key, and the two texts of OpenSSH that are edited for it."""

from __future__ import annotations

import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.provisioning import cluster_key
from backend.provisioning.cluster_key import Peer
from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeAddress, NodeEntry
from tests.fakes.local_shell import LocalShell

KEY = cluster_key.make_key()
OTHER_KEY = cluster_key.make_key()
SUBNET = "10.77.0.0/24"
LINE = cluster_key.authorized_line(KEY.public_key, SUBNET)
GPU1 = Peer("gpu1", "10.77.0.2", 0, "lab", f"{KEY.public_key}")
GPU2 = Peer("gpu2", "10.77.0.3", 2222, "", f"{OTHER_KEY.public_key}")
PATHS = {"identity": "/home/lab/rm/ssh/id_cluster", "known_hosts": "/home/lab/rm/ssh/known_hosts"}

lists = st.lists(
    st.one_of(
        st.binary(max_size=40).filter(lambda line: b"\n" not in line),
        st.sampled_from(
            [
                b"",
                b"# " + LINE.encode(),
                f"ssh-ed25519 AAAA {cluster_key.COMMENT}".encode(),
                cluster_key.authorized_line(OTHER_KEY.public_key, SUBNET).encode(),
                f"{KEY.public_key} me@laptop\r".encode(),
            ]
        ),
    ),
    max_size=6,
).map(b"\n".join)


@given(lists)
def test_our_line_joins_and_every_other_stays_byte_for_byte(content: bytes) -> None:
    joined = cluster_key.with_line(content, LINE)
    assert joined.startswith(content)
    assert joined[len(content) :] in (LINE.encode() + b"\n", b"\n" + LINE.encode() + b"\n")
    assert cluster_key.with_line(joined, LINE) == joined


@given(lists)
def test_removing_our_line_restores_the_list(content: bytes) -> None:
    remaining_content = cluster_key.without_line(
        cluster_key.with_line(content, LINE), KEY.public_key
    )
    assert remaining_content in (content, content + b"\n")


@given(lists, lists)
def test_another_subnet_takes_the_old_line_s_place_once(
    lines_before: bytes, lines_after: bytes
) -> None:
    old = cluster_key.authorized_line(KEY.public_key, "10.0.0.0/8").encode()
    new_line = LINE.encode()
    content = b"\n".join((lines_before, old, lines_after, old, b""))
    assert cluster_key.with_line(content, LINE) == b"\n".join(
        (lines_before, new_line, lines_after, b"")
    )


def test_the_key_is_let_in_from_the_subnet_and_from_nodes_outside_of_it() -> None:
    entry = NodeEntry("gpu1", NodeAddress("gpu1"), ranks_address="10.77.0.2/24")
    outside = Peer("gpu3", "10.99.0.4", 0, "", OTHER_KEY.public_key, ("10.77.0.9", "fd00::4"))
    assert cluster_key.sources(entry, [GPU1, GPU2]) == SUBNET
    assert cluster_key.sources(entry, [GPU1, GPU2, outside]) == f"{SUBNET},10.99.0.4,fd00::4"
    line = cluster_key.authorized_line(KEY.public_key, cluster_key.sources(entry, [outside]))
    assert line.startswith(f'restrict,from="{SUBNET},10.99.0.4/32,fd00::4/128",')
    with pytest.raises(ValueError, match=r"10\.99\.0\.4 x"):
        cluster_key.authorized_line(KEY.public_key, '10.77.0.0/24,10.99.0.4 x"')


def test_openssh_reads_the_pair_and_the_line_as_they_are_meant(tmp_path: Path) -> None:
    private = cluster_key.store_key(tmp_path, KEY) and tmp_path / cluster_key.PRIVATE_NAME
    printed_key = subprocess.run(
        ["ssh-keygen", "-y", "-f", private], capture_output=True, text=True, check=True
    )
    assert printed_key.stdout.split()[:2] == KEY.public_key.split()
    key_list = tmp_path / "authorized_keys"
    key_list.write_text(f"{LINE}\n")
    fingerprint = subprocess.run(
        ["ssh-keygen", "-l", "-f", key_list], capture_output=True, text=True, check=True
    )
    assert fingerprint.stdout.split()[2:] == [cluster_key.COMMENT, "(ED25519)"]
    assert LINE.startswith('restrict,from="10.77.0.0/24",command="exec env SHELL=/bin/sh ')


def test_the_private_part_is_the_owner_s_alone_and_shows_in_no_text(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    cluster_key.store_key(folder, KEY)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / cluster_key.PRIVATE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == [cluster_key.PRIVATE_NAME]
    assert "PRIVATE" not in repr(KEY)


def test_one_of_many_concurrently_made_keys_wins(tmp_path: Path) -> None:
    start, kept_keys = threading.Barrier(8), []

    def make() -> None:
        own_key = cluster_key.make_key()
        start.wait()
        kept_keys.append(cluster_key.store_key(tmp_path, own_key))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key.public_key for key in kept_keys}) == 1
    assert cluster_key.stored_key(tmp_path) == kept_keys[0]


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    (tmp_path / cluster_key.PRIVATE_NAME).write_text("no key")
    with pytest.raises(BackendError, match="id_cluster cannot be used") as caught:
        cluster_key.stored_key(tmp_path)
    assert caught.value.remedy


def test_openssh_reads_the_client_file_as_intended(tmp_path: Path) -> None:
    config, known_hosts = cluster_key.ssh_settings(
        [GPU1, replace(GPU2, unique_addresses=("100.64.0.3",))], **PATHS
    )
    path = tmp_path / "config"
    path.write_text(config)

    def resolved(host: str) -> dict[str, str]:
        done = subprocess.run(
            ["ssh", "-G", "-F", path, host], capture_output=True, text=True, check=True
        )
        return dict(line.split(" ", 1) for line in done.stdout.splitlines())

    first, second = resolved("10.77.0.2"), resolved("10.77.0.3")
    assert resolved("100.64.0.3") == second | {"host": "100.64.0.3", "hostname": "100.64.0.3"}
    expected_settings = {
        "hostname": "10.77.0.2",
        "port": "22",
        "user": "lab",
        "hostkeyalias": "gpu1",
        "identityfile": PATHS["identity"],
        "identitiesonly": "yes",
        "userknownhostsfile": PATHS["known_hosts"],
        "stricthostkeychecking": "true",
        "batchmode": "yes",
        "connecttimeout": "10",
    }
    assert {name: first[name] for name in expected_settings} == expected_settings
    assert (second["port"], second["hostkeyalias"]) == ("2222", "gpu2")
    hosts = tmp_path / "known_hosts"
    hosts.write_text(known_hosts)
    for name in ("gpu1", "10.77.0.2"):
        completed = subprocess.run(
            ["ssh-keygen", "-F", name, "-f", hosts], capture_output=True, text=True, check=True
        )
        assert KEY.public_key in completed.stdout


@pytest.mark.parametrize(
    "peer",
    [
        Peer("gpu 1", "10.77.0.2", 0, "lab", KEY.public_key),
        Peer("-oProxyCommand=x", "10.77.0.2", 0, "lab", KEY.public_key),
        Peer("gpu1\n  ProxyCommand x", "10.77.0.2", 0, "lab", KEY.public_key),
        Peer("gpu1", "10.77.0.2 *", 0, "lab", KEY.public_key),
        Peer("gpu1", "gpu1.example.org", 0, "lab", KEY.public_key),
        Peer("gpu1", "10.77.0.2", 70000, "lab", KEY.public_key),
        Peer("gpu1", "10.77.0.2", -1, "lab", KEY.public_key),
        Peer("gpu1", "10.77.0.2", 0, "la b", KEY.public_key),
        Peer("gpu1", "10.77.0.2", 0, "%u", KEY.public_key),
        Peer("gpu1", "10.77.0.2", 0, "lab", f"{KEY.public_key}\n* {OTHER_KEY.public_key}"),
        Peer("gpu1", "10.77.0.2", 0, "lab", ""),
    ],
)
def test_values_that_ssh_could_misread_are_refused(peer: Peer) -> None:
    with pytest.raises(BackendError):
        cluster_key.ssh_settings([peer], **PATHS)


def test_a_path_with_a_blank_is_refused() -> None:
    with pytest.raises(BackendError, match="is not allowed in SSH settings"):
        cluster_key.ssh_settings([GPU1], identity="/home/la b/id", known_hosts="/home/lab/known")


@pytest.fixture
def shell(tmp_path: Path) -> LocalShell:
    return LocalShell(tmp_path / "home")


@pytest.fixture
def home(shell: LocalShell) -> NodeHome:
    return NodeHome(PurePosixPath(shell.home / "rm"))


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in paths]


def test_a_node_gets_the_key_and_lets_it_in_once(shell: LocalShell, home: NodeHome) -> None:
    assert cluster_key.install_key(shell, home, KEY, SUBNET)
    private, key_list = (
        Path(home.ssh) / cluster_key.PRIVATE_NAME,
        shell.home / ".ssh/authorized_keys",
    )
    assert private.read_bytes() == KEY.private_key
    assert key_list.read_text() == f"{LINE}\n"
    assert modes(private, private.parent, key_list, key_list.parent) == [0o600, 0o700, 0o600, 0o700]
    assert not cluster_key.install_key(shell, home, KEY, SUBNET)


def test_a_key_list_that_others_may_write_to_is_fixed(shell: LocalShell, home: NodeHome) -> None:
    key_list = shell.home / ".ssh/authorized_keys"
    key_list.parent.mkdir()
    key_list.write_text(f"ssh-ed25519 AAAA me\n{LINE}\n")
    key_list.chmod(0o664)
    key_list.parent.chmod(0o775)
    cluster_key.install_key(shell, home, KEY, SUBNET)
    assert modes(key_list, key_list.parent) == [0o644, 0o755]


def test_a_linked_list_stays_a_link(shell: LocalShell, home: NodeHome) -> None:
    real = shell.home / "elsewhere" / "list"
    real.parent.mkdir()
    real.write_text("ssh-ed25519 AAAA me\n")
    (shell.home / ".ssh").mkdir()
    (shell.home / ".ssh/authorized_keys").symlink_to(real)
    cluster_key.install_key(shell, home, KEY, SUBNET)
    assert (shell.home / ".ssh/authorized_keys").is_symlink()
    assert real.read_text() == f"ssh-ed25519 AAAA me\n{LINE}\n"


def test_forgetting_takes_our_line_and_no_other(shell: LocalShell, home: NodeHome) -> None:
    key_list = shell.home / ".ssh/authorized_keys"
    assert not cluster_key.remove_key(shell, home)
    cluster_key.install_key(shell, home, KEY, SUBNET)
    key_list.write_text(f"ssh-ed25519 AAAA me\n{key_list.read_text()}# the end")
    assert cluster_key.remove_key(shell, home)
    assert key_list.read_text() == "ssh-ed25519 AAAA me\n# the end"


def test_the_settings_lie_in_the_node_s_private_folder(shell: LocalShell, home: NodeHome) -> None:
    path = Path(cluster_key.write_settings(shell, home, [GPU1, GPU2]))
    assert path == Path(home.ssh / "config")
    assert f"IdentityFile {home.ssh / cluster_key.PRIVATE_NAME}" in path.read_text()
    assert modes(path, path.with_name("known_hosts"), path.parent) == [0o600, 0o600, 0o700]
    cluster_key.write_settings(shell, home, [GPU1], own_key="/home/lab/.ssh/id_mine")
    assert "IdentityFile /home/lab/.ssh/id_mine" in path.read_text()
