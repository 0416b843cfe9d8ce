"""Load the exported model. Needs PyTorch, and the packages that the model imports.

``python load.py`` checks every file against SHA256SUMS and counts the parameters. From another
program::

    from load import load_model

    model = load_model()
"""

import hashlib
import importlib
import os
import sys
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent


def load_model() -> torch.nn.Module:
    """Return the trained model, ready to be called."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    from model_import import PREFIX, register  # type: ignore[import-not-found]  # beside it

    # Not on sys.path: a tokenize.py of the model must not replace the standard library's.
    source = register(FOLDER / "model_source", PREFIX + hashlib.sha256(bytes(FOLDER)).hexdigest())
    model: torch.nn.Module = importlib.import_module(f"{source.name}.bks_model").UserModel()
    if (FOLDER / "example.pt").exists():
        # This model takes its sizes from the first batch, as Keras does.
        with torch.no_grad():
            model.eval()(torch.load(FOLDER / "example.pt", weights_only=True))
        for module in list(model.modules()):
            list(module.parameters(recurse=False))
    model.load_state_dict(torch.load(FOLDER / "weights.pt", map_location="cpu", weights_only=True))
    return model.eval()


def check_files() -> None:
    """Raise if a file differs from the exported one."""
    for line in (FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected_digest, name = line.split("  ", 1)
        if hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() != expected_digest:
            raise SystemExit(f"{name} was changed after the export.")


if __name__ == "__main__":
    check_files()
    parameters = sum(parameter.numel() for parameter in load_model().parameters())
    sys.stdout.write(f"All files match the export. {parameters:,} parameters loaded.\n")
