"""A process that has imported PyTorch and forks a child for each tool.

User code runs only in the children, each in its own session with its own streams. Standard input
is a socket from the desktop: a message is a request with three descriptors, the socket of the call,
and standard input and output of the child. The call hears the child's pid, and its exit code at
the end; when the desktop closes its half of the call, or this process ends, the child is killed.

This process ends when the desktop does, and after a time without a child.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

from backend.base import process_signals
from backend.base.log import suppress
from backend.training import lazy_dynamo
from backend.training.tools import children

IDLE_S = 600.0
_MESSAGE_BYTES = 1 << 20
_PRELOADED = (
    "torch.utils.data",
    "torch.utils.flop_counter",
    "torch.nn.attention",
    "backend.training.weights_file",
    "backend.training.evaluation",
    "backend.training.subject",
    "backend.training.tools.thumbnails",
)


@dataclass
class _Call:
    socket: socket.socket
    pid: int
    pidfd: int


class _Server:
    def __init__(self) -> None:
        self._desktop = socket.socket(fileno=os.dup(0))
        self._calls: list[_Call] = []

    def run(self) -> None:
        while True:
            poll = select.poll()
            poll.register(self._desktop, select.POLLIN)
            for call in self._calls:
                poll.register(call.pidfd, select.POLLIN)
                poll.register(call.socket, select.POLLIN)
            ready_fds = {number for number, _ in poll.poll(None if self._calls else IDLE_S * 1000)}
            if not ready_fds:
                return
            for call in [open_call for open_call in self._calls if open_call.pidfd in ready_fds]:
                self._finish(call)
            for call in [
                open_call for open_call in self._calls if open_call.socket.fileno() in ready_fds
            ]:
                # Nothing is sent on it: the desktop has closed it.
                process_signals.send(call.pid, lambda: True, signal.SIGKILL)
                self._finish(call)
            if self._desktop.fileno() in ready_fds and not self._start_call():
                return

    def _start_call(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._desktop, _MESSAGE_BYTES, 3)
        if not message:
            return False
        server_pid, pid = os.getpid(), os.fork()
        if not pid:
            self._run_tool(json.loads(message), descriptors, server_pid)
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        call = _Call(socket.socket(fileno=descriptors[0]), pid, os.pidfd_open(pid))
        self._calls.append(call)
        with suppress(OSError):
            call.socket.send(b"%d\n" % pid)
        return True

    def _run_tool(
        self, request: dict[str, Any], descriptors: list[int], server_pid: int
    ) -> NoReturn:
        """Be the process of a tool."""
        code = 1
        try:
            process_signals.die_with_parent(signal.SIGKILL, server_pid)
            os.setsid()
            for target, source in ((0, descriptors[1]), (1, descriptors[2]), (2, descriptors[2])):
                os.dup2(source, target)
            inherited_fds = [self._desktop.fileno()]
            for call in self._calls:
                inherited_fds += [call.socket.fileno(), call.pidfd]
            for descriptor in (*descriptors, *inherited_fds):
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["folder"])
            sys.path[0] = request["folder"]
            sys.argv[1:] = request["arguments"]
            importlib.invalidate_caches()
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - a forked child must never return
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _finish(self, call: _Call) -> None:
        """Collect a child, kill what it left behind, and report its exit code."""
        _, status = os.waitpid(call.pid, 0)
        self._calls.remove(call)
        children.kill_all(spared_pids={open_call.pid for open_call in self._calls})
        with suppress(OSError):
            call.socket.send(b"%d\n" % os.waitstatus_to_exitcode(status))
        call.socket.close()
        os.close(call.pidfd)


def main() -> None:
    children.adopt_descendants()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for name in _PRELOADED:
        importlib.import_module(name)
    lazy_dynamo.postpone()
    _Server().run()
    children.kill_all()


if __name__ == "__main__":
    main()
