"""An import leaves nothing in memory except the module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ALL_PAGES = """
import linecache
import app.main.pages
import backend.services.context.container

print(sum(len(entry[2]) for entry in linecache.cache.values() if len(entry) > 1))
"""


def test_the_source_of_an_imported_module_is_not_read_and_kept() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _ALL_PAGES],
        cwd=Path(__file__).parents[2],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(result.stdout) < 10_000
