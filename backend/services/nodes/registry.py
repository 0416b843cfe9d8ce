"""The nodes that users add: their host keys, their connections, and their properties.

A node is added only after a complete inspection; until then only an accepted host key is stored.
Passphrases are kept in memory, by key file, until the program ends; the system keyring stores only
the passphrases that the user chooses.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.nodes import files as node_files
from backend.provisioning.node_facts import NodeInspection, inspect
from backend.records.base.account import expand_home
from backend.records.base.layout import NodeHome
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import closest_match, name_error, sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.schedulers import SCHEDULERS, ClusterScheduler
from backend.records.nodes.entry import (
    HostKey,
    NodeAddress,
    NodeEntry,
    NodeInfo,
    SshOverview,
    parse_hours,
)
from backend.ssh.banner_check import KNOCK_LIMIT_S, check_banner
from backend.ssh.interface import HostKeyUnknown, PassphraseNeeded, Shell, Unreachable
from backend.ssh.known_hosts import SSH_PORT, KnownHosts, host_name
from backend.ssh.system_keyring import SystemKeyring

Accept = Callable[[HostKey], bool]
"""Asks the user whether a key is correct. Keys are accepted in no other way."""
AskPassphrase = Callable[[str], str]
"""Asks the user for the passphrase of a key file; "" declines."""
_PASSPHRASE_TRIES = 3
_KEY_BYTES = 4


class NodeRegistry:
    """The added nodes; see `docs/architecture.md`. Every call may run on any thread.

    Args:
        profile: This desktop's own folder for accepted host keys.
        ssh_config: Replaces the user's SSH client settings.
        is_trusted_key: Returns, without a question, whether the user gave the fingerprint of a
            key; the connections of every thread accept such a key.

    Attributes:
        keyring: Stores the passphrases that the user chooses.
    """

    def __init__(
        self,
        root: OpenRoot,
        profile: Path,
        ssh_config: Path | None = None,
        keyring: SystemKeyring | None = None,
        is_trusted_key: Accept = lambda key: False,
    ) -> None:
        self._root = root
        self._known_hosts = KnownHosts(profile / "known_hosts")
        self._ssh_config = ssh_config
        self._is_trusted_key = is_trusted_key
        self._passphrases: dict[str, str] = {}
        self._known_entries: tuple[NodeEntry, ...] = ()
        self.keyring = keyring if keyring is not None else SystemKeyring()

    @property
    def known_hosts_path(self) -> Path:
        """Path of the accepted host keys, one a line."""
        return self._known_hosts.path

    def ssh_overview(self) -> SshOverview:
        """Return the SSH settings and keys of this computer.

        Raises:
            BackendError: The file of accepted host keys cannot be read.
        """
        from backend.ssh.client import agent_keys
        from backend.ssh.ssh_config import DEFAULT_KEYS

        config = self._ssh_config or expand_home("~/.ssh/config")
        return SshOverview(
            config=str(config) if config.is_file() else "",
            known_hosts=str(self.known_hosts_path),
            accepted_keys=self._known_hosts.all(),
            keys=tuple(k for k in DEFAULT_KEYS if expand_home(k).is_file()),
            agent_keys=agent_keys(),
            passphrases=len(self._passphrases),
            keyring_error=self.keyring.unavailable_reason(),
        )

    def list(self) -> tuple[NodeEntry, ...]:
        self._root.files.refresh_nodes()
        return node_files.entries(self._root)

    def known_entries(self) -> tuple[NodeEntry, ...]:
        """Return the nodes; while the data root does not answer, those of the last call."""
        with suppress(Unreachable):
            self._root.files.refresh_nodes()
        try:
            entries = node_files.entries(self._root)
        except BackendError:
            if not self._known_entries:
                raise
            return self._known_entries
        if entries or self._root.nodes.is_dir():
            self._known_entries = entries
        return self._known_entries

    def add(
        self,
        name: str,
        address: NodeAddress,
        *,
        accept: Accept,
        passphrase: AskPassphrase | None = None,
        node_data_root: str = "",
        is_staged: bool = False,
        scheduler: str = "",
    ) -> NodeEntry:
        """Inspect a machine and add it as a node; by default its name is the host's.

        ``node_data_root`` is the path of the data root on the node, if it differs from the local
        path. With ``is_staged`` the node does not see the data root, and the files of its jobs are
        copied over SSH. ``scheduler`` is its key if it is a login node.

        Raises:
            BackendError: The name is invalid or exists, or the inspection failed (see
                `backend.ssh.client.connect` and `inspect`); no node was added.
        """
        name = self._require_free_name(name or address.host)
        if is_staged and not self._root.files.is_mounted:
            raise BackendError(
                "This computer reaches the data root over SSH itself, so it cannot copy files "
                f"between the data root and {name}.",
                f"Add {name} from a computer that mounts the data root.",
            )
        full_address = replace(address, identity=_absolute(address.identity))
        with closing(self.connect(full_address, accept, passphrase)) as shell:
            inspection = self._inspect(shell, name, node_data_root)
            if scheduler:
                _require_login_node(shell, name, SCHEDULERS[scheduler])
        info = inspection.node_info
        if is_staged:
            info = _with_staged_root(info, self._staged_root(NodeHome(PurePosixPath(info.home))))
        entry = NodeEntry(
            name,
            full_address,
            info,
            ranks_address=inspection.ranks_address,
            is_staged=is_staged,
            scheduler=scheduler,
        )
        node_files.write_entry(self._root, entry)
        return entry

    def inspect(
        self, name: str, passphrase: AskPassphrase | None = None, node_data_root: str = ""
    ) -> NodeEntry:
        """Inspect a node again and store the result; see `add` for ``node_data_root``.

        Raises:
            BackendError: There is no such node, or the inspection failed; nothing was changed.
        """
        entry = self.entry(name)
        with closing(self.open_shell(name, passphrase)) as shell:
            inspection = self._inspect(shell, name, node_data_root or entry.data_root)
        info = _keep_root(inspection.node_info, entry)
        updated_entry = replace(entry, info=info, ranks_address=_keep_address(entry, inspection))
        node_files.write_entry(self._root, updated_entry)
        return updated_entry

    def node_info(self, entry: NodeEntry, shell: Shell) -> NodeInfo:
        """Inspect a node through an open connection; nothing is stored.

        Raises:
            BackendError: The inspection failed.
        """
        return _keep_root(self._inspect(shell, entry.name, entry.data_root).node_info, entry)

    def _staged_root(self, home: NodeHome) -> str:
        """Return the staged root, the same on all nodes and from all desktops of a data root."""
        used_names = (PurePosixPath(e.data_root).name for e in self.list() if e.is_staged)
        return str(home.staged_root(next(used_names, secrets.token_hex(_KEY_BYTES))))

    def _inspect(self, shell: Shell, name: str, node_data_root: str) -> NodeInspection:
        access, path = self._root.files, self._root.path
        remote_root = node_data_root or access.on_nodes(path)
        return inspect(shell, name, path, remote_root, access.replace_bytes, access.remove)

    def set_in_service(self, name: str, in_service: bool) -> NodeEntry:
        """Set whether jobs may be started on the node; its running jobs continue.

        Raises:
            BackendError: There is no such node.
        """
        updated_entry = replace(self.entry(name), in_service=in_service)
        node_files.write_entry(self._root, updated_entry)
        return updated_entry

    def set_gives_way(self, name: str, hours: str, expected_hours: str | None = None) -> NodeEntry:
        """Set when runs on the node give way to other users, also those that are running.

        Args:
            hours: As for `parse_hours`.
            expected_hours: The value that the user saw; a different stored value is not replaced.

        Raises:
            BackendError: There is no such node, or the hours are not valid or changed meanwhile.
        """
        if name == THIS_COMPUTER:
            raise BackendError(
                "This computer was not added as a node.", "Turn on “Give way” in the job instead."
            )
        entry = self.entry(name)
        try:
            updated_entry = replace(entry, gives_way=parse_hours(hours))
        except ValueError as error:
            raise BackendError(str(error)) from error
        accepted_hours = (expected_hours, updated_entry.gives_way)
        if expected_hours is not None and entry.gives_way not in accepted_hours:
            raise BackendError(
                f"{name} was changed meanwhile, and gives way: {entry.gives_way or 'never'}.",
                "Open the dialog again to replace that.",
            )
        node_files.write_entry(self._root, updated_entry)
        return updated_entry

    def remove(self, name: str) -> NodeEntry:
        """Move the node's records in the data root to the trash; the machine does not change.

        The passphrase of a key that opens no other node is removed.

        Raises:
            BackendError: There is no such node.
        """
        entry = self.entry(name)
        identities = self._identities(entry)
        node_files.remove_entry(self._root, name)
        other_identities = {i for other_entry in self.list() for i in self._identities(other_entry)}
        with suppress(BackendError):
            self._forget_passphrases([i for i in identities if i not in other_identities])
        return entry

    def keep_passphrase(self, identity: str) -> None:
        """Store the passphrase that opened a key in the system keyring, too.

        Raises:
            BackendError: The passphrase is unknown, or the keyring does not store it.
        """
        passphrase = self._passphrases.get(identity, "")
        if not passphrase:
            raise BackendError(f"No passphrase for {sanitize(identity)} is stored.")
        self.keyring.store(identity, passphrase)

    def remove_passphrase(self, name: str) -> tuple[str, ...]:
        """Remove the passphrases of the keys of a node, from memory and the system keyring.

        Returns:
            The key files that had a passphrase.

        Raises:
            BackendError: There is no such node, or the keyring cannot remove a passphrase.
        """
        return self._forget_passphrases(self._identities(self.entry(name)))

    def _forget_passphrases(self, identities: Iterable[str]) -> tuple[str, ...]:
        forgotten_entries = []
        for identity in identities:
            was_in_memory = self._passphrases.pop(identity, None) is not None
            if self.keyring.delete(identity) or was_in_memory:
                forgotten_entries.append(identity)
        return tuple(forgotten_entries)

    def _identities(self, entry: NodeEntry) -> tuple[str, ...]:
        from backend.ssh.client import identities_of

        try:
            return identities_of(entry.address, self._ssh_config)
        except BackendError as error:
            swallowed(error)
            return (entry.address.identity,) if entry.address.identity else ()

    def open_shell(self, name: str, passphrase: AskPassphrase | None = None) -> Shell:
        """Open a connection to a node; the caller closes it.

        Raises:
            BackendError: There is no such node, or the node cannot be reached.
        """
        return self.connect(self.entry(name).address, None, passphrase)

    def host_key(self, name: str) -> str:
        """Return a node's known-hosts line without its name; "" if no key was accepted.

        Raises:
            BackendError: There is no such node, or its address cannot be used.
        """
        from backend.ssh.client import place_of

        host_and_port = place_of(self.entry(name).address, self._ssh_config)
        return next((key.text for key in self._known_hosts.keys(*host_and_port)), "")

    def accept_key(self, key: HostKey) -> None:
        """Accept a key from now on; only after the user agreed."""
        self._known_hosts.add(key)

    def remove_host_key(self, host: str, port: int = SSH_PORT) -> int:
        """Remove the accepted keys of one sshd; return their number.

        Raises:
            BackendError: No key was accepted.
        """
        count = self._known_hosts.remove(host, port)
        if not count:
            raise BackendError(
                f"No host key of {sanitize(host_name(host, port))} was accepted here.",
                f"The accepted keys are in {self._known_hosts.path}.",
            )
        return count

    def connect(
        self,
        address: NodeAddress,
        accept: Accept | None = None,
        ask_passphrase: AskPassphrase | None = None,
        **limits: float,
    ) -> Shell:
        """Open a connection to any machine; the caller closes it. ``limits``: see `ssh.connect`.

        Raises:
            BackendError: The machine cannot be reached.
        """
        # Fabric and paramiko take 0.5 s to import, which listing jobs does not need.
        from backend.ssh.client import connect

        passphrase = ""
        question_count = 0
        read_identities: set[str] = set()
        while True:
            try:
                return connect(
                    address,
                    self._known_hosts,
                    passphrase=passphrase,
                    ssh_config=self._ssh_config,
                    **limits,
                )
            except HostKeyUnknown as error:
                # Each sshd on the way asks once: an accepted key is stored.
                if not (
                    self._is_trusted_key(error.key) or (accept is not None and accept(error.key))
                ):
                    raise
                self.accept_key(error.key)
            except PassphraseNeeded as error:
                stored_passphrase = self._passphrases.pop(error.identity, "")
                if not stored_passphrase and error.identity not in read_identities:
                    read_identities.add(error.identity)
                    stored_passphrase = self.keyring.read(error.identity)
                if stored_passphrase and stored_passphrase != passphrase:
                    passphrase = stored_passphrase
                elif ask_passphrase is None or question_count == _PASSPHRASE_TRIES:
                    raise
                else:
                    question_count += 1
                    passphrase = ask_passphrase(error.identity)
                    if not passphrase:
                        raise
                self._passphrases[error.identity] = passphrase

    def check_banner(self, address: NodeAddress) -> None:
        """Check that SSH answers: read the greeting, without a login.

        Behind a jump host the check needs a login.

        Raises:
            Unreachable: Nothing answers, or not an SSH server.
            BackendError: The address cannot be checked.
        """
        from backend.ssh.client import hops_of

        *jumps, node = hops_of(address, self._ssh_config)
        if jumps:
            self.connect(address, limit_s=KNOCK_LIMIT_S).close()
        else:
            check_banner(node)

    def _require_free_name(self, name: str) -> str:
        error = name_error(name)
        if error:
            raise BackendError(error, "Give the node another name: --name NAME.")
        self._root.files.refresh_nodes()
        if name == THIS_COMPUTER or node_files.entry(self._root, name) is not None:
            raise BackendError(
                f"The node “{name}” exists already.",
                "Choose another name with --name, or remove that node first.",
            )
        return name

    def entry(self, name: str) -> NodeEntry:
        """Return a node.

        Raises:
            BackendError: There is no node with this name.
        """
        self._root.files.refresh_nodes()
        entry = node_files.entry(self._root, name)
        if entry is not None:
            return entry
        if name == THIS_COMPUTER:
            raise BackendError(
                "This computer is always a node.", "Leave it out of a job's placement instead."
            )
        known_names = tuple(e.name for e in self.list())
        suggestion = closest_match(name, known_names)
        raise BackendError(
            f"There is no node “{sanitize(name)}”.",
            f"Did you mean “{suggestion}”?"
            if suggestion
            else f"Known nodes: {', '.join(known_names)}."
            if known_names
            else f"Add one: {COMMAND} node add HOST",
        )


def _absolute(identity: str) -> str:
    """Make the path absolute: the program may be started from another folder next time."""
    if not identity or identity.startswith("~"):
        return identity
    return str(Path(identity).absolute())


def _keep_root(info: NodeInfo, entry: NodeEntry) -> NodeInfo:
    """Keep the path of a share that is not mounted at the moment, but will be again."""
    if entry.is_staged:
        return _with_staged_root(info, entry.data_root)
    if info.data_root:
        return info
    return replace(info, data_root=entry.data_root, data_root_writable=False)


def _with_staged_root(info: NodeInfo, staged_root: str) -> NodeInfo:
    return replace(info, data_root=staged_root, data_root_writable=True)


def _keep_address(entry: NodeEntry, inspection: NodeInspection) -> str:
    """Keep the address of the ranks while the node has it: desktops may use other routes."""
    addresses = [i.address for i in inspection.node_info.interfaces]
    return entry.ranks_address if entry.ranks_address in addresses else inspection.ranks_address


def _require_login_node(shell: Shell, name: str, scheduler: ClusterScheduler) -> None:
    if not shell.run((scheduler.submit_command, "--version")).ok:
        raise BackendError(
            f"{name} has no {scheduler.submit_command}, so it is not a login node of "
            f"{scheduler.name}.",
            f"Give the host on which {scheduler.submit_command} works, or add it as a node without "
            f"{scheduler.name}.",
        )
