"""The right-hand column of a node's page: results of a check, and its processes by owner."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QTimer, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.nodes.partition import Partition
from backend.records.nodes.reading import (
    Finding,
    GpuProcess,
    HealthFinding,
    HostProcess,
    NodeReading,
    Orphan,
    short_command,
)
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import Card, Separator
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import S1, S2, ColorRole, Role
from widgets.nodes.page.node_actions import MOVE_OFF, NodeActions

_MAX_LINES = 12
_SECOND_MS = 1000
_CHECKING = (
    "Checking Python, PyTorch, Horovod, Open MPI, the data root and the GPUs; "
    "two ranks add up a number"
)


class _FindingLine(NamedTuple):
    icon: str
    color_role: ColorRole
    message: str
    remedy: str
    role: Role
    orphan: Orphan | None = None
    is_ending: bool = False
    tip: str = ""


class _FindingRow(QWidget):
    """One line of the findings; an orphan has a button, which calls ``end_orphan``."""

    def __init__(self, end_orphan: Callable[[Orphan], object]) -> None:
        super().__init__()
        self._end_orphan = end_orphan
        self._icon = IconLabel("warning-fill", "warn")
        self._message = Label("", wrap=True)
        self._remedy = Label("", color_role="text2", wrap=True, selectable=True)
        self._orphan: Orphan | None = None
        self._end_button = Button("End process", icon="x")
        self._end_button.clicked.connect(self._request_end)
        self._button_row = QWidget()
        self._button_row.setLayout(row(self._end_button, STRETCH, margins=(0, S1, 0, 0)))
        text_column = col(self._message, self._remedy, self._button_row, gap=2)
        self.setLayout(row(self._icon, (text_column, 1), top=True))

    def show_line(self, line: _FindingLine) -> None:
        self._icon.set_icon(line.icon, line.color_role)
        self._message.setText(line.message)
        self._message.set_tip(line.tip)
        self._message.setAccessibleDescription(line.tip)
        self._message.set_color_role("text2" if line.color_role == "good" else "text")
        self._remedy.setText(line.remedy)
        self._remedy.set_role(line.role)
        self._remedy.setVisible(bool(line.remedy))
        self._orphan = line.orphan
        self._button_row.setVisible(line.orphan is not None)
        if line.orphan is not None:
            self._end_button.setText("Ending…" if line.is_ending else "End process")
            self._end_button.setEnabled(not line.is_ending)
            self._end_button.setAccessibleName(f"End {process_label(line.orphan)}")
        self.show()

    @Slot()
    def _request_end(self) -> None:
        if self._orphan is not None:
            self._end_orphan(self._orphan)


class FindingsCard(Card):
    """The known problems of a node, and the results of a check, each with its remedy.

    Args:
        end_orphan: Ends an orphan.
    """

    def __init__(self, end_orphan: Callable[[Orphan], object]) -> None:
        self._end_orphan = end_orphan
        self._column = col(gap=S2)
        super().__init__(Label("Findings", "strong"), self._column, gap=S2)
        self._rows: list[_FindingRow] = []
        self._lines: tuple[_FindingLine, ...] = ()
        self._health: tuple[HealthFinding, ...] = ()
        self._findings: tuple[Finding, ...] = ()
        self._is_checking = False
        self._check_start_s = 0.0
        self._clock = QTimer(self, interval=_SECOND_MS)
        self._clock.timeout.connect(self._refresh)
        self._orphans: tuple[_FindingLine, ...] = ()
        self.hide()

    def show_health(self, health: tuple[HealthFinding, ...]) -> None:
        """Show what the readings report."""
        self._health = health
        self._refresh()

    def show_checking(self) -> None:
        """Name the steps of a running check; the steps run in parallel."""
        self._is_checking, self._check_start_s = True, time.monotonic()
        self._refresh()
        self._clock.start()

    def show_findings(self, findings: tuple[Finding, ...]) -> None:
        """Show the results of a finished check."""
        self._findings, self._is_checking = findings, False
        self._refresh()

    def show_orphans(
        self,
        orphans: Iterable[Orphan],
        ending_processes: Collection[ProcessIdentity],
        jobs: Mapping[str, str],
    ) -> None:
        """Show the processes that runs left behind, each with its button.

        Args:
            ending_processes: The processes that are being ended.
            jobs: Names of jobs by their id.
        """
        self._orphans = tuple(_orphan_line(orphan, ending_processes, jobs) for orphan in orphans)
        self._refresh()

    def clear(self) -> None:
        """Clear for another node, which was not checked yet."""
        self._health, self._findings, self._orphans = (), (), ()
        self._is_checking = False
        self._refresh()
        for finding_row in self._rows:
            finding_row.hide()

    @Slot()
    def _refresh(self) -> None:
        if not self._is_checking:
            self._clock.stop()
        lines = tuple(self._current_lines())
        if lines != self._lines:
            self._lines = lines
            self.setVisible(bool(lines))
            self._show_lines(lines)

    def _show_lines(self, lines: Sequence[_FindingLine]) -> None:
        while len(self._rows) < len(lines):
            new_row = _FindingRow(self._end_orphan)
            self._rows.append(new_row)
            self._column.addWidget(new_row)
        for finding_row, line in zip(self._rows, lines, strict=False):
            finding_row.show_line(line)
        for finding_row in self._rows[len(lines) :]:
            finding_row.hide()

    def _current_lines(self) -> Iterator[_FindingLine]:
        last_remedy = ""
        for health_finding in self._health:
            # Heat and its consequences have the same remedy, which is shown once.
            is_repeated = health_finding.remedy == last_remedy
            yield _FindingLine(
                "warning-fill",
                "warn",
                health_finding.message,
                "" if is_repeated else health_finding.remedy,
                "body",
            )
            last_remedy = health_finding.remedy
        yield from self._orphans
        if self._is_checking:
            elapsed_s = time.monotonic() - self._check_start_s
            remedy = f"{formats.duration(int(elapsed_s))} until now." if elapsed_s >= 1 else ""
            yield _FindingLine("clock", "text2", _CHECKING, remedy, "body")
            return
        for finding in self._findings:
            if not finding.ok:
                yield _FindingLine("x-circle-fill", "bad", finding.message, finding.remedy, "mono")
        passed_checks = [finding.message for finding in self._findings if finding.ok]
        if passed_checks:
            summary = (
                passed_checks[0]
                if len(passed_checks) == 1
                else f"{len(passed_checks)} checks passed"
            )
            tip = "\n".join(passed_checks[1:] and passed_checks)
            yield _FindingLine("check-circle-fill", "good", summary, "", "mono", tip=tip)


def _orphan_line(
    orphan: Orphan, ending_processes: Collection[ProcessIdentity], jobs: Mapping[str, str]
) -> _FindingLine:
    job_id = orphan.run_tag.rpartition("/")[0]
    run_name = f"“{jobs[job_id]}”" if job_id in jobs else f"job {job_id}" if job_id else "a run"
    age, memory = formats.rough_duration(orphan.age_s), formats.memory(orphan.memory_bytes)
    message = f"{process_label(orphan)} was left behind by {run_name}, {age} old, {memory}."
    is_ending = orphan.process in ending_processes
    return _FindingLine("warning-fill", "warn", message, orphan.message, "body", orphan, is_ending)


def process_label(orphan: Orphan) -> str:
    """Return "python, pid 51204"."""
    program = orphan.command.partition(" ")[0].rpartition("/")[2] or "A process"
    return f"{program}, pid {orphan.process.pid}"


class PartitionsCard(Card):
    """The partitions of a cluster: limit, free GPUs, and the nodes that are out of use."""

    def __init__(self) -> None:
        self._rows = col(gap=S2)
        super().__init__(Label("Partitions", "strong"), self._rows, gap=S2)
        self._partitions: tuple[Partition, ...] = ()
        self.hide()

    def show_partitions(self, partitions: tuple[Partition, ...]) -> None:
        self.setVisible(bool(partitions))
        if partitions == self._partitions:
            return
        self._partitions = partitions
        clear(self._rows)
        for partition in partitions:
            limit_s = partition.time_limit_s
            usable_count = sum(node.is_usable for node in partition.nodes)
            figures = (
                "" if partition.is_up else "down",
                f"{usable_count} of {formats.plural(len(partition.nodes), 'node')}",
                f"GPUs free: {partition.gpu_label}" if partition.gpu_label else "",
                "no time limit" if limit_s is None else f"{formats.duration(limit_s)} at most",
            )
            unusable_nodes = (
                f"{node.name} is {node.state}{f': {node.reason}' if node.reason else ''}"
                for node in partition.nodes
                if not node.is_usable
            )
            title = f"{partition.name}, default" if partition.is_default else partition.name
            lines = [
                Label(title, elide="right"),
                Label(" · ".join(filter(None, figures)), color_role="text2", wrap=True),
                *(Label(text, color_role="warn", wrap=True) for text in unusable_nodes),
            ]
            self._rows.addLayout(col(*lines, gap=2))


class JobsCard(Card):
    """The jobs that run on a node, each with a button to move it."""

    def __init__(self, actions: NodeActions) -> None:
        self._actions = actions
        self._rows = col(gap=S2)
        super().__init__(Label("Jobs here", "strong"), self._rows, gap=S2)
        self._shown_jobs: tuple[tuple[str, str], ...] = ()
        self.hide()

    def show_jobs(self, views: Iterable[JobView], node: str) -> None:
        """Show the live jobs on this node, the oldest first."""
        live_views = [view for view in views if view.state.is_live and node in view.nodes]
        live_views.sort(key=lambda view: view.status.started_at)
        live_jobs = tuple((view.id, view.name) for view in live_views)
        self.setVisible(bool(live_jobs))
        if (*live_jobs, ("", node)) == self._shown_jobs:
            return
        self._shown_jobs = (*live_jobs, ("", node))
        clear(self._rows)
        for job_id, name in live_jobs:
            move_button = Button(
                f"Move it off {node}…",
                icon="arrow-right",
                tip="Saves and stops the job, then asks where to resume it",
            )
            move_button.setAccessibleName(f"Move {name} off {node}")
            move_button.clicked.connect(partial(self._actions.ask, MOVE_OFF, job_id, node))
            self._rows.addLayout(col(Label(name, elide="right"), row(move_button, STRETCH), gap=S1))


@dataclass
class _ProcessGroup:
    """Processes of one program, one owner and one run."""

    command: str
    user: str
    pids: set[int] = field(default_factory=set)
    gpu_processes: list[tuple[int, GpuProcess]] = field(default_factory=list)
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    age_s: float | None = None

    def add(self, process: GpuProcess | HostProcess, gpu_index: int | None = None) -> None:
        self.pids.add(process.pid)
        self.age_s = max(self.age_s or 0.0, process.age_s) if process.age_s else self.age_s
        if isinstance(process, HostProcess):
            self.cpu_percent += process.cpu_percent
            self.memory_bytes += process.memory_bytes
        elif gpu_index is not None:
            self.gpu_processes.append((gpu_index, process))

    def texts(self) -> tuple[str, str, str]:
        """Return the program, the owner, and the details."""
        count = len(self.pids)
        title = f"{self.command}, {count} processes" if count > 1 else self.command
        parts = (
            self._gpu_text(),
            formats.cores(self.cpu_percent / 100) if self.cpu_percent else "",
            f"{formats.memory(self.memory_bytes)} of memory" if self.memory_bytes else "",
            f"pid {min(self.pids)}" if count == 1 else "",
            formats.rough_duration(self.age_s) if self.age_s is not None else "",
        )
        return title, self.user, " · ".join(part for part in parts if part)

    def _gpu_text(self) -> str:
        if not self.gpu_processes:
            return ""
        sizes = [p.memory_bytes for _, p in self.gpu_processes if p.memory_bytes is not None]
        name = f"GPU {formats.ranges(index for index, _ in self.gpu_processes)}"
        if all(process.only_draws for _, process in self.gpu_processes):
            name = f"{name} · display"
        return f"{name} · {formats.memory(sum(sizes))}" if sizes else name


class ProcessesCard(Card):
    """The processes that use GPUs, processors and memory, by owner, the busiest owner first."""

    def __init__(self) -> None:
        self._count = Label("", "small", "text3")
        self._rows = col(gap=S2)
        super().__init__(
            row(Label("Processes", "strong"), STRETCH, self._count), self._rows, gap=S2
        )
        self._shown_lines: tuple[tuple[str, str, str], ...] = ()
        self.hide()

    def show_reading(self, reading: NodeReading) -> None:
        groups = _group_by_owner(reading)
        lines = tuple(group.texts() for group in groups)
        self.setVisible(bool(lines))
        if lines == self._shown_lines:
            return
        self._shown_lines = lines
        self._count.setText(formats.count(sum(len(group.pids) for group in groups)))
        clear(self._rows)
        for number, line in enumerate(lines[:_MAX_LINES]):
            if number:
                self._rows.addWidget(Separator())
            self._rows.addWidget(_process_widget(*line))
        if len(lines) > _MAX_LINES:
            remainder = f"and {len(lines) - _MAX_LINES} more"
            self._rows.addWidget(Label(remainder, "small", "text3"))


def _group_by_owner(reading: NodeReading) -> list[_ProcessGroup]:
    groups: dict[tuple[str, str, str], _ProcessGroup] = {}

    def add(process: GpuProcess | HostProcess, gpu_index: int | None = None) -> None:
        command = short_command(process.command) or "a process"
        user = process.user or "another user"
        key = command, user, process.run_tag
        groups.setdefault(key, _ProcessGroup(command, user)).add(process, gpu_index)

    for gpu in reading.gpus:
        for gpu_process in gpu.processes:
            add(gpu_process, gpu.index)
    for host_process in reading.processes:
        add(host_process)
    cpu_by_user: Counter[str] = Counter()
    gpus_by_user: Counter[str] = Counter()
    for group in groups.values():
        cpu_by_user[group.user] += round(group.cpu_percent)
        gpus_by_user[group.user] += len(group.gpu_processes)
    return sorted(
        groups.values(),
        key=lambda group: (
            -gpus_by_user[group.user],
            -cpu_by_user[group.user],
            group.user,
            -len(group.gpu_processes),
            -group.cpu_percent,
        ),
    )


def _process_widget(command: str, user: str, details: str) -> QWidget:
    user_label = Label(user, "strong")
    widget = QWidget()
    widget.setLayout(
        col(
            row((Label(command, elide="right"), 1), user_label),
            Label(details, "small", "text3", elide="right"),
            gap=0,
        )
    )
    widget.setAccessibleName(f"{command} of {user}, {details}")
    return widget
