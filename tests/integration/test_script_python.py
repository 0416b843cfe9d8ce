"""Scripts with packages of their own, on this computer, from a folder of wheels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.backend.provisioning.provisioner_rig import UNPACK
from tests.installers.small_project import put_wheel

PROGRAM = """
import json, sys, greeting, torch
print(json.dumps({"step": 1, "greeting": greeting.NUMBER}), flush=True)
print("torch", torch.__version__, torch.__file__, flush=True)
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All packages that this desktop can get: a greeting, and an uv that only installs."""
    folder = tmp_path / "index"
    folder.mkdir()
    put_wheel(folder, "greeting", "1.0", "greeting/__init__.py", "NUMBER = 1\n")
    put_wheel(folder, "greeting", "2.0", "greeting/__init__.py", "NUMBER = 2\n")
    put_wheel(folder, "uv", version("uv"), f"uv-{version('uv')}.data/scripts/uv", UNPACK)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def job_of(
    services: Services, tmp_path: Path, files: Mapping[str, str], **settings: Any
) -> JobView:
    folder = tmp_path / "program"
    folder.mkdir(exist_ok=True)
    for name, text in {"train.py": PROGRAM, **files}.items():
        (folder / name).write_text(text)
    item = services.library.import_item(Kind.SCRIPT, folder, "mine")
    return services.jobs.create(
        {
            "name": "mine",
            "script": item.reference,
            "python": "requirements",
            "placement": [{"node": THIS_COMPUTER, "processes": 2}],
            **settings,
        }
    )


@pytest.mark.parametrize("entry", ["train.py", "-m train", "run.sh"])
def test_a_script_has_its_packages_and_the_torch_of_the_node(
    services: Services, tmp_path: Path, index: Path, entry: str
) -> None:
    files = {"requirements.txt": "greeting<2\ntorch\n", "run.sh": "exec python train.py\n"}
    view = job_of(services, tmp_path, files, entry=entry)
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    log = services.data_root.job(view.id).rank_log(0).read_text()
    assert view.state is JobState.FINISHED, log
    assert view.status.metrics == {"greeting": 1.0}
    assert f"torch {version('torch')} {sys.prefix}" in log


def test_a_queued_job_has_its_environment_before_its_turn(
    services: Services, tmp_path: Path, index: Path
) -> None:
    view = job_of(services, tmp_path, {"requirements.txt": "greeting\n"})
    _, _, prepared_run = services.jobs.lifecycle.prepare(view.id)
    completed = subprocess.run(
        [prepared_run.launch.script_python, "-c", "import greeting; print(greeting.NUMBER)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout == "2\n"
    cancelled_progress = Progress()
    cancelled_progress.cancel()
    other_job = job_of(services, tmp_path, {"requirements.txt": "greeting<2\n"})
    with pytest.raises(Cancelled):
        services.jobs.lifecycle.prepare(other_job.id, progress=cancelled_progress)


def refusal_of(services: Services, tmp_path: Path, files: Mapping[str, str]) -> str:
    view = job_of(services, tmp_path, files)
    with pytest.raises(BackendError) as caught:
        services.jobs.lifecycle.start(view.id)
    assert services.jobs.queries.show(view.id).run == 0
    assert [*(tmp_path / "cache/ringmaster/node-wheels").glob("*.part")] == []
    return caught.value.with_remedy


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"requirements.txt": "greeting==3"}, "there is no version of greeting==3"),
        ({"requirements.txt": "greeting=>=2"}, "Couldn't parse requirement in `requirements.txt`"),
        ({"requirements.txt": "-r more.txt"}, "Error parsing included file in `requirements.txt`"),
        ({"requirements.txt": "torch==1.0"}, f"require torch==1.0 and torch=={version('torch')}"),
        ({"requirements.txt": "nowhere"}, "nowhere was not found"),
        ({"pyproject.toml": "[project\n"}, "pyproject.toml: Failed to parse"),
        ({"uv.lock": "version = 1", "pyproject.toml": "[project]\nname='a'"}, "uv.lock: "),
        ({"requirements.txt": "./own\n"}, "requirements.txt: "),
    ],
)
def test_an_unavailable_package_is_reported_in_the_resolvers_words_before_the_start(
    services: Services, tmp_path: Path, index: Path, files: dict[str, str], reason: str
) -> None:
    message = refusal_of(services, tmp_path, files)
    assert reason in message
    assert message.endswith(
        "Correct that file and import the script again, or give the job a Python of your own."
    )


def test_a_script_that_lists_nothing_has_no_such_job(
    services: Services, tmp_path: Path, index: Path
) -> None:
    message = "mine@1 has neither uv.lock, requirements.txt nor pyproject.toml"
    with pytest.raises(BackendError, match=message):
        job_of(services, tmp_path, {"needs.txt": "greeting"})


@pytest.mark.parametrize(
    ("python", "code", "message"),
    [
        ("/nowhere/bin/python", "import torch", "does not exist on this computer."),
        ("no-such-python", "import torch", "does not exist on this computer."),
        ("{folder}/not-executable", "", "does not start on this computer: Permission denied."),
        ("{folder}/broken", "", "does not start on this computer: it is out of order."),
        ("{folder}/bare", "import os\nfrom torch import nn", "on this computer has no torch"),
        ("{folder}/bare", "  import torch.distributed", "on this computer has no torch"),
        ("{folder}/bare", "import os.path as p, torch as t", "on this computer has no torch"),
        ("{folder}/bare", "import torchless, os", ""),
        ("{folder}/bare", "from os import path  # torch", ""),
        (sys.executable, "import torch", ""),
    ],
)
def test_a_missing_python_or_torch_is_found_before_the_start(
    services: Services, tmp_path: Path, python: str, code: str, message: str
) -> None:
    folder = tmp_path / "pythons"
    folder.mkdir()
    (folder / "not-executable").write_text("")
    scripts = {"broken": "echo it is out of order >&2; exit 1", "bare": "exit ${3:+3}"}
    for name, line in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    view = job_of(services, tmp_path, {"train.py": code}, python=python.format(folder=folder))
    config = services.jobs.queries.show(view.id).config
    if message:
        with pytest.raises(BackendError, match=message):
            services.preflight.require(config, view.id)
    else:
        services.preflight.require(config, view.id)


@pytest.mark.slow
def test_packages_of_the_index_with_source_archives_are_had_from_there(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code = """
import json, einops, hydra, torch
mean = einops.reduce(torch.tensor([1.0, 3.0]), "a -> ", "mean").item()
print(json.dumps({"step": 1, "mean": mean}), flush=True)
"""
    text = "[project]\nname='mine'\nversion='1'\ndependencies=['hydra-core', 'einops<1']\n"
    view = job_of(services, tmp_path, {"train.py": code, "pyproject.toml": text})
    services.jobs.lifecycle.start(view.id)
    view = services.jobs.queries.wait(view.id)
    log = services.data_root.job(view.id).rank_log(0).read_text()
    assert (view.state, view.status.metrics) == (JobState.FINISHED, {"mean": 2.0}), log
