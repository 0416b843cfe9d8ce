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
_SHELL_ANSWER = "ringmaster-understood"
_FOR_SH = (
    "PATH=$PATH ; export PATH ; LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; "
    f"echo {_SHELL_ANSWER}"
)
"""A command of the kind that mpirun sends to a login shell."""
_ONLY_RUNS = "This key only starts runs of Ringmaster."
_SSH_FAILED = 255
_TIMED_OUT = 124

IMPORTS = {
    "torch": "import torch",
    "horovod": """import horovod.torch
if not horovod.torch.mpi_built(): raise ImportError("Horovod was built without MPI")""",
    "mpi4py": "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI",
}
"""What a node must be able to execute of each library."""
_IMPORT = f"""
import importlib.metadata, json, sys
versions, name = {{}}, "torch"
try:
    {IMPORTS["torch"]}
    versions["torch"] = torch.__version__
    versions["cuda"] = torch.version.cuda or ""
    name = sys.argv[1]
    if name:
        exec({IMPORTS!r}[name])
        versions[name] = importlib.metadata.version(name)
except BaseException as error:
    versions.update(failed=name, why=f"{{type(error).__name__}}: {{error}}")
print(json.dumps(versions))
"""
_IMPORTED_FIRST = (
    *("*", "torch/*", "torch/lib/*", "horovod/*", "horovod/torch/*", "mpi4py/*", "openmpi/lib/*"),
)


def main(mode: str, request: dict[str, Any]) -> None:
    {"listen": listen, "dismiss": dismiss, "check": check, "meet": meet}[mode](request)


def report(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


# A port for the other nodes.


def listen(request: dict[str, Any]) -> None:
    """Listen on ``address``, which the ranks are to use; "" if there is only one node.

    The listener ends after ``connection_count`` connections, or after ``limit_s``.
    """
    fields: dict[str, Any] = {"clock": time.time(), "port": 0, "why": "", **load(request)}
    if request["address"]:
        try:
            listener = _listener(request["address"])
        except OSError as error:
            fields["why"] = error.strerror or str(error)
        else:
            fields["port"] = listener.getsockname()[1]
            sys.stdout.flush()
            if os.fork() == 0:
                token = request["token"].encode()
                _serve(listener, token, request["visitors"], request["limit_s"])
    report(**fields)


def dismiss(request: dict[str, Any]) -> None:
    """End the listener at ``address`` and ``port``: visit it for those that did not come."""
    for _ in range(request["visitors"]):
        with contextlib.suppress(OSError):
            address = request["address"], request["port"]
            with socket.create_connection(address, _IDLE_S) as connection:
                connection.sendall(request["token"].encode())


def _listener(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(64)
    return listener


def _serve(listener: socket.socket, token: bytes, connection_count: int, limit_s: float) -> None:
    """Accept connections that know the token while a preflight can last; never return."""
    os.setsid()
    null_device = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null_device, number)
    deadline = time.monotonic() + limit_s
    listener.settimeout(0.5)
    valid_connections: list[bool] = []
    while time.monotonic() < deadline and len(valid_connections) < connection_count:
        with contextlib.suppress(OSError):
            connection = listener.accept()[0]
            threading.Thread(
                target=_receive_sample, args=(connection, token, valid_connections), daemon=True
            ).start()
    os._exit(0)


def _receive_sample(connection: socket.socket, token: bytes, valid_connections: list[bool]) -> None:
    with contextlib.suppress(OSError), connection:
        connection.settimeout(_IDLE_S)
        if _receive_exactly(connection, _TOKEN_BYTES) != token:
            return
        with contextlib.suppress(OSError):
            connection.sendall(b"+")
            while _receive_exactly(connection, BLOCK_BYTES):
                connection.sendall(b"+")
        valid_connections.append(True)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    """Read exactly ``count`` bytes, b"" at the end."""
    content = bytearray()
    while len(content) < count:
        chunk = connection.recv(min(65536, count - len(content)))
        if not chunk:
            return b""
        content += chunk
    return bytes(content)


# The other nodes.


def meet(request: dict[str, Any]) -> None:
    """Connect to the other nodes and log in there.

    ``peers``: node -> [address, port]; ``ssh``: node -> [address, whether its key is restricted],
    with the client file.
    """
    limit_s, token = float(request["limit_s"]), request["token"].encode()
    threads = [
        threading.Thread(
            target=_measure_route, args=(node, *endpoint, token, request["bytes"], limit_s)
        )
        for node, endpoint in request["peers"].items()
    ]
    threads += [
        threading.Thread(target=_log_in, args=(node, *endpoint, request["ssh_config"], limit_s))
        for node, endpoint in request["ssh"].items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _measure_route(
    node: str, address: str, port: int, token: bytes, size: int, limit_s: float
) -> None:
    """Connect and send a sample; each block is acknowledged, so that only received data counts."""
    started_at = time.monotonic()
    result: dict[str, Any] = {"connected": False, "bytes": 0, "seconds": 0.0, "why": ""}
    try:
        with socket.create_connection((address, port), timeout=limit_s) as connection:
            result["connected"] = True
            connection.sendall(token)
            _read_acknowledgements(connection, started_at + limit_s)
            sending_at = time.monotonic()
            sent_bytes = 0
            while result["bytes"] < size:
                if sent_bytes < min(size, result["bytes"] + _WINDOW_BYTES):
                    connection.settimeout(max(0.01, started_at + limit_s - time.monotonic()))
                    connection.sendall(bytes(BLOCK_BYTES))
                    sent_bytes += BLOCK_BYTES
                    continue
                result["bytes"] += BLOCK_BYTES * _read_acknowledgements(
                    connection, started_at + limit_s
                )
                result["seconds"] = time.monotonic() - sending_at
    except OSError as error:
        result["why"] = error.strerror or str(error)
    report(kind="route", node=node, facts=result)


def _read_acknowledgements(connection: socket.socket, deadline: float) -> int:
    """Return the number of acknowledgements that came, at least one."""
    connection.settimeout(max(0.01, deadline - time.monotonic()))
    count = len(connection.recv(64))
    if not count:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return count


def _log_in(node: str, address: str, is_limited: bool, ssh_config: str, limit_s: float) -> None:
    """Log in, and have the remote shell read what mpirun has it read.

    A restricted key starts nothing else, and no shell reads its command. If the login shell here is
    csh, mpirun asks for the remote shell first.
    """
    remote_command = (
        "true" if is_limited or os.environ.get("SHELL", "").endswith("csh") else _FOR_SH
    )
    argv = ["ssh", "-x", "-F", ssh_config, "-o", "BatchMode=yes"]
    argv += ["-o", f"ConnectTimeout={max(1, int(limit_s) - 1)}", address, remote_command]
    code, output, error_output = _run(argv, limit_s + 1)
    is_late = code == _TIMED_OUT or (code == _SSH_FAILED and "timed out" in error_output)
    if is_late:
        # The first login on a busy node may have read its files for the second one.
        code, output, error_output = _run(argv, limit_s + 1)
    if _ONLY_RUNS in error_output:
        # A key of the user's own may be limited, too: by another desktop's set-up.
        code, output, error_output = _run([*argv[:-1], "true"], limit_s + 1)
        remote_command = "true"
    if remote_command == "true" and code in (126, 127) and shutil.which("ssh"):
        # The login worked, and the Python that filters the key's commands did not start.
        code = 1
    result = {"code": code, "why": _last_line(error_output) if code else "", "shell": False}
    if (
        remote_command == _FOR_SH
        and _SHELL_ANSWER not in output
        and code not in (_TIMED_OUT, 126, _SSH_FAILED)
    ):
        # fish ends with 0 even if it could not read the input.
        result = {
            "code": code or 1,
            "why": _first_line(error_output),
            "shell": bool(shutil.which("ssh")),
        }
    report(kind="ssh", node=node, facts=result)


# This machine.


def check(request: dict[str, Any]) -> None:
    """Run all queries at once; each in a child process that can be abandoned.

    ``asked``: name of a query -> a function of this file, ``ask``, and its own arguments; those
    that are the same for all are the fields of `PreflightTarget`.
    """
    queries = request.pop("asked")
    deadline = time.monotonic() + request["limit_s"]
    children = {}
    for name, query in queries.items():
        work: Callable[[], Any] = functools.partial(globals()[query["ask"]], {**request, **query})
        children[_child(work)] = name
    while children:
        fds = select.select(list(children), [], [], max(0.0, deadline - time.monotonic()))[0]
        if not fds:
            break
        for fd in fds:
            with os.fdopen(fd, "rb", closefd=True) as pipe:
                answer = pipe.read()
            report(name=children.pop(fd), facts=json.loads(answer) if answer else None)
    for name in children.values():
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
            null_device = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null_device, number)
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
    result: dict[str, Any] = {"there": os.path.isdir(root), "seen": False, "why": "", "free": None}
    deadline = time.monotonic() + request["root_limit_s"]
    folder = os.path.join(root, request["folder"])
    while not result["seen"]:
        try:
            with open(os.path.join(folder, "desktop")) as file:
                result["seen"] = file.read() == request["nonce"]
        except FileNotFoundError:
            pass
        except OSError as error:
            result["why"] = error.strerror
        if not result["there"] or time.monotonic() > deadline:
            break
        if not result["seen"]:
            time.sleep(_ROOT_POLL_S)
    if result["seen"]:
        result.update(_free_space(root))
        try:
            _write(os.path.join(folder, request["node"]), request["nonce"].encode())
        except OSError as error:
            result["why"] = error.strerror
            result["code"] = error.errno
    return result


def _free_space(path: str) -> dict[str, Any]:
    """Return the free bytes and files, None without a fixed number (`backend.base.room`)."""
    status = os.statvfs(path)
    files = status.f_favail if status.f_files else None
    return {"free": status.f_bavail * status.f_frsize, "files": files}


def home(request: dict[str, Any]) -> Any:
    path = request["home"]
    result: dict[str, Any] = {"free": 0, "why": "", "noexec": False}
    try:
        result.update(_free_space(path))
        result["noexec"] = bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
        probe = os.path.join(path, f".preflight-{os.getpid()}")
        try:
            _write(probe, b"r" * _PROBE_BYTES)
        finally:
            with contextlib.suppress(OSError):
                os.remove(probe)
    except OSError as error:
        result["why"] = error.strerror
    return result


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def shared_memory(request: dict[str, Any]) -> Any:
    try:
        status = os.statvfs("/dev/shm")
    except OSError as error:
        return {"free": 0, "why": error.strerror}
    is_writable = os.access("/dev/shm", os.W_OK)
    return {
        "free": status.f_bavail * status.f_frsize,
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
    code, output, error_output = _run([path, "--version"], request["command_limit_s"])
    major = int(request["mpi_version"].partition(".")[0] or 5)
    daemon = os.path.join(os.path.dirname(path), "prted" if major >= 5 else "orted")
    return {
        "code": code,
        "out": output[-2000:],
        "why": _last_line(error_output),
        "daemon": "" if os.access(daemon, os.X_OK) else daemon,
    }


def imports(request: dict[str, Any]) -> Any:
    """Check the imports of torch and ``library``; the result is cached, as they take seconds of a
    core."""
    library = request["library"]
    fingerprint = f"{library} {_fingerprint(request['python'])}"
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(request["imports"]) as file:
            cached_result = json.load(file)
        if cached_result["made_of"] == fingerprint:
            return cached_result["facts"]
    code, output, error_output = _run(
        [request["python"], "-c", _IMPORT, library], request["command_limit_s"], request["bundle"]
    )
    try:
        result = {"code": code, **json.loads(output.splitlines()[-1])}
    except (ValueError, IndexError):  # why it has no answer is in its other output
        return {"code": code, "failed": "python", "why": _last_line(error_output)}
    if code == 0 and "failed" not in result:
        with contextlib.suppress(OSError):
            temporary_path = f"{request['imports']}.{os.getpid()}"
            with open(temporary_path, "w") as file:
                json.dump({"made_of": fingerprint, "facts": result}, file)
            os.replace(temporary_path, request["imports"])
    return result


def _fingerprint(python: str) -> str:
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
                status = os.stat(path)
                # Bytecode appears when a module is imported for the first time.
                if not path.endswith("__pycache__"):
                    digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def program(request: dict[str, Any]) -> Any:
    """Return the digest of the bundle (`backend.provisioning.code_archive`), "" without one."""
    bundle_folder = request["bundle"]
    contents = {}
    for folder, _, names in os.walk(os.path.join(bundle_folder, "backend")):
        for name in names:
            if name.endswith((".py", ".toml")):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, bundle_folder)] = file.read()
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return {"digest": digest.hexdigest()[:16] if contents else ""}


def command(request: dict[str, Any]) -> Any:
    """Run ``argv``: its code, with the JSON object that it prints, or else its last line."""
    code, output, error_output = _run(
        request["argv"], request["command_limit_s"], request["code_root"]
    )
    with contextlib.suppress(ValueError, TypeError):
        return {"code": code, **json.loads(output)}
    return {"code": code, "why": _last_line(error_output)}


def _run(argv: Sequence[str], limit_s: float, code_root: str = "") -> tuple[int, str, str]:
    """Return code, output and error output; 127 or 126 without a program, 124 after the limit."""
    environment = dict(os.environ)
    if code_root:
        environment["PYTHONPATH"] = code_root
    try:
        result = subprocess.run(
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
    output, error_output = (
        text.decode("utf-8", "replace") for text in (result.stdout, result.stderr)
    )
    return result.returncode, output, error_output or output


def _first_line(text: str) -> str:
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1][:300] if lines else ""


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1], json.loads(sys.argv[2]))
