"""F43: killed at any moment of a thousand writes, the catalogue has lost nothing it confirmed."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from backend.catalogue.store import open_catalogue
from backend.records.library import Kind
from tests.backend.catalogue.catalogue_rig import item, job

KILLS = 40
LONGEST = 25


def write_for_ever(path: Path, number: int, confirm: Connection) -> None:
    catalogue = open_catalogue(path)
    while True:
        number += 1
        catalogue.put_job(job(number))
        catalogue.put_item(item(version=number))
        confirm.send(number)


def test_f43_forty_kills_in_a_thousand_writes_lose_no_confirmed_row(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    dice = random.Random(43)
    processes = multiprocessing.get_context("forkserver")
    # Imported once, not forty times.
    processes.set_forkserver_preload([__name__])
    confirmed = 0
    for _ in range(KILLS):
        here, there = processes.Pipe(duplex=False)
        writer = processes.Process(target=write_for_ever, args=(path, confirmed, there))
        writer.start()
        there.close()
        for _ in range(dice.randint(1, LONGEST)):
            confirmed = here.recv()
        writer.kill()
        # What it confirmed before it died counts as well.
        with contextlib.suppress(EOFError):
            while True:
                confirmed = here.recv()
        writer.join()
        writer.close()
        here.close()
    assert confirmed * 2 > 1000
    opened = open_catalogue(path)
    jobs, items = opened.job_ids(), opened.items(Kind.DATASET)
    opened.close()
    assert {f"20261121-{number:06d}" for number in range(1, confirmed + 1)} <= jobs
    assert {each.version for each in items} >= set(range(1, confirmed + 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
