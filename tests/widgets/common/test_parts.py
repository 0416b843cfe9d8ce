"""The building blocks of screens: what they say, what they show, how they are reached by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QEnterEvent, QKeySequence, QResizeEvent, QShortcut, QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QListView,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.pictures.flaws import flaws
from tests.windows import show_widget
from widgets.common import theme
from widgets.common.actions import MoreButton
from widgets.common.banner import Banner
from widgets.common.buttons import (
    Button,
    CheckBox,
    IconButton,
    SegmentedControl,
    Switch,
    UnderlinedTabs,
)
from widgets.common.cards import (
    Card,
    Chip,
    EmptyState,
    PageHeader,
    ProgressLine,
    Separator,
    VerticalScrollArea,
)
from widgets.common.fields import (
    ComboBox,
    Field,
    LineEdit,
    SearchField,
    Slider,
    SpinBox,
    TextBox,
)
from widgets.common.focus import FocusForwarder
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label, Note, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.theme import PAGE_MARGIN
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.common.toast import Toast

MARKUP = "<b>bold</b> & <img src=x> &lt;"


pytestmark = pytest.mark.usefixtures("theme_manager")


class Show(Protocol):
    """Puts parts below each other into a window on the screen."""

    def __call__(self, *parts: QWidget, width: int = 400) -> QWidget: ...


@pytest.fixture
def show(qtbot: QtBot) -> Iterator[Show]:
    windows: list[QWidget] = []

    def show(*parts: QWidget, width: int = 400) -> QWidget:
        window = QWidget()
        box = QVBoxLayout(window)
        for part in parts:
            box.addWidget(part)
        window.resize(width, window.sizeHint().height())
        window.show()
        qtbot.waitExposed(window)
        windows.append(window)
        return window

    yield show
    for window in windows:
        window.close()
        window.deleteLater()


# Text


def test_typed_text_is_never_read_as_markup(show: Show) -> None:
    label = Label(MARKUP)
    button = Button(MARKUP)
    banner = Banner("warn", MARKUP, MARKUP)
    show(label, button, banner)
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert label.text() == button.text() == MARKUP
    for inner in banner.findChildren(Label):
        assert inner.textFormat() is Qt.TextFormat.PlainText
    assert "<b>" not in plain_tip(MARKUP)
    assert "&lt;b&gt;" in plain_tip(MARKUP)
    assert plain_tip("Stop") == "Stop"


def test_a_label_that_does_not_fit_ends_in_an_ellipsis_and_keeps_its_whole(show: Show) -> None:
    name = "retinanet-r50 · coco 2x with a very long name indeed"
    label = Label(name, elide="right")
    path = Label("/lab/ring/jobs/2026/11/retinanet/checkpoints/latest.pt", elide="middle")
    show(label, path, width=160)
    assert super(Label, label).text().endswith("…")
    assert super(Label, path).text().startswith("/lab")
    assert super(Label, path).text().endswith(".pt")
    assert label.text() == label.toolTip() == label.accessibleName() == name
    label.window().resize(900, 80)
    assert super(Label, label).text() == name
    assert label.toolTip() == ""


def test_a_label_has_room_for_its_words_when_there_is_room(qtbot: QtBot, show: Show) -> None:
    label = Label("41 min left", "strong", elide="right")
    window = QWidget()
    window.setLayout(row(label, STRETCH))
    qtbot.addWidget(window)
    window.resize(400, 40)
    window.show()
    assert super(Label, label).text() == "41 min left"
    label.setText("1 h 55 left and more")
    QApplication.processEvents()
    assert super(Label, label).text() == "1 h 55 left and more"


def test_a_tone_is_a_colour_of_the_theme(show: Show) -> None:
    label = Label("Lost", color_role="bad")
    show(label)
    assert label.palette().color(label.foregroundRole()).name().upper() == theme.LIGHT.bad
    label.set_color_role("good")
    assert label.palette().color(label.foregroundRole()).name().upper() == theme.LIGHT.good


# Buttons


def test_a_button_says_its_key_and_is_pressed_by_it(qtbot: QtBot, show: Show) -> None:
    button = Button("New job", kind="primary", icon="plus", key="Ctrl+N")
    window = show(button)
    assert "Ctrl+N" in button.toolTip()
    button.setText("New job…")
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    with qtbot.waitSignal(button.clicked):
        qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)


def test_an_ampersand_in_a_name_is_shown_and_is_no_key(show: Show) -> None:
    button = Button("Stop R&D")
    show(button)
    assert QPushButton.text(button) == "Stop R&&D"  # what Qt shows as R&D
    assert button.text() == button.accessibleName() == "Stop R&D"
    assert button.shortcut().isEmpty()


def test_an_icon_alone_has_a_name_for_screen_readers(qtbot: QtBot) -> None:
    button = IconButton("dots-three", "More: clone, compare, export")
    assert button.accessibleName() == button.toolTip() == "More: clone, compare, export"


def test_a_focus_ring_moves_no_neighbour(show: Show) -> None:
    for kind in ("plain", "primary", "quiet", "icon", "big", "danger"):
        button = Button("" if kind == "icon" else "Stop", kind=kind, icon="stop", tip="Stop")
        window = show(button, Button("Other"))
        window.activateWindow()
        previous_size = button.sizeHint()
        button.setFocus(Qt.FocusReason.TabFocusReason)
        QApplication.processEvents()
        assert button.sizeHint() == previous_size, kind
        window.close()


def test_everything_that_can_be_pressed_is_large_enough(show: Show) -> None:
    parts = (
        *(Button("Stop"), IconButton("x", "Close"), Switch("On"), CheckBox("Tick")),
        *(SegmentedControl([("a", "All")], name="a"), UnderlinedTabs([("a", "A")], name="a")),
        *(LineEdit(), ComboBox(name="x"), SpinBox(), SearchField("Name")),
    )
    show(*parts)
    for part in parts:
        assert part.height() >= theme.TARGET_MIN, part


def test_a_switch_is_pressed_anywhere_on_it_and_by_space(qtbot: QtBot, show: Show) -> None:
    switch = Switch("Half precision")
    show(switch)
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton, pos=QPoint(switch.width() - 4, 14))
    assert switch.isChecked()
    switch.setFocus()
    qtbot.keyClick(switch, Qt.Key.Key_Space)
    assert not switch.isChecked()
    assert switch.accessibleName() == "Half precision"


def test_a_button_is_not_highlighted_after_its_menu(qtbot: QtBot) -> None:
    more_button = show_widget(qtbot, MoreButton(lambda menu: menu.addAction("Copy")), 40, 40)
    center = QPointF(20, 20)
    QApplication.sendEvent(more_button, QEnterEvent(center, center, center))
    assert more_button.underMouse()
    more_button.menu().popup(QPoint(0, 0))
    more_button.menu().close()
    assert not more_button.underMouse()


def test_segments_signal_only_choices_of_the_user(qtbot: QtBot, show: Show) -> None:
    options = [("all", "All"), ("live", "Live 2"), ("ended", "Ended")]
    control = SegmentedControl(options, "live", name="Which jobs")
    window = show(control)
    with qtbot.assertNotEmitted(control.key_chosen):
        control.choose("all")
    segments = control.findChildren(QWidget)
    with qtbot.waitSignal(control.key_chosen) as signal:
        qtbot.mouseClick(segments[2], Qt.MouseButton.LeftButton)
    assert signal.args == [control.key()] == ["ended"]
    window.activateWindow()
    segments[2].setFocus()
    qtbot.waitUntil(segments[2].hasFocus)
    with qtbot.waitSignal(control.key_chosen) as signal:
        qtbot.keyClick(segments[2], Qt.Key.Key_Left)
    assert signal.args == ["live"]
    control.set_text("live", "Live 3")
    assert segments[1].accessibleName() == "Live 3"
    control.choose("nothing of the kind")
    assert control.key() == "live"


def test_tabs_step_round_and_stay_when_others_come(qtbot: QtBot, show: Show) -> None:
    tabs = UnderlinedTabs([("curves", "Curves"), ("log", "Log")], name="Views")
    show(tabs)
    with qtbot.waitSignal(tabs.key_chosen) as signal:
        tabs.step(-1)
    assert signal.args == ["log"]
    with qtbot.assertNotEmitted(tabs.key_chosen):
        tabs.set_tabs([("why", "What happened"), ("curves", "Curves"), ("log", "Log")])
    assert tabs.key() == "log"
    tabs.set_count("log", "3")
    tabs.set_tabs([("why", "What happened")])
    assert tabs.key() == "why"


# Fields


def test_a_fault_stands_below_its_field(show: Show) -> None:
    field = Field("Learning rate", LineEdit("-1"), note="for 16 ranks")
    show(field)
    error_label = field.findChildren(Label)[-1]
    field.set_error("The rate is above 0.")
    assert error_label.text() == field.control.accessibleDescription() == "The rate is above 0."
    assert error_label.color_role() == "bad"
    assert field.control.accessibleName() == "Learning rate"
    field.set_error("")
    assert error_label.text() == "for 16 ranks"
    assert error_label.color_role() == "text3"


def test_a_spin_box_shows_its_figure_and_unit(show: Show) -> None:
    box = SpinBox(50, unit="epochs")
    show(box)
    inner = box.findChild(QLineEdit)
    assert inner is not None
    assert inner.text() == "50"
    assert inner.width() > 60
    assert [label.text() for label in box.findChildren(Label)] == ["epochs"]


def test_the_wheel_scrolls_the_page_and_not_the_value_under_the_pointer(show: Show) -> None:
    box = SpinBox(50)
    choice = ComboBox([("a", "A"), ("b", "B")], "a", name="Model")
    show(choice, box)
    for widget in (box, choice):
        widget.clearFocus()
        event = QWheelEvent(
            *(QPointF(5, 5), QPointF(5, 5), QPoint(0, 0), QPoint(0, -120)),
            *(Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier),
            *(Qt.ScrollPhase.NoScrollPhase, False),
        )
        QApplication.sendEvent(widget, event)
    assert (box.value(), choice.key()) == (50, "a")


def test_a_choice_survives_new_options_that_still_have_it() -> None:
    choice = ComboBox([("a", "A"), ("b", "B")], "b", name="Model")
    choice.set_options([("c", "C"), ("b", "B, newer")])
    assert choice.key() == "b"
    choice.set_options([("c", "C")])
    assert choice.key() == "c"
    choice.set_options([])
    assert choice.key() == ""


@pytest.mark.parametrize(
    ("width_text", "expected"),
    [
        ("no news since 03:12, no route to host", "no news since 03:12, no route to host"),
        ("no news since 03:12, no route…", "no news since 03:12"),
        ("no news since…", "no news…"),
    ],
)
def test_a_sentence_without_room_ends_at_a_comma_where_it_can(
    show: Show, width_text: str, expected: str
) -> None:
    label = Label("no news since 03:12, no route to host", elide="clause")
    label.setFixedWidth(Label(width_text).sizeHint().width())
    show(label)
    drawn_text = QLabel.text(label)
    assert drawn_text == expected or (
        expected.endswith("…") and drawn_text.startswith(expected[:-1])
    )
    assert label.text() == "no news since 03:12, no route to host"
    assert expected == label.text() or "route to host" in label.toolTip()


def test_a_combo_box_is_as_wide_as_its_chosen_option(show: Show) -> None:
    choice = ComboBox([("a", "A"), ("p", "plankton-2026-autumn")], "a", name="Loader")
    holder = QWidget()
    holder.setLayout(row(choice, STRETCH))
    holder.setFixedWidth(600)
    show(holder)
    choice.choose("p")
    QApplication.processEvents()
    assert choice.width() == choice.sizeHint().width()


def test_a_search_starts_when_typing_pauses_and_is_cleared_at_once(
    qtbot: QtBot, show: Show
) -> None:
    search = SearchField("Name, note or tag", key="Ctrl+F")
    show(search)
    with qtbot.waitSignal(search.searched) as searched:
        qtbot.keyClicks(search, "vit")
    assert searched.args == ["vit"]
    with qtbot.waitSignal(search.searched) as searched:
        qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert searched.args == [""]


def test_a_slider_gives_a_share(qtbot: QtBot, show: Show) -> None:
    slider = Slider(0.6, name="Smoothing")
    show(slider)
    assert slider.share() == 0.6
    with qtbot.waitSignal(slider.share_changed) as signal:
        qtbot.keyClick(slider, Qt.Key.Key_Right)
    assert signal.args == [0.61]


# What holds other things


def test_a_page_that_just_fits_or_just_does_not_comes_to_rest(qtbot: QtBot) -> None:
    """With words that take another line in a narrower page, its bar could come and go for ever."""

    class Page(QWidget):
        resized = 0

        def resizeEvent(self, event: QResizeEvent) -> None:
            self.resized += 1

    page = Page()
    page.setLayout(col(*(Label("word " * count, wrap=True) for count in (40, 57))))
    scroll = show_widget(qtbot, VerticalScrollArea(page, gutter=PAGE_MARGIN))
    for width in range(300, 360, 5):
        height = page.heightForWidth(width - PAGE_MARGIN)
        for extra_px in range(-24, 25, 3):
            page.resized = 0
            scroll.resize(width, height + extra_px)
            QApplication.processEvents()
            assert page.resized < 5
            assert page.width() == width - PAGE_MARGIN
            assert (scroll.verticalScrollBar().maximum() > 0) is (extra_px < 0)


def test_a_banner_has_other_words_and_other_buttons(show: Show) -> None:
    first, second = Button("Show node"), Button("Move")
    banner = Banner("warn", "gpu07 slows the job.", "91 °C.", actions=[first])
    show(banner)
    banner.set_finding("bad", "gpu11 is offline", "No heartbeat.", icon="wifi-slash")
    banner.set_actions([second])
    QApplication.processEvents()
    assert banner.accessibleName() == "gpu11 is offline No heartbeat."
    assert not first.isVisible()
    assert second.isVisible()


def test_a_banner_wraps_a_long_text_and_cuts_nothing(show: Show) -> None:
    repair = Button("Show node")
    banner = Banner(
        "warn", "gpu07 slows the job.", "Its GPU 3 is slowed by heat.", actions=[repair]
    )
    window = show(banner, width=700)
    strong, text = banner.findChildren(Label)
    assert text.x() > strong.geometry().right()
    one_line = banner.heightForWidth(banner.width())
    window.resize(260, 200)
    for _ in range(4):
        QApplication.processEvents()
    assert window.width() == 260, "a line that is not wrapped yet does not hold the window wide"
    assert text.y() > strong.geometry().bottom()
    assert banner.heightForWidth(banner.width()) > one_line
    assert list(flaws(banner)) == []
    window.resize(700, 200)
    for _ in range(4):
        QApplication.processEvents()
    assert text.x() > strong.geometry().right()


def test_facts_drop_whole_from_the_right_and_are_not_lost(show: Show) -> None:
    key_values = KeyValueRow(
        [KeyValue("Epoch", "32 of 50"), KeyValue("Step", "12 480"), KeyValue("Speed", "551 img/s")]
    )
    window = show(key_values, width=600)
    assert key_values.visible_count() == 3
    assert key_values.toolTip() == ""
    window.resize(170, window.height())
    QApplication.processEvents()
    assert 1 <= key_values.visible_count() < 3
    assert "Speed: 551 img/s" in key_values.toolTip()
    key_values.set_items([KeyValue("Epoch", "33 of 50")])
    assert key_values.visible_count() == 1
    assert key_values.toolTip() == ""


@pytest.mark.parametrize(
    "values", [("24 s", "250 ms"), ("9", "10"), ("1.1", "0.0412"), ("59 s", "1 min"), ("", "7")]
)
def test_another_value_of_a_fact_moves_no_fact_after_it(
    show: Show, values: tuple[str, ...]
) -> None:
    key_values = KeyValueRow([KeyValue("Left", values[1]), KeyValue("Epoch", "3")])
    key_values.resize(400, 60)
    show(key_values)
    start = key_values._views[1].x()
    for value in (*values, *reversed(values)):
        key_values.set_items([KeyValue("Left", value), KeyValue("Epoch", "3")])
        assert key_values._views[1].x() == start


def test_a_number_that_appears_moves_no_tab_and_no_segment(show: Show) -> None:
    tabs = UnderlinedTabs([("checkpoints", "Checkpoints"), ("log", "Log")], name="Parts")
    groups = SegmentedControl([("live", "Live"), ("ended", "Ended")], name="Which jobs")
    for row_of_choices in (tabs, groups):
        row_of_choices.resize(400, 40)
        show(row_of_choices)
    starts = set()
    for count in ("", "1", "12", ""):
        tabs.set_count("checkpoints", count)
        groups.set_count("live", "Live", count)
        for _ in range(5):
            QApplication.processEvents()
        starts.add((tabs._group.button(1).x(), groups._group.button(1).x()))
    assert len(starts) == 1


def test_an_empty_place_offers_the_way_out(qtbot: QtBot, show: Show) -> None:
    empty = EmptyState("stack", "No jobs yet", "Train one.", button="New job")
    show(empty)
    with qtbot.waitSignal(empty.pressed):
        qtbot.mouseClick(empty.findChildren(Button)[0], Qt.MouseButton.LeftButton)
    empty.show_message("stack", "No job matches “resnt”.", button="Clear")
    assert empty.findChildren(Button)[0].text() == "Clear"


def test_cancel_is_signalled_only_once(qtbot: QtBot, show: Show) -> None:
    line = ProgressLine("Copying coco")
    show(line)
    line.set_progress(0.4, figure="1.2 of 4.1 GB")
    cancel = line.findChildren(Button)[0]
    with qtbot.waitSignal(line.cancelled):
        qtbot.mouseClick(cancel, Qt.MouseButton.LeftButton)
    with qtbot.assertNotEmitted(line.cancelled):
        qtbot.mouseClick(cancel, Qt.MouseButton.LeftButton)
    line.set_progress(None)


def test_the_button_of_a_toast_undoes_the_action(qtbot: QtBot, show: Show) -> None:
    window = show(Label("page"), width=600)
    window.resize(600, 300)
    toast = Toast(window)
    assert not toast.isVisible()
    toast.show_message("Moved 4.2 GB to the trash.", undo_tag="job-7")
    assert toast.isVisible()
    assert window.rect().contains(toast.geometry())
    window.resize(500, 200)
    assert window.rect().contains(toast.geometry())
    with qtbot.waitSignal(toast.undone) as undone:
        qtbot.mouseClick(toast.findChildren(Button)[0], Qt.MouseButton.LeftButton)
    assert undone.args == ["job-7"]
    assert not toast.isVisible()


@pytest.mark.parametrize("tag", ["", "job-7"])
def test_a_long_toast_is_wrapped_in_a_narrow_window(show: Show, tag: str) -> None:
    window = show(Label("page"), width=900)
    window.resize(900, 400)
    toast = Toast(window)
    toast.show_message("Short.", undo_tag=tag)
    one_line_h = toast.height()
    message = f"config.toml of the job is gone, in /lab/{'data-of-the-lab/' * 12}end."
    for width in (900, 320):
        window.resize(width, 400)
        toast.show_message(message, undo_tag=tag)
        assert window.rect().contains(toast.geometry())
        label = toast.findChildren(Label)[0]
        assert label.height() >= label.heightForWidth(label.width())
        assert toast.height() > one_line_h
    toast.show_message("Short.", undo_tag=tag)
    assert toast.height() == one_line_h
    assert toast.width() < 200


def test_a_row_reads_like_its_picture(qtbot: QtBot) -> None:
    first, second = Label("a"), Label("b")
    window = QWidget()
    box = row(first, 12, STRETCH, (second, 1), None, col(Label("c")), top=True)
    window.setLayout(box)
    qtbot.addWidget(window)
    assert box.count() == 5
    clear(box)
    assert box.count() == 0


def test_every_part_can_be_painted_in_both_themes(show: Show, theme_manager: ThemeManager) -> None:
    off = Button("2 problems to fix", kind="big")
    off.setEnabled(False)
    parts = (
        *(off, Chip("v2", "live"), Separator(), Card(Label("x")), PageHeader("Jobs", "13")),
        *(Note("warning-fill", "warn", "gpu07", "hot"), IconLabel("tray"), TextBox("a", mono=True)),
        *(
            VerticalScrollArea(Label("page")),
            CheckBox("t", is_checked=True),
            Switch(name="s", is_checked=True),
        ),
        *(Banner("bad", "a", "b", is_stacked=True), Slider(0.5, name="s"), ComboBox(name="c")),
    )
    window = show(*parts, width=700)
    for choice in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        theme_manager.choose(choice)
        assert not window.grab().isNull()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_a_placeholder_is_as_dark_as_any_small_text(
    show: Show, theme_manager: ThemeManager
) -> None:
    fields = LineEdit("", placeholder="off"), TextBox("Notes")
    show(*fields)
    for choice in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        theme_manager.choose(choice)
        shades = {field.palette().placeholderText().color().name() for field in fields}
        assert shades == {theme.current().text3.lower()}


def test_a_toast_moves_off_a_cancel_button_that_appears_below_it(qtbot: QtBot, show: Show) -> None:
    window = show(TextBox("a"), cancel := Button("Cancel"), width=700)
    window.layout().setAlignment(cancel, Qt.AlignmentFlag.AlignRight)
    cancel.hide()
    window.resize(700, 400)
    toast = Toast(window)
    toast.show_message("Imported digits.")
    low = toast.y()
    cancel.show()
    qtbot.waitUntil(lambda: toast.y() < low)
    assert not toast.geometry().intersects(cancel.geometry())


@pytest.mark.parametrize("size", [(900, 600), (1440, 900), (560, 480)])
@pytest.mark.parametrize("text", ["Saved.", "Imported shapes. Loader is new: version 2. " * 5])
def test_a_toast_covers_no_button_of_the_foot(qtbot, size, text):
    start, queue, top_button = (
        Button("Start", kind="big"),
        Button("Queue", kind="tall"),
        Button("A"),
    )
    window = show_widget(qtbot, QWidget(), *size)
    window.setLayout(col(STRETCH, row(STRETCH, top_button), row(STRETCH, start, queue)))
    toast = Toast(window)
    for buttons in ((start, queue), ()):
        for button in (start, queue):
            button.setVisible(button in buttons)
        QApplication.processEvents()
        toast.show_message(text)
        toast_rect = toast.geometry()
        assert window.rect().contains(toast_rect)
        for button in buttons:
            assert not toast_rect.intersects(QRect(button.mapTo(window, QPoint()), button.size()))
    assert toast_rect.bottom() == window.height() - Toast._MARGIN - 1, "nothing is below it"


TEXTS: dict[str, Callable[[], QWidget]] = {
    "line": lambda: LineEdit("text"),
    "number": lambda: SpinBox(7),
    "search": lambda: SearchField("Name"),
    "box": lambda: TextBox("text"),
}


@pytest.mark.parametrize("letter", ["E", "K", "D", "L", "F", "N"])
@pytest.mark.parametrize("field", TEXTS)
def test_a_text_field_leaves_the_windows_keys_to_the_window(
    qtbot: QtBot, field: str, letter: str
) -> None:
    window, edit, pressed = QWidget(), TEXTS[field](), []
    window.setLayout(col(edit))
    show_widget(qtbot, window)
    QShortcut(QKeySequence(f"Ctrl+{letter}"), window, lambda: pressed.append(letter))
    qtbot.waitUntil(window.isActiveWindow)
    edit.setFocus()
    qtbot.keyClick(edit, letter.lower(), Qt.KeyboardModifier.ControlModifier)
    assert pressed == [letter]


@pytest.mark.parametrize("letter", ["A", "C", "V", "X", "Z"])
def test_a_text_field_keeps_the_keys_of_its_text(qtbot: QtBot, letter: str) -> None:
    window, edit, pressed = QWidget(), LineEdit("text"), []
    window.setLayout(col(edit))
    show_widget(qtbot, window)
    QShortcut(QKeySequence(f"Ctrl+{letter}"), window, lambda: pressed.append(letter))
    edit.setText("text")
    edit.insert("more")
    edit.selectAll()
    qtbot.waitUntil(window.isActiveWindow)
    edit.setFocus()
    qtbot.keyClick(edit, letter.lower(), Qt.KeyboardModifier.ControlModifier)
    assert pressed == []


def test_esc_in_an_empty_search_leads_to_its_list(qtbot: QtBot) -> None:
    page, search, rows = QWidget(), SearchField("Name"), QListView()
    page.setLayout(col(search, rows))
    FocusForwarder(page, rows)
    window = QWidget()
    window.setLayout(col(page))
    show_widget(qtbot, window)
    qtbot.waitUntil(window.isActiveWindow)
    search.setFocus()
    search.setText("x")
    qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert (search.text(), search.hasFocus()) == ("", True)
    qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert rows.hasFocus()
