"""Turn user actions in Datasets, Models and Loaders into calls of the library service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController, LatestRequest
from backend.base import log
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.records.base import number_format
from backend.records.base.account import expand_home
from backend.records.library.gallery import Suggestion
from backend.records.library.item import Combination, Kind, LibraryItem, unused_weights_message
from backend.records.library.preview import ModelCheck, Preview
from backend.records.library.project import ImportGuess
from backend.services.context.example import NAME as EXAMPLE
from backend.services.library.gallery import GalleryService
from backend.services.library.service import LibraryService
from backend.services.tools.packages import install_package
from backend.services.tools.tool_process import ToolError
from widgets.common import formats
from widgets.common.toast import NextStep
from widgets.library.gallery_dialog import GalleryPreset
from widgets.library.import_dialog import ImportDialog, ImportRequest
from widgets.library.item_actions import FOLDER, NEW_JOB, TRASH
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import Trial

T = TypeVar("T")
_MAX_FILES = 5000


class LibraryController(DialogController[ImportDialog]):
    """Serve the three pages and the import dialog.

    Signals:
        changed: The items changed; read them with `items`.
        job_requested: Kind and reference to begin a new job with.
        new_job_requested: Names by kind, as in a job file, to begin a new job with.
        page_requested: Show the page of this kind: something new there has a next step.
        gallery_requested: A kind to choose from the gallery, a `GalleryPreset`, and the callback
            for the added item.
    """

    changed = Signal()
    job_requested = Signal(object, str)
    new_job_requested = Signal(object)
    page_requested = Signal(object)
    gallery_requested = Signal(object, object, object)
    _kinds_changed = Signal(object)

    def __init__(
        self,
        library: LibraryService,
        gallery: GalleryService,
        runner: Runner,
        pages: dict[Kind, LibraryPage],
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._library = library
        self._gallery = gallery
        self._pages = pages
        self._items: dict[Kind, tuple[LibraryItem, ...]] = dict.fromkeys(Kind, ())
        self._combinations: tuple[Combination, ...] = ()
        self._import_target: Kind | None = None
        self._trials = {kind: LatestRequest(runner) for kind in pages}
        self._weights_progress: Progress | None = None
        self._kinds_changed.connect(self._read)
        library.watch(self._kinds_changed.emit)
        for kind, page in pages.items():
            page.import_requested.connect(partial(self._open_import, kind, ""))
            page.gallery_requested.connect(
                partial(self.gallery_requested.emit, kind, GalleryPreset(), self.show_new)
            )
            page.weights_dropped.connect(self._add_weights)
            page.refresh_requested.connect(self.refresh)
            page.detail.item_actions.add_handler(TRASH, partial(self._remove, kind))
            page.detail.cleanup_requested.connect(partial(self._clean_up, kind))
            page.detail.item_actions.add_handler(NEW_JOB, partial(self.job_requested.emit, kind))
            page.detail.preview_requested.connect(partial(self._preview, kind))
            page.detail.check_requested.connect(partial(self._check, kind))
            page.detail.cancel_requested.connect(partial(self._cancel_work, kind))
            page.detail.files_requested.connect(partial(self._read_files, kind))
            page.detail.changes_requested.connect(partial(self._read_changes, kind))
            page.detail.text_requested.connect(partial(self._read_text, kind))
            page.detail.item_actions.add_handler(FOLDER, partial(self._open_folder, kind))
            page.detail.partner_requested.connect(partial(self._import_partner, kind))
            page.detail.suggestion_requested.connect(self._suggest)
            page.detail.install_requested.connect(partial(self._install, kind))

    def items(self, kind: Kind) -> tuple[LibraryItem, ...]:
        return self._items[kind]

    @Slot()
    def refresh(self) -> None:
        """Read the items again: another desktop may have imported something.

        Items that this process writes are read automatically (`LibraryService.watch`).
        """
        self._read(*Kind)

    @Slot(object)
    def _read(self, *kinds: Kind) -> None:
        for kind in kinds:
            self._pages[kind].begin_reading()

        def read() -> tuple[dict[Kind, tuple[LibraryItem, ...]], tuple[Combination, ...]]:
            items = {kind: self._library.list(kind) for kind in kinds}
            return items, self._library.known_combinations()

        def show_error(error: BackendError) -> None:
            for kind in kinds:
                self._pages[kind].show_error(str(error), error.remedy)

        self._runner.run("library", read, lambda result: self._take_items(*result), show_error)

    @Slot(object)
    def show_uses(self, use_counts: Mapping[tuple[str, str], int]) -> None:
        """Take the number of jobs by version and role, by the key in the job file."""
        for kind, page in self._pages.items():
            counts: dict[str, int] = {}
            for (key, reference), count in use_counts.items():
                if kind.value in key:
                    counts[reference] = counts.get(reference, 0) + count
            page.detail.show_jobs(counts)

    def import_dropped(self, path: Path) -> None:
        """Import a dropped folder or zip; its kind is a guess that the user can change."""

        def open_import(guess: ImportGuess) -> None:
            self._open_import(guess.kind, str(path), "", guess)

        self._guess(str(path), open_import)

    def _guess(self, source: str, on_success: Callable[[ImportGuess], None]) -> None:
        # A queue for each path: a share that does not respond delays no other path.
        self._runner.run(
            f"look at {source}",
            lambda: self._library.inspect(_path_of(source)),
            on_success,
            lambda error: self._runner.notify(str(error)),
        )

    # Import.

    def _import_partner(self, kind: Kind, partner: Kind) -> None:
        self._open_import(partner, "", "", prefers_all=False)
        self._import_target = kind

    def _open_import(
        self,
        kind: Kind,
        source: str,
        name: str,
        guess: ImportGuess | None = None,
        *,
        prefers_all: bool = True,
    ) -> None:
        self._import_target = None
        newest_versions: dict[Kind, dict[str, int]] = {k: {} for k in Kind}
        for k, items in self._items.items():
            for item in items:
                newest_versions[k][item.name] = max(
                    item.version, newest_versions[k].get(item.name, 0)
                )
        dialog = ImportDialog(
            kind, source, name, newest_versions, self._window, prefers_all=prefers_all
        )
        if guess is not None:
            dialog.show_guess(source, guess)
        dialog.guess_requested.connect(partial(self._guess_for_dialog, dialog))
        dialog.import_requested.connect(partial(self._start_import, dialog))
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)

    def _guess_for_dialog(self, dialog: ImportDialog, source: str) -> None:
        self._guess(source, self.if_open(dialog, partial(dialog.show_guess, source)))

    def _start_import(self, dialog: ImportDialog, request: ImportRequest) -> None:
        def start(work: Callable[[Progress], T], show: Callable[[T], object]) -> None:
            show_progress = self.if_open(dialog, dialog.show_progress)
            self._task.run("import", work, show, self._show_import_error, show_progress)

        project = request.project
        if project is not None:
            known_items = {(i.kind, i.reference) for kind in Kind for i in self._items[kind]}
            start(
                lambda progress: self._library.import_project(
                    _path_of(request.source), project, request.name, progress
                ),
                partial(self._show_project, known_items),
            )
            return

        def work(progress: Progress) -> tuple[LibraryItem, Suggestion | None]:
            source = _path_of(request.source)
            item = self._library.import_item(request.kind, source, request.name, progress)
            with suppress(BackendError):
                if item.kind is Kind.DATASET:
                    return item, self._gallery.suggest(item.reference)
            return item, None

        start(work, lambda result: self.show_new(*result))

    def show_new(self, item: LibraryItem, suggestion: Suggestion | None = None) -> None:
        """Open a new item in its page, and offer the next step."""
        self.open_new(item)
        target = self._import_target
        if target is not None and item.kind not in (target, Kind.MODEL):
            self._pages[target].detail.choose_partner(item.kind, item.name)
        self.page_requested.emit(item.kind)
        if self._has_loader(item.name):
            suggestion = None
        if suggestion is not None and suggestion.entry:
            self._show_suggestion(item.reference, suggestion, item.import_message)
        else:
            misfit = "" if suggestion is None else suggestion.message
            parts = f"Imported {_title(item)}.", item.import_message, misfit
            message = " ".join(filter(None, parts))
            self._offer_step(message, *self._next_step(item), item)

    def _show_project(
        self, known_items: Set[tuple[Kind, str]], items: Sequence[LibraryItem]
    ) -> None:
        """Show the imported items; ``known_items`` existed before and were reused if equal."""
        new_items = [item for item in items if (item.kind, item.reference) not in known_items]
        self.open_new(*items)
        name = items[0].name
        has_data = items[0].kind is Kind.DATASET
        if has_data:
            self._pages[Kind.DATASET].detail.choose_partner(Kind.LOADER, name)
        omissions = dict.fromkeys(item.import_message for item in items if item.import_message)
        message = " ".join((_import_message(name, items, new_items), *omissions))
        if has_data or any(data.name != EXAMPLE for data in self._items[Kind.DATASET]):
            names = {item.kind.value: name for item in items}
            step = "New job with it", partial(self.new_job_requested.emit, names)
        else:
            step = "Import its data…", partial(self._open_import, Kind.DATASET, "", name)
        self._offer_step(message, *step, *items)
        self.page_requested.emit(items[0].kind)

    def _offer_step(
        self, message: str, button: str, callback: Callable[[], object], *items: LibraryItem
    ) -> None:
        """Offer the next step in the banners of the items, until it is used."""

        def show(*offers: NextStep) -> None:
            for item in items:
                self._pages[item.kind].detail.show_offers(item.reference, *offers)

        def run() -> None:
            show()
            callback()

        show(NextStep(message, button, run))

    def open_new(self, *items: LibraryItem) -> None:
        """Close the import dialog and open new items in their pages."""
        if self.dialog is not None:
            self.dialog.accept()
        for item in items:
            if item.reference not in {i.reference for i in self._items[item.kind]}:
                self._items[item.kind] = (*self._items[item.kind], item)
                self._show(item.kind)
            self._pages[item.kind].show_item(item.reference)

    def _has_loader(self, dataset: str) -> bool:
        loaders = {loader.name for loader in self._items[Kind.LOADER]}
        readers = {c.loader for c in self._combinations if c.dataset == dataset}
        return bool(loaders & {dataset, *readers})

    def _next_step(self, item: LibraryItem) -> tuple[str, Callable[[], object]]:
        """Return the import of the part that a job still needs, or a new job if none is missing."""
        if item.kind is Kind.DATASET and not self._has_loader(item.name):
            return "Import its loader…", partial(self._import_partner, item.kind, Kind.LOADER)
        has_own_model = any(model.name != EXAMPLE for model in self._items[Kind.MODEL])
        if item.kind is Kind.LOADER and not has_own_model:
            open_import = partial(self._open_import, prefers_all=False)
            return "Import a model…", partial(open_import, Kind.MODEL, "", "")
        return "New job with it", partial(self.job_requested.emit, item.kind, item.reference)

    # The loader that the gallery has for a dataset.

    @Slot(str)
    def _suggest(self, reference: str) -> None:
        suggest = partial(self._gallery.suggest, reference)
        show = partial(self._show_suggestion, reference)
        self._runner.run("suggest", suggest, show, log.swallowed)

    def _show_suggestion(
        self, reference: str, suggestion: Suggestion | None, omission: str = ""
    ) -> None:
        name = _name_of(reference)
        if suggestion is None or self._has_loader(name):
            return
        message = f"{suggestion.message} {omission}".strip()
        detail = self._pages[Kind.DATASET].detail
        if not suggestion.entry:
            import_loader = partial(self._import_partner, Kind.DATASET, Kind.LOADER)
            detail.show_offers(reference, NextStep(message, "Import its loader…", import_loader))
            return
        use = partial(self._use_loader, reference, suggestion)
        preset = GalleryPreset(
            suggestion.entry, suggestion.settings, name=name, choices=suggestion.choices
        )
        on_added = partial(self._show_loader, reference)
        choose = partial(self.gallery_requested.emit, Kind.LOADER, preset, on_added)
        offers = [NextStep(message, "Add a loader for it", use), NextStep("", "Settings…", choose)]
        if suggestion.open_settings:
            offers = [NextStep(message, "Settings of its loader…", choose)]
        detail.show_offers(reference, *offers)

    def _use_loader(self, reference: str, suggestion: Suggestion) -> None:
        """Add the loader under the name of the dataset: parts of the same name belong together."""
        detail = self._pages[Kind.DATASET].detail
        progress = self._runner.progress(detail.show_trial_progress)
        entry, settings, name = suggestion.entry, suggestion.settings, _name_of(reference)

        def show_error(error: BackendError) -> None:
            detail.end_trial()
            self._runner.notify(error.with_remedy)

        add = partial(self._gallery.add, entry, settings, name, progress)
        self._runner.run("import", add, partial(self._show_loader, reference), show_error)

    def _show_loader(self, reference: str, loader: LibraryItem) -> None:
        detail, name = self._pages[Kind.DATASET].detail, _name_of(reference)
        detail.end_trial()
        self.open_new(loader)
        detail.choose_partner(Kind.LOADER, loader.name)
        names = {Kind.DATASET.value: name, Kind.LOADER.value: loader.name}
        next_step = "Train…", partial(self.new_job_requested.emit, names)
        datasets = (item for item in self._items[Kind.DATASET] if item.reference == reference)
        self._offer_step(f"{name} has its loader.", *next_step, loader, *datasets)

    def _show_import_error(self, error: BackendError) -> None:
        if self.dialog is not None:
            self.dialog.show_error(str(error), error.remedy)
        else:
            self._runner.notify(str(error))

    @Slot(str, str)
    def _add_weights(self, reference: str, path: str) -> None:
        detail = self._pages[Kind.MODEL].detail
        # Without them, because findings about the model do not depend on them.
        self._trials[Kind.MODEL].drop()
        progress = self._weights_progress = self._runner.progress(detail.show_trial_progress)
        detail.show_trial_progress(None, "Copying weights")
        # Not in the queue of trials: a cancelled trial ends only when its process has ended.
        self._runner.run(
            "import",
            lambda: self._library.add_weights(reference, Path(path), progress),
            self._show_weights,
            partial(self._show_error, Kind.MODEL),
        )

    def _show_weights(self, item: LibraryItem) -> None:
        self._pages[Kind.MODEL].detail.end_trial()
        message = f"New jobs of {_title(item)} start from these weights"
        unused_hint = unused_weights_message(item.details)
        self._runner.notify(f"{message}. {unused_hint}" if unused_hint else message)

    # Preview and check.

    def _preview(self, kind: Kind, trial: Trial) -> None:
        def preview(progress: Progress) -> Preview:
            return self._library.preview(trial.dataset, trial.loader, progress=progress)

        self._try(kind, preview, partial(self._pages[kind].detail.show_preview, trial))

    def _check(self, kind: Kind, trial: Trial) -> None:
        def check(progress: Progress) -> ModelCheck:
            parts = trial.model, trial.dataset, trial.loader
            return self._library.check_model(*parts, progress=progress)

        self._try(kind, check, partial(self._pages[kind].detail.show_check, trial))

    def _try(self, kind: Kind, work: Callable[[Progress], T], show: Callable[[T], object]) -> None:
        show_progress = self._pages[kind].detail.show_trial_progress
        show_error = partial(self._show_error, kind)
        self._trials[kind].run(f"try {kind.value}", work, show, show_error, show_progress)

    def _cancel_work(self, kind: Kind) -> None:
        """Report the end, because no other trial replaces it."""
        self._trials[kind].cancel()
        if kind is Kind.MODEL and self._weights_progress is not None:
            self._weights_progress.cancel()

    def _show_error(self, kind: Kind, error: BackendError) -> None:
        missing_package = (error.package, error.module) if isinstance(error, ToolError) else ()
        self._pages[kind].detail.show_trial_error(str(error), error.remedy, *missing_package)

    def _install(self, kind: Kind, package: str) -> None:
        """Install a package of the loader or the model on this computer, and try again."""
        try_again = self._pages[kind].detail.try_again
        self._try(kind, partial(install_package, package), lambda _: try_again())

    def _read_files(self, kind: Kind, reference: str) -> None:
        detail = self._pages[kind].detail

        def read() -> tuple[tuple[str, ...], tuple[str, ...]]:
            files = self._library.files(kind, reference)[:_MAX_FILES]
            return tuple(e.path for e in files), self._library.added_files(kind, reference)

        def show(result: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
            detail.show_files(reference, *result)

        self.serve("library", read, show, partial(detail.show_files_error, reference))

    def _read_changes(self, kind: Kind, newer_version: str, older_version: str) -> None:
        versions = self._pages[kind].detail.versions
        read = partial(self._library.changes, kind, newer_version, older_version)
        show_error = partial(versions.show_changes_error, newer_version, older_version)
        self.serve("library", read, versions.show_changes, show_error)

    def _read_text(self, kind: Kind, reference: str, path: str) -> None:
        show = partial(self._pages[kind].detail.show_text, reference, path)
        read = partial(self._library.text, kind, reference, path)
        self._runner.run("library", read, show, lambda error: show(str(error)))

    def _serve_page(self, kind: Kind, work: Callable[[], T], show: Callable[[T], object]) -> None:
        self._runner.run("library", work, show, partial(self._show_error, kind))

    def _open_folder(self, kind: Kind, reference: str) -> None:
        def open_folder(folder: Path) -> None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

        self._serve_page(kind, partial(self._library.content, kind, reference), open_folder)

    def _remove(self, kind: Kind, reference: str) -> None:
        def report_removal(item: LibraryItem) -> None:
            self._runner.notify(f"Moved {_title(item)} to the trash")

        self._serve_page(kind, partial(self._library.remove, kind, reference), report_removal)

    def _clean_up(self, kind: Kind, reference: str) -> None:
        def report_removal(paths: tuple[str, ...]) -> None:
            self._runner.notify(f"Moved {number_format.name_list(paths)} to the trash")
            self._read_files(kind, reference)

        self._serve_page(kind, partial(self._library.remove_added, kind, reference), report_removal)

    # The items.

    def _take_items(
        self,
        items_by_kind: Mapping[Kind, tuple[LibraryItem, ...]],
        combinations: tuple[Combination, ...],
    ) -> None:
        if combinations != self._combinations:
            self._combinations = combinations
            self._show_companions()
        for kind, items in items_by_kind.items():
            if items != self._items[kind] or not items:
                self._items[kind] = items
                self._show(kind)

    def _show_companions(self) -> None:
        names = {k: tuple(dict.fromkeys(i.name for i in v)) for k, v in self._items.items()}
        for page in self._pages.values():
            page.detail.show_companions(names[Kind.DATASET], names[Kind.LOADER], self._combinations)

    def _show(self, kind: Kind) -> None:
        self._show_companions()
        self._pages[kind].show_items(self._items[kind])
        self.changed.emit()


def _import_message(
    name: str, items: Sequence[LibraryItem], new_items: Sequence[LibraryItem]
) -> str:
    """Return ``Imported shapes. Loader is new: version 2.``; first versions need no number."""
    if len(new_items) == len(items) and all(item.version == 1 for item in items):
        return f"Imported {name}."
    if not new_items:
        return f"{name} is here already, with the same files."
    parts = (
        f"{item.kind.value.capitalize()} is new: version {item.version}." for item in new_items
    )
    return " ".join((f"Imported {name}.", *parts))


def _title(item: LibraryItem) -> str:
    """Return the name of an item; the first version needs no number."""
    return item.name if item.version == 1 else formats.version(item.name, item.version)


def _name_of(reference: str) -> str:
    return reference.partition("@")[0]


def _path_of(source: str) -> Path:
    """Return the typed path; ``~`` of a user that does not exist is taken literally."""
    with suppress(RuntimeError):
        return expand_home(source)
    return Path(source)
