"""A study file: its jobs, where they run, and one sentence about what is wrong with it."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import Placement
from backend.records.studies.study import (
    FormName,
    GalleryPart,
    GalleryStudy,
    Study,
    library_of,
    read_study,
    sweep_of_study,
)
from backend.records.sweeps.spec import expand

GALLERY = Path(__file__).parents[4] / "resources/gallery/studies"
LIBRARY = dict.fromkeys(("dataset", "loader", "model"), "tiny")
RAW: dict[str, Any] = {
    "title": "Rates",
    "question": "Which rate?",
    "source": "A paper",
    "measure": "error",
    "job": {"epochs": 2, "batch_size": 8, "optimizer": {"name": "sgd", "lr": 0.1}},
    "small": {"minutes": 1, "seeds": [1, 2], "rows": ["one", "three"]},
    "full": {"minutes": 60.5, "job": {"epochs": 9}},
    "rows": [
        {"name": "one", "published": 3.5, "job": {"strategy": {"name": "alone"}}},
        {"name": "two", "workers": 2, "job": {"optimizer": {"lr": 0.2}}},
        {"name": "three", "workers": 3, "job": {"strategy": {"name": "downpour"}}},
    ],
}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(RAW)
    part: Any = raw
    *keys, last = path.split("/")
    for key in keys:
        part = part[int(key) if key.isdecimal() else key]
    part[last] = value
    return raw


def jobs(study: Study, form: FormName, *placements: Placement) -> list[dict[str, Any]]:
    return [job.raw for job in expand(sweep_of_study(study, form, placements, LIBRARY)[0]).jobs]


def test_a_study_makes_a_job_of_each_row_and_seed_with_all_rows_before_the_next_seed() -> None:
    study = read_study(RAW)
    sweep, cells = sweep_of_study(study, FormName.SMALL, (), LIBRARY)
    expansion = expand(sweep)
    assert expansion.errors == ()
    assert cells == (("one", 1), ("three", 1), ("one", 2), ("three", 2))
    assert [job.name for job in expansion.jobs] == [
        f"Rates · {row} seed={seed}" for row, seed in cells
    ]
    assert [job.raw["seed"] for job in expansion.jobs] == [1, 1, 2, 2]
    assert all(parse_job(job.raw).config for job in expansion.jobs)


def test_the_settings_of_a_row_come_after_those_of_the_form_and_of_the_study() -> None:
    small, full = (jobs(read_study(RAW), form) for form in FormName)
    assert [job["epochs"] for job in small] == [2] * 4
    assert [job["epochs"] for job in full] == [9] * 9
    assert full[1]["optimizer"] == {"name": "sgd", "lr": 0.2}


@pytest.mark.parametrize(
    ("shared", "row_settings", "name", "settings"),
    [
        ({"gallery": "net"}, {}, "net", {}),
        ({"gallery": "net", "side": 8}, {}, "net", {"side": "8"}),
        ({"gallery": "net", "side": 8}, {"side": 16}, "net-side-16", {"side": "16"}),
        ({"gallery": "net"}, {"gallery": "other", "act": "relu"}, "other-relu", {"act": "relu"}),
        ({"gallery": "net"}, {"b_n": True, "a": 7.5}, "net-b-n-a-7.5", {"b_n": "True", "a": "7.5"}),
        ({"gallery": "net"}, {"b_n": False}, "net", {"b_n": "False"}),
        ({"gallery": "net"}, {"fill": "a/b: c"}, "net-a-b-c", {"fill": "a/b: c"}),
        ({"gallery": "n" * 80}, {}, "n" * 60, {}),
    ],
)
def test_a_part_of_the_gallery_is_named_by_the_settings_of_its_row(
    shared: dict[str, Any], row_settings: dict[str, Any], name: str, settings: dict[str, str]
) -> None:
    raw = changed("job/model", shared)
    raw["rows"][0]["job"]["model"] = row_settings
    study = read_study(raw)
    part = library_of(study, FormName.SMALL, study.rows[0])["model"]
    assert isinstance(part, GalleryPart)
    assert (part.name, dict(part.settings)) == (name, settings)
    assert jobs(study, FormName.SMALL)[0]["model"] == name
    expansion, _ = sweep_of_study(study, FormName.SMALL, (), LIBRARY, {part: "it@7"})
    assert expand(expansion).jobs[0].raw["model"] == "it@7"


def test_servers_are_added_to_the_workers() -> None:
    first_job, three = jobs(read_study(RAW), FormName.SMALL)[:2]
    assert first_job["placement"] == [{"node": "this-computer", "processes": 1}]
    assert three["placement"] == [{"node": "this-computer", "processes": 4}]


def test_jobs_of_a_study_in_slurm_have_as_many_nodes_as_their_workers_need() -> None:
    table = {"cluster": "hpc", "processes": 2, "at_once": 3}
    study = read_study(changed("job/slurm", table))
    first_job, three = jobs(study, FormName.SMALL)[:2]
    assert first_job["slurm"] == {**table, "processes": 1, "nodes": 1}
    assert three["slurm"] == {**table, "nodes": 2}
    assert "placement" not in three
    with pytest.raises(ValueError, match="“three” needs 4 processes, which are not the same"):
        read_study(changed("job/slurm", {**table, "processes": 3}))


def test_a_study_in_slurm_runs_the_rows_for_gpus_or_on_the_nodes_that_the_user_chose() -> None:
    raw = changed("job/slurm", {"cluster": "hpc", "gpus": 2})
    raw["rows"][0]["device"], raw["rows"][2]["device"] = "cpu", "gpu"
    raw["rows"][1]["device"], raw["small"]["rows"] = "cpu", []
    sizes = GalleryStudy.from_study("rates", read_study(raw)).sizes
    assert sizes[FormName.SMALL].jobs == 2
    on_gpus = jobs(read_study(raw), FormName.SMALL)[0]
    assert on_gpus["slurm"] == {"cluster": "hpc", "gpus": 2, "nodes": 2}
    on_cpus = jobs(read_study(raw), FormName.SMALL, Placement("a", 9))[0]
    assert on_cpus["placement"] == [{"node": "a", "processes": 1}]
    assert "slurm" not in on_cpus


def test_processes_fill_one_node_after_the_other() -> None:
    study = read_study(RAW)
    three = jobs(study, FormName.SMALL, Placement("a", 3), Placement("b", 3))[1]
    assert three["placement"] == [{"node": "a", "processes": 3}, {"node": "b", "processes": 1}]
    gpus = Placement("a", gpus=("GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"))
    assert jobs(study, FormName.SMALL, gpus)[0]["placement"] == [{"node": "a", "gpus": ["GPU-0"]}]
    with pytest.raises(ValueError, match="“three” needs 4 processes, and the nodes have 3"):
        jobs(study, FormName.SMALL, Placement("a", 3))


def test_a_row_for_gpus_runs_only_there() -> None:
    study = read_study(changed("rows/0/device", "gpu"))
    assert len(jobs(study, FormName.SMALL)) == 2
    assert len(jobs(study, FormName.SMALL, Placement("a", gpus=tuple("abcd")))) == 4
    with pytest.raises(ValueError, match="no row runs on CPUs"):
        jobs(
            read_study(
                {**changed("rows/0/device", "gpu"), "small": {"minutes": 1, "rows": ["one"]}}
            ),
            FormName.SMALL,
        )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("measure", "errors", "measure: it is not a known value"),
        ("color", "red", "color: it is unknown"),
        ("rows", [], "rows is empty"),
        ("rows/1/name", "one", r"rows\[1\].name is “one” as in another row"),
        ("rows/1/workers", 0, r"rows\[1\].workers must be 1 or more, not 0"),
        ("rows/0/published", "3.5", r"rows\[0\].published: it must be a number, not text"),
        ("rows/0/published", float("nan"), r"rows\[0\].published must be a finite number"),
        ("rows/0/device", "tpu", "device must be “cpu” or “gpu”, not “tpu”"),
        ("small/rows", ["four"], "small.rows names “four”, which is not a row"),
        ("against", "four", "against names “four”, which is neither a row nor a series"),
        ("rows/1/against", "four", r"rows\[1\].against names “four”, which is neither"),
        ("small/seeds", [1, 1], "small.seeds must be different whole numbers"),
        ("full/minutes", 0, "full.minutes must be above 0"),
        ("job/seed", 1, "job.seed is set by the study"),
        ("rows/0/job/placement", [], r"rows\[0\].job.placement is set by the study"),
        ("job/epochs", 0, "the row “one”: epochs: “0” must be"),
        ("rows/0/job/model", {"side": 8}, "“one”: model must be a name, or a table with “gallery”"),
        ("rows/0/job/dataset", {"gallery": "x"}, "the row “one”: dataset must be a name$"),
        ("job/loader", {"gallery": 1}, "the row “one”: loader must be a name, or a table"),
        ("rows/0/workers", 2, "the row “one”: strategy.name: “alone” trains in one process"),
    ],
)
def test_a_bad_file_gets_a_sentence_that_names_the_key(path: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_study(changed(path, value))


paths = st.sampled_from(
    [
        *RAW,
        *(
            f"rows/0/{key}"
            for key in ("name", "workers", "published", "series", "x", "against", "job")
        ),
        "small/also",
        "small/seeds",
        "small/rows",
        "full/job",
        "job/optimizer",
        "rows/2/job/strategy",
        "job/model",
        "full/job/loader",
    ]
)


@given(paths, values)
def test_any_value_is_read_or_refused_with_a_sentence(path: str, value: Any) -> None:
    message = ""
    try:
        study = read_study(changed(path, value))
        assert read_study(study.to_dict()) == study
    except ValueError as error:
        message = str(error)
        assume(message)
    assert "\n" not in message


@pytest.mark.parametrize("name", sorted(path.parent.name for path in GALLERY.glob("*/*.toml")))
def test_the_small_form_of_each_shipped_study_fits_on_two_cores(name: str) -> None:
    study = read_study(tomllib.loads((GALLERY / name / "study.toml").read_text()))
    for raw in jobs(study, FormName.SMALL):
        config = parse_job(raw).config
        assert config is not None
        assert config.world_size <= 8
    assert jobs(study, FormName.FULL)


def test_rows_of_a_script_differ_in_its_arguments_and_take_no_model() -> None:
    rates = [{"name": str(rate), "job": {"arguments": {"lr": rate}}} for rate in (0.1, 0.01)]
    job = {"script": "mine", "arguments": {"epochs": 3}}
    forms = {"small": {"minutes": 1, "seeds": [1, 2]}, "full": {"minutes": 2}}
    raw = {**RAW, **forms, "job": job, "rows": rates}
    assert [
        (first_job["seed"], first_job["arguments"])
        for first_job in jobs(read_study(raw), FormName.SMALL)
    ] == [(seed, ["--epochs", "3", "--lr", rate]) for seed in (1, 2) for rate in ("0.1", "0.01")]
