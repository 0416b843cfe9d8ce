"""Pictures of the real program with a real job: the example, while it trains here."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.main.bootstrap import Program
from backend.records.jobs.state import JobState
from tests.pictures.gallery import LARGE, SMALL, Size
from tests.programs import close_program
from tests.turns import wait_in_loop
from widgets.common.theme_manager import ThemeChoice

OF_PROGRAM = (
    "first-start-light",
    "jobs-light",
    "stopped-dark",
    "stopped-1000x640-light",
    "finished-light",
)
"""Names of all pictures that `take_program` takes."""
_POINTS = 60
"""So many points make a curve; the whole job takes seconds."""


def take_program(app: QApplication, folder: Path) -> None:
    """Open the window on an empty data root, train, stop, resume, and take a picture of each."""
    with tempfile.TemporaryDirectory(prefix="ringmaster-pictures-") as home:
        old_folder = os.environ.get("XDG_CONFIG_HOME")
        os.environ["XDG_CONFIG_HOME"] = f"{home}/config"
        program = Program(app, Path(home) / "ringmaster", Path(home) / "catalogue.sqlite", None)
        program.window.side_bar.set_root("~/ringmaster")
        try:
            _train(program, folder)
        finally:
            close_program(program)
            if old_folder is None:
                del os.environ["XDG_CONFIG_HOME"]
            else:
                os.environ["XDG_CONFIG_HOME"] = old_folder


def _train(program: Program, folder: Path) -> None:
    def take(name: str, choice: ThemeChoice = ThemeChoice.LIGHT, size: Size = LARGE) -> None:
        program._themes.choose(choice)
        program.window.resize(*size)
        for _ in range(4):
            QApplication.processEvents()
        program.window.grab().save(str(folder / f"{name}.png"))

    def state() -> JobState | None:
        view = program.jobs.open_view
        return view.state if view is not None else None

    program._themes.choose(ThemeChoice.LIGHT)
    program.window.resize(*LARGE)
    program.show()
    wait_in_loop(lambda: program.is_built)
    welcome_page, detail = program.jobs.welcome_page, program.jobs.detail
    wait_in_loop(lambda: welcome_page.example.isVisible() and "core" in welcome_page._reading_text)
    wait_in_loop(lambda: welcome_page._findings is not None)
    take("first-start-light")
    welcome_page.example.click()

    def points() -> int:
        curve = detail.curves.curve("loss")
        return 0 if curve is None else len(curve)

    wait_in_loop(lambda: points() > _POINTS)
    take("jobs-light")
    detail.header.main_button.click()
    wait_in_loop(lambda: state() is JobState.INTERRUPTED and bool(detail._checkpoints))
    take("stopped-dark", ThemeChoice.DARK)
    take("stopped-1000x640-light", size=SMALL)
    detail.header.main_button.click()
    wait_in_loop(lambda: state() is JobState.FINISHED)
    wait_in_loop(
        lambda: any(c.is_latest and c.epoch == detail._view.epochs for c in detail._checkpoints)
    )
    take("finished-light")
