"""What mpirun is given from its surroundings."""

from __future__ import annotations

import os
import pwd

import pytest

from backend.node.system import mpi


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
