"""A rank starts without torch's compiler, and code that compiles has all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.training.training_rig import MODEL, ROOT, clean_environment, new_training
from tests.waiting import LIMIT_S

_PRINTS_AT_ITS_END = """
import atexit, sys
atexit.register(lambda: print("compiler:", "torch._dynamo.utils" in sys.modules))
"""


@pytest.mark.slow
def test_neither_a_new_nor_a_resumed_rank_loads_the_compiler(tmp_path: Path) -> None:
    training = new_training(tmp_path, model=_PRINTS_AT_ITS_END + MODEL, processes=1)
    training.is_forked = False
    training.train_well()
    assert "compiler: False" in training.log()
    training.with_config(processes=1, epochs=4)
    training.train_well(resume_from=training.latest())
    assert "compiler: False" in training.log()


USES = {
    "an optimizer made, stepped or restored": """
from backend.training.optimizer import load_optimizer, make_optimizer
from tests.backend.training.training_rig import job, parsed
layer = torch.nn.Linear(2, 2)
for name in ("sgd", "adam", "adamw", "adagrad", "adadelta", "rmsprop"):
    config = parsed(job(optimizer={"name": name, "lr": 0.01}))
    for state in (None, {}):
        optimizer = make_optimizer(config, layer, list(layer.parameters()))
        if state is not None:
            load_optimizer(optimizer, kept, config)
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        kept = optimizer.state_dict()
""",
    "the counter of operations": """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
assert counter.get_total_flops() == 8
""",
    "a process group": """
from torch import distributed
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
distributed.destroy_process_group()
""",
}


def test_no_use_of_a_rank_loads_the_compiler() -> None:
    _run(
        "import sys, torch\nfrom backend.training import lazy_dynamo\nlazy_dynamo.postpone()\n"
        + "".join(
            f"{script}\nassert 'torch._dynamo.utils' not in sys.modules, {use!r}\n"
            for use, script in USES.items()
        )
    )


@pytest.mark.slow
def test_a_model_that_compiles_has_the_whole_compiler() -> None:
    _run("""
import sys, torch
from backend.training import lazy_dynamo
lazy_dynamo.postpone()
early_rules = torch._dynamo.trace_rules
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
assert early_rules.lookup is torch._dynamo.trace_rules.lookup
""")


def _run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
