"""What this computer keeps of a data root that it reaches over SSH."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from backend.cli.printing import OK, in_bytes, print_json, print_line

if TYPE_CHECKING:
    from backend.services.context.container import Services


def clear(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    freed = services.share.clear()
    if as_json:
        print_json({"bytes": freed})
    else:
        print_line(
            f"Dropped {in_bytes(freed)} from this computer; {services.data_root.name} has all "
            "of it."
        )
    return OK
