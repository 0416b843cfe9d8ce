"""The check of a node that does not mount the data root."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from backend.provisioning import cluster_key
from backend.services.preflight import node_probe
from tests.backend.services.preflight.test_without_horovod import node, run


class Files:
    """Files of a shell, and those that were used while another thread used one."""

    def __init__(self) -> None:
        self._in_use = threading.Lock()
        self.clashes: list[str] = []
        self.used_paths: list[str] = []

    @contextmanager
    def files(self) -> Iterator[Files]:
        yield self

    def close(self) -> None: ...

    def read(self, path: str, *_: Any) -> bytes:
        self.used_paths.append(path)
        if not self._in_use.acquire(blocking=False):
            self.clashes.append(path)
            return b""
        time.sleep(0.1)
        self._in_use.release()
        return b""

    make_folder = write = remove_tree = read


def test_one_thread_at_a_time_uses_the_files_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    staged = [replace(node(name, horovod=True), is_staged=True) for name in ("gpu1", "gpu2")]
    preflight = run("ddp", *staged)
    preflight.collect_nodes()
    first, second = preflight.job.nodes
    second.listener_reply = {"port": 1}
    second.listening_event.set()
    shell: Any = Files()
    fields = {"port": 1}
    monkeypatch.setattr(preflight._node_registry, "open_shell", lambda _: shell, raising=False)
    monkeypatch.setattr(preflight._provisioning, "peers", list, raising=False)
    monkeypatch.setattr(node_probe, "listen", lambda *_: (fields, 0.0))
    monkeypatch.setattr(node_probe, "end_listener", lambda *_: None)
    monkeypatch.setattr(node_probe, "probe_node", lambda *_: {})
    monkeypatch.setattr(node_probe, "connect_to_peers", lambda *_: [])
    monkeypatch.setattr(cluster_key, "write_settings", lambda shell, *_: shell.read("settings"))
    preflight._finished_event.set()
    with ExitStack() as stack:
        preflight._query_remote_node(first, staged[0], stack)
    assert "settings" in shell.used_paths
    assert shell.clashes == []
