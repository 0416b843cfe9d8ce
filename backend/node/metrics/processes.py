"""The processes of this computer that use its processors and memory most, of all users."""

from __future__ import annotations

import heapq
import os
import time

from backend.base.log import suppress
from backend.node.system import process_identity
from backend.node.system.process_identity import Owner, age_s, owner_of
from backend.records.nodes.reading import HostProcess, short_command

_PROCESS_LIMIT = 16
_READ_EVERY = 5
"""Calls of `read`: to read 150 processes takes 17 ms of processor time."""
_LEAST_CPU_PERCENT, _LEAST_MEMORY_BYTES = 2.0, 2**28
"""A process below both is of no interest, unless it is on a GPU."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_Key = tuple[int, int]


class ProcessReader:
    """Reads all processes repeatedly; the use of processors comes from the last two readings."""

    def __init__(self) -> None:
        self._ticks: dict[_Key, int] = {}
        self._owners: dict[_Key, Owner] = {}
        self._read_s = 0.0
        self._calls = 0
        self._last_result: tuple[HostProcess, ...] = ()

    def read(self, gpu_pids: frozenset[int]) -> tuple[HostProcess, ...]:
        """Return the processes with the highest use, and those on a GPU.

        The first call shows no use of processors; after the second, most calls return the last
        result. Arguments are left out: other users may have a password among them.
        """
        self._calls += 1
        if self._calls <= 2 or self._calls % _READ_EVERY == 0:
            self._last_result = self._read(gpu_pids)
        return self._last_result

    def _read(self, gpu_pids: frozenset[int]) -> tuple[HostProcess, ...]:
        now_s = time.monotonic()
        passed_ticks, self._read_s = (now_s - self._read_s) * _TICKS_PER_S, now_s
        previous_ticks, self._ticks = self._ticks, {}
        usage_by_key: dict[_Key, tuple[float, int]] = {}
        for pid in process_identity.pids():
            fields = None
            with suppress(OSError):
                fields = process_identity.stat(pid)
            if fields is None:
                continue
            key, ticks = (pid, int(fields[19])), int(fields[11]) + int(fields[12])
            self._ticks[key] = ticks
            cpu_percent = 100 * (ticks - previous_ticks.get(key, ticks)) / passed_ticks
            usage_by_key[key] = max(cpu_percent, 0.0), int(fields[21]) * _PAGE_BYTES
        busy_keys = [
            key
            for key, (cpu_percent, memory_bytes) in usage_by_key.items()
            if cpu_percent >= _LEAST_CPU_PERCENT or memory_bytes >= _LEAST_MEMORY_BYTES
        ]
        listed_keys = set(heapq.nlargest(_PROCESS_LIMIT, busy_keys, key=usage_by_key.__getitem__))
        listed_keys |= {key for key in usage_by_key if key[0] in gpu_pids}
        self._owners = {key: self._owners.get(key) or owner_of(key[0]) for key in listed_keys}
        return tuple(
            self._process(key, *usage_by_key[key])
            for key in sorted(listed_keys, key=usage_by_key.__getitem__)
        )[::-1]

    def _process(self, key: _Key, cpu_percent: float, memory_bytes: int) -> HostProcess:
        owner = self._owners[key]
        identity = process_identity.process(key[0])
        return HostProcess(
            key[0],
            owner.user,
            short_command(owner.command),
            round(cpu_percent, 1),
            memory_bytes,
            None if identity is None else age_s(identity),
            owner.run_tag,
        )
