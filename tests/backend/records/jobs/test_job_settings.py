"""A setting has one name, wherever people read it, and so has what can be chosen for it."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from backend.records.jobs.flat_settings import effective_settings, flatten, setting_changes
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.settings import (
    OPTIONS,
    SETTINGS,
    choices,
    is_named,
    label,
    name_and_unit,
    section,
    sort_key,
    value_label,
)
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES
from tests.backend.catalogue.catalogue_rig import job
from tests.backend.records.jobs.test_job_config import GOOD

ROOT = Path(__file__).parents[4]
WHERE_NAMES_ARE = {
    ROOT / "backend/records" / name
    for name in ("jobs/config.py", "jobs/torch_options.py", "slurm/placement.py")
}
METRICS = {"Learning rate", "Gradient norm"}
"""Are measured, too, and have a curve of the same name."""
WITHOUT_NAME = ("optimizer.maximize", "placement[0]")

WHOLE_FILE = {
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
    settings = {name: setting.default for name, setting in OPTIMIZERS[optimizer].items()}
    raw = {
        **WHOLE_FILE,
        "optimizer": {"name": optimizer, "lr": 0.1, **settings},
        "schedule": {"name": schedule, **{n: s.default for n, s in SCHEDULES[schedule].items()}},
        "checkpoint": {every: 2},
    }
    if optimizer == "lbfgs":
        raw["strategy"] = {"name": "sandblaster", "portion": 64, "history": 10}
        del raw["gradient_norm"]
    keys = flatten(parse_job(raw).config.to_dict())
    assert [key for key in keys if not is_named(key) and not key.startswith(WITHOUT_NAME)] == []


def test_no_two_settings_have_one_name():
    names = [setting.label for setting in SETTINGS.values() if setting.label]
    assert len(set(names)) == len(names)


def test_options_of_one_name_have_one_label_and_one_term():
    for table, options_by_name in OPTIONS.items():
        for options in options_by_name.values():
            for key, setting in options.items():
                first = SETTINGS[f"{table}.{key}"]
                assert (setting.label, setting.term, setting.kind) == (
                    first.label,
                    first.term,
                    first.kind,
                )


def test_no_other_place_names_a_setting():
    setting_paths = [key for key in SETTINGS if is_named(key)]
    names = {name_and_unit(key)[0] for key in setting_paths} | {label(key) for key in setting_paths}
    labels = {name for name in names if " " in name} - METRICS
    foreign_names = []
    for folder in ("app", "backend", "widgets"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if path in WHERE_NAMES_ARE or not any(name in text for name in labels):
                continue
            foreign_names += [
                f"{path.relative_to(ROOT)}: {node.value}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Constant) and node.value in labels
            ]
    assert foreign_names == []


def test_choices_have_words():
    for table, options_by_name in OPTIONS.items():
        assert tuple(choices(f"{table}.name")) == tuple(options_by_name)
    assert {"adaptive", "admm"} <= choices("strategy.variant").keys()
    assert value_label("strategy.lr_scaling", "sqrt") == "× √processes"
    assert value_label("epochs", "5") == "5"


def test_the_first_choice_of_an_option_is_its_default():
    tables = [
        options.values()
        for options_by_name in OPTIONS.values()
        for options in options_by_name.values()
    ]
    choice_settings = [
        setting for options in tables for setting in options if setting.kind == "choice"
    ]
    assert choice_settings
    assert all(setting.default == next(iter(setting.choices)) for setting in choice_settings)


def test_a_strategy_shows_its_defaults_and_no_scaling_where_servers_apply_the_rate():
    def setting_texts(**strategy):
        view = replace(job(), config=parse_job({**WHOLE_FILE, "strategy": strategy}).config)
        texts = effective_settings(view).items()
        return {key[9:]: value for key, value in texts if key.startswith("strategy.")}

    assert setting_texts(name="allreduce") == {
        "name": "allreduce",
        "lr_scaling": "linear",
        "compression": "none",
        "reduction": "average",
        "sync_batch_norm": "no",
        "average_every": "1",
        "outer_lr": "1.0",
        "outer_momentum": "0.0",
    }
    served = setting_texts(name="dc-asgd", variant="constant")
    assert (served["lambda"], served["servers"]) == ("0.04", "1")
    assert "lr_scaling" not in served
    raw = {**WHOLE_FILE, "strategy": {"name": "allreduce", "compression": "none"}}
    assert setting_changes(WHOLE_FILE, raw) == (), "a default that is written out is no difference"


def test_a_name_has_its_unit_behind_a_comma():
    assert name_and_unit("schedule.warmup_epochs") == ("Warm-up", "epochs")
    assert label("schedule.warmup_epochs") == "Warm-up, epochs"
    assert label("environment.MY_SETTING") == "MY_SETTING"


def test_a_setting_without_a_name_follows_its_group():
    assert sort_key("optimizer.lr") < sort_key("optimizer.maximize") < sort_key("seed")
    assert section("checkpoint.keep_best") == "Keep"


def test_every_effective_setting_has_a_name():
    assert all(is_named(key) or key.startswith(WITHOUT_NAME) for key in effective_settings(job()))
