"""``docs/cluster.sh`` is run as it stands in the documentation, so that the page stays true."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.commands import wait_for
from tests.cluster.ready import ReadyCluster

SCRIPT = Path(__file__).parents[2] / "docs/cluster.sh"
NODES = ("node1", "node2", "node3")
_LIMIT_S = 400.0


@pytest.fixture
def lab(ready_cluster: ReadyCluster) -> Iterator[Path]:
    """A data root of its own on nodes that are set up; nothing was ever added to it."""
    share = ready_cluster.cluster.share / "lab"
    share.mkdir()
    shutil.copystat(ready_cluster.cluster.share, share)
    owner = ready_cluster.cluster.share.stat()
    os.chown(share, owner.st_uid, owner.st_gid)
    yield share
    # Each desktop and data root has a key of its own, and the nodes let in the one told last.
    ready_cluster.services.set_up.let_in_again()


def environment(ready: ReadyCluster, folder: Path) -> dict[str, str]:
    keys = folder / "keys"
    keys.write_text("\n".join(ready.cluster.known_hosts) + "\n")
    shown = subprocess.run(
        ["ssh-keygen", "-lf", keys], capture_output=True, text=True, check=True
    ).stdout
    return {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "CATALOGUE": str(folder / "catalogue.sqlite"),
        "NODE_DATA_ROOT": f"{ready.cluster.data_root}/lab",
        "USER_ON_NODES": ready.cluster.user,
        "IDENTITY": str(ready.cluster.identity),
        "ACCEPT_KEYS": " ".join(line.split()[1] for line in shown.splitlines()),
        "PROCESSES": "1",
        "EPOCHS": "40",
        "LOSE": f"touch {folder}/lose; until [ -e {folder}/lost ]; do sleep 0.1; done",
    }


@pytest.mark.timeout(600)
def test_the_whole_way_across_machines_is_one_script(
    ready_cluster: ReadyCluster, lab: Path, tmp_path: Path
) -> None:
    hosts = [ready_cluster.cluster.address_of(name) for name in NODES]
    log = tmp_path / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [SCRIPT, lab, *hosts],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment(ready_cluster, tmp_path),
            cwd=tmp_path,
        ) as script,
    ):
        wait_for(
            lambda: (tmp_path / "lose").exists() or script.poll() is not None,
            "the script did not come to the loss of a node",
            _LIMIT_S,
            log.read_text,
        )
        assert script.poll() is None, log.read_text()
        ready_cluster["node3"].power_off()
        ready_cluster["node3"].boot()
        (tmp_path / "lost").touch()
        code = script.wait(_LIMIT_S)
    said = log.read_text()
    assert code == 0, said
    assert "The job can start; looked at node1 and node2 and node3" in said
    assert "\nState      Error\n" in said
    assert "node3" in said[said.index("State      Error") :]
    assert said.splitlines()[-1].partition(": ")[2].startswith("Finished")
    (exported,) = lab.glob("*.zip")
    with zipfile.ZipFile(exported) as archive:
        assert any(name.endswith("load.py") for name in archive.namelist())
