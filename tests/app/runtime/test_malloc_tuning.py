"""Few heaps, so that freed memory leaves few holes, and promises of other code that is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Signal

from app.runtime.malloc_tuning import ARENAS

_THREADS_THAT_ALLOCATE = """
import ctypes, sys, threading
from app.runtime.malloc_tuning import keep_heaps_small

if sys.argv[1] == "few":
    assert keep_heaps_small()
all_there, kept = threading.Barrier(8), []

def work():
    all_there.wait()
    kept.append([bytes(1000) for _ in range(1000)])
    all_there.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
file = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
"""


_LARGE_PIECES = """
import ctypes, sys
from app.runtime.malloc_tuning import LARGE_BYTES, keep_heaps_small

if sys.argv[1] == "small":
    assert keep_heaps_small()

class Mallinfo(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.mallinfo2.restype = Mallinfo
libc.free(libc.malloc(1 << 24))
before = libc.mallinfo2().hblks
for _ in range(int(sys.argv[2])):
    libc.malloc(LARGE_BYTES)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.parametrize(("mode", "of_their_own"), [("small", True), ("as glibc likes", False)])
def test_large_pieces_leave_no_holes_in_a_heap(mode: str, of_their_own: bool) -> None:
    """But for the few that find a hole which is there already."""
    count = 40
    command = [sys.executable, "-c", _LARGE_PIECES, mode, str(count)]
    result = subprocess.run(
        command, cwd=Path(__file__).parents[3], check=True, stdout=subprocess.PIPE
    )
    assert (int(result.stdout) > count / 2) is of_their_own


@pytest.mark.parametrize(("mode", "is_few"), [("few", True), ("as glibc likes", False)])
def test_all_threads_share_two_heaps(mode: str, is_few: bool, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-c", _THREADS_THAT_ALLOCATE, mode, str(report)]
    subprocess.run(command, cwd=Path(__file__).parents[3], check=True)
    heaps = report.read_text(encoding="utf-8").count("<heap nr=")
    assert (heaps <= ARENAS) is is_few, heaps


class Bell(QObject):
    rung = Signal()


def test_emitting_does_not_lose_references_to_true(qapp):
    """PySide6 6.12.0 loses one per emit; on Python 3.11 the process then aborts."""
    bell, previous_count = Bell(), sys.getrefcount(True)
    for _ in range(50):
        bell.rung.emit()
    assert abs(sys.getrefcount(True) - previous_count) < 25
