"""One node, live: facts, a card per GPU, and what happened to it lately."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from backend.records.job import THIS_COMPUTER
from backend.records.node import Finding, Gpu, NodeReading
from widgets.common import formats, theme
from widgets.common.buttons import Button
from widgets.common.cards import Card, EmptyState, Fact, Facts, PageHeader, Scroll
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.paint import paint_text, round_pen
from widgets.common.text import IconLabel, Label
from widgets.common.theme import PAGE_MARGIN, S2, S3, S4, S6

HISTORY_READINGS = 300
"""Ten minutes of readings at one each two seconds."""

HOT_C = 87


def unwell_reason(gpu: Gpu) -> str:
    """Why a GPU is not well, in a few words, or ""."""
    if gpu.ecc_uncorrected:
        return f"{formats.plural(gpu.ecc_uncorrected, 'memory error')} that could not be corrected"
    slowed = [reason for reason in gpu.clock_event_reasons if "thermal" in reason.lower()]
    if slowed:
        return "Clock lowered: heat"
    if gpu.temperature_c is not None and gpu.temperature_c >= HOT_C:
        return f"{formats.celsius(gpu.temperature_c)} is hot"
    return ""


@dataclass(frozen=True)
class Health:
    """What the side bar and the page say about a node."""

    well: bool
    sentence: str


def health(reading: NodeReading) -> Health:
    """The worst thing about a node in one sentence, or that it is well."""
    for gpu in reading.gpus:
        reason = unwell_reason(gpu)
        if reason:
            return Health(False, f"GPU {gpu.index}: {reason}")
    low_disk = reading.disk_free_bytes is not None and reading.disk_free_bytes < 1_000_000_000
    if low_disk:
        return Health(False, f"{formats.disk(reading.disk_free_bytes)} left for the data root")
    if reading.memory_used_bytes > 0.97 * reading.memory_total_bytes:
        return Health(False, "memory is full")
    return Health(True, "is ready")


class History(QWidget):
    """A share over the last readings, newest at the right; None is a gap."""

    def __init__(self, title: str, curve: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values: deque[float | None] = deque(maxlen=HISTORY_READINGS)
        self._curve = curve
        self.setMinimumHeight(72)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(title)

    def append(self, share: float | None) -> None:
        self._values.append(share)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        plot = QRectF(0, 6, self.width() - 40, self.height() - 12)
        for share, text in ((0.0, "0"), (0.5, "50 %"), (1.0, "100 %")):
            y = plot.bottom() - share * plot.height()
            painter.setPen(t.q("grid"))
            painter.drawLine(int(plot.left()), int(y), int(plot.right()), int(y))
            label = QRectF(plot.right() + 4, y - 8, 36, 16)
            paint_text(painter, label, text, "tiny", "text3")
        step = plot.width() / (HISTORY_READINGS - 1)
        piece = QPolygonF()
        first = HISTORY_READINGS - len(self._values)
        for index, value in enumerate([*self._values, None]):
            if value is not None:
                height = plot.height() * min(max(value, 0.0), 1.0)
                piece.append(plot.bottomLeft() + QPointF((first + index) * step, -height))
            elif piece.size():
                self._draw(painter, piece, plot)
                piece = QPolygonF()

    def _draw(self, painter: QPainter, piece: QPolygonF, plot: QRectF) -> None:
        t = theme.current()
        area = QPolygonF(piece)
        area.append(QPointF(piece.at(piece.size() - 1).x(), plot.bottom()))
        area.append(QPointF(piece.at(0).x(), plot.bottom()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(t.curve(self._curve, 0.12))
        painter.drawPolygon(area)
        painter.setPen(round_pen(t.curve(self._curve), 2.0))
        painter.drawPolyline(piece)


class _Meter(Card):
    """A share with its figure, its words and its history."""

    def __init__(self, title: str, curve: int = 0) -> None:
        self._figure = Label("–", "number")
        self._words = Label("", "small", "text2", elide="right")
        self._history = History(title, curve)
        head = row(Label(title, "strong"), STRETCH, self._figure)
        super().__init__(head, (self._history, 1), self._words, gap=S2)

    def show_share(self, share: float | None, words: str) -> None:
        self._figure.setText("–" if share is None else formats.percent(share))
        self._words.setText(words)
        self._history.append(share)


class _GpuCard(Card):
    """One GPU: use, memory, temperature, power, and who is on it."""

    def __init__(self) -> None:
        self._name = Label("", "strong")
        self._heat = Label("", "number")
        self._use = Label("", "body", elide="right")
        self._history = History("Use of the GPU")
        self._who = Label("", "body", "text2", elide="right")
        head = row(self._name, STRETCH, self._heat)
        super().__init__(head, self._use, (self._history, 1), self._who, gap=S2)

    def show_gpu(self, gpu: Gpu) -> None:
        reason = unwell_reason(gpu)
        self.set_edge("warn" if reason else "")
        self._name.setText(f"GPU {gpu.index} · {gpu.name}")
        self._heat.setText("–" if gpu.temperature_c is None else formats.celsius(gpu.temperature_c))
        self._heat.set_tone("warn" if reason else "text")
        use = "–" if gpu.use_percent is None else f"{gpu.use_percent} % use"
        memory = formats.memory_of(gpu.memory_used_bytes, gpu.memory_total_bytes)
        power = "" if gpu.power_w is None else f" · {gpu.power_w:.0f} W"
        self._use.setText(f"{use} · {memory}{power}")
        self._history.append(None if gpu.use_percent is None else gpu.use_percent / 100)
        people = ", ".join(dict.fromkeys(p.user or "somebody" for p in gpu.processes))
        self._who.setText(reason or (f"in use by {people}" if people else "free"))
        self._who.set_tone("warn" if reason else "text2")


class NodePage(QWidget):
    """The place Nodes while there is one node.

    Signals:
        check_requested: The name of a node to check; answer with `show_findings`.
    """

    check_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading: NodeReading | None = None
        check = Button("Check", icon="first-aid", tip="What is installed, what is missing")
        check.clicked.connect(self._check)
        self._check_button = check
        self._header = PageHeader("This computer", "", check)
        self._facts = Facts()
        self._processor = _Meter("Processor", 0)
        self._memory = _Meter("Memory", 2)
        self._disk = _Meter("Disk of the data root", 5)
        meters = row((self._processor, 1), (self._memory, 1), (self._disk, 1), gap=S3)
        self._gpu_grid = QGridLayout()
        self._gpu_grid.setSpacing(S3)
        self._gpu_cards: dict[str, _GpuCard] = {}
        self._no_gpu = Label("", "body", "text2", wrap=True)
        self._findings = col(gap=S2)
        self._findings_card = Card(Label("Findings", "heading"), self._findings)
        self._findings_card.hide()
        self._processes = col(gap=S2)
        self._processes_card = Card(Label("Processes on the GPUs", "heading"), self._processes)
        self._processes_card.hide()
        content = QWidget()
        content.setLayout(
            col(
                self._facts,
                meters,
                self._gpu_grid,
                self._no_gpu,
                self._processes_card,
                self._findings_card,
                STRETCH,
                gap=S4,
                margins=(PAGE_MARGIN, 0, PAGE_MARGIN, S6),
            )
        )
        self._empty = EmptyState("hard-drives", "Looking at this computer", "One moment.")
        self._content = Scroll(content)
        self._content.hide()
        self.setLayout(col(self._header, self._empty, (self._content, 1), gap=0))

    def show_reading(self, reading: NodeReading) -> None:
        """A new reading, each second or two."""
        self._reading = reading
        self._empty.hide()
        self._content.show()
        is_here = reading.name == THIS_COMPUTER
        self._header.title.setText("This computer" if is_here else reading.name)
        state = health(reading)
        self._header.sentence.setText(state.sentence[:1].upper() + state.sentence[1:])
        self._header.sentence.set_tone("text2" if state.well else "warn")
        cpu = reading.cpu
        facts = [
            Fact("Name", reading.host),
            Fact("Processor", cpu.model),
            Fact("Cores", formats.count(cpu.cores)),
            Fact("Load", f"{cpu.load_1min:.2f}"),
            Fact("Up", formats.duration(reading.uptime_s)),
        ]
        if reading.network_bytes_per_s is not None:
            facts.insert(3, Fact("Network", f"{formats.disk(reading.network_bytes_per_s)}/s"))
        if reading.driver:
            facts.append(Fact("Driver", reading.driver))
        self._facts.set_facts(facts)
        self._processor.show_share(
            None if cpu.use_percent is None else cpu.use_percent / 100,
            f"of {formats.plural(cpu.cores, 'core')}",
        )
        total = reading.memory_total_bytes
        swap = reading.swap_used_bytes
        self._memory.show_share(
            reading.memory_used_bytes / total if total else None,
            formats.memory_of(reading.memory_used_bytes, total)
            + (f", {formats.memory(swap)} of swap in use" if swap else ""),
        )
        self._show_disk(reading)
        self._show_gpus(reading)

    def show_findings(self, findings: tuple[Finding, ...]) -> None:
        """The outcome of a check: what is wrong first, each with its remedy."""
        self._check_button.setEnabled(True)
        self._check_button.setText("Check")
        clear(self._findings)
        for finding in sorted(findings, key=lambda f: f.ok):
            icon, tone = ("check-circle-fill", "good") if finding.ok else ("x-circle-fill", "bad")
            words = col(Label(finding.sentence, "body", wrap=True), gap=2)
            if finding.remedy:
                words.addWidget(Label(finding.remedy, "mono", "text2", wrap=True, selectable=True))
            self._findings.addLayout(row(IconLabel(icon, tone), (words, 1), top=True))
        self._findings_card.show()

    def show_error(self, sentence: str) -> None:
        """The check itself could not be made."""
        self.show_findings((Finding("check", False, sentence),))

    def _show_disk(self, reading: NodeReading) -> None:
        total, free = reading.disk_total_bytes, reading.disk_free_bytes
        known = total is not None and free is not None and total > 0
        if known and total is not None and free is not None:
            words = f"{formats.disk(free)} free of {formats.disk(total)} at {reading.disk_path}"
            self._disk.show_share(1 - free / total, words)
        else:
            self._disk.show_share(None, f"{reading.disk_path} does not answer")

    def _show_gpus(self, reading: NodeReading) -> None:
        if set(self._gpu_cards) != {gpu.uuid for gpu in reading.gpus}:
            clear(self._gpu_grid)
            self._gpu_cards = {gpu.uuid: _GpuCard() for gpu in reading.gpus}
            for index, card in enumerate(self._gpu_cards.values()):
                self._gpu_grid.addWidget(card, index // 4, index % 4)
        for gpu in reading.gpus:
            self._gpu_cards[gpu.uuid].show_gpu(gpu)
        self._no_gpu.setText(reading.gpu_message)
        self._no_gpu.setVisible(bool(reading.gpu_message))
        processes = [(gpu, process) for gpu in reading.gpus for process in gpu.processes]
        self._processes_card.setVisible(bool(processes))
        clear(self._processes)
        for gpu, process in processes[:32]:
            who = f"{process.command}, pid {process.pid}"
            age = formats.duration(process.age_s) if process.age_s is not None else ""
            held = " · ".join(
                text
                for text in (f"GPU {gpu.index}", formats.memory(process.memory_bytes), age)
                if text
            )
            self._processes.addLayout(
                row(
                    Label(who, elide="right"),
                    STRETCH,
                    Label(held, "small", "text2"),
                    Label(process.user, "strong"),
                )
            )

    @Slot()
    def _check(self) -> None:
        if self._reading is not None:
            self._check_button.setEnabled(False)
            self._check_button.setText("Checking…")
            self.check_requested.emit(self._reading.name)
