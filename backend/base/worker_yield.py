"""Work in many pieces beside a window lets the window go first.

Python runs one thread at a time. Each call into Qt gives the turn away and waits until it comes
back, so a page of a thousand such calls stands still for as long as a worker computes: a look at 64
nodes that took 50 ms was 50 ms and more of the window's time (tests/benchmarks/soak.py). Pauses
between the pieces make that look longer, which nobody sees, and give the window most of the time.
"""

from __future__ import annotations

import threading
import time

_PIECE_S = 0.001
_PAUSES = 4
_LONGEST_S = 0.02


class _Thread(threading.local):
    lets_others_go_first = False
    paused_at_s = 0.0


_here = _Thread()


def let_others_go_first() -> None:
    """From now on this thread pauses, for four fifths of the time."""
    _here.lets_others_go_first = True


def pause() -> None:
    """Between two pieces of work; costs nothing where nobody waits."""
    if not _here.lets_others_go_first:
        return
    computed_s = time.thread_time() - _here.paused_at_s
    if computed_s >= _PIECE_S:
        time.sleep(min(_PAUSES * computed_s, _LONGEST_S))
        _here.paused_at_s = time.thread_time()
