"""All jobs for a window: everything once, then what is new, from any desktop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.datastore.jobs import files as job_files
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobListing, summary_of
from backend.services.context.container import Services, open_services
from backend.services.jobs import feed as job_feed
from backend.services.jobs.feed import JobFeed
from tests.backend.catalogue.catalogue_rig import CONFIG, job
from tests.fakes.command_line import run_command
from tests.job_views import replace_fields


@pytest.fixture
def desktops(tmp_path: Path) -> Iterator[tuple[Services, Services]]:
    """Two on one data root, each with a catalogue of its own."""
    (tmp_path / "root").mkdir()
    opened_services = [open_services(tmp_path / "root", tmp_path / f"{n}.sqlite") for n in range(2)]
    yield opened_services[0], opened_services[1]
    for services in opened_services:
        services.close()


def create(services: Services) -> str:
    return job_files.create_job(services.data_root, CONFIG, {}).id


@pytest.fixture(autouse=True)
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recent jobs are listed whole with each poll; here none is recent, unless a test says so."""
    monkeypatch.setattr(job_feed, "_RECENT_S", -3600)


def ids_of(listing: JobListing) -> set[str]:
    return {j.id for j in (*listing.views, *listing.summaries)}


def test_recent_jobs_are_listed_whole_with_each_poll(desktops, monkeypatch):
    monkeypatch.setattr(job_feed, "_RECENT_S", 3600)
    job_id = create(desktops[0])
    desktops[0].jobs.queries.show(job_id)
    jobs = JobFeed(desktops[0].jobs.queries)
    for _ in range(2):
        assert [view.id for view in jobs.poll().views] == [job_id]


def test_f32_an_empty_mount_point_is_not_taken_for_a_data_root_without_jobs(tmp_path):
    (tmp_path / "root").mkdir()
    paths = (tmp_path / "root", tmp_path / "catalogue.sqlite")
    with closing(open_services(*paths)) as first_services:
        first_services.jobs.queries.show(create(first_services))
        first_services.data_root.jobs.rename(tmp_path / "elsewhere")
    with closing(open_services(*paths)) as second_services:
        for read in (JobFeed(second_services.jobs.queries).poll, second_services.jobs.queries.list):
            with pytest.raises(BackendError, match="is missing") as refusal:
                read()
        assert "is mounted" in refusal.value.remedy
        assert "rescan" in refusal.value.remedy
        second_services.library.rescan()
        assert JobFeed(second_services.jobs.queries).poll().total == 0


def test_only_the_line_of_an_ended_job_is_kept(desktops):
    queries = desktops[0].jobs.queries
    for number in range(20):
        view = job(number, state=JobState.TRAINING)
        queries._update_catalogue(view)
        assert queries._catalogued_states == {view.id: (view.run, JobState.TRAINING)}
        queries._update_catalogue(replace_fields(view, state=JobState.FINISHED))
    assert queries._catalogued_states == {}


def test_the_first_poll_lists_everything_and_the_next_one_nothing(desktops):
    ids = {create(desktops[0]) for _ in range(3)}
    jobs = JobFeed(desktops[0].jobs.queries)
    first = jobs.poll()
    assert (ids_of(first), first.total, first.removed_ids) == (ids, 3, ())
    assert ids_of(jobs.poll()) == set()


def test_a_poll_lists_jobs_that_another_desktop_made_changed_or_removed(desktops):
    local, remote = desktops
    old, going = create(remote), create(remote)
    jobs = JobFeed(local.jobs.queries)
    jobs.poll()
    new = create(remote)
    remote.jobs.annotate(old, name="another name")
    remote.jobs.remove(going)
    listing = jobs.poll()
    assert ids_of(listing) == {old, new}
    assert {view.name for view in listing.views if view.id == old} == {"another name"}
    assert (listing.removed_ids, listing.total) == ((going,), 2)


def test_old_jobs_of_the_catalogue_are_listed_as_lines_equal_to_their_views(desktops):
    services = desktops[0]
    view = job(1, created="2020-01-01T07:00:00Z", updated_at="2020-01-01T09:00:00Z")
    services.catalogue.put_job(view)
    (services.data_root.job(view.id).attempts / "2").mkdir(parents=True)
    listing = JobFeed(services.jobs.queries).poll()
    assert listing.views == ()
    assert listing.summaries == (summary_of(view),)


def test_old_jobs_beyond_the_limit_are_read_in_turn(desktops, monkeypatch):
    monkeypatch.setattr(job_feed, "_NEWEST_JOBS", 2)
    monkeypatch.setattr(job_feed, "_CHECK_BATCH", 1)
    local, remote = desktops
    ids = sorted((create(remote) for _ in range(8)), reverse=True)
    jobs = JobFeed(local.jobs.queries, scan_s=0.0)
    jobs.poll()
    remote.jobs.annotate(ids[-1], name="the oldest")
    polls = next(n for n in range(1, 20) if ids_of(jobs.poll()) == {ids[-1]})
    assert polls <= 8


def test_a_spoiled_folder_hides_no_other_job(desktops):
    good, bad = create(desktops[0]), create(desktops[0])
    desktops[0].data_root.job(bad).config.write_text("name = ")
    assert ids_of(JobFeed(desktops[0].jobs.queries).poll()) == {good}


# What is said about a job.


def test_two_desktops_that_change_different_things_both_have_their_way(desktops):
    local, remote = desktops
    job_id = create(local)
    local.jobs.edit(job_id, "name", "digits", "a")
    remote.jobs.edit(job_id, "tags", (), ("b",))
    view = local.jobs.edit(job_id, "notes", "", "c")
    assert (view.name, view.tags, view.notes) == ("a", ("b",), "c")


def test_an_edit_does_not_replace_a_newer_value_of_another_desktop(desktops):
    local, remote = desktops
    job_id = create(local)
    remote.jobs.edit(job_id, "name", "digits", "theirs")
    with pytest.raises(BackendError, match="The name is now “theirs”, changed by someone else"):
        local.jobs.edit(job_id, "name", "digits", "mine")
    assert local.jobs.queries.show(job_id).name == "theirs"
    assert local.jobs.edit(job_id, "name", "digits", "theirs").name == "theirs", "both meant it so"


@pytest.mark.parametrize(
    ("field", "old_value", "value", "message"),
    [
        ("name", "digits", " ", "Enter a name for the job."),
        ("name", "digits", "a\nb", "line breaks"),
        ("tags", (), ("a,b",), "contains a comma"),
        ("tags", (), ("x" * 101,), "longer than 100 bytes"),
        ("tags", (), tuple(str(n) for n in range(51)), "can have at most 50 tags"),
        ("notes", "", "n" * 100_001, "at most 100 kB"),
        ("notes", "", "\ud800", "cannot be stored"),
    ],
)
def test_an_invalid_edit_is_one_clear_sentence_and_changes_nothing(
    desktops, field, old_value, value, message
):
    job_id = create(desktops[0])
    old_view = desktops[0].jobs.queries.show(job_id)
    with pytest.raises(BackendError, match=message):
        desktops[0].jobs.edit(job_id, field, old_value, value)
    assert desktops[0].jobs.queries.show(job_id) == old_view


def test_tags_are_given_and_taken_beside_those_of_others(desktops):
    local, remote = desktops
    job_id = create(local)
    remote.jobs.retag(job_id, add=["theirs", "old"])
    view = local.jobs.retag(job_id, add=["mine", "theirs"], remove=["old", "never there"])
    assert view.tags == ("theirs", "mine")
    assert view.state is JobState.CREATED


def test_a_jobs_size_is_all_that_lies_in_its_folder(desktops):
    job_id = create(desktops[0])
    folder = desktops[0].data_root.job(job_id)
    old_size = desktops[0].jobs.size_bytes(job_id)
    (folder.logs / "rank-0.log").write_bytes(b"x" * 1000)
    (folder.logs / "link").symlink_to(folder.logs / "rank-0.log")
    assert desktops[0].jobs.size_bytes(job_id) == old_size + 1000


def test_the_command_line_tags_several_jobs_at_once(desktops, capsys):
    ids = [create(desktops[0]) for _ in range(2)]
    assert run_command(desktops[0], "job", "tag", *ids, "--add", "night") == 0
    assert capsys.readouterr().out.splitlines() == [f"{job_id}  digits: night" for job_id in ids]
