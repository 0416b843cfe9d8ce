"""All that a model keeps continues after a resume, or is reported before the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.training.tools.check_model import check_model
from backend.training.user_code import UserCodeError
from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import LOADER, MODEL, new_training, pausing_model

SINGLE_PROCESS: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}}

BUFFERS = MODEL.replace(
    "    def forward(self, x):\n        return self.layers(x)\n",
    """        # Not in the state dict; and a queue of 18 MB, each rank its own.
        self.register_buffer("center", torch.zeros(3), persistent=False)
        self.register_buffer("queue", torch.zeros(1500000, 3))
    def forward(self, x):
        output = self.layers(x)
        if self.training:
            self.center.mul_(0.9).add_(0.1 * output.detach().mean(0))
            self.queue[:len(x)] = output.detach() + 0.5 * self.queue[:len(x)]
        return output - self.center - 0.1 * self.queue[:len(x)]
""",
)


def test_every_buffer_of_every_rank_goes_on_after_a_resume(tmp_path: Path) -> None:
    model = pausing_model(BUFFERS, statement="output = self.layers(x)")
    straight = new_training(tmp_path, model=model, name="straight", epochs=2)
    straight.train_well()
    halves = new_training(tmp_path, model=model, name="halves", epochs=2)
    halves.train_well(stop_condition=lambda: halves.step() >= 2, **halves.pause_environment)
    halves.train_well(resume_from=halves.latest())
    assert {entry["run"] for entry in halves.history()} == {1, 2}
    assert_bit_equal(straight, halves)


PARTIAL = (
    MODEL
    + """
    def state_dict(self, *arguments, **named):
        state = super().state_dict(*arguments, **named)
        return {name: value for name, value in state.items() if not name.endswith("4.bias")}
"""
)
GROWING = MODEL.replace(
    "        return self.layers(x)",
    "        self.register_buffer('seen', torch.zeros(len(x)))\n        return self.layers(x)",
)


@pytest.mark.parametrize(
    ("model", "message"),
    [(PARTIAL, "refuses the result of its state_dict"), (GROWING, "state_dict: seen")],
    ids=["leaves out a part", "grows in forward"],
)
def test_a_model_with_an_unloadable_checkpoint_is_refused_before_the_first_step(
    tmp_path: Path, model: str, message: str
) -> None:
    training = new_training(tmp_path, model=model, **SINGLE_PROCESS)
    assert training.train() != 0
    assert message in training.error()["sentence"]
    assert training.step() == 0


EXTRA = (
    MODEL
    + """
    def get_extra_state(self):
        import collections, datetime, pathlib
        import numpy as np
        return VALUE
    def set_extra_state(self, state):
        assert state == SHOULD
"""
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("np.arange(3)", "_extra_state (numpy.ndarray)"),
        ("{'seen': [1, np.float64(2)]}", "_extra_state['seen'][1] (numpy.float64)"),
        ("{'at': pathlib.Path('/'), 'n': 1}", "_extra_state['at'] (pathlib.PosixPath)"),
        ("(1, datetime.date(2026, 1, 1))", "_extra_state[1] (datetime.date)"),
        ("{'f': lambda: 1}", "_extra_state['f'] (function)"),
        ("{'model': self.layers[0]}", "_extra_state['model'] (linear.Linear)"),
        ("collections.namedtuple('P', 'x')(1)", "load_state_dict refuses the result"),
        ("np.zeros(2) if getattr(self, 'seen', 0) else None", "_extra_state (numpy.ndarray)"),
    ],
)
def test_extra_state_that_no_checkpoint_holds_is_named_by_the_check_and_before_a_step(
    tmp_path: Path, value: str, message: str
) -> None:
    model = EXTRA.replace("VALUE", value).replace("SHOULD", "[]" if "named" in value else "state")
    model = model.replace("return self.layers", "self.seen = 1; return self.layers")
    training = new_training(tmp_path, model=model, **SINGLE_PROCESS)
    sources = training.sources
    request = {part: str(sources / part) for part in ("model", "loader")}
    with pytest.raises(UserCodeError) as caught:
        check_model({**request, "dataset": str(sources / "files")}, lambda *_: None)
    assert message in caught.value.message
    assert "weights_only" not in caught.value.message + caught.value.remedy
    assert training.train() != 0
    assert message in training.error()["sentence"]
    assert training.step() == 0


def test_extra_state_of_tensors_numbers_and_text_is_saved_and_resumed(tmp_path: Path) -> None:
    value = "{'text': 'a', 'list': [1, 2.5, None, True], 'tensor': torch.ones(2)}"
    model = EXTRA.replace("VALUE", value).replace("state == SHOULD", "state['text'] == 'a'")
    training = new_training(tmp_path, model=model, epochs=1, **SINGLE_PROCESS)
    training.train_well()
    training.with_config(epochs=2, **SINGLE_PROCESS)
    training.train_well(resume_from=training.latest())


COUNTING = MODEL.replace(
    "class UserModel(nn.Module):\n", "class UserModel(nn.Module):\n    iterations = 0\n"
).replace(
    "        return self.layers(x)", "        self.iterations += 1\n        return self.layers(x)"
)
OWN_GENERATOR = LOADER.replace(
    "        return self.x[index]",
    "        self.noise = self.random.normal()\n        return self.x[index]",
).replace(
    "    def __len__",
    "        import numpy\n        self.random = numpy.random.default_rng(7)\n    def __len__",
    1,
)


@pytest.mark.parametrize(
    ("model", "loader", "expected"),
    [
        (COUNTING, LOADER, "“iterations” of the model changes during training"),
        (MODEL, OWN_GENERATOR, "“random” of the loader is its own random generator"),
        (MODEL, LOADER, ""),
    ],
    ids=["counter", "generator", "neither"],
)
def test_the_check_names_state_that_a_resumed_job_would_lack(
    tmp_path: Path, model: str, loader: str, expected: str
) -> None:
    sources = new_training(tmp_path, model=model, loader=loader, **SINGLE_PROCESS).sources
    request = {part: str(sources / part) for part in ("model", "loader")}
    result = check_model({**request, "dataset": str(sources / "files")}, lambda *_: None)
    assert [expected in warning for warning in result["warnings"]] == [True][: bool(expected)]


@pytest.mark.parametrize(
    ("model", "loader", "part"),
    [
        (MODEL.replace("return self.layers(x)", "raise ValueError"), LOADER, ""),
        (MODEL, LOADER.replace("def __getitem__", "def get"), "loader"),
        (MODEL, LOADER.replace("96, 1", "96, 1\n    weights = [1.0, 2.0]"), "loader"),
        (f"{MODEL}    def optimizer(self, parameters, lr):\n        return lr\n", LOADER, ""),
    ],
)
def test_an_error_is_found_and_blamed_on_the_model_or_the_loader(
    tmp_path: Path, model: str, loader: str, part: str
) -> None:
    sources = new_training(tmp_path, model=model, loader=loader, **SINGLE_PROCESS).sources
    request = {part: str(sources / part) for part in ("model", "loader")}
    with pytest.raises(UserCodeError) as caught:
        check_model({**request, "dataset": str(sources / "files")}, lambda *_: None)
    assert caught.value.part == part
