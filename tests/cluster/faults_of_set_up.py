"""Faults of a node's installation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from backend.records.base.access_modes import make_folder
from backend.records.base.layout import DataRoot
from backend.services.preflight import names
from tests.cluster.commands import call
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeding import (
    SITE,
    bundle,
    environment,
    move_away,
    rewritten_file,
    run_as_root,
    seeded_fault,
)
from tests.waiting import wait_for


@seeded_fault(names.PYTORCH)
def torch_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, f"{environment(ready, node)}/{SITE}/torch"):
        yield


@seeded_fault(names.HOROVOD)
def horovod_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, f"{environment(ready, node)}/{SITE}/horovod"):
        yield


@seeded_fault(names.PYTORCH)
def another_torch(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{environment(ready, node)}/{SITE}/torch/version.py"
    with rewritten_file(ready, node, path, "sed \"s/^__version__ = .*/__version__ = '2.9.0'/\""):
        yield


@seeded_fault(names.OPEN_MPI)
def mpirun_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, f"{environment(ready, node)}/bin/mpirun"):
        yield


@seeded_fault(names.OPEN_MPI)
def mpirun_not_executable(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{environment(ready, node)}/bin/mpirun"
    run_as_root(ready, node, f"chmod -x {path}")
    yield
    run_as_root(ready, node, f"chmod +x {path}")


@seeded_fault(names.OPEN_MPI)
def prted_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, f"{environment(ready, node)}/bin/prted"):
        yield


@seeded_fault(names.OPEN_MPI)
def another_open_mpi(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{environment(ready, node)}/bin/mpirun"
    with move_away(ready, node, path):
        script = "#!/bin/sh\\necho 'mpirun (Open MPI) 4.1.4'\\n"
        run_as_root(ready, node, f'printf "{script}" >{path}; chmod +x {path}')
        yield
        # What a fix has put there stays.
        run_as_root(ready, node, f"if head -c 99 {path} | grep -q 4.1.4; then rm -f {path}; fi")


@seeded_fault(names.PROGRAM)
def program_changed(ready: ReadyCluster, node: str) -> Iterator[None]:
    path = f"{bundle(ready, node)}/backend/node/run/rank_guard.py"
    with rewritten_file(ready, node, path, "cat; echo '# changed'"):
        yield


@seeded_fault(names.PROGRAM)
def program_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, bundle(ready, node)):
        yield


@seeded_fault(names.PYTHON)
def environment_of_another_user(ready: ReadyCluster, node: str) -> Iterator[None]:
    folder = f"{ready.home}/environments"
    run_as_root(ready, node, f"chown root {folder}; chmod 700 {folder}")
    yield
    # A fix has set it aside; 230 MB that are not needed.
    run_as_root(ready, node, f"chown lab {folder}; chmod 755 {folder}; rm -rf {folder}.not-ours-*")


@seeded_fault(names.PYTHON)
def python_missing(ready: ReadyCluster, node: str) -> Iterator[None]:
    with move_away(ready, node, "/usr/bin/python3.11"):
        yield


@seeded_fault(names.AGENT)
def agent_stopped(ready: ReadyCluster, node: str) -> Iterator[None]:
    ready.stop_agent(node)
    yield
    ready.revive()


@seeded_fault(names.LEFTOVERS)
def left_over_process(ready: ReadyCluster, node: str) -> Iterator[None]:
    jobs = DataRoot(ready.cluster.share).jobs
    make_folder(jobs, exist_ok=True)
    run = jobs / f"20200101-{node}" / "attempts" / "1"
    run.mkdir(parents=True)
    (run / "exit.json").write_text("{}")
    tag = f"RINGMASTER_RUN=20200101-{node}/1"
    ready[node].run(["sh", "-c", f"{tag} setsid sleep 3600 >/dev/null 2>&1 </dev/null &"])
    asleep = ("sleep", "3600")
    wait_for(lambda: any(p.argv == asleep for p in ready[node].processes()), "a process")
    yield
    for process in ready[node].processes():
        if process.argv == asleep:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, 9)
    call("rm", "-rf", run.parents[1])
