"""Files that are read while they are written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backend.records.base.atomic_files import read_json, replace_bytes, replace_json
from tests.fakes.disk import Disk


@pytest.mark.parametrize("lasting", [True, False])
def test_a_lasting_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    disk, path = Disk(monkeypatch), tmp_path / "status.json"
    replace_bytes(path, b"content", durable=lasting)
    assert disk.has_synced(path) is lasting


WRITER = """
import sys
from pathlib import Path
from backend.records.base.atomic_files import replace_json
number = 0
print("ready", flush=True)
while True:
    number += 1
    replace_json(Path(sys.argv[1]), {"number": number, "same": number, "fill": "x" * 20000})
"""


def test_m11_a_reader_beside_a_writer_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    replace_json(path, {"number": 0, "same": 0, "fill": ""})
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert writer.stdout is not None
    try:
        writer.stdout.readline()
        sizes: set[int] = set()
        while len(sizes) < 50:
            value = read_json(path)
            assert value["number"] == value["same"]
            sizes.add(value["number"])
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    # Killed in the middle of a write: what stands there is whole.
    value = read_json(path)
    assert value["number"] == value["same"]


def test_another_user_of_a_node_can_read_a_written_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    previous_mask = os.umask(0o077)
    try:
        replace_bytes(tmp_path / "a", b"x")
        replace_bytes(tmp_path / "b", b"x", mode=0o600)
    finally:
        os.umask(previous_mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replace_json(path, {"a": 1})
    with pytest.raises(ValueError, match="nan"):
        replace_json(path, {"a": float("nan")})
    with pytest.raises(TypeError):
        replace_bytes(path, "text")  # type: ignore[arg-type]  # what the test is about
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff", b"[" * 100_000])
def test_f35_a_file_without_a_json_object_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        read_json(path)


def test_f59_a_file_larger_than_it_may_be_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(ValueError, match="larger than"):
        read_json(path)
