"""The Python for training and for tools on this computer.

That is the Python of this program, unless the program is a bundle (`installers/bundle`). A bundle
has no PyTorch, for which this computer may have to compile Horovod: a bundle uses the Python of an
environment that `installers/run` set up; without an environment, this computer cannot train.

While `installers/run` still builds Horovod, this program runs without it; jobs of this computer
train by DDP, and by Horovod as soon as its environment is ready.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER

BUNDLE_FILE = CODE_ROOT / "bundle.json"
"""A file only of a bundle: ``requirements`` are those of an environment for training."""


LATER_VARIABLE = "RINGMASTER_LATER"
"""Variable with a file that has the path of the Python with Horovod as soon as that is built."""

AWAITS_HOROVOD = "Horovod is still being built; this run trains by DDP."


def training_python() -> str:
    """Return the path of a Python, without a cache: it may be installed meanwhile."""
    return _horovod_python() or _environment_python() or sys.executable


def awaits_horovod() -> bool:
    """Return whether Horovod is still being built for this computer."""
    return LATER_VARIABLE in os.environ and not _horovod_python()


def next_run_config(config: JobConfig) -> JobConfig:
    """Return the settings of the next run: with DDP on a computer that awaits Horovod.

    Both strategies average the gradients of all ranks, so a later run may continue by Horovod.
    """
    is_here = all(placement.node == THIS_COMPUTER for placement in config.placement)
    if config.strategy.name != "allreduce" or not is_here or not awaits_horovod():
        return config
    return replace(config, strategy=replace(config.strategy, name="ddp", settings={}))


def has_horovod() -> bool:
    """Return whether jobs on this computer can train by Horovod."""
    if python := _horovod_python() or _environment_python():
        return any(Path(python).parents[1].glob("lib/python*/site-packages/horovod"))
    return importlib.util.find_spec("horovod") is not None


def training_error() -> BackendError | None:
    """Return an error with the remedy if this computer cannot train at all."""
    if not BUNDLE_FILE.exists() or _environment_python():
        return None
    set_up = shlex.quote(str(BUNDLE_FILE.parent / "installers" / "run"))
    return BackendError(
        "This copy of Ringmaster has no PyTorch, so this computer cannot train.",
        f"Run {set_up} doctor once to set it up; other nodes can train without it.",
    )


def _horovod_python() -> str:
    try:
        python = Path(os.environ.get(LATER_VARIABLE, "")).read_text("utf-8").strip()
    except OSError:
        return ""  # not built yet
    return python if os.access(python, os.X_OK) else ""


def _environment_python() -> str:
    """Return the Python of the newest environment; "" if there is none, or without a bundle."""
    try:
        requirements = set(json.loads(BUNDLE_FILE.read_text("utf-8"))["requirements"])
    except FileNotFoundError:
        return ""
    import platformdirs

    stamps = platformdirs.user_cache_path("ringmaster").glob("environments/*/ringmaster.json")
    for stamp in sorted(stamps, key=_stamp_age):
        try:
            environment = json.loads(stamp.read_text("utf-8"))
            python = str(environment["python"])
            if requirements <= set(environment["requirements"]) and os.access(python, os.X_OK):
                return python
        except (OSError, ValueError, KeyError, TypeError) as error:
            swallowed(error)
            continue
    return ""


def _stamp_age(stamp: Path) -> float:
    try:
        return -stamp.stat().st_mtime
    except OSError as error:
        swallowed(error)
        return 0.0
