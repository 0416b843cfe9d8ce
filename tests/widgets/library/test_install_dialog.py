"""A package is installed by a name that can be changed, and the reason stays if it cannot be."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.library.package_controller import PackageController
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from tests.conftest import SynchronousRunner
from tests.windows import add_widget, find_button, find_only
from widgets.common.dialog import TaskStatus
from widgets.common.fields import Field, LineEdit
from widgets.library.install_dialog import InstallDialog

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("PIL", "Pillow"),
        ("cv2", "opencv-python-headless"),
        ("my_lib", "my_lib"),
        ("yaml", "pyyaml"),
    ],
)
def test_the_name_is_proposed_and_can_be_changed(qtbot: QtBot, module: str, package: str) -> None:
    dialog = add_widget(qtbot, InstallDialog(module, ("this-computer", "gpu01")))
    assert find_only(LineEdit, dialog).text() == package
    find_only(LineEdit, dialog).setText("other-name")
    with qtbot.waitSignal(dialog.install_requested) as signal:
        qtbot.mouseClick(find_button(dialog, "Install"), LEFT_BUTTON)
    assert signal.args == ["other-name"]
    assert not find_button(dialog, "Install").isEnabled(), "it is under way"


@pytest.mark.parametrize("name", ["", " ", "-r x", "--index-url=x", "a b", "../a", "é"])
def test_an_invalid_package_name_cannot_be_installed(qtbot: QtBot, name: str) -> None:
    dialog = add_widget(qtbot, InstallDialog("x", ("gpu01",)))
    find_only(LineEdit, dialog).setText(name)
    assert not find_button(dialog, "Install").isEnabled()
    assert bool(find_only(Field, dialog).error()) is bool(name.strip())


class Packages:
    def __init__(self) -> None:
        self.requests: list[tuple[str, tuple[str, ...]]] = []
        self.error: BackendError | None = None

    def install(self, package: str, nodes: tuple[str, ...], progress: Progress) -> None:
        self.requests.append((package, nodes))
        progress.report(0, 0, f"Installing {package} on gpu01")
        if self.error is not None:
            raise self.error


def test_a_failure_stays_with_its_reason_and_can_be_tried_again(
    qtbot: QtBot, immediately: SynchronousRunner
) -> None:
    window = add_widget(qtbot, InstallDialog("x", ()))
    packages, retries = Packages(), []
    controller = PackageController(packages, immediately, window)  # type: ignore[arg-type]
    controller.ask("my_lib", ("gpu01",), lambda: retries.append(True))
    dialog = controller.dialog
    assert dialog is not None
    for error in (BackendError("No such package.", "Check its name."), Cancelled()):
        packages.error = error
        qtbot.mouseClick(find_button(dialog, "Install"), LEFT_BUTTON)
        assert controller.dialog is dialog
        assert find_button(dialog, "Install").isEnabled(), "it can be tried again"
        assert retries == []
    assert find_only(TaskStatus, dialog).message.text() == ""
    packages.error = None
    qtbot.mouseClick(find_button(dialog, "Install"), LEFT_BUTTON)
    assert packages.requests == 3 * [("my_lib", ("gpu01",))]
    assert (controller.dialog, retries) == (None, [True])
    assert immediately.notifications == ["Installed my_lib."]
