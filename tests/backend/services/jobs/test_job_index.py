"""The index finds what a plain walk over all jobs would, in the same order."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.records.jobs import summary_settings
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobQuery, JobSummary, make_summary, summary_of
from backend.records.library.item import Pin
from backend.services.jobs.index import JobIndex
from tests.backend.catalogue.catalogue_rig import CONFIG, job

NAME_PARTS = ("resnet", "unet", "Größe", "lr=0.1")
ORDERS = (
    *("name", "tags", "nodes", "user", "optimizer", "strategy", "model", "dataset", "state"),
    *("progress", "best", "gpus", "started", "created", "ended", "energy", "lr", "batch_size"),
    *("epochs", "seed", "took", "gpu_hours"),
)
COMPARED = {
    "lr<=0.1": lambda line: setting(line, "lr") <= 0.1,
    "Learning_rate<0.1": lambda line: setting(line, "lr") < 0.1,
    "epochs>10": lambda line: setting(line, "epochs") > 10,
    "seed>=7": lambda line: setting(line, "seed") >= 7,
    "map>0": lambda line: bool(line.best_metric) and is_good(*line.best_metric),
}


def setting(line, key):
    """By another way than the index has it."""
    pairs = dict(pair.split("=") for pair in line.settings.split("\n") if "=" in pair)
    return float(pairs.get(key, 1))


def is_good(name, value):
    return name == "mAP" and value > 0


@st.composite
def lines(draw):
    number = draw(st.integers(0, 20))
    state = draw(st.sampled_from(list(JobState)))
    best = draw(st.none() | st.tuples(st.sampled_from(["mAP", "loss"]), st.floats(-5, 5)))
    started_s = draw(st.sampled_from([0.0, 1e9, 2e9]))
    seed = draw(st.sampled_from([1, 7]))
    rate = draw(st.sampled_from([0.1, 0.2, 1e-5]))
    return make_summary(
        {
            "epochs": draw(st.integers(1, 20)),
            "seed": seed,
            "optimizer": {"name": "sgd", "lr": rate},
        },
        {},
        id=f"job-{number:02d}",
        name=" ".join(draw(st.lists(st.sampled_from(NAME_PARTS), max_size=2))),
        state=state,
        best_metric=best,
        created_s=draw(st.sampled_from([1e9, 2e9, 3e9])),
        started_s=started_s,
        ended_s=started_s + 50 if started_s and state.is_over else 0.0,
        user=draw(st.sampled_from(["", "mai", "ben"])),
        tags=tuple(draw(st.lists(st.sampled_from(["a", "b"]), unique=True))),
        nodes=tuple(draw(st.lists(st.sampled_from(["gpu1", "gpu2"]), unique=True))),
        progress=draw(st.sampled_from([0.0, 0.5, 1.0])),
        world_size=draw(st.integers(1, 4)),
        uses_gpus=draw(st.booleans()),
        earlier_gpu_s=draw(st.sampled_from([None, 0.0, 64.0])),
        energy_j=draw(st.none() | st.sampled_from([0.5, 64.0])),
    )


queries = st.builds(
    JobQuery,
    text=st.lists(
        st.sampled_from([*NAME_PARTS, "finished", "SGD", "gpu1", *COMPARED]), max_size=2
    ).map(" ".join),
    group=st.sampled_from([None, 0, 1, 2]),
    tag=st.sampled_from(["", "a"]),
    user=st.sampled_from(["", "ben"]),
    node=st.sampled_from(["", "gpu2"]),
    metric=st.sampled_from(["", "mAP"]),
    low=st.none() | st.floats(-4, 4),
    order=st.sampled_from(["", *ORDERS]),
    descending=st.booleans(),
)


def has_word(line: JobSummary, word: str) -> bool:
    compared = COMPARED.get(word)
    if compared is not None:
        return compared(line)
    return word.casefold() in line.text + line.settings


def matches(line: JobSummary, query: JobQuery) -> bool:
    best = line.best_metric
    return (
        all(has_word(line, word) for word in query.text.split())
        and query.group in (None, line.group)
        and (not query.tag or query.tag in line.tags)
        and (not query.user or query.user == line.user)
        and (not query.node or query.node in line.nodes)
        and (not query.metric or (best is not None and best[0] == query.metric))
        and (query.low is None or (best is not None and best[1] >= query.low))
    )


NOW = time.time()
VALUES = {
    "name": lambda line: line.name.casefold() or None,
    "tags": lambda line: ", ".join(line.tags) or None,
    "nodes": lambda line: ", ".join(line.nodes) or None,
    "user": lambda line: line.user or None,
    "state": lambda line: list(JobState).index(line.state),
    "progress": lambda line: line.progress,
    "gpus": lambda line: line.world_size if line.uses_gpus else 0,
    "started": lambda line: line.started_s or None,
    "created": lambda line: line.created_s,
    "ended": lambda line: line.ended_s,
    "gpu_hours": lambda line: line.gpu_s(NOW),
    "energy": lambda line: line.energy_j,
    "lr": lambda line: setting(line, "lr"),
    "epochs": lambda line: setting(line, "epochs"),
    "seed": lambda line: setting(line, "seed"),
    "optimizer": lambda line: "sgd",
    "strategy": lambda line: "allreduce",
    "batch_size": lambda line: None,
    "model": lambda line: None,
    "dataset": lambda line: None,
}


@settings(max_examples=50)
@given(st.lists(st.lists(lines(), max_size=8), max_size=4), st.sets(st.integers(0, 20)), queries)
def test_the_index_finds_the_jobs_that_a_walk_over_all_finds(updates, removed_ids, query):
    index, present = JobIndex(), {}
    for batch in updates:
        index.find(query)
        unique = {line.id: line for line in batch}
        index.update(unique.values())
        present.update(unique)
    missing = [f"job-{number:02d}" for number in removed_ids]
    index.update((), missing)
    for job_id in missing:
        present.pop(job_id, None)
    result = index.find(query)
    summaries = [result.summaries[slot] for slot in result.order]
    assert {line.id for line in summaries} == {
        line.id for line in present.values() if matches(line, query)
    }
    assert result.total_count == len(present)
    assert result.live_count == sum(line.state.is_live for line in present.values())
    if query.order == "best":
        metrics = [line.best_metric for line in summaries if line.best_metric]
        assert summaries[len(metrics) :] == [line for line in summaries if not line.best_metric]
        sign = -1 if query.descending else 1
        assert metrics == sorted(metrics, key=lambda metric: (metric[0], sign * metric[1]))
    if query.order in VALUES:
        values = [VALUES[query.order](line) for line in summaries]
        known_values = [value for value in values if value is not None]
        assert known_values == sorted(known_values, reverse=query.descending)
        assert values == known_values + [None] * (len(values) - len(known_values)), (
            "no value comes last"
        )


@pytest.mark.parametrize(("descending", "expected"), [(False, "3 0 2 1 4"), (True, "0 3 1 2 4")])
def test_a_loss_is_never_sorted_among_accuracies(descending, expected):
    index = JobIndex()
    bests = (
        ("validation/accuracy", 0.9),
        ("validation/loss", 1.5),
        ("validation/loss", 0.2),
        ("validation/accuracy", 0.1),
        None,
    )
    index.update(summary_of(job(n, id=str(n), best_metric=best)) for n, best in enumerate(bests))
    result = index.find(JobQuery(order="best", descending=descending))
    assert [index.summaries[slot].id for slot in result.order] == expected.split()


def test_live_jobs_come_first_then_the_queue_drafts_and_ended_jobs():
    index = JobIndex()
    summaries = [
        summary_of(job(1, id="old", state=JobState.FINISHED, updated_at="2026-11-20T08:00:00Z")),
        summary_of(job(2, id="new", state=JobState.ERROR, updated_at="2026-11-21T08:00:00Z")),
        summary_of(job(3, id="draft", state=JobState.CREATED, started_at="", updated_at="")),
        summary_of(job(4, id="second", state=JobState.QUEUED, started_at="", updated_at="")),
        summary_of(job(5, id="first", state=JobState.QUEUED, started_at="", updated_at="")),
        summary_of(job(6, id="live", state=JobState.TRAINING, updated_at="")),
    ]
    index.update(summaries)
    result = index.find(JobQuery(), {"first": 1, "second": 2})
    assert [summaries[slot].id for slot in result.order] == [
        *("live", "first", "second", "draft", "new", "old")
    ]


def test_an_update_says_whether_a_list_has_to_be_queried_again():
    index = JobIndex()
    line = summary_of(job(1, state=JobState.TRAINING))
    assert index.update([line]).jobs_added_or_removed
    assert index.update([line]) == index.update([])
    moved_on = index.update([line._replace(progress=0.7)])
    assert (moved_on.changed_slots, moved_on.order_changed) == ((0,), False)
    assert index.update([line._replace(state=JobState.FINISHED)]).order_changed
    assert index.update([], [line.id]).jobs_added_or_removed


def test_names_that_begin_so_come_first_and_the_newest_of_them():
    index = JobIndex()
    names = ("my resnet", "resnet old", "resnet new", "unet of resnets father")
    index.update(
        summary_of(job(n, name=name, config=replace(CONFIG, name=name), notes=""))
        for n, name in enumerate(names)
    )
    assert [line.name for line in index.find_by_name("ResNet", 3)] == [
        "resnet new",
        "resnet old",
        "unet of resnets father",
    ]


def test_a_secret_in_a_variable_is_not_searched():
    config = replace(CONFIG, environment={"API_TOKEN": "hunter2"})
    line = summary_of(job(1, config=config))
    assert "api_token" in line.settings
    assert "hunter2" not in line.text + line.settings


@pytest.mark.parametrize("word", ["ärger", "grösse 1", "optics", "failed", "anna", "adam", "0.25"])
def test_the_search_text_has_all_searched_properties(word):
    line = summary_of(job(1))
    assert word in f"{line.text}\n{line.settings}"


def test_drafts_stand_among_waiting_jobs_and_are_not_counted():
    index = JobIndex()
    states = (JobState.CREATED, JobState.QUEUED, JobState.CREATED, JobState.TRAINING)
    index.update(summary_of(job(n, state=state)) for n, state in enumerate(states))
    result = index.find(JobQuery(group=1))
    assert (result.match_count, result.waiting_count, result.live_count) == (3, 1, 1)


def test_settings_are_read_from_a_line_as_they_were_written():
    """Numbers as they are typed, what nearly every job has, and what a version is pinned to."""
    line = summary_of(job(1, pins={"model": Pin("mlp", 3, "a" * 64)}))
    read = {key: summary_settings.setting(line, key) for key in summary_settings.TEXTS}
    assert read == {"optimizer": "adam", "strategy": "allreduce"}
    numbers = {key: summary_settings.number(line, key) for key in summary_settings.NUMBERS}
    assert numbers == {"lr": 0.01, "batch_size": 32.0, "epochs": 3.0, "seed": 1.0}
    assert summary_settings.setting(line, "model") == "mlp@3"
    assert summary_settings.setting(line, "dataset") == ""


@pytest.mark.parametrize("word", ["lr<", "<0.1", "lr=0.1", "lr<much", "a<b>c", "resnet"])
def test_a_word_that_compares_nothing_is_just_a_word(word):
    assert summary_settings.parse_filter(word) is None


def test_a_rate_at_the_very_limit_is_within_it():
    """0.1 is another number with half as many bits."""
    index = JobIndex()
    index.update([make_summary({"optimizer": {"name": "sgd", "lr": 0.1}}, {}, **FINISHED_JOB)])
    assert index.find(JobQuery(text="lr<=0.1")).match_count == 1
    assert index.find(JobQuery(text="lr<0.1")).match_count == 0


ARGUMENTS = ["fit", "--lr", "0.1", "--batch-size=32", "trainer.max_time=5", "--seed", "{seed}"]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("lr<=0.1", 1),
        ("arguments.lr<0.1", 0),
        ("arguments.lr<=0.1 batch-size>16", 1),
        ("learning_rate>0.1", 0),
        ("trainer.max_time<6", 1),
        ("trainer.max_time>6", 0),
        ("arguments.lr=0.1", 1),
        ("--batch-size=32", 1),
        ("momentum>0", 0),
    ],
)
def test_arguments_are_searched_as_settings(text, hits):
    index = JobIndex()
    script = {"script": "mine", "arguments": ARGUMENTS}
    index.update([make_summary(script, {}, **FINISHED_JOB)])
    assert index.find(JobQuery(text=text)).match_count == hits
    (line,) = index.summaries
    assert summary_settings.number(line, "batch_size") == 32
    assert summary_settings.setting(line, "strategy") == ""
    assert summary_settings.setting(line, "optimizer") == ""


@pytest.mark.parametrize("best", [("mAP", 0.5), ("validation/mAP", 0.5)])
def test_the_best_metric_is_compared_by_its_name(best):
    index = JobIndex()
    index.update([make_summary({}, {}, **FINISHED_JOB, best_metric=best)])
    assert [
        index.find(JobQuery(text=text)).match_count for text in ("map>0.4", "mAP>0.5", "dice>0")
    ] == [
        1,
        0,
        0,
    ]


FINISHED_JOB = {"id": "job-1", "name": "one", "state": JobState.FINISHED}
