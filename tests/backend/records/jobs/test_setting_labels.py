"""A setting has one name, wherever people read it, and so has what can be chosen for it."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from backend.records.jobs.config import LR_SCALINGS, MODES, parse_job
from backend.records.jobs.flat_settings import changes, effective, flat
from backend.records.jobs.setting_labels import (
    CHOICES,
    LABELS,
    label,
    name_and_unit,
    place,
    section,
    value_words,
)
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES
from tests.backend.catalogue.catalogue_rig import job
from tests.backend.records.jobs.test_job_config import GOOD

ROOT = Path(__file__).parents[4]
WHERE_NAMES_ARE = "backend/records/jobs/setting_labels.py"
METRICS = {"Learning rate", "Gradient norm"}
"""Are measured, too, and have a curve of the same name."""
WITHOUT_NAME = ("optimizer.maximize", "placement[0]")

WHOLE = {
    **GOOD,
    "validation_dataset": "v",
    "validation_loader": "v",
    "start_from": "w.pt",
    "gradient_norm": 1.0,
    "stop_on_divergence": True,
    "continue_unsaved": True,
    "early_stop": {"patience_epochs": 3},
}


@pytest.mark.parametrize("every", ["every_epochs", "every_steps", "every_minutes"])
@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [*((name, "constant") for name in OPTIMIZERS), *(("sgd", name) for name in SCHEDULES)],
)
def test_each_setting_of_a_job_has_a_name(every, optimizer, schedule):
    settings = {name: one.default for name, one in OPTIMIZERS[optimizer].items()}
    raw = {
        **WHOLE,
        "optimizer": {"name": optimizer, "lr": 0.1, **settings},
        "schedule": {"name": schedule, **{n: s.default for n, s in SCHEDULES[schedule].items()}},
        "checkpoint": {every: 2},
    }
    if optimizer == "lbfgs":
        raw["strategy"] = {"name": "sandblaster", "portion": 64, "history": 10}
        del raw["gradient_norm"]
    keys = flat(parse_job(raw).config.to_dict())
    assert [key for key in keys if key not in LABELS and not key.startswith(WITHOUT_NAME)] == []


def test_no_two_settings_have_one_name():
    assert len(set(LABELS.values())) == len(LABELS)


def test_no_other_place_names_a_setting():
    names = {name_and_unit(key)[0] for key in LABELS} | set(LABELS.values())
    wanted = {name for name in names if " " in name} - METRICS
    found = []
    for folder in ("app", "backend", "widgets"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if path == ROOT / WHERE_NAMES_ARE or not any(name in text for name in wanted):
                continue
            found += [
                f"{path.relative_to(ROOT)}: {node.value}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Constant) and node.value in wanted
            ]
    assert found == []


def test_what_can_be_chosen_is_named():
    assert tuple(CHOICES["strategy.name"]) == tuple(STRATEGIES)
    assert tuple(CHOICES["strategy.lr_scaling"]) == LR_SCALINGS
    assert tuple(CHOICES["optimizer.name"]) == tuple(OPTIMIZERS)
    assert tuple(CHOICES["schedule.name"]) == tuple(SCHEDULES)
    assert tuple(CHOICES["checkpoint.best_mode"]) == MODES
    assert value_words("strategy.lr_scaling", "sqrt") == "× √processes"
    assert value_words("epochs", "5") == "5"


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_first_choice_of_a_setting_is_its_default(name):
    for key, setting in STRATEGIES[name].items():
        if setting.kind == "choice":
            named = tuple(c for c in CHOICES[f"strategy.{key}"] if c in setting.choices)
            assert named == setting.choices
            assert setting.default == setting.choices[0]


def test_a_strategy_shows_its_defaults_and_no_scaling_where_servers_apply_the_rate():
    def shown(**strategy):
        view = replace(job(), config=parse_job({**WHOLE, "strategy": strategy}).config)
        found = effective(view).items()
        return {key[9:]: value for key, value in found if key.startswith("strategy.")}

    assert shown(name="allreduce") == {
        "name": "allreduce",
        "lr_scaling": "linear",
        "compression": "none",
        "reduction": "average",
    }
    served = shown(name="dc-asgd", variant="constant")
    assert (served["lambda"], served["servers"]) == ("0.04", "1")
    assert "lr_scaling" not in served
    raw = {**WHOLE, "strategy": {"name": "allreduce", "compression": "none"}}
    assert changes(WHOLE, raw) == (), "a default that is written out is no difference"


def test_a_name_has_its_unit_behind_a_comma():
    assert name_and_unit("schedule.warmup_epochs") == ("Warm-up", "epochs")
    assert label("schedule.warmup_epochs") == "Warm-up, epochs"
    assert label("environment.MY_SETTING") == "MY_SETTING"


def test_what_has_no_name_stands_behind_its_kin():
    assert place("optimizer.lr") < place("optimizer.maximize") < place("seed")
    assert section("checkpoint.keep_best") == "Keep"


def test_what_was_trained_with_is_all_named():
    assert all(key in LABELS or key.startswith(WITHOUT_NAME) for key in effective(job()))
