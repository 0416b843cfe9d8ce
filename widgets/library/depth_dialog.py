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
_BLOCKS_H, _LINE_H, _MIN_BLOCK_H = 96, 18, 8
_BLOCK_W, _MIN_BLOCK_W = 12, 4
_CURVE_INDEX = 0
_LIMIT_OPTIONS = (("kept", "No c-value below t"), ("printed", "As printed"))
_ABOUT = (
    "A plain network is deepest with this many convolutions in each stage. The c-value of a layer "
    "is the side of its filter over that of what it sees; pooling halves the side between stages."
)
_LIMIT_TIP = (
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
        self.min_c_value = SpinBox(LEAST_C.denominator, maximum=999, name="Smallest c-value, t")
        self.min_c_value.setPrefix("1 / ")
        self.limit = SegmentedControl(_LIMIT_OPTIONS, name="Limit of a stage")
        self.limit.set_tip("printed", _LIMIT_TIP)
        self.limit.key_chosen.connect(self._replan)
        fields = [
            _slider_field(box, *slider_range)
            for box, slider_range in (
                (self.side, (8, 508)),
                (self.kernel, (2, 12)),
                (self.min_c_value, (1, 25)),
            )
        ]
        for box in (self.side, self.kernel, self.min_c_value):
            box.valueChanged.connect(self._replan)
        self.drawing = DepthDrawing()
        self.summary = Label("", "heading")
        self.channels = ComboBox(name="Channels of a picture")
        self.channels.set_options([("1", "1, grey"), ("3", "3, colour")], "1")
        self.classes = SpinBox(10, minimum=2, maximum=100_000, name="Classes")
        self.name = LineEdit(NETWORK)
        self._use_button = self.default_button("Use this network", self._request_network)
        limit = Label("Limit of a stage", "small", "text2")
        limit.set_tip(_LIMIT_TIP)
        self.fill(
            Label(_ABOUT, "body", "text2", wrap=True),
            row(*fields, STRETCH, gap=S3),
            row(limit, self.limit, STRETCH, self.summary, gap=S2),
            self.drawing,
            row(
                Field("Channels of a picture", self.channels),
                Field("Classes", self.classes),
                (Field("Name in the library", self.name), 1),
                gap=S3,
            ),
            foot=(self.close_button(), self._use_button),
        )
        self._replan()

    @Slot()
    def _replan(self) -> None:
        min_c_value = (
            Fraction(1, self.min_c_value.value()) if self.min_c_value.value() else Fraction(0)
        )
        as_printed = self.limit.key() == "printed"
        try:
            self._plan = plan_depth(
                self.side.value(), self.kernel.value(), min_c_value, as_printed=as_printed
            )
            self.show_error("")
            stages = formats.plural(len(self._plan.stages), "stage")
            depth = formats.plural(self._plan.depth, "convolution")
            self.summary.setText(f"{depth} in {stages}")
        except ValueError as error:
            self._plan = None
            self.show_error(str(error))
            self.summary.setText("")
        self.drawing.show_plan(self._plan)
        self._use_button.setEnabled(self._plan is not None)

    @Slot()
    def _request_network(self) -> None:
        if self._plan is not None:
            data_settings = {"channels": self.channels.key(), "classes": str(self.classes.value())}
            name = self.name.text().strip() or NETWORK
            self.network_requested.emit({**self._plan.settings, **data_settings}, name)


def _slider_field(box: SpinBox, low: int, high: int) -> QWidget:
    """Return a field with a slider from ``low`` to ``high``; other values can be typed."""
    slider = Slider(name=f"{box.accessibleName()}, slider", width=_SLIDER_W)

    def move_slider(value: int) -> None:
        slider.blockSignals(True)
        slider.set_share((value - low) / (high - low))
        slider.blockSignals(False)
        slider.update()

    slider.share_changed.connect(lambda share: box.setValue(round(low + share * (high - low))))
    box.valueChanged.connect(move_slider)
    move_slider(box.value())
    widget = QWidget()
    widget.setLayout(col(Field(box.accessibleName(), box), slider, gap=S1))
    return widget


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
        self.setAccessibleDescription("; ".join(", ".join(_stage_texts(stage)) for stage in stages))
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
        center_y = _BLOCKS_H / 2
        painter.drawLine(QPointF(0, center_y), QPointF(self.width(), center_y))
        max_convolutions = max(stage.convolutions for stage in stages)
        for number, stage in enumerate(stages):
            column = QRectF(number * width, 0, width, _BLOCKS_H)
            self._paint_blocks(painter, column, stage, max_convolutions)
            texts = list(_stage_texts(stage))
            text_rect = QRectF(column.left(), _BLOCKS_H + S2, width - S1, _LINE_H)
            if text_width(texts[0], "strong") > text_rect.width():
                texts[0] = formats.count(stage.convolutions)
            paint_text(painter, text_rect, texts[0], "strong", center=True)
            is_low = stage.c_value < self._plan.least_c * (1 - 1e-9)
            for text in texts[1:]:
                text_rect.translate(0, _LINE_H)
                color_role = "warn" if is_low and text == texts[-1] else "text2"
                paint_text(painter, text_rect, text, "small", color_role, center=True)

    def _paint_blocks(
        self, painter: QPainter, column: QRectF, stage: DepthStage, max_convolutions: int
    ) -> None:
        """Paint a block for each convolution, or one for all where they have no room."""
        assert self._plan is not None
        height = max(_BLOCKS_H * stage.side / self._plan.side, _MIN_BLOCK_H)
        free_w = column.width() - S3
        block_w = min(_BLOCK_W, free_w / max_convolutions)
        count = stage.convolutions if block_w >= _MIN_BLOCK_W else 1
        blocks_w = max(block_w * stage.convolutions, _MIN_BLOCK_W)
        color = theme.current().curve(_CURVE_INDEX)
        top, left_x = (_BLOCKS_H - height) / 2, column.center().x() - blocks_w / 2
        step = blocks_w / count
        painter.setPen(Qt.PenStyle.NoPen)
        for number in range(count):
            fill_round(painter, QRectF(left_x + number * step, top, step - 2, height), color, 2)


def _stage_texts(stage: DepthStage) -> tuple[str, str, str, str]:
    return (
        formats.plural(stage.convolutions, "convolution"),
        f"{formats.count(stage.side)} px",
        f"sees {formats.count(stage.receptive_field)} px",
        f"c-value {stage.c_value:.2f}",
    )
