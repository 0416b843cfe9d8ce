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
from widgets.common.theme import S1, S2, Role, ColorRole
from widgets.nodes.page.node_actions import MOVE_OFF, NodeActions

_MOST_LINES = 12
_SECOND_MS = 1000
_CHECKING = (
    "Checking Python, PyTorch, Horovod, Open MPI, the data root and the GPUs; "
    "two ranks add up a number"
)


class _Line(NamedTuple):
    icon: str
    tone: ColorRole
    sentence: str
    remedy: str
    role: Role
    orphan: Orphan | None = None
    is_ending: bool = False
    tip: str = ""


class _FindingRow(QWidget):
    """One line of the findings; an orphan has a button, which calls ``end``."""

    def __init__(self, end: Callable[[Orphan], object]) -> None:
        super().__init__()
        self._end_orphan = end
        self._icon = IconLabel("warning-fill", "warn")
        self._sentence = Label("", wrap=True)
        self._remedy = Label("", color_role="text2", wrap=True, selectable=True)
        self._orphan: Orphan | None = None
        self._end = Button("End process", icon="x")
        self._end.clicked.connect(self._request_end)
        self._act = QWidget()
        self._act.setLayout(row(self._end, STRETCH, margins=(0, S1, 0, 0)))
        words = col(self._sentence, self._remedy, self._act, gap=2)
        self.setLayout(row(self._icon, (words, 1), top=True))

    def show_line(self, line: _Line) -> None:
        self._icon.set_icon(line.icon, line.tone)
        self._sentence.setText(line.sentence)
        self._sentence.set_tip(line.tip)
        self._sentence.setAccessibleDescription(line.tip)
        self._sentence.set_color_role("text2" if line.tone == "good" else "text")
        self._remedy.setText(line.remedy)
        self._remedy.set_role(line.role)
        self._remedy.setVisible(bool(line.remedy))
        self._orphan = line.orphan
        self._act.setVisible(line.orphan is not None)
        if line.orphan is not None:
            self._end.setText("Ending…" if line.is_ending else "End process")
            self._end.setEnabled(not line.is_ending)
            self._end.setAccessibleName(f"End {process_words(line.orphan)}")
        self.show()

    @Slot()
    def _request_end(self) -> None:
        if self._orphan is not None:
            self._end_orphan(self._orphan)


class FindingsCard(Card):
    """The known problems of a node, and the results of a check, each with its remedy.

    Args:
        end: Ends an orphan.
    """

    def __init__(self, end: Callable[[Orphan], object]) -> None:
        self._end = end
        self._column = col(gap=S2)
        super().__init__(Label("Findings", "strong"), self._column, gap=S2)
        self._rows: list[_FindingRow] = []
        self._lines: tuple[_Line, ...] = ()
        self._health: tuple[HealthFinding, ...] = ()
        self._found: tuple[Finding, ...] = ()
        self._is_checking = False
        self._began_s = 0.0
        self._clock = QTimer(self, interval=_SECOND_MS)
        self._clock.timeout.connect(self._fill)
        self._orphans: tuple[_Line, ...] = ()
        self.hide()

    def show_health(self, health: tuple[HealthFinding, ...]) -> None:
        """Show what the readings report."""
        self._health = health
        self._fill()

    def show_checking(self) -> None:
        """Name the steps of a check while it runs; they run in parallel."""
        self._is_checking, self._began_s = True, time.monotonic()
        self._fill()
        self._clock.start()

    def show_findings(self, findings: tuple[Finding, ...]) -> None:
        """Show the results of a finished check."""
        self._found, self._is_checking = findings, False
        self._fill()

    def show_orphans(
        self,
        orphans: Iterable[Orphan],
        ending: Collection[ProcessIdentity],
        jobs: Mapping[str, str],
    ) -> None:
        """Show the processes that runs left behind, each with its button.

        Args:
            ending: Those that are being ended.
            jobs: Names of jobs by their id.
        """
        self._orphans = tuple(_orphan_line(one, ending, jobs) for one in orphans)
        self._fill()

    def clear(self) -> None:
        """Clear for another node, which was not checked yet."""
        self._health, self._found, self._orphans = (), (), ()
        self._is_checking = False
        self._fill()
        for one in self._rows:
            one.hide()

    @Slot()
    def _fill(self) -> None:
        if not self._is_checking:
            self._clock.stop()
        lines = tuple(self._lines_now())
        if lines != self._lines:
            self._lines = lines
            self.setVisible(bool(lines))
            self._show(lines)

    def _show(self, lines: Sequence[_Line]) -> None:
        while len(self._rows) < len(lines):
            made = _FindingRow(self._end)
            self._rows.append(made)
            self._column.addWidget(made)
        for one, line in zip(self._rows, lines, strict=False):
            one.show_line(line)
        for one in self._rows[len(lines) :]:
            one.hide()

    def _lines_now(self) -> Iterator[_Line]:
        last_remedy = ""
        for one in self._health:
            # Heat and its consequences have one remedy: shown once.
            again = one.remedy == last_remedy
            yield _Line("warning-fill", "warn", one.message, "" if again else one.remedy, "body")
            last_remedy = one.remedy
        yield from self._orphans
        if self._is_checking:
            taken = time.monotonic() - self._began_s
            remedy = f"{formats.duration(int(taken))} until now." if taken >= 1 else ""
            yield _Line("clock", "text2", _CHECKING, remedy, "body")
            return
        for finding in self._found:
            if not finding.ok:
                yield _Line("x-circle-fill", "bad", finding.message, finding.remedy, "mono")
        passed = [finding.message for finding in self._found if finding.ok]
        if passed:
            words = passed[0] if len(passed) == 1 else f"{len(passed)} checks passed"
            tip = "\n".join(passed[1:] and passed)
            yield _Line("check-circle-fill", "good", words, "", "mono", tip=tip)


def _orphan_line(
    orphan: Orphan, ending: Collection[ProcessIdentity], jobs: Mapping[str, str]
) -> _Line:
    job = orphan.run_tag.rpartition("/")[0]
    whose = f"“{jobs[job]}”" if job in jobs else f"job {job}" if job else "a run"
    age, memory = formats.rough_duration(orphan.age_s), formats.memory(orphan.memory_bytes)
    sentence = f"{process_words(orphan)} was left behind by {whose}, {age} old, {memory}."
    is_ending = orphan.process in ending
    return _Line("warning-fill", "warn", sentence, orphan.message, "body", orphan, is_ending)


def process_words(orphan: Orphan) -> str:
    """Return "python, pid 51204"."""
    program = orphan.command.partition(" ")[0].rpartition("/")[2] or "A process"
    return f"{program}, pid {orphan.process.pid}"


class JobsCard(Card):
    """The jobs that run on a node, each with a button to move it."""

    def __init__(self, actions: NodeActions) -> None:
        self._actions = actions
        self._rows = col(gap=S2)
        super().__init__(Label("Jobs here", "strong"), self._rows, gap=S2)
        self._shown: tuple[tuple[str, str], ...] = ()
        self.hide()

    def show_jobs(self, views: Iterable[JobView], node: str) -> None:
        """Show the live jobs on this node, the oldest first."""
        live = [view for view in views if view.state.is_live and node in view.nodes]
        live.sort(key=lambda view: view.status.started_at)
        live_jobs = tuple((view.id, view.name) for view in live)
        self.setVisible(bool(live_jobs))
        if (*live_jobs, ("", node)) == self._shown:
            return
        self._shown = (*live_jobs, ("", node))
        clear(self._rows)
        for job_id, name in live_jobs:
            move = Button(
                f"Move it off {node}…",
                icon="arrow-right",
                tip="Saves and stops the job, then asks where to resume it",
            )
            move.setAccessibleName(f"Move {name} off {node}")
            move.clicked.connect(partial(self._actions.ask, MOVE_OFF, job_id, node))
            self._rows.addLayout(col(Label(name, elide="right"), row(move, STRETCH), gap=S1))


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
        self._shown: tuple[tuple[str, str, str], ...] = ()
        self.hide()

    def show_reading(self, reading: NodeReading) -> None:
        groups = _group_by_owner(reading)
        lines = tuple(group.texts() for group in groups)
        self.setVisible(bool(lines))
        if lines == self._shown:
            return
        self._shown = lines
        self._count.setText(formats.count(sum(len(group.pids) for group in groups)))
        clear(self._rows)
        for number, line in enumerate(lines[:_MOST_LINES]):
            if number:
                self._rows.addWidget(Separator())
            self._rows.addWidget(_process(*line))
        if len(lines) > _MOST_LINES:
            rest = f"and {len(lines) - _MOST_LINES} more"
            self._rows.addWidget(Label(rest, "small", "text3"))


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


def _process(command: str, user: str, words: str) -> QWidget:
    who = Label(user, "strong")
    holder = QWidget()
    holder.setLayout(
        col(
            row((Label(command, elide="right"), 1), who),
            Label(words, "small", "text3", elide="right"),
            gap=0,
        )
    )
    holder.setAccessibleName(f"{command} of {user}, {words}")
    return holder
