from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtWidgets import QApplication

from widgets.common import theme
from widgets.common.theme_manager import ThemeChoice, ThemeManager


@pytest.fixture
def theme_manager(qapp: QApplication) -> Iterator[ThemeManager]:
    """The window's theme; without it sizes are those of a bare Qt."""
    theme_manager = ThemeManager(qapp, ThemeChoice.LIGHT)
    yield theme_manager
    # At once: one that lives on would follow the system's choice in the tests after it.
    shiboken6.delete(theme_manager)
    qapp.setStyleSheet("")
    theme.set_theme(theme.LIGHT)
    theme.reduce_motion(False)
