"""``usage``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from socket import gethostname
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec, command
from backend.cli.printing import Answer, Note, RawText, Table, duration_text
from backend.records.base.number_format import GAP, count, use_time
from backend.records.jobs.ledger import (
    LedgerKey,
    LedgerRow,
    csv_text,
    ledger_rows,
    period_of,
)
from backend.records.jobs.placement import node_label
from backend.services.context.container import Services

_DEFAULT = (LedgerKey.USER,)


def _period(text: str) -> tuple[float, float]:
    try:
        return period_of(text)
    except ValueError:
        raise ArgumentTypeError(
            f"“{text}” should be a day, a month or a year: 2026-11-30, 2026-11, 2026"
        ) from None


@command("usage", reads_jobs=True)
def usage(
    services: Services,
    *,
    by: Annotated[
        tuple[str, ...],
        ArgSpec(
            help="rows; may be repeated; default: user", choices=[key.value for key in LedgerKey]
        ),
    ] = (),
    since: Annotated[object, ArgSpec("DATE", "from this day, month or year on", _period)] = None,
    until: Annotated[object, ArgSpec("DATE", "to the end of it", _period)] = None,
    csv: Annotated[bool, "print a table for a spreadsheet"] = False,
) -> Answer:
    """GPU hours, energy, idle share and waiting time by user, project, node, month or job.

    The project of a job is its first tag. The ledger also has the runs of removed jobs.
    """
    keys = tuple(map(LedgerKey, dict.fromkeys(by))) or _DEFAULT
    ledger = services.usage.read()
    period = {}
    if isinstance(since, tuple):
        period["start_s"] = since[0]
    if isinstance(until, tuple):
        period["end_s"] = until[1]
    if len(period) == 2 and period["start_s"] >= period["end_s"]:
        raise BackendError(
            "--since is later than --until, so there is no such period.", "Exchange the two."
        )
    rows = ledger_rows(ledger.runs, keys, **period)
    data = [{**dict(zip(keys, row.keys, strict=True)), **row.values()} for row in rows]
    if csv:
        return Answer(data, RawText(csv_text(rows, keys)))
    total = ledger_rows(ledger.runs, (), **period)
    host = gethostname()
    hosts = [host if key is LedgerKey.NODE else "" for key in keys]
    lines = [(*map(node_label, row.keys, hosts), *_cells(row)) for row in rows]
    if len(lines) > 1:
        lines += [("Total", *[""] * (len(keys) - 1), *_cells(row)) for row in total]
    head = [key.value.upper() for key in keys]
    head += ["RUNS", "NODE TIME", "GPU TIME", "ENERGY", "IDLE", "WAITED"]
    unknown_count = count(ledger.unknown_runs)
    note = Note(f"Not in it: {unknown_count} runs without a record of what they used.")
    return Answer(
        data, Table(head, lines, "Nothing was used."), [note] if ledger.unknown_runs else []
    )


def _cells(row: LedgerRow) -> tuple[str, ...]:
    energy_kwh, share, idle_share = row.energy_kwh, row.energy_known_share or 1.0, row.idle_share
    sign = "" if share > 0.999 else "≥ "
    return (
        str(len(row.run_ids)),
        *(use_time(s).replace(GAP, " ") for s in (row.node_s, row.gpu_s)),
        "–" if energy_kwh is None else f"{sign}{energy_kwh:.3g} kWh",
        "–" if idle_share is None else f"{idle_share:.0%}",
        duration_text(row.mean_wait_s) or "–",
    )
