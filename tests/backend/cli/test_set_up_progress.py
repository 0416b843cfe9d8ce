"""``node provision`` says what a step waits for when that begins, and not each of its figures."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest

from backend.cli.commands.node import SetUpReporter
from backend.cli.session import Session
from backend.provisioning.provisioner import _SetUpWork
from backend.provisioning.step_reporter import StepReporter

SENT = [f"Sending torch: {done} of 206 MB" for done in range(0, 206, 50)]


@pytest.mark.parametrize(
    ("messages", "printed"),
    [
        ([], []),
        (SENT, [SENT[0]]),
        (
            [*SENT, "Installing 9 packages", "Importing"],
            [SENT[0], "Installing 9 packages", "Importing"],
        ),
        (["Starting two ranks"], ["Starting two ranks"]),
        (["Waiting for another node", *SENT], ["Waiting for another node", SENT[0]]),
        ([SENT[0], "Sending sympy: 0 of 6 MB"], [SENT[0], "Sending sympy: 0 of 6 MB"]),
    ],
)
@pytest.mark.parametrize("quiet", [True, False])
def test_each_wait_is_said_once_when_it_begins(
    capsys: pytest.CaptureFixture[str], messages: list[str], printed: list[str], quiet: bool
) -> None:
    session = Session(Namespace(json=quiet), lambda *_: 0)
    steps = StepReporter(
        "gpu1", ("PyTorch", "Agent"), SetUpReporter(session.print_early).report, lambda: False
    )

    def work() -> str:
        for message in messages:
            steps.show_message(message)
        return "Ready."

    steps.start()
    steps.run_step(work)
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("  ")[2].strip() for line in lines[:-1]] == ([] if quiet else printed)
    assert quiet or lines[-1].endswith("Ready.")


@pytest.mark.parametrize(
    ("loadavg", "cores", "messages"),
    [
        ("29.40 20.1 9.0 3/400 17\n", 2, ", and longer now: the node is busy (load 29 on 2 cores)"),
        ("29.40 20.1 9.0 3/400 17\n", 64, ""),
        ("0.02 0.1 0.1 1/100 17\n", 2, ""),
        ("4.00 0.1 0.1 1/100 17\n", 2, ", and longer now: the node is busy (load 4 on 2 cores)"),
        ("", 2, ""),
        ("cat: no such file", 2, ""),
    ],
)
def test_a_trial_on_a_busy_node_names_the_load(loadavg: str, cores: int, messages: str) -> None:
    shell = SimpleNamespace(run=lambda argv: SimpleNamespace(out=loadavg))
    work: Any = SimpleNamespace(_builder=shell, _build_facts=SimpleNamespace(cores=cores))
    assert _SetUpWork._busy_note(work) == messages
