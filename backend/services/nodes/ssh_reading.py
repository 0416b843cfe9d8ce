"""A reading over SSH of a node without an agent, or with a silent agent.

The probe is sent whole and run from memory by the node's Python, so that it leaves nothing behind
and does not depend on an installation on the node. It includes the binding to the NVIDIA driver,
which a node that was not set up lacks. The answer is untrusted input.
"""

from __future__ import annotations

import importlib.util
import io
import json
import time
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from backend.base.errors import BackendError
from backend.datastore.nodes import files as node_files
from backend.records.base.validation import sanitize
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.reading import NodeReading
from backend.ssh.interface import Shell

CONNECT_LIMIT_S = 5.0
_LIMIT_S = 20.0
_LIMIT_CHARACTERS = 1_000_000
_PACKAGE = Path(__file__).resolve().parents[2]
_NODE_MODULES = (
    "metrics/gpus",
    "metrics/keyboard",
    "metrics/probe",
    "metrics/processes",
    "system/process_identity",
    "system/timeout_call",
)
"""Modules that import only the standard library: a node that was not set up has no psutil."""
_LOADER = (
    "import os, sys; "
    "memory = os.memfd_create('ringmaster'); "
    "open(memory, 'wb', closefd=False).write(sys.stdin.buffer.read()); "
    "sys.path.insert(0, f'/proc/self/fd/{memory}'); "
    "from backend.node.metrics.probe import main; "
    "main()"
)


def read(shell: Shell, entry: NodeEntry) -> NodeReading:
    """Read a node through an open connection.

    The heartbeat of the reading is the desktop's own and increases with each reading.

    Raises:
        BackendError: The node has no Python, or its answer cannot be used.
        Unreachable: The connection broke.
    """
    installation = entry.installation
    python = installation.python if installation is not None else "python3"
    argv = (python, "-I", "-c", _LOADER, entry.name, entry.data_root or "/")
    answer = shell.run(argv, input=_probe_code(), limit_s=_LIMIT_S)
    if not answer.ok:
        raise _unusable(entry.name, answer.complaint)
    try:
        if len(answer.out) > _LIMIT_CHARACTERS:
            raise ValueError(f"it is longer than {_LIMIT_CHARACTERS} characters")
        reading = node_files.build_record(NodeReading, json.loads(answer.out))
    except (ValueError, RecursionError) as error:
        raise _unusable(entry.name, str(error)) from error
    return replace(reading, name=entry.name, heartbeat=time.monotonic_ns() // 1_000_000)


def _unusable(name: str, reason: str) -> BackendError:
    return BackendError(
        f"{name} returns no reading over SSH: {sanitize(reason, 200)}.",
        f"Log in to {name} and run: python3 -I -c 'import json, zipfile'",
    )


@cache
def _probe_code() -> bytes:
    """Pack the probe as one archive that Python imports from."""
    files = {Path("backend/__init__.py"), Path("backend/node/__init__.py")}
    for name in _NODE_MODULES:
        module = Path(f"backend/node/{name}.py")
        files |= {module, module.with_name("__init__.py")}
    files |= {
        path.relative_to(_PACKAGE.parent)
        for name in ("base", "records")
        for path in (_PACKAGE / name).rglob("*.py")
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.write(_PACKAGE.parent / path, path)
        binding = importlib.util.find_spec("pynvml")
        if binding is not None and binding.origin is not None:
            archive.write(binding.origin, Path(binding.origin).name)
    return buffer.getvalue()
