"""What of this program runs on a node, as one archive.

The archive is named by its content, so that two desktops of one version push the same one, and a
newer one is put beside the older: jobs that run keep the code they started with.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The package ``backend`` of the program that is running."""
FILES = ("__init__.py", "errors.py")
ROOMS = ("records", "node", "training")


@dataclass(frozen=True)
class Bundle:
    """A tar.gz with the folder ``backend`` in it; ``name`` tells its content."""

    name: str
    archive: bytes


def make_bundle(package: Path = PACKAGE) -> Bundle:
    """Pack what a node runs. The same files have the same name, whenever and wherever."""
    paths = [package / name for name in FILES]
    paths += [path for room in ROOMS for path in (package / room).rglob("*.py")]
    contents = {
        f"backend/{path.relative_to(package).as_posix()}": path.read_bytes() for path in paths
    }
    digest = hashlib.sha256()
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in sorted(contents.items()):
            # The lengths keep apart what two names and contents could both be read as.
            digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return Bundle(digest.hexdigest()[:16], packed.getvalue())
