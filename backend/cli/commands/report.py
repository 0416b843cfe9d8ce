"""Write the report of jobs, a sweep or a study to one file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from backend.base.errors import BackendError
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import Checkpoint
from backend.cli.printing import Answer, Note, RawText, size_text
from backend.cli.session import Session

_WHAT = "jobs, one sweep or one study, by id or name"


@command("report", reads_jobs=True)
def report(
    session: Session,
    names: Annotated[tuple[str, ...], ArgSpec("JOB|SWEEP|STUDY", _WHAT)],
    *,
    output: Annotated[
        Path | None, ArgSpec("FILE", ".html, .pdf, or - for standard output; default: TITLE.html")
    ] = None,
    samples: Annotated[str, ArgSpec("N", "show predictions of these: 3, 10-20")] = "",
    checkpoint: Checkpoint = "",
    with_places: Annotated[bool, "also show paths and names of machines"] = False,
    overwrite: Annotated[bool, "replace an existing file"] = False,
) -> Answer:
    """Write curves, differences, notes and hashes of jobs to one HTML or PDF file."""
    if checkpoint and not samples:
        raise BackendError("--checkpoint has no effect without --samples.", "Add --samples 0-9.")
    if output == Path("-"):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            report(
                session,
                names,
                output=path,
                samples=samples,
                checkpoint=checkpoint,
                with_places=with_places,
            )
            text = path.read_text("utf-8")
        return Answer({"html": text}, RawText(text))
    notes: list[str] = []
    path = session.services.reports.write(
        names,
        output,
        samples=samples,
        checkpoint=checkpoint or "best",
        shows_places=with_places,
        overwrite=overwrite,
        progress=session.progress,
        notify=notes.append,
    )
    if not with_places:
        notes.append("Paths and machines are hidden; --with-places shows them.")
    data = {"path": str(path), "bytes": path.stat().st_size}
    line = f"Wrote {path} ({size_text(path.stat().st_size)})."
    return Answer(data, line, *map(Note, notes))
