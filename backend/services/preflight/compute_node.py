"""The check of a compute node of Slurm, in a job of a minute that the user agrees to.

The job runs the probe of the preflight check with the Python of the run, and writes the replies
below the data root: where none appear, its node does not see the data root.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath
from typing import Any

from backend.base.errors import BackendError, Cancelled, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.launch.launcher import Cluster
from backend.launch.placement import NodePaths
from backend.launch.slurm import SlurmCluster
from backend.launch.slurm_task import POLL_S, NotBegun, slurm_task
from backend.node.system import wording
from backend.node.system.mpi import version_in
from backend.records.base.schema import json_value
from backend.records.base.validation import sanitize
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import ClusterPlacement
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding
from backend.records.slurm.job import end_of
from backend.records.slurm.placement import SlurmPlacement, setup_script
from backend.services.preflight import checks, names, node_probe
from backend.services.preflight.check import Result
from backend.services.preflight.context import NodePreflight, PreflightTarget

_PROBES = ("data_root", "imports", "mpirun", "shared_memory", "limits")
_START_LIMIT_S, _ANSWER_S = 60.0, 5.0
_LIMITS = {"limit_s": 45.0, "command_limit_s": 40.0, "root_limit_s": 4.0}
"""Of the probe; together less than the shortest time limit of Slurm, a minute."""
_REPLY_BYTES = 200_000
_LOG, _PROBE_END = "log", "RINGMASTER_PROBE"
_VALUE = re.compile(r"^ringmaster-(?P<key>\w+) ?(?P<value>.*)$", re.MULTILINE)
_SHELL_PREFIX = re.compile(r"^\S*slurm_script: (line )?\d+: ")
_MPI_TYPE = re.compile(r"\b(?:pmix\w*|pmi2|cray\w*|none)\b")
_SYSTEM = r"""trap '' USR1
echo "ringmaster-node $SLURMD_NODENAME"
echo "ringmaster-addresses $(hostname -I)"
name=$(scontrol -o show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')
echo "ringmaster-address $(getent ahostsv4 "$name" | head -n 1 | cut -d ' ' -f 1)"
echo "ringmaster-srun $(srun --mpi=list 2>&1 | tr '\n' ' ')"
"""


def unchecked_finding(
    cluster: str,
    message: str = "It was not checked whether a compute node sees the data root and runs mpirun.",
    remedy: str = "Check one, in a job of a minute.",
) -> PreflightFinding:
    """Return the finding of a cluster whose compute nodes were not checked, and why."""
    fix = Fix.CHECK_COMPUTE_NODE
    return PreflightFinding(names.COMPUTE_NODE, False, message, remedy, (cluster,), fix, True)


class ComputeNodeCheck:
    """Checks one node of a cluster. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        cluster_of: Callable[[ClusterPlacement], Cluster],
        login_site: Callable[[str], NodePaths | None],
        start_limit_s: float = _START_LIMIT_S,
        poll_s: float = POLL_S,
    ) -> None:
        """Store the parts; ``login_site`` returns the paths of a cluster, None if not set up."""
        self._root = root
        self._cluster_of = cluster_of
        self._login_site = login_site
        self._start_limit_s = start_limit_s
        self._poll_s = poll_s

    def run(self, config: JobConfig, preflight: Preflight, progress: Progress) -> Preflight:
        """Return the results of a preflight check with those of a compute node.

        Raises:
            Cancelled: By ``progress``; the job in Slurm was cancelled, too.
        """
        placement = config.allocation
        assert isinstance(placement, SlurmPlacement), "the finding has the button"
        started_s, cluster = time.monotonic(), placement.cluster
        findings: tuple[PreflightFinding, ...]
        try:
            findings = self._findings(config, placement, progress)
        except Cancelled:
            raise
        except NotBegun as error:
            findings = (unchecked_finding(cluster, error.message, error.remedy),)
        except BackendError as error:
            result = Result(error.message, error.remedy)
            findings = (_finding(cluster, result),)
        other_findings = (f for f in preflight.findings if f.check != names.COMPUTE_NODE)
        findings = tuple(sorted((*findings, *other_findings), key=lambda f: (f.ok, f.is_warning)))
        return replace(preflight, findings=findings, took_s=time.monotonic() - started_s)

    def _findings(
        self, config: JobConfig, placement: SlurmPlacement, progress: Progress
    ) -> tuple[PreflightFinding, ...]:
        site, label = self._login_site(placement.cluster), wording.node_label(placement.cluster)
        if site is None or not site.data_root:
            raise BackendError(
                f"{label} is not set up, or does not see the data root.", f"Set {label} up first."
            )
        target = PreflightTarget(
            *(label, config.placement[0], site.python, site.mpirun, site.mpi_version),
            *(site.code_root, site.data_root, ""),
            is_head=True,
            library=config.strategy.library,
            loader_workers=config.loader_workers,
        )
        gpus = min(placement.gpus, 1)
        check = replace(placement, nodes=1, processes=1, gpus=gpus, time_limit_min=1)
        folder = self._root.jobs / f".preflight-{secrets.token_hex(8)}"
        remote_folder = PurePosixPath(folder.parent.name, folder.name)
        log = str(PurePosixPath(site.data_root, remote_folder, _LOG))
        script = self._write_script(check, target, folder)
        try:
            cluster = self._cluster_of(placement)
            assert isinstance(cluster, SlurmCluster), "the placement is one of Slurm"
            with slurm_task(cluster, check, script, log, "check") as task:
                job = task.wait_until(
                    lambda job: job.state == "COMPLETING",
                    progress,
                    start_limit_s=self._start_limit_s,
                    poll_s=self._poll_s,
                )
                output = self._read(folder / _LOG)
        finally:
            self._root.files.remove_tree(folder)
        state = job.state if job is not None else ""
        return tuple(judge(output, state, target, placement))

    def _write_script(
        self, placement: SlurmPlacement, target: PreflightTarget, folder: Path
    ) -> str:
        """Make the folder of the proof; return the script of the job, which looks for it."""
        nonce = secrets.token_hex(16)
        with as_backend_error(f"The data root {self._root.name} cannot be written"):
            self._root.files.make_folder(folder.parent, exist_ok=True)
            self._root.files.make_folder(folder)
            self._root.files.replace_bytes(folder / "desktop", nonce.encode())
        probes = {check.probe for check in checks.CHECKS if check.probe is not None}
        request = {
            **json_value(target),
            "asked": {p.name: p.request(target) for p in probes if p.name in _PROBES},
            "code_root": target.bundle,
            "folder": f"{folder.parent.name}/{folder.name}",
            "nonce": nonce,
            **_LIMITS,
        }
        command = shlex.join(node_probe.probe_command(target.python, "check", request))
        lines = (f"{_SYSTEM}{command} <<'{_PROBE_END}'", node_probe.source().decode(), _PROBE_END)
        return "\n".join((*setup_script(placement), *lines, 'echo "ringmaster-end $?"', ""))

    def _read(self, log: Path) -> str:
        """Return the output of the job, which a share may show some seconds later; "" for none."""
        end_s, output = time.monotonic() + _ANSWER_S, ""
        while "ringmaster-end" not in output and time.monotonic() < end_s:
            with suppress(OSError, BackendError):
                output = self._root.files.read(log, 0, _REPLY_BYTES).decode("utf-8", "replace")
            time.sleep(min(self._poll_s, 0.5))
        return output


def _finding(cluster: str, result: Result) -> PreflightFinding:
    return PreflightFinding(
        names.COMPUTE_NODE, False, result.message, result.remedy, nodes=(cluster,)
    )


def judge(
    output: str, state: str, target: PreflightTarget, placement: SlurmPlacement
) -> Iterator[PreflightFinding]:
    """Yield the findings on a job of the check, by its output and its state in Slurm. Pure."""
    values = dict(_VALUE.findall(output))
    replies = {reply["name"]: reply["facts"] for reply in node_probe.results(output.splitlines())}
    cluster, node = placement.cluster, values.get("node", "")
    if "end" not in replies:
        yield _finding(cluster, _failure(output, state, node, target))
        return
    checked_node = NodePreflight(target.placement, replace(target, node=node), replies=replies)
    findings = [
        *(_finding(cluster, result) for result in _network_results(node, values, placement)),
        *(
            replace(finding, check=names.COMPUTE_NODE, nodes=(cluster,), fix=Fix.NONE)
            for finding in checks.judge_replies(checked_node)
        ),
    ]
    yield from findings
    if not any(finding.blocks for finding in findings):
        message = _success_message(node, replies)
        yield PreflightFinding(names.COMPUTE_NODE, True, message, nodes=(cluster,))


def _failure(output: str, state: str, node: str, target: PreflightTarget) -> Result:
    """Return why the probe did not run to its end."""
    end = end_of(state)
    if end is not None:
        return Result(f"The check of a compute node: {end.message}", "Check again.")
    if not output:
        return Result(
            f"The compute nodes of {target.label} do not see the data root at {target.data_root}: "
            "this computer does not see what a job wrote to it.",
            "Mount the same share on them, at the same path as on the login node.",
        )
    lines = [line for line in output.splitlines() if not _VALUE.match(line)]
    cause = _SHELL_PREFIX.sub("", wording.last_message("\n".join(lines))) or "it printed nothing"
    subject = f"{target.python} does not start on {node}" if node else "The check did not begin"
    return Result(
        f"{subject}: {sanitize(cause, 160).rstrip('.')}.",
        "The environment must be on the share, and made for the system of the compute nodes.",
    )


def _network_results(
    node: str, values: Mapping[str, str], placement: SlurmPlacement
) -> Iterator[Result]:
    """Yield why ranks on several nodes would not find each other."""
    if placement.nodes == 1:
        return
    if not _MPI_TYPE.search(values.get("srun", "")):
        yield Result(
            f"srun does not work on {node}: {sanitize(values.get('srun', ''), 160).rstrip('. ')}.",
            "mpirun starts its part on the other nodes by srun; ask your administrator for it.",
        )
    addresses = [ip_address(text) for text in values.get("addresses", "").split()]
    for network in filter(None, placement.networks.split(",")):
        if not any(address in ip_network(network) for address in addresses):
            yield Result(
                f"{node} has no address in the network {network}.",
                f"Choose a network of its addresses: {', '.join(map(str, addresses))}.",
            )
    address = values.get("address", "")
    if not placement.networks and (not address or ip_address(address).is_loopback):
        yield Result(
            f"The address of {node} in Slurm is {address or 'unknown'}, so other nodes do "
            "not reach it.",
            "Set the networks of the job to a subnet of the compute nodes, such as 10.0.0.0/24.",
        )


def _success_message(node: str, replies: Mapping[str, Any]) -> str:
    torch = (replies.get("imports") or {}).get("torch", "")
    mpi_version = version_in((replies.get("mpirun") or {}).get("out", "")) or ""
    parts = ["Python", torch and f"PyTorch {torch}", mpi_version and f"Open MPI {mpi_version}"]
    return f"{node} sees the data root and starts {', '.join(filter(None, parts))}."
