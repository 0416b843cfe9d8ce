"""The preflight of this computer and its mpirun: every fault at once, each with the way out."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from backend.node.checks import doctor
from backend.node.checks.doctor import DoctorPaths, findings
from backend.node.system import mpi
from backend.records.nodes.reading import Finding


def by_name(findings_by_name: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings_by_name}


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


CHECKS = (
    *("python", "pytorch", "horovod", "mpi4py", "mpirun"),
    *("data root", "gpu", "catalogue", "two ranks"),
)


@pytest.mark.slow
def test_a_computer_that_can_train_says_so_and_two_ranks_prove_it(tmp_path: Path) -> None:
    had_torch = "torch" in sys.modules
    findings_by_name = findings(DoctorPaths(tmp_path, Path("/tmp/catalogue.sqlite")), smoke=True)
    assert [(finding.check, finding.ok) for finding in findings_by_name] == [
        (name, True) for name in CHECKS
    ]
    assert ("torch" in sys.modules) == had_torch


@pytest.mark.parametrize(
    ("ranks", "is_well"), [("sum 2; echo sum 2", True), ("sum 1; echo sum 1", False)]
)
def test_every_check_is_made_and_two_ranks_must_find_each_other(
    tmp_path: Path, ranks: str, is_well: bool
) -> None:
    python = script(tmp_path / "python", "echo 3.11.2")
    mpirun_script = f"case $1 in --version) echo 'mpirun (Open MPI) 5.0.8';; *) echo {ranks};; esac"
    script(tmp_path / "mpirun", mpirun_script)
    findings_by_name = findings(
        DoctorPaths(tmp_path, Path("/tmp/catalogue.sqlite"), python), smoke=True
    )
    expected_results = [(name, is_well or name != "two ranks") for name in CHECKS]
    assert [(finding.check, finding.ok) for finding in findings_by_name] == expected_results, (
        findings_by_name
    )


def test_m05_all_faults_are_shown_at_once_each_with_its_remedy(tmp_path: Path) -> None:
    broken = script(tmp_path / "python", "echo 'ModuleNotFoundError: no such thing' >&2; exit 1")
    script(tmp_path / "mpirun", "echo 'HYDRA build details: Version: 4.0'")
    findings_by_name = by_name(findings(DoctorPaths(tmp_path / "nowhere", python=broken)))
    failed_names = {name for name, finding in findings_by_name.items() if not finding.ok}
    assert failed_names == {"python", "pytorch", "horovod", "mpi4py", "mpirun", "data root"}
    assert findings_by_name["pytorch"].message == (
        "PyTorch cannot be imported: ModuleNotFoundError: no such thing"
    )
    assert all(findings_by_name[name].remedy for name in failed_names)


def test_without_horovod_the_doctor_names_the_strategy_of_jobs(tmp_path: Path) -> None:
    lacking = "case $2 in *horovod*) echo \"ModuleNotFoundError: No module named 'horovod'\" >&2"
    python = script(tmp_path / "python", f"{lacking}; exit 1;; esac; echo 3.11.2")
    findings_by_name = by_name(findings(DoctorPaths(tmp_path, python=python)))["horovod"]
    assert (findings_by_name.ok, findings_by_name.remedy) == (True, "")
    assert findings_by_name.message == "Horovod is not installed; jobs use the strategy DDP."


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    old = script(tmp_path / "python", "echo 3.8.10")
    finding = by_name(findings(DoctorPaths(tmp_path, python=old)))["python"]
    assert (finding.ok, "3.8.10" in finding.message) == (False, True)


def test_an_import_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_IMPORT_LIMIT_S", 0.5)
    slow = script(tmp_path / "python", "case $2 in *torch*) exec sleep 600;; esac; echo 3.11.2")
    findings_by_name = by_name(findings(DoctorPaths(tmp_path, python=slow)))
    assert (
        findings_by_name["pytorch"].message == "PyTorch cannot be imported: no answer within 0.5 s."
    )
    assert findings_by_name["python"].ok


def test_a_full_or_forbidden_data_root_is_reported(tmp_path: Path) -> None:
    findings_by_name = by_name(findings(DoctorPaths(Path("/proc"), python="/bin/false")))[
        "data root"
    ]
    assert not findings_by_name.ok
    assert findings_by_name.message.startswith("The data root /proc is not writable: ")


def test_f41_a_catalogue_on_a_network_mount_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "network_mount", lambda path: ("nfs4", "/home"))
    findings_by_name = by_name(
        findings(DoctorPaths(tmp_path, Path("/home/me/c.sqlite"), "/bin/false"))
    )["catalogue"]
    assert not findings_by_name.ok
    assert "nfs4 at /home" in findings_by_name.message


def test_m04_the_mpirun_next_to_python_comes_first_with_its_version() -> None:
    mpirun = mpi.find_mpirun()
    assert mpirun is not None
    assert Path(mpirun.path).parent == Path(sys.executable).parent
    assert mpirun.version.startswith("5.")


def test_m04_debians_mpirun_is_understood(tmp_path: Path) -> None:
    script(tmp_path / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'; echo; echo Report bugs")
    mpirun = mpi.find_mpirun(str(tmp_path / "python"))
    assert mpirun is not None
    assert mpirun.version == "4.1.4"


def test_the_checks_need_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, backend.node.checks.doctor, backend.node.run.supervisor\n"
        "print(sorted(sys.modules))"
    )
    names = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(doctor.__file__).parents[3])},
    ).stdout
    assert "site-packages" not in names


@pytest.mark.parametrize("shell", ["/bin/tcsh", "/usr/bin/fish", "/bin/sh"])
def test_from_another_shell_than_bash_the_nodes_are_asked_for_theirs(
    monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    def login_shell(path: str) -> None:
        account = pwd.struct_passwd((*pwd.getpwuid(os.getuid())[:6], path))
        monkeypatch.setattr(pwd, "getpwuid", lambda _: account)

    login_shell("/usr/bin/bash")
    assert mpi.asking_for_shells("/home/lab/config") == {}
    login_shell(shell)
    assert mpi.asking_for_shells("") == {}
    assert mpi.asking_for_shells("/home/lab/config") == {
        "OMPI_MCA_plm_rsh_agent": "ssh -F /home/lab/config",
        "OMPI_MCA_plm_rsh_assume_same_shell": "0",
        "PRTE_MCA_plm_ssh_agent": "ssh -F /home/lab/config",
        "PRTE_MCA_plm_ssh_assume_same_shell": "0",
    }
