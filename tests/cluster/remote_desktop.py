"""A second desktop, which does not mount the data root: it reaches it through a node."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from backend.records.base.remote_root import RemoteRoot
from backend.records.nodes.entry import HostKey
from backend.services.context.container import Services, open_services
from backend.ssh.known_hosts import SSH_PORT, host_key
from tests.cluster.cluster import Cluster

_HOST = "lab"


@contextmanager
def remote_desktop(cluster: Cluster, folder: Path, through: str = "node1") -> Iterator[Services]:
    """``folder`` is its user's home; the keys of all nodes were accepted there."""
    settings = folder / ".ssh" / "config"
    settings.parent.mkdir(parents=True)
    # A name that only the user's client settings know.
    settings.write_text(
        f"Host {_HOST}\n  HostName {cluster.address_of(through)}\n  User {cluster.user}\n"
        f"  IdentityFile {cluster.identity}\n"
    )
    with mock.patch.dict("os.environ", HOME=str(folder)):
        services = open_remote(cluster, folder)
        try:
            for key in known_keys(cluster):
                services.cluster.accept_key(key)
            yield services
        finally:
            services.close()


def open_remote(cluster: Cluster, folder: Path) -> Services:
    """Open it; the home of this process is ``folder``."""
    keys = {key.text for key in known_keys(cluster)}
    return open_services(
        RemoteRoot(_HOST, cluster.data_root),
        folder / "catalogue.sqlite",
        accept=lambda key: key.text in keys,
    )


def known_keys(cluster: Cluster) -> list[HostKey]:
    """Return the host key of every node, under its address."""
    keys = []
    for line in cluster.known_hosts:
        names, kind, text = line.split()
        keys.append(host_key(names.split(",")[0], SSH_PORT, kind, base64.b64decode(text)))
    return keys
