"""``docs/cluster.sh`` is run as it stands in the documentation, so that the page stays true."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import run_processes

SCRIPT = Path(__file__).parents[2] / "docs/cluster.sh"
NODES = ("node1", "node2", "node3")
_LIMIT_S = 900.0
NAMED_WITHIN_S = 240
"""The product's own limits add up to 90 s; TCP alone would take 444 s."""
EPOCHS = "60"
"""So many that the job is still under way when it is stopped, and when it loses a node."""


@pytest.fixture
def lab(ready_cluster: ReadyCluster) -> Iterator[Path]:
    """A data root of its own on nodes that are set up; nothing was ever added to it."""
    share = ready_cluster.cluster.share / "lab"
    share.mkdir()
    shutil.copystat(ready_cluster.cluster.share, share)
    owner = ready_cluster.cluster.share.stat()
    os.chown(share, owner.st_uid, owner.st_gid)
    yield share
    ready_cluster.cluster.heal()
    # Each desktop and data root has a key of its own, and the nodes accept the last one.
    ready_cluster.services.provisioning.authorize_all()


def environment(ready: ReadyCluster, folder: Path, lost_folder: Path) -> dict[str, str]:
    """With the last node's cable pulled for LOSE, and the moment of that written down."""
    cable = ready.cluster.slot.link("n", len(NODES))
    keys = folder / "keys"
    keys.write_text("\n".join(ready.cluster.known_hosts) + "\n")
    completed = subprocess.run(
        ["ssh-keygen", "-lf", keys], capture_output=True, text=True, check=True
    ).stdout
    return {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "CATALOGUE": str(folder / "catalogue.sqlite"),
        "NODE_DATA_ROOT": f"{ready.cluster.data_root}/lab",
        "USER_ON_NODES": ready.cluster.user,
        "IDENTITY": str(ready.cluster.identity),
        "ACCEPT_KEYS": " ".join(line.split()[1] for line in completed.splitlines()),
        "PROCESSES": "1",
        "EPOCHS": EPOCHS,
        "LOSE": f"date +%s >{shlex.quote(str(lost_folder))}; ip link set {cable} down",
    }


@pytest.mark.slow
@pytest.mark.timeout(_LIMIT_S + 100)
def test_f08_the_whole_way_across_machines_is_one_script_the_loss_of_a_node_included(
    ready_cluster: ReadyCluster, lab: Path, tmp_path: Path
) -> None:
    hosts = [ready_cluster.cluster.address_of(name) for name in NODES]
    lost_folder = tmp_path / "lost"
    completed = subprocess.run(
        [SCRIPT, lab, *hosts],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(ready_cluster, tmp_path, lost_folder),
        cwd=tmp_path,
        timeout=_LIMIT_S,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout
    assert "The job can start; checked node1 and node2 and node3" in completed.stdout
    assert ". Saved at epoch " in completed.stdout
    assert completed.stdout.count(f": Finished, epoch {EPOCHS} of {EPOCHS}") == 2
    (exported,) = lab.glob("*.zip")
    assert f"Wrote {exported}" in completed.stdout
    with zipfile.ZipFile(exported) as archive:
        assert any(name.endswith("load.py") for name in archive.namelist())

    (job,) = map(JobFolder, (lab / "jobs").iterdir())
    assert read_json(job.placement)["placement"] == [
        {"node": name, "processes": 1} for name in NODES[:2]
    ]
    # The third starts over, so that the first two were put aside.
    (previous_job,) = map(JobFolder, job.started_over_runs.iterdir())
    attempts = [previous_job.attempt(1), previous_job.attempt(2), job.attempt(3), job.attempt(4)]
    exits = [RunExit.from_dict(read_json(attempt.exit)) for attempt in attempts]
    assert [end.state for end in exits] == [
        JobState.INTERRUPTED,
        JobState.FINISHED,
        JobState.ERROR,
        JobState.FINISHED,
    ]
    lost_exit = exits[2]
    assert lost_exit.error is not None
    assert lost_exit.error.node == "node3"
    assert lost_exit.error.message in completed.stdout
    ended_s = datetime.fromisoformat(lost_exit.ended_at).timestamp()
    assert ended_s - float(lost_folder.read_text()) < NAMED_WITHIN_S
    # On either side of the cut: what runs there is seen without the network.
    assert not run_processes(ready_cluster)


def test_a_host_alone_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    completed = subprocess.run(
        [SCRIPT, tmp_path, "gpu1"], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 2
    assert completed.stderr.startswith("Two hosts at least:")
    assert not list(tmp_path.iterdir())
