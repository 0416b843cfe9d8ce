"""``job preflight --fix`` accepts a host key only after a yes at the terminal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.cli import questions
from backend.cli.commands.job.run import fix_findings
from backend.records.nodes.entry import HostKey
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding
from backend.services.preflight.context import PreflightContext
from backend.services.preflight.fixes import PreflightFixes
from backend.ssh.interface import HostKeyChanged, HostKeyUnknown
from tests.backend.services.preflight.judging import unknown_key
from tests.fakes.mounted_root import mounted

KEY = HostKey("10.0.4.12", 22, "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:new")
UNKNOWN = unknown_key("gpu1", HostKeyUnknown("Unknown.", "", KEY))
CHANGED = unknown_key("gpu1", HostKeyChanged("Changed.", "", KEY, "SHA256:old"))
SERVICE = PreflightFinding(
    "node", False, "It is out of service.", "", ("gpu1",), Fix.PUT_INTO_SERVICE
)


@pytest.mark.parametrize(
    ("finding", "asks", "answer", "trusted_keys"),
    [
        (UNKNOWN, True, True, [KEY]),
        (UNKNOWN, True, False, []),
        (UNKNOWN, False, True, []),
        (CHANGED, True, True, []),
        (CHANGED, False, True, []),
        (SERVICE, True, True, []),
    ],
)
def test_a_host_key_is_accepted_only_if_it_is_new_and_the_user_says_yes(
    monkeypatch: pytest.MonkeyPatch,
    finding: PreflightFinding,
    asks: bool,
    answer: bool,
    trusted_keys: list[HostKey],
) -> None:
    accepted_keys: list[HostKey] = []
    monkeypatch.setattr(questions, "ask_about_key", lambda key: answer)
    cluster: Any = SimpleNamespace(accept_key=accepted_keys.append)
    set_up: Any = SimpleNamespace(authorize_all=None)
    fixer = PreflightFixes(PreflightContext(mounted(Path("unused")), cluster, set_up, lambda: ""))
    services: Any = SimpleNamespace(preflight=SimpleNamespace(fix_all=fixer.fix))
    done = fix_findings(services, Preflight(("gpu1",), (finding,), 1.0), asks)
    assert (accepted_keys, done) == (trusted_keys, bool(trusted_keys))
