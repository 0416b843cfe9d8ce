"""The form of a node with real nodes: each way to fail is a sentence with a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from backend.base.errors import BackendError
from backend.records.nodes.entry import NodeAddress
from backend.ssh import client as ssh_client
from backend.ssh.interface import HostKeyChanged, LoginRefused, PassphraseNeeded, Unreachable
from tests.cluster.commands import call
from tests.cluster.faults import SEEDED_FAULTS
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import move_away, run_as_root
from tests.waiting import LIMIT_S

NODE, SECOND_NAME = "node2", "again"
SHORT_S = 2.0
QUICK = ("refused", "wrong user", "host key changed", "no Python", "disk full")
MakeFault = Callable[[ReadyCluster], AbstractContextManager[None]]


class FaultCase(NamedTuple):
    """``seed_fault`` spoils the node; ``typed`` is what the user types wrongly.

    ``limit_s`` is how long the node may be silent; where it never answers, that is short.
    """

    message: str
    kind: type[BackendError] = Unreachable
    seed_fault: MakeFault = lambda _ready: nullcontext()
    settings: Mapping[str, Any] = MappingProxyType({})
    limit_s: float = LIMIT_S


def seeded(name: str) -> MakeFault:
    return lambda ready: SEEDED_FAULTS[name].seed(ready, NODE)


@contextmanager
def bashrc(text: str, ready: ReadyCluster) -> Iterator[None]:
    path = "/home/lab/.bashrc"
    ready[NODE].run(["sh", "-c", f"[ ! -e {path} ] || mv {path} {path}.away"])
    ready[NODE].run(["tee", path], input=text)
    try:
        yield
    finally:
        ready[NODE].run(["sh", "-c", f"rm {path}; [ ! -e {path}.away ] || mv {path}.away {path}"])


@contextmanager
def without_python(ready: ReadyCluster) -> Iterator[None]:
    with move_away(ready, NODE, "/usr/bin/python3"):
        yield


@contextmanager
def home_of_root(ready: ReadyCluster) -> Iterator[None]:
    run_as_root(ready, NODE, "chown root /home/lab /home/lab/.ringmaster")
    try:
        yield
    finally:
        run_as_root(ready, NODE, "chown lab /home/lab /home/lab/.ringmaster")


ROWS = {
    "host not found": FaultCase("was not found", settings={"host": "no-such-host.invalid"}),
    "refused": FaultCase("refuses connections on port 22", seed_fault=seeded("sshd_stopped")),
    "no answer": FaultCase(
        "sent no greeting within", seed_fault=seeded("sshd_hangs"), limit_s=SHORT_S
    ),
    "no route": FaultCase(
        "no route|did not answer", seed_fault=seeded("cable_pulled"), limit_s=SHORT_S
    ),
    "switched off": FaultCase(
        "no route|did not answer", seed_fault=seeded("powered_off"), limit_s=SHORT_S
    ),
    "wrong user": FaultCase("refuses nobody-here", LoginRefused, settings={"user": "nobody-here"}),
    "user not allowed": FaultCase("refuses lab", LoginRefused, seeded("sshd_wants_another_user")),
    "wrong key": FaultCase("refuses lab", LoginRefused, seeded("desktop_key_removed")),
    "key listed for all": FaultCase(
        "refuses lab", LoginRefused, seeded("authorized_keys_writable_by_all")
    ),
    "no such key": FaultCase("no key file", BackendError, settings={"identity": "/no/such/key"}),
    "passphrase needed": FaultCase("passphrase", PassphraseNeeded, settings={"identity": "locked"}),
    "host key changed": FaultCase("key", HostKeyChanged, seeded("host_key_changed")),
    "not SSH": FaultCase("is not an SSH server", settings={"port": 8022}),
    "no Python": FaultCase("has no python3", BackendError, without_python),
    "disk full": FaultCase("No space left", BackendError, seeded("home_disk_full")),
    "no permission": FaultCase("Permission denied", BackendError, home_of_root),
    "bashrc that ends": FaultCase(
        "code 5 before any command", LoginRefused, partial(bashrc, "echo no module >&2; exit 5\n")
    ),
}


@pytest.fixture
def add(ready_cluster: ReadyCluster, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Add a node as the form does; the keys of the nodes were accepted before."""
    cluster = ready_cluster.cluster
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked")

    def add(**settings: Any) -> None:
        if settings.get("identity") == "locked":
            settings["identity"] = str(tmp_path / "locked")
        address = NodeAddress(
            cluster.address_of(NODE), user=cluster.user, identity=str(cluster.identity)
        )
        ready_cluster.services.cluster.add(
            SECOND_NAME,
            replace(address, **settings),
            accept=lambda key: False,
            node_data_root=cluster.data_root,
        )

    yield add
    if SECOND_NAME in {entry.name for entry in ready_cluster.services.cluster.list()}:
        ready_cluster.services.cluster.remove(SECOND_NAME)


@pytest.fixture
def mail(ready_cluster: ReadyCluster) -> None:
    """Something that is not an SSH server, on a port of the node; it goes with the test."""
    serve = (
        "import socket\n"
        "ears = socket.create_server(('', 8022))\n"
        "while True:\n"
        "    peer = ears.accept()[0]\n"
        "    peer.sendall(b'220 mail.lab ESMTP\\r\\n')\n"
        "    peer.close()\n"
    )
    ready_cluster[NODE].run(["sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 &', serve])


@pytest.mark.usefixtures("mail")
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if name in QUICK else pytest.mark.slow, id=name)
        for name, row in ROWS.items()
    ],
)
def test_f52_each_way_to_fail_is_a_sentence_with_a_way_out_and_nothing_is_made(
    ready_cluster: ReadyCluster,
    add: Callable[..., None],
    row: FaultCase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ssh_client.connect.__kwdefaults__, "limit_s", row.limit_s)
    services = ready_cluster.services
    previous_entries = services.cluster.list()
    with row.seed_fault(ready_cluster), pytest.raises(row.kind, match=row.message) as caught:
        add(**row.settings)
    assert caught.value.remedy
    assert services.cluster.list() == previous_entries


@pytest.mark.slow
def test_f52_a_bashrc_that_prints_prevents_no_login(
    ready_cluster: ReadyCluster, add: Callable[..., None]
) -> None:
    noise = "echo noise; echo noise >&2; trap 'echo parting' EXIT; cd /\n"
    with bashrc(noise, ready_cluster):
        add()
    info = ready_cluster.entry(SECOND_NAME).info
    assert info is not None
    assert info.hostname == NODE
