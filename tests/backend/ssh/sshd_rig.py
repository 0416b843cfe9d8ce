"""A real OpenSSH server for a test: on 127.0.0.1, with keys, a home and client settings of its own.

Who logs in is the user of the test; HOME is a folder of the test's, so that nothing of the user's
own is read there.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from backend.records.nodes.entry import HostKey, NodeAddress
from backend.ssh.known_hosts import KnownHosts
from tests.waiting import LIMIT_S

USER = getpass.getuser()
_PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to connections."""


def make_key(
    path: Path, passphrase: str = "", kind: str = "ed25519", cipher: str = "", form: str = ""
) -> Path:
    """A pair; ``cipher`` and ``form`` are those of ssh-keygen's -Z and -m."""
    options = [*(["-Z", cipher] if cipher else []), *(["-m", form] if form else [])]
    subprocess.run(
        # One round: a passphrase is made slow to guess on purpose.
        ["ssh-keygen", "-qa1", "-t", kind, "-N", passphrase, "-C", path.name, "-f", path, *options],
        check=True,
    )
    return path


class Sshd:
    """One server. ``home`` is the HOME of everything that runs in it."""

    def __init__(
        self, folder: Path, settings: Sequence[str] = (), small_disk: Path | None = None
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._small_disk = small_disk
        self._process: subprocess.Popen[str] | None = None
        self.log = ""
        self.environment: list[str] = []
        """``NAME=value`` of everything that runs in it."""
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.client_key = make_key(folder / "client-key")
        self.allowed = folder / "authorized_keys"
        self.allow(self.client_key)
        self.new_host_key()
        self.ssh_config = folder / "client-settings"
        self.ssh_config.write_text("")
        self.known_hosts = KnownHosts(folder / "profile" / "known_hosts")
        self.port = 0

    def allow(self, *keys: Path) -> None:
        self.allowed.write_text("".join(Path(f"{key}.pub").read_text() for key in keys))

    def new_host_key(self, kind: str = "ed25519") -> None:
        for old in self._folder.glob("host-key*"):
            old.unlink()
        make_key(self._folder / "host-key", kind=kind)

    @property
    def address(self) -> NodeAddress:
        return NodeAddress("127.0.0.1", self.port, USER, str(self.client_key))

    @property
    def fingerprint(self) -> str:
        key = str(self._folder / "host-key.pub")
        completed = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, check=True)
        return completed.stdout.decode().split()[1]

    @property
    def host_key(self) -> HostKey:
        kind, text = (self._folder / "host-key.pub").read_text().split()[:2]
        return HostKey("127.0.0.1", self.port, kind, f"{kind} {text}", self.fingerprint)

    def trust(self) -> None:
        self.known_hosts.add(self.host_key)

    def start(self) -> None:
        """Until it listens; at the same port as before, if there was one."""
        Path("/run/sshd").mkdir(exist_ok=True)
        tries = [self.port] if self.port else random.sample(_PORTS, 20)
        self.port = next((port for port in tries if self._listens(port)), 0)
        assert self.port, f"sshd did not start: {self.log}"

    def _listens(self, port: int) -> bool:
        """Start at ``port``; False where something else has it."""
        lines = [
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self._folder / 'host-key'}",
            f"AuthorizedKeysFile {self.allowed}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            # sshd takes the first SetEnv alone.
            " ".join(["SetEnv", f"HOME={self.home}", *self.environment]),
            *self._settings,
        ]
        if not any(line.startswith("Subsystem") for line in lines):
            lines.append("Subsystem sftp internal-sftp")
        settings = self._folder / "sshd_config"
        settings.write_text("\n".join(lines) + "\n")
        # Debian has it in a folder that is not in PATH of an ordinary user.
        sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin") or "sshd"
        argv = [sshd, "-D", "-e", "-f", str(settings)]
        if self._small_disk is not None:
            script = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
            argv = ["unshare", "--mount", "sh", "-c", script, str(self._small_disk), *argv]
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log += line
            if "Server listening" in line:
                return True
        self.stop()
        return False

    def freeze(self) -> None:
        """The server and every session of it stand still."""
        self._signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.communicate(timeout=LIMIT_S)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        # A session that ended by itself meanwhile.
        return []
    return [
        descendant for child in map(int, children) for descendant in (child, *_descendants(child))
    ]
