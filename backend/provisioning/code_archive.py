"""The part of this program that runs on a node, as one archive.

The archive is named by its content, so that two desktops of one version send the same file, and a
newer archive is put next to the older: running jobs keep the code with which they started.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The package ``backend`` of the program that is running."""
PACKAGES = ("base", "records", "node", "training")
SUFFIXES = (".py", ".toml")


@dataclass(frozen=True)
class CodeArchive:
    """A tar.gz that contains the folder ``backend``; ``name`` identifies its content."""

    name: str
    archive: bytes


def bundle_name(package: Path = PACKAGE) -> str:
    """Return only the name, without packing, which takes ten times as long."""
    return _name(_contents(package))


def make_bundle(package: Path = PACKAGE) -> CodeArchive:
    """Pack the code for nodes. The same files get the same name at any time and place."""
    contents = _contents(package)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as gzip_file,
        tarfile.open(fileobj=gzip_file, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return CodeArchive(_name(contents), buffer.getvalue())


def _contents(package: Path) -> dict[str, bytes]:
    """Return the packed files by name in the archive, in order."""
    paths = [package / "__init__.py"]
    paths += [
        path for name in PACKAGES for path in (package / name).rglob("*") if path.suffix in SUFFIXES
    ]
    contents = {
        f"backend/{path.relative_to(package).as_posix()}": path.read_bytes() for path in paths
    }
    return dict(sorted(contents.items()))


def _name(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        # The lengths keep different names and contents from giving the same digest.
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]
