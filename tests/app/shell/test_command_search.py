"""Ctrl+K: a few letters find the right thing, acts before things, and nothing that cannot be."""

import pytest
from PySide6.QtGui import QAction

from app.shell.command_search import MAX_RESULTS, CommandSearch
from widgets.shell.command_palette import PaletteEntry

pytestmark = pytest.mark.usefixtures("qapp")


def target(title, kind="job", remark="", key=""):
    return PaletteEntry(kind, key or title, title, remark)


def finder(*titles, actions=()):
    search = CommandSearch()
    opened_titles = []
    for title, is_enabled in actions:
        action = QAction(title)
        action.setEnabled(is_enabled)
        action.triggered.connect(lambda _is_checked, t=title: opened_titles.append(t))
        search.add_action(action)
    search.add_source(
        "job", lambda _text: [target(title) for title in titles], opened_titles.append
    )
    return search, opened_titles


def titles(targets):
    return [t.title for t in targets]


def test_an_empty_search_lists_all_possible_actions():
    search, _ = finder("resnet", actions=(("New job", True), ("Stop the open job", False)))
    assert titles(search.find("")) == ["New job"]


def test_matches_at_the_start_of_a_title_come_before_those_of_a_word():
    search, _ = finder("big digits", "megadigits", "digits 2")
    assert titles(search.find("Dig")) == ["digits 2", "big digits", "megadigits"]


def test_every_word_must_stand_in_the_title_or_behind_it():
    search = CommandSearch()
    search.add_source(
        "job",
        lambda _: [target("digits", remark="Failed"), target("digits 2", remark="Finished")],
        id,
    )
    assert titles(search.find("digits fail")) == ["digits"]


def test_acts_come_before_things_that_fit_as_well():
    search, opened_titles = finder("New job for ben", actions=(("New job", True),))
    targets = search.find("new job")
    assert titles(targets) == ["New job", "New job for ben"]
    for result in targets:
        search.open(result)
    assert opened_titles == ["New job", "New job for ben"]


def test_a_job_named_like_an_action_is_opened_and_the_action_is_not_run():
    search, opened_titles = finder(actions=(("Settings", True),))
    search.add_source(
        "node", lambda _: [target("Settings", "node")], lambda key: opened_titles.append(1)
    )
    search.open(target("Settings", "node"))
    assert opened_titles == [1]


def test_only_the_best_of_many_matches_are_shown():
    search, _ = finder(*(f"job {number}" for number in range(5000)), "the job")
    targets = search.find("job")
    assert len(targets) == MAX_RESULTS
    assert titles(targets)[0] == "job 0"


def test_background_results_join_the_local_ones_in_order_of_rank():
    search, opened_titles = finder("my resnet", actions=(("New job", True),))
    requests = []
    search.add_background_source(
        "background",
        lambda text, on_result: requests.append((text, on_result)),
        opened_titles.append,
    )
    results = []
    search.ask("ResNet", lambda targets, is_all: results.append((titles(targets), is_all)))
    assert results == [(["my resnet"], False)]
    text, on_result = requests.pop()
    assert text == "resnet"
    on_result((target("resnet 50", "background"),))
    assert results[1:] == [(["resnet 50", "my resnet"], True)]


def test_a_late_answer_to_an_old_search_is_not_shown():
    search, opened_titles = finder()
    answers, results = [], []
    search.add_background_source(
        "background", lambda text, on_result: answers.append(on_result), opened_titles.append
    )
    for text in ("res", "unet"):
        search.ask(text, lambda targets, is_all: results.append(titles(targets)))
    answers[0]((target("resnet", "background"),))
    answers[1]((target("unet", "background"),))
    assert results == [[], [], ["unet"]]
    search.ask("", lambda targets, is_all: results.append(is_all))
    assert results[-1] is True, "without a text no source is asked"
