"""Disk usage of the local mirror of a data root that is reached over SSH.

Standard library only and Python 3.9: the records are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base.schema import KEY


@dataclass(frozen=True)
class MirrorUsage:
    """The size of one mirror.

    ``folder`` is its local folder, ``address`` the data root as ``--data-root`` takes it.
    ``refetchable_bytes``, a part of ``bytes``, are checkpoints and files of versions, which are
    fetched again when needed.
    """

    folder: str = field(metadata={KEY: "place"})
    address: str
    bytes: int
    refetchable_bytes: int = field(metadata={KEY: "fetched_bytes"})
