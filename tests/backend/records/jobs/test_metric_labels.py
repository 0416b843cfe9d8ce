"""A metric says what it was measured on, and its name which way is better."""

import pytest

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.metric_names import (
    matching_metric,
    metric_label,
    short_metric_label,
    usual_mode,
)
from tests.backend.records.jobs.test_job_config import GOOD


@pytest.mark.parametrize(
    ("name", "full_label", "short"),
    [
        ("validation/loss", "validation loss", "val. loss"),
        ("loss", "training loss", "train loss"),
        ("validation/mAP", "validation mAP", "val. mAP"),
        ("learning_rate", "learning rate", "learning rate"),
        ("staleness p95", "staleness p95", "staleness p95"),
        ("accuracy", "training accuracy", "train accuracy"),
        ("val_loss", "val_loss", "val_loss"),
        ("train/loss", "train/loss", "train/loss"),
        ("testAcc", "testAcc", "testAcc"),
        ("lr", "lr", "lr"),
        ("epoch_time", "epoch_time", "epoch_time"),
    ],
)
def test_a_metric_says_whether_it_is_of_training_or_validation(name, full_label, short):
    assert (metric_label(name), short_metric_label(name)) == (full_label, short)


@pytest.mark.parametrize(
    ("text", "names", "name"),
    [
        ("VAL_LOSS", ("loss", "validation/loss"), "validation/loss"),
        ("training/val_loss", ("loss", "val_loss"), "val_loss"),
        ("Val loss", ("val_loss", "train_loss"), "val_loss"),
        ("training loss", ("loss", "validation/loss"), "loss"),
        ("loss", ("train/loss", "val/loss"), "train/loss"),
        ("valAcc", ("val_acc", "valid_auc"), "val_acc"),
        ("MAP50", ("mAP50", "mAP75"), "mAP50"),
        ("Größe", ("größe",), "größe"),
        ("val_loss", ("val_loss", "validation/loss"), "val_loss"),
        ("VAL_LOSS", ("val_loss", "validation/loss"), ""),
        ("value", ("val", "loss"), ""),
        ("train", ("loss",), ""),
        ("", ("loss",), ""),
    ],
)
def test_a_metric_is_meant_whatever_its_case_and_separators(text, names, name):
    assert matching_metric(text, names) == name


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("validation/loss", "min"),
        ("accuracy", "max"),
        ("validation/top-1", "max"),
        ("validation/top-1 error", "min"),
        ("validation/mAP", "max"),
        ("accuracy/fake", ""),
        ("validation/my_score", ""),
        ("validation/kappa", "max"),
        ("valAcc", "max"),
        ("mAP50-95", "max"),
        ("acc@1", "max"),
        ("ndcg@10", "max"),
        ("f1_macro", "max"),
        ("F1Score", "max"),
        ("BLEU-4", "max"),
        ("wer", "min"),
        ("perplexity", "min"),
        ("psnr", "max"),
        ("FID50k", "min"),
        ("loss_iou", "min"),
        ("recall/error", ""),
        ("error_recall", ""),
        ("neg_mean_squared_error", ""),
        ("1-acc", ""),
        ("accuracy_std", ""),
        ("Genauigkeit", ""),
        ("samples_per_second", ""),
    ],
)
def test_the_name_of_a_metric_says_which_way_is_better(name, mode):
    assert usual_mode(name) == mode


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Val loss", "validation/loss"),
        ("validation Accuracy", "validation/accuracy"),
        ("val. mAP", "validation/mAP"),
        ("Training loss", "loss"),
        ("validation/loss", "validation/loss"),
        ("valley", "valley"),
    ],
)
def test_a_metric_may_be_named_by_its_label_except_that_of_a_script(text, name):
    config = parse_job({**GOOD, "checkpoint": {"best_metric": text, "best_mode": "min"}}).config
    assert config.checkpoint.best_metric == name
    raw = {"name": "s", "script": "mine", "placement": [{"node": "a", "processes": 1}]}
    script = parse_job({**raw, "checkpoint": {"best_metric": text, "best_mode": "min"}}).config
    assert script.checkpoint.best_metric == text


@pytest.mark.parametrize(
    ("checkpoint", "early_stop", "best", "stop_mode"),
    [
        ({}, {}, ("validation/loss", "min"), ("validation/loss", "min")),
        (
            {"best_metric": "validation/accuracy"},
            {},
            ("validation/accuracy", "max"),
            ("validation/accuracy", "max"),
        ),
        (
            {"best_metric": "validation/score", "best_mode": "max"},
            {},
            ("validation/score", "max"),
            ("validation/score", "max"),
        ),
        (
            {},
            {"metric": "validation/accuracy"},
            ("validation/loss", "min"),
            ("validation/accuracy", "max"),
        ),
        (
            {"best_metric": "validation/accuracy"},
            {"metric": "validation/loss"},
            ("validation/accuracy", "max"),
            ("validation/loss", "min"),
        ),
    ],
)
def test_the_best_checkpoint_has_the_highest_accuracy_and_the_lowest_loss(
    checkpoint, early_stop, best, stop_mode
):
    config = parse_job({**GOOD, "checkpoint": checkpoint, "early_stop": early_stop}).config
    assert (config.checkpoint.best_metric, config.checkpoint.best_mode) == best
    assert (config.early_stop.metric, config.early_stop.mode) == stop_mode


@pytest.mark.parametrize(
    ("checkpoint", "early_stop", "missing_fields"),
    [
        ({"best_metric": "validation/güte"}, {}, ["checkpoint.best_mode"]),
        ({"best_metric": "validation/güte"}, {"metric": "loss"}, ["checkpoint.best_mode"]),
        ({"best_metric": "validation/güte", "best_mode": "max"}, {}, []),
        ({"best_metric": "validation/güte", "best_mode": "max"}, {"metric": "güte"}, ["mode"]),
        ({}, {"metric": "validation/my_score"}, ["mode"]),
        ({}, {"metric": "validation/my_score", "mode": "min"}, []),
        ({"best_metric": "validation/kappa"}, {"metric": "valAcc"}, []),
    ],
)
def test_a_direction_that_the_name_does_not_say_is_asked_for(
    checkpoint, early_stop, missing_fields
):
    parsed = parse_job({**GOOD, "checkpoint": checkpoint, "early_stop": early_stop})
    fields = [error.path for error in parsed.errors]
    assert fields == [field if "." in field else f"early_stop.{field}" for field in missing_fields]
    assert all("lowest (min) or highest (max)" in error.message for error in parsed.errors)
