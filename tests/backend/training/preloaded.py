"""Forks ranks from a process that imported what a rank imports: a tenth of a rank's start.

`serve` runs in the server, `main` in the process that mpirun or a test starts in place of a rank:
it gives its arguments, environment and output to the server, and ends as the rank does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys

_REQUEST_BYTES = 1 << 20


def main(address: str, arguments: list[str]) -> None:
    """Have the server at ``address`` fork a rank, and end as that does."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
        socket.send_fds(server, [json.dumps(request).encode() + b"\n"], [1, 2])
        status = int(server.recv(16) or b"1")
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(address: str, strategy: str) -> None:
    """Fork a rank of ``strategy`` for each connection until the standard input ends."""
    # Before torch is imported, which counts its threads by it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    import selectors

    from backend.training import lazy_dynamo, rank

    if strategy == "fsdp":
        # It loads torch's compiler: 4 s of a core.
        for module in ("torch._dynamo", "backend.training.strategies.fsdp"):
            importlib.import_module(module)
    lazy_dynamo.postpone()
    rank._import_ahead()
    listener = socket.socket(socket.AF_UNIX)
    # A process that sees the address may connect at once.
    listener.bind(f"{address}-new")
    listener.listen(64)
    os.rename(f"{address}-new", address)
    events = selectors.DefaultSelector()
    for source in (0, listener):
        events.register(source, selectors.EVENT_READ)
    ranks: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in events.select():
            if key.fileobj == 0:
                os._exit(0)
            elif key.fileobj is listener:
                client, _address = listener.accept()
                pid = _fork(client, listener)
                if not pid:
                    client.close()
                    continue
                ranks[pid] = os.pidfd_open(pid), client
                events.register(ranks[pid][0], selectors.EVENT_READ, pid)
                events.register(client, selectors.EVENT_READ, pid)
            elif key.data in ranks:
                # Either the rank has ended, or the process in its place has.
                pid_descriptor, client = ranks.pop(key.data)
                _end_group(key.data)
                status = os.waitstatus_to_exitcode(os.waitpid(key.data, 0)[1])
                for source in (pid_descriptor, client):
                    events.unregister(source)
                os.close(pid_descriptor)
                # mpirun may have ended the process in its place at the same moment.
                with client, contextlib.suppress(OSError):
                    if key.fileobj is not client:
                        client.sendall(str(status).encode())


def _end_group(pid: int) -> None:
    """End a rank and the workers of its loader, as the guard of a real rank does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _fork(client: socket.socket, listener: socket.socket) -> int:
    """Return the rank's process, or 0 where mpirun has ended the one in its place already."""
    content, output, _, _ = socket.recv_fds(client, _REQUEST_BYTES, 2)
    while not content.endswith(b"\n"):
        chunk = client.recv(_REQUEST_BYTES)
        if not chunk:
            return 0
        content += chunk
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)
        for descriptor in output:
            os.close(descriptor)
        return pid
    try:
        os.setpgid(0, 0)
        listener.close()
        client.close()
        for target, source in enumerate(output, 1):
            os.dup2(source, target)
            os.close(source)
        request = json.loads(content)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])

        from backend.training import rank

        rank.main(request["arguments"])
    finally:
        os._exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    main(sys.argv[1], sys.argv[2:])
