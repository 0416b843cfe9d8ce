"""P11: setting up eight nodes against one, on the test cluster: needs root.

All nodes of the cluster share this machine's cores, where eight would make eight times the work of
one. So what a node does for itself is done once, and afterwards answered from the record, in the
time that it took; what is ours is done for real, each time: the connections, the services, and
every byte that is sent. The record must come from a calm machine, or the goal is too easily met.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.nodes import files as node_files
from backend.provisioning import cluster_key
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo
from backend.services.context.container import Services, open_services
from backend.services.nodes.provisioning import ProvisioningService, default_paths
from backend.ssh.interface import CommandResult, Shell
from backend.ssh.sftp import SftpFiles
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.fakes.mounted_root import mounted

PAIRS = 5
NODE_COUNT = 8
_CONSTRAINTS = Path(__file__).parents[2] / "installers/constraints.txt"
_TOKEN = re.compile(r"[0-9a-f]{8,64}")
_INSPECT_S = 0.5


@dataclass
class Record:
    """The answers of one node by request, each with its duration in seconds."""

    answers: dict[tuple[str, ...], tuple[float, Any]] = field(default_factory=dict)

    def take(self, *request: str, work: Callable[[], Any]) -> Any:
        started_s = time.perf_counter()
        try:
            answer = work()
        except FileNotFoundError as error:
            answer = error
        self.answers[self.key(request)] = time.perf_counter() - started_s, answer
        return answer

    def find(self, *request: str) -> tuple[float, Any] | None:
        return self.answers.get(self.key(request))

    @staticmethod
    def key(request: Sequence[str]) -> tuple[str, ...]:
        return tuple(_TOKEN.sub("*", word) for word in request)


class RecordedShell:
    """A shell whose node has done its own work before; only ``send`` is always done."""

    def __init__(self, shell: Shell, record: Record, is_new: bool) -> None:
        self._shell = shell
        self._record = record
        self._is_new = is_new

    def _do(self, *request: str, work: Callable[[], Any]) -> Any:
        recorded_answer = None if self._is_new else self._record.find(*request)
        if recorded_answer is None:
            answer = self._record.take(*request, work=work) if self._is_new else work()
        else:
            seconds, answer = recorded_answer
            time.sleep(seconds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        result = self._do("run", *argv, work=lambda: self._shell.run(argv, **options))
        assert isinstance(result, CommandResult)
        return result

    def read(self, path: str, offset: int = 0, limit_bytes: int = 4_000_000) -> bytes:
        work = functools.partial(self._shell.read, path, offset, limit_bytes)
        return bytes(self._do("read", path, work=work))

    def listing(self, path: str) -> Any:
        return self._do("listing", path, work=lambda: self._shell.listing(path))

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._do("write", path, work=lambda: self._shell.write(path, content, mode))

    def send(self, source: Path, path: str, on_bytes: Any = None) -> None:
        self._shell.send(source, path, on_bytes)

    def fetch(self, path: str, target: Path, on_bytes: Any = None) -> None:
        self._shell.fetch(path, target, on_bytes)

    def files(self) -> AbstractContextManager[SftpFiles]:
        return self._shell.files()

    def open_port(self, port: int) -> Any:
        return self._shell.open_port(port)

    def close(self) -> None:
        self._shell.close()


class Bench:
    """Eight nodes that are one real node behind eight connections.

    ``root`` is the data root of the real one: an agent writes only where its node is entered.
    """

    def __init__(self, real: Services, entry: NodeEntry, root: OpenRoot, folder: Path) -> None:
        self._real = real
        self._entry = entry
        self._record = Record()
        self._is_new = True
        self._names = [f"gpu{number}" for number in range(1, NODE_COUNT + 1)]
        for name in self._names:
            node_files.write_entry(root, replace(entry, name=name))
        paths = replace(default_paths("benchmark", _CONSTRAINTS), keys=folder / "keys")
        host_key = cluster_key.make_key().public_key
        self._service = ProvisioningService(
            root, paths, self._open, self._inspect, lambda name: host_key
        )

    def _open(self, entry: NodeEntry) -> Shell:
        shell = self._real.cluster.open_shell(self._entry.name)
        return RecordedShell(shell, self._record, self._is_new)

    def _inspect(self, entry: NodeEntry, shell: Shell) -> NodeInfo:
        time.sleep(_INSPECT_S)
        assert self._entry.info is not None, "it was inspected when it was added"
        return self._entry.info

    def set_up(self, count: int) -> tuple[float, float]:
        """Seconds by the clock, and of this process's own processor time."""
        started_s, used_s = time.perf_counter(), time.process_time()
        results = self._service.set_up(self._names[:count], lambda update: None)
        times = time.perf_counter() - started_s, time.process_time() - used_s
        for result in results.values():
            if isinstance(result, BackendError):
                raise result
        self._is_new = False
        return times


def measure() -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nodes = ("node1",)
        progress = Progress(sys.stderr)
        cluster = stack.enter_context(Cluster(folder / "cluster", nodes, progress=progress))
        (folder / "desktop").mkdir()
        real = open_services(cluster.share, folder / "desktop/catalogue.sqlite")
        stack.callback(real.close)
        entry = real.cluster.add(
            "node1",
            NodeAddress(
                cluster.address_of("node1"), user=cluster.user, identity=str(cluster.identity)
            ),
            accept=lambda key: any(line.endswith(f" {key.text}") for line in cluster.known_hosts),
            node_data_root=cluster.data_root,
        )
        bench = Bench(real, entry, mounted(cluster.share), folder)
        load = os.getloadavg()[0]
        recorded_s = bench.set_up(1)[0]
        single_times: list[tuple[float, float]] = []
        many_times: list[tuple[float, float]] = []
        for number in range(PAIRS):
            for count in (1, NODE_COUNT) if number % 2 else (NODE_COUNT, 1):
                (single_times if count == 1 else many_times).append(bench.set_up(count))
        ratios = tuple(m[0] / o[0] for m, o in zip(many_times, single_times, strict=True))
        context = (
            f"one {min(o[0] for o in single_times):.1f} s (recorded in {recorded_s:.1f} s at a "
            f"load of {load:.1f}), {NODE_COUNT} {min(m[0] for m in many_times):.1f} s at best; "
            f"our own processor time {min(o[1] for o in single_times):.1f} "
            f"and {min(m[1] for m in many_times):.1f} s"
        )
        return [Figure("P11", f"setting up {NODE_COUNT} nodes / one", ratios, 1.3, context=context)]
