"""Loading settings: what cannot be loaded is recognized at a glance."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from backend.records.jobs.template import Template
from widgets.common import theme
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.form.load_dialog import LoadDialog

ROLE = Qt.ItemDataRole


def test_only_a_damaged_template_is_red_with_a_sign(
    qtbot: QtBot, theme_manager: ThemeManager
) -> None:
    dialog = LoadDialog()
    qtbot.addWidget(dialog)
    message = "broken.toml, line 3: expected “=”."
    dialog.show_templates((Template("broken", "", "/x", message), Template("night", "digits")))
    broken, sound = (dialog.templates.index(row, 1) for row in (0, 1))
    assert (broken.data(), broken.data(ROLE.ForegroundRole)) == (message, theme.current().q("bad"))
    assert not broken.data(ROLE.DecorationRole).isNull()
    assert broken.data(ROLE.ToolTipRole) == message
    assert sound.data(ROLE.ForegroundRole) is None
    assert sound.data(ROLE.DecorationRole) is None
    assert dialog.templates.index(0, 0).data(ROLE.ForegroundRole) is None
