"""``job predict``: a checkpoint on the samples of a dataset, or on files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.parameters import Checkpoint, JobId
from backend.cli.printing import Answer, Facts, Note, Part, Table, in_figures
from backend.records.jobs.prediction import Prediction, PredictionInput
from backend.services.context.container import Services
from backend.services.tools.output_file import require_free

_ROWS = 20


@command("job predict", reads_jobs=True, at_most_one_of=("dataset", "file"))
def predict(
    services: Services,
    progress: Progress,
    id: JobId,
    *,
    checkpoint: Checkpoint,
    dataset: Annotated[str, Word("NAME", "NAME or NAME@VERSION; default: the job's")] = "",
    file: Annotated[
        tuple[str, ...],
        Word("F", "files, or folders of them, for a loader with a method read", nargs="+"),
    ] = (),
    loader: Annotated[str, Word("NAME", "default: the job's")] = "",
    split: Annotated[str, Word(choices=("validation", "training"))] = "validation",
    samples: Annotated[str, Word("N", "only these: 3, 10-20")] = "",
    output: Annotated[Path, Word("O.csv")],
) -> Answer:
    """Try a checkpoint on a dataset or on files."""
    require_free(output)
    given = PredictionInput(
        split=split, dataset=dataset, loader=loader, samples=samples, files=file
    )
    found = services.predictions.predict(id, checkpoint, given, progress)
    path = services.predictions.write_table(found, output)
    return Answer(lambda: found.to_json(str(path)), _parts(found), f"Wrote {path}.")


def _parts(found: Prediction) -> Iterator[Part]:
    yield Facts([("Samples", str(found.sample_count))])
    yield Facts((name, in_figures(value)) for name, value in found.metrics.items())
    if found.classes:
        yield Table(
            ("CLASS", "SAMPLES", "PRECISION", "RECALL", "F1"),
            (
                (one.name, str(one.count), *map(in_figures, (one.precision, one.recall, one.f1)))
                for one in found.classes
            ),
        )
    elif found.detections:
        yield Table(
            ("CLASS", "BOXES", "AP50", "AP75"),
            (
                (one.name, str(one.count), *map(in_figures, (one.ap50, one.ap75)))
                for one in found.detections
            ),
        )
    else:
        for one in found.examples[:_ROWS]:
            guesses = ", ".join(
                g.name if g.confidence is None else f"{g.name} ({g.confidence:.1%})"
                for g in one.guesses
            )
            yield f"{one.file or one.sample.index}: {guesses or one.prediction}"
    yield from map(Note, found.notes)
