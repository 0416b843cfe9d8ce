"""Predict with the exported model. Needs PyTorch; pictures need Pillow, .npy files NumPy.

``python predict.py FILE...`` takes a tensor (.pt), an array (.npy) or a picture for each sample, in
the form of ``input.json``. From another program::

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
    scaled: torch.Tensor = form["low"] + share * (form["high"] - form["low"])
    return scaled


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
    outputs = predict(torch.stack([read(Path(name)) for name in sys.argv[1:]]))
    for number, name in enumerate(sys.argv[1:]):
        sys.stdout.write(report(name, outputs[number]) + "\n")
