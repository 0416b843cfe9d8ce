"""The Python that trains on this computer, and runs what touches users' code.

It is the one that runs this program, unless the program came as a bundle (`installers/bundle`).
That brings no PyTorch, for which this computer may have to compile Horovod: there it is the Python
of an environment that `installers/run` set up, and without one nothing trains here.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from backend.base.errors import BackendError
from backend.node.system.start_supervisor import CODE_ROOT

BUNDLE_FILE = CODE_ROOT / "bundle.json"
"""In a bundle alone: ``requirements``, what an environment that trains was made of."""


def training_python() -> str:
    """The path of a Python. In a bundle it is looked for each time: it may come while it runs."""
    return _found() or sys.executable


def lack_here() -> BackendError | None:
    """Why this computer cannot train whatever it is asked for, and the way out; None if it can."""
    if not BUNDLE_FILE.exists() or _found():
        return None
    set_up = shlex.quote(str(BUNDLE_FILE.parent / "installers" / "run"))
    return BackendError(
        "This copy of Ringmaster brings no PyTorch, so nothing trains on this computer itself.",
        f"{set_up} doctor sets it up, once; other nodes train without it.",
    )


def _found() -> str:
    """Of several environments the newest; empty where there is none, or no need of one."""
    try:
        wanted = set(json.loads(BUNDLE_FILE.read_text("utf-8"))["requirements"])
    except FileNotFoundError:
        return ""
    import platformdirs

    stamps = platformdirs.user_cache_path("ringmaster").glob("environments/*/ringmaster.json")
    for stamp in sorted(stamps, key=_age):
        try:
            told = json.loads(stamp.read_text("utf-8"))
            python = str(told["python"])
            if wanted <= set(told["requirements"]) and os.access(python, os.X_OK):
                return python
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ""


def _age(stamp: Path) -> float:
    try:
        return -stamp.stat().st_mtime
    except OSError:
        return 0.0
