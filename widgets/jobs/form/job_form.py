"""New job on one page: what to train, where, how, and what to keep, with the result in view.

The form checks nothing itself. 300 ms after a change it requests a check and shows the result: each
error at its field, the figures, the learning rate over the whole job, and the command that would
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QEvent, QTimer, Signal, Slot
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.base.validation import ConfigError, sanitize
from backend.records.jobs.flat_settings import setting_changes
from backend.records.jobs.job_file import parse_job, without_default_stop
from backend.records.jobs.script_help import ScriptHelp
from backend.records.jobs.settings import SETTINGS
from backend.records.jobs.template import Template
from backend.records.jobs.view import GPU_CHECK, NODE_CHECK, JobCheck, JobView
from backend.records.library.item import LibraryItem
from backend.records.nodes.partition import Partition
from backend.records.nodes.reading import Finding, NodeState
from backend.records.sweeps.values import axis_text
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import PageHeader, VerticalScrollArea
from widgets.common.fields import ComboBox
from widgets.common.focus import FocusForwarder
from widgets.common.layout import col, row
from widgets.common.theme import FORM_MAX_W, PAGE_MARGIN, ColorRole
from widgets.jobs.form.form_sections import MODEL, SCRIPT, FormSections
from widgets.jobs.form.form_side import START_KEY, FormFoot, FormSide, StartButtons
from widgets.jobs.form.job_fields import JobDraft, JobFields, Origin, merge_settings
from widgets.jobs.form.trial_status import RESULTS, BatchTrial, TrialState

_CHECK_DELAY_MS = 300
_TWO_PANES_FROM_W = 1128
"""The side pane takes 384 px; the rest must hold five fields side by side, and margins."""
_DRAFT_TIP = "Create the job and start it later"
_PLAN_TIP = "What will it need? Memory, time and disk, by a short training on the first node"
_NO_DRAFT_TIP = "A sweep cannot be saved as a draft"
_VALID_FINDING = Finding("settings", True, "Settings, versions and nodes are valid")
_WAIT_MESSAGES = {NODE_CHECK: "A node is offline", GPU_CHECK: "A GPU is in use"}
_PLACEMENT = "placement"
_NO_PLACEMENT = "Choose where to run: a node or some of its GPUs."


class JobForm(QWidget):
    """The page New job.

    Attributes:
        start_from: The field for the weights that the job begins with.

    Signals:
        check_requested: A `JobDraft`; answer with `show_check`.
        try_requested: Try model, dataset and loader together; see `show_check`.
        try_cancelled: Cancel the trial.
        install_requested: Install the package that the trial needs.
        package_requested: Ask for the package of this module, which the trial needs.
        start_requested: A `JobDraft` to create and start.
        start_cancelled: Cancel the start that is under way.
        queue_requested: A `JobDraft` to create and queue.
        queue_later_requested: A `JobDraft` to queue with a priority, a time and a reservation.
        cancel_jobs_requested: The tag of a sweep that was only partly created.
        save_requested: A `JobDraft` to create as a draft.
        load_requested: Load settings to begin with; answer with `show_draft`.
        template_requested: The name of a template to begin with; answer with `show_draft`.
        template_save_requested: A `JobDraft` to save as a template.
        file_requested: A `JobDraft` to write into a file.
        open_requested: Open a job file; answer with `show_draft`.
        help_requested: Read the arguments of the script in this job file; answer with
            `show_arguments` or `show_arguments_error`.
        help_cancelled: Stop reading.
        rate_requested: Search for the learning rate; answer with `choose_settings`.
        plan_requested: Measure the needs of the job; answer with `choose_settings`.
        partitions_requested: The name of a cluster; answer with `show_partitions`.
        gallery_requested: Choose a model from the gallery; answer with `choose_model`.
        picture_requested: A file name, and the bytes to save.
    """

    check_requested = Signal(object)
    try_requested = Signal()
    try_cancelled = Signal()
    install_requested = Signal(str)
    package_requested = Signal(str)
    start_requested = Signal(object)
    start_cancelled = Signal()
    queue_requested = Signal(object)
    queue_later_requested = Signal(object)
    cancel_jobs_requested = Signal(str)
    save_requested = Signal(object)
    load_requested = Signal()
    template_requested = Signal(str)
    template_save_requested = Signal(object)
    file_requested = Signal(object)
    open_requested = Signal()
    help_requested = Signal(object)
    help_cancelled = Signal()
    rate_requested = Signal()
    plan_requested = Signal()
    partitions_requested = Signal(str)
    gallery_requested = Signal()
    picture_requested = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._other_settings: dict[str, Any] = {}
        self._datasets: tuple[tuple[str, str], ...] = ()
        self._origin: Origin | None = None
        self._is_busy = False
        self._may_start = False
        self._job_count = 1
        self._incomplete_sweep = ""
        self._has_scripts = False
        self._fields = JobFields(self)
        self._sections = FormSections(self._fields)
        self._picker = self._sections.picker
        self._sweep = self._sections.sweep
        self.start_from = self._fields.weights
        self._side, self._foot = FormSide(self._make_buttons()), FormFoot(self._make_buttons())
        self._side.pictures.saved.connect(self.picture_requested)
        self._tools = self._sections.rate_button, self._side.rate_button
        for tool in self._tools:
            tool.clicked.connect(self.rate_requested)
        self._result, self._refusal = self._side.result, self._side.refusal
        self._findings = self._side.findings
        self._start_button = self._side.start_buttons.start
        self._foot_start = self._foot.start_buttons.start
        self._banner = self._sections.banner
        form_pane = QWidget()
        header = self._make_header()
        # Aligned with the cards below it.
        header.setMaximumWidth(FORM_MAX_W + 2 * PAGE_MARGIN)
        page = VerticalScrollArea(self._sections, gutter=PAGE_MARGIN)
        form_pane.setLayout(col(row((header, 1)), (page, 1), gap=0))
        self.setLayout(col((row((form_pane, 1), self._side, gap=0), 1), self._foot, gap=0))

        self._check_timer = QTimer(self, singleShot=True, interval=_CHECK_DELAY_MS)
        self._check_timer.timeout.connect(self._request_check)
        self._connect_parts()
        self._check = JobCheck()
        self._trial = BatchTrial()
        self._error_messages: list[str] = []
        self._open_part = ""
        self._show_result(self._check)

    def _connect_parts(self) -> None:
        self._fields.changed.connect(self._handle_change)
        self._picker.changed.connect(self._handle_change)
        self._picker.changed.connect(self._sections.fit_placement)
        self._picker.usage_changed.connect(self._check_timer.start)
        self._sweep.changed.connect(self._handle_change)
        self._sections.partitions_requested.connect(self.partitions_requested)
        self._sections.templates.template_chosen.connect(self.template_requested)
        self._sections.templates.all_button.clicked.connect(self.load_requested)
        self._sections.job_kind.activated.connect(self._choose_job_kind)
        self._sections.gallery.clicked.connect(self.gallery_requested)
        arguments = self._sections.arguments
        arguments.requested.connect(lambda: self.help_requested.emit(self._fields.draft()))
        arguments.cancelled.connect(self.help_cancelled)
        QShortcut(QKeySequence(START_KEY), self, self._start)
        FocusForwarder(self, self._fields.field("name").control)
        self._sections.trial.try_requested.connect(self.try_requested)
        self._sections.trial.cancel_requested.connect(self.try_cancelled)
        self._sections.trial.install_requested.connect(self.install_requested)
        self._sections.trial.package_requested.connect(self.package_requested)

    # -- input

    def show_choices(
        self,
        models: tuple[LibraryItem, ...],
        datasets: tuple[LibraryItem, ...],
        loaders: tuple[LibraryItem, ...],
        scripts: tuple[LibraryItem, ...] = (),
    ) -> None:
        """Set the options: every version; the name alone means the newest version."""
        for path, items in (("model", models), ("loader", loaders), ("script", scripts)):
            self._fields.set_options(path, _options(items))
        self._has_scripts = bool(scripts)
        self._sections.offer_job_kinds(self._has_scripts)
        self._datasets = _options(datasets)
        self._offer_datasets()
        default_options = (("", "same"),)
        self._fields.set_options("validation_dataset", default_options + _options(datasets))
        self._fields.set_options("validation_loader", default_options + _options(loaders))
        self._check_timer.start()

    def _offer_datasets(self) -> None:
        """Offer the datasets, and "none" for a script."""
        empty_options = (("", "none"),) if self._fields.runs_script else ()
        control = self._fields.field("dataset").control
        if isinstance(control, ComboBox):
            control.setPlaceholderText("" if empty_options else "Choose a dataset")
        self._fields.set_options("dataset", empty_options + self._datasets)

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        clusters = {s.name: s.entry.scheduler for s in states if s.entry and s.entry.scheduler}
        self._sections.offer_clusters(clusters)
        self._picker.show_nodes(tuple(s for s in states if s.name not in clusters))

    def show_partitions(self, cluster: str, partitions: Sequence[Partition]) -> None:
        """Offer the partitions of the chosen cluster."""
        self._sections.show_partitions(cluster, partitions)

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """Set all jobs; their names are shown at the GPUs they hold."""
        self._picker.show_jobs({view.id: view.name for view in views})

    def show_metrics(self, names: Iterable[str]) -> None:
        """Offer the metrics that jobs have measured."""
        self._fields.suggest("checkpoint.best_metric", names)

    def show_templates(self, templates: tuple[Template, ...]) -> None:
        self._sections.templates.show_templates(templates)

    def rename(self, name: str) -> None:
        """Change the name of the job to one that the user did not type."""
        self._fields.show_value("name", name)

    def choose_model(self, name: str) -> None:
        """Choose a model that was just added."""
        self._fields.show_value("model", name)
        self._handle_change()

    def choose_settings(self, settings: Mapping[str, Any]) -> None:
        """Set settings by their paths; several values of a sweep become one."""
        for path, value in settings.items():
            self._fields.swept_fields.restore_single(path)
            self._fields.show_value(path, value)
            self._sections.reveal(self._fields.field(path))
        self._handle_change()

    def propose(self, settings: Mapping[str, Any]) -> None:
        """Fill in settings as they are in a job file, and check again; None empties a field."""
        for key, value in settings.items():
            # The name of an optimizer comes first: its fields depend on it.
            options = value.items() if isinstance(value, Mapping) else (("", value),)
            for name, setting in options:
                self._fields.show_value(f"{key}.{name}".rstrip("."), setting)
        if settings:
            self._sections.show_details()
            self._check_timer.start()

    def propose_placement(self) -> None:
        """Choose a free GPU, or this computer where no GPU is free."""
        self._picker.propose()
        self._sections.fit_placement()

    def show_arguments(self, script_help: ScriptHelp) -> None:
        """Show the arguments that a script takes as fields."""
        self._sections.arguments.show_arguments(script_help.arguments)

    def show_arguments_error(self, message: str) -> None:
        self._sections.arguments.show_error(message)

    def show_terms(self, terms: Mapping[str, str]) -> None:
        """Set the glossary: a term and its explanation."""
        for path, setting in SETTINGS.items():
            if setting.term:
                self._fields.explain(path, setting.term, terms.get(setting.term, ""))
        self._side.show_terms(terms)

    def show_draft(self, draft: JobDraft) -> None:
        """Fill the form from a job file. Settings without a field are kept in the draft."""
        is_script = "script" in draft.raw
        self._sections.show_job_kind(SCRIPT if is_script else MODEL)
        self._sections.offer_job_kinds(self._has_scripts and not is_script)
        self._offer_datasets()
        raw = {**draft.raw} if is_script else without_default_stop(draft.raw)
        optimizer = raw.get("optimizer", {})
        if not is_script and isinstance(optimizer, Mapping) and "name" not in optimizer:
            # The default of the strategy.
            raw["optimizer"] = {"name": parse_job(raw).draft.optimizer.name, **optimizer}
        self._sections.arguments.reset(draft.axes)
        self._fields.show(raw)
        placements = raw.pop("placement", [])
        self._picker.put(placements if isinstance(placements, list) else [])
        self._other_settings = self._fields.without_fields(raw)
        for axis in draft.axes:
            self._fields.swept_fields.show_axis(axis)
        self._sections.arguments.show_known()
        self._sections.show_details()
        self._sections.fit_placement()
        self._sections.fit_cluster()
        for path in filter(raw.get, ("validation_dataset", "validation_loader")):
            self._sections.reveal(self._fields.field(path))
        self._sweep.show_choice(draft.draws, draft.seed, draft.search)
        self._origin = draft.origin
        self._clear_refusal()
        self._show_origin()
        # The errors shown were those of the previous draft.
        self.show_check(JobCheck())
        self._check_timer.start()

    def show_check(self, check: JobCheck, trial: BatchTrial | None = None) -> None:
        """Show the result of `check_requested`, with the trial of one batch."""
        self._trial = trial = trial or BatchTrial()
        if check.usual_strategy:
            self._sections.show_default_strategy(check.usual_strategy)
        self._sections.trial.show_trial(trial)
        # A part that the user did not choose yet is no error.
        open_parts = self._fields.open_parts()
        check = replace(check, errors=tuple(f for f in check.errors if f.path not in open_parts))
        self._open_part = next(iter(open_parts), "")
        has_failed = trial.state is TrialState.FAILED
        trial_errors = (ConfigError(trial.field, trial.message),) if has_failed else ()
        unplaced_errors = self._sweep.show_errors(
            self._fields.show_errors((*check.errors, *trial_errors))
        )
        placement_errors = [f for f in unplaced_errors if f.path.startswith(_PLACEMENT)]
        lacks_placement = placement_errors and not self._picker.value()
        placement_message = (
            _NO_PLACEMENT
            if lacks_placement
            else " ".join(f.message_for(_label(f)) for f in placement_errors)
        )
        self._picker.set_error(placement_message)
        field_errors = [f for f in check.errors if f not in unplaced_errors]
        other_messages = [
            _unplaced_message(f)
            for f in (*unplaced_errors, *trial_errors)
            if f not in placement_errors
        ]
        self._error_messages = [f.message_for(self._fields.label(f.path)) for f in field_errors]
        self._error_messages += filter(None, (placement_message, *other_messages))
        self._check = check
        self._show_result(check)
        valid_findings = (_VALID_FINDING,) if self._may_start and not other_messages else ()
        warnings = check.trial.warnings if check.trial is not None else ()
        hints = tuple(Finding("trial", False, warning) for warning in warnings)
        self._side.show_findings(
            (*(check.findings or valid_findings), *hints), self._error_messages
        )

    def show_counting(self, is_counting: bool) -> None:
        """Show whether the samples of the dataset are being counted."""
        self._side.show_counting(is_counting)

    def show_trial(self, trial: BatchTrial) -> None:
        """Update the trial between two checks."""
        if trial.state is self._trial.state is TrialState.RUNNING:
            self._sections.trial.show_trial(trial)
        else:
            self.show_check(self._check, trial)

    def showEvent(self, event: QShowEvent) -> None:
        """Check the draft; while the form is hidden, no user code is tried."""
        super().showEvent(event)
        self._check_timer.start()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            # The units of its figures may have changed.
            self._show_result(self._check)

    def set_busy(self, message: str) -> None:
        """Show that a start is under way ("Starting…"), or is not ("")."""
        self._is_busy = bool(message)
        for button in (self._start_button, self._foot_start):
            button.setText(message or self._start_text())
        for buttons in (self._side.start_buttons, self._foot.start_buttons):
            buttons.queue.setText("Cancel" if self._is_busy else "Queue")
            buttons.queue.set_icon("x" if self._is_busy else "clock")
        self._enable_buttons()

    def show_error(self, message: str) -> None:
        """Show next to the button why a start was refused."""
        self.set_busy("")
        self._refusal.setText(message)
        self._refusal.setVisible(bool(message))
        self._foot.show_refusal(message)
        self._incomplete_sweep = ""
        for buttons in (self._side.start_buttons, self._foot.start_buttons):
            buttons.cancel.hide()

    def show_incomplete_sweep(self, message: str, tag: str) -> None:
        """Report that only some jobs of a sweep were created; the user can remove them."""
        self.show_error(message)
        self._incomplete_sweep = tag
        for buttons in (self._side.start_buttons, self._foot.start_buttons):
            buttons.cancel.show()

    def draft(self) -> JobDraft:
        """Return the job file in the form."""
        fields = self._fields.draft()
        other_settings = self._other_settings
        if "early_stop" not in fields:
            # Without a number of epochs, the direction of the metric is not used.
            other_settings = {
                key: value for key, value in other_settings.items() if key != "early_stop"
            }
        raw = merge_settings(other_settings, fields)
        for table in self._sections.unused_tables():
            raw.pop(table, None)
        if not self._sections.cluster() and (placement := self._picker.value()):
            raw[_PLACEMENT] = placement
        axes = self._fields.swept_fields.axes()
        draws, search = (self._sweep.draws(), self._sweep.search()) if axes else (None, None)
        origin = self._current_origin(raw)
        return JobDraft(raw, axes, draws, self._sweep.seed(), origin, search)

    # -- construction

    def _make_header(self) -> QWidget:
        load = Button("Load settings…", kind="quiet", icon="copy")
        load.set_tip("Begin with a template or with the settings of a job")
        load.clicked.connect(self.load_requested)
        open_file = Button("Open job file…", kind="quiet", icon="folder-open")
        open_file.set_tip("A job file, a sweep file or a bundle; it can be dropped here, too")
        open_file.clicked.connect(self.open_requested)
        save_as = Button("Save as…", kind="quiet", icon="upload-simple")
        menu = QMenu(save_as)
        menu.addAction("Template…", lambda: self.template_save_requested.emit(self.draft()))
        menu.addAction("File…", lambda: self.file_requested.emit(self.draft()))
        save_as.setMenu(menu)
        self._save_menu = menu
        self._save_button = Button("Save draft", kind="quiet", icon="floppy-disk", tip=_DRAFT_TIP)
        self._save_button.clicked.connect(self._save)
        self._plan_button = Button("Plan…", kind="quiet", icon="gauge", tip=_PLAN_TIP)
        self._plan_button.clicked.connect(self.plan_requested)
        buttons = load, open_file, save_as, self._save_button, self._plan_button
        return PageHeader("New job", "", *buttons)

    def _make_buttons(self) -> StartButtons:
        buttons = StartButtons()
        buttons.start.clicked.connect(self._start)
        buttons.queue.clicked.connect(self._queue)
        buttons.queue_later.clicked.connect(lambda: self.queue_later_requested.emit(self.draft()))
        buttons.cancel.clicked.connect(
            lambda: self.cancel_jobs_requested.emit(self._incomplete_sweep)
        )
        return buttons

    # -- events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _TWO_PANES_FROM_W
        self._side.setVisible(not is_narrow)
        self._foot.setVisible(is_narrow)
        self._sections.rate_button.setVisible(is_narrow)

    @Slot()
    def _choose_job_kind(self) -> None:
        self._sections.show_job_kind(self._sections.job_kind.key())
        self._offer_datasets()
        self._handle_change()

    @Slot()
    def _handle_change(self) -> None:
        """Remove an earlier refusal after the user changed something."""
        if not self._incomplete_sweep:
            self._clear_refusal()
        self._check_timer.start()

    def _clear_refusal(self) -> None:
        self._refusal.hide()
        self._foot.show_refusal("")

    @Slot()
    def _request_check(self) -> None:
        self._show_origin()
        self.check_requested.emit(self.draft())

    @Slot()
    def _start(self) -> None:
        draft = self.draft()
        if self._may_start and not self._is_busy:
            (self.queue_requested if draft.axes else self.start_requested).emit(draft)
        elif not self._may_start:
            invalid_control = self._fields.first_invalid_control()
            if invalid_control is not None:
                self._sections.reveal(invalid_control)
                invalid_control.setFocus()

    @Slot()
    def _queue(self) -> None:
        if self._is_busy:
            self.start_cancelled.emit()
        else:
            self.queue_requested.emit(self.draft())

    @Slot()
    def _save(self) -> None:
        self.save_requested.emit(self.draft())

    # Origin of the settings.

    def _current_origin(self, raw: Mapping[str, Any]) -> Origin | None:
        """Return the origin; with other settings the job is no longer a replay."""
        origin = self._origin
        if origin is None or not origin.replayed_id or not self._differs_from(origin, raw):
            return origin
        return Origin(origin.label, origin.raw)

    def _differs_from(self, origin: Origin, raw: Mapping[str, Any]) -> bool:
        other_changes = (
            change for change in setting_changes(origin.raw, raw) if change.key != _PLACEMENT
        )
        return any(other_changes) or bool(self._fields.swept_fields.axes())

    def _show_origin(self) -> None:
        origin = self._origin
        if origin is None:
            self._side.show_changes("", ())
            self._banner.hide()
            return
        draft = self.draft()
        raw = draft.raw
        swept_texts = {axis.path: axis_text(axis) for axis in draft.axes}
        shown_changes = [
            replace(change, new_text=swept_texts.get(change.key, change.new_text))
            for change in setting_changes(origin.raw, raw)
        ]
        self._side.show_changes(origin.label, shown_changes)
        self._banner.setVisible(bool(origin.replayed_id))
        if not origin.replayed_id:
            return
        if self._differs_from(origin, raw):
            text = "Settings differ from the original, so the curves will not be compared."
            self._banner.set_finding("warn", f"No longer a replay of {origin.label}.", text)
        else:
            text = (
                "Same files, settings and seed. Choose where to run; the curves will be compared."
            )
            self._banner.set_finding("idle", f"Replay of {origin.label}.", text)

    # Allowed actions.

    def _enable_buttons(self) -> None:
        for button in (self._start_button, self._foot_start):
            button.setEnabled(self._may_start and not self._is_busy)
        for tool in (*self._tools, self._plan_button):
            tool.setEnabled(self._may_start)
        is_sweep = bool(self._fields.swept_fields.axes())
        self._save_button.setEnabled(self._may_start and not self._is_busy and not is_sweep)
        self._save_button.set_tip(_NO_DRAFT_TIP if is_sweep else _DRAFT_TIP)
        for buttons in (self._side.start_buttons, self._foot.start_buttons):
            buttons.queue.setVisible(self._is_busy or self._may_queue())
            buttons.queue.setEnabled(self._may_start or self._is_busy)
            buttons.queue_later.setVisible(self._may_queue())
            buttons.queue_later.setEnabled(self._may_start and not self._is_busy)

    def _show_result(self, check: JobCheck) -> None:
        is_complete = check.global_batch is not None and not self._open_part
        self._may_start = check.may_start and is_complete
        self._job_count = check.jobs
        is_sweep = bool(self._fields.swept_fields.axes())
        result, icon, color_role = self._result_of(check, is_sweep)
        self._side.show_check_result(result, icon, color_role)
        self._foot.result.setText(result)
        self._foot.result.set_color_role(color_role if color_role in ("bad", "warn") else "text")
        for button in (self._start_button, self._foot_start):
            is_bad = not self._may_start and not self._open_part
            button.set_icon("warning-octagon" if is_bad else "play")
            if not self._is_busy:
                button.setText(self._start_text())
        self._enable_buttons()
        epochs = self._fields.draft().get("epochs")
        self._side.show_figures(check, epochs if isinstance(epochs, int) else 0)
        self._foot.show_figures(check, " ".join(self._error_messages))

    def _may_queue(self) -> bool:
        """Return whether Queue is another way than Start: sweeps and clusters have a queue."""
        return not (self._fields.swept_fields.axes() or self._sections.cluster())

    def _result_of(self, check: JobCheck, is_sweep: bool) -> tuple[str, str, ColorRole]:
        """Return the message, icon and color role of the result."""
        if check.errors:
            problems = formats.plural(len(check.errors), "problem")
            return f"{problems} to fix", "warning-octagon-fill", "bad"
        if self._open_part:
            return f"Choose a {self._open_part}", "info-fill", "text3"
        if not self._may_start:
            return "Checking…", "info-fill", "text3"
        result = RESULTS.get(self._trial.state)
        has_failed = self._trial.state is TrialState.FAILED
        if result is not None and (has_failed or not check.waits_for):
            return result
        if is_sweep:
            jobs = formats.plural(check.jobs, "job")
            return f"Ready to queue {jobs}", "check-circle-fill", "good"
        if check.waits_for:
            return _WAIT_MESSAGES[check.waits_for], "warning-fill", "warn"
        return "Ready to start", "check-circle-fill", "good"

    def _start_text(self) -> str:
        if not self._may_start:
            return self._result.text()
        if self._fields.swept_fields.axes():
            return f"Queue {formats.plural(self._job_count, 'job')}"
        if self._trial.state is TrialState.FAILED:
            return "Start anyway"
        return f"Start on {self._sections.cluster() or _slots_text(self._picker.value())}"


def _unplaced_message(error: ConfigError) -> str:
    """Return the message of an error that has no field."""
    if error.part != "environment":
        return error.message
    return error.message_for(f"Environment variable “{sanitize(error.path.partition('.')[2])}”:")


def _label(error: ConfigError) -> str:
    """Return a label for a field that has none: "Processes" of ``placement[0].processes``."""
    return error.path.rpartition(".")[2].partition("[")[0].capitalize()


def _options(items: tuple[LibraryItem, ...]) -> tuple[tuple[str, str], ...]:
    """Return keys and texts; the only version of a name needs no number."""
    versions: dict[str, list[int]] = {}
    for item in items:
        versions.setdefault(item.name, []).append(item.version)
    return tuple(
        (
            item.name if item.version == max(versions[item.name]) else item.reference,
            item.name if versions[item.name] == [1] else formats.version(item.name, item.version),
        )
        for item in items
    )


def _slots_text(placement: list[Mapping[str, Any]]) -> str:
    gpus = sum(len(p.get("gpus", ())) for p in placement)
    processes = sum(int(p.get("processes", 0)) for p in placement)
    return (
        formats.plural(gpus, "GPU") if gpus else formats.plural(processes, "process", "processes")
    )
