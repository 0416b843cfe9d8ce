"""A share whose server does not answer: no error, no end, just nothing."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.commands import ClusterError, call

_DEVICE = Path("/dev/fuse")


@contextmanager
def hanging_share(folder: Path) -> Iterator[None]:
    """Let every call below ``folder`` wait until the end of the block.

    Over it lies a file system in user space whose program never answers. A call that still
    waits then fails with an aborted connection; one after it finds what was there before.
    """
    device = _cover_folder(folder)
    try:
        yield
    finally:
        call("umount", "--lazy", folder)
        os.close(device)


@contextmanager
def dead_share(folder: Path) -> Iterator[None]:
    """Fail every call below ``folder``, as an sshfs whose connection broke."""
    os.close(_cover_folder(folder))
    try:
        yield
    finally:
        call("umount", "--lazy", folder)


def _cover_folder(folder: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open(_DEVICE, os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"silent", os.fsencode(folder), b"fuse", 0, options):
        os.close(device)
        raise ClusterError(f"{folder} cannot be covered: {os.strerror(ctypes.get_errno())}")
    return device
