"""Random generators of one rank, as plain tensors that load with ``weights_only=True``."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def read(device: torch.device) -> dict[str, Any]:
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
    }
    # Not every node has numpy; then no code can have drawn from it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, place, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = {
            "kind": str(kind),
            "keys": torch.tensor(keys.astype("int64").tolist()),
            "place": int(place),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def write(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    numpy = sys.modules.get("numpy")
    if "numpy" in state and numpy is not None:
        saved = state["numpy"]
        keys = numpy.array(saved["keys"].tolist(), dtype="uint32")
        numpy.random.set_state(
            (saved["kind"], keys, saved["place"], saved["has_gauss"], saved["cached"])
        )
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
