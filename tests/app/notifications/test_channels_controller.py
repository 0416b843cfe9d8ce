"""Settings, service and jobs: each end is delivered once, and an error is a sentence."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject

from app.notifications import channels_controller
from app.notifications.channels_controller import ChannelsController
from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.records.notifications.notification import Channels
from backend.services.notifications.service import DeliveryAttempt
from tests.app.jobs.test_status_poller import LIVE
from tests.job_views import replace_fields
from tests.windows import find_only
from widgets.common.labels import Label
from widgets.shell.notification_settings import ChannelTest, NoticeSettings

HOOK = Channels("https://hooks.example/T0", enabled_at="2026-11-22T00:00:00Z")
FAILED = replace_fields(LIVE, state=JobState.ERROR, updated_at="2026-11-22T08:00:00Z")


class Service:
    """Answers as the real one does; remembers what it was asked."""

    def __init__(self):
        self.stored_channels = HOOK
        self.delivered = []
        self.answers = []
        self.spread_to = 0
        self.error = None

    def channels(self):
        return self.stored_channels

    def has_password(self):
        return True

    def keyring_error(self):
        return ""

    def store(self, channels, password):
        if self.error:
            raise self.error
        self.stored_channels = channels
        return channels

    def copy_to_nodes(self):
        self.spread_to += 1
        return ("gpu02 does not have the settings: no answer.",)

    def send_test(self, kind, channels, password):
        if self.error:
            raise self.error

    def notify(self, job, run):
        self.delivered.append((job, run))
        return self.answers.pop(0) if self.answers else DeliveryAttempt(None)


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def page(qtbot):
    page = NoticeSettings()
    qtbot.addWidget(page)
    page.show()
    return page


@pytest.fixture
def controller(service, page, immediately):
    parent = QObject()
    yield ChannelsController(service, immediately, page, parent)
    parent.deleteLater()


def messages(page):
    return [
        find_only(Label, r).text()
        for r in (page._webhook_result, page._mail_result)
        if r.isVisible()
    ]


def test_s16_each_end_is_handed_to_the_service_once(controller, service):
    for _ in range(3):
        controller.send_ends((LIVE, FAILED, replace(FAILED, id="b"), replace(LIVE, id="c")))
    controller.send_ends(
        (replace_fields(FAILED, run=2), replace_fields(FAILED, updated_at="2026-11-01", id="old"))
    )
    assert service.delivered == [("a", 1), ("b", 1), ("a", 2)]


def test_s16_a_failed_delivery_is_reported_and_repeated(controller, service, page, qtbot):
    service.answers = [
        DeliveryAttempt(0.01, "The webhook at hooks.example answered 503.", "webhook")
    ]
    controller.send_ends((FAILED,))
    assert messages(page) == ["The webhook at hooks.example answered 503. It will be sent again."]
    qtbot.waitUntil(lambda: len(service.delivered) == 2)
    assert messages(page) == [], "it has arrived"


def test_a_delivery_that_is_given_up_is_reported(controller, service, page):
    service.answers = [
        DeliveryAttempt(None, "smtp.lab did not accept the user or the password.", "mail")
    ]
    controller.send_ends((FAILED,))
    assert messages(page) == [
        "smtp.lab did not accept the user or the password. It will not be sent again."
    ]


def test_a_missing_data_root_is_tried_again(controller, service, monkeypatch, qtbot):
    monkeypatch.setattr(channels_controller, "_RETRY_DELAY_S", 0.01)
    notify = service.notify

    def fail(job, run):
        service.notify = notify
        raise BackendError("It is away.")

    service.notify = fail
    controller.send_ends((FAILED,))
    qtbot.waitUntil(lambda: service.delivered == [("a", 1)])


def test_nodes_get_the_settings_if_chosen_and_lose_them_afterwards(controller, service, page):
    page.channels_chosen.emit(replace(HOOK, webhook="https://other.example"), None)
    assert service.spread_to == 0
    page.channels_chosen.emit(replace(HOOK, from_nodes=True), None)
    assert messages(page) == ["gpu02 does not have the settings: no answer."]
    page.channels_chosen.emit(HOOK, None)
    assert service.spread_to == 2


def test_the_one_switch_counts_for_webhook_and_mail_too(controller, service):
    controller.choose_finished(False)
    assert not service.stored_channels.notifies_finished
    controller.send_ends((replace_fields(FAILED, state=JobState.FINISHED),))
    assert service.delivered == []


def test_a_refusal_is_a_sentence_on_the_page(controller, service, page):
    service.error = BackendError("smtp.lab did not accept the mail: 550 no.", "")
    page.test_requested.emit(ChannelTest("mail", HOOK, None))
    assert messages(page) == ["smtp.lab did not accept the mail: 550 no."]
    service.error = None
    page.test_requested.emit(ChannelTest("mail", HOOK, None))
    assert messages(page) == ["The test was sent. Check that it arrived."]
