"""The process of the window ends when its window is closed, whatever a thread of it waits for."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[3]
CLOSED = """
import sys, threading
from pathlib import Path
from PySide6.QtCore import QTimer
from app.main import gui_main
from app.runtime.background import Background

Background.close.__defaults__ = (0.2,)

class OnAShareThatHangs(gui_main.Program):
    def show(self):
        super().show()
        self._background.run("share", threading.Event().wait, print, print)
        QTimer.singleShot(0, self.quit)

gui_main.Program = OnAShareThatHangs
sys.exit(gui_main.main(Path(sys.argv[1]), Path(sys.argv[2]), None))
"""


def test_a_window_closed_while_a_share_hangs_leaves_no_process(tmp_path):
    folders = {
        f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")
    }
    completed = subprocess.run(
        [sys.executable, "-c", CLOSED, str(tmp_path / "root"), str(tmp_path / "c.sqlite")],
        cwd=ROOT,
        env={**os.environ, **folders, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert completed.returncode == 0, completed.stderr
