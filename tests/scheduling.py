"""Which tests pytest-xdist keeps together in one of its workers."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling


def is_of_cluster(node_id: str) -> bool:
    return node_id.startswith("tests/cluster/")


class FileScheduling(LoadScopeScheduling):
    """Tests of one file stay in one process, and so do all that need the test cluster.

    Those share the nodes that were set up. The marks of ``--dist loadgroup`` would do it, but
    pytest-xdist 3.8.0 writes them where pytest 9.2 does not read them.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if is_of_cluster(nodeid) else nodeid.partition("::")[0]
