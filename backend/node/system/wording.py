"""Words for a rank, its place and its end in a sentence."""

from __future__ import annotations

import re
import signal

from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import node_label as node_label

_RULE = re.compile(r"^-{10,}\s*$", re.MULTILINE)
_CRASHES = {
    signal.SIGSEGV: "it accessed invalid memory",
    signal.SIGBUS: "memory behind a file or shared memory was missing; /dev/shm may be full",
    signal.SIGFPE: "an arithmetic error in compiled code",
    signal.SIGILL: "an instruction that this CPU does not have",
    signal.SIGABRT: "compiled code aborted",
}


def rank_label(plan: RankPlan) -> str:
    return f"Rank {plan.rank} on {node_label(plan.node)}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def crash_reason(number: int) -> str:
    """Return why compiled code dies of this signal, or ""."""
    return next(
        (reason for signal_number, reason in _CRASHES.items() if signal_number == number), ""
    )


def last_message(output: str) -> str:
    """Return the last line of a program's output that contains a word, or "".

    mpirun's messages stand between two rules of dashes and begin with the problem: of those, return
    the first paragraph.
    """
    *framed_parts, last_part = _RULE.split(output)
    if len(framed_parts) > 1 and not last_part.strip() and framed_parts[-1].strip():
        return " ".join(framed_parts[-1].strip().split("\n\n")[0].split())
    lines = (line.strip() for line in reversed(output.splitlines()))
    return next((line for line in lines if any(map(str.isalnum, line))), "")


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:g} s"
