"""The environment variables of a job, for the user's code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def set_variables(variables: Mapping[str, str]) -> None:
    """Set variables of a job in this process.

    The folders of its PYTHONPATH are searched last: a ``logging.py`` in one of them must not
    replace the standard library's for Ringmaster or PyTorch.
    """
    os.environ.update(variables)
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.path.extend(
        folder for folder in dict.fromkeys(folders) if folder and folder not in sys.path
    )
