"""The nodes that people add: whom to trust, how to get in, what is there.

A node is added only when a look at it has succeeded from beginning to end; until then nothing of
it is written but a host key that a person accepted. Passphrases are kept in memory, by key file,
for as long as the program runs; in the system keyring only those that a person wants kept there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.datastore.nodes import files as node_files
from backend.provisioning.node_facts import NodeInspection, inspect
from backend.records.base.layout import DataRoot, NodeHome
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import name_fault, nearest, sanitize
from backend.records.jobs.config import THIS_COMPUTER
from backend.records.nodes.entry import HostKey, NodeAddress, NodeEntry, NodeFacts, SshFacts
from backend.ssh.banner_check import KNOCK_LIMIT_S, check_banner
from backend.ssh.interface import HostKeyUnknown, PassphraseNeeded, Shell, Unreachable
from backend.ssh.known_hosts import SSH_PORT, KnownHosts, host_name
from backend.ssh.system_keyring import SystemKeyring

Accept = Callable[[HostKey], bool]
"""Asks a person whether a key is the right one. There is no other way to a yes."""
AskPassphrase = Callable[[str], str]
"""Asks a person for the passphrase of a key file; "" is a no."""
_PASSPHRASE_TRIES = 3
_KEY_BYTES = 4


class ClusterService:
    """See `docs/architecture.md`. Every call may run on any thread.

    ``profile`` is the folder of this desktop's own that keeps accepted host keys. ``ssh_config``
    is read instead of the user's client settings.
    """

    def __init__(
        self,
        root: DataRoot,
        profile: Path,
        ssh_config: Path | None = None,
        keyring: SystemKeyring | None = None,
    ) -> None:
        self._root = root
        self.share: DataRootAccess = MOUNTED
        """How the data root is reached; over SSH it is by `connect`, so it comes later."""
        self._known_hosts = KnownHosts(profile / "known_hosts")
        self._ssh_config = ssh_config
        self._passphrases: dict[str, str] = {}
        self._known: tuple[NodeEntry, ...] = ()
        self.keyring = keyring if keyring is not None else SystemKeyring()

    @property
    def known_hosts_path(self) -> Path:
        """The host keys that people accepted, one a line."""
        return self._known_hosts.path

    def ssh_facts(self) -> SshFacts:
        """What this computer gets into nodes with.

        Raises:
            BackendError: The file of accepted host keys cannot be read.
        """
        from backend.ssh.client import agent_keys
        from backend.ssh.ssh_config import DEFAULT_KEYS

        config = self._ssh_config or Path("~/.ssh/config").expanduser()
        return SshFacts(
            config=str(config) if config.is_file() else "",
            known_hosts=str(self.known_hosts_path),
            accepted=self._known_hosts.all(),
            keys=tuple(one for one in DEFAULT_KEYS if Path(one).expanduser().is_file()),
            agent_keys=agent_keys(),
            passphrases=len(self._passphrases),
            keyring_fault=self.keyring.fault(),
        )

    def list(self) -> tuple[NodeEntry, ...]:
        self.share.refresh_nodes()
        return node_files.entries(self._root)

    def entries_known(self) -> tuple[NodeEntry, ...]:
        """As `list`; while the data root does not answer, those that were there before."""
        with suppress(Unreachable):
            self.share.refresh_nodes()
        try:
            found = node_files.entries(self._root)
        except BackendError:
            if not self._known:
                raise
            return self._known
        if found or self._root.nodes.is_dir():
            self._known = found
        return self._known

    def add(
        self,
        name: str,
        address: NodeAddress,
        *,
        accept: Accept,
        passphrase: AskPassphrase | None = None,
        node_data_root: str = "",
        no_share: bool = False,
    ) -> NodeEntry:
        """Look at a machine and keep it as a node; without a name it is called as its host.

        ``node_data_root`` is where the node sees the data root, if not at the same path as here.
        With ``no_share`` it sees none, and what its jobs read and write travels over SSH.

        Raises:
            BackendError: The name cannot be one or is taken, or the look failed (see
                `backend.ssh.client.connect` and `look_at`); no node was written.
        """
        name = self._free_name(name or address.host)
        if no_share and not self.share.is_mounted:
            raise BackendError(
                "This computer reaches the data root over SSH itself, so it cannot carry files "
                f"between that and {name}.",
                f"Add {name} from a computer that mounts the data root.",
            )
        with_key = replace(address, identity=_absolute(address.identity))
        shell = self.connect(with_key, accept, passphrase)
        try:
            found = self._look_at(shell, name, node_data_root)
        finally:
            shell.close()
        facts = found.facts
        if no_share:
            facts = _with_carried_root(
                facts, self._carried_root(NodeHome(PurePosixPath(facts.home)))
            )
        entry = NodeEntry(
            name, with_key, facts, ranks_address=found.ranks_address, no_share=no_share
        )
        node_files.write_entry(self._root, entry, self.share)
        return entry

    def inspect(
        self, name: str, passphrase: AskPassphrase | None = None, node_data_root: str = ""
    ) -> NodeEntry:
        """Look at a node again and keep what was found; see `add` for ``node_data_root``.

        Raises:
            BackendError: There is no such node, or the look failed; nothing was changed.
        """
        entry = self.entry(name)
        shell = self.open_shell(name, passphrase)
        try:
            found = self._look_at(shell, name, node_data_root or entry.data_root)
        finally:
            shell.close()
        facts = _known_root(found.facts, entry)
        fresh = replace(entry, facts=facts, ranks_address=_kept_address(entry, found))
        node_files.write_entry(self._root, fresh, self.share)
        return fresh

    def facts(self, entry: NodeEntry, shell: Shell) -> NodeFacts:
        """What a look through an open connection finds; nothing is kept.

        Raises:
            BackendError: The look failed.
        """
        return _known_root(self._look_at(shell, entry.name, entry.data_root).facts, entry)

    def _carried_root(self, home: NodeHome) -> str:
        """By the same key on all nodes of this data root, whichever desktop adds them."""
        used = (PurePosixPath(one.data_root).name for one in self.list() if one.no_share)
        return str(home.staged_root(next(used, secrets.token_hex(_KEY_BYTES))))

    def _look_at(self, shell: Shell, name: str, node_data_root: str) -> NodeInspection:
        share, path = self.share, self._root.path
        there = node_data_root or share.on_nodes(path)
        return inspect(shell, name, path, there, share.replace_bytes, share.remove)

    def set_in_service(self, name: str, in_service: bool) -> NodeEntry:
        """Whether jobs may be started on the node; what runs there goes on.

        Raises:
            BackendError: There is no such node.
        """
        fresh = replace(self.entry(name), in_service=in_service)
        node_files.write_entry(self._root, fresh, self.share)
        return fresh

    def remove(self, name: str) -> NodeEntry:
        """Move what the data root knows of a node to its trash; the machine is left as it is.

        The passphrase of a key that opens no other node is forgotten.

        Raises:
            BackendError: There is no such node.
        """
        entry = self.entry(name)
        mine = self._identities(entry)
        node_files.remove_entry(self._root, name, self.share)
        others = {one for other in self.list() for one in self._identities(other)}
        with suppress(BackendError):
            self._forget_passphrases([one for one in mine if one not in others])
        return entry

    def keep_passphrase(self, identity: str) -> None:
        """Have the passphrase that opened a key kept by the system keyring, too.

        Raises:
            BackendError: It was not given, or the keyring does not take it.
        """
        passphrase = self._passphrases.get(identity, "")
        if not passphrase:
            raise BackendError(f"No passphrase of {sanitize(identity)} is known.")
        self.keyring.keep(identity, passphrase)

    def remove_passphrase(self, name: str) -> tuple[str, ...]:
        """Forget the passphrases of the keys of a node, here and in the system keyring.

        Returns the key files that had one.

        Raises:
            BackendError: There is no such node, or the keyring does not let go of one.
        """
        return self._forget_passphrases(self._identities(self.entry(name)))

    def _forget_passphrases(self, identities: Iterable[str]) -> tuple[str, ...]:
        found = []
        for one in identities:
            here = self._passphrases.pop(one, None) is not None
            if self.keyring.delete(one) or here:
                found.append(one)
        return tuple(found)

    def _identities(self, entry: NodeEntry) -> tuple[str, ...]:
        from backend.ssh.client import identities_of

        try:
            return identities_of(entry.address, self._ssh_config)
        except BackendError:
            return (entry.address.identity,) if entry.address.identity else ()

    def open_shell(self, name: str, passphrase: AskPassphrase | None = None) -> Shell:
        """A connection to a node; close it in the end.

        Raises:
            BackendError: There is no such node, or no way in.
        """
        return self.connect(self.entry(name).address, None, passphrase)

    def host_key(self, name: str) -> str:
        """What a known-hosts line of a node holds after the name; "" when no key was accepted.

        Raises:
            BackendError: There is no such node, or its address cannot be used.
        """
        from backend.ssh.client import place_of

        place = place_of(self.entry(name).address, self._ssh_config)
        return next((key.text for key in self._known_hosts.keys(*place)), "")

    def trust(self, key: HostKey) -> None:
        """Accept a key from now on. Call this only after a person's yes."""
        self._known_hosts.add(key)

    def remove_host_key(self, host: str, port: int = SSH_PORT) -> int:
        """Accept the keys of one sshd no longer; how many that were.

        Raises:
            BackendError: None was accepted.
        """
        count = self._known_hosts.remove(host, port)
        if not count:
            raise BackendError(
                f"No host key of {sanitize(host_name(host, port))} was accepted here.",
                f"The accepted ones are in {self._known_hosts.path}.",
            )
        return count

    def connect(
        self,
        address: NodeAddress,
        accept: Accept | None = None,
        ask: AskPassphrase | None = None,
        **limits: float,
    ) -> Shell:
        """A connection to any machine; close it in the end. ``limits`` are those of `ssh.connect`.

        Raises:
            BackendError: There is no way in.
        """
        # Fabric and paramiko take 0.5 s to import, which who lists jobs need not wait for.
        from backend.ssh.client import connect

        passphrase = ""
        asked = 0
        looked_up: set[str] = set()
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
                # Each sshd on the way asks once: what is accepted is never unknown again.
                if accept is None or not accept(error.key):
                    raise
                self.trust(error.key)
            except PassphraseNeeded as error:
                kept = self._passphrases.pop(error.identity, "")
                if not kept and error.identity not in looked_up:
                    looked_up.add(error.identity)
                    kept = self.keyring.read(error.identity)
                if kept and kept != passphrase:
                    passphrase = kept
                elif ask is None or asked == _PASSPHRASE_TRIES:
                    raise
                else:
                    asked += 1
                    passphrase = ask(error.identity)
                    if not passphrase:
                        raise
                self._passphrases[error.identity] = passphrase

    def check_banner(self, address: NodeAddress) -> None:
        """Whether SSH answers there: a greeting will do, and nobody logs in.

        Behind a jump host only a login tells.

        Raises:
            Unreachable: Nobody answers, or no SSH server.
            BackendError: It cannot be asked.
        """
        from backend.ssh.client import hops_of

        *jumps, node = hops_of(address, self._ssh_config)
        if jumps:
            self.connect(address, limit_s=KNOCK_LIMIT_S).close()
        else:
            check_banner(node)

    def _free_name(self, name: str) -> str:
        fault = name_fault(name)
        if fault:
            raise BackendError(fault, "Give the node a name of your own: --name NAME.")
        self.share.refresh_nodes()
        if name == THIS_COMPUTER or node_files.entry(self._root, name) is not None:
            raise BackendError(
                f"There is a node “{name}” already.",
                "Choose another name with --name, or remove that one first.",
            )
        return name

    def entry(self, name: str) -> NodeEntry:
        """One node.

        Raises:
            BackendError: There is none of that name.
        """
        self.share.refresh_nodes()
        entry = node_files.entry(self._root, name)
        if entry is not None:
            return entry
        if name == THIS_COMPUTER:
            raise BackendError(
                "This computer is always a node.", "Leave it out of a job's placement instead."
            )
        known = tuple(one.name for one in self.list())
        near = nearest(name, known)
        raise BackendError(
            f"There is no node “{sanitize(name)}”.",
            f"Did you mean “{near}”?"
            if near
            else f"There is {', '.join(known)}."
            if known
            else f"Add one: {COMMAND} node add HOST",
        )


def _absolute(identity: str) -> str:
    """The next start of the program may be from another folder."""
    if not identity or identity.startswith("~"):
        return identity
    return str(Path(identity).absolute())


def _known_root(facts: NodeFacts, entry: NodeEntry) -> NodeFacts:
    """A share that is not mounted just now comes back where it was, which nobody else knows."""
    if entry.no_share:
        return _with_carried_root(facts, entry.data_root)
    if facts.data_root:
        return facts
    return replace(facts, data_root=entry.data_root, data_root_writable=False)


def _with_carried_root(facts: NodeFacts, carried_root: str) -> NodeFacts:
    return replace(facts, data_root=carried_root, data_root_writable=True)


def _kept_address(entry: NodeEntry, found: NodeInspection) -> str:
    """What ranks use stays while the node still has it: the desktop may come by another way."""
    addresses = [one.address for one in found.facts.interfaces]
    return entry.ranks_address if entry.ranks_address in addresses else found.ranks_address
