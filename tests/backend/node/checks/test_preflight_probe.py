"""The preflight probe of one node, as the desktop starts it: a program with one fact a line."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from backend.node.agent.ssh_command_filter import REFUSAL
from backend.node.checks import preflight_probe
from backend.node.system import process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.services.preflight.checks import CHECKS
from backend.services.preflight.context import JobPreflight, NodePreflight, PreflightTarget
from tests.waiting import LIMIT_S, wait_for

TOKEN = "0123456789abcdef" * 2
LISTENS = {"visitors": 1, "limit_s": LIMIT_S}
PROGRAM = Path(preflight_probe.__file__).read_text()
PROGRAM = PROGRAM.replace("_IDLE_S = 5.0", f"_IDLE_S = {LIMIT_S}")


def command(mode: str, request: dict[str, Any]) -> list[str]:
    return [sys.executable, "-I", "-", mode, json.dumps(request)]


def run_probe(mode: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        command(mode, request),
        input=PROGRAM.encode(),
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(
    root: Path,
    bundle: str = "",
    python: str = sys.executable,
    mpirun: str = "",
    library: str = "horovod",
    **changes: Any,
) -> dict[str, Any]:
    name = "node1" if bundle else THIS_COMPUTER
    target = PreflightTarget(
        *(name, Placement(name, 1), python, mpirun, "5.0", bundle, str(root), str(root)),
        is_head=True,
        library=library,
        imports=str(root / "imports.json"),
    )
    node, job = NodePreflight(target.placement, target), JobPreflight("horovod", "")
    probes = {check.probe for check in CHECKS if check.probe and check.is_relevant(node, job)}
    return {
        **asdict(target),
        "asked": {probe.name: probe.request(target) for probe in probes},
        "node": "node1",
        "code_root": bundle or str(CODE_ROOT),
        "folder": ".preflight-x",
        "nonce": "nonce",
        "limit_s": LIMIT_S,
        "command_limit_s": LIMIT_S,
        "root_limit_s": LIMIT_S,
        **changes,
    }


def probe_facts(root: Path, **changes: Any) -> dict[str, Any]:
    return {line["name"]: line["facts"] for line in run_probe("check", request(root, **changes))}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".preflight-x").mkdir()
    (tmp_path / ".preflight-x" / "desktop").write_text("nonce")
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_the_same_folder_is_seen_and_answered(root: Path) -> None:
    replies = probe_facts(root)
    assert replies["data_root"]["seen"]
    assert replies["data_root"]["free"] > 0
    assert (root / ".preflight-x" / "node1").read_text() == "nonce"
    assert replies["leftovers"]["code"] == 0
    assert "end" in replies


def test_another_folder_is_not_taken_for_the_data_root(root: Path) -> None:
    (root / ".preflight-x" / "desktop").write_text("another")
    replies = probe_facts(root, root_limit_s=0.2)["data_root"]
    assert replies["there"]
    assert not replies["seen"]
    assert not probe_facts(root / "nowhere", root_limit_s=0.2)["data_root"]["there"]


@pytest.fixture
def hanging(root: Path) -> Iterator[Path]:
    """A data root whose proof cannot be read before its other end is written to."""
    pipe = root / ".preflight-x" / "desktop"
    pipe.unlink()
    os.mkfifo(pipe)
    yield pipe
    # What hung in it has no parent that would end it.
    for pid in process_identity.pids():
        with contextlib.suppress(OSError):
            if os.fsencode(root) in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("hanging")
def test_the_probe_ends_although_a_check_hangs(root: Path) -> None:
    replies = probe_facts(root, limit_s=0.5)
    assert replies["data_root"] is None
    assert "end" in replies


def test_a_hanging_check_delays_no_other_answer(root: Path, hanging: Path) -> None:
    probe_request = request(root)
    probe = subprocess.Popen(
        command("check", probe_request), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with probe:
        assert probe.stdin is not None
        assert probe.stdout is not None
        probe.stdin.write(PROGRAM.encode())
        probe.stdin.close()
        expected_checks = probe_request["asked"].keys() - {"data_root"}
        assert {
            json.loads(probe.stdout.readline())["name"] for _ in expected_checks
        } == expected_checks
        hanging.write_text("nonce")
        last, end = (json.loads(line) for line in probe.stdout)
        assert last["facts"]["seen"]
        assert end["name"] == "end"


def test_a_broken_environment_is_a_fact(root: Path) -> None:
    replies = probe_facts(
        root, bundle=str(root / "bundle"), python="/nowhere/python", mpirun="/nowhere/m"
    )
    assert replies["imports"]["failed"] == "python"
    assert replies["program"] == {"digest": ""}
    assert replies["mpirun"]["code"] == 127


def test_two_nodes_meet_and_a_sample_arrives() -> None:
    (endpoint,) = run_probe("listen", {"address": "127.0.0.1", "token": TOKEN, **LISTENS})
    peers = {"node2": ["127.0.0.1", endpoint["port"]], "node3": ["127.0.0.1", 1]}
    size = 16 * preflight_probe.BLOCK_BYTES
    met = run_probe(
        "meet",
        {
            "token": TOKEN,
            "peers": peers,
            "ssh": {},
            "ssh_config": "",
            "limit_s": LIMIT_S,
            "bytes": size,
        },
    )
    replies = {reply["node"]: reply["facts"] for reply in met}
    assert replies["node2"]["bytes"] == size
    assert not replies["node3"]["connected"]
    assert replies["node3"]["why"] == "Connection refused"


@pytest.mark.parametrize(
    ("answer", "is_limited", "probe_facts"),
    [
        ('sh -c "$asked"', False, {"code": 0, "why": "", "shell": False}),
        # As fish has it: a fault, and the code 0.
        (
            "echo 'fish: Unsupported use' >&2; echo '^~~^' >&2",
            False,
            {"code": 1, "why": "fish: Unsupported use", "shell": True},
        ),
        (
            "echo 'Bad : modifier' >&2; exit 1",
            False,
            {"code": 1, "why": "Bad : modifier", "shell": True},
        ),
        ('test "$asked" = true', True, {"code": 0, "why": "", "shell": False}),
        (
            f"test \"$asked\" = true || {{ echo '{REFUSAL}' >&2; exit 1; }}",
            False,
            {"code": 0, "why": "", "shell": False},
        ),
        (
            "echo 'sh: 1: /x/python: not found' >&2; exit 127",
            True,
            {"code": 1, "why": "sh: 1: /x/python: not found", "shell": False},
        ),
        (
            "echo 'Permission denied' >&2; exit 255",
            False,
            {"code": 255, "why": "Permission denied", "shell": False},
        ),
    ],
    ids=["sh", "fish", "csh", "runs only", "own key for runs only", "no filter", "refused"],
)
def test_the_remote_shell_is_tried_with_a_command_of_mpirun(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    is_limited: bool,
    probe_facts: dict[str, object],
) -> None:
    ssh = root / "ssh"
    ssh.write_text(f"#!/bin/sh\nfor asked; do :; done\n{answer}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")
    monkeypatch.setenv("SHELL", "/bin/bash")
    probe_request = {
        "token": TOKEN,
        "peers": {},
        "ssh": {"node2": ["10.0.0.2", is_limited]},
        "bytes": 1,
    }
    (met,) = run_probe("meet", {**probe_request, "ssh_config": "config", "limit_s": LIMIT_S})
    assert met == {"kind": "ssh", "node": "node2", "facts": probe_facts}


@pytest.mark.parametrize(
    ("first", "second", "tries", "code"),
    [
        ("exit 0", "exit 1", 1, 0),
        ("exec tail -f /dev/null", "exec tail -f /dev/null", 2, 124),
        ("echo 'Connection timed out during banner exchange' >&2; exit 255", "exit 0", 2, 0),
        ("echo 'connect to host b: Connection timed out' >&2; exit 255", "exit 255", 2, 255),
        ("echo 'Permission denied' >&2; exit 255", "exit 0", 1, 255),
        ("echo 'Host key verification failed.' >&2; exit 255", "exit 0", 1, 255),
    ],
)
def test_only_a_late_login_is_tried_once_more(
    root: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str, tries: int, code: int
) -> None:
    ssh, count = root / "ssh", root / "count"
    ssh.write_text(
        f"#!/bin/sh\necho x >> {count}\n"
        f"if [ $(wc -l < {count}) = 1 ]; then {first}; else {second}; fi\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")
    probe_request = {"token": TOKEN, "peers": {}, "ssh": {"node2": ["10.0.0.2", True]}, "bytes": 1}
    limit_s = 0.1 if code == 124 else LIMIT_S
    (met,) = run_probe("meet", {**probe_request, "ssh_config": "config", "limit_s": limit_s})
    assert met["facts"]["code"] == code
    # One that had no processor before its limit has counted nothing.
    assert code == 124 or len(count.read_text().split()) == tries


@pytest.mark.parametrize("came", range(3))
@pytest.mark.parametrize("foreigners", [0, 1])
def test_a_dismissed_listener_ends_without_the_visitors_that_did_not_come(
    came: int, foreigners: int
) -> None:
    (endpoint,) = run_probe(
        "listen", {"address": "127.0.0.1", "token": TOKEN, **LISTENS, "visitors": 3}
    )
    address = ("127.0.0.1", endpoint["port"])
    for token in [TOKEN] * came + ["another"] * foreigners:
        with socket.create_connection(address) as visitor:
            visitor.sendall(token.encode())
    listener = {"address": address[0], "port": address[1], "token": TOKEN, "visitors": 3}
    assert run_probe("dismiss", listener) == []

    def is_refused() -> bool:
        with socket.socket() as visitor:
            return visitor.connect_ex(address) == errno.ECONNREFUSED

    wait_for(is_refused, "the end of the listener")


def test_a_foreign_address_cannot_be_listened_at() -> None:
    (endpoint,) = run_probe("listen", {"address": "192.0.2.1", "token": TOKEN, **LISTENS})
    assert endpoint["port"] == 0
    assert endpoint["why"] == "Cannot assign requested address"


@pytest.fixture
def environment(root: Path) -> Path:
    """Of a node: its torch writes down each time that it is imported."""
    packages = root / "environment/lib/python3/site-packages"
    for name in ("torch", "horovod/torch"):
        (packages / name).mkdir(parents=True)
    mark = f"open({str(root / 'imported')!r}, 'a').write('.')\n"
    (packages / "torch/__init__.py").write_text(
        mark + "from torch import version\n__version__ = version.number\n"
    )
    (packages / "torch/version.py").write_text("number = '2.0'\ncuda = None\n")
    (packages / "horovod/__init__.py").write_text("")
    (packages / "horovod/torch/__init__.py").write_text("def mpi_built(): return True\n")
    (packages / "mpi4py").mkdir()
    (packages / "mpi4py/__init__.py").write_text("class rc: initialize = True\n")
    (packages / "mpi4py/MPI.py").write_text("import mpi4py\nassert not mpi4py.rc.initialize\n")
    for name, version in (("horovod", "0.28.1"), ("mpi4py", "4.1.2")):
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    python = root / "environment/bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def imports(root: Path, python: Path, library: str = "horovod") -> dict[str, Any]:
    endpoint = {"python": str(python), "bundle": str(root)}
    replies: dict[str, Any] = probe_facts(root, library=library, **endpoint)["imports"]
    return replies


def test_only_modules_that_the_strategy_needs_are_imported(root: Path, environment: Path) -> None:
    torch = {"code": 0, "torch": "2.0", "cuda": ""}
    packages = environment.parents[1] / "lib/python3/site-packages"
    (packages / "horovod/torch/__init__.py").write_text("def mpi_built(): return False\n")
    assert imports(root, environment) == {
        **torch,
        "failed": "horovod",
        "why": "ImportError: Horovod was built without MPI",
    }
    assert imports(root, environment, "mpi4py") == {**torch, "mpi4py": "4.1.2"}
    assert imports(root, environment, "") == torch
    (packages / "mpi4py/MPI.py").write_text("raise RuntimeError('no MPI library')\n")
    replies = imports(root, environment, "mpi4py")
    assert (replies["failed"], replies["why"]) == ("mpi4py", "RuntimeError: no MPI library")


def test_an_import_is_repeated_only_after_the_environment_changed(
    root: Path, environment: Path
) -> None:
    first = imports(root, environment)
    assert first == {"code": 0, "torch": "2.0", "cuda": "", "horovod": "0.28.1"}
    # The first import left bytecode behind, beside which everything is as it was.
    imports(root, environment)
    import_count = len((root / "imported").read_text())
    assert imports(root, environment) == first
    assert len((root / "imported").read_text()) == import_count
    version = environment.parents[1] / "lib/python3/site-packages/torch/version.py"
    version.write_text("number = '2.10'\ncuda = None\n")
    assert imports(root, environment)["torch"] == "2.10"
    version.unlink()
    assert imports(root, environment)["failed"] == "torch"
    assert imports(root, environment)["failed"] == "torch"
