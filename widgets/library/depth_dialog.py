"""The dialog of the depth planner: the plan is drawn while side, kernel and c-value change."""

from __future__ import annotations

from fractions import Fraction

from PySide6.QtCore import QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.depth_plan import LEAST_C, NETWORK, DepthPlan, DepthStage, plan_depth
from widgets.common import formats, theme
from widgets.common.buttons import SegmentedControl
from widgets.common.dialog import Dialog
from widgets.common.fields import ComboBox, Field, LineEdit, Slider, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.theme import S1, S2, S3

_WIDTH, _SLIDER_W = 720, 196
_BLOCKS_H, _LINE_H, _LEAST_BLOCK_H = 96, 18, 8
_BLOCK_W, _LEAST_BLOCK_W = 12, 4
_COLOUR = 0
_SIDES = (("kept", "No c-value below t"), ("printed", "As printed"))
_ABOUT = (
    "A plain network is deepest with this many convolutions in each stage. The c-value of a layer "
    "is the side of its filter over that of what it sees; pooling halves the side between stages."
)
_OF_SIDES = (
    "The source prints 2^l k / (t (k − 1)) as the limit of stage l, with which c-values are as low "
    "as t / 2. Its own best plan fits half of it, with which no c-value is below t."
)


class DepthDialog(Dialog):
    """Plans a network, which is added to the library with its channels and classes.

    Signals:
        network_requested: The settings of the gallery's `NETWORK`, and its name in the library.
    """

    network_requested = Signal(object, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Plan the depth", _WIDTH, parent)
        self._plan: DepthPlan | None = None
        self.side = SpinBox(128, maximum=99_999, unit="px", name="Side of a picture, z")
        self.kernel = SpinBox(3, maximum=999, unit="px", name="Side of a kernel, k")
        self.least = SpinBox(LEAST_C.denominator, maximum=999, name="Smallest c-value, t")
        self.least.setPrefix("1 / ")
        self.limit = SegmentedControl(_SIDES, name="Limit of a stage")
        self.limit.set_tip("printed", _OF_SIDES)
        self.limit.key_chosen.connect(self._replan)
        fields = [
            _with_slider(box, *ends)
            for box, ends in ((self.side, (8, 508)), (self.kernel, (2, 12)), (self.least, (1, 25)))
        ]
        for box in (self.side, self.kernel, self.least):
            box.valueChanged.connect(self._replan)
        self.drawing = DepthDrawing()
        self.sum = Label("", "heading")
        self.channels = ComboBox(name="Channels of a picture")
        self.channels.set_options([("1", "1, grey"), ("3", "3, colour")], "1")
        self.classes = SpinBox(10, minimum=2, maximum=100_000, name="Classes")
        self.name = LineEdit(NETWORK)
        self._go = self.default_button("Use this network", self._use)
        limit = Label("Limit of a stage", "small", "text2")
        limit.set_tip(_OF_SIDES)
        self.fill(
            Label(_ABOUT, "body", "text2", wrap=True),
            row(*fields, STRETCH, gap=S3),
            row(limit, self.limit, STRETCH, self.sum, gap=S2),
            self.drawing,
            row(
                Field("Channels of a picture", self.channels),
                Field("Classes", self.classes),
                (Field("Name in the library", self.name), 1),
                gap=S3,
            ),
            foot=(self.close_button(), self._go),
        )
        self._replan()

    @Slot()
    def _replan(self) -> None:
        least = Fraction(1, self.least.value()) if self.least.value() else Fraction(0)
        as_printed = self.limit.key() == "printed"
        try:
            self._plan = plan_depth(
                self.side.value(), self.kernel.value(), least, as_printed=as_printed
            )
            self.show_error("")
            stages = formats.plural(len(self._plan.stages), "stage")
            depth = formats.plural(self._plan.depth, "convolution")
            self.sum.setText(f"{depth} in {stages}")
        except ValueError as error:
            self._plan = None
            self.show_error(str(error))
            self.sum.setText("")
        self.drawing.show_plan(self._plan)
        self._go.setEnabled(self._plan is not None)

    @Slot()
    def _use(self) -> None:
        if self._plan is not None:
            of_data = {"channels": self.channels.key(), "classes": str(self.classes.value())}
            name = self.name.text().strip() or NETWORK
            self.network_requested.emit({**self._plan.settings, **of_data}, name)


def _with_slider(box: SpinBox, low: int, high: int) -> QWidget:
    """Return a field with a slider from ``low`` to ``high``; other values can be typed."""
    slider = Slider(name=f"{box.accessibleName()}, slider", width=_SLIDER_W)

    def follow(value: int) -> None:
        slider.blockSignals(True)
        slider.set_share((value - low) / (high - low))
        slider.blockSignals(False)
        slider.update()

    slider.share_changed.connect(lambda share: box.setValue(round(low + share * (high - low))))
    box.valueChanged.connect(follow)
    follow(box.value())
    holder = QWidget()
    holder.setLayout(col(Field(box.accessibleName(), box), slider, gap=S1))
    return holder


class DepthDrawing(QWidget):
    """The stages from left to right: a block a convolution, as high as its pictures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._plan: DepthPlan | None = None
        self.setFixedHeight(_BLOCKS_H + 4 * _LINE_H + S2)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Stages of the network")

    def show_plan(self, plan: DepthPlan | None) -> None:
        """Draw a plan, None for none."""
        self._plan = plan
        stages = () if plan is None else plan.stages
        self.setAccessibleDescription("; ".join(", ".join(_words(one)) for one in stages))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._plan is None:
            paint_text(painter, QRectF(self.rect()), "No plan", "small", "text3", center=True)
            return
        stages = self._plan.stages
        width = self.width() / len(stages)
        painter.setPen(theme.current().q("line_strong"))
        middle = _BLOCKS_H / 2
        painter.drawLine(QPointF(0, middle), QPointF(self.width(), middle))
        most = max(stage.convolutions for stage in stages)
        for number, stage in enumerate(stages):
            column = QRectF(number * width, 0, width, _BLOCKS_H)
            self._paint_blocks(painter, column, stage, most)
            texts = list(_words(stage))
            place = QRectF(column.left(), _BLOCKS_H + S2, width - S1, _LINE_H)
            if text_width(texts[0], "strong") > place.width():
                texts[0] = formats.count(stage.convolutions)
            paint_text(painter, place, texts[0], "strong", center=True)
            is_low = stage.c_value < self._plan.least_c * (1 - 1e-9)
            for text in texts[1:]:
                place.translate(0, _LINE_H)
                tone = "warn" if is_low and text == texts[-1] else "text2"
                paint_text(painter, place, text, "small", tone, center=True)

    def _paint_blocks(
        self, painter: QPainter, column: QRectF, stage: DepthStage, most: int
    ) -> None:
        """Paint a block for each convolution, or one for all where they have no room."""
        assert self._plan is not None
        height = max(_BLOCKS_H * stage.side / self._plan.side, _LEAST_BLOCK_H)
        room = column.width() - S3
        each = min(_BLOCK_W, room / most)
        count = stage.convolutions if each >= _LEAST_BLOCK_W else 1
        whole = max(each * stage.convolutions, _LEAST_BLOCK_W)
        colour = theme.current().curve(_COLOUR)
        top, left = (_BLOCKS_H - height) / 2, column.center().x() - whole / 2
        step = whole / count
        painter.setPen(Qt.PenStyle.NoPen)
        for number in range(count):
            fill_round(painter, QRectF(left + number * step, top, step - 2, height), colour, 2)


def _words(stage: DepthStage) -> tuple[str, str, str, str]:
    return (
        formats.plural(stage.convolutions, "convolution"),
        f"{formats.count(stage.side)} px",
        f"sees {formats.count(stage.receptive_field)} px",
        f"c-value {stage.c_value:.2f}",
    )
