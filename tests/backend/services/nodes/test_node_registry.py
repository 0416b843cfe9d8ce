"""Adding, inspecting and removing nodes, with a real sshd at the other end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as Fail
from keyring.backends.null import Keyring as Null
from keyring.errors import KeyringLocked

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry
from backend.services.nodes.registry import NodeRegistry
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown, PassphraseNeeded, Unreachable
from backend.ssh.system_keyring import SystemKeyring
from tests.backend.ssh.sshd_rig import Sshd, make_key
from tests.fakes.mounted_root import mounted

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]
PASSPHRASE = "korrekt-pferd-batterie"


def accept_key(key: HostKey) -> bool:
    return True


def refuse_key(key: HostKey) -> bool:
    return False


@pytest.fixture
def root(tmp_path: Path) -> OpenRoot:
    (tmp_path / "data").mkdir()
    return mounted(tmp_path / "data")


@pytest.fixture
def open_service(tmp_path: Path, root: OpenRoot, sshd: Sshd) -> Callable[[], NodeRegistry]:
    return lambda: NodeRegistry(root, tmp_path / "desktop", sshd.ssh_config)


@pytest.fixture
def service(open_service: Callable[[], NodeRegistry]) -> NodeRegistry:
    return open_service()


def all_paths(root: OpenRoot) -> list[Path]:
    return sorted(root.path.rglob("*"))


def test_a_node_is_added_found_again_inspected_and_removed(
    open_service: Callable[[], NodeRegistry], sshd: Sshd, root: OpenRoot
) -> None:
    offered_keys: list[HostKey] = []

    def accept(key: HostKey) -> bool:
        offered_keys.append(key)
        return True

    added = open_service().add("gpu1", sshd.address, accept=accept)
    assert offered_keys == [sshd.host_key]
    assert added.data_root == str(root.path)
    assert added.info is not None
    assert added.info.data_root_writable
    assert not added.is_ready
    service = open_service()
    assert service.list() == (added,)
    assert service.host_key("gpu1") == sshd.host_key.text
    shell = service.open_shell("gpu1")
    assert shell.run(["echo", "in"]).out == "in\n"
    shell.close()
    inspected = service.inspect("gpu1")
    assert replace(inspected, info=None) == replace(added, info=None)
    assert service.list() == (inspected,)
    assert service.remove("gpu1") == inspected
    assert service.list() == ()
    assert len(list(root.trash.iterdir())) == 1
    with pytest.raises(BackendError, match="There is no node “gpu1”"):
        service.open_shell("gpu1")


def test_a_node_without_the_data_root_has_one_of_its_own_alike_on_all(
    open_service: Callable[[], NodeRegistry], sshd: Sshd, root: OpenRoot
) -> None:
    first_node = open_service().add("gpu1", sshd.address, accept=accept_key, is_staged=True)
    assert first_node.is_staged
    staged_root = Path(first_node.data_root)
    assert staged_root.parent == sshd.home / ".ringmaster" / "carried"
    second_node = open_service().add("gpu2", sshd.address, accept=accept_key, is_staged=True)
    assert second_node.data_root == first_node.data_root
    # It stays so, though the inspection sees the data root, as both are this machine.
    assert open_service().inspect("gpu1").data_root == first_node.data_root
    shell = open_service().open_shell("gpu1")
    assert open_service().node_info(first_node, shell).data_root == first_node.data_root
    shell.close()


def test_a_node_without_a_name_is_called_like_its_host(service: NodeRegistry, sshd: Sshd) -> None:
    assert service.add("", sshd.address, accept=accept_key).name == "127.0.0.1"


def test_a_relative_key_is_found_from_any_folder(
    service: NodeRegistry, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sshd.client_key.parent)
    address = replace(sshd.address, identity=sshd.client_key.name)
    service.add("gpu1", address, accept=accept_key)
    os.chdir("/")
    service.open_shell("gpu1").close()


def test_f56_only_a_yes_lets_a_node_in(
    service: NodeRegistry, sshd: Sshd, root: OpenRoot, tmp_path: Path
) -> None:
    with pytest.raises(HostKeyUnknown):
        service.add("gpu1", sshd.address, accept=refuse_key)
    assert all_paths(root) == []
    assert not (tmp_path / "desktop").exists()
    service.add("gpu1", sshd.address, accept=accept_key)
    service.add("gpu2", sshd.address, accept=refuse_key)


def test_f55_a_changed_key_is_no_question_and_needs_the_old_one_forgotten(
    service: NodeRegistry, sshd: Sshd
) -> None:
    service.add("gpu1", sshd.address, accept=accept_key)
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(HostKeyChanged):
        service.open_shell("gpu1")
    with pytest.raises(HostKeyChanged):
        service.add("gpu2", sshd.address, accept=accept_key)
    assert service.remove_host_key("127.0.0.1", sshd.port) == 1
    assert service.host_key("gpu1") == ""
    with pytest.raises(HostKeyUnknown) as caught:
        service.inspect("gpu1")
    service.accept_key(caught.value.key)
    service.inspect("gpu1")
    with pytest.raises(BackendError, match=r"No host key of \[other\]:2222"):
        service.remove_host_key("other", 2222)


@pytest.mark.parametrize("is_right", [True, False])
def test_every_connection_accepts_a_given_fingerprint_and_stores_its_key(
    root: OpenRoot, tmp_path: Path, sshd: Sshd, is_right: bool
) -> None:
    NodeRegistry(root, tmp_path / "desktop", sshd.ssh_config).add(
        "gpu1", sshd.address, accept=accept_key
    )
    fingerprint = sshd.fingerprint if is_right else "SHA256:other"
    contacts: dict[str, Callable[[NodeRegistry], object]] = {
        "open_shell": lambda registry: registry.open_shell("gpu1").close(),
        "inspect": lambda registry: registry.inspect("gpu1"),
        "connect": lambda registry: registry.connect(sshd.address, limit_s=30.0).close(),
        "add": lambda registry: registry.add("gpu2", sshd.address, accept=refuse_key),
        "at once": lambda registry: list(ThreadPoolExecutor(3).map(registry.inspect, ["gpu1"] * 3)),
    }
    for folder, contact in contacts.items():
        registry = NodeRegistry(
            root,
            tmp_path / folder,
            sshd.ssh_config,
            is_trusted_key=lambda key: key.fingerprint == fingerprint,
        )
        if is_right:
            contact(registry)
            assert registry.host_key("gpu1") == sshd.host_key.text, folder
            # It is stored, so it need not be given again.
            NodeRegistry(root, tmp_path / folder, sshd.ssh_config).open_shell("gpu1").close()
        else:
            with pytest.raises(HostKeyUnknown):
                contact(registry)
            assert registry.host_key("gpu1") == "", folder


def test_a_given_fingerprint_replaces_no_accepted_key(
    root: OpenRoot, tmp_path: Path, sshd: Sshd
) -> None:
    service = NodeRegistry(
        root, tmp_path / "desktop", sshd.ssh_config, is_trusted_key=lambda key: True
    )
    service.add("gpu1", sshd.address, accept=refuse_key)
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(HostKeyChanged) as caught:
        service.open_shell("gpu1")
    assert f"--accept-key {sshd.fingerprint}" in caught.value.remedy
    service.remove_host_key("127.0.0.1", sshd.port)
    service.open_shell("gpu1").close()


def test_f52_a_failed_addition_creates_nothing(
    service: NodeRegistry, sshd: Sshd, root: OpenRoot
) -> None:
    sshd.stop()
    with pytest.raises(Unreachable):
        service.add("gpu1", sshd.address, accept=accept_key)
    sshd.environment.append("PATH=/no/programs")
    sshd.start()
    with pytest.raises(BackendError, match="gpu1 has no python3"):
        service.add("gpu1", sshd.address, accept=accept_key)
    assert all_paths(root) == []
    assert service.list() == ()


def test_a_failed_inspection_changes_nothing(service: NodeRegistry, sshd: Sshd) -> None:
    added = service.add("gpu1", sshd.address, accept=accept_key)
    sshd.stop()
    with pytest.raises(Unreachable):
        service.inspect("gpu1")
    assert service.list() == (added,)


@pytest.mark.parametrize("name", ["a/b", "..", "-n", "CON", "a\nb", "x" * 101, "this-computer"])
def test_f54_a_name_that_cannot_be_one_is_refused_before_anybody_is_asked(
    service: NodeRegistry, root: OpenRoot, name: str
) -> None:
    def no_one(key: HostKey) -> bool:
        raise AssertionError("asked")

    with pytest.raises(BackendError):
        service.add(name, NodeAddress("no-such-host.invalid"), accept=no_one)
    assert all_paths(root) == []


def test_a_name_is_taken_once(service: NodeRegistry, sshd: Sshd) -> None:
    service.add("gpu1", sshd.address, accept=accept_key)
    with pytest.raises(BackendError, match="The node “gpu1” exists already"):
        service.add("gpu1", sshd.address, accept=accept_key)


def test_a_name_nearly_right_is_suggested(service: NodeRegistry, sshd: Sshd) -> None:
    service.add("gpu-one", sshd.address, accept=accept_key)
    with pytest.raises(BackendError) as caught:
        service.remove("gpu-oen")
    assert "gpu-one" in caught.value.remedy


class User:
    """Types what was planned, and remembers for which key it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    def __call__(self, identity: str) -> str:
        self.questions.append(identity)
        return self.answers.pop(0)


def locked(sshd: Sshd) -> NodeAddress:
    key = make_key(sshd.home.parent / "locked-key", PASSPHRASE)
    sshd.allow(key)
    return replace(sshd.address, identity=str(key))


def test_a_passphrase_is_asked_for_once_and_kept_in_memory_only(
    open_service: Callable[[], NodeRegistry], sshd: Sshd
) -> None:
    service, address = open_service(), locked(sshd)
    user = User("wrong", PASSPHRASE)
    service.add("gpu1", address, accept=accept_key, passphrase=user)
    assert user.questions == [address.identity] * 2
    service.open_shell("gpu1").close()
    service.inspect("gpu1")
    with pytest.raises(PassphraseNeeded):
        open_service().open_shell("gpu1")


def test_a_passphrase_is_asked_for_three_times_and_an_empty_one_is_a_no(
    service: NodeRegistry, sshd: Sshd, root: OpenRoot
) -> None:
    address = locked(sshd)
    for user, times in ((User("a", "b", "c"), 3), (User(""), 1), (User("a", ""), 2)):
        with pytest.raises(PassphraseNeeded):
            service.add("gpu1", address, accept=accept_key, passphrase=user)
        assert len(user.questions) == times
    assert all_paths(root) == []


def test_f60_f61_nothing_secret_is_written_and_the_profile_is_the_users_alone(
    service: NodeRegistry, sshd: Sshd, tmp_path: Path
) -> None:
    service.add("gpu1", locked(sshd), accept=accept_key, passphrase=User(PASSPHRASE))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "data" / "nodes" / "gpu1" / "node.json" in files
    assert [path for path in files if PASSPHRASE.encode() in path.read_bytes()] == []
    assert PASSPHRASE not in repr(service.list())
    profile = tmp_path / "desktop"
    assert profile.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in profile.iterdir()} == {0o600}


def test_a_node_that_does_not_see_the_data_root_is_added_without(
    service: NodeRegistry, sshd: Sshd, tmp_path: Path
) -> None:
    entry = service.add("gpu1", sshd.address, accept=accept_key, node_data_root="/mnt/nothing")
    assert entry.data_root == ""
    (tmp_path / "mounted").symlink_to(tmp_path / "data")
    inspected = service.inspect("gpu1", node_data_root=str(tmp_path / "mounted"))
    assert inspected.data_root == str(tmp_path / "mounted")
    assert service.inspect("gpu1").data_root == str(tmp_path / "mounted")


def test_the_address_of_the_ranks_stays_while_the_node_has_it(
    service: NodeRegistry, sshd: Sshd, root: OpenRoot
) -> None:
    from backend.datastore.nodes.files import write_entry

    entry: NodeEntry = service.add("gpu1", sshd.address, accept=accept_key)
    write_entry(root, replace(entry, ranks_address="127.0.0.1/8"))
    assert service.inspect("gpu1").ranks_address == "127.0.0.1/8"
    write_entry(root, replace(entry, ranks_address="10.9.9.9/24"))
    assert service.inspect("gpu1").ranks_address == entry.ranks_address


def test_f34_a_data_root_unmounted_at_an_inspection_keeps_its_path(
    service: NodeRegistry, sshd: Sshd, tmp_path: Path, root: OpenRoot
) -> None:
    mounted = tmp_path / "mounted"
    mounted.symlink_to(root.path)
    service.add("gpu1", sshd.address, accept=accept_key, node_data_root=str(mounted))
    mounted.unlink()
    inspected = service.inspect("gpu1")
    assert inspected.data_root == str(mounted)
    assert inspected.info is not None
    assert not inspected.info.data_root_writable
    mounted.symlink_to(root.path)
    back = service.inspect("gpu1")
    assert back.info is not None
    assert back.info.data_root_writable


class MemoryKeyring(KeyringBackend):
    """A guarded keyring, in memory."""

    priority = 5  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


class LockedKeyring(MemoryKeyring):
    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked("the prompt was dismissed")


@pytest.fixture
def use_keyring() -> Iterator[Callable[[KeyringBackend], KeyringBackend]]:
    old_keyring = keyring.get_keyring()

    def use(backend: KeyringBackend) -> KeyringBackend:
        keyring.set_keyring(backend)
        return backend

    yield use
    keyring.set_keyring(old_keyring)


Use = Callable[[KeyringBackend], KeyringBackend]


def test_f60_a_kept_passphrase_is_in_the_keyring_and_in_no_file(
    open_service: Callable[[], NodeRegistry], sshd: Sshd, tmp_path: Path, use_keyring: Use
) -> None:
    memory = MemoryKeyring()
    use_keyring(memory)
    service, address = open_service(), locked(sshd)
    service.add("gpu1", address, accept=accept_key, passphrase=User(PASSPHRASE))
    assert memory.passwords == {}, "it is kept only on request"
    service.keep_passphrase(address.identity)
    assert list(memory.passwords.values()) == [PASSPHRASE]
    # The next start of the program does not ask.
    open_service().open_shell("gpu1").close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if PASSPHRASE.encode() in path.read_bytes()] == []


def test_a_wrong_passphrase_in_the_keyring_is_asked_for_again(
    open_service: Callable[[], NodeRegistry], sshd: Sshd, use_keyring: Use
) -> None:
    use_keyring(MemoryKeyring())
    address = locked(sshd)
    service = open_service()
    service.keyring.store(address.identity, "that of last year")
    user = User(PASSPHRASE)
    service.add("gpu1", address, accept=accept_key, passphrase=user)
    assert user.questions == [address.identity]


def test_a_passphrase_is_forgotten_by_name_and_with_the_last_node_of_its_key(
    open_service: Callable[[], NodeRegistry], sshd: Sshd, use_keyring: Use
) -> None:
    memory = MemoryKeyring()
    use_keyring(memory)
    service, address = open_service(), locked(sshd)
    user = User(PASSPHRASE)
    for name in ("gpu1", "gpu2"):
        service.add(name, address, accept=accept_key, passphrase=user)
    service.keep_passphrase(address.identity)
    service.remove("gpu1")
    assert memory.passwords, "gpu2 needs it still"
    assert service.remove_passphrase("gpu2") == (address.identity,)
    assert memory.passwords == {}
    assert service.remove_passphrase("gpu2") == ()
    with pytest.raises(PassphraseNeeded):
        service.open_shell("gpu2")
    service.open_shell("gpu2", User(PASSPHRASE)).close()
    service.keep_passphrase(address.identity)
    service.remove("gpu2")
    assert memory.passwords == {}


class PlainKeyring(MemoryKeyring):
    """As `keyrings.alt` has it: a file that anybody reads."""

    __module__ = "keyrings.alt.file"


class WeakKeyring(MemoryKeyring):
    priority = 0.5  # type: ignore[assignment]


@pytest.mark.parametrize(
    "backend", [PlainKeyring(), WeakKeyring(), Fail(), Null()], ids=lambda b: type(b).__name__
)
def test_a_keyring_that_guards_nothing_is_refused(
    backend: KeyringBackend, use_keyring: Use
) -> None:
    use_keyring(backend)
    ring = SystemKeyring()
    assert "no system keyring" in ring.unavailable_reason()
    with pytest.raises(BackendError):
        ring.store("/key", PASSPHRASE)
    assert (ring.read("/key"), ring.delete("/key")) == ("", False)
    assert getattr(backend, "passwords", {}) == {}


def test_the_guarded_one_of_several_keyrings_is_used(use_keyring: Use) -> None:
    plain, guarded = PlainKeyring(), MemoryKeyring()
    chain = MemoryKeyring()
    chain.backends = [plain, guarded]  # type: ignore[attr-defined]
    use_keyring(chain)
    SystemKeyring().store("/key", PASSPHRASE)
    assert (plain.passwords, chain.passwords) == ({}, {})
    assert list(guarded.passwords.values()) == [PASSPHRASE]


def test_a_keyring_that_stays_locked_is_one_sentence(use_keyring: Use) -> None:
    use_keyring(LockedKeyring())
    assert SystemKeyring().unavailable_reason() == ""
    with pytest.raises(BackendError, match="could not store the passphrase of /key"):
        SystemKeyring().store("/key", PASSPHRASE)
