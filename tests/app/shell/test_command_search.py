"""Ctrl+K: a few letters find the right thing, acts before things, and nothing that cannot be."""

import pytest
from PySide6.QtGui import QAction

from app.shell.command_search import MAX_RESULTS, CommandSearch
from widgets.shell.command_palette import PaletteEntry

pytestmark = pytest.mark.usefixtures("qapp")


def target(title, kind="job", aside="", key=""):
    return PaletteEntry(kind, key or title, title, aside)


def finder(*titles, acts=()):
    go_to = CommandSearch()
    opened = []
    for title, able in acts:
        action = QAction(title)
        action.setEnabled(able)
        action.triggered.connect(lambda _checked, t=title: opened.append(t))
        go_to.add_action(action)
    go_to.add_source("job", lambda _text: [target(title) for title in titles], opened.append)
    return go_to, opened


def titles(found):
    return [each.title for each in found]


def test_an_empty_search_lists_all_possible_actions():
    go_to, _ = finder("resnet", acts=(("New job", True), ("Stop the open job", False)))
    assert titles(go_to.find("")) == ["New job"]


def test_matches_at_the_start_of_a_title_come_before_those_of_a_word():
    go_to, _ = finder("big digits", "megadigits", "digits 2")
    assert titles(go_to.find("Dig")) == ["digits 2", "big digits", "megadigits"]


def test_every_word_must_stand_in_the_title_or_behind_it():
    go_to = CommandSearch()
    go_to.add_source(
        "job",
        lambda _: [target("digits", aside="Failed"), target("digits 2", aside="Finished")],
        id,
    )
    assert titles(go_to.find("digits fail")) == ["digits"]


def test_acts_come_before_things_that_fit_as_well():
    go_to, opened = finder("New job for ben", acts=(("New job", True),))
    found = go_to.find("new job")
    assert titles(found) == ["New job", "New job for ben"]
    for each in found:
        go_to.open(each)
    assert opened == ["New job", "New job for ben"]


def test_a_job_named_like_an_action_is_opened_and_the_action_is_not_run():
    go_to, opened = finder(acts=(("Settings", True),))
    go_to.add_source("node", lambda _: [target("Settings", "node")], lambda key: opened.append(1))
    go_to.open(target("Settings", "node"))
    assert opened == [1]


def test_only_the_best_of_many_matches_are_shown():
    go_to, _ = finder(*(f"job {number}" for number in range(5000)), "the job")
    found = go_to.find("job")
    assert len(found) == MAX_RESULTS
    assert titles(found)[0] == "job 0"


def test_background_results_join_the_local_ones_in_order_of_rank():
    go_to, opened = finder("my resnet", acts=(("New job", True),))
    answers = []
    go_to.add_background_source(
        "background", lambda text, then: answers.append((text, then)), opened.append
    )
    shown = []
    go_to.ask("ResNet", lambda targets, is_all: shown.append((titles(targets), is_all)))
    assert shown == [(["my resnet"], False)]
    text, then = answers.pop()
    assert text == "resnet"
    then((target("resnet 50", "background"),))
    assert shown[1:] == [(["resnet 50", "my resnet"], True)]


def test_a_late_answer_to_an_old_search_is_not_shown():
    go_to, opened = finder()
    answers, shown = [], []
    go_to.add_background_source(
        "background", lambda text, then: answers.append(then), opened.append
    )
    for text in ("res", "unet"):
        go_to.ask(text, lambda targets, is_all: shown.append(titles(targets)))
    answers[0]((target("resnet", "background"),))
    answers[1]((target("unet", "background"),))
    assert shown == [[], [], ["unet"]]
    go_to.ask("", lambda targets, is_all: shown.append(is_all))
    assert shown[-1] is True, "without a text no source is asked"
