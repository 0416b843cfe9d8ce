"""The legend of the cells, below the rack."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.legend import legend_key
from widgets.common.theme import S1, S2
from widgets.nodes.page.rack import Density


class RackLegend(QWidget):
    """Keys of the cells."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = Label("", "tiny", "text3", elide="right")
        self._hint = Label("Point at a node to see it large", "tiny", "text3", elide="right")
        self.setLayout(
            row(
                legend_key("ours", "Ringmaster job"),
                S2,
                legend_key("other", "another user"),
                S2,
                legend_key("free", "free"),
                S2,
                legend_key("free", "problem", unwell=True),
                S2,
                self._figures,
                STRETCH,
                self._hint,
                gap=S1,
                margins=(0, 0, 0, 0),
            )
        )

    def show_for(self, density: Density, with_gpus: bool) -> None:
        """Describe the use figures at this density; hidden without GPUs."""
        self.setVisible(with_gpus)
        wall = density is Density.WALL
        self._figures.setText("height: use" if wall else "bar: use · figures: use, temperature")
        self._hint.setVisible(wall)
