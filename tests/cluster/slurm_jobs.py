"""Jobs of a desktop in the Slurm cluster of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.cluster.slurm import SlurmCluster
from tests.integration.tiny import ENDLESS, LOADER, raw_job, write_sources
from tests.waiting import LIMIT_S, wait_for


@contextmanager
def login_desktop(slurm: SlurmCluster, folder: Path, loader: str = LOADER) -> Iterator[Services]:
    """A desktop on the login node, with the parts of a tiny job in its library."""
    services = open_services(slurm.data / "root", folder / "catalogue.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        sources = write_sources(folder)
        (folder / "loader/bks_dataset.py").write_text(loader)
        for kind, source in zip((Kind.MODEL, Kind.LOADER, Kind.DATASET), sources, strict=True):
            services.library.import_item(kind, source, "tiny")
        yield services
        services.close()


class SlurmJobs:
    """Makes jobs and waits for them; nothing of them runs after the test."""

    def __init__(
        self, services: Services, cluster: SlurmCluster, login_node: str = THIS_COMPUTER
    ) -> None:
        self._services = services
        self._cluster = cluster
        self._login_node = login_node

    def start(self, checkpoint: Mapping[str, Any] = {}, **slurm: Any) -> str:
        return self._services.jobs.create_and_start(self.raw(checkpoint, **slurm)).id

    def raw(self, checkpoint: Mapping[str, Any] = {}, **slurm: Any) -> dict[str, Any]:
        """Return the file of a job that trains until it is stopped."""
        raw = raw_job(strategy={"name": "ddp"}, **{**ENDLESS, "checkpoint": checkpoint})
        del raw["placement"]
        raw["slurm"] = {"cluster": self._login_node, "time_limit_min": 60, **slurm}
        return raw

    def wait_until(
        self,
        job_id: str,
        is_reached: Callable[[JobView], bool],
        fact: str,
        limit_s: float = LIMIT_S,
    ) -> JobView:
        def poll() -> bool:
            nonlocal view
            view = self._services.queries.show(job_id)
            return is_reached(view)

        view = self._services.queries.show(job_id)
        wait_for(poll, fact, limit_s, hint=lambda: self.describe(view))
        return view

    def wait_for_step(self, job_id: str, run: int, step: int = 1) -> JobView:
        def has_stepped(view: JobView) -> bool:
            assert not view.state.is_over, self.describe(view)
            return view.run == run and view.state.is_live and view.step > step

        return self.wait_until(job_id, has_stepped, f"step {step} of run {run}", 2 * LIMIT_S)

    def describe(self, view: JobView) -> str:
        folder = self._services.data_root.job(view.id)
        paths: list[Path] = [folder.status, folder.mpirun_log]
        paths += [path for run in folder.attempts.iterdir() for path in run.iterdir()]
        paths += [folder.rank_log(rank) for rank in range(3)]
        texts = [f"── {p} ──\n{p.read_text(errors='replace')}" for p in paths if p.is_file()]
        return "\n".join((repr(view.status), self._cluster.call("squeue", "-t", "all"), *texts))
