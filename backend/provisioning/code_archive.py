"""What of this program runs on a node, as one archive.

The archive is named by its content, so that two desktops of one version push the same one, and a
newer one is put beside the older: jobs that run keep the code they started with.
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


@dataclass(frozen=True)
class CodeArchive:
    """A tar.gz with the folder ``backend`` in it; ``name`` tells its content."""

    name: str
    archive: bytes


def bundle_name(package: Path = PACKAGE) -> str:
    """The name alone, without the packing, which takes ten times as long."""
    return _name(_contents(package))


def make_bundle(package: Path = PACKAGE) -> CodeArchive:
    """Pack what a node runs. The same files have the same name, whenever and wherever."""
    contents = _contents(package)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return CodeArchive(_name(contents), packed.getvalue())


def _contents(package: Path) -> dict[str, bytes]:
    """What is packed, by its name in the archive, in order."""
    paths = [package / "__init__.py"]
    paths += [path for name in PACKAGES for path in (package / name).rglob("*.py")]
    found = {f"backend/{path.relative_to(package).as_posix()}": path.read_bytes() for path in paths}
    return dict(sorted(found.items()))


def _name(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        # The lengths keep apart what two names and contents could both be read as.
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]
