"""The table of the actions on library items, read by the buttons and the menu of an item."""

from __future__ import annotations

from typing import TypeAlias

from widgets.common.actions import Action

ItemAction: TypeAlias = Action[[str], bool]
"""The reference of a version; whether the page is too narrow for all buttons."""

NEW_JOB = ItemAction("job", "New job with it", "play")
NEW_VERSION = ItemAction(
    "again", "New version", "upload-simple", is_offered=lambda is_narrow: is_narrow
)
FOLDER = ItemAction("folder", "Open folder")
TRASH = ItemAction("trash", "Move to the trash")
MENU_ACTIONS = (NEW_VERSION, FOLDER, TRASH)
