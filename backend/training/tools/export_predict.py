"""Predict with the exported model. Needs PyTorch; pictures need Pillow, .npy files NumPy.

``python predict.py FILE...`` takes a tensor (.pt), an array (.npy) or a picture for each sample, in
the form of ``input.json``: with the values as the loader returns them. Of a model for tables it
takes CSV files with the columns of the training, and each row is a sample. From another program::

    from predict import predict

    output = predict(batch)
"""

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parent
GUESS_COUNT = 5


@lru_cache(maxsize=1)
def input_form() -> Any:
    """Return the form of a sample, and the names of the classes."""
    return json.loads((FOLDER / "input.json").read_text(encoding="utf-8"))


def predict(batch: torch.Tensor) -> torch.Tensor:
    """Return the output of the model for a batch."""
    from load import load_model  # type: ignore[import-not-found]  # beside it

    with torch.no_grad():
        output: torch.Tensor = load_model()(batch)
    return output


def samples_in(path: Path) -> list[tuple[str, torch.Tensor]]:
    """Return label and data of each sample in a file: of a table each row, else the only one."""
    preparation = input_form().get("preparation")
    if preparation is None:
        return [(str(path), read(path))]
    columns = preparation["columns"]
    names = [column["name"] for column in columns]
    if path.suffix.lower() not in (".csv", ".tsv", ".tab", ".data", ".txt"):
        raise SystemExit(f"{path} is no CSV file. The model needs one with {', '.join(names)}.")
    from cells import (  # type: ignore[import-not-found]  # beside it
        decoded,
        delimiter_of,
        encoding_of,
        footer_count,
        names_in_header,
        rows_of,
        title_count,
    )

    content = path.read_bytes()
    try:
        encoding = encoding_of(content)
    except ValueError as error:
        raise SystemExit(f"{path}, {error}.") from None
    text, separator = decoded(content, encoding)
    rows = [row for _, row in rows_of(text, separator or delimiter_of(text))] or [[]]
    rows = rows[title_count(rows) :]
    rows = rows[: len(rows) - footer_count(rows)]
    numbered_names = [f"column {number}" for number in range(1, len(rows[0]) + 1)]
    # Columns of a table without a header have numbers for names.
    has_names = not set(names) <= set(numbered_names)
    head, header_count = names_in_header(rows) if has_names else (numbered_names, 0)
    for name in names:
        if head.count(name) != 1:
            raise SystemExit(f"{path} has not one column “{name}”; it needs {', '.join(names)}.")
    samples = []
    for number, row in enumerate(rows[header_count:], 1):
        if len(row) != len(head):
            raise SystemExit(f"{path}, row {number} has {len(row)} cells, not {len(head)}.")
        values: list[float] = []
        for column in columns:
            cell = row[head.index(column["name"])]
            try:
                values += numbers_of(cell, column, preparation["missing"])
            except ValueError:
                reason = f"“{cell}” in “{column['name']}” is not one of its {column['kind']}"
                raise SystemExit(f"{path}, row {number}: {reason}.") from None
        samples.append((f"{path}, row {number}", torch.tensor(values)))
    return samples


def numbers_of(cell: str, column: dict[str, Any], missing_marks: list[str]) -> list[float]:
    """Return what the loader makes of a cell: 0 and 1 for texts, or one scaled number."""
    if column["kind"] == "texts":
        return [float(cell == text) for text in column["texts"]]
    from cells import Format

    form = Format(*(column[key] for key in ("kind", "decimal", "unit", "day_first")))
    is_missing = cell.casefold() in missing_marks
    value = column["if_missing"] if is_missing else form.parse(cell)
    return [(value - column["mean"]) / column["deviation"]]


def read(path: Path) -> torch.Tensor:
    """Return the sample in a file, in the form that the model was trained with.

    A picture is resized, and its values from black to white become those from the lowest to the
    highest of the first batch of the training: other preparations of the loader are not known here.
    """
    if path.suffix == ".pt":
        sample: torch.Tensor = torch.load(path, weights_only=True)
    elif path.suffix == ".npy":
        import numpy

        sample = torch.from_numpy(numpy.load(path, allow_pickle=False))
    else:
        sample = picture(path)
    form = input_form()
    sample = sample.to(getattr(torch, form["dtype"]))
    if list(sample.shape) != form["shape"]:
        raise SystemExit(f"{path} has the shape {list(sample.shape)}, not {form['shape']}.")
    low, high = float(sample.min()), float(sample.max())
    margin = form["high"] - form["low"]
    if low < form["low"] - margin or high > form["high"] + margin:
        hint = f"the first batch of the training has {form['low']:g} to {form['high']:g}"
        message = f"{path} has values from {low:g} to {high:g}, and {hint}: prepare it alike.\n"
        sys.stderr.write(message)
    return sample


def picture(path: Path) -> torch.Tensor:
    from PIL import Image

    form = input_form()
    channels, height, width = form["shape"] if len(form["shape"]) == 3 else (0, 0, 0)
    if channels not in (1, 3):
        raise SystemExit(f"The model takes no pictures; a sample has the shape {form['shape']}.")
    with Image.open(path) as image:
        small = image.convert("L" if channels == 1 else "RGB").resize((width, height))
    values = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
    share = values.view(height, width, channels).permute(2, 0, 1) / 255
    scaled_values: torch.Tensor = form["low"] + share * (form["high"] - form["low"])
    return scaled_values


def report(path: str, output: torch.Tensor) -> str:
    classes = input_form()["classes"]
    if output.ndim != 1 or len(output) != len(classes):
        return f"{path}: {output.tolist()}"
    shares, indices = output.softmax(0).topk(min(GUESS_COUNT, len(classes)))
    guesses = (
        f"{classes[index]} {shares[rank]:.1%}" for rank, index in enumerate(indices.tolist())
    )
    return f"{path}: {', '.join(guesses)}"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    samples = [sample for name in sys.argv[1:] for sample in samples_in(Path(name))]
    if not samples:
        raise SystemExit("The files have no rows.")
    outputs = predict(torch.stack([data for _, data in samples]))
    for number, (label, _) in enumerate(samples):
        sys.stdout.write(report(label, outputs[number]) + "\n")
