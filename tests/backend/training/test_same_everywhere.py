"""Every rank trains the same model on the same data, as one process does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from backend.records.jobs.config import StrategyConfig
from backend.training.data import fingerprint
from backend.training.step_sync import StepSync
from backend.training.step_times import RankStep
from backend.training.strategies.allreduce import AllReduce
from backend.training.user_code import load_loader
from tests.backend.training.training_rig import Training, new_training

SINGLE_PROCESS = {"name": "alone", "lr_scaling": "none"}
ALLREDUCE = {"name": "allreduce", "lr_scaling": "none"}

MODEL = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8, sparse=True)
        self.layer = nn.Linear(8, 2)
        self.unused = nn.Linear(3, 3)
    def forward(self, x):
        return self.layer(self.words(x).mean(1))
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
    def metrics(self, output, target):
        return {"tokens": 67128463.0, "huge": 1e39, "tiny": 1e-46}
"""
LOADER = """
import os
import random
import torch
from torch.utils.data import Dataset

class UserDataset(Dataset):
    def __init__(self, path):
        # Chance in three generators, as in loaders that split and shuffle by themselves.
        self.rows = list(range(96))
        random.shuffle(self.rows)
        self.x = torch.randint(0, 50, (96, 4))
        self.seen = os.path.join(path, f"seen-{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}")
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        row = self.rows[index]
        with open(self.seen, "a") as file:
            file.write(f"{row}\\n")
        return self.x[row], row % 2
"""


def train(tmp_path: Path, name: str, strategy: dict[str, Any], processes: int) -> Training:
    training = new_training(
        tmp_path,
        name=name,
        model=MODEL,
        loader=LOADER,
        processes=processes,
        strategy=strategy,
        epochs=2,
        batch_size=16 // processes,
        optimizer={"name": "adamw", "lr": 0.01, "weight_decay": 0.5},
    )
    training.train_well()
    return training


def step_samples(training: Training) -> set[frozenset[int]]:
    """Return the samples of each step, of all ranks together."""
    ranks = [
        [int(line) for line in path.read_text().split()]
        for path in sorted((training.sources / "files").glob("seen-*"))
    ]
    size = 16 // len(ranks)
    steps = range(0, len(ranks[0]), size)
    return {
        frozenset(row for rank in ranks for row in rank[start : start + size]) for start in steps
    }


def test_one_process_and_two_see_the_same_samples_and_get_the_same_parameters(
    tmp_path: Path,
) -> None:
    trainings = [
        train(tmp_path, "alone", SINGLE_PROCESS, 1),
        train(tmp_path, "one", ALLREDUCE, 1),
        train(tmp_path, "two", ALLREDUCE, 2),
    ]
    single_state, *other_states = (
        torch.load(training.latest(), weights_only=True)["model"] for training in trainings
    )
    assert step_samples(trainings[0]) == step_samples(trainings[1]) == step_samples(trainings[2])
    for state in other_states:
        for name, tensor in single_state.items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-5)
    torch.manual_seed(trainings[0].config.seed)
    space: dict[str, Any] = {}
    exec(MODEL, space)
    new_model = space["UserModel"]()
    # Weight decay and AdamW's momentum leave what no rank uses as it was.
    assert torch.equal(single_state["unused.weight"], new_model.unused.weight)
    for training in trainings:
        last_values = {name: training.curve(name)[12] for name in ("tokens", "huge", "tiny")}
        assert last_values == {"tokens": 67128463.0, "huge": 1e39, "tiny": 1e-46}


EACH_WAY = pytest.mark.parametrize("strategy", ["allreduce", "downpour"])


@EACH_WAY
def test_ranks_with_other_amounts_of_data_are_named_before_the_first_step(
    tmp_path: Path, strategy: str
) -> None:
    loader = LOADER.replace("range(96)", "range(96 + int(os.environ['OMPI_COMM_WORLD_RANK']))")
    training = new_training(tmp_path, model=MODEL, loader=loader, strategy={"name": strategy})
    assert training.train() != 0
    assert training.first_error()["sentence"].startswith(
        "The loader returns 96 training samples on rank 0 and 97 on rank 1; all ranks need the same"
    )


@EACH_WAY
def test_nodes_that_list_the_files_in_another_order_are_named_before_the_first_step(
    tmp_path: Path, strategy: str
) -> None:
    order = "self.rows.sort(reverse=os.environ['OMPI_COMM_WORLD_RANK'] == '1')"
    loader = LOADER.replace("random.shuffle(self.rows)", order)
    training = new_training(tmp_path, model=MODEL, loader=loader, strategy={"name": strategy})
    training.nodes = ("gpu1", "gpu2")
    assert training.train() != 0
    message = training.first_error()["sentence"]
    assert message.startswith("Sample 0 of the loader differs on gpu2 and gpu1; all")
    assert "sorted(os.listdir(folder))" in message


@pytest.mark.parametrize(
    ("expression", "is_same"), [("torch.rand(2)", True), ("os.urandom(4)", False), ("1 / 0", False)]
)
def test_random_samples_are_not_compared(tmp_path: Path, expression: str, is_same: bool) -> None:
    loader = LOADER.replace(
        "self.x[row], row % 2", f"{{'x': self.x[row], 'drawn': {expression}}}, 'a'"
    )
    (tmp_path / "bks_dataset.py").write_text(loader)
    data = load_loader(tmp_path).training(tmp_path)
    fingerprints = [fingerprint(data, index, seed=1) for index in (0, 0, 1)]
    assert (fingerprints[0] == fingerprints[1] != fingerprints[2]) is is_same
    assert is_same or fingerprints == [None, None, None]


def test_a_layer_made_in_forward_is_refused_before_the_first_step(tmp_path: Path) -> None:
    model = MODEL.replace(
        "        return self.layer(self.words(x).mean(1))",
        "        if not hasattr(self, 'head'):\n"
        "            self.head = nn.Linear(2, 2)\n"
        "        return self.head(self.layer(self.words(x).mean(1)))",
    )
    training = new_training(
        tmp_path, model=model, loader=LOADER, processes=1, strategy={"name": "alone"}
    )
    assert training.train() != 0
    assert "head.weight, head.bias" in training.error()["sentence"]
    assert training.step() == 0


class FakeHorovod:
    """Horovod where another rank contributes the same vectors as this one, times ``factor``."""

    Average = Sum = None

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def allreduce_async_(self, tensor: torch.Tensor, **_: Any) -> int:
        tensor.add_(tensor.clone().fill_(self.factor)).div_(2)
        return 1

    def synchronize(self, handle: int) -> None: ...


@pytest.mark.parametrize(("factor", "is_used"), [(0.0, False), (1.0, True)])
def test_a_parameter_has_a_gradient_where_any_rank_used_it(factor: float, is_used: bool) -> None:
    model = nn.ModuleDict({"used": nn.Linear(4, 4), "idle": nn.Linear(4, 4)})
    strategy: Any = AllReduce(StrategyConfig())
    strategy._hvd = FakeHorovod(factor)
    strategy.adopt(model, sync_size=4)
    strategy.zero()
    model["used"](torch.ones(1, 4)).sum().backward()
    strategy.reduce()
    assert all(p.grad is not None for p in model["used"].parameters())
    assert all((p.grad is not None) is is_used for p in model["idle"].parameters())


@given(
    st.lists(st.lists(st.floats(width=64), min_size=2, max_size=2), min_size=1, max_size=5),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_losses_and_metrics_of_all_ranks_keep_their_64_bits(
    values: list[list[float]], kind: torch.dtype
) -> None:
    size = len(values)
    vectors = []
    for rank, (loss, metric) in enumerate(values):
        sync = StepSync(["metric"], rank, size)
        sync.use_vector(torch.zeros(sync.size))
        tensor = torch.tensor(loss, dtype=kind)
        sync.fill(
            stop=False, save=False, loss=tensor, metrics={"metric": metric}, times=RankStep(1.0)
        )
        vectors.append(sync._vector.clone())
    sync.use_vector(torch.stack(vectors).mean(0))
    sync.take_vector(torch.zeros(()))
    (outcome,) = sync.read_results(waits_for_newest=True)
    losses = [torch.tensor(loss, dtype=kind).item() for loss, _ in values]
    for result_loss, expected_loss in zip(outcome.losses, losses, strict=True):
        assert result_loss == expected_loss or (
            math.isnan(result_loss) and math.isnan(expected_loss)
        )
    mean = sum(metric for _, metric in values) / size
    assert outcome.metrics["metric"] == mean or math.isnan(mean)
