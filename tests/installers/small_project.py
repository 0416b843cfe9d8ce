"""Parts of a small project: wheels of one file, and a stand-in for the compiler."""

from __future__ import annotations

import zipfile
from pathlib import Path

from installers.horovod_wheel import VERSION, Workshop

TORCH = "__version__ = '2.13.0+cpu'\nclass version:\n    cuda = None\n"
HOROVOD = "def mpi_built():\n    return True\n"
BROKEN_HOROVOD = "raise ImportError('libmpi.so.40: cannot open shared object file')\n"


def put_wheel(
    folder: Path, name: str, version: str, module: str, text: str, requirement: str = ""
) -> Path:
    """Write a wheel that holds one module; with ``requirement`` it requires that package."""
    info = f"{name}-{version}.dist-info"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        module: text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {requirement}\n" if requirement else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)
    return wheel


def put_horovod(workshop: Workshop, text: str = HOROVOD) -> Path:
    """Stands in for the compiler."""
    return put_wheel(workshop.folder, "horovod", VERSION, "horovod/torch/__init__.py", text)
