"""A rank starts without torch's compiler, and whoever compiles has all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.training.training_rig import MODEL, ROOT, clean_environment, new_training

_TELLS_AT_ITS_END = """
import atexit, sys
atexit.register(lambda: print("compiler:", "torch._dynamo.utils" in sys.modules))
"""


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "adadelta", "rmsprop"])
def test_no_optimizer_of_a_rank_loads_the_compiler(tmp_path: Path, optimizer: str) -> None:
    training = new_training(
        tmp_path,
        model=_TELLS_AT_ITS_END + MODEL,
        processes=1,
        strategy={"name": "alone"},
        optimizer={"name": optimizer, "lr": 0.01},
    )
    training.train_well(when=lambda: training.step() > 3)
    training.train_well(resume_from=training.latest())
    assert "compiler: False" in training.log()


def test_a_model_that_compiles_has_the_whole_compiler() -> None:
    script = """
import sys, torch
from backend.training import late_compiler
late_compiler.postpone()
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
optimizer.step()
assert "sympy" not in sys.modules
seen = []
def backend(graph, inputs):
    seen.append(graph)
    return graph.forward
compiled = torch.compile(layer, backend=backend)
compiled(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert seen, "nothing was compiled"
import torch._dynamo.config
assert torch._dynamo.config is sys.modules["torch._dynamo"].config
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
