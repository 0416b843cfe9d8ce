"""The job file: every fault at once, each with its field, and never an exception."""

from __future__ import annotations

import copy
import datetime
import math
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.records.base.validation import ConfigError
from backend.records.jobs.config import RANDOM_WEIGHTS, JobConfig
from backend.records.jobs.job_file import parse_job, shareable_config, with_changes
from backend.records.jobs.rules import RULES, Rule
from backend.records.jobs.settings import CHANGEABLE, SETTINGS, value_at
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES

GOOD: dict[str, Any] = {
    "name": "digits",
    "model": "digits-mlp@2",
    "dataset": "digits",
    "loader": "digits",
    "epochs": 5,
    "batch_size": 32,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "placement": [{"node": "this-computer", "processes": 2}],
}
REQUIRED = ("name", "model", "dataset", "loader", "epochs", "batch_size", "optimizer", "placement")


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(GOOD)
    node: Any = raw
    *parents, last = path.split(".")
    for key in parents:
        node = node.setdefault(key, {}) if isinstance(node, dict) else node[int(key)]
    node[last] = value
    return raw


def error_messages(raw: Any) -> dict[str, str]:
    parsed = parse_job(raw)
    assert (parsed.config is None) == bool(parsed.errors)
    return {error.path: error.message for error in parsed.errors}


def config(raw: Any) -> JobConfig:
    parsed = parse_job(raw)
    assert parsed.config is not None, parsed.errors
    return parsed.config


def test_the_smallest_job_file_is_enough() -> None:
    job = config(GOOD)
    assert (job.world_size, job.global_batch_size, job.lr_factor) == (2, 64, 2.0)


@pytest.mark.parametrize("field", REQUIRED)
def test_f51_a_missing_field_is_named(field: str) -> None:
    raw = {key: value for key, value in GOOD.items() if key != field}
    assert error_messages(raw) == {field: f"{field}: is missing."}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, 3) for field in ("name", "model", "dataset", "loader", "notes", "start_from")),
        *((field, "3") for field in ("epochs", "batch_size", "seed", "loader_workers")),
        *((field, True) for field in ("epochs", "batch_size", "stall_limit_s", "gradient_norm")),
        ("precision", "bf16"),
        ("stop_on_nan", "yes"),
        ("stop_on_divergence", 1),
        ("continue_unsaved", 1),
        ("tags", "demo"),
        ("tags", [1]),
        ("optimizer", "sgd"),
        ("optimizer.lr", "0.1"),
        ("optimizer.nesterov", 1),
        ("optimizer.momentum", [0.9]),
        ("schedule", 1),
        ("checkpoint", []),
        ("early_stop", "validation/loss"),
        ("environment", ["A=1"]),
        ("environment.A", 1),
        ("placement", {"node": "a"}),
        ("placement", [3]),
        ("name", datetime.date(2026, 1, 1)),
    ],
)
def test_f51_a_wrong_type_is_named_with_its_field(field: str, value: Any) -> None:
    errors = error_messages(changed(field, value))
    assert field in errors
    assert errors[field].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "two\nlines"),
        ("name", "x" * 256),
        ("model", " "),
        ("epochs", 0),
        ("epochs", 1_000_001),
        ("batch_size", 0),
        pytest.param("batch_size", 10**400, id="batch_size-huge"),
        ("seed", -1),
        ("seed", 2**63),
        ("loader_workers", 257),
        ("gradient_norm", 0),
        pytest.param("gradient_norm", 10**400, id="gradient_norm-huge"),
        ("stall_limit_s", 4.9),
        ("stall_limit_s", float("inf")),
        ("optimizer.lr", 0),
        ("optimizer.lr", float("nan")),
        ("optimizer.momentum", 1.0),
        ("optimizer.name", "SGD"),
        ("schedule.name", "linear"),
        ("schedule.warmup_epochs", -0.5),
        ("strategy.name", "gossip"),
        ("strategy.lr_scaling", "cubic"),
        ("checkpoint.every_epochs", 0),
        ("checkpoint.keep_latest", 0),
        ("checkpoint.best_mode", "largest"),
        ("early_stop.patience_epochs", 0),
        ("environment.OMPI_MCA_btl", "tcp"),
        ("environment.CUDA_VISIBLE_DEVICES", "0"),
        ("environment.A", "nul\0byte"),
        ("placement", []),
        ("placement.0.processes", 0),
        ("placement.0.node", ""),
    ],
)
def test_f51_a_value_out_of_range_is_named_with_its_field(field: str, value: Any) -> None:
    assert field.replace(".0.", "[0].") in error_messages(changed(field, value))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("epoch", "epochs"),
        ("batchsize", "batch_size"),
        ("optimizer.momentumm", "momentum"),
        ("schedule.warmup_epoch", "warmup_epochs"),
        ("checkpoint.keep_last", "keep_latest"),
    ],
)
def test_f51_an_unknown_key_is_refused_and_the_likely_one_offered(path: str, meant: str) -> None:
    assert f"Did you mean “{meant}”?" in error_messages(changed(path, 1))[path]


def test_f51_processors_and_gpus_do_not_mix() -> None:
    mixed_placement = changed("placement", [{"node": "a", "gpus": ["GPU-1"], "processes": 2}])
    assert "cannot be used with gpus" in error_messages(mixed_placement)["placement[0].processes"]
    mixed = changed("placement", [{"node": "a", "gpus": ["GPU-1"]}, {"node": "b", "processes": 2}])
    assert "mixes GPUs and CPUs" in error_messages(mixed)["placement"]
    twice = changed("placement", [{"node": "a", "processes": 1}, {"node": "a", "processes": 2}])
    assert "names a node twice" in error_messages(twice)["placement"]
    gpu_twice = changed("placement", [{"node": "a", "gpus": ["GPU-1", "GPU-1"]}])
    assert "names a GPU twice" in error_messages(gpu_twice)["placement[0].gpus"]
    foreign = changed("placement", [{"node": "a", "gpus": ["GPU-1"], "beside": {"GPU-2": "al"}}])
    assert "“GPU-2”, which is not chosen" in error_messages(foreign)["placement[0].beside"]
    no_one = changed("placement", [{"node": "a", "gpus": ["GPU-1"], "beside": {"GPU-1": 3}}])
    assert "each with a user's name" in error_messages(no_one)["placement[0].beside"]


def test_nodes_average_first_among_their_gpus_alone() -> None:
    by_node = changed("strategy", {"name": "allreduce", "reduction": "hierarchical"})
    message = "“hierarchical” needs GPUs; the job runs on CPUs."
    assert error_messages(by_node) == {"strategy.reduction": f"strategy.reduction: {message}"}
    gpus = [{"node": "a", "gpus": ["GPU-1", "GPU-2"]}]
    assert error_messages({**by_node, "placement": gpus}) == {}


def served(processes: int, **settings: Any) -> dict[str, Any]:
    placement = [{"node": "this-computer", "processes": processes}]
    return {**GOOD, "strategy": {"name": "downpour", **settings}, "placement": placement}


def test_servers_leave_a_process_to_train_and_a_quorum_leaves_one_out() -> None:
    assert error_messages(served(2, servers=2)) == {
        "strategy.servers": "strategy.servers: must be fewer than the processes, so that one "
        "trains; the job has 2."
    }
    assert "the job has 1." in error_messages(served(1))["strategy.servers"]
    assert error_messages(served(4, policy="quorum")) == {
        "strategy.policy": "strategy.policy: A quorum of 75 % needs 4 workers or more; it has 3."
    }
    assert error_messages(served(5, policy="quorum")) == {}


def test_an_update_of_a_strategy_with_servers_is_one_push() -> None:
    job = config(served(4, n_push=3))
    assert (job.workers, job.global_batch_size, job.lr_factor) == (3, 96, 1.0)
    assert job.steps_per_epoch(10 * 32 + 31) == 4, "the last push has one batch"
    assert config(GOOD).steps_per_epoch(10 * 32 + 31) == 5


def test_all_parts_of_a_split_network_train_on_one_batch_at_the_plain_rate() -> None:
    split = {"name": "consensus", "cut": ["features"], "beta": 0.1, "inner_rounds": 3}
    job = config(changed("strategy", split))
    assert (job.world_size, job.global_batch_size, job.lr_factor) == (2, 32, 1.0)
    assert job.to_dict()["strategy"] == {"lr_scaling": "linear", **split}


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"beta": 0}, "strategy.beta", "must be 0.001 or more"),
        ({"inner_rounds": 0}, "strategy.inner_rounds", "1"),
        ({"variant": "adaptive"}, "strategy.variant", "dual-layer"),
        ({"cut": "features"}, "strategy.cut", "must be a list of text values."),
        (
            {"cut": ["a", "b"]},
            "strategy.cut",
            "must name one module less than there are processes; there are 2.",
        ),
        ({"cut": ["a", "a"]}, "strategy.cut", "must name each module once."),
    ],
)
def test_a_network_that_cannot_be_split_so_is_refused_at_the_field(
    settings: dict[str, Any], field: str, message: str
) -> None:
    raw = changed("strategy", {"name": "consensus", **settings})
    raw["placement"][0]["processes"] = 3 if settings.get("cut") == ["a", "a"] else 2
    assert message in error_messages(raw)[field]


def test_a_split_network_refuses_settings_that_its_parts_lack() -> None:
    raw = changed("strategy", {"name": "consensus", "inner_rounds": 2})
    raw |= {"gradient_norm": 1.0, "precision": "float16"}
    raw["placement"] = [{"node": "a", "gpus": ["GPU-1", "GPU-2"]}]
    errors = error_messages(raw)
    assert errors["gradient_norm"] == (
        "gradient_norm: cannot be used with more than one inner round."
    )
    assert (
        errors["precision"]
        == "precision: “float16” needs a strategy in which each process has all weights; this is "
        "“consensus”."
    )


ON_GPUS = {"placement": [{"node": "a", "gpus": ["GPU-1", "GPU-2"]}]}
SPLIT = {"name": "consensus", "inner_rounds": 2}
PERIODS = {"average_every": 5}
LOW_RANK = {"name": "ddp", "compression": "powersgd"}
COORDINATED = {"strategy": {"name": "sandblaster"}, "optimizer": {"name": "lbfgs", "lr": 1.0}}
A_SCRIPT = {"name": "mine", "script": "mine", "placement": [{"node": "a", "processes": 1}]}
ON_TWO = {"placement": [{"node": node, "processes": 1} for node in ("a", "b")]}
BROKEN = {
    "fewer nodes": {"on_failure": {"shrink": True}},
    "nodes left": {"on_failure": {"shrink": True, "at_least": 3}, **ON_TWO},
    "same nodes": {"on_failure": {"shrink": True}, "strategy": SPLIT, **ON_TWO},
    "fewer before": {"on_failure": {"grow": True, "retries": 1}, **ON_TWO},
    "retry of a script": {**A_SCRIPT, "on_failure": {"retries": 1}},
    "placeholders": {**A_SCRIPT, "arguments": ["--data", "{data}"]},
    "entry": {**A_SCRIPT, "entry": "../train.py"},
    "working folder": {**A_SCRIPT, "folder": "../src"},
    "log numbers": {**A_SCRIPT, "log_numbers": ["loss: {loss}", "loss"]},
    "Python": {**A_SCRIPT, "python": "~/bin/python"},
    "nesterov": {"optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True}},
    "one process": {"strategy": {"name": "alone"}},
    "power of two": {
        "strategy": {"reduction": "adasum"},
        "placement": [{"node": "a", "processes": 3}],
    },
    "GPUs of a node": {"strategy": {"reduction": "hierarchical"}},
    "coordinator": {**COORDINATED, "placement": [{"node": "a", "processes": 1}]},
    "servers": {"strategy": {"name": "downpour", "servers": 2}},
    "quorum": {"strategy": {"name": "downpour", "policy": "quorum"}},
    "L-BFGS": {"optimizer": {"name": "lbfgs", "lr": 1.0}},
    "schedule": {**COORDINATED, "schedule": {"warmup_epochs": 1}},
    "lowest rate": {"schedule": {"name": "cosine", "eta_min": 0.2}},
    "one cycle": {"schedule": {"name": "one-cycle", "warmup_epochs": 1}},
    "gradient norm": {**COORDINATED, "gradient_norm": 1.0},
    "rounds": {"strategy": SPLIT, "gradient_norm": 1.0},
    "average of all": {"ema": 0.9, "strategy": SPLIT},
    "outer_lr without periods": {"strategy": {"outer_lr": 0.7}},
    "outer_momentum without periods": {"strategy": {"outer_momentum": 0.9}},
    "average of periods": {"ema": 0.9, "strategy": PERIODS},
    "float16 of periods": {"precision": "float16", "strategy": PERIODS, **ON_GPUS},
    "mean of periods": {"strategy": {**PERIODS, "reduction": "adasum"}},
    "sync_batch_norm of periods": {"strategy": {**PERIODS, "sync_batch_norm": True}},
    "shard of periods": {"strategy": {**PERIODS, "name": "ddp", "shard": "optimizer"}},
    "low rank of periods": {"strategy": {**LOW_RANK, "shard": "optimizer"}},
    "float16 of low rank": {"precision": "float16", "strategy": LOW_RANK, **ON_GPUS},
    "compiled norms": {"compile": True, "strategy": {"sync_batch_norm": True}},
    "compiled parts": {"compile": True, "strategy": SPLIT},
    "rates of layers": {"lr_of": ["backbone.=0.1", "head"]},
    "rates of servers": {"lr_of": ["fc.=2"], "strategy": {"name": "downpour"}},
    "decay of none": {**COORDINATED, "no_decay": True},
    "accumulation": {"strategy": SPLIT, "accumulate": 2},
    "float16": {"strategy": SPLIT, "precision": "float16", **ON_GPUS},
    "precision of a search": {**COORDINATED, "precision": "bfloat16"},
    "precision of rounds": {"strategy": SPLIT, "precision": "bfloat16"},
    "GPUs": {"precision": "tf32"},
    "give way in Slurm": {
        "placement": None,
        "slurm": {"cluster": "hpc", "gpus": 1},
        "gives_way": True,
    },
    "retries in Slurm": {
        "placement": None,
        "slurm": {"cluster": "hpc"},
        "on_failure": {"retries": 1},
    },
    "give way": {"gives_way": True},
    "continue a script": {**A_SCRIPT, **ON_GPUS, "gives_way": True},
    "parts": {"strategy": {**SPLIT, "cut": ["a", "b"]}},
    "modules": {
        "strategy": {**SPLIT, "cut": ["a", "a"]},
        "placement": [{"node": "a", "processes": 3}],
    },
    "steps": {"checkpoint": {"every_epochs": 1, "every_steps": 5}},
    "minutes": {"checkpoint": {"every_steps": 5, "every_minutes": 5}},
}
"""Of each rule, a job that breaks it alone."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_broken_alone_and_waits_for_valid_settings(rule: Rule) -> None:
    broken = BROKEN[rule.name]
    raw = broken if "script" in broken else {**GOOD, **broken}
    parsed = parse_job(raw)
    assert [error.path for error in parsed.errors] == [rule.paths[0]]
    assert set(rule.paths) <= SETTINGS.keys()
    assert "{job" not in rule.condition("The setting")
    for path in rule.paths:
        assert rule.error_message(parsed.draft, [ConfigError(path, f"{path}: is wrong.")]) == ""
    assert rule.error_message(parsed.draft, [ConfigError("epochs", "epochs: is wrong.")])


@pytest.mark.parametrize(
    ("old", "precision"), [({}, "float32"), (False, "float32"), (True, "float16")]
)
def test_a_job_file_of_before_has_its_precision(old: object, precision: str) -> None:
    old_file = {"mixed_precision": old} if isinstance(old, bool) else {}
    parsed = parse_job({**GOOD, **ON_GPUS, **old_file})
    assert parsed.config is not None
    assert parsed.config.precision == precision
    assert "mixed_precision" not in parsed.config.to_dict()
    mixed_file = parse_job({**GOOD, **ON_GPUS, "mixed_precision": True, "precision": "tf32"})
    assert [error.path for error in mixed_file.errors] == ["mixed_precision"]
    assert "mixed_precision" in error_messages({**GOOD, "mixed_precision": 1})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schedule", {"name": "step", "gamma": 1.5}, "must be above 0 and 1 at most"),
        ("schedule", {"name": "step", "gamma": 0}, "must be above 0 and 1 at most"),
        (
            "schedule",
            {"name": "cosine", "gamma": 0.5},
            "is a setting of “step”, “exponential”, “milestones”, “plateau”; this is “cosine”.",
        ),
        ("optimizer", {"name": "adam", "lr": 1, "momentum": 0.9}, "is a setting of “sgd”"),
        ("schedule", {"name": "cosine", "gama": 0.5}, "is not a setting of a job"),
    ],
)
def test_a_setting_of_another_schedule_or_without_effect_is_named(
    path: str, value: dict[str, Any], message: str
) -> None:
    (error,) = error_messages({**GOOD, path: value}).values()
    assert message in error


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) == len(BROKEN)


def test_f51_incompatible_settings_are_faults() -> None:
    assert "strategy.name" in error_messages(changed("strategy.name", "alone"))
    assert "precision" in error_messages(changed("precision", "float16"))
    assert "checkpoint.every_steps" in error_messages(
        changed("checkpoint", {"every_epochs": 1, "every_steps": 5})
    )
    nesterov = changed("optimizer", {"name": "sgd", "lr": 0.1, "nesterov": True})
    assert "needs momentum" in error_messages(nesterov)["optimizer.nesterov"]


def test_l_bfgs_and_its_coordinator_are_used_together_and_choose_their_own_steps() -> None:
    raw = {**GOOD, "strategy": {"name": "sandblaster"}, "optimizer": {"lr": 1.0}}
    parsed = parse_job(raw)
    assert parsed.config is not None, parsed.errors
    assert parsed.config.optimizer.name == "lbfgs"
    assert (parsed.config.workers, parsed.config.steps_per_epoch(1438)) == (1, 1)
    one_process = parse_job({**raw, "placement": [{"node": "a", "processes": 1}]})
    assert [error.path for error in one_process.errors] == ["strategy.name"]
    for field, value in (
        ("optimizer", {"name": "adam", "lr": 0.1}),
        ("schedule", {"name": "cosine"}),
        ("schedule", {"warmup_epochs": 1}),
        ("gradient_norm", 1.0),
        ("precision", "bfloat16"),
    ):
        assert any(f.path.startswith(field) for f in parse_job({**raw, field: value}).errors)
    assert "optimizer.name" in error_messages(changed("optimizer", {"name": "lbfgs", "lr": 1.0}))


OTHER_VALUES = {
    "placement": [{"node": "b", "processes": 4}],
    "batch_size": 7,
    "accumulate": 3,
    "optimizer.lr": 0.5,
    "log_numbers": ["loss: {loss}"],
    "gives_way": True,
    "quiet_minutes": 0.5,
}


@pytest.mark.parametrize("path", [p for p in CHANGEABLE if not p.startswith("slurm.")])
def test_a_setting_that_may_change_later_is_checked_as_in_a_job_file(path: str) -> None:
    changes = {path: OTHER_VALUES[path]}
    gpu_settings = ON_GPUS if path in ("gives_way", "quiet_minutes") else {}
    job = config(A_SCRIPT if SETTINGS[path].job_kind == "script" else {**GOOD, **gpu_settings})
    changed_job = with_changes(job, changes).config
    assert changed_job is not None
    assert value_at(changed_job.to_dict(), path) == OTHER_VALUES[path]
    for invalid_value in (0, -1, "x", None, ["x"]):
        assert with_changes(job, {path: invalid_value}).config is None


def test_slurm_takes_the_place_of_nodes_and_nodes_that_of_slurm() -> None:
    on_slurm = with_changes(config(GOOD), {"slurm.cluster": "hpc", "slurm.nodes": 3}).config
    assert on_slurm is not None
    assert [p.to_dict() for p in on_slurm.placement] == [
        {"node": f"hpc-{number}", "processes": 1} for number in (1, 2, 3)
    ]
    raw = on_slurm.to_dict()
    assert raw["slurm"] == {"cluster": "hpc", "nodes": 3}
    assert "placement" not in raw
    assert parse_job(raw).config == on_slurm
    on_gpus = with_changes(on_slurm, {"slurm.gpus": 2}).config
    assert on_gpus is not None
    assert (on_gpus.world_size, on_gpus.uses_gpus) == (6, True)
    on_nodes = with_changes(on_slurm, {"placement": GOOD["placement"]}).config
    assert on_nodes == config(GOOD)


@pytest.mark.parametrize(
    ("slurm", "error"),
    [
        ({}, "slurm.cluster: names no cluster; add one with"),
        ({"cluster": "hpc", "nodes": 0}, "slurm.nodes: must be between 1 and 4"),
        ({"cluster": "hpc", "gpus": 4, "processes": 2}, "slurm: 4 GPUs have 4 processes, not 2."),
        ({"cluster": "hpc", "partition": "a b"}, "slurm: The partition has characters"),
        ({"cluster": "hpc", "networks": "10.0.0"}, "slurm: “10.0.0” is not a subnet."),
        ({"cluster": "hpc", "options": ["mem=0"]}, "slurm: The option “mem=0” is not written"),
        ({"cluster": "hpc", "time_limit": 5}, "slurm.time_limit: is not a setting of a job."),
    ],
)
def test_what_no_cluster_takes_is_an_error_of_the_job_file(
    slurm: dict[str, object], error: str
) -> None:
    raw = {key: value for key, value in GOOD.items() if key != "placement"}
    (message,) = [e.message for e in parse_job({**raw, "slurm": slurm}).errors]
    assert message.startswith(error)


def test_other_nodes_must_fit_the_rules_of_the_job() -> None:
    by_two = config(changed("strategy.reduction", "adasum"))
    three = [{"node": "a", "processes": 3}]
    errors = with_changes(by_two, {"placement": three}).errors
    assert [error.path for error in errors] == ["strategy.reduction"]


def test_f51_all_faults_are_shown_at_once() -> None:
    raw = changed("epochs", 0)
    del raw["model"]
    raw["optimizer"]["lr"] = -1
    raw["colour"] = "red"
    assert error_messages(raw).keys() == {"epochs", "model", "optimizer.lr", "colour"}


# Anything that tomllib can hand over, by the keys of a job file and by others.

KEYS = st.sampled_from([*JobConfig.__dataclass_fields__, "node", "gpus", "processes", "lr"])
PLAIN = (
    st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
    | st.dates()
)
TOML = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS | st.text(st.characters(codec="utf-8")), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, TOML), st.booleans())
def test_f51_every_fault_of_a_file_is_a_sentence(raw: dict[str, Any], full: bool) -> None:
    parsed = parse_job({**GOOD, **raw} if full else raw)
    assert (parsed.config is None) == bool(parsed.errors)
    for error in parsed.errors:
        assert error.message.startswith(f"{error.path}: ")
        assert error.message.endswith((".", "?"))


def settings_of(known_options: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    def values(setting: Any) -> st.SearchStrategy[Any]:
        number = st.floats(
            setting.low or (setting.exclusive_low is not None) * 0.1,
            min(setting.low + 0.99, setting.high or math.inf),
            allow_subnormal=False,
        )
        whole_numbers = st.integers(int(setting.low), 1000)
        pair = st.tuples(number, number).map(list)
        flag = st.booleans()
        choice = st.sampled_from(list(setting.choices) or [""])
        wholes = st.lists(whole_numbers, max_size=3)
        kinds = {
            "number": number,
            "whole": whole_numbers,
            "pair": pair,
            "flag": flag,
            "choice": choice,
        }
        kinds["wholes"] = wholes
        return kinds[setting.kind]

    options = {
        name: values(setting)
        for name, setting in known_options.items()
        if name not in ("nesterov", "eta_min")
    }
    return st.fixed_dictionaries({}, optional=options)


@st.composite
def job_files(draw: st.DrawFn) -> dict[str, Any]:
    text = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
    name = text.map(lambda suffix: f"a {suffix}")
    strategy = draw(st.sampled_from(sorted(STRATEGIES.keys() - {"alone"})))
    searches = strategy == "sandblaster"
    optimizers = {"lbfgs"} if searches else OPTIMIZERS.keys() - {"lbfgs"}
    optimizer = draw(st.sampled_from(sorted(optimizers)))
    schedule = draw(st.sampled_from(["constant"] if searches else sorted(SCHEDULES)))
    # What needs a number of processes, or another setting, is left to tests of its own.
    limited = ("reduction", "servers", "policy", "cut", "inner_rounds")
    limited += ("outer_lr", "outer_momentum", "average_every", "shard")
    known_options = {k: v for k, v in STRATEGIES[strategy].items() if k not in limited}
    gpus = st.lists(st.uuids().map(lambda u: f"GPU-{u}"), min_size=2, max_size=4, unique=True)
    nodes = draw(st.lists(name, min_size=1, max_size=3, unique=True))
    on_gpus = draw(st.booleans())
    often: dict[str, Any] = draw(
        st.sampled_from([{}, {"every_epochs": 2}, {"every_steps": 7}, {"every_minutes": 0.5}])
    )
    optional: dict[str, st.SearchStrategy[Any]] = {
        "notes": text,
        "tags": st.lists(text, max_size=3),
        "seed": st.integers(0, 2**63 - 1),
        **({} if searches else {"gradient_norm": st.floats(1e-3, 10)}),
        "loader_workers": st.integers(0, 256),
        "stop_on_nan": st.booleans(),
        "stop_on_divergence": st.booleans(),
        "continue_unsaved": st.booleans(),
        "stall_limit_s": st.floats(5, 1e6),
        "early_stop": st.fixed_dictionaries({}, optional={"min_delta": st.floats(0, 1)}),
        "environment": st.dictionaries(st.from_regex(r"\AMY_[A-Z]{1,5}\Z"), text, max_size=3),
        "validation_dataset": name,
    }
    given_too: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    return {
        **given_too,
        "name": draw(name),
        "model": draw(name),
        "dataset": draw(name),
        "loader": draw(name),
        "epochs": draw(st.integers(1, 1000)),
        "batch_size": draw(st.integers(1, 1000)),
        "optimizer": {
            "name": optimizer,
            "lr": draw(st.floats(1e-9, 10)),
            **draw(settings_of(OPTIMIZERS[optimizer])),
        },
        "schedule": {
            "name": schedule,
            "warmup_epochs": 0.0 if searches or schedule == "one-cycle" else draw(st.floats(0, 5)),
            **draw(settings_of(SCHEDULES[schedule])),
        },
        "strategy": {
            "name": strategy,
            "lr_scaling": draw(st.sampled_from(["linear", "sqrt", "none"])),
            **draw(settings_of(known_options)),
        },
        "checkpoint": {**often, "keep_latest": draw(st.integers(1, 9))},
        "placement": [
            {"node": node, "gpus": draw(gpus)}
            if on_gpus
            else {"node": node, "processes": draw(st.integers(2, 64))}
            for node in nodes
        ],
    }


@settings(max_examples=60)
@given(job_files())
def test_a_job_written_as_toml_and_read_back_is_the_same_job(raw: dict[str, Any]) -> None:
    job = config(raw)
    read_back = config(tomllib.loads(tomli_w.dumps(job.to_dict())))
    assert read_back == job
    assert read_back.sha256() == job.sha256()


@pytest.mark.parametrize(
    ("start_from", "shared"),
    [
        ("/home/anna/weights.pt", "weights.pt"),
        ("~/weights.pt", "weights.pt"),
        ("~anna/a/b.safetensors", "b.safetensors"),
        ("tiny@1/weights.pt", "tiny@1/weights.pt"),
        ("20261124-abcdef/best", "20261124-abcdef/best"),
        (RANDOM_WEIGHTS, RANDOM_WEIGHTS),
        ("", None),
    ],
)
def test_a_job_file_for_others_names_no_folder_and_no_secret(start_from, shared):
    raw = {**GOOD, "environment": {"TOKEN": "secret-1234"}}
    raw |= {"start_from": start_from} if start_from else {}
    shared_file = shareable_config(parse_job(raw).config)
    assert shared_file.get("start_from") == shared
    assert shared_file["environment"] == {"TOKEN": ""}
