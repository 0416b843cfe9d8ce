"""What mpirun is given from its surroundings."""

from __future__ import annotations

import os
import pwd

import pytest

from backend.node import mpi


@pytest.mark.parametrize(("shell", "asks"), [("/bin/tcsh", True), ("/usr/bin/fish", False)])
def test_from_csh_the_other_nodes_are_asked_for_their_shell(
    monkeypatch: pytest.MonkeyPatch, shell: str, asks: bool
) -> None:
    account = pwd.struct_passwd((*pwd.getpwuid(os.getuid())[:6], shell))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    found = mpi.environment({})
    assert found.get("PRTE_MCA_plm_ssh_assume_same_shell") == ("0" if asks else None)
    assert found.get("OMPI_MCA_plm_rsh_assume_same_shell") == ("0" if asks else None)
