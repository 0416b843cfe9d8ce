"""Reader of files of weights that hold other objects, too, without running code of the file.

``torch.save`` stores all objects that a script puts next to the weights: arguments, dates, NumPy
numbers. ``weights_only=True`` refuses the whole file for one of them. Here each class that is not
of the weights is replaced by an empty stand-in, so that none of its code is imported or called.
"""

from __future__ import annotations

import pickle
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

_MAX_CLASSES = 200
_UNKNOWN_CLASS = re.compile(r"GLOBAL (\S+) was not an allowed global")
_FILLED_CONTAINER = re.compile(
    r"(SETITEMS?|append to lists|extend lists).* got <class '[\w.]*\.(\w+)'>"
)


class StandIn:
    """Empty stand-in for an object of the file."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def load(path: Path) -> Any:
    """Return the content of a file of ``torch.save``, with a `StandIn` for each other object.

    Raises:
        pickle.UnpicklingError: The file names a class that cannot be replaced, or is damaged.
    """
    try:
        names = get_unsafe_globals_in_checkpoint(path)
    except ValueError:  # The format before PyTorch 1.6: the names are known from the refusals.
        names = []
    classes = {name: _make_stand_in(number) for number, name in enumerate(names)}
    while len(classes) < _MAX_CLASSES:
        refusal = ""
        with safe_globals([(stand_in, name) for name, stand_in in classes.items()]):
            try:
                return torch.load(path, map_location="cpu", weights_only=True)
            except pickle.UnpicklingError as error:
                refusal = str(error)
        unknown_class, filled_container = (
            _UNKNOWN_CLASS.search(refusal),
            _FILLED_CONTAINER.search(refusal),
        )
        name = unknown_class[1] if unknown_class else ""
        if unknown_class and "." not in name:
            name = f"builtins.{name}"
        if unknown_class and name not in classes:
            classes[name] = _make_stand_in(len(classes))
        elif filled_container:
            name = next(
                key for key, stand_in in classes.items() if stand_in.__name__ == filled_container[2]
            )
            classes[name] = _make_container(
                OrderedDict if filled_container[1].startswith("SET") else list
            )
        else:
            raise pickle.UnpicklingError(_reason(refusal))
    raise pickle.UnpicklingError("it contains objects of too many classes")


def _reason(refusal: str) -> str:
    """Return the line of torch's advice with the error of the file."""
    lines = refusal.rpartition("WeightsUnpickler error:")[2].strip().splitlines() or [""]
    return lines[0].partition(" Please use")[0].rstrip(".")


def remedy(path: Path) -> str:
    """Return a remedy with which to make a file that has only weights."""
    script = (
        f"import torch; found = torch.load({path.name!r}, weights_only=False); "
        "torch.save(getattr(found, 'state_dict', lambda: found['state_dict'])(), 'clean.pt')"
    )
    return (
        "Save them with torch.save(model.state_dict(), …) or as .safetensors; from a file that you "
        f"trust, in the folder of its code: python -c {shlex.quote(script)}"
    )


def other_names(loaded: Mapping[Any, Any], weights: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the names of the other content of a file of weights."""
    if loaded is weights:
        return tuple(str(key) for key, value in loaded.items() if isinstance(value, StandIn))
    return tuple(str(key) for key, value in loaded.items() if value is not weights)


def _make_stand_in(number: int) -> Callable[..., Any]:
    return type(f"StandIn{number}", (StandIn,), {})


def _make_container(kind: type) -> Callable[..., Any]:
    """Return a stand-in for a subclass of dict or list, which keeps its items."""
    return type("Container", (), {"__new__": lambda cls, *_, **__: kind()})
