"""The documents show pictures that one command makes, and every one of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage

from tests.pictures.__main__ import DOCS
from tests.pictures.camera import open_screen
from tests.pictures.gallery import SCREENS, Screen, published
from tests.pictures.program import OF_PROGRAM
from widgets.common.theme_manager import ThemeChoice, ThemeManager

ROOT = DOCS.parents[1]
_PICTURE_LINK = re.compile(r"!\[[^\]]+\]\([^)]*pictures/([^)]+)\.png\)")


def _linked_pictures() -> set[str]:
    pages = (ROOT / "README.md", *DOCS.parent.glob("*.md"))
    return {
        name for page in pages for name in _PICTURE_LINK.findall(page.read_text(encoding="utf-8"))
    }


def test_the_command_makes_every_picture_that_a_document_names() -> None:
    made_pictures = {*OF_PROGRAM, *published()}
    assert _linked_pictures() <= made_pictures
    assert {path.stem for path in DOCS.glob("*.png")} == made_pictures, "installers/pictures --docs"


def test_no_picture_is_made_that_no_document_shows() -> None:
    assert {*OF_PROGRAM, *published()} <= _linked_pictures() | {"stopped-1000x640-light"}


# They show the window as it is

_GRID = QSize(120, 75)
"""A picture in so many pieces: letters blur, and with them fonts and times of day; what is left is
where things are, and how dark."""
_MIN_DIFFERENCE = 10
_MAX_SHARE = 0.03
"""Of the pieces, so many may be another grey by more than so much."""


def _grid_cells(picture: QImage) -> np.ndarray:
    small = picture.scaled(
        _GRID, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
    ).convertToFormat(QImage.Format.Format_RGB32)
    flat = np.frombuffer(small.constBits(), np.uint8).reshape(small.height(), small.width(), 4)
    return flat[:, :, :3].astype(np.int16)


def _changed_share(previous_picture: QImage, current_picture: QImage) -> float:
    """The share of the pieces that are visibly others."""
    return float(
        (
            np.abs(_grid_cells(previous_picture) - _grid_cells(current_picture)).max(axis=2)
            > _MIN_DIFFERENCE
        ).mean()
    )


_FAST_SCREEN = "provision"
"""Drawn before each merge; the others are slow."""
PUBLISHED = [
    pytest.param(
        screen,
        theme,
        id=f"{screen.name}-{theme}",
        marks=() if screen.name == _FAST_SCREEN else pytest.mark.slow,
    )
    for screen in SCREENS.values()
    for theme in screen.published
]


def _draw_screen(screen: Screen, theme: str, theme_manager: ThemeManager) -> QImage:
    theme_manager.choose(ThemeChoice(theme))
    with open_screen(screen, screen.sizes[0]) as stage:
        return stage.picture()


@pytest.mark.parametrize(("screen", "theme"), PUBLISHED)
def test_a_picture_of_the_documents_is_not_old(
    screen: Screen, theme: str, theme_manager: ThemeManager
) -> None:
    name = screen.picture(screen.sizes[0], theme)
    published_picture = QImage(str(DOCS / f"{name}.png"))
    share = _changed_share(published_picture, _draw_screen(screen, theme, theme_manager))
    assert share < _MAX_SHARE, f"{name} has changed in {share:.0%}: installers/pictures --docs"


def test_a_visible_change_is_found(theme_manager: ThemeManager) -> None:
    """A button more, or a line that moved, is more than fonts and times make."""
    screen = SCREENS[_FAST_SCREEN]
    published_picture = QImage(str(DOCS / "provision-light.png"))
    with open_screen(screen, screen.sizes[0]) as stage:
        assert stage.overlay is not None
        stage.overlay.resize(stage.overlay.width(), stage.overlay.height() - 40)
        stage.settle()
        assert _changed_share(published_picture, stage.picture()) > _MAX_SHARE
