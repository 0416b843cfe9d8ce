"""``python -m tests.pictures [FOLDER]``: a picture of every screen and state, for review.

    FOLDER/100/jobs-light.png …     each screen in its sizes, both themes, at 100 and 150 %
    FOLDER/100/jobs-high-light.png  with ``--contrast high``
    FOLDER/sheets/…                 nine on a sheet, to see many at once

``--docs`` makes the pictures of ``docs/`` instead. Whatever a machine can see to be wrong with a
screen is printed; then the command exits 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SCALES = ("100", "150")
"""Drawn where none is named."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="installers/pictures", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/pictures"))
    parser.add_argument("--only", action="append", metavar="PATTERN", help="such as 'node*'")
    scales = (*SCALES, "200")
    parser.add_argument("--scale", choices=scales, action="append", help="percent; else 100, 150")
    parser.add_argument("--contrast", choices=("usual", "high"), default="usual")
    parser.add_argument("--theme", choices=("light", "dark"), action="append")
    parser.add_argument("--docs", action="store_true", help="make the pictures of docs/")
    args = parser.parse_args()
    if args.docs:
        return _make_docs()
    scales = list(dict.fromkeys(args.scale or SCALES))
    themes, patterns = args.theme or ["light", "dark"], args.only or ["*"]
    if len(scales) == 1 and os.environ.get("QT_SCALE_FACTOR", "1.0") == _factor(scales[0]):
        return _draw(args.folder, scales[0], themes, patterns, args.contrast)
    options = ["--contrast", args.contrast]
    options += [word for theme in themes for word in ("--theme", theme)]
    options += [word for pattern in patterns for word in ("--only", pattern)]
    return max([_run_process(args.folder, scale, options) for scale in scales])


def _factor(scale: str) -> str:
    return str(int(scale) / 100)


def _run_process(folder: Path, scale: str, options: list[str]) -> int:
    """Qt reads the scale when the application is made, and never again."""
    environment = {**os.environ, "QT_SCALE_FACTOR": _factor(scale)}
    command = [sys.executable, "-m", "tests.pictures", str(folder), "--scale", scale, *options]
    return subprocess.run(command, env=environment, check=False).returncode


def _draw(folder: Path, scale: str, themes: list[str], patterns: list[str], contrast: str) -> int:
    from PySide6.QtWidgets import QApplication

    from tests.pictures.camera import open_screen
    from tests.pictures.flaws import is_blank
    from tests.pictures.gallery import SCREENS
    from tests.pictures.sheets import small_picture, write_sheets
    from widgets.common.theme_manager import ThemeChoice, ThemeManager

    app = QApplication([])
    is_high = contrast == "high"
    theme_manager = ThemeManager(app, ThemeChoice.LIGHT, reduced_motion=True, high_contrast=is_high)
    kind = "high-" if is_high else ""
    target = folder / scale
    target.mkdir(parents=True, exist_ok=True)
    chosen_screens = [
        screen for screen in SCREENS.values() if any(fnmatch(screen.name, p) for p in patterns)
    ]
    flaw_count = 0
    for theme in themes:
        theme_manager.choose(ThemeChoice(theme))
        by_size = defaultdict(list)
        for screen in chosen_screens:
            for size in screen.sizes:
                name = screen.picture(size, f"{kind}{theme}")
                with open_screen(screen, size) as stage:
                    image = stage.picture()
                    screen_flaws = stage.flaws()
                image.save(str(target / f"{name}.png"))
                by_size[size].append((name, small_picture(image)))
                screen_flaws += ["It is blank"] if is_blank(image) else []
                for message in screen_flaws:
                    sys.stdout.write(f"{name} at {scale} %: {message}\n")
                flaw_count += len(screen_flaws)
        for size, pictures in by_size.items():
            write_sheets(folder / "sheets", f"{scale}-{size[0]}x{size[1]}-{kind}{theme}", pictures)
    return 1 if flaw_count else 0


def _make_docs() -> int:
    from PySide6.QtWidgets import QApplication

    from tests.pictures.camera import open_screen
    from tests.pictures.gallery import SCREENS
    from tests.pictures.program import take_program
    from widgets.common.theme_manager import ThemeChoice, ThemeManager

    app = QApplication([])
    DOCS.mkdir(exist_ok=True)
    take_program(app, DOCS)
    theme_manager = ThemeManager(app, ThemeChoice.LIGHT, reduced_motion=True)
    for screen in SCREENS.values():
        for theme in screen.published:
            theme_manager.choose(ThemeChoice(theme))
            with open_screen(screen, screen.sizes[0]) as stage:
                stage.picture().save(str(DOCS / f"{screen.picture(screen.sizes[0], theme)}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
