"""The same behaviour with a data root that is mounted and with one that is reached over SFTP."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.cli.run import run as cli
from backend.cluster.shell import HostKeyUnknown, Unreachable
from backend.datastore.job_files import clear_old_wish
from backend.errors import BackendError, Cancelled
from backend.node.past import Past
from backend.progress import Progress
from backend.records.checkpoint import Checkpoint
from backend.records.far_root import FarRoot
from backend.records.files import read_json, replace_json
from backend.records.job import parse_job
from backend.records.job_view import JobView, RunUpdate
from backend.records.layout import DataRoot
from backend.records.library import Kind
from backend.records.node import NodeReading, Presence
from backend.records.state import JobState
from backend.services import tool_process
from backend.services.workplace import Services, open_services
from tests.backend.services.both_ways import (
    NODE,
    FakeHead,
    FarRun,
    Heart,
    Place,
    on_node,
)
from tests.fakes.runs import wait_for
from tests.integration.conftest import is_training
from tests.integration.tiny import raw_job

pytest_plugins = [
    "tests.backend.cluster.sshd_fixtures",
    "tests.backend.services.both_ways_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")

Beat = Callable[[Place], Heart]
PAYLOAD = b"weights" * 1000


def started(place: Place, services: Services) -> tuple[JobView, FarRun]:
    """A job that was started, and what runs it."""
    FakeHead().instead_of(services)
    view = services.jobs.start(services.jobs.create(on_node()).id)
    return view, FarRun(place, view)


def add_checkpoint(run: FarRun, step: int, content: bytes = PAYLOAD) -> str:
    name = f"epoch-0001-step-{step:06d}"
    folder = run.folder.checkpoints
    (folder / f"{name}.pt").write_bytes(content)
    record = Checkpoint(
        name=name,
        run=run.run,
        epoch=1,
        step=step,
        epoch_step=step,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        config_sha256="",
        created="2026-11-21T07:30:00Z",
        metrics={"validation/loss": 1.0 / step},
    )
    replace_json(folder / f"{name}.json", record.to_sidecar())
    replace_json(run.folder.latest, {"name": name})
    return name


def test_a_library_is_imported_listed_read_and_removed(place: Place) -> None:
    one, other = place.desktop(), place.desktop()
    place.stock(one)
    assert [item.reference for item in other.library.list(Kind.MODEL)] == ["tiny@1"]
    version = place.root / "models" / "tiny" / "v1"
    assert sorted(path.name for path in version.iterdir()) == ["files.sha256", "meta.json", "src"]
    assert version.stat().st_mode & 0o777 == 0o755
    assert [one.path for one in other.library.files(Kind.MODEL, "tiny")] == ["bks_model.py"]
    assert "UserModel" in other.library.text(Kind.MODEL, "tiny", "bks_model.py")
    with pytest.raises(BackendError, match="is no file of the model"):
        other.library.text(Kind.MODEL, "tiny", "../meta.json")
    pin = other.library.pin(Kind.MODEL, "tiny")
    other.library.verify(Kind.MODEL, pin)
    found = other.library.open_content(Kind.MODEL, "tiny@1")
    assert (found / "bks_model.py").read_bytes() == (version / "src/bks_model.py").read_bytes()
    (place.root / "models" / "more" / "v1").mkdir(parents=True)
    assert [item.reference for item in one.library.list(Kind.MODEL)] == ["tiny@1"]
    assert one.library.remove(Kind.MODEL, "tiny").version == 1
    assert other.library.list(Kind.MODEL) == ()
    assert not version.exists()
    assert read_json(version.with_name("v1.removed"))["item"]["name"] == "tiny"
    with pytest.raises(BackendError, match="was removed on"):
        other.library.show(Kind.MODEL, "tiny@1")
    place.stock(other)
    assert one.library.show(Kind.MODEL, "tiny").version == 2


def test_two_desktops_that_import_at_once_get_two_versions(place: Place) -> None:
    desktops = [place.desktop(), place.desktop()]
    source = place.root.parent / "source"
    source.mkdir()
    (source / "a.csv").write_text("1,2\n")
    together = threading.Barrier(2)

    def bring(services: Services) -> int:
        together.wait()
        return services.library.import_item(Kind.DATASET, source, "digits").version

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(bring, desktops)) == [1, 2]
    assert sorted(path.name for path in (place.root / "datasets").iterdir()) == ["digits"]


def test_a_changed_byte_is_refused_and_the_file_named(place: Place) -> None:
    services = place.desktop()
    place.stock(services)
    pin = services.library.pin(Kind.MODEL, "tiny")
    services.library.verify(Kind.MODEL, pin)
    file = place.root / "models" / "tiny" / "v1" / "src" / "bks_model.py"
    file.write_text(file.read_text().replace("Linear(4, 2)", "Linear(4, 3)") + "\n")
    with pytest.raises(BackendError, match=r"was changed after.*bks_model\.py"):
        services.library.verify(Kind.MODEL, pin)
    (file.parent / "more.py").touch()
    with pytest.raises(BackendError, match=r"holds .*more\.py"):
        services.library.verify(Kind.MODEL, pin)


def test_an_import_that_is_cancelled_leaves_nothing(place: Place) -> None:
    services = place.desktop()
    source = place.root.parent / "source"
    source.mkdir()
    for number in range(20):
        (source / f"{number}.bin").write_bytes(bytes(50_000))

    class Impatient(Progress):
        def report(self, done: float, total: float, what: str) -> None:
            if what == ("Copying files" if place.is_mounted else "Sending files"):
                self.cancel()

    with pytest.raises(Cancelled):
        services.library.import_item(Kind.DATASET, source, "digits", Impatient())
    assert list((place.root / "datasets").iterdir()) == []
    assert services.library.list(Kind.DATASET) == ()


def test_a_job_is_made_found_annotated_and_removed(place: Place, beat: Beat) -> None:
    one, other = place.desktop(), place.desktop()
    place.stock(one)
    beat(place)
    view = one.jobs.create(on_node(name="first"))
    assert [path.name for path in (place.root / "jobs").iterdir()] == [view.id]
    assert other.jobs.show(view.id) == view
    assert [job.id for job in other.jobs.list()] == [view.id]
    assert other.jobs.find("first") == view.id
    one.jobs.annotate(view.id, name="second", tags=("a",))
    (seen,) = other.jobs.list()
    assert (seen.name, seen.tags) == ("second", ("a",))
    assert other.jobs.clone(view.id)["model"] == "tiny@1"
    assert one.jobs.remove(view.id).id == view.id
    assert (place.root / "trash" / "jobs" / view.id / "config.toml").exists()
    assert other.jobs.list() == ()
    with pytest.raises(BackendError, match="There is no job"):
        other.jobs.show(view.id)
    with pytest.raises(BackendError, match="There is no job"):
        other.jobs.look(view.id)


def test_of_two_desktops_one_starts_a_job(place: Place, beat: Beat) -> None:
    head = FakeHead()
    desktops = [place.desktop(), place.desktop()]
    place.stock(desktops[0])
    beat(place)
    view = desktops[0].jobs.create(on_node())
    for services in desktops:
        head.instead_of(services)
        services.jobs.show(view.id)
    together = threading.Barrier(2)

    def start(services: Services) -> JobView:
        together.wait()
        return services.jobs.start(view.id)

    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(start, desktops))
    assert head.started == [(view.id, 1, str(place.root))]
    assert [one.run for one in seen] == [1, 1]
    folder = place.data.job(view.id)
    assert [path.name for path in folder.attempts.iterdir()] == ["1"]
    launch = read_json(folder.launch)
    assert launch["model_source"] == str(place.root / "models" / "tiny" / "v1" / "src")
    assert read_json(folder.status)["state"] == "STARTING"


def test_a_run_is_followed_stopped_and_over(place: Place, beat: Beat) -> None:
    services, other = place.desktop(), place.desktop()
    place.stock(services)
    beat(place)
    view, run = started(place, services)
    update = services.jobs.look(view.id)
    assert (update.view.state, update.view.step) == (JobState.TRAINING, 1)
    assert list(update.history.steps) == [1]
    for steps in (3, 1, 200):
        run.train(steps)
        before = run.step - steps
        update = services.jobs.look(view.id, update.cursor)
        assert update.view.step == run.step
        assert list(update.history.steps) == list(range(before + 1, run.step + 1))
    assert list(other.jobs.history(view.id).steps) == list(range(1, run.step + 1))
    assert other.jobs.stop(view.id).state is JobState.STOPPING
    assert read_json(run.folder.lock)["run"] == 1
    wished = run.folder.lock.read_bytes()
    assert services.jobs.stop(view.id).state is JobState.STOPPING
    assert run.folder.lock.read_bytes() == wished
    run.end(JobState.INTERRUPTED)
    assert services.jobs.look(view.id, update.cursor).view.state is JobState.INTERRUPTED
    assert [job.state for job in other.jobs.list()] == [JobState.INTERRUPTED]


def test_resuming_and_starting_over(place: Place, beat: Beat) -> None:
    services, other = place.desktop(), place.desktop()
    place.stock(services)
    beat(place)
    view, run = started(place, services)
    name = add_checkpoint(run, 4)
    add_checkpoint(run, 7)
    other.jobs.stop(view.id)
    run.end(JobState.INTERRUPTED)
    cursor = other.jobs.look(view.id).cursor
    (run.folder.checkpoints / "epoch-0001-step-000007.pt").write_bytes(b"x" * len(PAYLOAD))
    with pytest.raises(BackendError, match="is not what was saved") as told:
        services.jobs.resume(view.id)
    assert name in told.value.remedy
    assert services.jobs.resume(view.id, name).run == 2
    launch = read_json(run.folder.launch)
    assert launch["resume_from"] == str(run.folder.checkpoints / f"{name}.pt")
    assert not run.folder.lock.exists()
    resumed = FarRun(place, services.jobs.show(view.id))
    resumed.end(JobState.INTERRUPTED)
    assert services.jobs.start(view.id, start_over=True).run == 3
    assert sorted(path.name for path in run.folder.runs.iterdir()) == ["2"]
    again = FarRun(place, services.jobs.show(view.id))
    again.train(2)
    update = other.jobs.look(view.id, cursor)
    assert (update.view.run, update.view.step) == (3, 3)
    assert (update.history.drop_from, list(update.history.steps)) == (0, [1, 2, 3])
    assert other.jobs.checkpoints(view.id) == ()


def test_checkpoints_are_listed_and_one_is_carried_away(
    place: Place, beat: Beat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = place.desktop()
    place.stock(services)
    beat(place)
    view, run = started(place, services)
    assert services.jobs.checkpoints(view.id) == ()
    names = [add_checkpoint(run, step) for step in (2, 5, 9)]
    (run.folder.checkpoints / "epoch-0001-step-000010.json").write_text("{}")
    found = services.jobs.checkpoints(view.id)
    assert [one.name for one in found] == names
    assert [one.is_latest for one in found] == [False, False, True]
    assert found[0].path.endswith(str(run.folder.checkpoints / f"{names[0]}.pt"))
    (run.folder.checkpoints / f"{names[0]}.pt").unlink()
    assert [one.name for one in services.jobs.checkpoints(view.id)] == names[1:]
    given: list[Path] = []

    def export(checkpoint: Path, form: str, output: Path, model: Path, *_: Path, **more: object):
        given.extend((checkpoint, model))
        assert more["history"] is not None
        output.write_bytes(checkpoint.read_bytes())

    monkeypatch.setattr(tool_process, "export", export)
    target = tmp_path / "out.pt"
    assert services.jobs.export(view.id, "latest", "pt", target) == target
    assert target.read_bytes() == PAYLOAD
    assert (given[0].with_suffix(".json").exists(), given[1].name) == (True, "src")


def test_a_log_is_read_in_pieces_and_from_its_end(place: Place, beat: Beat) -> None:
    services = place.desktop()
    place.stock(services)
    beat(place)
    view, run = started(place, services)
    assert services.jobs.log(view.id, 0).text == ""
    log = run.folder.rank_log(0)
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))
    tail = services.jobs.log(view.id, 0, offset=-30)
    assert tail.text == "line 99998\nline 99999\n"
    with log.open("a") as file:
        file.write("and more\n")
    assert services.jobs.log(view.id, 0, offset=tail.offset).text == "and more\n"
    with pytest.raises(BackendError, match="has no rank 1"):
        services.jobs.log(view.id, 1)


def test_a_rescan_finds_what_others_brought(place: Place, beat: Beat) -> None:
    one = place.desktop()
    place.stock(one)
    beat(place)
    view = one.jobs.create(on_node())
    report = place.desktop().library.rescan()
    assert (report.datasets, report.models, report.loaders, report.jobs) == (1, 1, 1, 1)
    assert report.problems == ()
    (place.root / "jobs" / view.id / "config.toml").write_text("nothing = 1\n")
    report = one.library.rescan()
    assert report.jobs == 0
    assert "config.toml" in report.problems[0]


def test_nodes_are_added_seen_and_removed(place: Place, beat: Beat, sshd) -> None:
    one, other = place.desktop(), place.desktop()
    added = one.cluster.add("gpu2", sshd.address, accept=lambda key: True)
    assert added.facts is not None
    assert (added.facts.data_root, added.facts.data_root_writable) == (str(place.root), True)
    assert [path.name for path in place.root.iterdir()] == ["nodes"]
    heart = beat(place)
    assert [entry.name for entry in other.cluster.list()] == [NODE, "gpu2"]
    states = {state.name: state.presence for state in other.nodes.far()}
    assert states == {NODE: Presence.ONLINE, "gpu2": Presence.NEW}
    one.cluster.set_in_service("gpu2", False)
    assert not other.cluster.entry("gpu2").in_service
    one.cluster.remove("gpu2")
    assert [entry.name for entry in other.cluster.list()] == [NODE]
    heart.stop()
    wait_for(lambda: other.nodes.far()[0].presence is Presence.OFFLINE, why="silence")
    assert other.nodes.far()[0].message.startswith("no news")


def test_the_hours_of_a_node_are_read_on_and_through_a_change_of_files(
    place: Place, beat: Beat
) -> None:
    beat(place)
    services = place.desktop()
    folder = DataRoot(place.root).node(NODE)
    status = NodeReading.from_dict(read_json(folder.status))
    ages = iter(range(4000, 0, -20))

    def keep(past: Past, count: int) -> None:
        for _ in range(count):
            line = past.line(status)
            assert line is not None
            past.append(line, status)

    now = time.time()
    past = Past(folder, every_s=0, limit_bytes=2_000, clock=lambda: now - next(ages))
    assert services.nodes.past(NODE) == ()
    keep(past, 3)
    assert [round(now - one.at_s) for one in services.nodes.past(NODE)] == [4000, 3980, 3960]
    keep(past, 100)
    assert folder.earlier.exists()
    found = [round(now - one.at_s) for one in services.nodes.past(NODE)]
    assert found[-1] == 4000 - 20 * 102
    assert found == list(range(found[0], found[-1] - 1, -20))
    with pytest.raises(BackendError):
        services.nodes.past("nobody")


def test_the_data_root_is_made_and_checked(place: Place, tmp_path: Path) -> None:
    def address(path: Path) -> Path | FarRoot:
        return path if place.is_mounted else FarRoot("lab", str(path))

    place.desktop()
    catalogue = tmp_path / "desktop-0" / "catalogue.sqlite"
    open_services(address(tmp_path / "fresh"), catalogue).close()
    assert (tmp_path / "fresh").is_dir()
    with pytest.raises(BackendError, match=r"data root .*nothing/here is not there"):
        open_services(address(tmp_path / "nothing" / "here"), catalogue)
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match=r"data root .*file is a file"):
        open_services(address(tmp_path / "file"), catalogue)


def test_the_look_before_a_start_proves_that_all_see_one_data_root(
    place: Place, beat: Beat, tmp_path: Path
) -> None:
    services = place.desktop()
    beat(place)
    config = parse_job(on_node(strategy={"name": "alone"})).config
    assert config is not None
    found = services.preflight.run(config)
    assert [one.sentence for one in found.faults if one.check == "data root"] == []
    assert [one.ok for one in found.findings if one.check == "data root"] == [True]
    # The folder of all jobs, which the look asks for, and nothing of the look itself.
    assert sorted(path.name for path in place.root.iterdir()) == ["jobs", "nodes"]
    assert list((place.root / "jobs").iterdir()) == []
    place.add_node(tmp_path / "another")
    found = services.preflight.run(config)
    assert [one.check for one in found.faults if one.check == "data root"] == ["data root"]


@pytest.mark.timeout(600)
def test_a_job_trains_on_a_node_is_stopped_and_goes_on(place: Place, beat: Beat) -> None:
    services, other = place.desktop(), place.desktop()
    place.stock(services)
    beat(place)
    job = on_node(epochs=100_000, environment={"PAUSE_S": "0.002"})
    view = services.jobs.create(job)
    services.jobs.start(view.id)
    services.jobs.wait(view.id, until=is_training)
    assert other.jobs.stop(view.id).state in (JobState.STOPPING, JobState.INTERRUPTED)
    view = services.jobs.wait(view.id)
    assert (view.state, view.error) == (JobState.INTERRUPTED, None)
    assert services.jobs.checkpoints(view.id)[-1].step == view.step
    other.jobs.resume(view.id)
    seen = services.jobs.wait(
        view.id, until=lambda now: (now.run == 2 and now.step > view.step) or now.state.is_over
    )
    assert (seen.run, seen.error) == (2, None)
    services.jobs.stop(view.id)
    view = other.jobs.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(other.jobs.history(view.id).steps) == list(range(1, view.step + 1))


def test_the_command_line_takes_both(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(*words: str) -> tuple[int, str, str]:
        where = ("--data-root", str(place.address), "--catalogue", str(tmp_path / "c" / "c.sqlite"))
        code = cli([*where, *words], lambda *_: pytest.fail("these words open no window"))
        return code, *capsys.readouterr()

    if not place.is_mounted:
        code, out, err = main("job", "list")
        assert (code, out) == (1, "")
        assert f"--accept-key {place.sshd.fingerprint}" in err
    accept = ("--accept-key", place.sshd.fingerprint)
    assert main(*accept, "job", "list")[0] == 0
    place.stock(place.desktop())
    code, out, _ = main("model", "list", "--json")
    assert (code, [one["name"] for one in json.loads(out)]) == (0, ["tiny"])
    code, out, _ = main("model", "remove", "tiny")
    shown = place.root if place.is_mounted else f"lab:{place.root}"
    assert out == f"Moved model tiny@1 to {shown}/trash.\n"


# What holds for a mirror alone.


def test_a_steady_look_brings_little_over_the_wire(far_place: Place, beat: Beat) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    view, run = started(far_place, services)
    run.train(20_000)
    for step in (1, 2, 3):
        add_checkpoint(run, step, bytes(1_000_000))
    run.folder.rank_log(0).write_bytes(bytes(1_000_000))
    services.jobs.look(view.id)
    an_hour_ago = time.time() - 3600
    for path in (*run.folder.path.rglob("*"), run.folder.path):
        os.utime(path, (an_hour_ago, an_hour_ago))
    update = services.jobs.look(view.id)
    size = run.folder.history.stat().st_size
    assert far_place.wire.came_bytes > size
    before = far_place.wire.came_bytes
    looks = 10
    for _ in range(looks):
        run.train(10)
        update = services.jobs.look(view.id, update.cursor)
        assert update.view.step == run.step
        assert len(update.history.steps) == 10
    each = (far_place.wire.came_bytes - before) / looks
    assert each < 8_000 < size / 10


def test_the_age_of_a_claim_is_told_by_one_clock(far_place: Place, beat: Beat) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    FakeHead().instead_of(services)
    view = services.jobs.start(services.jobs.create(on_node()).id)
    attempt = far_place.data.job(view.id).attempt(1)
    an_hour_ago = time.time() - 3600
    os.utime(attempt.path, (an_hour_ago, an_hour_ago))
    for _ in range(2):
        assert services.jobs.show(view.id).state is JobState.STARTING
    assert not attempt.exit.exists()


def test_a_history_that_was_cut_or_replaced_is_read_anew(far_place: Place, beat: Beat) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    view, run = started(far_place, services)
    run.train(50)
    cursor = services.jobs.look(view.id).cursor
    whole = run.folder.history.read_bytes()
    block = whole[: whole.index(b"# end\n") + 6]
    run.folder.history.write_bytes(block)
    update = services.jobs.look(view.id, cursor)
    assert (update.history.drop_from, list(update.history.steps)) == (0, [1])
    assert list(services.jobs.history(view.id).steps) == [1]
    run.folder.history.write_bytes(whole.replace(b"2026-", b"2027-") + b"\n")
    assert len(services.jobs.look(view.id).history.steps) == 51


def test_no_news_while_the_connection_is_cut_and_all_of_it_after(
    far_place: Place, beat: Beat
) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    view, run = started(far_place, services)
    run.train(5)
    update = services.jobs.look(view.id)
    far_place.wire.cut()
    run.train(5)
    silent = services.jobs.look(view.id, update.cursor)
    assert silent.view.state is JobState.TRAINING
    assert silent.view.doubt.startswith("no news since ")
    assert (silent.view.step, list(silent.history.steps)) == (6, [])
    assert [item.name for item in services.library.list(Kind.MODEL)] == ["tiny"]
    with pytest.raises(Unreachable):
        services.jobs.list()
    with pytest.raises(Unreachable):
        services.jobs.annotate(view.id, name="other")
    wait_for(
        lambda: services.nodes.far()[0].presence is Presence.OFFLINE, why="silence of the node"
    )
    far_place.wire.mend()

    def back() -> RunUpdate | None:
        seen = services.jobs.look(view.id, silent.cursor)
        return None if seen.view.doubt else seen

    seen = wait_for(back, why="news")
    assert (seen.view.step, list(seen.history.steps)) == (11, list(range(7, 12)))


def test_a_silent_host_is_waited_for_once(
    far_place: Place, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.cluster.line.SILENCE_S", 0.5)
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    view, _ = started(far_place, services)
    cursor = services.jobs.look(view.id).cursor
    far_place.sshd.freeze()
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: services.jobs.look(view.id, cursor), range(4)))
    assert {one.view.doubt[:13] for one in seen} == {"no news since"}


def test_a_sending_that_broke_off_goes_on_where_it_was(
    far_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = far_place.desktop()
    source = far_place.root.parent / "source"
    source.mkdir()
    for number in range(10):
        (source / f"{number}.bin").write_bytes(bytes([number]) * 100_000)

    class Cutting(Progress):
        cuts = 0

        def report(self, done: float, total: float, what: str) -> None:
            if what == "Sending files" and done > 450_000 and not self.cuts:
                self.cuts += 1
                far_place.wire.cut()
                far_place.wire.mend()

    progress = Cutting()
    item = services.library.import_item(Kind.DATASET, source, "digits", progress)
    assert (progress.cuts, item.version) == (1, 1)
    services.library.verify(Kind.DATASET, services.library.pin(Kind.DATASET, "digits"))
    version = far_place.root / "datasets" / "digits" / "v1" / "files"
    assert sorted(path.name for path in version.iterdir()) == [f"{n}.bin" for n in range(10)]


def test_this_computer_cannot_train_on_what_it_does_not_mount(far_place: Place) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    check = services.jobs.check(raw_job())
    (fault,) = check.faults
    assert fault.field == "placement[0].node"
    assert "does not mount the data root" in fault.sentence
    assert "--data-root DIR" in fault.sentence
    assert services.nodes.reading().name == "this-computer"


def test_only_a_yes_opens_a_data_root_over_ssh(far_place: Place, tmp_path: Path) -> None:
    catalogue = tmp_path / "c" / "catalogue.sqlite"
    with pytest.raises(HostKeyUnknown) as told:
        open_services(far_place.address, catalogue)
    assert told.value.key.fingerprint == far_place.sshd.fingerprint
    assert not catalogue.exists()


def test_an_account_without_a_shell_is_enough(
    tmp_path: Path, make_sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, make_sshd("ForceCommand internal-sftp"), False)
    try:
        services, other = place.desktop(), place.desktop()
        place.stock(services)
        pin = other.library.pin(Kind.DATASET, "tiny")
        other.library.verify(Kind.DATASET, pin)
        (place.root / "datasets" / "tiny" / "v1" / "files" / "README").write_text("no\n")
        with pytest.raises(BackendError, match="README"):
            other.library.verify(Kind.DATASET, pin)
    finally:
        place.close()


def test_an_old_wish_is_cleared_as_it_stands_on_the_far_side(far_place: Place, beat: Beat) -> None:
    services = far_place.desktop()
    far_place.stock(services)
    beat(far_place)
    view, run = started(far_place, services)
    replace_json(run.folder.lock, {"run": 1})
    folder = services.data_root.job(view.id)
    clear_old_wish(folder, 1, services.share)
    assert run.folder.lock.exists()
    clear_old_wish(folder, 2, services.share)
    assert not run.folder.lock.exists()
