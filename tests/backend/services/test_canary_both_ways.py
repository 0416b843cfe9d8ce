"""A trial on a node, from a desktop that mounts the data root and from one that reaches it over
SFTP: the same behaviour."""

from __future__ import annotations

import pytest

from backend.errors import Cancelled
from backend.records.state import JobState
from backend.services.workplace import Services
from tests.backend.services.both_ways import Beat, Place, on_node

pytest_plugins = [
    "tests.backend.cluster.sshd_fixtures",
    "tests.backend.services.both_ways_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")
ALONE = {"strategy": {"name": "alone"}}


def ready(place: Place, beat: Beat) -> Services:
    services = place.desktop()
    place.stock(services)
    beat(place)
    return services


def left_of(place: Place, services: Services) -> list[str]:
    """On the data root, and in what a desktop keeps of it."""
    roots = (place.data, services.data_root)
    return [path.name for root in roots for path in root.jobs.glob(".canary*")]


def test_a_trial_trains_a_batch_on_the_node_and_leaves_nothing(place: Place, beat: Beat) -> None:
    services = ready(place, beat)
    over = place.data.jobs / ".canary-over" / "attempts" / "1"
    view = services.jobs.create(on_node(**ALONE))
    over.mkdir(parents=True)
    (over / "exit.json").write_text("{}")
    states: list[JobState] = []
    trial = services.canary.run(view.id, states.append)
    assert trial.passed, trial.sentence
    assert trial.sentence.startswith("1 rank trained one batch together")
    assert states[-1] is JobState.FINISHED
    assert services.jobs.show(view.id).state is JobState.CREATED
    assert [job.id for job in services.jobs.list()] == [view.id]
    assert left_of(place, services) == []


def test_a_trial_that_fails_has_the_words_of_its_rank(place: Place, beat: Beat) -> None:
    services = ready(place, beat)
    view = services.jobs.create(on_node(environment={"PAUSE_S": "a while"}, **ALONE))
    trial = services.canary.run(view.id)
    assert not trial.passed
    assert trial.sentence.startswith("Rank 0 on gpu1: ")
    assert "a while" in trial.sentence
    assert "bks_dataset.py" in trial.traceback
    assert left_of(place, services) == []


def test_a_trial_can_be_cancelled(place: Place, beat: Beat) -> None:
    services = ready(place, beat)
    view = services.jobs.create(on_node(**ALONE))
    with pytest.raises(Cancelled):
        services.canary.run(view.id, cancelled=lambda: True)
    assert left_of(place, services) == []
