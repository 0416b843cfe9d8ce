"""Write reports: the result of a job, a comparison, a sweep or a study as one file to send."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError, as_backend_error, exists_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.bundles.imported_job import environments, safe_stem
from backend.records.base.account import expand_home
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.validation import sanitize
from backend.records.jobs.arguments import named_arguments
from backend.records.jobs.comparison import MOST_JOBS
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.sweeps.spec import sweep_of, sweep_title
from backend.services.context.problem_report import SECRET_NAME, SecretFilter
from backend.services.jobs.prediction import read_samples
from backend.services.reports.content import ReportBuilder, Subject
from backend.services.reports.html import masked, render, render_pdf
from backend.services.reports.masking import Mask
from backend.services.tools.result_files import require_free

if TYPE_CHECKING:
    from backend.services.context.container import Services

_SUFFIXES = ("", ".html", ".htm", ".pdf")
_SECRET_LENGTH = 8
"""A shorter value of a variable, such as "info", is a part of other words."""
_SECRET_ARGUMENT = re.compile(
    r"(?:^|[-_.])(?:(?:api|access|private|secret)[-_]?key|token|secret|credentials?"
    r"|pass(?:word|wd|phrase)?)$",
    re.IGNORECASE,
)
"""Not such as ``--max-tokens``, ``--tokenizer`` and ``--sort-key``."""


class ReportService:
    """Write reports. Every call blocks and may run on any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def write(
        self,
        names: Sequence[str],
        path: Path | None = None,
        *,
        samples: str = "",
        checkpoint: str = "best",
        shows_places: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Path:
        """Write the report of a job, of several jobs, of a sweep or of a study.

        Args:
            path: By default the title in the current folder. One that ends in .pdf is a PDF.
            samples: Numbers of validation samples, whose predictions are shown; "" for none.
            shows_places: Paths and machines are not hidden.
            notify: Gets a sentence for each of several jobs that has no such predictions.

        Raises:
            BackendError: There is no such job, sweep or study, a single job has no such
                predictions, or the file exists or cannot be written. No partial file remains.
        """
        read_samples(samples)
        subject = self._find(names)
        path = expand_home(path or Path(f"{safe_stem(subject.title)}.html")).absolute()
        if path.suffix.lower() not in _SUFFIXES:
            raise BackendError(f"A report ends in .html or .pdf, not as {path.name}.")
        if path.is_dir():
            raise BackendError(f"{path} is a folder.", "Write the name of a file in it.")
        if not overwrite and path.exists():
            raise exists_error(path, "Choose another name, or replace the file with --overwrite.")
        if not path.is_file():
            require_free(path)
        builder = ReportBuilder(self._services, subject, progress or Progress())
        report = masked(builder.build(samples, checkpoint), self._mask(subject, shows_places))
        if notify is not None:
            for message in builder.prediction_errors:
                notify(message)
        with as_backend_error(f"{path} could not be written"):
            is_pdf = path.suffix.lower() == ".pdf"
            replace_bytes(path, render_pdf(report) if is_pdf else render(report).encode())
        return path

    def _find(self, names: Sequence[str]) -> Subject:
        queries = self._services.queries
        if len(names) > 1:
            job_ids = dict.fromkeys(map(self._find_job, names))
            views = [queries.show(job_id) for job_id in job_ids]
            tags = {sweep_of(view.tags) for view in views}
            sweep = self._find_sweep(tags.pop()) if len(tags) == 1 else None
            if sweep is not None and len(sweep.views) == len(views):
                return sweep
            if not 2 <= len(views) <= MOST_JOBS:
                raise BackendError(f"A report compares 2 to {MOST_JOBS} jobs, not {len(views)}.")
            return Subject(f"Comparison of {len(views)} jobs", views)
        try:
            view = queries.show(queries.find(names[0]))
        except BackendError:
            sweep = self._find_sweep(names[0])
            if sweep is None:
                raise
            return sweep
        return Subject(view.name, [view])

    def _find_job(self, name: str) -> str:
        try:
            return self._services.queries.find(name)
        except BackendError:
            sweep = self._find_sweep(name)
            if sweep is None:
                raise
            kind = "sweep" if sweep.study is None else "study"
            raise BackendError(
                f"“{sanitize(name)}” is a {kind}, and a {kind} has a report of its own.",
                f"Name only the {kind}, or only jobs.",
            ) from None

    def _find_sweep(self, name: str) -> Subject | None:
        queries = self._services.queries
        with suppress(BackendError):
            study = self._services.studies.find_started(name)
            job_ids = set(queries.ids())
            views = [queries.show(job.id) for job in study.jobs if job.id in job_ids]
            return Subject(study.sweep, views, is_sweep=True, study=study)
        with suppress(BackendError):
            tag, views = self._services.sweeps.find_jobs(name)
            title, search = (
                sweep_title(tag, [v.name for v in views]),
                self._services.sweeps.result(tag),
            )
            return Subject(title, views, is_sweep=True, search=search)
        return None

    def _mask(self, subject: Subject, shows_places: bool) -> Callable[[str], str]:
        secrets = []
        for view in subject.views:
            variables = view.config.environment.items()
            arguments = named_arguments(view.config.arguments).items()
            secrets.append(
                {n: v for n, v in variables if SECRET_NAME.search(n) or len(v) >= _SECRET_LENGTH}
                | {name: value for name, value in arguments if _SECRET_ARGUMENT.search(name)}
            )
        hide_secrets = SecretFilter([dict(os.environ)], secrets)
        if shows_places:
            return hide_secrets
        root = self._services.data_root
        entries = self._services.cluster.list()
        own_names = (socket.gethostname(), socket.getfqdn(), THIS_COMPUTER)
        machines = dict.fromkeys(own_names, "this computer")
        machines[root.name.rpartition(":")[0]] = "the data root's host"
        for number, entry in enumerate(entries, 1):
            addresses = (address.partition("/")[0] for address in entry.addresses)
            names = (entry.name, entry.address.host, entry.address.jump, *addresses)
            machines |= dict.fromkeys(names, f"node {number}")
        for view in subject.views:
            runs = environments(root.job(view.id))
            for node in (*view.nodes, *(node for run in runs for node in run.nodes)):
                machines.setdefault(node, f"node {len(set(machines.values()))}")
        remote_path = root.files.on_nodes(root.path)
        roots = {str(root.path), str(root.path.resolve()), root.name, remote_path}
        mask = Mask(roots | {entry.data_root for entry in entries}, machines)
        return lambda text: mask(hide_secrets(text))
