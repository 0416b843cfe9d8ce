"""The ledger of a data root, with the runs that have not ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from socket import gethostname

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.files import read_job
from backend.datastore.jobs.usage_files import read_ledger, runs_in_folder
from backend.records.jobs.ledger import LedgerKey, UsageTable, ledger_rows, months_start_s
from backend.records.jobs.usage import RunUsage
from backend.services.jobs.queries import JobQueries


@dataclass(frozen=True)
class Ledger:
    """All runs of a data root. ``unknown_runs`` counts those without a record of their use."""

    runs: tuple[RunUsage, ...] = ()
    unknown_runs: int = 0


class UsageService:
    """Reads the ledger. Every call blocks and may run on any thread."""

    def __init__(self, root: OpenRoot, queries: JobQueries) -> None:
        self._root = root
        self._queries = queries

    def read(self) -> Ledger:
        """Return every run, that of a removed job as its ledger has it.

        Raises:
            BackendError: The data root cannot be read.
        """
        with as_backend_error("The ledger of the data root could not be read"):
            runs = read_ledger(self._root)
        unknown_runs = 0
        for job in self._queries.summaries():
            missing_numbers = []
            for number in range(1, job.run + 1):
                if (usage := runs.get((job.id, number))) is not None:
                    runs[job.id, number] = replace(
                        usage, name=job.name, user=job.user, tags=job.tags
                    )
                else:
                    missing_numbers.append(number)
            if missing_numbers:
                folder_runs: tuple[RunUsage, ...] = ()
                # One job whose folder cannot be read hides no other.
                with suppress(BackendError, OSError):
                    folder = self._root.job(job.id)
                    folder_runs = (*runs_in_folder(folder, read_job(folder), missing_numbers),)
                runs.update(((job.id, usage.run), usage) for usage in folder_runs)
                unknown_runs += len(missing_numbers) - len(folder_runs)
        return Ledger(tuple(runs.values()), unknown_runs)

    def table(self, key: LedgerKey, month_count: int) -> UsageTable:
        """Return the use in the last months, 0 for all, by ``key``."""
        ledger, start_s = self.read(), months_start_s(month_count)
        keys = ((key,), (), (LedgerKey.MONTH, key))
        rows, total, months = (ledger_rows(ledger.runs, k, start_s) for k in keys)
        return UsageTable(key, rows, total, months, ledger.unknown_runs, gethostname())
