"""The order in which pytest-xdist hands tests to its workers, and what a crash of one costs."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


def is_of_cluster(node_id: str) -> bool:
    return node_id.startswith("tests/cluster/")


class FileScheduling(LoadScopeScheduling):
    """Tests of one file stay in one process, and so do all that need the test cluster.

    Those share the nodes that were set up. The marks of ``--dist loadgroup`` would do it, but
    pytest-xdist 3.8.0 writes them where pytest 9.2 does not read them.

    Where a worker crashes, the test that it ran fails and all others run in another worker.
    pytest-xdist 3.8.0 runs the test that crashed once more, and then waits for ever for a worker
    that was given a single test: a worker begins a test when it knows the next one, or that there
    is none.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if is_of_cluster(nodeid) else nodeid.partition("::")[0]

    def _reschedule(self, node: WorkerController) -> None:
        # One that still collects can be given nothing, and asks when it is done: see `schedule`.
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        units = self.assigned_work.pop(node)
        pending = [
            nodeid for unit in units.values() for nodeid, is_done in unit.items() if not is_done
        ]
        if not pending:
            return None
        crashed_test = pending[0]
        units[self._split_scope(crashed_test)][crashed_test] = True
        self.workqueue.update(
            {scope: unit for scope, unit in units.items() if not all(unit.values())}
        )
        for other_node in self.assigned_work:
            self._reschedule(other_node)
        return crashed_test

    def schedule(self) -> None:
        super().schedule()
        # The worker in place of a crashed one needs a second test, or to know that there is none.
        for node in self.nodes:
            self._reschedule(node)
