"""The user's SSH client settings: the output of `ssh -G HOST` if this computer has ssh."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.records.base.account import password_file_home, user_name
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import NodeAddress

_LIMIT_S = 20
"""A `Match exec` may run a program."""
_LINE = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")
_TOKEN = re.compile(r"%(.)|\$\{(\w+)\}")
_WITHOUT_VALUE = frozenset({"all", "canonical", "final"})
_WITH_VALUE = frozenset({"host", "originalhost", "user", "localuser"})
"""Not `exec`: paramiko reads from the terminal for it."""
_NEVER = "Host !*"
_REMEDY = "Correct that file; `ssh -G HOST` shows how OpenSSH reads it."


def ask_ssh(ssh: str, address: NodeAddress, file: Path | None) -> dict[str, Any]:
    """Return the settings that ``ssh`` would use for a host, with lower-case keys.

    ``file`` replaces the user's and the system's settings. A `Match exec` is run.

    Raises:
        BackendError: ssh refuses the settings, or has not answered in time.
    """
    argv = [ssh, "-G", "-T"]
    if file is None and Path.home() != password_file_home():
        # OpenSSH ignores HOME, which this program uses for everything it reads.
        user_config = Path.home() / ".ssh/config"
        argv += ["-F", str(user_config) if user_config.is_file() else "none"]
    elif file is not None:
        argv += ["-F", str(file)]
    argv += ["-l", address.user] if address.user else []
    argv += ["-p", str(address.port)] if address.port else []
    try:
        completed_process = subprocess.run(
            [*argv, "--", address.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(
            f"ssh returned no settings for {sanitize(address.host)}: {sanitize(str(error), 160)}.",
            f"Run it in a terminal to see why: ssh -G {shlex.quote(address.host)}",
        ) from error
    if completed_process.returncode:
        lines = os.fsdecode(completed_process.stderr).splitlines()
        message = "; ".join(line.strip(" .") for line in lines if ": terminating, " not in line)
        raise BackendError(
            f"ssh refuses its settings for {sanitize(address.host)}: “{sanitize(message, 300)}”.",
            _REMEDY,
        )
    settings: dict[str, Any] = {"identityfile": []}
    for line in os.fsdecode(completed_process.stdout).splitlines():
        key, _, value = line.partition(" ")
        if key == "identityfile":
            settings[key].append(value)
        else:
            settings.setdefault(key, value)
    return _with_tokens(settings, address)


def _with_tokens(settings: dict[str, Any], address: NodeAddress) -> dict[str, Any]:
    """Replace the tokens that `ssh -G` leaves to the login."""
    host = settings.get("hostname", address.host)
    hostname = socket.gethostname()
    tokens = {
        "%": "%",
        "d": str(Path.home()),
        "h": host,
        "i": str(os.getuid()) if hasattr(os, "getuid") else "",
        "j": settings.get("proxyjump", ""),
        "k": settings.get("hostkeyalias", host),
        "L": hostname.split(".")[0],
        "l": hostname,
        "n": address.host,
        "p": settings.get("port", ""),
        "r": settings.get("user", ""),
        "u": user_name(),
    }

    def expanded(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            token, variable = match.groups()
            return tokens.get(token, match[0]) if token else os.environ.get(variable, "")

        return _TOKEN.sub(value, text)

    settings["identityfile"] = [expanded(path) for path in settings["identityfile"]]
    for key in ("proxyjump", "identityagent"):
        if key in settings:
            settings[key] = expanded(settings[key])
    return settings


def readable(text: str) -> str:
    """Rewrite settings so that paramiko's parser reads them as ssh would, on computers without ssh.

    A comment ends its line. A `Match` with unknown criteria, or an invalid line, ends its block,
    which then matches no host.
    """
    return "\n".join(_line(_without_comment(line).strip()) for line in text.splitlines())


def _without_comment(line: str) -> str:
    is_quoted = False
    for position, character in enumerate(line):
        if character == '"':
            is_quoted = not is_quoted
        elif character == "#" and not is_quoted and not line[position - 1 : position].strip():
            return line[:position]
    return line


def _line(line: str) -> str:
    if not line:
        return ""
    parts = _LINE.fullmatch(line)
    if parts is None:
        return _NEVER
    key, value = parts[1].lower(), parts[2]
    if key not in ("host", "match"):
        return line
    try:
        tokens = shlex.split(value)
    except ValueError:  # OpenSSH refuses such a line
        return _NEVER
    return line if key == "host" else _match(tokens)


def _match(tokens: list[str]) -> str:
    criteria: list[str] = []
    while tokens:
        name, is_joined, value = tokens.pop(0).partition("=")
        kind = name.lower().removeprefix("!")
        if kind in _WITH_VALUE and (is_joined or tokens):
            criteria += [name.lower(), value if is_joined else tokens.pop(0)]
        elif kind in _WITHOUT_VALUE and not is_joined:
            criteria.append(name.lower())
        else:
            return _NEVER
    # paramiko accepts "all" only alone; "final all" means "final".
    narrower_criteria = [criterion for criterion in criteria if criterion != "all"]
    return f"Match {shlex.join(narrower_criteria or criteria)}"


def unreadable(file: Path, error: BaseException) -> BackendError:
    """Return the error for settings that paramiko's parser refuses."""
    message = sanitize(str(getattr(error, "strerror", None) or error).strip(" ."), 160)
    return BackendError(f"The SSH settings in {file} cannot be used: {message}.", _REMEDY)
