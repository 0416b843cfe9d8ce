"""The lock: every version that an environment may hold, for what pyproject.toml asks today."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]


def requirements() -> list[Requirement]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    tools = (REPOSITORY / "installers/horovod-tools.in").read_text().splitlines()
    lines = [line for line in tools if line and not line.startswith("#")]
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        lines += group
    return [Requirement(line) for line in lines]


def locked() -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for line in (REPOSITORY / "installers/constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pinned = Requirement(line)
            (specifier,) = pinned.specifier
            assert specifier.operator == "==", line
            versions.setdefault(canonicalize_name(pinned.name), []).append(specifier.version)
    return versions


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_each_requirement_of_pyproject_is_locked_to_an_allowed_version(
    requirement: Requirement,
) -> None:
    versions = locked().get(canonicalize_name(requirement.name))
    assert versions, "run installers/lock"
    assert all(requirement.specifier.contains(version) for version in versions)


def test_no_version_belongs_to_one_index() -> None:
    assert not [version for versions in locked().values() for version in versions if "+" in version]
