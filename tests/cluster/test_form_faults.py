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
from tests.cluster.faults import FAULTS
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import as_root, moved
from tests.waiting import LIMIT_S

NODE, AGAIN = "node2", "again"
SHORT_S = 2.0
QUICK = ("refused", "wrong user", "host key changed", "no Python", "disk full")
Made = Callable[[ReadyCluster], AbstractContextManager[None]]


class Row(NamedTuple):
    """``made`` spoils the node; ``typed`` is what the user types wrongly.

    ``limit_s`` is how long the node may be silent; where it never answers, that is short.
    """

    sentence: str
    kind: type[BackendError] = Unreachable
    made: Made = lambda _ready: nullcontext()
    typed: Mapping[str, Any] = MappingProxyType({})
    limit_s: float = LIMIT_S


def seeded(name: str) -> Made:
    return lambda ready: FAULTS[name].made(ready, NODE)


@contextmanager
def bashrc(text: str, ready: ReadyCluster) -> Iterator[None]:
    place = "/home/lab/.bashrc"
    ready[NODE].run(["sh", "-c", f"[ ! -e {place} ] || mv {place} {place}.away"])
    ready[NODE].run(["tee", place], input=text)
    try:
        yield
    finally:
        ready[NODE].run(
            ["sh", "-c", f"rm {place}; [ ! -e {place}.away ] || mv {place}.away {place}"]
        )


@contextmanager
def without_python(ready: ReadyCluster) -> Iterator[None]:
    with moved(ready, NODE, "/usr/bin/python3"):
        yield


@contextmanager
def home_of_root(ready: ReadyCluster) -> Iterator[None]:
    as_root(ready, NODE, "chown root /home/lab /home/lab/.ringmaster")
    try:
        yield
    finally:
        as_root(ready, NODE, "chown lab /home/lab /home/lab/.ringmaster")


ROWS = {
    "host not found": Row("was not found", typed={"host": "no-such-host.invalid"}),
    "refused": Row("refuses connections on port 22", made=seeded("sshd_stopped")),
    "no answer": Row("sent no greeting within", made=seeded("sshd_hangs"), limit_s=SHORT_S),
    "no route": Row("no route|did not answer", made=seeded("cable_pulled"), limit_s=SHORT_S),
    "switched off": Row("no route|did not answer", made=seeded("powered_off"), limit_s=SHORT_S),
    "wrong user": Row("refuses nobody-here", LoginRefused, typed={"user": "nobody-here"}),
    "user not allowed": Row("refuses lab", LoginRefused, seeded("sshd_wants_another_user")),
    "wrong key": Row("refuses lab", LoginRefused, seeded("desktop_key_removed")),
    "key listed for all": Row(
        "refuses lab", LoginRefused, seeded("authorized_keys_writable_by_all")
    ),
    "no such key": Row("no key file", BackendError, typed={"identity": "/no/such/key"}),
    "passphrase needed": Row("passphrase", PassphraseNeeded, typed={"identity": "locked"}),
    "host key changed": Row("key", HostKeyChanged, seeded("host_key_changed")),
    "not SSH": Row("is not an SSH server", typed={"port": 8022}),
    "no Python": Row("has no python3", BackendError, without_python),
    "disk full": Row("No space left", BackendError, seeded("home_disk_full")),
    "no permission": Row("Permission denied", BackendError, home_of_root),
    "bashrc that ends": Row(
        "code 5 before any command", LoginRefused, partial(bashrc, "echo no module >&2; exit 5\n")
    ),
}


@pytest.fixture
def add(ready_cluster: ReadyCluster, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """As the form does; the keys of the nodes were accepted before."""
    made = ready_cluster.cluster
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked")

    def add(**typed: Any) -> None:
        if typed.get("identity") == "locked":
            typed["identity"] = str(tmp_path / "locked")
        address = NodeAddress(made.address_of(NODE), user=made.user, identity=str(made.identity))
        ready_cluster.services.cluster.add(
            AGAIN,
            replace(address, **typed),
            accept=lambda key: False,
            node_data_root=made.data_root,
        )

    yield add
    if AGAIN in {entry.name for entry in ready_cluster.services.cluster.list()}:
        ready_cluster.services.cluster.remove(AGAIN)


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
    row: Row,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ssh_client.connect.__kwdefaults__, "limit_s", row.limit_s)
    services = ready_cluster.services
    before = services.cluster.list()
    with row.made(ready_cluster), pytest.raises(row.kind, match=row.sentence) as caught:
        add(**row.typed)
    assert caught.value.remedy
    assert services.cluster.list() == before


@pytest.mark.slow
def test_f52_a_bashrc_that_prints_prevents_no_login(
    ready_cluster: ReadyCluster, add: Callable[..., None]
) -> None:
    noise = "echo noise; echo noise >&2; trap 'echo parting' EXIT; cd /\n"
    with bashrc(noise, ready_cluster):
        add()
    facts = ready_cluster.entry(AGAIN).info
    assert facts is not None
    assert facts.hostname == NODE
