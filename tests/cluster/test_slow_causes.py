"""Of four causes of a slow job on nodes the one that was made is named, at its rank."""

from __future__ import annotations

import pytest

from backend.records.jobs.slow_cause import Cause
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeded_causes import RANK_OF, named, stock

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stocked(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> ReadyCluster:
    stock(ready_cluster, tmp_path_factory.mktemp("sources"))
    return ready_cluster


@pytest.mark.parametrize("cause", list(Cause), ids=lambda cause: cause.value)
def test_the_cause_that_was_made_is_named(stocked: ReadyCluster, cause: Cause) -> None:
    found = named(stocked, cause)
    assert found is not None
    assert (found.cause, found.rank) == (cause, RANK_OF[cause]), found.evidence


def test_a_healthy_job_has_no_cause(stocked: ReadyCluster) -> None:
    assert named(stocked, None) is None
