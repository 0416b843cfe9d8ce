"""Facts about a machine before Ringmaster is installed on it: one JSON object.

The desktop sends `backend.base.cores` and this file to ``python3 -I - [ROOT NAME CONTENT]``
(`backend.provisioning.node_facts.source`). So it imports nothing of the program and runs on
Python 3.6, so that an old machine can report its age. ROOT is where the data root should be; it is
the right folder only if its file NAME has the content CONTENT, which the desktop has just written.

Keys are those of `backend.records.nodes.entry.NodeInfo`, and two for the desktop only:
``reached_at`` (the address at which sshd accepted the connection) and ``home_fault`` (why the home
folder is not writable, or ""). A query that may hang runs in a child process that can be abandoned:
a process that waits for an unavailable share can be neither ended nor waited for.
"""

import ctypes
import glob
import json
import os
import platform
import pwd
import re
import select
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    usable_cores: Callable[[], int]
    """Of `backend.base.cores`, which precedes this file."""

_COMMAND_LIMIT_S = 10
_DISK_LIMIT_S = 10
_FOLDER = ".ringmaster"
"""The program's folder on a node, in the user's home."""
_PROBE_BYTES = 64 * 1024
_MPI_VERSION = re.compile(r"\(Open(?: MPI|RTE)\) (\d+(?:\.\d+)*)")
# The driver puts a word in brackets for a value that it does not have.
_GPU_ROW = re.compile(r"^(\d[\d.]*|\[[^]\n]*\]), (?!\[|N/A|ERR!)(.+?)\s*$", re.MULTILINE)
_PYTHON = re.compile(r"python3(\.\d+)?$")
_PROGRAM_FOLDERS = (
    "~/.local/bin",
    "~/miniconda3/bin",
    "~/miniforge3/bin",
    "~/anaconda3/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/opt/*/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/lib/*/openmpi/bin",
)
"""Searched after PATH, which is sshd's and short."""
_ASK_PYTHON = """
import json, sys
try:
    import ensurepip, venv
    works = True
except ImportError:
    works = False
print(json.dumps(["%d.%d.%d" % sys.version_info[:3], works]))
"""


def collect(root: str = "", name: str = "", content: str = "") -> "dict[str, Any]":
    """Collect all facts; a query that fails leaves its value out and stops no other."""
    try:
        account = pwd.getpwuid(os.getuid())
        user, listed_home, shell = account.pw_name, account.pw_dir, account.pw_shell
    except KeyError:
        # In a container, or while the directory of users does not answer.
        user, listed_home, shell = str(os.getuid()), "/", ""
    home = os.environ.get("HOME") or listed_home
    result: dict[str, Any] = {
        "hostname": socket.gethostname(),
        "system": _system(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "user": user,
        "home": os.path.join(home, _FOLDER),
        "cores": usable_cores(),  # noqa: F821 - of the file before
        "glibc": _glibc(),
        "cpu_model": _cpu_model(),
        "memory_bytes": _memory_bytes(),
        "pythons": _pythons(),
        "interfaces": _interfaces(),
        "login_shell": shell,
        "keeps_services": _keeps_services(user),
        "reached_at": (os.environ.get("SSH_CONNECTION", "").split() + [""] * 3)[2],
    }
    result.update(_mpi())
    result.update(_gpus())
    result.update(_in_child(lambda: _home(home)) or {"home_fault": "its disk does not respond"})
    if root:
        root_result = _in_child(lambda: _data_root(root, name, content))
        result.update(root_result or {})
    return result


def _in_child(work: "Callable[[], Any]") -> Any:
    """Return the result of ``work``, or None if it raised or exceeded the limit."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # An abandoned child must not hold the connection's output open.
            null_device = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null_device, number)
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], _DISK_LIMIT_S)[0]:
            return None
        answer = os.read(reading, 65536)
        os.waitpid(pid, 0)
        return json.loads(answer.decode()) if answer else None
    finally:
        os.close(reading)


def _home(home: str) -> "dict[str, Any]":
    result: dict[str, Any] = {"home_free_bytes": None, "home_fault": ""}
    try:
        result["home_free_bytes"] = shutil.disk_usage(home).free
        # A quota, a read-only mount and a full disk show only on a write.
        _write_and_remove(os.path.join(home, f".ringmaster-look-{os.getpid()}"), _PROBE_BYTES)
    except OSError as error:
        result["home_fault"] = error.strerror or str(error)
    return result


def _data_root(root: str, name: str, content: str) -> "dict[str, Any]":
    try:
        with open(os.path.join(root, name)) as file:
            if file.read(len(content) + 1) != content:
                return {}
    except (OSError, ValueError):
        return {}
    try:
        _write_and_remove(os.path.join(root, f"{name}.{os.getpid()}"), 1)
    except OSError:
        return {"data_root": root, "data_root_writable": False}
    return {"data_root": root, "data_root_writable": True}


def _write_and_remove(path: str, size: int) -> None:
    try:
        with open(path, "xb") as file:
            file.write(b"r" * size)
            file.flush()
            os.fsync(file.fileno())
    finally:
        if os.path.exists(path):
            os.remove(path)


def _system() -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for line in _lines(path):
            key, _, value = line.partition("=")
            if key == "PRETTY_NAME":
                return value.strip("\"'")
    return platform.system()


def _glibc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[-1]  # type: ignore[union-attr]
    except (AttributeError, IndexError, OSError, ValueError):
        return ""


def _cpu_model() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_bytes() -> int:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _folders() -> "list[str]":
    folders = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    for pattern in _PROGRAM_FOLDERS:
        folders.extend(sorted(glob.glob(os.path.expanduser(pattern))))
    return list(dict.fromkeys(folders))


def _programs(matches_name: "Callable[[str], Any]") -> "Iterator[str]":
    """Yield each program once by name, however many names and folders lead to it."""
    seen_paths = set()
    for folder in _folders():
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for path in (os.path.join(folder, name) for name in names if matches_name(name)):
            if os.path.realpath(path) not in seen_paths and os.access(path, os.X_OK):
                seen_paths.add(os.path.realpath(path))
                yield path


def _pythons() -> "list[dict[str, Any]]":
    pythons = []
    for path in _programs(_PYTHON.match):
        try:
            version, venv = json.loads(_answer([path, "-I", "-c", _ASK_PYTHON]))
        except ValueError:
            continue
        pythons.append({"path": path, "version": version, "venv": venv})
    return pythons


def _mpi() -> "dict[str, str]":
    for path in _programs(lambda name: name == "mpirun"):
        version = _MPI_VERSION.search(_answer([path, "--version"]))
        if version:
            return {"mpirun": path, "mpi_version": version.group(1)}
    return {}


def _gpus() -> "dict[str, Any]":
    """Read the driver's own files; ``nvidia-smi`` has better names, where it exists."""
    result: dict[str, Any] = {}
    version = re.search(
        r"Kernel Module.*?\s(\d+\.\d[\d.]*)", "\n".join(_lines("/proc/driver/nvidia/version"))
    )
    if version:
        result["driver"] = version.group(1)
    for path in _programs(lambda name: name == "nvidia-smi"):
        # Its rows are valid whatever its code: it ends with 14 if one GPU's infoROM is damaged.
        answer = _run([path, "--query-gpu=driver_version,name", "--format=csv,noheader"])
        rows = _GPU_ROW.findall(answer[1]) if answer else []
        if rows:
            if rows[0][0][0] != "[":
                result["driver"] = rows[0][0]
            result["gpus"] = [name for _, name in rows]
            return result
    models = []
    for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
        models += [
            line.partition(":")[2].strip() for line in _lines(path) if line.startswith("Model:")
        ]
    if models:
        result["gpus"] = models
    return result


class _Address(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("data", ctypes.c_ubyte * 26))


class _Interface(ctypes.Structure):
    pass


_Interface._fields_ = (
    ("next", ctypes.POINTER(_Interface)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_Address)),
    ("mask", ctypes.POINTER(_Address)),
    ("other", ctypes.POINTER(_Address)),
    ("data", ctypes.c_void_p),
)


def _interfaces() -> "list[dict[str, str]]":
    """Use ``getifaddrs`` of the C library: a minimal machine has no ``ip`` command."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        first_entry = ctypes.POINTER(_Interface)()
        if library.getifaddrs(ctypes.byref(first_entry)) != 0:
            return []
    except (AttributeError, OSError):
        return []
    interfaces = []
    pointer = first_entry
    while pointer:
        entry = pointer.contents
        address = _ip(entry.address)
        if address:
            prefix = sum(bin(byte).count("1") for byte in _ip_bytes(entry.mask))
            name = entry.name.decode("utf-8", "replace")
            interfaces.append({"name": name, "address": f"{address}/{prefix}"})
        pointer = entry.next
    library.freeifaddrs(first_entry)
    return interfaces


def _ip(address: Any) -> str:
    raw = _ip_bytes(address)
    if not raw:
        return ""
    return socket.inet_ntop(socket.AF_INET6 if len(raw) == 16 else socket.AF_INET, raw)


def _ip_bytes(address: Any) -> bytes:
    if not address:
        return b""
    raw = bytes(address.contents.data)
    # After the family: a port, then the address; IPv6 has its flow label in between.
    if address.contents.family == socket.AF_INET:
        return raw[2:6]
    return raw[6:22] if address.contents.family == socket.AF_INET6 else b""


def _keeps_services(user: str) -> str:
    """Return the service that can start the agent after a reboot without an administrator."""
    has_linger_file = os.path.exists(os.path.join("/var/lib/systemd/linger", user))
    if has_linger_file and os.path.exists(f"/run/user/{os.getuid()}/systemd/private"):
        return "systemd"
    if shutil.which("crontab") and _runs("cron", "crond"):
        crontab = _run(["crontab", "-l"])
        if crontab and (crontab[0] == 0 or "no crontab" in crontab[1]):
            return "crontab"
    return ""


def _runs(*names: str) -> bool:
    return any(line in names for path in glob.glob("/proc/[0-9]*/comm") for line in _lines(path))


def _answer(argv: "list[str]") -> str:
    answer = _run(argv)
    return answer[1] if answer and answer[0] == 0 else ""


def _run(argv: "list[str]") -> "tuple[int, str] | None":
    """Return code and output of a program, or None if it does not start or end."""
    try:
        process = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.returncode, process.stdout.decode("utf-8", "replace")


def _lines(path: str) -> "list[str]":
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(collect(*sys.argv[1:])) + "\n")
