"""Jobs on a data root that is mounted and on one that is reached over SFTP: the same behaviour."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs import history
from backend.records.jobs.state import JobState
from backend.records.jobs.status import LOSS_DIVERGED, RankError, RunExit
from backend.records.jobs.view import ALL_LOGS, JobView, earlier_log
from backend.services.context.container import Services
from backend.services.tools import tool_process
from tests.backend.services.access_cases import (
    PAYLOAD,
    Beat,
    DataSite,
    FakeHead,
    RemoteRun,
    add_checkpoint,
    on_node,
    start_job,
)
from tests.integration.conftest import is_training

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")


def test_a_job_is_made_found_annotated_and_removed(site: DataSite, beat: Beat) -> None:
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    beat(site)
    view = first.jobs.create(on_node(name="first"))
    assert [path.name for path in (site.root / "jobs").iterdir()] == [view.id]
    assert second.jobs.queries.show(view.id) == view
    assert [job.id for job in second.jobs.queries.list()] == [view.id]
    assert second.jobs.queries.find("first") == view.id
    first.jobs.annotate(view.id, name="second", tags=("a",))
    (listed_view,) = second.jobs.queries.list()
    assert (listed_view.name, listed_view.tags) == ("second", ("a",))
    assert second.jobs.clone(view.id)["model"] == "tiny@1"
    assert first.jobs.remove(view.id).id == view.id
    assert (site.root / "trash" / "jobs" / view.id / "config.toml").exists()
    assert second.jobs.queries.list() == ()
    with pytest.raises(BackendError, match="There is no job"):
        second.jobs.queries.show(view.id)
    with pytest.raises(BackendError, match="There is no job"):
        second.jobs.queries.poll(view.id)


def test_a_job_is_restored_whole_from_the_trash_for_both_desktops(
    site: DataSite, beat: Beat
) -> None:
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    beat(site)
    view, run = start_job(site, first)
    add_checkpoint(run, 4)
    run.end_with(JobState.INTERRUPTED)
    folder = site.data.job(view.id).path

    def content() -> dict[str, bytes]:
        files = (p for p in folder.rglob("*") if p.is_file() and p.parent.name != "acts")
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    old_content = content()
    assert second.jobs.queries.show(view.id).state is JobState.INTERRUPTED
    first.jobs.remove(view.id)
    assert not folder.exists()
    assert second.jobs.queries.list() == ()
    assert first.jobs.restore(view.id).state is JobState.INTERRUPTED
    assert content() == old_content
    assert [job.id for job in second.jobs.queries.list()] == [view.id]
    assert [c.name for c in second.jobs.queries.checkpoints(view.id)]
    with pytest.raises(BackendError, match=r"There is no job .* in the trash"):
        first.jobs.restore(view.id)
    with pytest.raises(BackendError, match=r"There is no job .* in the trash"):
        first.jobs.restore("../jobs")


def test_only_one_of_two_desktops_starts_a_job(site: DataSite, beat: Beat) -> None:
    head = FakeHead()
    desktops = [site.desktop(), site.desktop()]
    site.stock(desktops[0])
    beat(site)
    view = desktops[0].jobs.create(on_node())
    for services in desktops:
        head.instead_of(services)
        services.jobs.queries.show(view.id)
    barrier = threading.Barrier(2)

    def start(services: Services) -> JobView:
        barrier.wait()
        return services.jobs.lifecycle.start(view.id)

    with ThreadPoolExecutor(2) as pool:
        views = list(pool.map(start, desktops))
    assert head.started == [(view.id, 1, str(site.root))]
    assert [v.run for v in views] == [1, 1]
    folder = site.data.job(view.id)
    assert [path.name for path in folder.attempts.iterdir()] == ["1"]
    launch = read_json(folder.launch)
    assert launch["model_source"] == str(site.root / "models" / "tiny" / "v1" / "src")
    assert read_json(folder.status)["state"] == "STARTING"


def test_a_run_is_followed_stopped_and_over(site: DataSite, beat: Beat) -> None:
    services, second = site.desktop(), site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    update = services.jobs.queries.poll(view.id)
    assert (update.view.state, update.view.step) == (JobState.TRAINING, 1)
    assert list(update.history.steps) == [1]
    for steps in (3, 1, 200):
        run.train(steps)
        first_step = run.step - steps
        update = services.jobs.queries.poll(view.id, update.cursor)
        assert update.view.step == run.step
        assert list(update.history.steps) == list(range(first_step + 1, run.step + 1))
    assert list(second.jobs.queries.history(view.id).steps) == list(range(1, run.step + 1))
    assert second.jobs.lifecycle.stop(view.id).state is JobState.STOPPING
    assert read_json(run.folder.stop_request)["run"] == 1
    requested = run.folder.stop_request.read_bytes()
    assert services.jobs.lifecycle.stop(view.id).state is JobState.STOPPING
    assert run.folder.stop_request.read_bytes() == requested
    run.end_with(JobState.INTERRUPTED)
    assert services.jobs.queries.poll(view.id, update.cursor).view.state is JobState.INTERRUPTED
    assert [job.state for job in second.jobs.queries.list()] == [JobState.INTERRUPTED]


def test_a_huge_history_is_read_up_to_a_limit_that_is_shown(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LIMIT_BYTES", 3_000_000)
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    run.train(10)
    update = services.jobs.queries.poll(view.id)
    assert (len(update.history.steps), update.history.problems) == (10 + 1, ())
    with run.folder.history.open("r+b") as file:
        file.truncate(10_000_000_000)
    bytes_before = site.wire.came_bytes
    for _ in range(3):
        update = services.jobs.queries.poll(view.id, update.cursor)
        assert (len(update.history.steps), update.history.problems) == (0, ())
    assert site.wire.came_bytes - bytes_before < 4_000_000
    (problem,) = services.jobs.queries.history(view.id).problems
    assert problem == "The history is larger than 1 GB; the rest is not shown."


def test_no_run_resumes_without_a_preflight_check(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    add_checkpoint(run, 4)
    record = RunExit(1, JobState.INTERRUPTED, "Stopped.", ended_at="2026-11-21T07:31:00Z")
    replace_json(run.folder.attempt(1).exit, record.to_dict())

    def refuse(*_: object) -> None:
        raise BackendError("The disk is full.")

    monkeypatch.setattr(services.preflight, "require", refuse)
    with pytest.raises(BackendError, match=r"^The disk is full\.$"):
        services.jobs.lifecycle.resume(view.id)
    assert services.jobs.queries.show(view.id).run == 1


@pytest.mark.parametrize(
    ("early_finish", "message"),
    [
        ("Converged at step 9 of 40.", "has finished. Converged at step 9 of 40."),
        ("", "has done all its 4 epochs."),
    ],
)
def test_a_finished_job_does_not_resume_and_says_why(
    site: DataSite, beat: Beat, early_finish: str, message: str
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    add_checkpoint(run, 4)
    run.end_with(JobState.FINISHED)
    run.set_state(JobState.FINISHED, early_finish=early_finish)
    with pytest.raises(BackendError) as refusal:
        services.jobs.lifecycle.resume(view.id)
    assert refusal.value.message == f"The job {view.id} {message}"


def test_a_job_with_a_rising_loss_resumes_from_before_the_rise(site: DataSite, beat: Beat) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    names = [add_checkpoint(run, step) for step in (4, 7, 9)]
    error = RankError("The loss is 9.", 0, cause=LOSS_DIVERGED, sound_step=8)
    record = RunExit(1, JobState.ERROR, "The loss is 9.", error, ended_at="2026-11-21T07:31:00Z")
    replace_json(run.folder.attempt(1).exit, record.to_dict())
    assert services.jobs.lifecycle.resume(view.id).run == 2
    launch = read_json(run.folder.launch)
    assert launch["resume_from"] == str(run.folder.checkpoints / f"{names[1]}.pt")
    acts = [act.action for act in services.jobs.audit_entries(view.id)]
    assert f"Resumed from the last good checkpoint, {names[1]}" in acts


def test_a_checkpoint_with_nan_is_refused_and_the_one_before_is_taken(
    site: DataSite, beat: Beat
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    sound, bad = add_checkpoint(run, 4), add_checkpoint(run, 7, not_finite="layer.bias")
    record = RunExit(1, JobState.ERROR, "It failed.", None, ended_at="2026-11-21T07:31:00Z")
    replace_json(run.folder.attempt(1).exit, record.to_dict())
    marks = {c.name: (c.is_latest, c.is_best) for c in services.queries.checkpoints(view.id)}
    assert marks == {sound: (True, True), bad: (False, False)}
    with pytest.raises(BackendError, match=r"infinite numbers, in layer\.bias") as info:
        services.jobs.lifecycle.resume(view.id, checkpoint=bad)
    assert sound in info.value.remedy
    assert services.jobs.lifecycle.resume(view.id).run == 2
    assert sound in read_json(run.folder.launch)["resume_from"]


def test_a_stopped_job_is_resumed_with_changes_and_started_over(site: DataSite, beat: Beat) -> None:
    services, second = site.desktop(), site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    name = add_checkpoint(run, 4)
    add_checkpoint(run, 7)
    second.jobs.lifecycle.stop(view.id)
    run.end_with(JobState.INTERRUPTED)
    cursor = second.jobs.queries.poll(view.id).cursor
    (run.folder.checkpoints / "epoch-0001-step-000007.pt").write_bytes(b"x" * len(PAYLOAD))
    with pytest.raises(BackendError, match="is damaged") as caught:
        services.jobs.lifecycle.resume(view.id)
    assert name in caught.value.remedy
    smaller = view.config.batch_size // 2
    slower = view.config.optimizer.lr / 10
    for changes, refusal in (
        ({"batch_size": 0}, "Batch size, per process must be between 1 and"),
        ({"epochs": 9}, "Epochs cannot change when a job is resumed."),
    ):
        with pytest.raises(BackendError, match=refusal):
            services.jobs.lifecycle.resume(view.id, name, changes=changes)
    changed = services.jobs.lifecycle.resume(
        view.id, name, changes={"batch_size": smaller, "optimizer.lr": slower}
    )
    assert (changed.run, changed.config.batch_size) == (2, smaller)
    shown_config = second.jobs.queries.show(view.id).config
    assert (shown_config.batch_size, shown_config.optimizer.lr) == (smaller, slower), "from now on"
    # Older versions read these keys, too.
    assert read_json(run.folder.placement).keys() >= {"placement", "batch_size", "learning_rate"}
    launch = read_json(run.folder.launch)
    assert launch["config"]["batch_size"] == smaller
    assert launch["config"]["optimizer"]["lr"] == slower
    assert launch["resume_from"] == str(run.folder.checkpoints / f"{name}.pt")
    changes = [job_run.changes for job_run in second.jobs.queries.runs(view.id)]
    assert changes == [f"Batch size, per process: {smaller}; Learning rate: {slower}", ""]
    act = second.jobs.audit_entries(view.id)[0].action
    assert f" with Batch size, per process {view.config.batch_size} → {smaller}, Learn" in act
    assert not run.folder.stop_request.exists()
    resumed = RemoteRun(site, services.jobs.queries.show(view.id))
    resumed.end_with(JobState.INTERRUPTED)
    assert services.jobs.lifecycle.start(view.id, start_over=True).run == 3
    assert sorted(path.name for path in run.folder.started_over_runs.iterdir()) == ["2"]
    second_run = RemoteRun(site, services.jobs.queries.show(view.id))
    second_run.train(2)
    update = second.jobs.queries.poll(view.id, cursor)
    assert (update.view.run, update.view.step) == (3, 3)
    assert (update.history.drop_from, list(update.history.steps)) == (0, [1, 2, 3])
    assert second.jobs.queries.checkpoints(view.id) == ()


def test_m10_a_run_that_starting_over_put_away_keeps_its_curves_and_its_log(
    site: DataSite, beat: Beat
) -> None:
    services, second = site.desktop(), site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    run.train(3)
    run.folder.rank_log(0).write_text("of run 1\n")
    services.jobs.lifecycle.stop(view.id)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.lifecycle.start(view.id, start_over=True)
    second_run = RemoteRun(site, services.jobs.queries.show(view.id))
    second_run.train(1)
    second_run.folder.rank_log(0).write_text("of run 2\n")
    newest, first = second.jobs.queries.runs(view.id)
    assert (newest.number, newest.put_away, newest.state) == (2, 0, JobState.TRAINING)
    assert (first.number, first.put_away, first.state) == (1, 1, JobState.INTERRUPTED)
    assert (first.first_step, first.last_step, newest.last_step) == (1, 4, 2)
    assert first.ended_at
    earlier_run = second.jobs.queries.earlier_run(view.id, 1)
    assert (earlier_run.view.state, earlier_run.view.step) == (JobState.INTERRUPTED, 4)
    assert list(earlier_run.history.steps) == [1, 2, 3, 4]
    assert list(second.jobs.queries.history(view.id, 1).steps) == [1, 2, 3, 4]
    assert list(second.jobs.queries.history(view.id, 2).steps) == [1, 2]
    assert second.jobs.queries.log(view.id, 0, run=1).text == "of run 1\n"
    assert second.jobs.queries.log(view.id, 0, run=2).text == "of run 2\n"
    for source in ("0", ALL_LOGS):
        key = earlier_log(view.id, 1)
        assert second.logs.read_size(key, source).lines == 1
        assert second.logs.lines(key, source, 0, 9).lines == ("of run 1",)
    with pytest.raises(BackendError, match="has no run 3"):
        second.jobs.queries.earlier_run(view.id, 3)


def test_checkpoints_are_listed_and_one_is_carried_away(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    assert services.jobs.queries.checkpoints(view.id) == ()
    names = [add_checkpoint(run, step) for step in (2, 5, 9)]
    (run.folder.checkpoints / "epoch-0001-step-000010.json").write_text("{}")
    checkpoints = services.jobs.queries.checkpoints(view.id)
    assert [c.name for c in checkpoints] == names
    assert [c.is_latest for c in checkpoints] == [False, False, True]
    assert checkpoints[0].path.endswith(str(run.folder.checkpoints / f"{names[0]}.pt"))
    (run.folder.checkpoints / f"{names[0]}.pt").unlink()
    assert [c.name for c in services.jobs.queries.checkpoints(view.id)] == names[1:]
    exported_paths: list[Path] = []

    def export(checkpoint: Path, form: str, output: Path, model: Path, *_: Path, **options: object):
        exported_paths.extend((checkpoint, model))
        assert options["history"] is not None
        output.write_bytes(checkpoint.read_bytes())

    monkeypatch.setattr(tool_process, "export", export)
    target = tmp_path / "out.pt"
    assert services.jobs.export(view.id, "latest", "pt", target) == target
    assert target.read_bytes() == PAYLOAD
    assert (exported_paths[0].with_suffix(".json").exists(), exported_paths[1].name) == (
        True,
        "src",
    )


def test_a_log_is_read_in_pieces_and_from_its_end(site: DataSite, beat: Beat) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    assert services.jobs.queries.log(view.id, 0).text == ""
    log = run.folder.rank_log(0)
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))
    tail = services.jobs.queries.log(view.id, 0, offset=-30)
    assert tail.text == "line 99998\nline 99999\n"
    with log.open("a") as file:
        file.write("and more\n")
    assert services.jobs.queries.log(view.id, 0, offset=tail.offset).text == "and more\n"
    with pytest.raises(BackendError, match="has no rank 1"):
        services.jobs.queries.log(view.id, 1)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_job_trains_on_a_node_stops_and_resumes(site: DataSite, beat: Beat) -> None:
    services, second = site.desktop(), site.desktop()
    site.stock(services)
    beat(site)
    job = on_node(epochs=100_000, environment={"PAUSE_S": "0.002"})
    view = services.jobs.create(job)
    services.jobs.lifecycle.start(view.id)
    services.jobs.queries.wait(view.id, is_finished=is_training)
    assert second.jobs.lifecycle.stop(view.id).state in (JobState.STOPPING, JobState.INTERRUPTED)
    view = services.jobs.queries.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    assert services.jobs.queries.checkpoints(view.id)[-1].step == view.step
    second.jobs.lifecycle.resume(view.id)
    running_view = services.jobs.queries.wait(
        view.id,
        is_finished=lambda now: (now.run == 2 and now.step > view.step) or now.state.is_over,
    )
    assert (running_view.run, running_view.error) == (2, None)
    services.jobs.lifecycle.stop(view.id)
    view = second.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(second.jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))


def test_both_desktops_see_a_checkpoint_with_a_keep_mark(site: DataSite, beat: Beat) -> None:
    first_desktop, second_desktop = site.desktop(), site.desktop()
    site.stock(first_desktop)
    beat(site)
    view, run = start_job(site, first_desktop)
    first, second = add_checkpoint(run, 4), add_checkpoint(run, 8)
    kept_checkpoint = first_desktop.jobs.keep(view.id, first)
    assert kept_checkpoint.is_kept
    assert site.data.job(view.id).checkpoints.joinpath(f"{first}.keep").exists(), (
        "where rank 0 sees it"
    )
    assert {c.name: c.is_kept for c in second_desktop.jobs.queries.checkpoints(view.id)} == {
        first: True,
        second: False,
    }
    assert not second_desktop.jobs.keep(view.id, first, is_kept=False).is_kept
    assert not any(c.is_kept for c in first_desktop.jobs.queries.checkpoints(view.id))
    whats = [act.action for act in second_desktop.jobs.audit_entries(view.id)]
    assert whats == [
        f"No longer always kept: {first}",
        f"Always kept: {first}",
        "Started",
        "Created",
    ]


def test_a_just_pruned_checkpoint_cannot_be_kept(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = site.desktop()
    site.stock(services)
    beat(site)
    view, run = start_job(site, services)
    first = add_checkpoint(run, 4)
    add_checkpoint(run, 8)
    mark = services.data_root.files.replace_json

    def replace_after_pruning(path: Path, value: object) -> None:
        for suffix in (".json", ".pt"):
            (run.folder.checkpoints / first).with_suffix(suffix).unlink()
        mark(path, value)

    monkeypatch.setattr(services.data_root.files, "replace_json", replace_after_pruning)
    with pytest.raises(BackendError, match="has just removed the checkpoint"):
        services.jobs.keep(view.id, first)
    assert list(run.folder.checkpoints.glob("*.keep")) == []


def test_every_desktop_shows_the_actions_of_all_users(site: DataSite, beat: Beat) -> None:
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    beat(site)
    view, _ = start_job(site, first)
    first.jobs.annotate(view.id, name="renamed", tags=("a", "b"))
    for notes in ("w", "wo", "word"):
        first.jobs.annotate(view.id, notes=notes)
    second.jobs.lifecycle.stop(view.id)
    second.jobs.lifecycle.stop(view.id)
    acts = second.jobs.audit_entries(view.id)
    assert [act.action for act in acts[:3]] == ["Stopped", "Notes changed", "Tags changed to a, b"]
    assert acts[3].action.startswith("Name changed from “")
    assert [act.action for act in acts[4:]] == ["Started", "Created"]
    assert acts[0].message == f"Stopped by {acts[0].user} on {acts[0].host}"


def test_every_desktop_reads_the_ledger_also_of_a_job_that_another_one_removed(
    site: DataSite, beat: Beat
) -> None:
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    beat(site)
    view, run = start_job(site, first)
    run.end_with(JobState.INTERRUPTED)
    path = site.data.job(view.id).attempt(1).exit
    nodes = [{"node": "gpu01", "gpus": 2, "energy_j": 3.6e6, "idle_share": 0.25}]
    replace_json(path, {**read_json(path), "took_s": 60.0, "nodes": nodes})
    for desktop in (first, second):
        desktop.queries.list()
        (usage,) = desktop.usage.read().runs
        assert (usage.job_id, usage.took_s, usage.nodes[0].gpus) == (view.id, 60.0, 2)
    first.jobs.remove(view.id)
    second.queries.list()
    assert first.usage.read().runs == second.usage.read().runs == (usage,)


def test_the_owner_learns_what_another_user_does_with_a_job_and_may_forbid_it(
    site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = site.desktop(), site.desktop()
    monkeypatch.setenv("LOGNAME", "anna")
    site.stock(first)
    beat(site)
    view, run = start_job(site, first)
    monkeypatch.setenv("LOGNAME", "ben")
    second.jobs.lifecycle.stop(view.id, "the GPUs are needed")
    second.jobs.annotate(view.id, name="renamed")
    assert second.notifications.take_notices() == ()
    monkeypatch.setenv("LOGNAME", "anna")
    notices = first.notifications.take_notices()
    assert [notice.message.partition(" (")[0] for notice in notices] == [
        "Stopped: the GPUs are needed",
        f"Name changed from “{view.name}” to “renamed”",
    ]
    assert second.notifications.take_notices() == ()

    # anna sets the rule: ben may not end her jobs any more, and changes nothing.
    assert first.jobs.set_owner_rule(is_set=True) is not None
    monkeypatch.setenv("LOGNAME", "ben")

    def refuse(*acts: Callable[[str], object]) -> None:
        for act in acts:
            with pytest.raises(BackendError, match="belongs to anna"):
                act(view.id)

    refuse(second.jobs.lifecycle.stop, second.jobs.lifecycle.kill)
    run.end_with(JobState.INTERRUPTED)
    refuse(second.jobs.remove, second.queue.dequeue)
    assert (site.root / "jobs" / view.id).exists()
    # Of a mounted folder the owner is known, and may.
    if not site.is_mounted:
        with pytest.raises(BackendError, match="Only anna, who set this, can change it"):
            second.jobs.set_owner_rule(is_set=False)
    monkeypatch.setenv("LOGNAME", "anna")
    assert first.jobs.set_owner_rule(is_set=False) is None
    monkeypatch.setenv("LOGNAME", "ben")
    second.jobs.remove(view.id, "it is old")
    monkeypatch.setenv("LOGNAME", "anna")
    (notice,) = first.notifications.take_notices()
    assert (notice.job_id, notice.name) == (view.id, "renamed")
    assert notice.message.startswith("Moved to the trash: it is old (by ben")
    assert first.jobs.restore(view.id).name == "renamed"
    assert first.jobs.audit_entries(view.id)[0].action == "Moved back from the trash"
