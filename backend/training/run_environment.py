"""Record of a run's environment, which explains differences between curves."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import backend
from backend.base.log import suppress
from backend.records.base.access_modes import make_folders
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.run_environment import RunEnvironment

if TYPE_CHECKING:
    import torch


def write_environment(folder: JobFolder, run: int, launch: Launch, device: torch.device) -> None:
    """Write ``attempts/<run>/environment.json``; an error of the disk does not end the run."""
    attempt_folder = folder.attempt(run)
    with suppress(OSError):
        make_folders(attempt_folder.path)
        replace_json(attempt_folder.environment, environment_of(run, launch, device).to_dict())


def environment_of(run: int, launch: Launch, device: torch.device) -> RunEnvironment:
    import torch

    on_gpu = device.type == "cuda"
    horovod = sys.modules.get("horovod")
    return RunEnvironment(
        run=run,
        seed=launch.config.seed,
        processes=len(launch.ranks),
        python=platform.python_version(),
        torch=str(torch.__version__),
        horovod=str(getattr(horovod, "__version__", "")),
        cuda=str(torch.version.cuda or "") if on_gpu else "",
        system=f"{platform.system()} {platform.machine()}",
        device=torch.cuda.get_device_name(device) if on_gpu else _processor(),
        threads=torch.get_num_threads(),
        nodes=tuple(dict.fromkeys(plan.node for plan in launch.ranks)),
        program=program_version(),
    )


def program_version() -> str:
    """Return the version of this program and, of a checkout, its commit: ``0.1.0 (4e4fa950)``."""
    folder = Path(backend.__file__).parents[1]
    if (folder / ".git").exists():
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
        with suppress(OSError, subprocess.SubprocessError):
            completed_process = subprocess.run(
                command, capture_output=True, check=True, text=True, timeout=10
            )
            return f"{backend.VERSION} ({completed_process.stdout.strip()})"
    return backend.VERSION


def _processor() -> str:
    """Return the CPU model from ``/proc/cpuinfo`` on x86, otherwise from Python."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()
