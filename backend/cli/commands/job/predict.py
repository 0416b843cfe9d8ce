"""``job predict``: a checkpoint on the samples of a dataset, or on files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import Checkpoint, JobId
from backend.cli.printing import Answer, Note, Part, Properties, Table, number_text
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
    dataset: Annotated[str, ArgSpec("NAME", "NAME or NAME@VERSION; default: the job's")] = "",
    file: Annotated[
        tuple[str, ...],
        ArgSpec("F", "files, or folders of them, for a loader with a method read", nargs="+"),
    ] = (),
    loader: Annotated[str, ArgSpec("NAME", "default: the job's")] = "",
    split: Annotated[str, ArgSpec(choices=("validation", "training"))] = "validation",
    samples: Annotated[str, ArgSpec("N", "only these: 3, 10-20")] = "",
    output: Annotated[Path, ArgSpec("O.csv")],
) -> Answer:
    """Try a checkpoint on a dataset or on files."""
    require_free(output)
    prediction_input = PredictionInput(
        split=split, dataset=dataset, loader=loader, samples=samples, files=file
    )
    prediction = services.predictions.predict(id, checkpoint, prediction_input, progress)
    path = services.predictions.write_table(prediction, output)
    return Answer(lambda: prediction.to_json(str(path)), _parts(prediction), f"Wrote {path}.")


def _parts(prediction: Prediction) -> Iterator[Part]:
    yield Properties([("Samples", str(prediction.sample_count))])
    yield Properties((name, number_text(value)) for name, value in prediction.metrics.items())
    if prediction.classes:
        yield Table(
            ("CLASS", "SAMPLES", "PRECISION", "RECALL", "F1"),
            (
                (
                    entry.name,
                    str(entry.count),
                    *map(number_text, (entry.precision, entry.recall, entry.f1)),
                )
                for entry in prediction.classes
            ),
        )
    elif prediction.detections:
        yield Table(
            ("CLASS", "BOXES", "AP50", "AP75"),
            (
                (entry.name, str(entry.count), *map(number_text, (entry.ap50, entry.ap75)))
                for entry in prediction.detections
            ),
        )
    else:
        for entry in prediction.examples[:_ROWS]:
            guesses = ", ".join(
                g.name if g.confidence is None else f"{g.name} ({g.confidence:.1%})"
                for g in entry.guesses
            )
            yield f"{entry.file or entry.sample.index}: {guesses or entry.prediction}"
    yield from map(Note, prediction.notes)
