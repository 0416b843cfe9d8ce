"""One job: header with its ring, the run as a time line, the worst finding, and the tabs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QStandardPaths, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from backend.records.checkpoint import Checkpoint
from backend.records.job_view import JobView, RunUpdate
from backend.records.node import NodeState
from backend.records.queue import QueuePlace
from backend.records.series import RunStart
from backend.records.state import JobState
from widgets.cluster.node_history import NodeHistory
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button, IconButton, UnderlinedTabs
from widgets.common.cards import Facts
from widgets.common.focus import FocusLead
from widgets.common.kept_dialog import KeptDialog
from widgets.common.layout import col, row
from widgets.common.promised_file import Promise
from widgets.common.state_badge import RankRing, StateBadge
from widgets.common.text import Label, plain_tip
from widgets.common.theme import HEADER_H, PAGE_MARGIN, S1, S2, S3, S4
from widgets.jobs.checkpoints_tab import CheckpointsTab
from widgets.jobs.curves_tab import CurvesTab
from widgets.jobs.elsewhere_dialog import ElsewhereDialog
from widgets.jobs.export_dialog import USUAL_FORMAT, ExportDialog, export_name, is_format
from widgets.jobs.failure_tab import FailureTab
from widgets.jobs.job_acts import KEYS_OF_ACTS, JobWishes, MainAct, fill_menu, main_act
from widgets.jobs.job_facts import circumstances, facts, what_stop_costs
from widgets.jobs.job_finding import finding
from widgets.jobs.job_name import JobName
from widgets.jobs.log_tab import LogTab
from widgets.jobs.notes_tab import NotesTab
from widgets.jobs.queue_acts import QueueActs
from widgets.jobs.rank_history import unwell_of_job
from widgets.jobs.rank_strip import rank_marks
from widgets.jobs.ranks_tab import RanksTab
from widgets.jobs.run_track import RunTrack, TrackMarks
from widgets.jobs.settings_tab import SettingsTab

_TABS = (
    ("curves", "Curves"),
    ("ranks", "Ranks"),
    ("checkpoints", "Checkpoints"),
    ("log", "Log"),
    ("settings", "Settings"),
    ("notes", "Notes"),
)
_FAILURE = ("failure", "What happened")
QUEUE_TIP = "Start it by itself as soon as its turn has come and its nodes are free"


class JobDetail(QWidget):
    """The right side of the place Jobs.

    Signals:
        start_requested, stop_requested, start_over_requested, start_cancelled,
        preflight_requested (everything is to be looked at before a start), clone_requested,
        compare_requested, csv_requested (all its curves in one table),
        bundle_requested, replay_requested (the form, to make the curve again), replayed_requested
        (how that went), remove_requested, folder_requested, checkpoints_requested,
        settings_requested: Job id.
        resume_requested: Job id, checkpoint ("" for the newest).
        resume_elsewhere_requested: Job id, and ``placement`` as a job file has it.
        new_from_requested: Job id, checkpoint a new job should start from.
        export_requested: Job id, checkpoint, format, path.
        export_kind_chosen: The format of an export, to be remembered for the next.
        take_out_requested: A checkpoint is dragged out: job id, `Checkpoint`, format, file name,
            and the `Promise` to keep.
        rename_requested, notes_requested: Job id, text. tags_requested: job id, tuple.
        save_requested: Suggested file name, bytes.
        back_requested: The list is wished for (narrow windows).
    """

    start_requested = Signal(str)
    stop_requested = Signal(str)
    resume_requested = Signal(str, str)
    resume_elsewhere_requested = Signal(str, object)
    start_over_requested = Signal(str)
    start_cancelled = Signal(str)
    preflight_requested = Signal(str)
    clone_requested = Signal(str)
    compare_requested = Signal(str)
    csv_requested = Signal(str)
    bundle_requested = Signal(str)
    replay_requested = Signal(str)
    replayed_requested = Signal(str)
    new_from_requested = Signal(str, str)
    export_requested = Signal(str, str, str, str)
    export_cancelled = Signal()
    export_kind_chosen = Signal(str)
    take_out_requested = Signal(str, object, str, str, object)
    rename_requested = Signal(str, str)
    notes_requested = Signal(str, str)
    tags_requested = Signal(str, object)
    remove_requested = Signal(str)
    folder_requested = Signal(str)
    checkpoints_requested = Signal(str)
    settings_requested = Signal(str)
    save_requested = Signal(str, object)
    back_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view: JobView | None = None
        self._checkpoints: tuple[Checkpoint, ...] = ()
        self._starts: dict[int, RunStart] = {}
        self._busy = ""
        self._can_cancel = False
        self._error: tuple[str, str] = ("", "")
        self._doubt = ""
        self._verdict: tuple[str, bool] = ("", False)
        self._shows_failure = False
        self._dialog: KeptDialog[ExportDialog] = KeptDialog()
        self._export_kind = USUAL_FORMAT
        self._elsewhere: KeptDialog[ElsewhereDialog] = KeptDialog()
        self._nodes: tuple[NodeState, ...] = ()
        self._place: QueuePlace | None = None
        self.queue = QueueActs(self)
        self._make_header()
        self._make_tabs()
        self._wishes = JobWishes(
            clone=self.clone_requested.emit,
            compare=self.compare_requested.emit,
            export=self.export,
            bundle=self.bundle_requested.emit,
            replay=self.replay_requested.emit,
            replayed=self.replayed_requested.emit,
            resume_elsewhere=self.open_elsewhere,
            look_before=self.preflight_requested.emit,
            rename=self._name.edit,
            start_over=self.start_over_requested.emit,
            open_folder=self.folder_requested.emit,
            copy_id=QGuiApplication.clipboard().setText,
            trash=self.remove_requested.emit,
        )
        FocusLead(self, self._act)
        self.setLayout(
            col(
                col(
                    self._header,
                    self._track_box,
                    self._banner,
                    self._tabs,
                    gap=S3,
                    margins=(0, 0, PAGE_MARGIN, 0),
                ),
                # Its pages reach the edge: their scroll bars stand in the margin.
                (self._pages, 1),
                gap=S3,
                margins=(PAGE_MARGIN, (HEADER_H - 40) // 2, 0, 0),
            )
        )

    # -- what comes in

    def open_job(self, view: JobView) -> None:
        """Show another job, from its beginning."""
        self.notes.flush()
        self._view = view
        self._checkpoints = ()
        self._starts.clear()
        self._busy, self._error, self._doubt = "", ("", ""), ""
        self._verdict = ("", False)
        self._place = None
        self.curves.clear(view.name)
        self.log.open_job(view)
        self.notes.open_job(view)
        self.settings.show_config(view.config)
        self.checkpoints.show_checkpoints((), view.config.checkpoint)
        self.failure.clear()
        self._show()
        failed = view.state in (JobState.ERROR, JobState.LOST)
        self._choose_tab("failure" if failed else "curves")
        self.settings_requested.emit(view.id)

    def show_update(self, update: RunUpdate) -> None:
        """News: the view, and points to append."""
        if not self._is_open(update.view.id):
            return
        self._doubt = ""
        for start in update.history.run_starts:
            self._starts[start.run] = start
        self.curves.append(update.history)
        self.show_view(update.view)

    def show_view(self, view: JobView) -> None:
        before = self._view
        if before is None or before.id != view.id:
            return
        self._view = view
        self._show()
        ended = before.state.is_live and not view.state.is_live
        if ended and view.state in (JobState.ERROR, JobState.LOST):
            self.log.open_job(view)
            self._choose_tab("failure")
        elif self._tabs.key() == "failure" and not self._has_failed(view):
            self._choose_tab("curves")
        new_epoch = view.epoch != before.epoch or view.state is not before.state
        if new_epoch:
            self.checkpoints_requested.emit(view.id)

    def show_place(self, place: QueuePlace | None) -> None:
        """Where the open job stands in the queue."""
        if place != self._place:
            self._place = place
            self._show()

    def show_checkpoints(self, job_id: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        if self._view is None or not self._is_open(job_id):
            return
        self._checkpoints = checkpoints
        self.checkpoints.show_checkpoints(checkpoints, self._view.config.checkpoint)
        self.curves.show_checkpoints(checkpoints)
        self.failure.show_checkpoints(checkpoints)
        self._tabs.set_count("checkpoints", formats.count(len(checkpoints)) if checkpoints else "")
        self._show()

    def show_settings(self, job_id: str, toml: str, command: tuple[str, ...]) -> None:
        if self._is_open(job_id):
            self.settings.show_file(toml, command)

    def show_busy(self, job_id: str, sentence: str) -> None:
        """An act is under way ("Starting…"), or is over ("")."""
        if self._is_open(job_id):
            self._busy, self._can_cancel = sentence, False
            if sentence:
                self._error = ("", "")
            self._show()

    def show_starting(self, job_id: str, sentence: str) -> None:
        """A start is under way, which can be cancelled until it has begun; or is over ("")."""
        self.show_busy(job_id, sentence)
        if self._is_open(job_id) and sentence:
            self._can_cancel = True
            self._show()

    def show_error(self, job_id: str, sentence: str, remedy: str = "") -> None:
        """An act was refused; said atop this page until the next act."""
        if self._dialog.now is not None and self._dialog.now.isVisible():
            self._dialog.now.show_error(f"{sentence} {remedy}".strip())
        elif self._is_open(job_id):
            self._error = (sentence, remedy)
            self._show()

    def show_doubt(self, job_id: str, sentence: str) -> None:
        """The job could not be looked at: doubt, which is not a state."""
        if self._is_open(job_id):
            self._doubt = sentence
            self._show()

    def show_verdict(self, job_id: str, sentence: str, is_same: bool) -> None:
        """How the replay that is open went beside its original."""
        if self._is_open(job_id):
            self._verdict = (sentence, is_same)
            self._show()

    def show_export_progress(self, job_id: str, share: float | None, text: str) -> None:
        if self._is_open(job_id) and self._dialog.now is not None:
            self._dialog.now.show_progress(share, text)

    def show_exported(self, job_id: str, path: str) -> None:
        if self._is_open(job_id) and self._dialog.now is not None:
            self._dialog.now.show_done(path)

    def set_narrow(self, narrow: bool) -> None:
        """Where list and detail take turns there is a way back."""
        self._back.setVisible(narrow)

    # -- acts by key

    @Slot(int)
    def step_tab(self, by: int) -> None:
        self._tabs.step(by)

    @Slot()
    def toggle_log_y(self) -> None:
        self.curves.toggle_log()

    @Slot()
    def fit(self) -> None:
        self.curves.fit()

    @Slot()
    def focus_smoothing(self) -> None:
        self._choose_tab("curves")
        self.curves.focus_smoothing()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc leads back to the list, from whatever had no use for it."""
        if event.key() == Qt.Key.Key_Escape and not event.modifiers():
            self.back_requested.emit()
        else:
            super().keyPressEvent(event)

    @Slot()
    def focus_log(self) -> None:
        self._choose_tab("log")
        self.log.focus_search()

    @Slot()
    def export(self) -> None:
        self._open_export("")

    # -- how it is made

    def _make_header(self) -> None:
        self._back = IconButton("arrow-left", "All jobs")
        self._back.clicked.connect(self.back_requested)
        self._back.hide()
        self._ring = RankRing(96)
        self._name = JobName()
        self._name.renamed.connect(lambda name: self.rename_requested.emit(self._id(), name))
        self._badge = StateBadge()
        self._facts = Facts()
        self._act = Button("Start", icon="play")
        self._act.clicked.connect(self._do_act)
        self._wait = Button("Queue", tip=QUEUE_TIP)
        self._wait.clicked.connect(self._do_wait)
        self._more = IconButton("dots-three", "More")
        self._menu = QMenu(self._more)
        self._menu.aboutToShow.connect(self._fill_menu)
        self._more.setMenu(self._menu)
        words = col(
            row((self._name, 1), self._wait, self._act, self._more, gap=S2),
            self._badge,
            S1,
            self._facts,
            gap=2,
        )
        self._header = QWidget()
        self._header.setLayout(row(self._back, self._ring, (words, 1), gap=S3))
        self._track = RunTrack()
        self._caption = Label("", "small", "text2", elide="right")
        self._epochs = Label("", "small", "text3")
        self._track_box = QWidget()
        self._track_box.setLayout(
            col(self._track, row((self._caption, 1), self._epochs, gap=S4), gap=2)
        )
        self._banner = Banner()
        self._banner.hide()

    def _make_tabs(self) -> None:
        self.curves = CurvesTab()
        self.ranks = RanksTab()
        self.checkpoints = CheckpointsTab()
        self.log = LogTab()
        self.settings = SettingsTab()
        self.notes = NotesTab()
        self.failure = FailureTab(self.curves.run_curves)
        self._pages = QStackedWidget()
        self._by_key: dict[str, QWidget] = {
            "failure": self.failure,
            "curves": self.curves,
            "ranks": self.ranks,
            "checkpoints": self.checkpoints,
            "log": self.log,
            "settings": self.settings,
            "notes": self.notes,
        }
        for page in self._by_key.values():
            self._pages.addWidget(page)
        self._tabs = UnderlinedTabs(_TABS, "curves", name="Parts of the job")
        self._tabs.chosen.connect(self._tab_chosen)
        for key, does in (("[", "Previous tab"), ("]", "Next tab"), ("Ctrl+L", "Log")):
            self._tabs.add_tip(plain_tip(does, key))
        self._pages.setCurrentWidget(self.curves)
        self.curves.save_requested.connect(self.save_requested)
        self.curves.csv_requested.connect(lambda: self.csv_requested.emit(self._id()))
        self.checkpoints.resume_requested.connect(self._resume_from)
        self.checkpoints.new_from_requested.connect(
            lambda name: self.new_from_requested.emit(self._id(), name)
        )
        self.checkpoints.export_requested.connect(self._open_export)
        self.checkpoints.drag_began.connect(self._take_out)
        self.notes.notes_changed.connect(lambda text: self.notes_requested.emit(self._id(), text))
        self.notes.tags_changed.connect(lambda tags: self.tags_requested.emit(self._id(), tags))
        self.failure.resume_requested.connect(self._resume_from)
        self.failure.clone_requested.connect(lambda: self.clone_requested.emit(self._id()))
        self.failure.log_requested.connect(self._show_log_of)

    # -- what is shown

    def _show(self) -> None:
        view = self._view
        if view is None:
            return
        self._fit_tabs(view)
        self._ring.set_progress(view.state, view.progress, rank_marks(view))
        self._name.show_name(view.name)
        self._badge.set_state(view.state, view.progress, circumstances(view))
        self._facts.set_facts(facts(view))
        self._fit_act(view)
        self._track.show_progress(view.state, view.progress, view.epochs)
        total = view.total_steps
        if total:
            kept = tuple(min(1.0, c.step / total) for c in self._checkpoints)
            runs = tuple(
                min(1.0, (s.first_step - 1) / total) for s in self._starts.values() if s.run > 1
            )
            failed = view.progress if self._has_failed(view) else None
            self._track.show_marks(TrackMarks(kept, runs, failed))
        else:
            self._track.show_marks(TrackMarks())
        self._caption.setText(self._busy or what_stop_costs(view, self._checkpoints, self._place))
        self._epochs.setText(formats.plural(view.epochs, "epoch"))
        self._show_banner(view)
        self.curves.show_view(view)
        self.ranks.show_view(view, self.curves.began_s)
        self.checkpoints.set_live(view.state.is_live)
        if self._has_failed(view):
            self.failure.show_view(view)
        self.log.show_view(view)

    def _fit_tabs(self, view: JobView) -> None:
        wants = self._has_failed(view)
        if wants != self._shows_failure:
            self._shows_failure = wants
            tabs = (_FAILURE, *_TABS) if wants else _TABS
            kept = self._tabs.key()
            self._tabs.set_tabs(tabs, kept if wants or kept != "failure" else "curves")
            count = formats.count(len(self._checkpoints)) if self._checkpoints else ""
            self._tabs.set_count("checkpoints", count)
        self._tabs.set_count("ranks", formats.count(view.world_size))

    def _fit_act(self, view: JobView) -> None:
        act = main_act(view)
        if self._busy and self._can_cancel:
            act = MainAct("Cancel", "x")
        elif self._busy:
            act = replace(act, text=self._busy, is_able=False)
        self._act.setText(act.text)
        key = KEYS_OF_ACTS.get(act.text, "")
        self._act.setToolTip(plain_tip(act.text, key) if key else "")
        self._act.set_icon(act.icon)
        self._act.set_kind("primary" if act.is_primary else "plain")
        self._act.setEnabled(act.is_able)
        self._wait.setVisible(view.state in (JobState.CREATED, JobState.QUEUED))
        self._wait.setText("Take out" if view.state is JobState.QUEUED else "Queue")
        self._wait.set_tip(
            "Take it out of the queue" if view.state is JobState.QUEUED else QUEUE_TIP
        )
        self._wait.setEnabled(not self._busy)

    def _show_banner(self, view: JobView) -> None:
        found = finding(view, self._error, self._doubt, self._place, self._verdict)
        if found is not None:
            self._banner.set_finding(found.family, found.sentence, found.more, icon=found.icon)
        self._banner.setVisible(found is not None)

    # -- what happens

    def _id(self) -> str:
        return self._view.id if self._view is not None else ""

    def _is_open(self, job_id: str) -> bool:
        return self._view is not None and self._view.id == job_id

    @staticmethod
    def _has_failed(view: JobView) -> bool:
        return view.state in (JobState.ERROR, JobState.LOST)

    def _choose_tab(self, key: str) -> None:
        self._tabs.choose(key)
        self._tab_chosen(key)

    @Slot(str)
    def _tab_chosen(self, key: str) -> None:
        self._pages.setCurrentWidget(self._by_key[key])
        if key == "checkpoints" and self._view is not None:
            self.checkpoints_requested.emit(self._id())

    @Slot()
    def _do_act(self) -> None:
        view = self._view
        if view is None:
            return
        if self._busy and self._can_cancel:
            self.start_cancelled.emit(view.id)
        elif view.state.is_live:
            self.stop_requested.emit(view.id)
        elif view.state is JobState.CREATED or (view.state is JobState.QUEUED and not view.run):
            self.start_requested.emit(view.id)
        elif view.state is JobState.FINISHED:
            self._open_export("")
        else:
            self.resume_requested.emit(view.id, "")

    @Slot()
    def _do_wait(self) -> None:
        view = self._view
        if view is not None and view.state is JobState.QUEUED:
            self.queue.leave_requested.emit(view.id)
        elif view is not None:
            self.queue.queue_requested.emit(view.id)

    @Slot(str)
    def _resume_from(self, checkpoint: str) -> None:
        self.resume_requested.emit(self._id(), checkpoint)

    @Slot(str, int)
    def _show_log_of(self, source: str, line: int) -> None:
        self._choose_tab("log")
        self.log.show_source(source, line)

    @Slot()
    def _fill_menu(self) -> None:
        view = self._view
        self._menu.clear()
        if view is None:
            return
        self.queue.fill(self._menu, view, self._place)
        if self._menu.actions():
            self._menu.addSeparator()
        fill_menu(
            self._menu,
            view,
            self._wishes,
            has_checkpoints=bool(self._checkpoints),
            is_busy=bool(self._busy),
        )

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """The nodes on which a job can go on."""
        self._nodes = states
        if self._elsewhere.now is not None:
            self._elsewhere.now.show_nodes(states)

    def show_pasts(
        self,
        histories: Mapping[str, NodeHistory],
        beats: Mapping[str, str],
        now_s: float,
    ) -> None:
        """What is known of the last hours of the nodes, and how long ago each was heard of."""
        states = {state.name: state for state in self._nodes}
        self.ranks.show_nodes(states, histories, beats)
        if self._view is not None:
            began_s = self.curves.began_s
            unwell = unwell_of_job(self._view, states, histories, began_s, now_s)
            self.curves.show_unwell(unwell)
            if self._has_failed(self._view):
                self.failure.show_nodes(states, histories, unwell)

    @property
    def job_nodes(self) -> tuple[str, ...]:
        """The nodes of the open job, once it has run."""
        view = self._view
        return tuple(dict.fromkeys(view.nodes)) if view is not None and view.run else ()

    def open_elsewhere(self, without: str = "") -> None:
        """Ask where the job goes on, a node left out."""
        view = self._view
        if view is None or self._elsewhere.now is not None:
            return
        placement = view.config.to_dict()["placement"]
        dialog = ElsewhereDialog(view.name, placement, self._nodes, without, self)
        dialog.resume_requested.connect(partial(self.resume_elsewhere_requested.emit, view.id))
        self._elsewhere.open(dialog)

    @Slot(str)
    def _open_export(self, checkpoint: str) -> None:
        view = self._view
        if view is None or not self._checkpoints:
            return
        dialog = ExportDialog(
            view.name, self._checkpoints, checkpoint, _home(), self._export_kind, self
        )
        dialog.export_requested.connect(partial(self._wish_export, view.id))
        dialog.export_cancelled.connect(self.export_cancelled)
        self._dialog.open(dialog)

    def restore_export_kind(self, kind: str) -> None:
        """What `export_kind_chosen` told; a file may say anything."""
        if is_format(kind):
            self._export_kind = kind
            self.checkpoints.set_export_kind(kind)

    def _wish_export(self, job_id: str, checkpoint: str, kind: str, path: str) -> None:
        self.restore_export_kind(kind)
        self.export_kind_chosen.emit(kind)
        self.export_requested.emit(job_id, checkpoint, kind, path)

    @Slot(object, object)
    def _take_out(self, checkpoint: Checkpoint, promise: Promise) -> None:
        if self._view is not None:
            kind = self._export_kind
            name = export_name(self._view.name, kind)
            self.take_out_requested.emit(self._view.id, checkpoint, kind, name, promise)


def _home() -> str:
    return QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
