"""What a script's environment has of the one below it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from backend.provisioning.script_environment import _LAYER

ASKS = """import importlib.util, other
print(importlib.util.find_spec("mpi4py") is not None)"""


@pytest.mark.parametrize("is_listed", [True, False])
def test_our_mpi4py_is_out_of_a_scripts_sight_unless_it_lists_it(
    tmp_path: Path, is_listed: bool
) -> None:
    lower_folder = tmp_path / "below"
    for package in (lower_folder / "mpi4py", lower_folder / "other"):
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    base = f"{sys.base_prefix}/bin/python3"
    subprocess.run([base, "-m", "venv", "--without-pip", tmp_path / "made"], check=True)
    python = tmp_path / "made/bin/python"
    subprocess.run([python, "-I", "-c", _LAYER, str(lower_folder)], check=True)
    if is_listed:
        version = sysconfig.get_python_version()
        (tmp_path / f"made/lib/python{version}/site-packages/mpi4py").mkdir()
    # It is made aside and renamed.
    (tmp_path / "made").rename(tmp_path / "own")
    answer = subprocess.run(
        [tmp_path / "own/bin/python", "-I", "-c", ASKS], check=True, capture_output=True, text=True
    )
    assert answer.stdout.strip() == str(is_listed)
