"""States of jobs in Slurm, with a login node that answers, is slow, or does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.datastore.access.root_access import OpenJob
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.slurm.placement import SlurmPlacement, job_comment, job_name
from backend.records.slurm.submission import Submission
from backend.services.context.container import open_services
from backend.services.nodes import launchers
from backend.services.nodes.launchers import LauncherService
from backend.ssh.interface import CommandResult, Unreachable
from tests.waiting import LIMIT_S, wait_for

JOB_ID = "20261130-abcdef"


class LoginNode:
    """Answers each query by the next of ``answers``, and then by the last of them for ever."""

    def __init__(self, *answers: Callable[[], CommandResult]) -> None:
        self.answers = list(answers)
        self.query_count = 0

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        self.query_count += 1
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])()


def waiting_job() -> CommandResult:
    comment = job_comment(JOB_ID, 1)
    return CommandResult(0, f"17|PENDING|Priority|N/A|{job_name(JOB_ID)}|{comment}\n", "")


def no_answer() -> CommandResult:
    raise Unreachable("hpc does not answer.")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[OpenJob]:
    """A job whose first run was submitted."""
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    folder = services.data_root.job(JOB_ID)
    folder.attempt(1).path.mkdir(parents=True)
    submission = Submission(SlurmPlacement(THIS_COMPUTER), "/slurm.log", "17")
    replace_json(folder.attempt(1).submission("slurm"), submission.to_dict())
    yield folder
    services.close()


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[Callable[[LoginNode], LauncherService]]:
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    made_services: list[LauncherService] = []

    def make(login_node: LoginNode) -> LauncherService:
        service = LauncherService(
            services.data_root, services.cluster, services.nodes.heads, lambda _: login_node, 0.0
        )
        made_services.append(service)
        return service

    yield make
    for service in made_services:
        service.close()
    services.close()


def test_the_last_state_holds_while_the_login_node_does_not_answer(
    folder: OpenJob, make_service: Callable[[LoginNode], LauncherService]
) -> None:
    login_node = LoginNode(waiting_job, no_answer)
    service = make_service(login_node)

    def is_queued_and_unanswered() -> bool:
        condition = service.condition(folder, 1)
        assert condition is not None
        assert condition.state is JobState.QUEUED
        return login_node.query_count > 3

    wait_for(is_queued_and_unanswered, "queries without an answer")


def test_without_any_answer_the_state_is_not_known_and_nothing_ends(
    folder: OpenJob, make_service: Callable[[LoginNode], LauncherService]
) -> None:
    assert make_service(LoginNode(no_answer)).condition(folder, 1) is None
    assert not folder.attempt(1).exit.exists()


def test_a_slow_login_node_delays_only_the_first_question(
    folder: OpenJob, make_service: Callable[[LoginNode], LauncherService]
) -> None:
    may_answer = threading.Event()

    def answer_late() -> CommandResult:
        may_answer.wait(LIMIT_S)
        return waiting_job()

    service = make_service(LoginNode(waiting_job, answer_late))
    conditions = [service.condition(folder, 1) for _ in range(100)]
    may_answer.set()
    assert {condition.state for condition in conditions if condition} == {JobState.QUEUED}


class HangingShell:
    """A connection whose commands end only when it is closed."""

    def __init__(self) -> None:
        self.began, self.closed, self.ended = (threading.Event() for _ in range(3))

    def run(self, argv: Sequence[str], **options: object) -> CommandResult:
        self.began.set()
        assert self.closed.wait(LIMIT_S)
        self.ended.set()
        raise Unreachable("hpc does not answer.")

    def close(self) -> None:
        self.closed.set()


def test_the_end_of_the_program_waits_for_no_command_on_a_login_node(
    folder: OpenJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "_FIRST_ANSWER_S", 0.0)
    submission = Submission(SlurmPlacement("hpc"), "/slurm.log", "17")
    replace_json(folder.attempt(1).submission("slurm"), submission.to_dict())
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    shell = HangingShell()
    monkeypatch.setattr(services.cluster, "open_shell", lambda _name: shell)
    service = LauncherService(services.data_root, services.cluster, services.nodes.heads)
    assert service.condition(folder, 1) is None
    assert shell.began.wait(LIMIT_S)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "cluster")
    service.close()
    assert shell.ended.wait(LIMIT_S)
    services.close()


def test_a_run_without_a_readable_submission_has_no_known_state(
    folder: OpenJob, make_service: Callable[[LoginNode], LauncherService]
) -> None:
    folder.attempt(1).submission("slurm").write_text("{")
    assert make_service(LoginNode(waiting_job)).condition(folder, 1) is None


def test_a_computer_without_slurm_is_no_login_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    with pytest.raises(BackendError, match="This computer has no sinfo"):
        services.launchers.partitions(THIS_COMPUTER)
    services.close()
