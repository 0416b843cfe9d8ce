"""Import of the entry file of a model or a loader, and the environment variables of a job."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from backend.training.user_code.errors import UserCodeError, calling
from backend.training.user_code.sources import PREFIX, UserSource, register

_numbers = itertools.count(1)
_lock = threading.RLock()


def import_entry(folder: Path, entry: str, kind: str) -> tuple[UserSource, ModuleType]:
    """Import ``entry`` of ``folder``; ``kind`` is its name in messages."""
    folder = folder.resolve()
    if not (folder / entry).is_file():
        nested_entry = next((p for p in sorted(folder.glob(f"*/{entry}")) if p.is_file()), None)
        raise UserCodeError(
            f"The {kind} has no {entry} at the top of its files.",
            f"Import the folder “{nested_entry.parent.name}”, which has one."
            if nested_entry
            else f"Add a file {entry}; the gallery's digits example has one.",
        )
    # A Keras 3 model is a torch module only on this backend, which is chosen when Keras loads.
    os.environ.setdefault("KERAS_BACKEND", "torch")
    # As in a script without arguments: argparse in user code must not see those of this process.
    sys.argv = [str(folder / entry)]
    with _lock:
        source = register(folder, f"{PREFIX}{next(_numbers)}")
        try:
            with calling(f"{entry}, while it was imported,", source):
                module = importlib.import_module(f"{source.name}.{entry.removesuffix('.py')}")
        except BaseException:
            source.unload()
            raise
    return source, module


def set_variables(variables: Mapping[str, str]) -> None:
    """Set variables of a job in this process.

    The folders of its PYTHONPATH are searched last: a ``logging.py`` in one of them must not
    replace the standard library's for Ringmaster or PyTorch.
    """
    os.environ.update(variables)
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.path.extend(
        folder for folder in dict.fromkeys(folders) if folder and folder not in sys.path
    )
