"""The findings of a preview, at the top of the page."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from backend.records.library.preview import Preview, rare_classes, rare_words
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.labels import plain_tip
from widgets.common.theme import Family


class PreviewBanner(Banner):
    """The first finding, and the number of others, with all of them in the tool tip.

    Signals:
        class_wished: The name of a class whose samples to show.
    """

    class_wished = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.hide()

    def show_preview(self, preview: Preview) -> None:
        found = (*(fault.sentence for fault in preview.faults), *preview.warnings)
        self.setVisible(bool(found))
        if not found:
            return
        cause, dot, effect = found[0].partition(". ")
        rest = formats.plural(len(found) - 1, "more finding") + "." if found[1:] else ""
        family: Family = "bad" if preview.faults else "warn"
        self.set_finding(family, cause + dot.rstrip(), " ".join(filter(None, (effect, rest))))
        self.setToolTip(plain_tip("\n".join(found)) if rest else "")
        is_of_class = found[0] == rare_words(preview.classes)
        self.set_actions([self._to_class(preview)] if is_of_class else [])

    def show_sentence(self, family: Family, sentence: str, remedy: str = "") -> None:
        """Show another sentence, such as the reason why there are no samples."""
        self.set_finding(family, sentence, remedy)
        self.setToolTip("")
        self.set_actions([])
        self.show()

    def _to_class(self, preview: Preview) -> Button:
        name = rare_classes(preview.classes)[0].name
        button = Button("Show them", kind="quiet", tip=f"Samples of class {name}")
        button.clicked.connect(lambda: self.class_wished.emit(name))
        return button
