"""Network file systems, on which a catalogue must not lie.

SQLite keeps its write-ahead log in memory that all its users share, and a network share has no
such memory: two desktops would each see a log of their own and overwrite each other's rows.
"""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {
        *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb2"),
        *("smb3", "smbfs", "vboxsf", "vmhgfs"),
    }
)
# A file system in user space is named after its program; many of them are local.
_NETWORK_FUSE = frozenset(
    {
        *("beegfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "curlftpfs"),
        *("davfs", "davfs2", "gcsfuse", "geesefs", "glusterfs", "goofys"),
        *("gvfsd-fuse", "jmtpfs", "juicefs", "lizardfs", "mfs", "mount-s3"),
        *("mountpoint-s3", "rclone", "s3fs", "seaweedfs", "smbnetfs", "sshfs"),
        *("vmhgfs-fuse", "weed"),
    }
)


def network_mount(path: Path, mounts: Path = MOUNTS) -> tuple[str, str]:
    """Return type and mount point of the network file system of ``path``; "" if it is local."""
    resolved_path = path.resolve()
    if resolved_path.drive.startswith("\\\\"):
        return "Windows share", resolved_path.drive
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        # Not Linux.
        return "", ""
    kind, mount = "", Path()
    for line in table.splitlines():
        mount_part, separator, type_part = line.partition(" - ")
        fields = mount_part.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount_point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4]))
        # Of two mounts at one point, the later one is visible.
        if resolved_path.is_relative_to(mount_point) and len(mount_point.parts) >= len(mount.parts):
            kind, mount = type_part.split(" ")[0], mount_point
    is_network = kind in _NETWORK or kind.removeprefix("fuse.") in _NETWORK_FUSE
    return (kind, str(mount)) if is_network else ("", "")
