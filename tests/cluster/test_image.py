"""The image is made once, whole or not at all. `make` itself is what every other test stands on."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from installers.console import Progress
from tests.cluster import image
from tests.waiting import LIMIT_S


@pytest.fixture
def provide(tmp_path: Path) -> Callable[[], Path]:
    return lambda: image.provide(Progress(io.StringIO()), tmp_path / "images")


def test_a_half_made_image_is_made_again(
    provide: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_half_way(root: Path, *_: object) -> None:
        root.mkdir()
        (root / "half").touch()
        raise KeyboardInterrupt

    def make(root: Path, *_: object) -> None:
        root.mkdir()
        (root / "whole").touch()

    monkeypatch.setattr(image, "make", stop_half_way)
    with pytest.raises(KeyboardInterrupt):
        provide()
    monkeypatch.setattr(image, "make", make)
    image_folder = provide()
    assert image.recipe() in image_folder.name
    assert [file.name for file in image_folder.iterdir()] == ["whole"]
    monkeypatch.setattr(image, "make", stop_half_way)
    assert provide() == image_folder


def test_two_runs_make_it_once(
    provide: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    image_folders = []
    barrier = threading.Barrier(2, timeout=LIMIT_S)

    def make(root: Path, *_: object) -> None:
        image_folders.append(root)
        root.mkdir()

    def provide_together() -> Path:
        barrier.wait()
        return provide()

    monkeypatch.setattr(image, "make", make)
    with ThreadPoolExecutor(2) as pool:
        first_run, second_run = pool.submit(provide_together), pool.submit(provide_together)
    assert first_run.result() == second_run.result()
    assert len(image_folders) == 1


def test_packages_come_from_where_this_machine_takes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert image.mirror() == []
    apt = tmp_path / "apt-get"
    apt.write_text(
        "#!/bin/sh\n"
        "echo \"'https://deb.example/node/dists/nodistro/InRelease' deb.example_nodistro 0 \"\n"
        "echo \"'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example 0 \"\n"
    )
    apt.chmod(0o755)
    assert image.mirror() == ["http://mirror.example/debian"]
    apt.write_text(
        "#!/bin/sh\necho \"'http://archive.example/ubuntu/dists/noble/InRelease' x 0\"\n"
    )
    assert image.mirror() == []
