"""Install a package that user code needs, where its job runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.errors import BackendError, Cancelled
from backend.services.tools.packages import PackageService
from widgets.library.install_dialog import InstallDialog


class PackageController(DialogController[InstallDialog]):
    """Serve the dialog that installs a package; another dialog closes the first."""

    def __init__(
        self,
        packages: PackageService,
        runner: Runner,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._packages = packages

    def ask(self, module: str, nodes: Sequence[str], on_installed: Callable[[], object]) -> None:
        """Ask for the package of a module; call ``on_installed`` when it is installed."""
        dialog = InstallDialog(module, nodes, self._window)
        dialog.install_requested.connect(partial(self._install, dialog, nodes, on_installed))
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)

    def _install(
        self,
        dialog: InstallDialog,
        nodes: Sequence[str],
        on_installed: Callable[[], object],
        package: str,
    ) -> None:
        if_open = partial(self.if_open, dialog)

        def finish(_: None) -> None:
            if_open(dialog.accept)()
            self._runner.notify(f"Installed {package}.")
            on_installed()

        def show_error(error: BackendError) -> None:
            was_cancelled = isinstance(error, Cancelled)
            if_open(dialog.show_error)("" if was_cancelled else error.with_remedy)

        install = partial(self._packages.install, package, nodes)
        self._task.run("packages", install, finish, show_error, if_open(dialog.show_progress))
