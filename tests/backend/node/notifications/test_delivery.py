"""One process reports the end of a run once, with its cause and its last lines (S16)."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.notifications import send as send_notice
from backend.node.notifications.delivery import (
    ABANDONED_S,
    GIVEN_UP,
    MOST_TRIES,
    SENT,
    NotificationDelivery,
)
from backend.node.notifications.message import last_lines, message_of
from backend.node.notifications.transport import NotSent, post_webhook, send_mail
from backend.node.run.unrecorded_runs import RunWatch
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import AttemptFolder, DataRoot
from backend.records.base.local_files import Files
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit
from backend.records.notifications.notification import (
    PLAIN,
    TLS,
    Channels,
    Mail,
    NotificationTarget,
    RunEndMessage,
    mail_error,
    webhook_error,
)
from backend.records.queue.entry import QueueEntry
from tests.fakes.mail_server import MailServer, certificate
from tests.fakes.runs import Run
from tests.fakes.webhook_server import WebhookServer
from tests.waiting import LIMIT_S, Clock, wait_for

MESSAGE = RunEndMessage(
    "job-1", 2, "ERROR", "Failed", "digits", "Rank 1 on gpu07 ran out of memory.",
    "Try a smaller batch.", 1, ("gpu07",), ("Traceback", "torch.OutOfMemoryError"),
)  # fmt: skip
TARGET = NotificationTarget("webhook", "aa11")


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    server = WebhookServer()
    yield server
    server.close()


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptFolder:
    folder = AttemptFolder(tmp_path / "2")
    folder.path.mkdir()
    return folder


# One message to one place.


def test_s16_a_webhook_gets_the_text_that_chats_show_and_the_facts_for_programs(
    hook: WebhookServer,
) -> None:
    post_webhook(hook.url, MESSAGE)
    (post,) = hook.posts
    assert post["text"] == (
        "*Failed: digits* (gpu07)\nRank 1 on gpu07 ran out of memory. Try a smaller batch.\n"
        "```\nTraceback\ntorch.OutOfMemoryError\n```"
    )
    assert (post["state"], post["job"], post["run"], post["rank"]) == ("ERROR", "job-1", 2, 1)
    assert post["lines"] == ["Traceback", "torch.OutOfMemoryError"]


def test_s16_no_name_of_a_job_rings_a_whole_channel(hook: WebhookServer) -> None:
    post_webhook(hook.url, replace(MESSAGE, name="<!channel> @all", lines=("```", "*x*")))
    text = hook.posts[0]["text"]
    assert "<!" not in text
    assert "@all" not in text
    assert text.count("```") == 2


@pytest.mark.parametrize(
    ("code", "is_final"), [(404, True), (410, True), (429, False), (503, False)]
)
def test_s16_a_refusal_is_reported_without_the_address(
    hook: WebhookServer, code: int, is_final: bool
) -> None:
    hook.answers = [code]
    with pytest.raises(NotSent) as caught:
        post_webhook(hook.url, MESSAGE)
    assert str(caught.value) == f"The webhook at 127.0.0.1 answered {code}."
    assert caught.value.is_final is is_final


def test_s16_a_redirect_is_not_followed(hook: WebhookServer) -> None:
    hook.answers, hook.location = [302], "/elsewhere"
    with pytest.raises(NotSent, match="answered 302"):
        post_webhook(hook.url, MESSAGE)
    assert hook.paths == ["/hooks/T0-secret-B0"]


def test_s16_an_unreachable_webhook_is_tried_again_and_its_secret_stays_hidden() -> None:
    with pytest.raises(NotSent, match=r"^The webhook at 127\.0\.0\.1 did not answer: ") as caught:
        post_webhook("http://127.0.0.1:9/hooks/T0-secret-B0", MESSAGE)
    assert not caught.value.is_final
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_s16_mail_with_a_password_goes_over_tls(tmp_path: Path, security: str) -> None:
    pem = certificate(tmp_path)
    server = MailServer(tls=pem, users={"ring": "pass word"}, implicit_tls=security == TLS)
    try:
        mail = Mail(
            "localhost", ("lab@uni.example",), "ring@uni.example", server.port, security, "ring"
        )
        trust = ssl.create_default_context(cafile=str(pem))
        send_mail(mail, "pass word", MESSAGE, trust)
        (received_mail,) = server.mails
        assert received_mail["Subject"] == "[Ringmaster] Failed: digits"
        assert received_mail["To"] == "lab@uni.example"
        text = received_mail.get_content()
        assert text.startswith("Rank 1 on gpu07 ran out of memory.\n\nTry a smaller batch.\n")
        assert "The last lines of rank-1.log:\n\nTraceback\ntorch.OutOfMemoryError\n" in text
        assert server.logins == [("ring", "pass word")]
        with pytest.raises(NotSent, match="did not accept the user or the password") as caught:
            send_mail(mail, "wrong", MESSAGE, trust)
        assert caught.value.is_final
        with pytest.raises(NotSent, match="certificate"):
            send_mail(mail, "pass word", MESSAGE)
        assert len(server.mails) == 1
    finally:
        server.close()


def test_s16_the_refusal_of_a_mail_server_is_reported() -> None:
    server = MailServer()
    mail = Mail(
        "localhost", ("a@uni.example", "b@uni.example"), "r@uni.example", server.port, PLAIN
    )
    try:
        send_mail(mail, "", replace(MESSAGE, name="ünï\u202ecode ✓"))
        assert server.mails[0]["Subject"] == "[Ringmaster] Failed: ünï\u202ecode ✓"
        server.data_reply = "452 4.2.2 mailbox full"
        with pytest.raises(NotSent, match=r"^localhost did not accept the mail: 452 ") as caught:
            send_mail(mail, "", MESSAGE)
        assert not caught.value.is_final
        server.unknown_addresses = set(mail.to)
        with pytest.raises(NotSent, match=r"does not accept mail for a@uni\.example, b@") as caught:
            send_mail(mail, "", MESSAGE)
        assert caught.value.is_final
    finally:
        server.close()


# Once, however many there are.


def test_s16_exactly_one_of_many_threads_sends(hook: WebhookServer, attempt: AttemptFolder) -> None:
    targets = (TARGET, NotificationTarget("webhook", "bb22"))
    start = threading.Barrier(8)

    def send(_target: NotificationTarget, message: RunEndMessage) -> None:
        post_webhook(hook.url, message)

    def work() -> None:
        delivery = NotificationDelivery(attempt, MESSAGE, targets, send, Files())
        start.wait()
        delivery.poll()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hook.posts) == 2, "one to each place"
    late_delivery = NotificationDelivery(attempt, MESSAGE, targets, send, Files())
    assert late_delivery.poll() is None
    assert len(hook.posts) == 2


def test_s16_exactly_one_of_two_processes_sends(
    hook: WebhookServer, attempt: AttemptFolder
) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from backend.node.notifications.delivery import NotificationDelivery\n"
        "from backend.node.notifications.transport import post_webhook\n"
        "from backend.records.base.layout import AttemptFolder\n"
        "from backend.records.base.local_files import Files\n"
        "from backend.records.notifications.notification import NotificationTarget, RunEndMessage\n"
        "sys.stdin.read(1)\n"
        "message = RunEndMessage('job-1', 2, 'ERROR', 'Failed', 'digits', 'Why.')\n"
        "targets = (NotificationTarget('webhook', 'aa11'),)\n"
        "NotificationDelivery(AttemptFolder(Path(sys.argv[1])), message, targets,\n"
        "        lambda _t, m: post_webhook(sys.argv[2], m), Files()).poll()\n"
    )
    desks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(attempt.path), hook.url], stdin=subprocess.PIPE
        )
        for _ in range(3)
    ]
    for desk in desks:
        assert desk.stdin is not None
        desk.stdin.write(b"x")
        desk.stdin.close()
    assert [desk.wait(LIMIT_S) for desk in desks] == [0, 0, 0]
    assert len(hook.posts) == 1


def test_s16_a_failed_delivery_is_retried_with_growing_pauses(attempt: AttemptFolder) -> None:
    clock, answers, sent = Clock(), [NotSent("It is away.")] * 3, []

    def send(target: NotificationTarget, _message: RunEndMessage) -> None:
        sent.append(clock.now)
        if answers:
            raise answers.pop()

    delivery = NotificationDelivery(attempt, MESSAGE, (TARGET,), send, Files(), monotonic=clock)
    waits = []
    while (wait := delivery.poll()) is not None:
        waits.append(wait)
        assert delivery.failure == "It is away."
        assert delivery.poll() == wait, "nothing is sent before its time"
        clock.now += wait
    assert (waits, len(sent), delivery.failure) == ([5.0, 15.0, 60.0], 4, "")
    assert read_json(attempt.delivery_file("aa11", 1))["state"] == SENT


def test_s16_a_refusal_for_good_is_not_tried_again_and_neither_is_one_that_lasts_all_night(
    attempt: AttemptFolder,
) -> None:
    for key, error, tries in (
        ("gone", NotSent("It is gone.", is_final=True), 1),
        ("away", NotSent("It is away."), MOST_TRIES),
    ):
        clock, count = Clock(), 0

        def send(
            _target: NotificationTarget, _message: RunEndMessage, error: NotSent = error
        ) -> None:
            nonlocal count
            count += 1
            raise error

        delivery = NotificationDelivery(
            attempt,
            MESSAGE,
            (NotificationTarget("webhook", key),),
            send,
            Files(),
            monotonic=clock,
        )
        while (wait := delivery.poll()) is not None:
            clock.now += wait
        assert count == tries
        record = read_json(attempt.delivery_file(key, 1))
        assert (record["state"], record["why"]) == (GIVEN_UP, str(error))


def held_by(attempt: AttemptFolder, sender: dict[str, Any], number: int = 1) -> None:
    replace_json(
        attempt.delivery_file("aa11", number),
        {"by": sender, "state": "trying", "tries": 0, "why": ""},
    )


def test_s16_a_dead_sender_is_replaced_and_a_live_one_is_not(attempt: AttemptFolder) -> None:
    sent: list[NotificationTarget] = []
    alive = process_identity.own_process().to_dict()
    held_by(attempt, alive)
    delivery = NotificationDelivery(
        attempt, MESSAGE, (TARGET,), lambda target, _: sent.append(target), Files()
    )
    assert delivery.poll() is not None
    assert sent == []
    held_by(attempt, {**alive, "start_ticks": 1})
    assert delivery.poll() is None
    assert len(sent) == 1
    assert read_json(attempt.delivery_file("aa11", 2))["state"] == SENT


def test_s16_a_claim_on_another_computer_holds_as_long_as_it_moves(attempt: AttemptFolder) -> None:
    remote = {"host": "gpu01", "boot_id": "remote", "pid": 7, "start_ticks": 7}
    clock, sent = Clock(), []
    delivery = NotificationDelivery(
        attempt,
        MESSAGE,
        (TARGET,),
        lambda target, _: sent.append(target),
        Files(),
        monotonic=clock,
    )
    for tries in range(3):
        record = {"by": remote, "state": "trying", "tries": tries, "why": ""}
        replace_json(attempt.delivery_file("aa11", 1), record)
        delivery.poll()
        clock.now += ABANDONED_S - 1
        delivery.poll()
    assert sent == []
    clock.now += 2
    delivery.poll()
    assert len(sent) == 1


def test_s16_a_claim_that_is_half_written_is_anothers(attempt: AttemptFolder) -> None:
    attempt.delivery_file("aa11", 1).write_text("")
    sent: list[NotificationTarget] = []
    assert NotificationDelivery(
        attempt, MESSAGE, (TARGET,), lambda target, _: sent.append(target), Files()
    ).poll()
    assert sent == []


# What a message says of a run.


def test_s16_the_message_has_the_cause_and_the_last_20_lines_of_the_failing_rank(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, environment={"HF_TOKEN": "hf_planted"})
    error = RankError("Rank 1 said hf_planted.", 1, "this-computer", remedy="Fix it.")
    run_exit = RunExit(1, JobState.ERROR, "Rank 1 failed.", error)
    replace_json(run.attempt.exit, run_exit.to_dict())
    log = "── run 0, rank 1 ──\nold\n── run 1, rank 1 ──\n"
    log += "".join(f"\x1b[31mline {n} hf_planted\x1b[0m\x07\n" for n in range(30)) + "\n\n"
    run.folder.rank_log(1).write_text(log)
    message = message_of(run.folder, 1, Channels("http://a"))
    assert message is not None
    assert message.title == "Failed: job"
    assert (message.cause, message.remedy) == ("Rank 1 said (left out).", "Fix it.")
    assert message.lines[0] == "line 10 (left out)?"
    assert (len(message.lines), message.lines[-1]) == (20, "line 29 (left out)?")
    replace_json(run.folder.notes, {"name": "night run", "notes": "", "tags": []})
    renamed = message_of(run.folder, 1, Channels("http://a"))
    assert renamed is not None
    assert renamed.name == "night run"


def test_s16_a_stop_sends_no_message_and_success_only_on_request(tmp_path: Path) -> None:
    run = Run(tmp_path)

    def end_run(state: JobState, tells_finished: bool) -> bool:
        replace_json(run.attempt.exit, RunExit(1, state, "So it ended.").to_dict())
        channels = Channels("http://a", notifies_finished=tells_finished)
        return message_of(run.folder, 1, channels) is not None

    assert not end_run(JobState.INTERRUPTED, True)
    assert end_run(JobState.FINISHED, True)
    assert not end_run(JobState.FINISHED, False)
    assert end_run(JobState.LOST, False)


def test_the_message_says_how_a_job_continues(tmp_path: Path) -> None:
    run = Run(tmp_path)
    replace_json(run.attempt.exit, RunExit(1, JobState.ERROR, "gpu02 is lost.").to_dict())
    reason = "gpu02 is lost. Continues on gpu01, without gpu02."
    entry = QueueEntry(
        run.folder.job_id, "job", 2, (Placement("gpu01", 1),), "machine", reason=reason
    )
    replace_json(run.folder.queued, entry.to_dict())
    message = message_of(run.folder, 1, Channels("http://a"))
    assert message is not None
    assert message.cause == reason


def test_a_log_of_nothing_has_no_last_lines() -> None:
    assert last_lines(["── run 1 ──", "", "  "]) == ()


# The settings.


def test_channels_are_read_back_from_their_file_and_a_target_hides_its_address() -> None:
    mail = Mail("smtp.lab", ("a@b", "c@d"), "r@b", user="ring")
    channels = Channels("https://hooks.example/T0-secret", mail, False, "2026-11-22T00:00:00Z")
    assert Channels.from_dict(json.loads(json.dumps(channels.to_dict()))) == channels
    assert [target.needs_password for target in channels.targets] == [False, True]
    assert "secret" not in str(channels.targets)
    swapped = replace(channels, mail=replace(mail, to=("c@d", "a@b"), port=465))
    assert swapped.targets == channels.targets, "the same people, and so the same claim"
    with pytest.raises(ValueError, match="reads up to 1"):
        Channels.from_dict({"schema": 99})


@pytest.mark.parametrize(
    "address",
    ["", "hooks.example", "file:///etc/passwd", "https://", "http://a b", "https://[", "ftp://x"],
)
def test_an_invalid_webhook_has_a_sentence(address: str) -> None:
    assert webhook_error(address).startswith("A webhook address begins with https://")
    assert webhook_error("https://hooks.example:8443/x?y=z") == ""


def test_each_fault_of_a_mail_has_a_sentence() -> None:
    good = Mail("smtp.lab", ("a@b",), "r@b")
    assert mail_error(good) == ""
    for bad, word in (
        (replace(good, host="smtp lab"), "host name"),
        (replace(good, port=0), "port"),
        (replace(good, to=()), "Enter a mail address"),
        (replace(good, to=("a@b\nBcc: c@d",)), "is not a mail address"),
        (replace(good, sender="ring"), "“ring” is not a mail address."),
        (replace(good, user="x", security=PLAIN), "over TLS only"),
    ):
        assert word in mail_error(bad)


# With no desktop open.


def test_s16_a_failed_run_sends_a_message_although_no_desktop_is_open(
    tmp_path: Path, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    server = MailServer()
    mail = Mail("127.0.0.1", ("lab@uni.example",), "ring@uni.example", server.port, PLAIN)
    settings_path = send_notice.settings_path(tmp_path)
    assert settings_path.is_relative_to(home)
    settings_path.parent.mkdir(parents=True)
    replace_json(settings_path, Channels(hook.url, mail).to_dict(), mode=0o600)
    run = Run(tmp_path, {1: "exit7"}, ranks=2).start()
    try:
        wait_for(lambda: hook.posts and server.mails, "webhook and mail")
        wait_for(lambda: not run.leftovers(), "the end of the sender")
        (post,) = hook.posts
        assert (post["state"], post["rank"]) == ("ERROR", 1)
        assert run.folder.job_id in server.mails[0].get_content()
        output = b"".join(
            path.read_bytes()
            for path in tmp_path.rglob("*")
            if path.is_file() and home not in path.parents
        )
        assert b"T0-secret-B0" not in output, "not in the data root, not in a log"
        assert send_notice.start_delivery(run.folder, 1), "a second sender"
        wait_for(lambda: not run.leftovers(), "the end of the second one")
        assert (len(hook.posts), len(server.mails)) == (1, 1)
    finally:
        run.clean()
        server.close()


def test_s16_the_agent_that_closes_a_run_without_supervisor_sends_its_message(
    tmp_path: Path, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings_path = send_notice.settings_path(tmp_path)
    settings_path.parent.mkdir(parents=True)
    replace_json(settings_path, Channels(hook.url).to_dict(), mode=0o600)
    run = Run(tmp_path, steps=10_000, strategy="alone", ranks=1).start()
    try:
        run.wait_until_training()
        process_identity.send_signal(run.supervisor, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(run.supervisor))
        assert RunWatch(DataRoot(tmp_path), "this-computer").poll() == (run.folder.job_id,)
        wait_for(lambda: hook.posts, "the webhook")
        assert "supervisor of the run ended" in hook.posts[0]["cause"]
    finally:
        run.clean()


def test_without_a_usable_channel_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run = Run(tmp_path)
    assert not send_notice.start_delivery(run.folder, 1)
    settings_path = send_notice.settings_path(tmp_path)
    settings_path.parent.mkdir(parents=True)
    secret = Mail("127.0.0.1", ("a@b",), "r@b", user="ring")
    replace_json(settings_path, Channels(mail=secret).to_dict())
    assert not send_notice.start_delivery(run.folder, 1), "what needs a password is a desktop's"
    assert os.listdir(run.attempt.path) == []
