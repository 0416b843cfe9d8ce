"""The job file of a job as it is, what differs from the defaults in bold, and the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from PySide6.QtCore import Slot
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QGridLayout, QStackedWidget, QWidget

from backend.records.job import (
    THIS_COMPUTER,
    CheckpointPolicy,
    JobConfig,
    Optimizer,
    Placement,
)
from backend.records.job_view import JobCommand
from backend.records.settings import flat
from widgets.common.buttons import Button, Switch
from widgets.common.cards import Card, Frame, Scroll
from widgets.common.fields import TextBox
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import PAGE_MARGIN, S2, S3, S4, S6
from widgets.common.throttle import is_unseen
from widgets.common.turns import Turns, lots

_ROWS_A_TURN = 12
_AROUND_TEXT, _LEAST_H, _EDGES = 44, 120, 6


class SettingsTab(QWidget):
    """The tab Settings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._config: JobConfig | None = None
        self._shown: JobConfig | None = None
        self._pairs: list[tuple[Label, Label]] = []
        self._turns = Turns(self)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S6)
        self._grid.setVerticalSpacing(S2)
        self._grid.setColumnStretch(1, 1)
        self._rows = QWidget()
        self._rows.setLayout(col(self._grid, STRETCH, margins=(0, 0, 0, S4)))
        self._toml = TextBox(mono=True, read_only=True, name="Job file")
        self._as_toml = Switch("Show as TOML")
        self._as_toml.toggled.connect(self._turn)
        copy_file = Button("Copy job file", kind="quiet", icon="copy")
        copy_file.clicked.connect(self._copy_file)
        self._pages = QStackedWidget()
        self._pages.addWidget(Scroll(self._rows))
        toml = QWidget()
        toml.setLayout(col(self._toml, margins=(0, 0, 0, S4)))
        self._pages.addWidget(toml)
        self._command = Label("", "mono", "text2", wrap=True, selectable=True)
        self._by_hand = Label("", "small", "text3", wrap=True)
        copy = Button("Copy command", kind="quiet", icon="copy")
        copy.clicked.connect(self._copy_command)
        self._head = row(Label("Job file", "heading"), STRETCH, self._as_toml, copy_file)
        # Rows that scroll are cut by the edge of the card, not before it.
        self._file = Card(self._head, (self._pages, 1), gap=S3, margins=(S4, S4, S4, 1))
        command = Frame("sunken", col(self._command, margins=(S3, S2, S3, S2)))
        self.setLayout(
            col(
                (self._file, 100),
                Card(
                    row(Label("Command", "heading"), STRETCH, copy), command, self._by_hand, gap=S2
                ),
                STRETCH,
                gap=S3,
                margins=(0, 0, PAGE_MARGIN, S4),
            )
        )

    def show_config(self, config: JobConfig) -> None:
        """The settings as rows, when somebody sees them: for a long job file they are 0.1 s."""
        self._config = config
        if not is_unseen(self):
            self._show_rows()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_rows()

    def _show_rows(self) -> None:
        config = self._config
        if config is None or config == self._shown:
            return
        self._shown = config
        usual = flat(_plain_job(config).to_dict())
        settings = flat(config.to_dict())
        self._turns.put(self._pieces(list(settings.items()), usual))

    def _pieces(
        self, settings: Sequence[tuple[str, str]], usual: Mapping[str, str]
    ) -> Iterator[Callable[[], object]]:
        for number, some in enumerate(lots(settings, _ROWS_A_TURN)):
            yield partial(self._fill, number * _ROWS_A_TURN, some, usual)
        yield partial(self._end_rows, len(settings))

    def _fill(
        self, begin: int, settings: Sequence[tuple[str, str]], usual: Mapping[str, str]
    ) -> None:
        while len(self._pairs) < begin + len(settings):
            self._add_pair()
        for (caption, shown), (name, value) in zip(self._pairs[begin:], settings, strict=False):
            caption.setText(name.replace("_", " "))
            shown.setText(value)
            shown.set_role("strong" if usual.get(name) != value else "body")

    def _end_rows(self, count: int) -> None:
        for number, pair in enumerate(self._pairs):
            for label in pair:
                label.setVisible(number < count)
        self._fit()

    def _add_pair(self) -> None:
        """A name and its value. They stay for the next job: most have the same settings."""
        pair = Label("", "body", "text2"), Label("", elide="right")
        for column, label in enumerate(pair):
            self._grid.addWidget(label, len(self._pairs), column)
        self._pairs.append(pair)

    def show_file(self, toml: str, command: JobCommand) -> None:
        self._toml.setPlainText(toml)
        self._fit()
        self._command.setText(command.line or "Not known while the settings are at fault.")
        self._by_hand.setText(_by_hand(command))

    @Slot(bool)
    def _turn(self, as_toml: bool) -> None:
        self._pages.setCurrentIndex(1 if as_toml else 0)
        self._fit()

    def _fit(self) -> None:
        """The card is no higher than what it shows: the command stands right below."""
        if self._pages.currentIndex() == 0:
            needed = self._rows.sizeHint().height()
        else:
            lines = self._toml.document().blockCount()
            needed = lines * self._toml.fontMetrics().lineSpacing() + _AROUND_TEXT + S4
        above = S4 + self._head.sizeHint().height() + S3
        self._file.setMaximumHeight(above + max(needed, _LEAST_H) + _EDGES)

    @Slot()
    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self._command.text())

    @Slot()
    def _copy_file(self) -> None:
        QGuiApplication.clipboard().setText(self._toml.toPlainText())


def _by_hand(command: JobCommand) -> str:
    if not command.line:
        return ""
    if not command.node:
        return "It can be run by hand once the job was started."
    where = "" if command.node == THIS_COMPUTER else f" of {command.node}"
    return (
        f"Pasted into a shell{where}, it trains once more by hand in {command.folder}, and leaves "
        "this job as it is."
    )


def _plain_job(config: JobConfig) -> JobConfig:
    """The same job with nothing but defaults, to compare with."""
    return JobConfig(
        name="",
        model="",
        dataset="",
        loader="",
        epochs=0,
        batch_size=0,
        optimizer=Optimizer(config.optimizer.name, 0.0),
        placement=(Placement(config.placement[0].node if config.placement else ""),),
        checkpoint=CheckpointPolicy(),
    )
