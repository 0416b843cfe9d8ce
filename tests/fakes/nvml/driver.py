"""A driver that a test describes: the library of `nvml.c`, built, and the state it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")


def build(folder: Path, *defines: str) -> Path:
    """Build the library into ``folder``, which goes into LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    options = [f"-D{name}" for name in defines]
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", *options, "-o", str(library)]
    subprocess.run([*command, str(SOURCE)], check=True)
    return folder


def put_smi(folder: Path) -> Path:
    """Put an `nvidia-smi` there that asks the same library."""
    script = folder / "nvidia-smi"
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("nvidia_smi.py")} "$@"\n'
    )
    script.chmod(0o755)
    return script


class FakeDriver:
    """GPUs that change while they are watched."""

    def __init__(self, library: Path, state: Path) -> None:
        self._library = library
        self._state = state
        self.describe()

    def describe(self, *lines: str) -> None:
        """What is true from the next reading on; `nvml.c` lists the words."""
        temporary = self._state.with_suffix(".fresh")
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.replace(self._state)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._library),
            "FAKE_NVML_STATE": str(self._state),
        }
