"""Two desktops, mounted or over SFTP, report one end once; secrets stay in their place (S16)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import keyring
import pytest

from backend.base.errors import BackendError
from backend.datastore.nodes import files as node_files
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.timestamps import seconds, stamp
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit
from backend.records.notifications.notification import MAIL, PLAIN, WEBHOOK, Channels, Mail
from backend.services.context.container import Services
from tests.backend.services.access_cases import NODE, DataSite, FakeHead, Heart, RemoteRun, on_node
from tests.backend.services.nodes.test_node_registry import MemoryKeyring
from tests.backend.ssh.sshd_rig import Sshd
from tests.fakes.mail_server import MailServer
from tests.fakes.webhook_server import WebhookServer

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
Beat = Callable[[DataSite], Heart]
LATER = "2999-01-01T00:00:00Z"
PASSWORD = "planted-mail-password"


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    server = WebhookServer()
    yield server
    server.close()


@pytest.fixture
def post() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    old_keyring, memory = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(old_keyring)


@pytest.fixture
def home(no_keys_of_the_user: None, tmp_path: Path) -> Path:
    return tmp_path / "desktop-home"


def mail_to(server: MailServer) -> Mail:
    return Mail("127.0.0.1", ("lab@uni.example",), "ring@uni.example", server.port, PLAIN)


def failed_run(site: DataSite, services: Services, beat: Beat, ended_at: str = LATER) -> str:
    site.stock(services)
    beat(site)
    FakeHead().instead_of(services)
    view = services.jobs.lifecycle.start(services.jobs.create(on_node(name="night run")).id)
    run = RemoteRun(site, view)
    run.folder.logs.mkdir(exist_ok=True)
    run.folder.rank_log(0).write_text("".join(f"line {n}\n" for n in range(40)))
    error = RankError("Rank 0 on gpu1 was killed.", 0, "gpu1")
    exit_record = RunExit(view.run, JobState.ERROR, "It failed.", error, ended_at=ended_at)
    replace_json(run.folder.attempt(view.run).exit, exit_record.to_dict())
    run.set_state(JobState.ERROR, updated_at=ended_at)
    return view.id


@pytest.mark.usefixtures("uncounted", "home", "ring")
def test_s16_one_of_two_desktops_sends_the_cause_and_the_last_20_lines(
    site: DataSite, beat: Beat, hook: WebhookServer, post: MailServer
) -> None:
    desks = site.desktop(), site.desktop()
    for desk in desks:
        desk.notifications.store(Channels(hook.url, mail_to(post)))
    job = failed_run(site, desks[0], beat)
    start = threading.Barrier(2)

    def send(desk: Services) -> None:
        start.wait()
        desk.notifications.notify(job, 1)

    threads = [threading.Thread(target=send, args=(desk,)) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for desk in desks:
        assert desk.notifications.notify(job, 1).wait_s is None
    (message,) = hook.posts
    assert (message["name"], message["cause"]) == ("night run", "Rank 0 on gpu1 was killed.")
    assert message["lines"] == [f"line {n}" for n in range(20, 40)]
    assert len(post.mails) == 1
    third = site.desktop()
    third.notifications.store(Channels(hook.url))
    assert third.notifications.notify(job, 1).wait_s is None
    assert len(hook.posts) == 1


@pytest.mark.usefixtures("uncounted", "home", "ring")
def test_s16_an_unavailable_server_is_reported_and_tried_again(
    site: DataSite, beat: Beat, hook: WebhookServer
) -> None:
    desk = site.desktop()
    desk.notifications.store(Channels(hook.url))
    job = failed_run(site, desk, beat)
    hook.answers = [503]
    delivery = desk.notifications.notify(job, 1)
    assert delivery.wait_s is not None
    assert delivery.failure == "The webhook at 127.0.0.1 answered 503."
    assert hook.posts == []
    assert desk.notifications.notify(job, 2).wait_s is not None, "its end is not written yet"


def test_f60_the_settings_are_ones_own_and_the_password_is_in_the_keyring_alone(
    site: DataSite, home: Path, ring: MemoryKeyring, tmp_path: Path, post: MailServer
) -> None:
    notices = site.desktop().notifications
    mail = replace(mail_to(post), security="starttls", user="ring")
    stored_channels = notices.store(Channels("https://hooks.example/T0-planted", mail), PASSWORD)
    assert notices.channels() == stored_channels
    assert notices.path.is_relative_to(home)
    assert notices.path.stat().st_mode & 0o777 == 0o600
    assert notices.path.parent.stat().st_mode & 0o777 == 0o700
    assert ring.passwords == {("Ringmaster, mail", "ring@127.0.0.1"): PASSWORD}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    with_address = [path for path in files if b"T0-planted" in path.read_bytes()]
    assert with_address == [notices.path]
    assert site.desktop().notifications.has_password(), "the next start does not ask"
    notices.store(replace(stored_channels, mail=None))
    assert ring.passwords == {}


@pytest.mark.parametrize("node_ahead_s", [-86_000, 86_000])
@pytest.mark.usefixtures("uncounted", "home", "ring")
def test_only_later_ends_are_sent_whatever_the_clock_of_a_node(
    site: DataSite, beat: Beat, hook: WebhookServer, node_ahead_s: float
) -> None:
    desk = site.desktop()
    ended_at = stamp(datetime.now(UTC) + timedelta(seconds=node_ahead_s))
    old_job = failed_run(site, desk, beat, ended_at)
    # SFTP knows whole seconds, so an end in the second of the mark counts as later.
    record = site.data.job(old_job).attempt(1).exit
    os.utime(record, (0, record.stat().st_mtime - 2))
    first = desk.notifications.store(Channels(hook.url, enabled_at="1999"))
    assert first.enabled_at > "2026"
    new_job = failed_run(site, desk, beat, ended_at)
    assert desk.notifications.notify(old_job, 1).wait_s is None
    assert desk.notifications.notify(new_job, 1).wait_s is None
    assert [post["job"] for post in hook.posts] == [new_job]
    assert first.is_new(seconds(ended_at) + 86_400)
    quiet = desk.notifications.store(replace(first, notifies_finished=False))
    assert quiet.enabled_at == first.enabled_at, "no new target"
    assert not quiet.notifies_of(JobState.FINISHED)
    assert not first.notifies_of(JobState.INTERRUPTED)


@pytest.mark.usefixtures("home", "ring")
def test_a_test_names_the_fault_before_anything_is_stored(
    site: DataSite, hook: WebhookServer, post: MailServer
) -> None:
    notices = site.desktop().notifications
    channels = Channels(hook.url, mail_to(post))
    notices.send_test(WEBHOOK, channels)
    notices.send_test(MAIL, channels)
    assert "It works" in hook.posts[0]["text"]
    assert post.mails[0]["Subject"] == "[Ringmaster] Test: a notification from Ringmaster"
    for kind, bad, word in (
        (WEBHOOK, replace(channels, webhook="hooks"), "begins with https://"),
        (MAIL, replace(channels, mail=None), "No mail is set up"),
        (MAIL, replace(channels, mail=replace(mail_to(post), to=("x",))), "not a mail address"),
        (
            MAIL,
            replace(channels, mail=replace(mail_to(post), security="tls", user="u")),
            "password",
        ),
    ):
        with pytest.raises(BackendError, match=word):
            notices.send_test(kind, bad)
    assert notices.channels() == Channels()
    with pytest.raises(BackendError, match="begins with https"):
        notices.store(replace(channels, webhook="hooks"))
    assert not notices.path.exists()


def test_s16_nodes_get_channels_without_a_password_and_lose_them_again(
    remote_site: DataSite, home: Path, ring: MemoryKeyring, sshd: Sshd, post: MailServer
) -> None:
    remote_site.add_node()
    notices = remote_site.desktop().notifications
    mail = replace(mail_to(post), security="starttls", user="ring")
    requested = Channels("https://hooks.example/T0", mail, from_nodes=True)
    stored_channels = notices.store(requested, PASSWORD)
    assert notices.copy_to_nodes() == ()
    folder = sshd.home / ".ringmaster" / "notices"
    (sent_file,) = folder.iterdir()
    assert sent_file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Channels.from_dict(read_json(sent_file)) == replace(stored_channels, mail=None)
    assert PASSWORD not in sent_file.read_text()
    notices.store(replace(stored_channels, from_nodes=False))
    assert notices.copy_to_nodes() == ()
    assert list(folder.iterdir()) == []
    entry = node_files.entry(remote_site.data, NODE)
    assert entry is not None
    nowhere = replace(entry, address=replace(entry.address, port=9))
    node_files.write_entry(remote_site.data, nowhere)
    (failure,) = notices.copy_to_nodes()
    assert failure.startswith("gpu1 does not have the settings: ")


@pytest.mark.usefixtures("uncounted", "home", "ring")
def test_the_act_of_another_user_is_sent_to_the_owner_and_shown_if_that_fails(
    site: DataSite, beat: Beat, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = site.desktop(), site.desktop()
    monkeypatch.setenv("LOGNAME", "anna")
    site.stock(owner)
    beat(site)
    view = owner.jobs.create(on_node(name="night run"))
    owner.notifications.store(Channels(hook.url))
    for address, name in ((hook.url, "a"), ("http://127.0.0.1:9/", "b")):
        owner.notifications.store(Channels(address))
        monkeypatch.setenv("LOGNAME", "ben")
        other.jobs.annotate(view.id, name=name)
        monkeypatch.setenv("LOGNAME", "anna")
        (notice,) = owner.notifications.take_notices()
        assert f"to “{name}”" in notice.message
    (message,) = hook.posts
    assert (message["title"], message["job"]) == ("By another user: a", view.id)
    assert "Name changed from “night run” to “a” (by ben" in message["cause"]
