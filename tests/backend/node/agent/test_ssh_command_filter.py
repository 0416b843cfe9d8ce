"""What the cluster's key may start when it is limited: three things, each by its exact form."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from backend.node.agent import ssh_command_filter
from backend.node.agent.ssh_command_filter import CommandRefused, allowed_command

HOME = Path("/home/lab/.ringmaster")
OWN_FOLDERS = (HOME / "environments", HOME / "bundles")
OTHER_BUNDLE = HOME / "carried"
ENV = f"{HOME}/environments/python3.11-9c11"
# As Open MPI 5.0.11 and 4.1.4 sent them, one node to the next.
PRTED = (
    f"PRTE_PREFIX={ENV};export PRTE_PREFIX;PMIX_PREFIX={ENV};export PMIX_PREFIX;"
    f"LD_LIBRARY_PATH={ENV}/lib:{ENV}/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;"
    f"DYLD_LIBRARY_PATH={ENV}/lib:$DYLD_LIBRARY_PATH;export DYLD_LIBRARY_PATH;"
    f'{ENV}/bin/prted --prtemca ess "env" --prtemca ess_base_nspace "prterun-node1-3394@0" '
    '--prtemca ess_base_vpid 1 --prtemca prte_hnp_uri "prterun-node1-3394@0.0;tcp://10.77.0.2:4:24"'
    f' --prtemca plm_ssh_args "-F {HOME}/ssh/config" --prtemca plm "ssh" --tree-spawn'
)
ORTED = (
    "      PATH=/usr/bin:$PATH ; export PATH ; "
    "LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; "
    "DYLD_LIBRARY_PATH=/usr/lib:${DYLD_LIBRARY_PATH:-} ; export DYLD_LIBRARY_PATH ;   "
    '/usr/bin/orted -mca ess "env" -mca ess_base_jobid "1722482688" -mca ess_base_vpid 1 '
    '-mca ess_base_num_procs "2" -mca orte_node_regex "node[1:1],[2:10].77.0.3@0(2)" '
    '-mca orte_hnp_uri "1722482688.0;tcp://10.77.0.2:52963;tcp6://[fd00::2]:35007" '
    '--mca btl "^openib" --mca btl_tcp_if_include "10.77.0.0/24" '
    '--mca oob_tcp_keepalive_time "20" -mca plm "rsh" --tree-spawn -mca routed "radix" '
    f'-mca plm_rsh_args "-F {HOME}/ssh/config" -mca hwloc_base_binding_policy "none" '
    '-mca rmaps_base_mapping_policy "slot" -mca pmix "^s1,s2,cray,isolated"'
)
SWEEP = (
    f"env PYTHONPATH={HOME}/bundles/ab12 {ENV}/bin/python "
    "-m backend.node.run.remote_cleanup 20261121-abc/2"
)


def test_the_daemon_of_mpirun_starts_with_its_variables_and_no_shell() -> None:
    variables, argv = allowed_command(PRTED, OWN_FOLDERS, OTHER_BUNDLE)
    assert argv[0] == f"{ENV}/bin/prted"
    assert argv[argv.index("prte_hnp_uri") + 1] == "prterun-node1-3394@0.0;tcp://10.77.0.2:4:24"
    assert variables["PRTE_PREFIX"] == ENV
    assert variables["LD_LIBRARY_PATH"].startswith(f"{ENV}/lib:{ENV}/lib")
    variables, argv = allowed_command(ORTED, OWN_FOLDERS, OTHER_BUNDLE)
    assert argv[:2] == ["/usr/bin/orted", "-mca"]
    assert argv[argv.index("orte_node_regex") + 1] == "node[1:1],[2:10].77.0.3@0(2)"
    assert variables["PATH"].startswith("/usr/bin:")


def test_the_sweep_and_the_proof_of_the_way_start() -> None:
    assert allowed_command(SWEEP, OWN_FOLDERS, OTHER_BUNDLE)[0] == {
        "PYTHONPATH": f"{HOME}/bundles/ab12"
    }
    assert allowed_command("true", OWN_FOLDERS, OTHER_BUNDLE) == ({}, ["true"])
    assert allowed_command("echo $SHELL", OWN_FOLDERS, OTHER_BUNDLE) == ({}, ["echo", "/bin/bash"])
    folder = f"{OTHER_BUNDLE}/ab12/jobs/20261121-abc"
    assert allowed_command(f"{SWEEP} {folder}", OWN_FOLDERS, OTHER_BUNDLE)[1][-1] == folder
    asks_sight = f"{SWEEP} --see /srv/data/jobs/20261121-abc"
    assert allowed_command(asks_sight, OWN_FOLDERS, OTHER_BUNDLE)[1][-2:] == [
        "--see",
        "/srv/data/jobs/20261121-abc",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "bash",
        "true; id",
        "cat /etc/passwd",
        "/usr/lib/openssh/sftp-server",
        "scp -t /tmp",
        "rsync --server . /tmp",
        PRTED + "; id",
        PRTED + " && id",
        PRTED + " `id`",
        PRTED + " '$(id)'",
        PRTED.replace("/bin/prted", "/../../../../tmp/prted"),
        PRTED.replace(f"{ENV}/bin/prted", "/srv/data/prted"),
        PRTED.replace(f"PRTE_PREFIX={ENV}", "LD_PRELOAD=/tmp/x.so"),
        PRTED.replace(f"LD_LIBRARY_PATH={ENV}/lib", "LD_LIBRARY_PATH=/tmp"),
        PRTED.replace("$LD_LIBRARY_PATH", "$(id)"),
        PRTED.replace('plm "ssh"', 'plm_rsh_agent "sh -c id | sh"'),
        ORTED + " '$(id)'",
        ORTED.replace('plm "rsh"', 'plm_rsh_agent "sh -c id | sh"'),
        PRTED + ' "unfinished',
        SWEEP.replace("remote_cleanup", "supervisor"),
        SWEEP.replace(f"{ENV}/bin/python", "/usr/bin/python3"),
        SWEEP.replace(f"{HOME}/bundles/ab12", "/srv/data/evil"),
        SWEEP + " more",
        SWEEP + " /srv/data/jobs/20261121-abc",
        SWEEP + f" {OTHER_BUNDLE}/../ssh",
        SWEEP + " --see",
        SWEEP + " --see jobs/20261121-abc",
        SWEEP + f" --see /srv/data/jobs {OTHER_BUNDLE}/ab12/jobs/x",
        SWEEP + f" {OTHER_BUNDLE}/ab12/jobs/x --see /srv/data/jobs",
        SWEEP + f" {OTHER_BUNDLE}/ab12/jobs/x {OTHER_BUNDLE}/ab12/jobs/y",
        SWEEP.replace(f"{HOME}/bundles/ab12", f"{OTHER_BUNDLE}/ab12/models"),
        SWEEP.replace("20261121-abc/2", "-c"),
        "X=1;export X;true",
    ],
)
def test_f62_every_other_command_is_refused(command: str) -> None:
    with pytest.raises(CommandRefused):
        allowed_command(command, OWN_FOLDERS, OTHER_BUNDLE)


def test_f62_the_key_gate_runs_alone_and_says_its_purpose(tmp_path: Path) -> None:
    gate = tmp_path / "ssh" / "key_gate.py"
    gate.parent.mkdir()
    gate.write_bytes(Path(ssh_command_filter.__file__).read_bytes())

    def ask(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", gate],
            env={"SSH_ORIGINAL_COMMAND": command, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    assert ask("true").returncode == 0
    refusal = ask("id")
    assert (refusal.returncode, refusal.stdout) == (1, "")
    assert refusal.stderr == f"{ssh_command_filter.REFUSAL}\n"


def test_an_environment_that_nodes_share_need_not_lie_in_the_home(tmp_path: Path) -> None:
    shared = tmp_path / "data" / "shared" / "environments"
    venv.create(shared / "python3.11-9c11", with_pip=False)
    shared_folder = tmp_path / "data" / "environments" / "python3.11-9c11" / "bin"
    shared_folder.mkdir(parents=True)
    for folder in (shared / "python3.11-9c11" / "bin", shared_folder):
        (folder / "prted").write_text("#!/bin/sh\necho started\n")
        (folder / "prted").chmod(0o755)

    def ask(daemon: Path) -> str:
        done = subprocess.run(
            [shared / "python3.11-9c11" / "bin" / "python", "-I", ssh_command_filter.__file__],
            env={"SSH_ORIGINAL_COMMAND": str(daemon), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    assert ask(shared / "python3.11-9c11" / "bin" / "prted") == "started\n"
    assert ask(shared_folder / "prted") == ""
