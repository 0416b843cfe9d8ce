"""F43: killed at any moment of many writes, the catalogue has lost nothing it confirmed."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from backend.catalogue.store import open_catalogue
from backend.records.library.item import Kind
from tests.backend.catalogue.catalogue_rig import item, job

LONGEST = 25


def write_for_ever(path: Path, number: int, confirm: Connection) -> None:
    catalogue = open_catalogue(path)
    while True:
        number += 1
        catalogue.put_job(job(number))
        catalogue.put_item(item(version=number))
        confirm.send(number)


@pytest.mark.parametrize("kills", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_f43_kills_between_writes_lose_no_confirmed_row(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "c.sqlite"
    dice = random.Random(43)
    processes = multiprocessing.get_context("forkserver")
    # Imported once, not once for each.
    processes.set_forkserver_preload([__name__])
    confirmed = 0
    for _ in range(kills):
        receiver, sender = processes.Pipe(duplex=False)
        writer = processes.Process(target=write_for_ever, args=(path, confirmed, sender))
        writer.start()
        sender.close()
        for _ in range(dice.randint(1, LONGEST)):
            confirmed = receiver.recv()
        writer.kill()
        # What it confirmed before it died counts as well.
        with contextlib.suppress(EOFError):
            while True:
                confirmed = receiver.recv()
        writer.join()
        writer.close()
        receiver.close()
    assert confirmed >= kills
    catalogue = open_catalogue(path)
    jobs, items = catalogue.job_ids(), catalogue.items(Kind.DATASET)
    catalogue.close()
    assert {f"20261121-{number:06d}" for number in range(1, confirmed + 1)} <= jobs
    assert {item.version for item in items} >= set(range(1, confirmed + 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
