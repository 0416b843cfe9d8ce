"""``job predict``: a checkpoint on the samples of a dataset, or on files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from backend.cli.common_options import progress_bar
from backend.cli.printing import (
    OK,
    in_figures,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
)
from backend.records.jobs.prediction import PredictionInput
from backend.services.tools.output_file import require_free

if TYPE_CHECKING:
    from backend.services.context.container import Services

_ROWS = 20


def predict(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    job_id = services.jobs.queries.find(arguments.id)
    require_free(arguments.output)
    given = PredictionInput(
        split=arguments.split,
        dataset=arguments.dataset,
        loader=arguments.loader,
        samples=arguments.samples,
        files=tuple(arguments.file),
    )
    with progress_bar(as_json) as bar:
        found = services.predictions.predict(job_id, arguments.checkpoint, given, bar)
    path = services.predictions.write_table(found, arguments.output)
    if as_json:
        print_json(found.to_json(str(path)))
        return OK
    print_facts([("Samples", str(found.samples))])
    print_facts([(name, in_figures(value)) for name, value in found.metrics.items()])
    if found.classes:
        print_table(
            ("CLASS", "SAMPLES", "PRECISION", "RECALL", "F1"),
            (
                (one.name, str(one.count), *map(in_figures, (one.precision, one.recall, one.f1)))
                for one in found.classes
            ),
            "",
        )
    else:
        for one in found.shown[:_ROWS]:
            guesses = ", ".join(
                g.name if g.confidence is None else f"{g.name} ({g.confidence:.1%})"
                for g in one.guesses
            )
            print_line(f"{one.file or one.sample.index}: {guesses or one.prediction}")
    for note in found.notes:
        print_note(note)
    print_line(f"Wrote {path}.")
    return OK
