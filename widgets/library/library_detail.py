"""One item of the library: its versions, its source, and a trial of it; a class for each kind.

The table of the actions on library items, read by the buttons and the menu of an item.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.base.timestamps import instant
from backend.records.library.item import WEIGHTS_DETAIL, Combination, Kind, LibraryItem
from backend.records.library.layers import LayerGraph, ModelLayers
from backend.records.library.preview import ModelCheck, Preview
from backend.records.library.variance import DepthVariance
from widgets.common import formats
from widgets.common.actions import MoreButton, Requests, fill_menu
from widgets.common.banner import Banner
from widgets.common.buttons import Button, IconButton, UnderlinedTabs
from widgets.common.cards import Chip, ProgressLine
from widgets.common.fields import ComboBox
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, keep_size_when_hidden, row
from widgets.common.panes import PageStack
from widgets.common.theme import HEADER_H, PAGE_MARGIN, S2, S3, S4
from widgets.common.toast import NextStep
from widgets.library.item_actions import MENU_ACTIONS, NEW_JOB, NEW_VERSION, ItemAction
from widgets.library.item_groups import Entry
from widgets.library.page_texts import PAGE_TEXTS
from widgets.library.source_view import SourceView
from widgets.library.trial_pages import (
    TRIAL_TABS,
    PreviewBanner,
    Trial,
    TrialPages,
    preview_details,
)
from widgets.library.versions_view import VersionsView

_NARROW_MAX_W = 680
_CHOOSE_OPTION = ("", "Choose…")


class LibraryDetail(QWidget):
    """The right side of a page.

    Signals:
        cleanup_requested: The reference whose added files to move to the trash.
        preview_requested: A `Trial`; answer with `show_preview` or `show_trial_error`.
        check_requested: A `Trial` with a model; answer with `show_check` or `show_trial_error`.
        layers_requested: A complete `Trial`; answer with `show_layers` or `show_trial_error`.
        variance_requested: A complete `Trial`; answer with `show_variance`.
        cancel_requested: Cancel the running preview or check.
        files_requested: A reference whose files to list; answer with `show_files`.
        text_requested: Reference and path of a source file; answer with `show_text`.
        changes_requested: References of two versions, the newer first; answer `VersionsView`.
        partner_requested: The kind of a partner to import; answer with `choose_partner`.
        suggestion_requested: A dataset without a loader; answer with `show_offers`.
        install_requested: Install this package; answer with `try_again` or `show_trial_error`.
        package_requested: Ask for the package of this module, then `try_again`.

    Attributes:
        item_actions: Passes the `ItemAction` that a user requests, with the reference.
        tabs: Key and title of each tab.
        partners: The kinds that a trial needs beside the item.
        results: The pages of the tabs that a trial fills.
    """

    kind: ClassVar[Kind]
    tabs: ClassVar[tuple[tuple[str, str], ...]]
    partners: ClassVar[tuple[Kind, ...]] = ()

    cleanup_requested = Signal(str)
    preview_requested = Signal(object)
    check_requested = Signal(object)
    layers_requested = Signal(object)
    variance_requested = Signal(object)
    cancel_requested = Signal()
    files_requested = Signal(str)
    text_requested = Signal(str, str)
    changes_requested = Signal(str, str)
    partner_requested = Signal(object)
    suggestion_requested = Signal(str)
    install_requested = Signal(str)
    package_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.item_actions = Requests()
        self._entry: Entry | None = None
        self._version: LibraryItem | None = None
        self._requested_references: dict[str, str] = {}
        self._jobs: dict[str, int] = {}
        self._trial_details: list[KeyValue] = []
        self._combinations: tuple[Combination, ...] = ()
        self._build()

    # -- input

    def show_entry(self, entry: Entry) -> None:
        """Show another item, other versions of the same item, or new details of it."""
        previous_entry, self._entry = self._entry, entry
        version = self._version
        if (
            previous_entry is not None
            and version is not None
            and _have_same_files(previous_entry, entry)
        ):
            # Keep the present content: a preview itself adds details.
            self._version = next(v for v in entry.versions if v.version == version.version)
            self._show_details(self._trial_details)
            self._show_versions()
            return
        self._name.setText(entry.name)
        if previous_entry is None or previous_entry.name != entry.name:
            for box in self._boxes.values():
                box.choose("")
            self._choose_combination()
        options = [(str(v.version), f"version {v.version}") for v in entry.versions]
        self._version_box.set_options(options, options[0][0])
        self._version_box.setVisible(len(options) > 1)
        self._chip.setVisible(len(options) == 1)
        self._chip.set_chip("version 1" if options[0][0] == "1" else options[0][1], "idle")
        self._tabs.set_count("versions", formats.count(len(options)))
        self._show_version()

    @property
    def reference(self) -> str:
        """The reference of the shown version, "" for none."""
        return self._version.reference if self._version else ""

    @property
    def title(self) -> str:
        """The name of the shown version for display."""
        item = self._version
        return formats.version(item.name, item.version) if item is not None else ""

    @property
    def has_weights(self) -> bool:
        return self._version is not None and WEIGHTS_DETAIL in self._version.details

    def open_version(self, version: str) -> None:
        self._version_box.choose(version)

    @property
    def trial(self) -> Trial:
        """The item with the selected partners, "" for none."""
        partners = {kind.value: box.key() for kind, box in self._boxes.items()}
        return Trial(**partners, **{self.kind.value: self.reference})

    def set_list_hidden(self, is_hidden: bool) -> None:
        """Set whether the list is hidden; then there is a button back to the list."""
        self.back_button.setVisible(is_hidden)

    def show_companions(
        self,
        datasets: tuple[str, ...],
        loaders: tuple[str, ...],
        combinations: tuple[Combination, ...] = (),
    ) -> None:
        """Take names for previews and checks, and combinations that worked before.

        Only combinations are tried automatically: a wrong loader reports a good dataset as bad.
        """
        names_by_kind = {Kind.DATASET: datasets, Kind.LOADER: loaders}
        for kind, box in self._boxes.items():
            names = names_by_kind[kind]
            box.set_options([_CHOOSE_OPTION, *((name, formats.reference(name)) for name in names)])
        self._combinations = combinations
        if self._choose_combination():
            # A model may have been built without data until now.
            self._requested_references.pop("check", None)
        self._request_content()

    def choose_partner(self, kind: Kind, name: str) -> None:
        """Preview with this dataset or loader, at once or when the page becomes visible."""
        if kind in self._boxes:
            self._boxes[kind].choose(name)
        self._offer_banner.hide()
        self._requested_references.pop("samples", None)
        self._request_content()

    def show_jobs(self, jobs_by_reference: dict[str, int]) -> None:
        """Show the number of jobs that use each version."""
        self._jobs = dict(jobs_by_reference)
        self._show_versions()

    def show_files(
        self, reference: str, paths: tuple[str, ...], added_paths: tuple[str, ...] = ()
    ) -> None:
        if reference == self.reference:
            self._source.show_files(paths, added_paths)
            self._tabs.set_count("source", formats.count(len(paths)))

    def show_files_error(self, reference: str, message: str) -> None:
        if reference == self.reference:
            self._source.show_error(message)

    def show_text(self, reference: str, path: str, text: str) -> None:
        if reference == self.reference:
            self._source.show_text(path, text)

    def show_preview(self, trial: Trial, preview: Preview) -> None:
        if not self._matches_trial(trial):
            return
        self.end_trial()
        self.results.show_preview(preview)
        self._banner.show_preview(preview)
        self._show_details(preview_details(preview))

    def show_check(self, trial: Trial, check: ModelCheck) -> None:
        if not self._matches_trial(trial):
            return
        self.end_trial()
        self.results.show_check(check)
        self._banner.hide()
        self._show_details([KeyValue("Parameters", formats.count(check.parameters))])

    def show_layers(self, trial: Trial, layers: ModelLayers) -> None:
        if self._matches_trial(trial):
            self.end_trial()
            self.results.show_layers(layers)
            self._banner.hide()

    def show_layer_graph(self, trial: Trial, graph: LayerGraph | str) -> None:
        """Show the graph of the shown layers, or the reason why there is no graph."""
        if self._matches_trial(trial):
            self.results.layers.show_graph(graph)

    def show_offers(self, reference: str, *offers: NextStep) -> None:
        """Show the possible next steps with the item, the likeliest first."""
        if not offers:
            self._offer_banner.hide()
        elif reference == self.reference:
            buttons = [
                Button(offer.button, kind="plain" if n else "primary")
                for n, offer in enumerate(offers)
            ]
            for button, offer in zip(buttons, offers, strict=True):
                button.clicked.connect(offer.action)
            title, _, details = offers[0].text.partition(": ")
            self._offer_banner.set_finding("idle", title, details, icon="magic-wand")
            self._offer_banner.set_actions(buttons)
            self._offer_banner.show()

    def show_variance(self, trial: Trial, variance: DepthVariance | str) -> None:
        """Show the variances by depth of the shown layers, or the reason why there are none."""
        if trial == self.trial:
            self.end_trial()
            self.results.layers.show_variance(variance)

    def show_trial_progress(self, share: float | None, text: str) -> None:
        """Show a running preview or check, or weights being copied."""
        self._progress.set_progress(share, text)
        self._is_running = True
        self._show_progress()

    def end_trial(self) -> None:
        """End the progress display."""
        self._is_running = False
        self._show_progress()
        self._trial_button.setEnabled(True)
        self.results.show_no_result()

    def show_trial_error(
        self, message: str, remedy: str = "", package: str = "", module: str = ""
    ) -> None:
        """Show why a preview or check failed; a missing package or module can be installed."""
        self.end_trial()
        self.results.show_failed()
        self._banner.show_message("bad", message, "" if package else remedy)
        if package:
            install_button = Button(f"Install {package}", tip=remedy)
            install_button.clicked.connect(lambda: self.install_requested.emit(package))
            self._banner.set_actions([install_button])
        elif module:
            package_button = Button("Install a package…", tip=remedy)
            package_button.clicked.connect(lambda: self.package_requested.emit(module))
            self._banner.set_actions([package_button])

    @Slot()
    def try_again(self) -> None:
        """Run the preview or check, or show which partner is missing."""
        if not self.reference or not self._can_try():
            self._banner.show_message("warn", self._missing_partner_text())
            return
        self._banner.hide()
        self._trial_button.setEnabled(False)
        self.results.show_running()
        self.show_trial_progress(None, "Starting")
        self._request_trial()

    # -- construction

    def _build(self) -> None:
        self._name = Label("", "title", elide="right")
        self._chip = Chip("", "idle")
        self._version_box = ComboBox(name="Version")
        self._version_box.currentIndexChanged.connect(self._show_version)
        self.back_button = IconButton("arrow-left", f"All {PAGE_TEXTS[self.kind].title.lower()}")
        job_button = Button(NEW_JOB.text, icon=NEW_JOB.icon)
        job_button.clicked.connect(partial(self._ask, NEW_JOB))
        self._new_version_button = Button(NEW_VERSION.text, icon=NEW_VERSION.icon)
        self._new_version_button.clicked.connect(partial(self._ask, NEW_VERSION))
        more_button = MoreButton(
            lambda menu: fill_menu(menu, (MENU_ACTIONS,), self._is_narrow, self._ask)
        )
        self._details = KeyValueRow()
        self._tabs = UnderlinedTabs(self.tabs, self.tabs[0][0], name="Parts")
        self._tabs.key_chosen.connect(self._show_tab)
        self._leak_banner, self._offer_banner = Banner(), Banner()
        for banner in (self._leak_banner, self._offer_banner):
            banner.hide()
        self._banner = PreviewBanner()
        self._banner.class_requested.connect(self._show_class)
        self._progress = ProgressLine("Reading samples")
        self._progress.cancelled.connect(self.cancel_requested)
        self._progress.hide()
        self._is_running = False
        keep_size_when_hidden(self._progress)
        self._make_trial_row()
        self._make_pages()
        head = row(
            *(self.back_button, self._name, self._chip, self._version_box, STRETCH),
            *(job_button, self._new_version_button, more_button),
            gap=S2,
        )
        self.setLayout(
            col(
                *(head, self._details, self._leak_banner, self._offer_banner, self._tabs),
                *(self._banner, self._trial_row, (self._pages, 1), self._progress),
                gap=S3,
                margins=(PAGE_MARGIN, (HEADER_H - 32) // 2, PAGE_MARGIN, S4),
            )
        )

    def _make_trial_row(self) -> None:
        self._boxes = {kind: ComboBox(name=kind.value.capitalize()) for kind in self.partners}
        self._trial_button = Button("", icon="play")
        self._trial_button.clicked.connect(self.try_again)
        self._trial_row = QWidget()
        boxes: list[QWidget | None] = []
        for kind, box in self._boxes.items():
            box.choose("")
            box.activated.connect(self._try_partner)
            boxes += [Label(kind.value.capitalize(), "small", "text2"), box]
        self.results = TrialPages([key for key, _ in self.tabs])
        if "layers" in self.results.pages:
            self.results.layers.variance_requested.connect(
                lambda: self.variance_requested.emit(self.trial)
            )
        self._filter = self.results.samples.filter if "samples" in self.results.pages else QWidget()
        keep_size_when_hidden(self._filter)
        self._trial_row.setLayout(row(*boxes, self._trial_button, S4, (self._filter, 1), gap=S2))

    def _make_pages(self) -> None:
        self._source = SourceView()
        self._source.text_requested.connect(
            lambda path: self.text_requested.emit(self.reference, path)
        )
        self._source.cleanup_requested.connect(lambda: self.cleanup_requested.emit(self.reference))
        self.versions = VersionsView()
        self.versions.changes_requested.connect(self.changes_requested)
        self._pages = PageStack()
        self._pages_by_tab: dict[str, QWidget] = {
            **self.results.pages,
            **({"scan": self.results.scan} if self.results.has_scan else {}),
            "source": self._source,
            "versions": self.versions,
        }
        for page in self._pages_by_tab.values():
            self._pages.addWidget(page)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            # The sizes may need other units now.
            self._show_details(self._trial_details)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Move a button to the menu in a narrow window, to give the name its space."""
        super().resizeEvent(event)
        self._new_version_button.setVisible(not self._is_narrow)

    # -- events

    @Slot()
    def _show_version(self) -> None:
        entry = self._entry
        if entry is None:
            return
        version_key = self._version_box.key()
        self._version = next(
            (v for v in entry.versions if str(v.version) == version_key), entry.newest
        )
        self._requested_references.clear()
        self._banner.hide()
        self._offer_banner.hide()
        self._is_running = False
        self._show_progress()
        self.results.clear()
        self._source.clear()
        self._show_details([])
        self._show_versions()
        self._show_tab(self._tabs.key())

    def _show_details(self, trial_details: list[KeyValue]) -> None:
        self._trial_details = trial_details
        item = self._version
        if item is None:
            return
        size = f"{formats.disk(item.bytes)} in {formats.plural(item.files, 'file')}"
        import_time = KeyValue(
            "Imported", formats.time_with_day(instant(item.created), datetime.now(UTC))
        )
        weights = item.details.get(WEIGHTS_DETAIL)
        weights_details = (
            [KeyValue("Weights", formats.disk(int(weights["bytes"])))] if weights else []
        )
        self._details.set_items(
            (KeyValue("Size", size), *weights_details, *trial_details, import_time)
        )
        self._leak_banner.set_finding("warn", item.leaks, "The validation metrics are too good.")
        self._leak_banner.setVisible(bool(item.leaks))

    def _show_versions(self) -> None:
        if self._entry is not None:
            self.versions.show_versions(self._entry.versions, self._jobs)

    @Slot(str)
    def _show_tab(self, key: str) -> None:
        self._pages.setCurrentWidget(self._pages_by_tab[key])
        self._show_progress()
        self._trial_row.setVisible(key in TRIAL_TABS or key == "scan")
        self._trial_button.setVisible(key in TRIAL_TABS)
        self._filter.setVisible(key == "samples")
        self._trial_button.setText({"check": "Check", "layers": "Show layers"}.get(key, "Preview"))
        self._request_content()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._request_content()

    def _request_content(self) -> None:
        """Request the content of the open tab, once, and only while it is visible."""
        key, reference = self._tabs.key(), self.reference
        if key == "statistics":
            # A preview fills both tabs.
            key = "samples"
        if (
            not reference
            or not self.isVisible()
            or self._requested_references.get(key) == reference
        ):
            return
        if key == "source":
            self._requested_references[key] = reference
            self.files_requested.emit(reference)
        elif key in TRIAL_TABS and self._can_try():
            self._requested_references[key] = reference
            self.try_again()
        elif key in TRIAL_TABS:
            self._ask_for_partner()

    @Slot(str)
    def _show_class(self, name: str) -> None:
        self._tabs.choose("samples")
        self._show_tab("samples")
        self.results.samples.show_class(name)

    def _show_progress(self) -> None:
        """Show the progress of a trial, but not beside a scan, which has its own progress."""
        self._progress.setVisible(self._is_running and self._tabs.key() != "scan")

    def _matches_trial(self, trial: Trial) -> bool:
        return bool(getattr(trial, self.kind.value) == self.reference)

    def _can_try(self) -> bool:
        return all(box.key() for box in self._boxes.values())

    def _choose_combination(self) -> bool:
        """Select a combination that worked with the entry, unless there is a selection."""
        name = self._entry.name if self._entry is not None else ""
        if any(box.key() for box in self._boxes.values()):
            return False
        for combination in self._combinations:
            names_by_kind = {
                Kind.DATASET: combination.dataset,
                Kind.LOADER: combination.loader,
                Kind.MODEL: combination.model,
            }
            choices = [(box, names_by_kind[kind]) for kind, box in self._boxes.items()]
            if names_by_kind.get(self.kind) == name and all(
                box.findData(key) > 0 for box, key in choices
            ):
                for box, key in choices:
                    box.choose(key)
                return True
        return False

    def _ask_for_partner(self) -> None:
        """Ask for the partner that a trial needs; a kind without one asks nothing."""

    @Slot()
    def _try_partner(self) -> None:
        """Try at once, but not with one of two partners."""
        if len({bool(box.key()) for box in self._boxes.values()}) > 1:
            return
        self._offer_banner.hide()
        if self._can_try():
            # The other tabs show the data that was chosen before.
            self._requested_references = {self._tabs.key(): self.reference}
            self.try_again()
        else:
            self._request_content()

    def _request_trial(self) -> None:
        self.preview_requested.emit(self.trial)

    def _missing_partner_text(self) -> str:
        return ""

    def _ask(self, action: ItemAction) -> None:
        if self.reference:
            self.item_actions.ask(action, self.reference)

    @property
    def _is_narrow(self) -> bool:
        return self.width() < _NARROW_MAX_W


class _SampleDetail(LibraryDetail):
    """A dataset or a loader, whose samples need the other one."""

    partner_question: ClassVar[str]

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        [self._partner] = self.partners
        for question in self.results.questions.values():
            question.partner_chosen.connect(partial(self.choose_partner, self._partner))
            question.import_requested.connect(partial(self.partner_requested.emit, self._partner))

    def _ask_for_partner(self) -> None:
        if not self._offer_banner.isHidden():
            return
        box, texts = self._boxes[self._partner], PAGE_TEXTS[self._partner]
        names = sorted(
            (box.itemText(index) for index in range(1, box.count())),
            key=lambda name: name != self._name.text(),
        )
        self.results.ask(texts.icon, self.partner_question, names, f"Import a {texts.noun}…")

    def _missing_partner_text(self) -> str:
        noun = self._partner.value
        if self._boxes[self._partner].count() > 1:
            return f"Choose a {noun} to preview samples."
        return f"There is no {noun} yet. Import one to preview samples."


class DatasetDetail(_SampleDetail):
    """A dataset: its samples, statistics and scan through a loader."""

    kind = Kind.DATASET
    tabs = (
        ("samples", "Samples"),
        ("statistics", "Statistics"),
        ("scan", "Scan"),
        ("source", "Files"),
        ("versions", "Versions"),
    )
    partners = (Kind.LOADER,)
    partner_question = "Which loader reads it?"

    def show_offers(self, reference: str, *offers: NextStep) -> None:
        super().show_offers(reference, *offers)
        if offers and reference == self.reference:
            self._requested_references["offer"] = reference
            if not self._can_try():
                # The offer is the answer; another loader would be a guess.
                self.results.ask(PAGE_TEXTS[Kind.LOADER].icon, "No loader reads it yet", (), "")

    def _ask_for_partner(self) -> None:
        if self._requested_references.get("offer") != self.reference:
            self._requested_references["offer"] = self.reference
            self.suggestion_requested.emit(self.reference)
        super()._ask_for_partner()


class LoaderDetail(_SampleDetail):
    """A loader: its source, and the samples that it makes of a dataset."""

    kind = Kind.LOADER
    tabs = (("source", "Source"), ("samples", "Samples"), ("versions", "Versions"))
    partners = (Kind.DATASET,)
    partner_question = "Which dataset does it read?"


class ModelDetail(LibraryDetail):
    """A model: its source, its check with or without data, and its layers."""

    kind = Kind.MODEL
    tabs = (
        ("source", "Source"),
        ("check", "Check"),
        ("layers", "Layers"),
        ("versions", "Versions"),
    )
    partners = (Kind.DATASET, Kind.LOADER)

    @property
    def trial(self) -> Trial:
        """The model with both partners, or alone."""
        return super().trial if super()._can_try() else Trial(model=self.reference)

    def _can_try(self) -> bool:
        return self._tabs.key() != "layers" or super()._can_try()

    def _request_trial(self) -> None:
        is_layers = self._tabs.key() == "layers"
        (self.layers_requested if is_layers else self.check_requested).emit(self.trial)

    def _missing_partner_text(self) -> str:
        return "Choose a dataset and a loader to see the layers."


class ScriptDetail(LibraryDetail):
    """A script: its source and its versions."""

    kind = Kind.SCRIPT
    tabs = (("source", "Source"), ("versions", "Versions"))


DETAILS: dict[Kind, type[LibraryDetail]] = {
    detail.kind: detail for detail in (DatasetDetail, ModelDetail, LoaderDetail, ScriptDetail)
}


def _have_same_files(entry: Entry, other_entry: Entry) -> bool:
    """Return True if both are the same versions of the same item."""
    return entry.name == other_entry.name and [(v.version, v.sha256) for v in entry.versions] == [
        (v.version, v.sha256) for v in other_entry.versions
    ]
