"""Authors and licences of a bundle's third-party files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

_COMMON = Path("/usr/share/common-licenses")
_HEAD = """\
# Third-party software in this folder

Ringmaster itself is under the MIT licence (`LICENSE`). It contains third-party software, each part
under its own licence; the texts are at the place in the table, in `licenses/`, or on the project's
pages.

Qt and PySide6 are used under the LGPL, version 3 (`licenses/LGPL-3`, `licenses/GPL-3`). They are
unchanged, separate files, which you may replace by your own builds, in
`{qt}`;
their sources are at https://download.qt.io/official_releases/QtForPython/ and
https://download.qt.io/official_releases/qt/.

| what | version | licence | text |
|---|---|---|---|
"""


def write_notices(folder: Path, packages: Path, system_files: Iterable[Path]) -> None:
    """Write THIRD-PARTY.md, and copy the licences of the files taken from the system.

    ``system_files`` are those of the system that are in the folder.
    """
    texts = folder / "licenses"
    texts.mkdir()
    for name in ("LGPL-3", "GPL-3"):
        if (_COMMON / name).exists():
            shutil.copyfile(_COMMON / name, texts / name)
    lines = [_line("Python", "{}.{}.{}".format(*sys.version_info[:3]), "PSF-2.0", "python.org")]
    infos = sorted(packages.glob("*.dist-info"), key=lambda info: info.name.lower())
    lines += [_distribution_line(info, folder) for info in infos]
    lines += [_system_package_line(name, texts) for name in _system_packages(system_files)]
    head = _HEAD.format(qt=(packages / "PySide6").relative_to(folder))
    (folder / "THIRD-PARTY.md").write_text(head + "".join(lines), encoding="utf-8")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _distribution_line(info: Path, folder: Path) -> str:
    package_metadata = metadata.Distribution.at(info).metadata
    names = [
        package_metadata[key]
        for key in ("License-Expression", "License")
        if key in package_metadata
    ]
    short = [name for name in names if name and "\n" not in name]
    kinds = [
        c for c in package_metadata.get_all("Classifier", []) or [] if c.startswith("License ::")
    ]
    licence = short[0] if short else ", ".join(kind.rpartition(":: ")[2] for kind in kinds)
    return _line(
        package_metadata["Name"],
        package_metadata["Version"],
        licence or "see the file",
        _path_text(info, folder),
    )


def _path_text(path: Path, folder: Path) -> str:
    return f"`{path.relative_to(folder)}`"


def _system_packages(system_files: Iterable[Path]) -> Sequence[str]:
    """Return Debian's packages of these files; empty without dpkg."""
    if shutil.which("dpkg-query") is None:
        return ()
    # /lib is a link to /usr/lib, and the database has a file under only one of them.
    names = [str(path).removeprefix("/usr") for path in system_files]
    answer = subprocess.run(
        ["dpkg-query", "--search", *names, *(f"/usr{name}" for name in names)],
        capture_output=True,
        text=True,
    )
    return sorted({line.partition(":")[0] for line in answer.stdout.splitlines()})


def _system_package_line(name: str, texts: Path) -> str:
    completed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Version}\n", name],
        capture_output=True,
        text=True,
    )
    copyright_file = Path("/usr/share/doc", name, "copyright")
    text = ""
    if copyright_file.exists():
        shutil.copyfile(copyright_file, texts / f"{name}.txt")
        text = f"`licenses/{name}.txt`"
    return _line(f"{name} (Debian)", completed.stdout.split("\n")[0], "see the file", text)
