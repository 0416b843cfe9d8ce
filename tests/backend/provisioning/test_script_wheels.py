"""What is fetched for a script: what it lists and a node lacks, from every kind of list."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.provisioning.script_wheels import BaseEnvironment, ScriptWheels, UnresolvedPackages
from tests.backend.provisioning.test_wheelhouse import CONSTRAINTS
from tests.installers.small_project import put_wheel

BASE = BaseEnvironment("3.11", "x86_64", (), {"torch": "2.13.0+cpu", "greeting": "1.0"})
PROJECT = "[project]\nname = 'own'\nversion = '3.0'\nrequires-python = '>=3.11'\n"
BACKEND = "[build-system]\nrequires = []\nbuild-backend = 'build'\nbackend-path = ['.']\n"
BUILD = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(f"{{folder}}/{{name}}", "w") as wheel:
        info = "{name}-{version}.dist-info"
        wheel.writestr("{name}.py", "")
        wheel.writestr(f"{{info}}/METADATA",
            "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(f"{{info}}/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
build_editable = build_wheel
"""


def put_source(index: Path, name: str, tag: str = "py3-none-any") -> None:
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        "pyproject.toml": f"[project]\nname = '{name}'\nversion = '1.0'\n{BACKEND}",
        "build.py": BUILD.format(name=name, version="1.0", tag=tag),
    }
    with tarfile.open(index / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for number in ("1.0", "2.0"):
        put_wheel(folder, "greeting", number, "greeting/__init__.py", "")
    put_wheel(folder, "polite", "1.0", "polite.py", "", "greeting>=2")
    put_wheel(folder, "beside", "1.0", "beside.py", "", "torch==2.13.0")
    put_wheel(folder, "uv", version("uv"), "uv/nothing.py", "")
    put_source(folder, "archived")
    put_source(folder, "compiled", "cp311-cp311-linux_x86_64")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def fetched(tmp_path: Path, files: dict[str, str]) -> list[str]:
    script = tmp_path / "script"
    script.mkdir()
    for name, text in files.items():
        (script / name).write_text(text)
    if "uv.lock" in files:
        (script / "uv.lock").unlink()
        uv = str(Path(sys.executable).with_name("uv"))
        lock = [uv, "lock", "--quiet", "--no-index", "--find-links", str(tmp_path / "index")]
        subprocess.run(lock, cwd=script, check=True)
    previous_paths = sorted(script.rglob("*"))
    wheels = ScriptWheels(tmp_path / "houses", CONSTRAINTS)
    house = wheels.gather_for(script, "name", BASE)
    assert sorted(script.rglob("*")) == previous_paths
    assert sorted(path.name for path in house.folder.iterdir() if path.suffix != ".whl") == [
        "wheels.json"
    ]
    return [f"{path.package}=={path.version}" for path in house.wheels]


@pytest.mark.parametrize(
    ("files", "wheels"),
    [
        ({"requirements.txt": ""}, []),
        ({"requirements.txt": "torch\n# all\n"}, []),
        ({"requirements.txt": "torch>=2.1\ngreeting"}, []),
        ({"requirements.txt": "Greeting>=2 ; python_version < '4'"}, ["greeting==2.0"]),
        ({"requirements.txt": "polite"}, ["greeting==2.0", "polite==1.0"]),
        ({"requirements.txt": "beside\nnever ; sys_platform == 'win32'"}, ["beside==1.0"]),
        ({"requirements.txt": "-r more.txt", "more.txt": "greeting>1"}, ["greeting==2.0"]),
        ({"requirements.txt": "archived"}, ["archived==1.0"]),
        (
            {
                "requirements.txt": "-e .",
                "pyproject.toml": PROJECT + "dependencies = ['polite']\n" + BACKEND,
                "build.py": BUILD.format(name="own", version="3.0", tag="py3-none-any"),
            },
            ["greeting==2.0", "own==3.0", "polite==1.0"],
        ),
        (
            {"pyproject.toml": PROJECT + "dependencies = ['torch', 'polite']\n"},
            ["greeting==2.0", "polite==1.0"],
        ),
        (
            {
                "uv.lock": "",
                "pyproject.toml": PROJECT + "dependencies = ['polite', 'greeting<3']\n",
                "requirements.txt": "archived",
            },
            ["greeting==2.0", "polite==1.0"],
        ),
    ],
)
def test_only_packages_that_a_node_lacks_are_fetched(
    tmp_path: Path, index: Path, files: dict[str, str], wheels: list[str]
) -> None:
    assert fetched(tmp_path, files) == wheels


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("compiled", "compiled==1.0 has no wheel for Python 3.11 on x86_64 without CUDA, and is"),
        ("torch==2.14", "require torch==2.14 and torch==2.13.0+cpu"),
        ("greeting==9", "there is no version of greeting==9"),
        ("greeting==1\npolite", "depend on greeting>=2 and you require greeting==1"),
        ("unheard-of", "unheard-of was not found"),
        ("a b c", "Couldn't parse requirement in `requirements.txt`"),
    ],
)
def test_an_unavailable_package_is_one_sentence_and_leaves_no_folder(
    tmp_path: Path, index: Path, requirement: str, message: str
) -> None:
    with pytest.raises(UnresolvedPackages, match=re.escape(message)) as caught:
        fetched(tmp_path, {"requirements.txt": requirement})
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert [path.suffix for path in (tmp_path / "houses").iterdir()] == [".lock"]


def test_uv_is_fetched_if_this_computer_has_none(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found for uv' >&2; exit 1\n")
    pip.chmod(0o755)
    (tmp_path / "script").mkdir()
    with pytest.raises(BackendError, match="No package index of pip on this computer has uv"):
        ScriptWheels(tmp_path / "houses", CONSTRAINTS, [str(pip)]).gather_for(
            tmp_path / "script", "name", BASE
        )
