"""The side bar: running jobs, their progress, and node health; at the same spot on every page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QRectF, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.buttons import IconButton
from widgets.common.cards import Separator
from widgets.common.drag_and_drop import DraggedJobs, DropOffer
from widgets.common.labels import IconLabel, Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import paint_focus
from widgets.common.state_badge import MAX_SEGMENTS, Logo, Mark, RankRing, state_color_role
from widgets.common.theme import (
    ICON_LARGE,
    RAIL_W,
    S1,
    S2,
    S3,
    S4,
    SIDEBAR_W,
    SIDEBAR_WIDE_W,
)
from widgets.jobs.ranks.rank_strip import rank_marks
from widgets.shell.cluster_summary import MAP_MIN_H_SINGLE, NOTES_MIN_H, ClusterSummary
from widgets.shell.nav_button import NavButton
from widgets.shell.notification_list import NotificationBell
from widgets.shell.pages import PAGES
from widgets.shell.shortcuts import SHORTCUTS

_MAX_RINGS = 3
_LOW_RINGS, _LOW_H = 2, 700
"""In a narrow bar lower than this, a third ring would be cut."""
_LOWEST_RINGS, _LOWEST_H = 1, 600
"""In any bar lower than this, a second ring and the mark would be cut."""
_FIXED_PARTS_H = 516
"""The height of all that a bar always shows, from its pages to its foot."""
_RING_SIZE = RAIL_W - 2 * S3
"""The largest size that fits the narrow bar."""


class RunningJob(QWidget):
    """A live job: its ring, its name, and its percentage, readable from two metres away.

    Signals:
        job_opened: The job's id.
    """

    job_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._job_id = ""
        self._view: JobView | None = None
        self._is_narrow = False
        self._is_stale = False
        self._name = Label("", "name", elide="middle")
        self._ring = RankRing(_RING_SIZE, role="strong", with_figure=False, width=6)
        self._percent = Label("", "far")
        self._unit = Label("%", "small_strong", "text2")
        self._time_left = Label("", "strong", "live", align="right", elide="right")
        self._phase = Label("", "small", "text2", elide="right")
        figures = row(self._percent, self._unit, (self._time_left, 1), gap=3)
        self._texts = QWidget()
        self._texts.setLayout(col(figures, self._phase, gap=0))
        self.setLayout(col(self._name, row(self._ring, (self._texts, 1), gap=S3), gap=2))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_job(self, view: JobView) -> None:
        self._job_id, self._view = view.id, view
        self._name.setText(view.name)
        self._show_ring()
        self._percent.setText(formats.progress_figure(view.progress))
        self._unit.setText("" if view.progress is None else "%")
        self._time_left.setText(formats.short_time_left(view.status.eta_s))
        unit = "GPU" if view.config.uses_gpus else "process"
        plural = "GPUs" if view.config.uses_gpus else "processes"
        processes = formats.plural(view.process_count, unit, plural)
        self._phase.setText(view.contact_warning or f"{processes} · {view.state_label}")
        self._phase.set_color_role("warn" if view.contact_warning else "text2")
        self._update_colors()
        description = f"{view.name}, {view.state_label}, {formats.progress(view.progress)}"
        self.setAccessibleName(description)
        self.setToolTip(plain_tip(description))

    def set_narrow(self, is_narrow: bool) -> None:
        """Set whether the bar is narrow: the ring has the percentage, in place of its ranks."""
        self._is_narrow = is_narrow
        self._name.setVisible(not is_narrow)
        self._texts.setVisible(not is_narrow)
        self._ring.set_figure(is_narrow)
        self._show_ring()

    def set_stale(self, is_stale: bool) -> None:
        """Mark its figures as possibly outdated."""
        self._is_stale = is_stale
        self._update_colors()

    def _show_ring(self) -> None:
        if self._view is not None:
            ranks: Sequence[Mark] = () if self._is_narrow else ring_segments(self._view)
            self._ring.set_progress(self._view.state, self._view.progress, ranks)

    def _update_colors(self) -> None:
        self._percent.set_color_role("text3" if self._is_stale else "text")
        if self._view is not None:
            self._time_left.set_color_role(
                "text3" if self._is_stale else state_color_role(self._view.state)
            )

    def set_wide(self, is_wide: bool) -> None:
        self._percent.set_role("far_large" if is_wide else "far")

    def mousePressEvent(self, _event: QMouseEvent) -> None:
        self.job_opened.emit(self._job_id)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(self.rect()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.job_opened.emit(self._job_id)
        else:
            super().keyPressEvent(event)


def ring_segments(view: JobView) -> Sequence[Mark]:
    """The segments of a job's ring: one for each rank, or one for each node if there are many."""
    marks = rank_marks(view)
    if len(marks) <= MAX_SEGMENTS:
        return marks
    worst_marks: list[Mark] = []
    for placement in view.config.placement[:MAX_SEGMENTS]:
        node_marks, marks = marks[: placement.process_count], marks[placement.process_count :]
        worst_marks.append("bad" if "bad" in node_marks else "warn" if "warn" in node_marks else "")
    return worst_marks


class SideBar(QWidget):
    """Pages, running jobs, the cluster, and the buttons at the bottom.

    Signals:
        page_chosen: Key of a page.
        jobs_dropped: Ids of jobs that were dropped on Compare, as a tuple.
        job_opened: Id of a running job.
        node_opened: Name of a node of the map, after its page was chosen.

    Attributes:
        folder, bell, theme, keys, help, gear: Buttons; the window connects them.
    """

    page_chosen = Signal(str)
    jobs_dropped = Signal(object)
    job_opened = Signal(str)
    node_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self._is_narrow = False
        self._is_wide = False
        self._available_h = _LOW_H
        self._live_views: tuple[JobView, ...] = ()
        self._has_read_jobs = False
        self._buttons = {page.key: NavButton(page) for page in PAGES}
        for key, button in self._buttons.items():
            button.clicked.connect(partial(self.page_chosen.emit, key))
            button.drag_dwelt.connect(partial(self.page_chosen.emit, key))
            button.jobs_dropped.connect(self.jobs_dropped)
        self._program_name = Label("Ringmaster", "name")
        logo = Logo(24)
        logo.setToolTip(_window_shortcuts())
        self._header = QWidget()
        self._header.setLayout(
            row(logo, self._program_name, STRETCH, gap=S3, margins=(S4 - S1, 0, 0, S3))
        )
        self._failure = Label("", "small", "bad", wrap=True)
        self._failure.setContentsMargins(S2, 0, S2, 0)
        self._failure_mark = IconLabel("wifi-slash", "bad", ICON_LARGE)
        for part in (self._failure, self._failure_mark):
            part.hide()
        self._make_running_part()
        self.cluster = ClusterSummary()
        self.cluster.node_opened.connect(self._open_node)
        self._cluster = QWidget()
        self._cluster.setLayout(col(self.cluster, margins=(S2, 0, S2, 0)))
        self._make_footer()
        self._separators = (Separator(), Separator())
        self.setLayout(
            col(
                *(self._header, col(*self._buttons.values(), gap=2), S2),
                *(self._separators[0], S1, self._failure),
                row(STRETCH, self._failure_mark, STRETCH),
                *(self._running_part, self._separators[1], S1, self._cluster, STRETCH),
                *(row(self.folder, (self._root, 1), gap=2), self._footer),
                gap=S2,
                margins=(S3, S4, S3, S3),
            )
        )
        self.setFixedWidth(SIDEBAR_W)
        self._update_live()

    def _make_running_part(self) -> None:
        self._running_title = Label("Running", "small_strong", "text2")
        self._running_count = Label("", "small", "text3")
        self._jobs = [RunningJob() for _ in range(_MAX_RINGS)]
        for job in self._jobs:
            job.job_opened.connect(self.job_opened)
            job.hide()
        self._more_label = Label("", "small", "text3")
        self._more_label.hide()
        self._next_label = Label("", "small", "text2", elide="middle")
        self._next_label.hide()
        self._running_part = QWidget()
        self._running_part.setLayout(
            col(
                row(self._running_title, STRETCH, self._running_count),
                *self._jobs,
                col(self._more_label, self._next_label, gap=2),
                gap=S3,
                margins=(S2, 0, S2, 0),
            )
        )

    def _make_footer(self) -> None:
        self._root = Label("", "small", "text2", elide="middle")
        self.folder = IconButton("folder", "Open the data root")
        self.bell = NotificationBell()
        self.theme = IconButton("moon", "Dark or light")
        self.gear = IconButton("gear", "Settings")
        self.gear.setToolTip(plain_tip("Settings", "Ctrl+,"))
        self.keys = IconButton("keyboard", "Keyboard shortcuts")
        self.keys.setToolTip(plain_tip("Keyboard shortcuts", "?"))
        self.help = IconButton("question", "Help")
        self.help.setToolTip(plain_tip("Help", "F1"))
        buttons = (self.bell, self.theme, self.keys, self.help, self.gear)
        self._footer = row(*buttons, STRETCH, gap=2)
        for action_button in buttons:
            self._footer.setAlignment(action_button, Qt.AlignmentFlag.AlignCenter)

    def choose(self, key: str) -> None:
        """Highlight a page, or none if the present page is not in the side bar."""
        for page_key, button in self._buttons.items():
            # A button of an exclusive group cannot be unchecked.
            button.setAutoExclusive(key in self._buttons)
            button.setChecked(page_key == key)

    def set_count(self, key: str, count: int) -> None:
        self._buttons[key].set_count(count)

    def accept_jobs(self, describe_drop: Callable[[DraggedJobs], DropOffer]) -> None:
        """Accept jobs that are dropped on Compare; ``describe_drop`` describes the drop."""
        self._buttons["compare"].accept_jobs(describe_drop)

    def set_root(self, path: str) -> None:
        self._root.setText(path)

    def set_dark(self, dark: bool) -> None:
        self.theme.set_icon("sun" if dark else "moon")

    def set_unread(self, count: int) -> None:
        """Set the number of unread notifications."""
        self.bell.set_count(count)

    def show_error(self, message: str) -> None:
        """Show that the data root does not respond, or "" if it does."""
        self._failure.setText(message)
        self._failure_mark.setToolTip(plain_tip(message))
        self._failure_mark.setAccessibleName(message)
        for job in self._jobs:
            job.set_stale(bool(message))
        self._update_failure()
        self._update_live()

    def _update_failure(self) -> None:
        has_failure = bool(self._failure.text())
        self._failure.setVisible(has_failure and not self._is_narrow)
        self._failure_mark.setVisible(has_failure and self._is_narrow)
        # The message takes the space of the logo in a low bar.
        is_tight = has_failure and self._available_h < _LOW_H
        self._header.setVisible(self._available_h >= _LOWEST_H and not is_tight)

    def show_live(self, views: tuple[JobView, ...]) -> None:
        """Show the running jobs, oldest first; a job keeps its position while it runs."""
        self._live_views, self._has_read_jobs = views, True
        self._update_live()

    def _update_live(self) -> None:
        views = self._live_views
        self._running_count.setText(formats.count(len(views)) if views else "")
        max_rings = self._max_rings()
        for index, job in enumerate(self._jobs):
            job.setVisible(index < min(max_rings, len(views)))
            if index < len(views):
                job.show_job(views[index])
        free_h = self._available_h - self._fixed_h() - min(max_rings, len(views)) * self._ring_h()
        free_h -= self._fit_cluster(free_h)
        # In a low bar the count next to the title shows the number.
        has_room = free_h >= self._more_label.sizeHint().height() + S3
        hidden_count = len(views) - max_rings if has_room else 0
        # Nothing is known while the data root is being opened.
        idle_text = "Nothing is running" if self._has_read_jobs else ""
        self._more_label.setText(f"and {hidden_count} more" if hidden_count > 0 else idle_text)
        self._more_label.setVisible((hidden_count > 0 or not views) and not self._is_narrow)
        self._next_label.setVisible(
            not views and bool(self._next_label.text()) and not self._is_narrow
        )
        for separator in self._separators:
            has_room = not self._is_narrow or self._available_h >= _LOWEST_H
            separator.setVisible(has_room and (not self._is_narrow or bool(views)))

    def _max_rings(self) -> int:
        """Return the number of running jobs that fit."""
        if self._available_h < _LOWEST_H:
            return _LOWEST_RINGS
        if self._is_narrow:
            return _LOW_RINGS if self._available_h < _LOW_H else _MAX_RINGS
        fitting_count = (self._available_h - self._fixed_h()) // self._ring_h()
        return max(_LOWEST_RINGS, min(_MAX_RINGS, fitting_count))

    def _ring_h(self) -> int:
        return self._jobs[0].minimumSizeHint().height() + S3

    def _fixed_h(self) -> int:
        has_failure = bool(self._failure.text())
        width = self.width() - 2 * S3
        return _FIXED_PARTS_H + (self._failure.heightForWidth(width) + S2 if has_failure else 0)

    def _fit_cluster(self, free_h: int) -> int:
        """Hide the map, then the notes, if they do not fit; return the height in use."""
        notes_h, map_h = self.cluster.heights()
        cluster_h = self._available_h
        if notes_h > free_h:
            cluster_h = min(cluster_h, NOTES_MIN_H - 1)
        elif notes_h + map_h > free_h:
            cluster_h = min(cluster_h, MAP_MIN_H_SINGLE - 1)
        self.cluster.set_available_height(cluster_h)
        return sum(self.cluster.heights(of_visible_parts=True))

    def show_queue(self, queue: Queue) -> None:
        """While nothing runs, show the next queued job and its wait reason."""
        next_job = next(iter(queue.jobs), None)
        self._next_label.setText(f"Next: {next_job.entry.name}" if next_job is not None else "")
        self._next_label.set_tip(next_job.message if next_job is not None else "")
        self._update_live()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Show all nodes in their fixed order."""
        self.cluster.show_nodes(states)
        self.set_count("nodes", len(states))
        self._update_live()

    def set_narrow(self, is_narrow: bool) -> None:
        """Set whether the bar is narrow, with only icons and rings."""
        if is_narrow == self._is_narrow:
            return
        self._is_narrow = is_narrow
        self._update_width()
        margin = 0 if is_narrow else S2
        for part in (self._running_part, self._cluster):
            layout = part.layout()
            if layout is not None:
                layout.setContentsMargins(margin, 0, margin, 0)
        for button in self._buttons.values():
            button.set_narrow(is_narrow)
        for job in self._jobs:
            job.set_narrow(is_narrow)
        for widget in (
            self._program_name,
            self._root,
            self._running_title,
            self._running_count,
            self.folder,
        ):
            widget.setVisible(not is_narrow)
        directions = QBoxLayout.Direction
        self._footer.setDirection(directions.TopToBottom if is_narrow else directions.LeftToRight)
        self.cluster.set_narrow(is_narrow)
        self._update_failure()
        self._update_live()

    def set_wide(self, is_wide: bool) -> None:
        """Set whether the screen is large, with larger figures."""
        if is_wide == self._is_wide:
            return
        self._is_wide = is_wide
        self._update_width()
        for job in self._jobs:
            job.set_wide(is_wide)
        self.cluster.set_wide(is_wide)

    def _update_width(self) -> None:
        full_width = SIDEBAR_WIDE_W if self._is_wide else SIDEBAR_W
        self.setFixedWidth(RAIL_W if self._is_narrow else full_width)

    @Slot(int)
    def set_available_height(self, height: int) -> None:
        """Set the height of the window: a low one hides the cluster, rings and the logo."""
        self._available_h = height
        self._update_failure()
        self._update_live()

    @Slot(str)
    def _open_node(self, name: str) -> None:
        self.page_chosen.emit("nodes")
        self.node_opened.emit(name)


def _window_shortcuts() -> str:
    """The keys of the window that no button shows, one per line."""
    keys = ("Ctrl+K", "Alt+Left", "Alt+Right", "F5", "Shift+F10", "F11", "?")
    labels = {key.key: key.label for key in SHORTCUTS if not key.page_title}
    return "\n".join(plain_tip(labels[key], key) for key in keys)
