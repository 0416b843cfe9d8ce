"""Icons, and what they cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_FAMILIES = """
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QApplication
from widgets.common import icons

app = QApplication(["", "-platform", "offscreen"])
before = set(QFontDatabase.families())
assert not icons.pixmap("play").isNull()
print(*sorted(set(QFontDatabase.families()) - before), sep=",")
"""


def test_only_the_icon_font_in_use_is_loaded() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _FAMILIES],
        cwd=Path(__file__).parents[3],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert result.stdout.strip() == "Phosphor"
