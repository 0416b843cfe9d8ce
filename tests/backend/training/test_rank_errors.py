"""A rank that fails says why, in one sentence, and which failure came first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.records.jobs.status import RankError
from tests.backend.training.training_rig import LOADER, MODEL, new_training

ALONE: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}}


@pytest.mark.parametrize("strategy", ["allreduce", "ddp"])
def test_f12_an_exception_in_one_rank_names_rank_and_cause(tmp_path: Path, strategy: str) -> None:
    model = MODEL.replace(
        "return self.layers(x)",
        "import os\n"
        "        if os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n"
        "            raise ValueError('no luck')\n"
        "        return self.layers(x)",
    )
    training = new_training(tmp_path, model=model, strategy={"name": strategy})
    assert training.train() != 0
    raw = training.error(1)
    error = RankError.from_dict(raw)
    assert error.rank == 1
    assert error.node == "here"
    assert "ValueError: no luck" in error.sentence
    assert "bks_model.py, line 1" in error.sentence
    assert "no luck" in error.traceback
    assert raw["secondary"] is False
    path = training.folder.attempt(1).rank_error(0)
    assert not path.exists() or training.error(0)["secondary"] is True


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("model", "return self.layers(x).nothing", "has no attribute 'nothing'"),
        ("model", "import sys; sys.exit(0)", "sys.exit(0)"),
        ("model", "return self.layers(x[:, :3])", "The batch was ([8, 4] float32, [8] int64)"),
        ("loss", "return output", "numbers, but must return one"),
        ("loss", "return target['mask'].sum()", "The batch was"),
        ("loss", "return {}['mask']", "KeyError: 'mask'"),
        ("loader", "raise OSError('bad file')", "item"),
        ("loader", "import sys; sys.exit(3)", "sys.exit(3)"),
        ("loader", "return torch.zeros(index % 2 + 1), 0", "different shapes"),
    ],
)
def test_f13_user_code_that_fails_is_explained(
    tmp_path: Path, where: str, code: str, words: str
) -> None:
    old = {
        "model": "return self.layers(x)",
        "loss": "return nn.functional.cross_entropy(output, target)",
        "loader": "return self.x[index], self.y[index]",
    }[where]
    training = new_training(
        tmp_path,
        model=MODEL.replace(old, code) if where != "loader" else MODEL,
        loader=LOADER.replace(old, code) if where == "loader" else LOADER,
        **ALONE,
    )
    assert training.train() == 1
    assert words in training.error()["sentence"]
    assert "\n" not in training.error()["sentence"]


def test_f50_an_error_in_a_loader_worker_names_the_item(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "if index == 50: raise OSError('bad file')\n        return self.x[index], self.y[index]",
    )
    training = new_training(tmp_path, loader=loader, loader_workers=2, **ALONE)
    assert training.train() == 1
    assert "item 50," in training.error()["sentence"]
    assert "bad file" in training.error()["sentence"]


def test_f19_a_full_memory_names_the_batch_size_to_try(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "import resource\n"
        "        used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)\n"
        "        torch.zeros(2**30)\n",
    )
    training = new_training(tmp_path, loader=loader, **ALONE)
    assert training.train() == 1
    assert (
        training.error()["sentence"] == "The node is out of memory. Try batch size 4 instead of 8."
    )


def test_a_dataset_smaller_than_one_step_is_refused_with_the_batch_that_fits(
    tmp_path: Path,
) -> None:
    training = new_training(tmp_path, batch_size=200, **ALONE)
    assert training.train() == 1
    assert "The dataset has 96 samples" in training.error()["sentence"]
    assert "Choose a batch size of 96 or less" in training.error()["sentence"]


def test_a_launcher_that_does_not_fit_the_library_is_named(tmp_path: Path) -> None:
    training = new_training(tmp_path)
    training.prepare()
    training.config = new_training(tmp_path, name="other", **ALONE).config
    process = training.start()
    assert process.wait() == 1
    assert "This rank sees 1 process, but the job has 2" in training.error()["sentence"]
