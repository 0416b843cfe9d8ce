"""The dialog that installs a package that user code needs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.library.packages import is_package_name, package_of
from widgets.common.dialog import TaskDialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label
from widgets.jobs.preflight.preflight_text import node_names


class InstallDialog(TaskDialog):
    """A dialog that asks for the name of the package, which may differ from the module's name.

    Signals:
        install_requested: The name; answer with `show_progress`, and `accept` or `show_error`.
    """

    install_requested = Signal(str)

    def __init__(self, module: str, nodes: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__("Install a package", parent)
        self._name = LineEdit(package_of(module), name="Package")
        self._name.textChanged.connect(self._check_name)
        self._field = Field("Package on PyPI", self._name)
        self._install_button = self.default_button("Install", self._request)
        text = (
            f"The module “{module}” is missing. Its package may have another name. It is "
            f"installed on {node_names(nodes)}, with what it needs."
        )
        self.fill(
            Label(text, "body", "text2", wrap=True),
            *(self._field, self._status),
            foot=(self._close, self._install_button),
        )
        self._name.selectAll()
        self._name.setFocus()

    def show_progress(self, share: float | None, text: str) -> None:
        super().show_progress(share, text)
        self._check_name()

    def show_error(self, message: str) -> None:
        super().show_error(message)
        self._check_name()

    @Slot()
    def _check_name(self) -> None:
        name = self._name.text().strip()
        is_name = is_package_name(name)
        error = "A name has letters, digits, dots, hyphens and underscores."
        self._field.set_error(error if name and not is_name else "")
        self._name.setEnabled(not self.is_under_way)
        self._install_button.setEnabled(is_name and not self.is_under_way)

    @Slot()
    def _request(self) -> None:
        self.show_progress(None, "Starting")
        self.install_requested.emit(self._name.text().strip())
