"""Let the window run first while a worker thread computes in many pieces.

Python runs one thread at a time. Each call into Qt releases the interpreter lock and waits to get
it back, so a page of a thousand such calls stalls as long as a worker computes: reading 64 nodes
in 50 ms blocked the window for 50 ms and more (tests/benchmarks/soak.py). Pauses between the pieces
make the reading slower, which is not visible, and leave most of the time to the window.
"""

from __future__ import annotations

import threading
import time

_CHUNK_S = 0.001
_PAUSES = 4
_LONGEST_S = 0.02


class _Thread(threading.local):
    lets_others_go_first = False
    paused_at_s = 0.0


_thread_state = _Thread()


def let_others_go_first() -> None:
    """Pause this thread for four fifths of the time from now on."""
    _thread_state.lets_others_go_first = True


def pause() -> None:
    """Pause between two pieces of work; free if no thread waits."""
    if not _thread_state.lets_others_go_first:
        return
    computed_s = time.thread_time() - _thread_state.paused_at_s
    if computed_s >= _CHUNK_S:
        time.sleep(min(_PAUSES * computed_s, _LONGEST_S))
        _thread_state.paused_at_s = time.thread_time()
