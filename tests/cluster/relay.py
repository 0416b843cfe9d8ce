"""Carries frames between two links, each some time after it came: a long cable.

Usage: python relay.py LINK OTHER_LINK DELAY_S.  It writes a line when it has both, and goes when
its standard input ends, so it never outlives who started it.

Small machines' kernels often lack netem.  Frames come as the sender's kernel made them, up to
64 KiB and without checksums (PACKET_VNET_HDR): segmentation and checksums stay with the kernel.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import time
from collections import deque
from typing import TextIO

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_ALL_PROTOCOLS = 3
_FRAME_BYTES = 80_000
_BUFFER_BYTES = 16_000_000


def _open_end(link: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    end.bind((link, _ALL_PROTOCOLS))
    return end


def carry_frames(link: str, other_link: str, delay_s: float) -> None:
    """Until standard input ends."""
    first_end, second_end = _open_end(link), _open_end(other_link)
    remote_end = {first_end: second_end, second_end: first_end}
    pending_frames: deque[tuple[float, socket.socket, bytes]] = deque()
    sys.stdout.write("carrying\n")
    sys.stdout.flush()
    while True:
        wait_s = max(0.0, pending_frames[0][0] - time.monotonic()) if pending_frames else None
        ready: list[TextIO | socket.socket] = select.select(
            [sys.stdin, *remote_end], [], [], wait_s
        )[0]
        if sys.stdin in ready:
            return
        # A link that is down, or gone, loses frames and says so here.
        for end, opposite in remote_end.items():
            if end in ready:
                with contextlib.suppress(OSError):
                    frame = end.recv(_FRAME_BYTES)
                    pending_frames.append((time.monotonic() + delay_s, opposite, frame))
        while pending_frames and pending_frames[0][0] <= time.monotonic():
            _, end, frame = pending_frames.popleft()
            with contextlib.suppress(OSError):
                end.send(frame)


if __name__ == "__main__":
    carry_frames(sys.argv[1], sys.argv[2], float(sys.argv[3]))
