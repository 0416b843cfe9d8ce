"""More that can be wrong with the nodes of a job, all of which the program fixes by itself."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backend.provisioning.code_archive import PACKAGE, bundle_name
from backend.records.base.access_modes import make_folder
from backend.records.nodes.entry import NodeEntry
from backend.services.preflight import names
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import (
    bundle,
    changed_entry,
    move_away,
    rewritten_file,
    run_as_root,
    seeded_fault,
)

_CHANGE = "# older"


@seeded_fault(names.PROGRAM)
def old_program(ready: ReadyCluster, node: str) -> Iterator[None]:
    """Set up by a Ringmaster before this one, and nothing of it is damaged."""
    current_bundle = bundle(ready, node)
    old_bundle = f"{current_bundle.rpartition('/')[0]}/{_older_bundle_name()}"
    run_as_root(
        ready,
        node,
        f"cp -a {current_bundle} {old_bundle};"
        f" echo {shlex.quote(_CHANGE)} >>{old_bundle}/backend/node/run/rank_guard.py",
    )

    def change(entry: NodeEntry) -> NodeEntry:
        assert entry.installation is not None
        return replace(entry, installation=replace(entry.installation, bundle=old_bundle))

    ready.stop_agent(node)
    with changed_entry(ready, node, change):
        ready.start_agent(node)
        yield
        ready.stop_agent(node)
    ready.revive()
    run_as_root(ready, node, f"rm -rf {old_bundle}")


def _older_bundle_name() -> str:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "backend"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        with (package / "node" / "run" / "rank_guard.py").open("a") as file:
            file.write(f"{_CHANGE}\n")
        return bundle_name(package)


@seeded_fault(names.SSH_BETWEEN_NODES)
def cluster_key_damaged(ready: ReadyCluster, node: str) -> Iterator[None]:
    with rewritten_file(ready, node, f"{ready.home}/ssh/id_cluster", "head -c 120"):
        yield


@seeded_fault(names.DATA_ROOT)
def data_root_not_seen_then(ready: ReadyCluster, node: str) -> Iterator[None]:
    """The data root was mounted after the node's inspection."""

    def change(entry: NodeEntry) -> NodeEntry:
        assert entry.info is not None
        return replace(entry, info=replace(entry.info, data_root=""))

    with changed_entry(ready, node, change):
        yield


@contextmanager
def ssh_settings_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    """The SSH settings of mpirun on the head; a check writes them again and finds no fault."""
    folder = f"{ready.home}/ssh"
    with (
        move_away(ready, node, f"{folder}/config"),
        move_away(ready, node, f"{folder}/known_hosts"),
    ):
        yield


@contextmanager
def jobs_for_their_owner_alone(ready: ReadyCluster) -> Iterator[None]:
    """The desktop's user made the folder of all jobs so that no other user may write to it."""
    jobs = ready.cluster.share / "jobs"
    make_folder(jobs, exist_ok=True)
    previous_stat = jobs.stat()
    os.chown(jobs, 0, 0)
    jobs.chmod(0o755)
    try:
        yield
    finally:
        os.chown(jobs, previous_stat.st_uid, previous_stat.st_gid)
        jobs.chmod(previous_stat.st_mode & 0o7777)
