"""One environment on the data root for nodes alike, with the real torch and Horovod in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from backend.records.base.atomic_files import read_json
from backend.records.base.layout import NodeHome
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import makes_steps, run_processes

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]

NODES = ("node1", "node2", "node3")


@pytest.fixture
def shared(stocked: ReadyCluster) -> Iterator[PurePosixPath]:
    """The environment that all nodes use; afterwards they have their own, as before.

    The key that goes between them starts runs only, and so has to know that environment.
    """
    previous_entries = {name: stocked.entry(name) for name in NODES}
    home = NodeHome.shared_in(PurePosixPath(stocked.cluster.data_root))
    yield home.environments / set_up(stocked, SetUpOptions(shared=True))
    set_up(stocked, SetUpOptions())
    for name, entry in previous_entries.items():
        now = stocked.entry(name).installation
        assert now is not None
        assert entry.installation is not None
        assert replace(now, bytes=0) == replace(entry.installation, bytes=0)
    shutil.rmtree(stocked.cluster.share / home.path.name)


def set_up(ready: ReadyCluster, options: SetUpOptions) -> str:
    """The name of the environment that all nodes have then."""
    done = ready.services.provisioning.set_up(NODES, lambda _: None, options=options)
    names = set()
    for entry in done.values():
        assert isinstance(entry, NodeEntry), entry
        assert entry.installation is not None
        assert entry.shares_environment is options.shared
        names.add(entry.installation.environment)
    (name,) = names
    return name


def test_nodes_that_share_an_environment_train_from_it(
    stocked: ReadyCluster, shared: PurePosixPath, run: Callable[..., JobView]
) -> None:
    pythons = {e.installation.python for e in map(stocked.entry, NODES) if e.installation}
    assert pythons == {f"{shared}/bin/python"}
    local_folder = stocked.cluster.share / shared.relative_to(stocked.cluster.data_root)
    names = [path.name for path in local_folder.parent.iterdir()]
    assert names == [shared.name], "one, and made once"

    view = run(*NODES)
    assert makes_steps(view)
    assert (view.world_size, view.error) == (3, None)
    launch = read_json(stocked.services.data_root.job(view.id).launch)
    assert launch["launcher"]["path"] == f"{shared}/bin/mpirun"
    ranks = {name for name, p in run_processes(stocked) if p.argv[:1] == (f"{shared}/bin/python",)}
    assert ranks == set(NODES)
    stocked.services.jobs.lifecycle.stop(view.id)
    assert stocked.services.jobs.queries.wait(view.id).state is JobState.INTERRUPTED
