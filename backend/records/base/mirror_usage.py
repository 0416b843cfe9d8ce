"""What this computer keeps of a data root that it reaches over SSH.

Standard library only and Python 3.9: the records are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MirrorRoom:
    """``place`` is the mirror's folder here, ``address`` the data root as ``--data-root`` takes it.

    ``fetched_bytes``, a part of ``bytes``, are checkpoints and files of versions: they are fetched
    again when somebody wants them.
    """

    place: str
    address: str
    bytes: int
    fetched_bytes: int
