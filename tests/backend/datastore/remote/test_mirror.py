"""What holds for a mirror alone: what goes over the wire, and what is so when the wire is cut."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess
from backend.datastore.remote.mirror import Mirror
from backend.node.run.run_start import clear_old_stop_request
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.state import JobState
from backend.records.jobs.view import RunUpdate
from backend.records.library.item import Kind
from backend.records.nodes import health
from backend.records.nodes.reading import Presence
from backend.services.context.container import open_services
from backend.ssh.interface import HostKeyUnknown, Unreachable
from tests.backend.services.access_cases import (
    Beat,
    DataSite,
    FakeHead,
    add_checkpoint,
    on_node,
    start_job,
)
from tests.integration.tiny import raw_job
from tests.waiting import LIMIT_S, wait_for

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")


def test_regular_polls_transfer_little(remote_site: DataSite, beat: Beat) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    view, run = start_job(remote_site, services)
    run.train(20_000)
    for step in (1, 2, 3):
        add_checkpoint(run, step, bytes(1_000_000))
    run.folder.rank_log(0).write_bytes(bytes(1_000_000))
    services.jobs.queries.poll(view.id)
    an_hour_ago = time.time() - 3600
    for path in (*run.folder.path.rglob("*"), run.folder.path):
        os.utime(path, (an_hour_ago, an_hour_ago))
    update = services.jobs.queries.poll(view.id)
    size = run.folder.history.stat().st_size
    assert remote_site.wire.came_bytes > size
    previous_bytes = remote_site.wire.came_bytes
    polls = 10
    for _ in range(polls):
        run.train(10)
        update = services.jobs.queries.poll(view.id, update.cursor)
        assert update.view.step == run.step
        assert len(update.history.steps) == 10
    bytes_per_poll = (remote_site.wire.came_bytes - previous_bytes) / polls
    assert bytes_per_poll < 8_000 < size / 10


def test_the_age_of_a_claim_is_measured_with_one_clock(remote_site: DataSite, beat: Beat) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    FakeHead().instead_of(services)
    view = services.jobs.lifecycle.start(services.jobs.create(on_node()).id)
    attempt = remote_site.data.job(view.id).attempt(1)
    an_hour_ago = time.time() - 3600
    os.utime(attempt.path, (an_hour_ago, an_hour_ago))
    for _ in range(2):
        assert services.jobs.queries.show(view.id).state is JobState.STARTING
    assert not attempt.exit.exists()


def test_a_cut_or_replaced_history_is_read_again(remote_site: DataSite, beat: Beat) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    view, run = start_job(remote_site, services)
    run.train(50)
    cursor = services.jobs.queries.poll(view.id).cursor
    content = run.folder.history.read_bytes()
    block = content[: content.index(b"# end\n") + 6]
    run.folder.history.write_bytes(block)
    update = services.jobs.queries.poll(view.id, cursor)
    assert (update.history.drop_from, list(update.history.steps)) == (0, [1])
    assert list(services.jobs.queries.history(view.id).steps) == [1]
    run.folder.history.write_bytes(content.replace(b"2026-", b"2027-") + b"\n")
    assert len(services.jobs.queries.poll(view.id).history.steps) == 51


def test_a_cut_connection_delays_updates_and_loses_none(
    remote_site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    view, run = start_job(remote_site, services)
    run.train(5)
    update = services.jobs.queries.poll(view.id)
    remote_site.wire.cut()
    run.train(5)
    silent = services.jobs.queries.poll(view.id, update.cursor)
    assert silent.view.state is JobState.TRAINING
    assert silent.view.contact_warning.startswith("no news since ")
    assert (silent.view.step, list(silent.history.steps)) == (6, [])
    assert [item.name for item in services.library.list(Kind.MODEL)] == ["tiny"]
    with pytest.raises(Unreachable):
        services.jobs.queries.list()
    with pytest.raises(Unreachable):
        services.jobs.annotate(view.id, name="other")
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)
    wait_for(lambda: services.nodes.remote()[0].presence is Presence.OFFLINE, "silence of the node")
    remote_site.wire.repair()

    def back() -> RunUpdate | None:
        update = services.jobs.queries.poll(view.id, silent.cursor)
        return None if update.view.contact_warning else update

    later_update = wait_for(back, "an update")
    assert (later_update.view.step, list(later_update.history.steps)) == (11, list(range(7, 12)))


def test_a_silent_host_is_waited_for_once(
    remote_site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    view, _ = start_job(remote_site, services)
    cursor = services.jobs.queries.poll(view.id).cursor
    remote_site.sshd.freeze()
    remote_site.wire.cut()
    remote_site.wire.repair()
    monkeypatch.setattr("backend.ssh.persistent_connection.SILENCE_S", 0.5)
    monkeypatch.setattr("backend.ssh.persistent_connection._PAUSE_S", LIMIT_S)
    previous_connections = remote_site.wire.connections
    with ThreadPoolExecutor(4) as pool:
        updates = list(pool.map(lambda _: services.jobs.queries.poll(view.id, cursor), range(4)))
    assert {update.view.contact_warning[:13] for update in updates} == {"no news since"}
    # The wire counts a connection when it gets to it, which may be later.
    wait_for(lambda: remote_site.wire.connections > previous_connections, "the connection")
    assert remote_site.wire.connections == previous_connections + 1


def test_a_broken_transfer_continues_at_its_last_byte(
    remote_site: DataSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = remote_site.desktop()
    source = remote_site.root.parent / "source"
    source.mkdir()
    for number in range(10):
        (source / f"{number}.bin").write_bytes(bytes([number]) * 100_000)

    class Cutting(Progress):
        cuts = 0

        def report(self, done: float, total: float, label: str) -> None:
            if label == "Sending files" and done > 450_000 and not self.cuts:
                self.cuts += 1
                remote_site.wire.cut()
                remote_site.wire.repair()

    progress = Cutting()
    item = services.library.import_item(Kind.DATASET, source, "digits", progress)
    assert (progress.cuts, item.version) == (1, 1)
    services.library.verify(Kind.DATASET, services.library.pin(Kind.DATASET, "digits"))
    version = remote_site.root / "datasets" / "digits" / "v1" / "files"
    assert sorted(path.name for path in version.iterdir()) == [f"{n}.bin" for n in range(10)]


def test_this_computer_cannot_train_on_an_unmounted_data_root(remote_site: DataSite) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    check = services.jobs.check(raw_job())
    (config_error,) = check.errors
    assert config_error.path == "placement[0].node"
    assert "does not mount the data root" in config_error.message
    assert "--data-root DIR" in config_error.message
    assert services.nodes.reading().name == "this-computer"


def test_only_a_yes_opens_a_data_root_over_ssh(remote_site: DataSite, tmp_path: Path) -> None:
    catalogue = tmp_path / "c" / "catalogue.sqlite"
    with pytest.raises(HostKeyUnknown) as caught:
        open_services(remote_site.address, catalogue)
    assert caught.value.key.fingerprint == remote_site.sshd.fingerprint
    assert not catalogue.exists()


def test_an_account_without_a_shell_is_enough(
    tmp_path: Path, make_sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = DataSite(tmp_path, make_sshd("ForceCommand internal-sftp"), False)
    try:
        services, other_services = site.desktop(), site.desktop()
        site.stock(services)
        pin = other_services.library.pin(Kind.DATASET, "tiny")
        other_services.library.verify(Kind.DATASET, pin)
        (site.root / "datasets" / "tiny" / "v1" / "files" / "README").write_text("no\n")
        with pytest.raises(BackendError, match="README"):
            other_services.library.verify(Kind.DATASET, pin)
    finally:
        site.close()


def test_the_remote_stop_request_decides_whether_it_is_cleared(
    remote_site: DataSite, beat: Beat
) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    beat(remote_site)
    view, run = start_job(remote_site, services)
    replace_json(run.folder.stop_request, {"run": 1})
    folder = services.data_root.job(view.id)
    clear_old_stop_request(folder, 1, services.data_root.files)
    assert run.folder.stop_request.exists()
    clear_old_stop_request(folder, 2, services.data_root.files)
    assert not run.folder.stop_request.exists()


def test_nodes_stay_known_while_the_host_has_lost_the_data_root(
    remote_site: DataSite, beat: Beat
) -> None:
    services = remote_site.desktop()
    heart = beat(remote_site)
    names = [node.name for node in services.nodes.list()]
    heart.stop()
    assert len(names) == 2
    for _ in range(2):
        renamed_folder = remote_site.data.path / "aside"
        remote_site.data.nodes.rename(renamed_folder)
        assert [node.name for node in services.nodes.list()] == names
        renamed_folder.rename(remote_site.data.nodes)
        assert [node.name for node in services.nodes.list()] == names


def test_only_staging_is_left_to_the_access_to_a_mounted_data_root() -> None:
    """Whatever else is inherited from it would change or read the local copy alone."""
    public_names = {name for name in dir(DataRootAccess) if not name.startswith("_")}
    inherited_names = {
        name for name in public_names if getattr(Mirror, name) is getattr(DataRootAccess, name)
    }
    assert inherited_names == {"provide", "hand_over", "bring_home"}
