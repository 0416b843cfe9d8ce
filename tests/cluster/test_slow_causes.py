"""The seeded one of four causes of a slow job on nodes is named, at its rank."""

from __future__ import annotations

import pytest

from backend.records.jobs.slow_cause import Cause
from tests.cluster.ready import ReadyCluster
from tests.cluster.seeded_causes import is_named, stock_slow_items, train_with_cause

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stocked(ready_cluster: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> ReadyCluster:
    stock_slow_items(ready_cluster, tmp_path_factory.mktemp("sources"))
    return ready_cluster


@pytest.mark.parametrize("cause", list(Cause), ids=lambda cause: cause.value)
def test_the_seeded_cause_is_named(stocked: ReadyCluster, cause: Cause) -> None:
    view = train_with_cause(stocked, cause)
    assert is_named(view, cause), (view.status.slow_cause, view.status.step_times)


def test_a_healthy_job_has_no_cause(stocked: ReadyCluster) -> None:
    view = train_with_cause(stocked, None)
    assert view.status.slow_cause is None, view.status.step_times
