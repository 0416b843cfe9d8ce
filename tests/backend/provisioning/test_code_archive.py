"""The archive for the nodes: nothing missing in it, nothing more than needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backend.provisioning.code_archive import PACKAGE, bundle_name, make_bundle


def unpack(folder: Path) -> Path:
    subprocess.run(["tar", "-xz", "-C", folder], input=make_bundle().archive, check=True)
    return folder


def modules(folder: Path, *packages: str) -> list[str]:
    paths = (path for package in packages for path in (folder / "backend" / package).rglob("*.py"))
    names = (".".join(path.relative_to(folder).with_suffix("").parts) for path in paths)
    # This one is a script that a rank starts with, not a module.
    return [n.removesuffix(".__init__") for n in names if n != "backend.node.run.rank_bootstrap"]


IMPORT = """
import importlib, os, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
foreign = [
    name for name, module in sys.modules.items()
    if name.split(".")[0] in {"backend", "app", "widgets"}
    and not getattr(module, "__file__", "").startswith(sys.argv[1] + os.sep)
]
print(foreign)
"""


def test_the_nodes_own_modules_start_with_a_bare_python(tmp_path: Path) -> None:
    names = modules(unpack(tmp_path), "base", "records", "node")
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", IMPORT, tmp_path, *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert "backend.node.run.supervisor" in names


def test_training_needs_nothing_of_ours_that_is_not_in_it(tmp_path: Path) -> None:
    names = modules(unpack(tmp_path), "training")
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT, tmp_path, *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert "backend.training.rank" in names


def test_a_node_is_sent_no_part_of_the_desktop(tmp_path: Path) -> None:
    names = {path.name for path in (unpack(tmp_path) / "backend").iterdir()}
    assert names == {"__init__.py", "base", "records", "node", "training"}


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    copy = shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("*.pyc"))
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    assert make_bundle(copy) == make_bundle()
    assert bundle_name(copy) == make_bundle().name


@pytest.mark.parametrize(
    "name",
    [
        "base/errors.py",
        "node/run/rank_guard.py",
        "node/diagnosis/rules/02-gpu.toml",
        "training/strategies/base.py",
    ],
)
def test_another_content_has_another_name(tmp_path: Path, name: str) -> None:
    copy = shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("*.pyc"))
    with (copy / name).open("a") as file:
        file.write("\n")
    assert bundle_name(copy) != bundle_name()
