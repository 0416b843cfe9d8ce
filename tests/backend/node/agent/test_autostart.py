"""What keeps an agent over a reboot, with systemctl, loginctl and crontab that tests describe."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.agent import autostart as agent_autostart
from backend.node.agent.autostart import AgentService, Autostart
from backend.node.system import process_identity
from backend.node.system.background_service import ServiceLock
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import NodeFolder
from backend.records.jobs.status import ProcessIdentity
from tests.waiting import LIMIT_S, wait_for

NASTY = "a b;$(touch pwned) 'q' \"d\" 100% $HOME `id` ü -x #"
CRONTAB = """#!/bin/sh
echo "crontab $*" >> "$CALLS"
case "$1" in
  -l) if [ -e "$TAB" ]; then cat "$TAB"; else echo "no crontab for me" >&2; exit 1; fi ;;
  -) cat > "$TAB" ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> "$CALLS"
[ "$2" != "$FAILING" ]
"""
LOGINCTL = """#!/bin/sh
echo "loginctl $*" >> "$CALLS"
[ "$1" != show-user ] || echo "$LINGER"
"""


class Machine:
    """A home and the commands that this machine has."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._commands = folder / "bin"
        self._commands.mkdir()
        self.table = folder / "table"
        self._calls = folder / "calls"
        self.config = folder / "config"
        for name, path in (("TAB", self.table), ("CALLS", self._calls)):
            patch.setenv(name, str(path))
        patch.setenv("XDG_CONFIG_HOME", str(self.config))
        patch.setattr(agent_autostart, "_LIMIT_S", LIMIT_S)
        patch.setenv("PATH", f"{self._commands}:/bin:/usr/bin")
        for absent in ("systemctl", "loginctl", "crontab"):
            self.install_script(absent, "#!/bin/sh\necho 'not here' >&2\nexit 127\n")

    def install_script(self, name: str, script: str) -> None:
        path = self._commands / name
        path.write_text(script)
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    @property
    def units(self) -> list[Path]:
        return list(self.config.rglob("*.service"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AgentService]:
    folder = tmp_path / "node 1"
    folder.mkdir()
    yield AgentService("gpu 1", str(folder), str(tmp_path), interval_s=0.2)
    lock = ServiceLock(folder)
    holder = lock.holder()
    if holder is not None:
        process_identity.send_signal(holder, signal.SIGKILL)
    lock.path.unlink(missing_ok=True)


@pytest.fixture
def arguments_of(tmp_path: Path) -> Callable[[str], list[str]]:
    """What a program gets that a shell line starts."""

    def run(line: str) -> list[str]:
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return list(json.loads(done.stdout))

    return run


def showing(folder: Path) -> str:
    """A program that prints its arguments and PYTHONPATH, at a path with blanks."""
    program = folder / "my python"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([os.environ['PYTHONPATH'], *sys.argv[1:]]))\n"
    )
    program.chmod(0o755)
    return str(program)


def test_f54_a_line_of_a_crontab_starts_the_agent_with_every_name_byte_by_byte(
    tmp_path: Path, arguments_of: Callable[[str], list[str]]
) -> None:
    service = AgentService(NASTY, f"/n/{NASTY}", "/d", showing(tmp_path), f"/c/{NASTY}")
    line = agent_autostart.crontab_line(service)
    schedule, command = line.replace("\\%", "%").split(" ", 1)
    assert schedule == "@reboot"
    assert "\n" not in line
    assert arguments_of(command) == [f"/c/{NASTY}", *service.command(detach=True)[1:]]
    assert not (tmp_path / "pwned").exists()
    # Each % is hidden from cron, which ends the command there.
    assert line.count("%") == line.count("\\%") == 3


def test_f54_a_unit_starts_the_agent_with_every_name_byte_by_byte(tmp_path: Path) -> None:
    service = AgentService(NASTY, "/n", "/d\\e", "/usr/bin/python3", f"/c/{NASTY}")
    lines = dict(
        line.split("=", 1)
        for line in agent_autostart.unit_text(service).splitlines()
        if "=" in line
    )
    # Within double quotes a shell reads a backslash as systemd does; $$ and %% are systemd's own.
    plain = lines["ExecStart"].replace("$$", "$").replace("%%", "%")
    assert "$" not in lines["ExecStart"].replace("$$", "")
    unquoted = shlex.split(plain)
    assert unquoted == list(service.command(detach=False))
    assert "--detach" not in unquoted
    environment = shlex.split(lines["Environment"].replace("%%", "%"))
    assert environment == [f"PYTHONPATH=/c/{NASTY}"]
    assert lines["Description"].endswith(NASTY.replace("%", "%%"))
    assert (lines["Restart"], lines["WantedBy"]) == ("always", "default.target")
    # Whatever becomes of the agent, the runs that it started from the queue go on.
    assert (lines["KillMode"], lines["OOMPolicy"]) == ("process", "continue")


def test_names_that_no_unit_can_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="control characters"):
        AgentService("a\nExecStart=/bin/sh", "/n", "/d")
    with pytest.raises(ValueError, match="backslash"):
        agent_autostart.crontab_line(AgentService("a", "/n\\", "/d"))


def test_systemd_keeps_the_agent_running_where_its_user_may_linger(
    machine: Machine, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.install_script("systemctl", SYSTEMCTL)
    machine.install_script("loginctl", LOGINCTL)
    monkeypatch.setenv("LINGER", "yes")
    assert agent_autostart.install(service).method == "systemd"
    (unit,) = machine.units
    assert unit.read_text() == agent_autostart.unit_text(service)
    assert "loginctl enable-linger" in machine.calls
    assert machine.calls[-2:] == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {service.unit_name}",
    ]
    agent_autostart.remove(service)
    assert machine.units == []
    assert f"systemctl --user disable --now {service.unit_name}" in machine.calls


@pytest.mark.parametrize(
    ("linger", "failing"), [("no", ""), ("yes", "enable"), ("yes", "show-environment")]
)
def test_cron_keeps_the_agent_running_where_systemd_would_not(
    machine: Machine,
    service: AgentService,
    monkeypatch: pytest.MonkeyPatch,
    linger: str,
    failing: str,
) -> None:
    machine.install_script("systemctl", SYSTEMCTL)
    machine.install_script("loginctl", LOGINCTL)
    machine.install_script("crontab", CRONTAB)
    monkeypatch.setenv("LINGER", linger)
    monkeypatch.setenv("FAILING", failing)
    machine.table.write_text("0 1 * * * backup\n")
    assert agent_autostart.install(service).method == "crontab"
    assert machine.units == []
    line = agent_autostart.crontab_line(service)
    assert machine.table.read_text() == f"0 1 * * * backup\n{line}\n"
    first = wait_for(ServiceLock(Path(service.folder)).holder)
    agent_autostart.install(service)
    second = wait_for(ServiceLock(Path(service.folder)).holder)
    assert machine.table.read_text() == f"0 1 * * * backup\n{line}\n"
    assert second != first
    assert not process_identity.is_alive(first)
    agent_autostart.remove(service)
    assert machine.table.read_text() == "0 1 * * * backup\n"
    assert not process_identity.is_alive(second)


def test_without_both_the_agent_runs_until_the_next_reboot_and_says_so(
    machine: Machine, service: AgentService
) -> None:
    autostart = agent_autostart.install(service)
    assert autostart == Autostart("", "After a reboot the agent is started at the next contact.")
    folder = NodeFolder(Path(service.folder))
    wait_for(folder.status.exists, "the first reading")
    assert process_identity.is_alive(ProcessIdentity.from_dict(read_json(folder.info)))
    assert read_json(folder.status)["name"] == "gpu 1"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cron"], "cron starts the agent again after a reboot."),
        (["sshd", "crond"], "cron starts the agent again after a reboot."),
        (["fcron"], "cron starts the agent again after a reboot."),
        (["sshd", "python3"], "no cron runs now; without one, the next contact does."),
        (["crontab"], "no cron runs now"),
        ([], "no cron runs now"),
    ],
)
def test_a_crontab_without_a_cron_is_no_promise(
    machine: Machine,
    service: AgentService,
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    message: str,
) -> None:
    machine.install_script("crontab", CRONTAB)
    with monkeypatch.context() as patch:
        patch.setattr(agent_autostart, "_name", dict(enumerate(names)).__getitem__)
        patch.setattr(process_identity, "pids", lambda: range(len(names)))
        assert agent_autostart._cron_runs() is ("no cron" not in message)
        runs = agent_autostart._cron_runs()
    monkeypatch.setattr(agent_autostart, "_cron_runs", lambda: runs)
    autostart = agent_autostart.install(service)
    agent_autostart.remove(service)
    assert autostart.method == "crontab"
    assert message in autostart.message


def test_the_command_line_says_which_way_was_taken(
    machine: Machine,
    service: AgentService,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine.install_script("crontab", CRONTAB)
    monkeypatch.setattr(agent_autostart, "_cron_runs", lambda: True)
    options = ["--name", service.name, "--folder", service.folder, "--data-root", service.data_root]
    assert agent_autostart.main(["install", *options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "by": "crontab",
        "sentence": "cron starts the agent again after a reboot.",
    }
    assert agent_autostart.main(["remove", *options]) == 0
    assert ServiceLock(Path(service.folder)).holder() is None
    assert machine.table.read_text() == ""


@pytest.mark.parametrize("ending_kind", ["killed", "removed", "lives"])
def test_a_contact_of_another_node_starts_an_installed_agent_that_does_not_run(
    machine: Machine, service: AgentService, tmp_path: Path, ending_kind: str
) -> None:
    service = replace(service, log=str(tmp_path / "agent.log"))
    agent_autostart.install(service)
    lock = ServiceLock(Path(service.folder))
    first = wait_for(lock.holder)
    if ending_kind == "killed":
        process_identity.send_signal(first, signal.SIGKILL)
        wait_for(lambda: not process_identity.is_alive(first))
    elif ending_kind == "removed":
        agent_autostart.remove(service)

    agent_autostart.start_recorded(tmp_path)

    if ending_kind == "killed":
        assert wait_for(lock.holder) != first
    else:
        assert lock.holder() == (first if ending_kind == "lives" else None)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"name": 1}', '{"x": 1}', "\0"])
def test_a_spoiled_record_of_an_agent_starts_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.agent.json").write_text(content)
    agent_autostart.start_recorded(tmp_path)
