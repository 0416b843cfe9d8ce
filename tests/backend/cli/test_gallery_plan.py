"""``gallery plan`` prints a plan and the command that adds its network, which then trains."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from backend.cli.main import run
from backend.records.library.item import Kind
from backend.services.context.container import open_services
from backend.training.user_code import load_model


@pytest.fixture
def cli(tmp_path, capsys):
    def call(*args: str) -> tuple[int, str, str]:
        options = ["--data-root", str(tmp_path / "root"), "--catalogue", str(tmp_path / "c.sqlite")]
        code = run([*options, *args], lambda *_: 1)
        return code, *capsys.readouterr()

    return call


def added(tmp_path: Path, reference: str) -> torch.nn.Module:
    services = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    folder = services.library.content(Kind.MODEL, reference)
    services.close()
    return load_model(folder)


@pytest.mark.parametrize(
    ("args", "stages"),
    [
        (("--side", "16", "--kernel", "3"), [8]),
        (("--side", "16", "--kernel", "3", "--least", "1/2"), [3, 1]),
        (("--side", "15", "--kernel", "3", "--least", "1", "--as-printed"), [3, 1]),
        (("--side", "33", "--kernel", "5", "--least", "0.5", "--as-printed"), [5, 1]),
        (("--side", "20", "--kernel", "4", "--least", "0.5"), [2, 1]),
    ],
)
def test_the_printed_command_adds_the_network(cli, tmp_path, args, stages):
    code, out, _ = cli("gallery", "plan", *args)
    assert code == 0
    assert f"Convolutions: {sum(stages)}\n" in out
    _, plan_text, _ = cli("--json", "gallery", "plan", *args)
    plan = json.loads(plan_text)
    assert [stage["convolutions"] for stage in plan["stages"]] == stages
    command = next(line for line in out.splitlines() if line.startswith("To add it"))
    argv = shlex.split(command)
    assert cli(*argv[argv.index("gallery") :], "--set", "classes=4")[0] == 0
    model = added(tmp_path, "planned-network")
    convolutions = [stage for stage in model.modules() if isinstance(stage, torch.nn.Conv2d)]
    assert len(convolutions) == plan["depth"]
    assert model.features(torch.zeros(1, 1, 9, 9)).shape[-1] == -(-9 // 2 ** (len(stages) - 1))
    output = model(torch.zeros(2, 1, plan["side"], plan["side"]))
    assert output.shape == (2, 4)
    model.loss(output, torch.tensor([0, 3])).backward()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--side", "4", "--kernel", "5"), "A side of 4 is smaller than the kernel of 5"),
        (("--side", "9", "--kernel", "1"), "A kernel of 1 sees no neighbours"),
        (("--side", "99999", "--kernel", "3"), "A side of 99999 is too large"),
        (("--side", "32", "--kernel", "3", "--least", "0"), "c-value must be from 1/100 to 1"),
        (("--side", "32", "--kernel", "3", "--least", "x"), "“x” is no number"),
    ],
)
def test_the_refusal_of_a_plan_is_one_sentence(cli, args, message):
    code, out, error_output = cli("gallery", "plan", *args)
    assert (code, out) == (1, "")
    assert message in error_output
    assert len(error_output.splitlines()) == 1


@pytest.mark.parametrize(
    "stages",
    ["", "3-", "3-0", "3-x", "-3", "3--2", "1000", "3 2", "0", "-".join("3" * 14)],
)
def test_invalid_stages_add_nothing(cli, stages):
    code, _, error_output = cli("gallery", "add", "planned-network", "--set", f"stages={stages}")
    assert code == 1
    assert re.search(r"stages must be text such as “18-9-7”, not “", error_output)


@pytest.mark.parametrize("side", [2, 3, 5, 9])
def test_no_stage_is_too_many_for_a_side(cli, tmp_path, side):
    """Pooling rounds up, so that a picture of one pixel stays one pixel."""
    settings = ("--set", f"side={side}", "--set", "stages=1-1-1-1-1")
    assert cli("gallery", "add", "planned-network", *settings)[0] == 0
    model = added(tmp_path, "planned-network")
    assert model(torch.zeros(1, 1, side, side)).shape == (1, 10)
