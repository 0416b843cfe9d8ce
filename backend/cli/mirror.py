"""``mirror clear``: remove local copies of a data root over SSH."""

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
            f"Freed {in_bytes(freed)} on this computer; {services.data_root.name} still has all "
            "of it."
        )
    return OK
