"""The tab Log: it asks for what is in sight, follows, searches, and shows text as text."""

from dataclasses import astuple, replace

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QStackedWidget

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import EvidenceLine, RankError
from backend.records.jobs.view import LogLines, LogMatches, LogSize
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import FAILED, LIVE
from tests.windows import find_button, find_line, find_only, shows_text, visible_texts
from widgets.common.cards import EmptyState
from widgets.common.fields import ComboBox, SearchField
from widgets.jobs.log.log_ansi import Style, StyledText, split_styles, strip_codes
from widgets.jobs.log.log_tab import LogSearch, LogTab
from widgets.jobs.log.log_view import CHUNK


class Logs:
    """Answers a tab at once, from lists of lines."""

    def __init__(self, tab, **logs):
        self.tab = tab
        self.logs = {key.removeprefix("r"): list(lines) for key, lines in logs.items()}
        self.generation = 0
        self.requests = []
        self.searches = []
        tab.length_requested.connect(self.answer_length)
        tab.lines_requested.connect(self.lines)
        tab.find_requested.connect(self.find)
        tab.error_requested.connect(
            lambda job, source: tab.show_error_line(
                job,
                source,
                next((n for n, line in enumerate(self.logs[source]) if "Error" in line), None),
            )
        )
        tab.copy_requested.connect(
            lambda ask: tab.show_copied(self._lines(ask.source, ask.start, ask.count))
        )

    def answer_length(self, job, source):
        lines = self.logs.get(source, [])
        size = LogSize(len(lines), sum(len(line) for line in lines), self.generation)
        self.tab.show_size(job, source, size)

    def _lines(self, source, first, count):
        lines = tuple(self.logs[source][first : first + count])
        sources = ("0",) * len(lines) if source == "all" else ()
        return LogLines(first, lines, self.generation, sources)

    def lines(self, ask):
        self.requests.append((ask.source, ask.start, ask.count))
        self.tab.show_lines(ask.job_id, ask.source, self._lines(ask.source, ask.start, ask.count))

    def find(self, search):
        job, source, text, from_line = astuple(search)
        self.searches.append((text, from_line))
        if text:
            lines = self.logs[source]
            matches = tuple(
                n for n, line in enumerate(lines) if n >= from_line and text in line.casefold()
            )
            self.tab.show_matches(
                job, source, LogMatches(text, matches, len(lines), self.generation)
            )


@pytest.fixture
def tab(qtbot):
    tab = LogTab()
    qtbot.addWidget(tab)
    tab.resize(900, 500)
    return tab


def numbered(count):
    return [f"line {number}" for number in range(count)]


def grow(logs, source, *lines):
    logs.logs[source] += lines
    refresh(logs.tab)


def refresh(tab):
    """What the tab does from time to time while it is seen."""
    for timer in tab.findChildren(QTimer):
        if timer.isActive() and not timer.isSingleShot():
            timer.timeout.emit()


def last_in_sight(tab):
    view = tab.view
    return view.line_text(min(view.line_count - 1, view.first_line + view._row_count() - 1))


def test_only_the_visible_lines_of_a_huge_log_are_requested(tab):
    logs = Logs(tab, r0=[])
    logs.logs["0"] = numbered(2_000_000)
    tab.open_job(LIVE)
    tab.show()
    assert last_in_sight(tab) == "line 1999999"
    assert sum(count for _, _, count in logs.requests) <= 3 * CHUNK
    logs.requests.clear()
    tab.view.verticalScrollBar().setValue(1_000_000)
    assert tab.view.line_text(1_000_000) == "line 1000000"
    assert len(logs.requests) <= 2


def test_the_log_follows_its_end_until_the_user_scrolls_up_and_counts_new_lines(tab, qtbot):
    logs = Logs(tab, r0=numbered(500))
    tab.open_job(LIVE)
    tab.show()
    grow(logs, "0", "new")
    assert last_in_sight(tab) == "new"
    assert not find_button(tab, "Follow").isVisible()
    qtbot.keyClick(tab.view, Qt.Key.Key_PageUp)
    top = tab.view.first_line
    grow(logs, "0", *["more"] * 412)
    assert tab.view.first_line == top
    assert find_button(tab, "412 new lines").text() == "412 new lines"
    assert find_button(tab, "412 new lines").isVisible()
    qtbot.mouseClick(find_button(tab, "412 new lines"), Qt.MouseButton.LeftButton)
    assert last_in_sight(tab) == "more"
    assert not find_button(tab, "Follow").isVisible()


def test_half_a_line_becomes_whole_where_it_stands(tab):
    logs = Logs(tab, r0=["one", "tw"])
    tab.open_job(LIVE)
    tab.show()
    logs.logs["0"] = ["one", "two", "three"]
    refresh(tab)
    assert [tab.view.line_text(n) for n in range(3)] == ["one", "two", "three"]


def test_the_failing_ranks_log_is_there_first_and_marked(tab):
    logs = Logs(tab, r0=["fine"], r1=["bad"])
    tab.open_job(FAILED)
    tab.show()
    assert tab.source == "1"
    assert not find_only(ComboBox, tab).itemIcon(find_only(ComboBox, tab).currentIndex()).isNull()
    assert tab.view.line_text(0) == "bad"
    assert logs.requests[0][0] == "1"


def test_a_search_counts_steps_through_hits_and_finds_later_ones(tab, qtbot):
    logs = Logs(tab, r0=numbered(1000))
    tab.open_job(LIVE)
    tab.show()
    find_only(SearchField, tab).setText("line 99")
    qtbot.keyClick(find_only(SearchField, tab), Qt.Key.Key_Return)
    assert shows_text(tab, "of 11")
    find_button(tab, "Next match").click()
    assert tab.view.marked_line in (99, *range(990, 1000))
    grow(logs, "0", "line 99 again")
    assert shows_text(tab, "of 12")
    assert logs.searches[-1] == ("line 99", 1000), "what was searched is not searched again"
    find_only(SearchField, tab).setText("nowhere")
    qtbot.keyClick(find_only(SearchField, tab), Qt.Key.Key_Return)
    assert "No matches" in visible_texts(tab)
    assert not find_button(tab, "Next match").isEnabled()


def test_the_first_error_is_jumped_to_and_the_proven_one_without_a_search(tab):
    Logs(tab, r0=[*numbered(300), "KeyError: 'x'", *numbered(300)], r1=numbered(300))
    tab.open_job(LIVE)
    tab.show()
    find_button(tab, "First error").click()
    assert tab.view.marked_line == 300
    assert not tab.view.is_following
    error = RankError("It failed.", 1, evidence=(EvidenceLine("rank-1.log", 42, "line 41"),))
    tab.open_job(replace_fields(FAILED, error=error))
    find_button(tab, "First error").click()
    assert (tab.source, tab.view.marked_line) == ("1", 41)


def test_another_log_can_be_shown_at_a_line(tab):
    Logs(tab, r0=numbered(5000), mpirun=numbered(4000))
    tab.open_job(LIVE)
    tab.show()
    tab.show_source("mpirun", 2001)
    assert (tab.source, tab.view.marked_line) == ("mpirun", 2000)
    assert tab.view.first_line <= 2000 <= tab.view.first_line + tab.view._row_count()


def test_the_combined_log_names_the_source_of_each_line(tab):
    Logs(tab, r0=["x"], all=["a", "b"])
    tab.open_job(LIVE)
    tab.show()
    find_only(ComboBox, tab).choose("all")
    assert tab.view._line(1).source == "0"
    assert shows_text(tab, "rank by rank")


def test_chosen_lines_are_copied_as_plain_text(tab, qtbot):
    Logs(tab, r0=["one", "\x1b[31mtwo\x1b[0m", "three"])
    tab.open_job(LIVE)
    tab.show()
    qtbot.keyClick(tab.view, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(tab.view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "one\ntwo\nthree"


def test_each_empty_log_says_why_it_is_empty(tab):
    logs = Logs(tab, r0=[])
    tab.open_job(LIVE)
    assert "Reading the log…" in visible_texts(find_only(EmptyState, tab))
    tab.show()
    assert "No output yet" in visible_texts(find_only(EmptyState, tab))
    tab.show_error("a", "0", "The log of rank 0 cannot be read: Stale file handle.")
    assert shows_text(find_only(EmptyState, tab), "Stale file handle.")
    tab.open_job(replace_fields(FAILED, error=None, state=JobState.ERROR))
    assert "No output" in visible_texts(find_only(EmptyState, tab))
    logs.logs["0"] += ["at last"]
    tab.hide()
    tab.show()
    assert find_only(QStackedWidget, tab).currentWidget() is tab.view


def test_a_log_that_starts_again_drops_the_old_lines(tab):
    logs = Logs(tab, r0=numbered(100))
    tab.open_job(LIVE)
    tab.show()
    logs.logs["0"], logs.generation = ["fresh"], 1
    refresh(tab)
    assert (tab.view.line_count, tab.view.line_text(0)) == (1, "fresh")


def test_updates_of_another_log_change_nothing(tab):
    Logs(tab, r0=["mine"])
    tab.open_job(LIVE)
    tab.show()
    tab.show_size("a", "1", LogSize(7))
    tab.show_lines("b", "0", LogLines(0, ("theirs",)))
    assert (tab.view.line_count, tab.view.line_text(0)) == (1, "mine")


@pytest.mark.parametrize(
    ("line", "expected_texts"),
    [
        ("plain", (StyledText(0, "plain"),)),
        (
            "a \x1b[31mred\x1b[0m b",
            (StyledText(0, "a "), StyledText(2, "red", Style("bad")), StyledText(5, " b")),
        ),
        ("\x1b[1;32mok", (StyledText(0, "ok", Style("good", bold=True)),)),
        ("\x1b[38;5;196mhot", (StyledText(0, "hot", Style("bad")),)),
        (
            "\x1b[38;2;20;40;250mblue\x1b[39m.",
            (StyledText(0, "blue", Style("live")), StyledText(4, ".")),
        ),
        ("\x1b[48;5;196mground", (StyledText(0, "ground"),)),
        ("a\tb", (StyledText(0, "a       b"),)),
        ("\x1b]0;title\x07text\x00\x08", (StyledText(0, "text"),)),
        ("<b>bold</b> &amp;", (StyledText(0, "<b>bold</b> &amp;"),)),
        ("\x1b[2K\x1b[1A", ()),
        ("\x1b[38mbroken \x1b[", (StyledText(0, "broken "),)),
    ],
)
def test_colours_are_styles_of_plain_text_and_markup_is_text(line, expected_texts):
    assert split_styles(line) == expected_texts


def test_plain_text_of_a_log_has_no_colours_and_no_old_progress():
    assert strip_codes("\x1b[1mone\x1b[0m\r\n10%\r20%\n") == "one\n20%\n"


def test_an_update_of_the_log_does_not_restart_a_search(tab, qtbot):
    logs = Logs(tab, r0=numbered(1000))
    tab.open_job(LIVE)
    tab.show()
    tab.find_requested.disconnect(logs.find)
    searches = []
    tab.find_requested.connect(searches.append)
    find_only(SearchField, tab).setText("line")
    qtbot.keyClick(find_only(SearchField, tab), Qt.Key.Key_Return)
    grow(logs, "0", "one more")
    grow(logs, "0", "and more")
    assert searches == [LogSearch("a", "0", "line", 0)]


A_SCRIPT = replace(
    LIVE,
    config=parse_job(
        {"name": "mine", "script": "mine", "placement": [{"node": "a", "processes": 2}]}
    ).draft,
)


def menu_at(tab, line):
    """The entries of the menu of a line."""
    tab.view.menu_requested.emit(line, tab.view.mapToGlobal(QPoint(5, 5)))
    return [act for menu in tab.findChildren(QMenu) for act in menu.actions()]


def test_a_number_in_a_line_is_marked_with_its_name(tab, qtbot):
    patterns = []
    tab.number_marked.connect(lambda *matches: patterns.append(matches))
    Logs(tab, r0=["Epoch [3/10] loss: \x1b[1m0.25\x1b[0m"])
    tab.open_job(A_SCRIPT)
    tab.show()
    acts = menu_at(tab, 0)
    assert [act.text() for act in acts] == [
        "Draw Epoch [3…",
        "Draw 10…",
        "Draw loss: 0.25…",
    ]
    acts[2].trigger()
    dialog = tab.number_dialog.dialog
    assert (
        find_line(dialog, "Name of the number").text(),
        find_line(dialog, "Pattern").text(),
    ) == (
        "loss",
        "loss: {loss}",
    )
    assert shows_text(dialog, "loss 0.25")
    find_line(dialog, "Name of the number").setText("1 loss")
    assert not find_button(dialog, "Draw").isEnabled()
    find_line(dialog, "Name of the number").setText("train/loss")
    find_line(dialog, "Pattern").setText("lost: {train/loss}")
    assert not find_button(dialog, "Draw").isEnabled()
    find_line(dialog, "Pattern").setText("loss: {train/loss}")
    qtbot.mouseClick(find_button(dialog, "Draw"), Qt.MouseButton.LeftButton)
    assert patterns == [(A_SCRIPT.id, "loss: {train/loss}")]
    assert tab.number_dialog.dialog is None


@pytest.mark.parametrize(
    ("view", "source", "line"),
    [
        (LIVE, "0", "loss 3"),
        (A_SCRIPT, "1", "loss 3"),
        (A_SCRIPT, "all", "loss 3"),
        (A_SCRIPT, "mpirun", "loss 3"),
        (A_SCRIPT, "0", "no number, v1beta"),
        (A_SCRIPT, "0", ""),
    ],
)
def test_only_numbers_in_the_log_of_rank_0_of_a_script_are_drawn(tab, view, source, line):
    Logs(tab, r0=[line], r1=[line], rall=[line], rmpirun=[line])
    tab.open_job(view)
    tab.show()
    tab.show_source(source)
    assert menu_at(tab, 0) == []
