"""The catalogue gives back what it was given, from any thread."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text as sql

from backend.base.errors import BackendError
from backend.catalogue import store
from backend.catalogue.store import CACHE_KIB, Catalogue, open_catalogue
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm, Continuation
from backend.records.jobs.summary import summary_of
from backend.records.library.item import Kind
from tests.backend.catalogue.catalogue_rig import CONFIG, item, job
from tests.waiting import LIMIT_S


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    new_catalogue = open_catalogue(tmp_path / "c.sqlite")
    yield new_catalogue
    new_catalogue.close()


def test_a_job_comes_back_as_it_was(catalogue: Catalogue) -> None:
    catalogue.put_job(job())
    assert catalogue.jobs() == (job(),)


def test_a_job_and_its_line_have_the_time_of_all_runs(catalogue: Catalogue) -> None:
    resumed = job(earlier_s=90.5)
    catalogue.put_job(resumed)
    assert catalogue.jobs() == (resumed,)
    (line,) = catalogue.job_lines()
    assert line == summary_of(resumed)
    assert line.took_s(0.0) == 150.5


def test_a_job_and_its_line_have_gpu_time_and_energy(catalogue: Catalogue) -> None:
    config = replace(CONFIG, placement=(Placement("gpu1", gpus=("GPU-a", "GPU-b")),))
    for number, (earlier, energy) in enumerate(((7200.0, 3.6e6), (None, None)), 1):
        catalogue.put_job(job(number, config=config, earlier_gpu_s=earlier, energy_j=energy))
    lines = {line.id: line for line in catalogue.job_lines()}
    for view in catalogue.jobs():
        assert lines[view.id] == summary_of(view)
        assert lines[view.id].gpu_s(0.0) == view.gpu_s(0.0)
    newest, oldest = catalogue.jobs()
    # Two GPUs, a minute.
    assert (oldest.gpu_s(0.0), oldest.status.total_energy_j) == (7200.0 + 120.0, 3.6e6)
    assert (newest.gpu_s(0.0), newest.status.total_energy_j) == (None, None)
    assert oldest.to_json()["gpu_hours"] == pytest.approx(7320 / 3600, abs=1e-6)
    assert (oldest.to_json()["energy_kwh"], newest.to_json()["energy_kwh"]) == (1.0, None)
    assert job().gpu_s(0.0) is None, "on processors"


def test_a_list_prints_an_ended_job_as_its_folder_has_it(catalogue: Catalogue) -> None:
    ended = job(
        epochs=4,
        config=replace(CONFIG, script="train", epochs=0),
        alarms=(Alarm("diverged", 7, "The loss rises."),),
        continuation=Continuation("The node gpu2 was lost.", retries=1, avoided_nodes=("gpu2",)),
    )
    catalogue.put_job(ended)
    (listed,) = catalogue.jobs()
    assert listed.to_json() == ended.to_json()
    assert (listed.epochs, [*catalogue.job_lines()]) == (4, [summary_of(ended)])


def test_a_job_stored_again_replaces_the_older_one(catalogue: Catalogue) -> None:
    catalogue.put_job(job())
    catalogue.put_job(job(state=JobState.FINISHED, best_metric=None, error=None))
    assert catalogue.jobs() == (job(state=JobState.FINISHED, best_metric=None, error=None),)


def test_the_same_job_put_again_writes_nothing(catalogue: Catalogue) -> None:
    catalogue.put_job(job())
    wal = catalogue.path.with_name("c.sqlite-wal")
    previous_bytes = wal.stat().st_size
    catalogue.put_job(job())
    assert wal.stat().st_size == previous_bytes


def test_items_are_listed_by_name_and_newest_first(catalogue: Catalogue) -> None:
    expected_items = [item("b", 1), item("a", 2), item("a", 10), item("a", 1, Kind.MODEL)]
    for expected_item in expected_items:
        catalogue.put_item(expected_item)
    assert catalogue.items(Kind.DATASET) == (item("a", 10), item("a", 2), item("b", 1))
    assert catalogue.items(Kind.MODEL) == (item("a", 1, Kind.MODEL),)
    assert catalogue.items(Kind.LOADER) == ()


def test_new_facts_of_an_item_keep_its_verification(catalogue: Catalogue) -> None:
    catalogue.put_item(item(), fingerprint="fingerprint")
    catalogue.put_item(replace(item(), details={"items": 3}))
    assert catalogue.items(Kind.DATASET)[0].details == {"items": 3}
    assert catalogue.trusted_fingerprint(Kind.DATASET, "digits", 1) == "fingerprint"
    assert catalogue.trusted_fingerprint(Kind.DATASET, "digits", 2) == ""


def test_one_step_adds_found_items_and_removes_missing_ones(catalogue: Catalogue) -> None:
    for version in range(1, 1200):
        catalogue.put_item(item(version=version)) if version < 4 else None
    catalogue.sync_items(
        Kind.DATASET, [item(version=7)], [("digits", version) for version in range(1, 3)]
    )
    assert [stored_item.version for stored_item in catalogue.items(Kind.DATASET)] == [7, 3]


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("optics", True),
        ("GRÖSSE", True),
        ("größe 1", True),
        ("ärger demo", True),
        ("20261121-000001", True),
        ("%_sure", True),
        ("_%", False),
        ("optics nonsense", False),
        ("'; DROP TABLE job; --", False),
    ],
)
def test_m16_a_job_is_found_by_any_words_of_its_texts(
    catalogue: Catalogue, text: str, finds: bool
) -> None:
    catalogue.put_job(job())
    assert bool(catalogue.jobs(text)) == finds


def test_the_newest_jobs_come_first(catalogue: Catalogue) -> None:
    views = [job(number, notes=("even", "odd")[number % 2]) for number in range(50)]
    catalogue.put_jobs(views)
    newest = tuple(sorted(views, key=lambda view: view.created, reverse=True))
    assert catalogue.jobs() == newest
    assert catalogue.jobs(limit=7) == newest[:7]
    assert catalogue.jobs("ODD ziffern", limit=2) == newest[:3:2]


def test_a_forgotten_job_is_gone_from_the_index(catalogue: Catalogue) -> None:
    catalogue.put_jobs(job(number) for number in range(1200))
    catalogue.remove_jobs(job(number).id for number in range(1, 1200))
    assert catalogue.job_ids() == {job(0).id}
    catalogue.remove_jobs([job(0).id, "never there"])
    assert catalogue.jobs() == ()


TEXT = st.text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@example(name="\0", notes="after a NUL", tags=[], metrics={})
@given(TEXT, TEXT, st.lists(TEXT, max_size=3), st.dictionaries(TEXT, st.none() | st.floats()))
def test_any_text_can_be_kept(
    catalogue: Catalogue,
    name: str,
    notes: str,
    tags: list[str],
    metrics: dict[str, float | None],
) -> None:
    catalogue.put_job(job(name=name, notes=notes, tags=tuple(tags), metrics=metrics))
    (stored_job,) = catalogue.jobs()
    assert stored_job.name == name.encode("utf-8", "replace").decode()
    assert len(stored_job.tags) == len(tags)
    assert catalogue.jobs(notes) or not notes.isprintable()


def test_f60_the_value_of_a_jobs_variable_is_not_kept(tmp_path: Path, catalogue: Catalogue) -> None:
    secret = "hf_planted_token"
    config = replace(CONFIG, environment={"HF_TOKEN": secret})
    catalogue.put_job(job(config=config))
    catalogue.close()
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no writer give up: who waits asks every 100 ms, and others may come before each time."""
    monkeypatch.setattr(store, "PATIENCE_S", LIMIT_S)


@pytest.mark.usefixtures("patient")
def test_m22_eight_threads_and_two_catalogues_on_one_file_lose_no_row(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    new_catalogue = [open_catalogue(path), open_catalogue(path)]
    problems: list[BaseException] = []
    barrier = threading.Barrier(8)

    def work(thread: int) -> None:
        catalogue = new_catalogue[thread % 2]
        try:
            barrier.wait()
            for number in range(50):
                catalogue.put_job(job(thread * 1000 + number))
                catalogue.put_item(item(f"set {thread}", number + 1))
                assert catalogue.jobs(job(thread * 1000 + number).id)
                catalogue.jobs(limit=5)
        except BaseException as error:
            problems.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(new_catalogue[0].job_ids()) == 400
    assert len(new_catalogue[1].items(Kind.DATASET)) == 400
    for catalogue in new_catalogue:
        catalogue.close()


@pytest.mark.usefixtures("patient")
def test_m22_a_transaction_that_reads_before_it_writes_waits_its_turn(catalogue: Catalogue) -> None:
    barrier = threading.Barrier(2)
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            barrier.wait()
            for _ in range(50):
                with catalogue._writing() as writer:
                    writer.connection.execute(sql("SELECT count(*) FROM job")).all()
                    writer.connection.execute(sql(f"UPDATE job SET step = {number}"))
        except BaseException as error:
            problems.append(error)
            raise

    catalogue.put_job(job())
    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_f40_a_write_that_waits_too_long_is_a_sentence(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.close()
    monkeypatch.setattr("backend.catalogue.store.PATIENCE_S", 0.2)
    hasty = open_catalogue(catalogue.path)
    other_connection = sqlite3.connect(catalogue.path, isolation_level=None)
    other_connection.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(BackendError, match="locked by another program"):
            hasty.put_job(job())
        assert hasty.jobs() == ()
    finally:
        other_connection.close()
    hasty.put_job(job())
    assert hasty.jobs() == (job(),)
    hasty.close()


def test_f28_a_full_disk_is_a_sentence_and_loses_nothing(catalogue: Catalogue) -> None:
    catalogue.put_job(job())
    with catalogue._engine().connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(BackendError, match="is full"):
        catalogue.put_jobs(job(number, notes="x" * 10_000) for number in range(2, 100))
    assert catalogue.jobs() == (job(),)


def test_connections_keep_no_more_of_the_file_as_jobs_grow_in_number(catalogue: Catalogue) -> None:
    """Negative, as SQLite has it: in KiB, and not in pages."""
    with ExitStack() as stack:
        several = [stack.enter_context(catalogue._reading()) for _ in range(6)]
        cache_sizes = {c.execute("PRAGMA cache_size").fetchone()[0] for c in several}
    assert cache_sizes == {-CACHE_KIB}
