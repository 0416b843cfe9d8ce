"""Each service is made when it is first used: in any order, by any thread, once and complete."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.services.context.container import Services, open_services

SERVICES = sorted({n for n in vars(Services) if n[0] != "_"} - {"close", "make_all", "trash"})


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    container = open_services(tmp_path / "root", tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


@pytest.mark.parametrize("name", SERVICES)
def test_any_service_may_be_the_first(services: Services, name: str) -> None:
    first = getattr(services, name)
    services.make_all()
    assert getattr(services, name) is first
    roots = {getattr(vars(services)[service], "_root", None) for service in SERVICES}
    assert roots == {None, services.data_root}


def test_opening_makes_none(services: Services, tmp_path: Path) -> None:
    assert not [name for name in SERVICES if name in vars(services)]
    assert not (tmp_path / "here").exists()


def test_threads_get_the_same_services(services: Services) -> None:
    barrier = threading.Barrier(8)
    results: list[tuple[object, ...]] = []

    def use(first: int) -> None:
        barrier.wait()
        names = SERVICES[first:] + SERVICES[:first]
        by_name = {name: getattr(services, name) for name in names}
        results.append(tuple(by_name[name] for name in SERVICES))

    threads = [threading.Thread(target=use, args=(3 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
