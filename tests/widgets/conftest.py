from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtWidgets import QApplication

from widgets.common import theme
from widgets.common.theme_manager import ThemeChoice, ThemeManager


@pytest.fixture
def look(qapp: QApplication) -> Iterator[ThemeManager]:
    """The window's own looks; without them sizes are those of a bare Qt."""
    look = ThemeManager(qapp, ThemeChoice.LIGHT)
    yield look
    # At once: one that lives on would follow the system's choice in the tests after it.
    shiboken6.delete(look)
    qapp.setStyleSheet("")
    theme.use(theme.LIGHT)
    theme.reduce_motion(False)
