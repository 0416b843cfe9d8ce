from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

from widgets.common import theme
from widgets.common.look import Look, ThemeChoice


@pytest.fixture
def look(qapp: QApplication) -> Iterator[Look]:
    """The window's own looks; without them sizes are those of a bare Qt."""
    look = Look(qapp, ThemeChoice.LIGHT)
    yield look
    look.deleteLater()
    qapp.setStyleSheet("")
    theme.use(theme.LIGHT)
