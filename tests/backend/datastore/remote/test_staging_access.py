"""Nodes that do not see the data root: what is carried there, what comes back, and when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.datastore.jobs.checkpoint_files import verify
from backend.datastore.remote import staging_access
from backend.node.metrics import heartbeats
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.content import sha256_of, size_of
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.launch import RemoteRun, remote_run_of
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.nodes import health
from backend.records.nodes.preflight import Fix
from backend.records.nodes.reading import Presence
from backend.services.preflight.checks import BY_NAME
from backend.services.preflight.context import JobPreflight, NodePreflight, PreflightTarget
from backend.services.preflight.names import DATA_ROOT
from backend.ssh import persistent_connection
from backend.ssh.interface import Unreachable
from tests.backend.services.access_cases import (
    NODE,
    PAYLOAD,
    FakeHead,
    Heart,
    add_checkpoint,
    on_node,
)
from tests.backend.services.preflight.judging import answered
from tests.backend.services.staged_rig import (
    StagedRun,
    StagedSite,
    files_below,
    open_stocked_desktop,
    start_staged_job,
    state_of,
    wait_until_home,
    wait_until_online,
)
from tests.backend.ssh.sshd_rig import Sshd
from tests.fakes.mounted_root import MOUNTED
from tests.waiting import LIMIT_S, wait_for

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]


@pytest.fixture
def blind(tmp_path: Path, sshd: Sshd, uncounted: None, patient: None) -> Iterator[StagedSite]:
    """With the tiny library in its data root, and an agent that beats."""
    site = StagedSite(tmp_path, sshd)
    heart = Heart(site.remote.path)
    yield site
    heart.stop()
    site.close()


# How the node is.


def test_readings_and_hours_of_a_node_come_over_ssh(blind: StagedSite) -> None:
    services = blind.desktop()
    state = wait_until_online(services)
    assert state.entry is not None
    assert state.entry.is_staged
    assert state.reading is not None
    assert state.reading.cpu.cores > 0
    beat = state.reading.heartbeat
    wait_for(lambda: (now := state_of(services).reading) and now.heartbeat > beat, "a beat")
    remote = blind.remote.node(NODE)
    remote.history.write_bytes(b"{}\n")
    services.nodes.history(NODE)
    assert blind.data.node(NODE).history.read_bytes() == b"{}\n"


def test_an_old_reading_after_a_pause_is_not_taken_for_silence(
    blind: StagedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = blind.desktop()
    state = wait_until_online(services)
    assert state.reading is not None
    heartbeat = state.reading.heartbeat
    wait_for(lambda: read_json(blind.remote.node(NODE).status)["heartbeat"] > heartbeat, "a beat")
    (remote,) = services.data_root.files._remote.values()  # type: ignore[attr-defined]
    wait_for(lambda: not remote._status_thread.is_alive(), "the read before")
    # However busy this machine is.
    monkeypatch.setattr(staging_access, "_AFTER_PAUSE_S", 60.0)
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 600)
    services.nodes._watch._monotonic = time.monotonic
    assert state_of(services).presence is Presence.ONLINE


def test_a_slow_line_is_not_taken_for_silence_at_the_first_reading(
    blind: StagedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No connection is there so soon; the beats may come late.
    monkeypatch.setattr(heartbeats, "missed_after_s", lambda beats: 180.0 if beats else 0.003)
    monkeypatch.setattr(staging_access, "_AFTER_PAUSE_S", 60.0)
    assert state_of(blind.desktop()).presence is Presence.ONLINE


@pytest.mark.slow
def test_two_desktops_fetch_files_and_neither_harms_the_other(blind: StagedSite) -> None:
    first_services, second_services = blind.desktop(), blind.desktop()
    for _ in range(3):
        wait_until_online(first_services)
        wait_until_online(second_services)


def test_a_silent_node_is_shown_offline_and_delays_no_desktop(
    blind: StagedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No poll can wait as long as the line does.
    monkeypatch.setattr(persistent_connection, "SILENCE_S", 10 * LIMIT_S)
    services = blind.desktop()
    wait_until_online(services)
    blind.sshd.freeze()
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)
    wait_for(lambda: state_of(services).presence is Presence.OFFLINE, "silence of the node")
    other_services = blind.desktop()
    assert state_of(other_services).presence is Presence.OFFLINE
    monkeypatch.setattr(persistent_connection, "SILENCE_S", 1.0)
    blind.wire.cut()


# A run.


def test_a_start_stages_the_files_of_the_job(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, _ = start_staged_job(services, blind)
    folder, remote = blind.data.job(view.id), blind.remote.job(view.id)
    for kind in ("models", "loaders", "datasets"):
        local_paths = sorted(p.relative_to(blind.root) for p in (blind.root / kind).rglob("*"))
        remote_paths = sorted(
            p.relative_to(blind.remote.path) for p in (blind.remote.path / kind).rglob("*")
        )
        assert local_paths == remote_paths
    launch = read_json(remote.launch)
    assert launch == read_json(folder.launch)
    assert Path(launch["dataset_files"]).is_relative_to(blind.remote.path)
    assert remote_run_of(folder.attempt(1)) == RemoteRun(NODE)
    assert (remote.logs.is_dir(), remote.checkpoints.is_dir(), remote.attempt(1).path.is_dir()) == (
        True,
        True,
        True,
    )


def test_a_second_start_stages_nothing_again(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    start_staged_job(services, blind)
    previous_files = files_below(blind.remote.datasets) | files_below(blind.remote.models)
    assert previous_files
    start_staged_job(services, blind)
    assert files_below(blind.remote.datasets) | files_below(blind.remote.models) == previous_files


def test_a_cancelled_sending_leaves_nothing_and_claims_nothing(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    FakeHead().instead_of(services)
    view = services.jobs.create(on_node())

    class Cancelling(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            if label.startswith("Sending tiny@1 to gpu1"):
                self.cancel()

    with pytest.raises(Cancelled):
        services.jobs.lifecycle.start(view.id, progress=Cancelling())
    assert services.jobs.queries.show(view.id).state is JobState.CREATED
    assert [p for p in blind.remote.path.rglob("*") if p.is_file() and "nodes" not in p.parts] == []


def test_the_desktop_sees_state_curves_and_checkpoints_of_a_running_job(
    blind: StagedSite,
) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    update = services.jobs.queries.poll(view.id)
    assert (update.view.state, list(update.history.steps)) == (JobState.TRAINING, [1])
    run.train(20)
    name = add_checkpoint(run, 21)
    run.folder.rank_log(0).write_text("hello\n")
    update = services.jobs.queries.poll(view.id, update.cursor)
    assert list(update.history.steps) == list(range(2, 22))
    (record,) = services.jobs.queries.checkpoints(view.id)
    assert (record.name, record.is_latest) == (name, True)
    assert not Path(record.path).exists(), "files come when they are asked for"
    assert services.jobs.queries.log(view.id, 0).text == "hello\n"
    verify(services.data_root.files, record)
    assert Path(record.path).read_bytes() == PAYLOAD


def test_a_stop_request_goes_to_the_node_first(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    assert services.jobs.lifecycle.stop(view.id).state is JobState.STOPPING
    assert read_json(run.folder.stop_request) == read_json(blind.data.job(view.id).stop_request)
    assert services.jobs.lifecycle.stop(view.id).state is JobState.STOPPING


def test_the_end_of_a_run_copies_everything_back(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    run.train(30)
    names = [add_checkpoint(run, step) for step in (10, 30)]
    run.folder.rank_log(0).write_text("hello\n")
    run.folder.tensorboard.mkdir()
    (run.folder.tensorboard / "events.out").write_bytes(b"curves")
    replace_json(run.folder.attempt(1).environment, {})
    run.end_with(JobState.FINISHED)
    assert services.jobs.queries.wait(view.id).state is JobState.FINISHED
    local_job = blind.data.job(view.id)
    wait_until_home(local_job)
    blind.wire.cut()
    assert (local_job.tensorboard / "events.out").read_bytes() == b"curves"
    assert local_job.rank_log(0).read_text() == "hello\n"
    assert local_job.attempt(1).environment.exists()
    assert len(services.jobs.queries.history(view.id).steps) == 31
    checkpoints = services.jobs.queries.checkpoints(view.id)
    assert [checkpoint.name for checkpoint in checkpoints] == names
    for checkpoint in checkpoints:
        verify(MOUNTED, checkpoint)


SCRIPT_FILES = (
    "output/model.pt",
    "output/checkpoint-4",
    "output/deep/best.ckpt",
    "work/1/gpu1/script/checkpoint.pth.tar",
    "work/1/gpu1/script/runs/checkpoint-3",
    "work/1/gpu1/script/a/b/last.pt",
)


def of_script(run: StagedRun) -> list[str]:
    """Checkpoints that a script wrote at six places, files and folders."""
    for number, file in enumerate(SCRIPT_FILES, 1):
        path = run.folder.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = [path]
        if "checkpoint-" in file:
            path.mkdir()
            parts = [path / "weights.bin", path / "step.txt"]
        for part in parts:
            part.write_bytes(PAYLOAD + part.name.encode())
        add_checkpoint(run, number)
        sidecar = run.folder.checkpoints / f"epoch-0001-step-{number:06d}.json"
        sidecar.with_suffix(".pt").unlink()
        size, sha256 = size_of(path), sha256_of(path, lambda _: None)
        replace_json(sidecar, {**read_json(sidecar), "file": file, "bytes": size, "sha256": sha256})
    return [checkpoint.name for checkpoint in read_checkpoints(run.folder.checkpoints, ".json")]


def test_checkpoints_of_a_script_are_fetched_from_its_own_folders(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    names = of_script(run)
    for checkpoint in services.jobs.queries.checkpoints(view.id)[1:5:3]:
        assert not Path(checkpoint.path).exists()
        verify(services.data_root.files, checkpoint)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    wait_until_home(blind.data.job(view.id))
    blind.wire.cut()
    checkpoints = services.jobs.queries.checkpoints(view.id)
    assert [checkpoint.name for checkpoint in checkpoints] == names
    for checkpoint in checkpoints:
        verify(MOUNTED, checkpoint)


@pytest.mark.slow
def test_a_script_that_resumes_knows_its_checkpoints_and_replaces_them(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    names = of_script(run)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    wait_until_home(blind.data.job(view.id))
    # Another disk was put into the node.
    for path in sorted(blind.remote.jobs.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    view = services.jobs.lifecycle.resume(view.id, names[4])
    run = StagedRun(blind, view)
    assert [
        checkpoint.name for checkpoint in read_checkpoints(run.folder.checkpoints, ".json")
    ] == names
    assert (run.folder.path / SCRIPT_FILES[4] / "weights.bin").exists()
    assert (run.folder.path / SCRIPT_FILES[0]).exists()
    # It writes the first one again; of those in its working folder it has one.
    for name in (names[0], names[3]):
        (run.folder.checkpoints / f"{name}.json").unlink()
    assert [checkpoint.name for checkpoint in services.jobs.queries.checkpoints(view.id)] == names[
        1:
    ]


@pytest.mark.slow
def test_a_window_that_only_reads_copies_the_checkpoint_back(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    add_checkpoint(run, 1)
    run.end_with(JobState.INTERRUPTED)
    assert services.jobs.queries.show(view.id).state is JobState.INTERRUPTED
    wait_until_home(blind.data.job(view.id))
    (record,) = services.jobs.queries.checkpoints(view.id)
    verify(MOUNTED, record)


@pytest.mark.slow
def test_pruning_by_rank_0_removes_local_copies_of_its_run_only(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    first = add_checkpoint(run, 1)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    view = services.jobs.lifecycle.resume(view.id)
    run = StagedRun(blind, view)
    second, third = add_checkpoint(run, 2), add_checkpoint(run, 3)
    assert [checkpoint.name for checkpoint in services.jobs.queries.checkpoints(view.id)] == [
        first,
        second,
        third,
    ]
    for name in (first, second):
        for suffix in (".json", ".pt"):
            (run.folder.checkpoints / name).with_suffix(suffix).unlink()
    # The folder changes within the second in which it was read; a read knows that.
    assert [checkpoint.name for checkpoint in services.jobs.queries.checkpoints(view.id)] == [
        first,
        third,
    ]


def test_a_resume_sends_only_missing_files(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    run.train(5)
    name = add_checkpoint(run, 6)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    checkpoint = run.folder.checkpoints / f"{name}.pt"
    previous_files = files_below(run.folder.checkpoints) | files_below(run.folder.output)
    view = services.jobs.lifecycle.resume(view.id)
    assert read_json(run.folder.launch)["resume_from"] == str(checkpoint)
    assert files_below(run.folder.checkpoints) | files_below(run.folder.output) == previous_files

    run = StagedRun(blind, view)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    # Another disk was put into the node.
    for path in sorted(blind.remote.jobs.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    view = services.jobs.lifecycle.resume(view.id)
    assert checkpoint.read_bytes() == PAYLOAD
    assert run.folder.history.read_bytes() == blind.data.job(view.id).history.read_bytes()


@pytest.mark.slow
def test_starting_over_empties_the_folders_on_the_node_too(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    add_checkpoint(run, 1)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    services.jobs.lifecycle.start(view.id, start_over=True)
    assert not any(run.folder.checkpoints.iterdir())
    assert not any(run.folder.output.iterdir())
    assert (
        len(list((blind.data.job(view.id).started_over_runs / "1" / "checkpoints").iterdir())) == 3
    )


# What goes wrong.


def test_a_job_on_a_silent_node_is_shown_as_last_seen(
    blind: StagedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    run.train(5)
    update = services.jobs.queries.poll(view.id)
    blind.wire.cut()
    silent = services.jobs.queries.poll(view.id, update.cursor).view
    assert (silent.state, silent.step) == (JobState.TRAINING, 6)
    assert silent.contact_warning.startswith("no news since ")
    # It is not refused any more, but not answered either, which takes a while to be believed.
    blind.sshd.freeze()
    blind.wire.repair()
    monkeypatch.setattr(persistent_connection, "SILENCE_S", 1.0)
    other_services = blind.desktop()
    view_elsewhere = other_services.jobs.queries.show(view.id)
    assert (view_elsewhere.state, view_elsewhere.step) == (JobState.TRAINING, 6)
    with pytest.raises(Unreachable):
        services.jobs.lifecycle.stop(view.id)
    assert not blind.data.job(view.id).attempt(1).exit.exists()


@pytest.mark.slow
def test_the_desktop_keeps_a_history_that_the_node_lost(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    run.train(5)
    services.jobs.queries.poll(view.id)
    run.folder.history.unlink()
    assert len(services.jobs.queries.history(view.id).steps) == 6


@pytest.mark.slow
def test_uncopied_files_are_set_aside_before_another_run(
    blind: StagedSite,
) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    name = add_checkpoint(run, 1)
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    view = services.jobs.lifecycle.resume(view.id)
    run = StagedRun(blind, view)
    lost_checkpoint = add_checkpoint(run, 2)
    # A later run went on elsewhere while this node was away.
    run.end_with(JobState.INTERRUPTED)
    local_job = blind.data.job(view.id)
    replace_json(local_job.attempt(2).exit, read_json(run.folder.attempt(2).exit))
    local_job.attempt(3).path.mkdir()
    replace_json(local_job.attempt(3).exit, {**read_json(local_job.attempt(2).exit), "run": 3})
    view = services.jobs.lifecycle.resume(view.id)
    assert view.run == 4
    assert {p.stem for p in run.folder.checkpoints.glob("*.pt")} == {name}
    (renamed_folder,) = blind.remote.trash.iterdir()
    assert (renamed_folder / "checkpoints" / f"{lost_checkpoint}.pt").exists()


def test_nodes_of_two_kinds_and_the_queue_are_refused(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    wait_until_online(services)
    mixed = [{"node": NODE, "processes": 1}, {"node": "this-computer", "processes": 1}]
    (config_error,) = services.jobs.check(on_node(placement=mixed)).errors
    assert "this-computer sees the data root and gpu1 does not" in config_error.message
    (config_error,) = services.jobs.check(on_node(on_failure={"retries": 1})).errors
    assert (
        "gpu1 does not see the data root, so no node can continue the job" in config_error.message
    )
    view = services.jobs.create(on_node())
    with pytest.raises(BackendError, match="gpu1 does not see the data root, and so not the queue"):
        services.queue.enqueue(view.id)


def test_preflight_offers_a_fix_where_a_node_does_not_see_the_data_root() -> None:
    mounted_target = PreflightTarget(
        "gpu2", Placement("gpu2", 1), "", "", "", "", "/lab/ring", "/home/lab", is_head=True
    )
    blind = replace(
        mounted_target, node=NODE, data_root="/home/lab/.ringmaster/carried/ab", no_share=True
    )
    for head, other_target in ((mounted_target, blind), (blind, mounted_target)):
        nodes = tuple(NodePreflight(target.placement, target) for target in (head, other_target))
        job = JobPreflight("", "", nodes)
        (result,) = (target for judge in BY_NAME[DATA_ROOT].job_judges for target in judge(job))
        assert "gpu1 does not see the data root and gpu2 does" in result.message
        finding = BY_NAME[DATA_ROOT].finding(result)
        assert (finding.nodes, finding.fix) == ((other_target.node,), Fix.LEAVE_OUT)
    lost_reply = {"there": False, "seen": False, "why": "", "free": None}
    for reply in (None, lost_reply):
        findings = [
            target for target in answered(blind, data_root=reply) if target.check == DATA_ROOT
        ]
        assert [target.fix for target in findings] == [Fix.SET_UP_AGAIN]
        assert "gpu1 cannot read the staged files in" in findings[0].message


def test_a_desktop_with_the_data_root_over_ssh_cannot_stage(
    blind: StagedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = open_stocked_desktop(blind)
    wait_until_online(services)
    view = services.jobs.create(on_node())
    blind.address = RemoteRoot("lab", str(blind.root))
    remote = blind.desktop()
    FakeHead().instead_of(remote)
    desktops = (services, remote)
    with monkeypatch.context() as patch:
        # The first poll of the other desktop waits for a heartbeat that this one has yet to fetch.
        patch.setattr(health, "_SHORTEST_S", 1.0)
        wait_for(
            lambda: {state_of(services).presence for services in desktops} == {Presence.ONLINE},
            "what the other one fetches",
        )
    with pytest.raises(BackendError, match="gpu1 does not see the data root, and this computer"):
        remote.jobs.lifecycle.start(view.id)
    assert remote.jobs.queries.show(view.id).state is JobState.CREATED
    with pytest.raises(BackendError, match="reaches the data root over SSH itself"):
        remote.cluster.add("gpu2", blind.sshd.address, accept=lambda _: True, is_staged=True)


def test_a_node_with_the_only_copy_of_a_run_is_not_cleared(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, _ = start_staged_job(services, blind)
    with pytest.raises(BackendError, match=f"The results of the job {view.id} are on gpu1"):
        services.provisioning.un_provision(NODE)
    assert blind.remote.job(view.id).path.exists()


def test_a_keep_mark_is_also_on_the_node_that_prunes(blind: StagedSite) -> None:
    services = open_stocked_desktop(blind)
    view, run = start_staged_job(services, blind)
    name = add_checkpoint(run, 4)
    services.jobs.keep(view.id, name)
    assert (run.folder.checkpoints / f"{name}.keep").exists()
    run.end_with(JobState.INTERRUPTED)
    services.jobs.queries.wait(view.id)
    wait_until_home(blind.data.job(view.id))
    StagedRun(blind, services.jobs.lifecycle.resume(view.id))
    assert (run.folder.checkpoints / f"{name}.keep").exists(), "and for the next run, too"
    services.jobs.keep(view.id, name, is_kept=False)
    assert not (run.folder.checkpoints / f"{name}.keep").exists()
    assert not any(checkpoint.is_kept for checkpoint in services.jobs.queries.checkpoints(view.id))
