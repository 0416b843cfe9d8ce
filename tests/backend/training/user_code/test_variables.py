"""A job's variables in a rank: its folders come after the program's own modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from backend.training.user_code.importing import set_variables


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(os, "environ", {"PYTHONPATH": "/code"})
    monkeypatch.setattr(sys, "path", ["/code", "/usr/lib/python3"])
    return sys.path


@pytest.mark.parametrize(
    ("variables", "added_folders"),
    [
        ({}, []),
        ({"PYTHONPATH": ""}, []),
        ({"PYTHONPATH": "/mine"}, ["/mine"]),
        ({"PYTHONPATH": "/mine:/other"}, ["/mine", "/other"]),
        ({"PYTHONPATH": ":/mine::/mine:"}, ["/mine"]),
        ({"PYTHONPATH": "/code:/mine"}, ["/mine"]),
        ({"A": "1"}, []),
    ],
)
def test_the_jobs_folders_are_searched_last(searched, variables, added_folders) -> None:
    set_variables(variables)
    assert searched == ["/code", "/usr/lib/python3", *added_folders]
    assert {name: os.environ[name] for name in variables} == variables


def test_a_module_of_the_jobs_folder_is_found_and_shadows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "logging.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "only_in_the_jobs_folder.py").write_text("VALUE = 7")
    monkeypatch.delitem(sys.modules, "logging")
    set_variables({"PYTHONPATH": str(tmp_path)})
    import logging  # noqa: F401

    from only_in_the_jobs_folder import VALUE  # type: ignore[import-not-found]

    assert VALUE == 7
