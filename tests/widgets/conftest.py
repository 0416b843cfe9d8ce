from collections.abc import Iterator

import pytest
from hypothesis import settings
from PySide6.QtWidgets import QApplication

from widgets.common import theme
from widgets.common.look import Look, ThemeChoice

# A machine that does other things too is no fault of a test.
settings.register_profile("widgets", deadline=None)
settings.load_profile("widgets")


@pytest.fixture
def look(qapp: QApplication) -> Iterator[Look]:
    """The window's own looks; without them sizes are those of a bare Qt."""
    look = Look(qapp, ThemeChoice.LIGHT)
    yield look
    look.deleteLater()
    qapp.setStyleSheet("")
    theme.use(theme.LIGHT)
