"""The strategies: DDP against a bare DDP script, the server's bandwidth, epochs by workers.

A worker and a server exchange a model of 20 MB as fast as a bare ping-pong of MPI, over TCP as
between nodes.

The published growth of an epoch from 4 to 12 workers is 0.8 % for asynchronous SGD and 1.4 % with
delay compensation. Each worker has as many batches an epoch as before; its computation is a sleep,
because 12 workers of one computer would wait for its cores.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.backend.training.training_rig import MODEL, ROOT, clean_environment, mpirun, new_training
from tests.benchmarks import step_overhead
from tests.benchmarks.figures import Figure

_BATCHES, _BATCH = 40, 4
_EPOCHS = 6
_SLEEP_S = 0.1
_PAIRS = 7
_PUBLISHED_GROWTHS = {"downpour": 0.8, "dc-asgd": 1.4}

_SLEEPING_MODEL = MODEL.replace(
    "return self.layers(x)",
    f"import time; time.sleep({_SLEEP_S} * self.training)\n        return self.layers(x)",
)
_LOADER = """
import torch
from torch.utils.data import Dataset

class UserDataset(Dataset):
    def __init__(self, path):
        self.x = torch.randn({count}, 4, generator=torch.Generator().manual_seed(1))
    def __len__(self):
        return {count}
    def __getitem__(self, index):
        return self.x[index], (self.x[index].sum() > 0).long()
"""


def measure() -> list[Figure]:
    bare_times, own_times = step_overhead.pairs(352, 8, 3, "ddp")
    ratios = tuple(b / o for b, o in zip(bare_times, own_times, strict=True))
    context = f"ours {statistics.median(own_times) * 1e3:.2f} ms a step"
    figures = [Figure("P2", "DDP, bare / ours", ratios, 0.99, at_least=True, context=context)]
    bandwidths = [(_bandwidth("mpi"), _bandwidth("server")) for _ in range(_PAIRS)]
    context = f"ours {statistics.median(server for _, server in bandwidths) / 1e6:.0f} MB/s"
    ratios = tuple(server / mpi for mpi, server in bandwidths)
    name = "push and pull of 20 MB, ours / MPI ping-pong"
    figures.append(Figure("server", name, ratios, 0.8, at_least=True, context=context))
    for strategy, published_growth in _PUBLISHED_GROWTHS.items():
        times_of_4, times_of_12 = _epoch_s(strategy, 4), _epoch_s(strategy, 12)
        growth = tuple((m / f - 1) * 100 for f, m in zip(times_of_4, times_of_12, strict=True))
        medians = [statistics.median(times) for times in (times_of_4, times_of_12)]
        context = "{:.2f} s and {:.2f} s an epoch".format(*medians)
        name = f"{strategy}, epoch of 12 workers over 4"
        figures.append(Figure("epochs", name, growth, published_growth, "%", context=context))
    return figures


def _bandwidth(method: str) -> float:
    """Return bytes a second; see `server_ranks`."""
    with tempfile.NamedTemporaryFile() as output:
        over_tcp = ["tcp,self" if word == "^openib" else word for word in mpirun(2)]
        command = [*over_tcp, sys.executable, "-m", "tests.benchmarks.server_ranks", method]
        subprocess.run([*command, output.name], cwd=ROOT, env=clean_environment(), check=True)
        return float(output.read())


def _epoch_s(strategy: str, workers: int) -> list[float]:
    """Return the seconds of each epoch but the first, from its first update to its last."""
    with tempfile.TemporaryDirectory() as folder:
        training = new_training(
            Path(folder),
            model=_SLEEPING_MODEL,
            loader=_LOADER.format(count=_BATCHES * _BATCH * workers),
            processes=workers + 1,
            epochs=_EPOCHS,
            batch_size=_BATCH,
            optimizer={"name": "sgd", "lr": 0.001},
            strategy={"name": strategy},
            checkpoint={"every_epochs": 1000},
        )
        training.train_well()
        rate = training.curve("samples_per_second")
    epoch_steps = _BATCHES * workers
    seconds = [_BATCH / rate[step] for step in range(1, epoch_steps * _EPOCHS + 1)]
    return [sum(seconds[n * epoch_steps + 1 : (n + 1) * epoch_steps]) for n in range(1, _EPOCHS)]
