"""Start of the agent after a reboot: by systemd, by cron, or at the next contact.

``python -m backend.node.agent.autostart install|remove …`` prints one JSON document with the method
and a sentence about it. systemd's user services end with the user's last session unless lingering
is on for that user, so without lingering cron is used.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.system import process_cleanup, process_identity
from backend.node.system.background_service import ServiceLock
from backend.node.system.start_supervisor import CODE_ROOT, start_detached
from backend.records.base.atomic_files import read_json, replace_json

_LIMIT_S = 30.0
_CRONS = ("cron", "crond", "fcron", "dcron", "bcron-start")


@dataclass(frozen=True)
class AgentService:
    """The agent of one folder. All paths are absolute."""

    name: str
    folder: str
    data_root: str
    python: str = sys.executable
    code_root: str = str(CODE_ROOT)
    interval_s: float = 2.0
    log: str = os.devnull

    def __post_init__(self) -> None:
        for text in (self.name, self.folder, self.data_root, self.python, self.code_root, self.log):
            if any(unicodedata.category(c) == "Cc" for c in text):
                raise ValueError("a unit or a crontab cannot contain control characters")

    def command(self, detach: bool) -> tuple[str, ...]:
        """Return the command that starts the agent, with ``code_root`` as PYTHONPATH."""
        command = [self.python, "-m", "backend.node.agent.agent", "--name", self.name]
        command += ["--folder", self.folder, "--data-root", self.data_root]
        command += ["--interval", f"{self.interval_s:g}"]
        return (*command, "--detach", "--log", self.log) if detach else tuple(command)

    @property
    def unit_name(self) -> str:
        """A valid name that is unique for the folder."""
        return f"{self._lock.path.stem}.service"

    @property
    def mark(self) -> str:
        """The end of this agent's line in a crontab."""
        return f"# {self._lock.path.stem}"

    @property
    def record(self) -> Path:
        """The file next to the log from which a contact of another node starts the agent."""
        return Path(self.log).with_name(f"{self._lock.path.stem}.agent.json")

    @property
    def is_alive(self) -> bool:
        return self._lock.holder() is not None

    @property
    def _lock(self) -> ServiceLock:
        return ServiceLock(Path(self.folder))

    def stop(self) -> None:
        """End the agent of this folder on this computer, if it runs."""
        holder = self._lock.holder()
        if holder is not None:
            process_cleanup.end(lambda: (holder,) if process_identity.is_alive(holder) else ())


@dataclass(frozen=True)
class Autostart:
    """``method``: "systemd", "crontab", or "" if nothing starts the agent after a reboot."""

    method: str
    message: str


def unit_text(service: AgentService) -> str:
    """Return the unit file of a systemd user service."""
    # $ is literal in Environment= but not in ExecStart=.
    exec_start = " ".join(
        _quote_token(token).replace("$", "$$") for token in service.command(detach=False)
    )
    return (
        "[Unit]\n"
        f"Description=Ringmaster's agent of the node {_percent(service.name)}\n"
        "\n"
        "[Service]\n"
        f"Environment={_quote_token(f'PYTHONPATH={service.code_root}')}\n"
        f"ExecStart={exec_start}\n"
        # The runs that it starts from the queue live on in its group, whatever becomes of it.
        "KillMode=process\n"
        "OOMPolicy=continue\n"
        "Restart=always\n"
        "RestartSec=30\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def crontab_line(service: AgentService) -> str:
    """Return a line for the user's crontab, without its line feed.

    Raises:
        ValueError: A word contains a backslash, which versions of cron treat differently.
    """
    tokens = ["env", f"PYTHONPATH={service.code_root}", *service.command(detach=True)]
    if any("\\" in token for token in tokens):
        raise ValueError("a line of a crontab cannot contain a backslash")
    # cron ends the command at an unescaped %, within quotes too.
    return f"@reboot {shlex.join(tokens)} {service.mark}".replace("%", "\\%")


def install(service: AgentService) -> Autostart:
    """Start the agent in place of one that runs, and start it after reboots if possible."""
    remove(service)
    if service.log != os.devnull:
        replace_json(service.record, asdict(service))
    if _systemd_keeps(service):
        return Autostart("systemd", "systemd starts the agent again after a reboot.")
    _start(service)
    if _crontab_keeps(service):
        if _cron_runs():
            return Autostart("crontab", "cron starts the agent again after a reboot.")
        return Autostart(
            "crontab",
            "cron starts the agent again after a reboot, but no cron runs now; without one, the "
            "next contact does.",
        )
    return Autostart("", "After a reboot the agent is started at the next contact.")


def remove(service: AgentService) -> None:
    """Stop the agent and remove everything that starts it."""
    unit = _unit_path(service)
    if unit.exists():
        _ask(["systemctl", "--user", "disable", "--now", service.unit_name])
        unit.unlink()
        _ask(["systemctl", "--user", "daemon-reload"])
    lines = _crontab()
    if lines is not None and any(line.endswith(service.mark) for line in lines):
        _write_crontab([line for line in lines if not line.endswith(service.mark)])
    service.record.unlink(missing_ok=True)
    service.stop()


def start_recorded(home: Path = CODE_ROOT.parents[1]) -> None:
    """Start the agents that set-up installed here and that do not run, such as after a reboot."""
    for path in home.glob("*.agent.json"):
        with suppress(OSError, ValueError, TypeError, BackendError):
            service = AgentService(**read_json(path))
            if not service.is_alive:
                _start(service)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend.node.agent.autostart", description=__doc__)
    parser.add_argument("action", choices=("install", "remove"))
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", required=True, type=os.path.abspath)
    parser.add_argument("--data-root", required=True, type=os.path.abspath)
    parser.add_argument("--interval", type=float, default=2.0)
    parser.add_argument("--log", default=os.devnull, type=os.path.abspath)
    options = parser.parse_args(arguments)
    service = AgentService(
        options.name,
        options.folder,
        options.data_root,
        interval_s=options.interval,
        log=options.log,
    )
    if options.action == "install":
        autostart = install(service)
    else:
        remove(service)
        autostart = Autostart("", "The agent was stopped, and nothing starts it again.")
    report = {"by": autostart.method, "sentence": autostart.message}
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


# systemd.


def _systemd_keeps(service: AgentService) -> bool:
    if not _ask(["systemctl", "--user", "show-environment"])[0]:
        return False
    _ask(["loginctl", "enable-linger"])
    ok, answer = _ask(["loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"])
    if not ok or answer.strip() != "yes":
        return False
    unit = _unit_path(service)
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(unit_text(service), encoding="utf-8")
    _ask(["systemctl", "--user", "daemon-reload"])
    if _ask(["systemctl", "--user", "enable", "--now", service.unit_name])[0]:
        return True
    unit.unlink()
    return False


def _unit_path(service: AgentService) -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "systemd" / "user" / service.unit_name


def _quote_token(token: str) -> str:
    """Quote one word for systemd.syntax(7)."""
    quoted_text = _percent(token).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted_text}"'


def _percent(text: str) -> str:
    return text.replace("%", "%%")


# cron.


def _crontab_keeps(service: AgentService) -> bool:
    lines = _crontab()
    if lines is None:
        return False
    try:
        return _write_crontab([*lines, crontab_line(service)])
    except ValueError as error:
        swallowed(error)
        return False


def _crontab() -> list[str] | None:
    """Return the lines of the user's crontab, or None without cron."""
    ok, answer = _ask(["crontab", "-l"])
    if ok:
        return answer.splitlines()
    # An empty crontab is an error too, with different messages.
    return [] if "no crontab" in answer else None


def _write_crontab(lines: Sequence[str]) -> bool:
    return _ask(["crontab", "-"], "".join(f"{line}\n" for line in lines))[0]


def _cron_runs() -> bool:
    """Return whether a cron can be seen to run, or the processes of others are hidden."""
    with suppress(OSError):
        Path("/proc/1/comm").read_bytes()
        return any(_name(pid) in _CRONS for pid in process_identity.pids())
    return True


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _start(service: AgentService) -> None:
    failure = start_detached(service.command(detach=True), service.code_root)
    if failure:
        raise BackendError(f"The agent of {service.name} did not start: {failure}")


def _ask(command: Sequence[str], input_text: str = "") -> tuple[bool, str]:
    """Return whether a command succeeded, and its whole output."""
    try:
        result = subprocess.run(
            command,
            input=input_text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
            timeout=_LIMIT_S,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        swallowed(error)
        return False, ""
    return result.returncode == 0, result.stdout


def _environment() -> Mapping[str, str]:
    """Return the environment with XDG_RUNTIME_DIR: non-login shells lack it, systemd needs it."""
    environment = {**os.environ, "LC_ALL": "C"}
    runtime_folder = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in environment and os.path.isdir(runtime_folder):
        environment["XDG_RUNTIME_DIR"] = runtime_folder
    return environment


if __name__ == "__main__":
    sys.exit(main())
