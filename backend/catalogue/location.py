"""Permitted places of a catalogue: a local disk, readable by its owner only.

SQLite keeps its write-ahead log in memory that all its users share, and a network share has no
such memory: two desktops would each see a log of their own and overwrite each other's rows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    [
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "prl_fs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "vmhgfs",
    ]
)
# A file system in user space is named after its program; many of them are local.
_NETWORK_FUSE = frozenset(
    [
        "beegfs",
        "blobfuse",
        "blobfuse2",
        "ceph",
        "ceph-fuse",
        "curlftpfs",
        "davfs",
        "davfs2",
        "gcsfuse",
        "geesefs",
        "glusterfs",
        "goofys",
        "gvfsd-fuse",
        "jmtpfs",
        "juicefs",
        "lizardfs",
        "mfs",
        "mount-s3",
        "mountpoint-s3",
        "rclone",
        "s3fs",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
        "vmhgfs-fuse",
        "weed",
    ]
)


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the network file system that holds ``path``, or "" if it is local."""
    resolved = path.resolve()
    if resolved.drive.startswith("\\\\"):
        return "Windows share"
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    kind, longest = "", -1
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4]))
        # Of two mounts at one point, the later one is visible.
        if resolved.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = after.split(" ")[0], len(point.parts)
    is_network = kind in _NETWORK or kind.removeprefix("fuse.") in _NETWORK_FUSE
    return kind if is_network else ""


def make_private(path: Path) -> None:
    """Create ``path`` as an empty file that only its owner can read and write.

    Raises:
        FileExistsError: It exists already.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def make_private_folder(path: Path) -> None:
    """Create the folder for its owner only; an existing folder stays as it is."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
