"""The order in which a rank imports, which is most of the time to the first step."""

from __future__ import annotations

import subprocess
import sys

from backend.node.system.start_supervisor import CODE_ROOT

_SEEN_BY_THE_FIRST_OPTIMIZER = """
import sys
import torch
from backend.training import lazy_dynamo, rank
lazy_dynamo.postpone()
rank._import_ahead()
before = set(sys.modules)
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
print(*sorted(set(sys.modules) - before))
"""


def test_p03_the_first_optimizer_finds_everything_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SEEN_BY_THE_FIRST_OPTIMIZER],
        cwd=CODE_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
