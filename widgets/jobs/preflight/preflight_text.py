"""The text of the preflight check: headings, buttons, and the outcome of fixes."""

from __future__ import annotations

from collections.abc import Sequence

from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.nodes.preflight import TrialResult, Fix, Preflight, PreflightFinding
from widgets.common import formats

_NAMES_SHOWN = 3
_NAME_CHARS, _NAMES_CHARS = 18, 60
"""Longer names do not fit on a button; longer lists do not fit in a sentence."""

_TEXTS = {
    Fix.SET_UP_AGAIN: ("", "was set up", "Setting up…"),
    Fix.INSTALL_CLUSTER_KEY: (
        "Write keys again",
        "keys and settings were written again",
        "Writing…",
    ),
    Fix.START_AGENT: ("Start the agent", "was started", "Starting…"),
    Fix.END_ORPHANS: ("End leftover processes", "leftover processes were ended", "Ending…"),
    Fix.CHECK_AGAIN: ("Check again", "was checked again", "Checking…"),
    Fix.SHARE_JOBS: ("Allow nodes to write", "nodes may write now", ""),
    Fix.PUT_INTO_SERVICE: ("Put into service", "is in service again", ""),
    Fix.ACCEPT_HOST_KEY: ("Compare the key…", "its host key was accepted", ""),
    Fix.LEAVE_OUT: ("Leave out", "is left out of this job", ""),
    Fix.TAKE_FREE_GPUS: ("Use a free GPU", "another GPU is used", ""),
    Fix.FIT_PROCESSES: ("", "fewer processes will start", ""),
    Fix.NONE: ("", "", ""),
}
"""Of each fix: its button, its outcome, and what is shown while it works."""


def names(nodes: Sequence[str]) -> str:
    """Return ``gpu09, gpu12`` or ``gpu01, gpu02, gpu03 and 61 more``."""
    shown = [_place(node) for node in nodes]
    if len(shown) > _NAMES_SHOWN + 1:
        rest = len(shown) - _NAMES_SHOWN
        return f"{', '.join(shown[:_NAMES_SHOWN])} and {formats.count(rest)} more"
    if len(shown) > 1:
        return f"{', '.join(shown[:-1])} and {shown[-1]}"
    return "".join(shown)


def _place(node: str) -> str:
    return "this computer" if node == THIS_COMPUTER else node


def button(finding: PreflightFinding) -> str:
    """Return the text of a finding's button, "" if there is no automatic fix."""
    fix = finding.fix
    if fix is Fix.SET_UP_AGAIN:
        where = names(finding.nodes)
        if len(where) > _NAME_CHARS:
            where = "it" if len(finding.nodes) == 1 else "them"
            return f"Set {where} up"
        return f"Set up {where}"
    if fix is Fix.FIT_PROCESSES:
        return f"Run {finding.process_capacity} processes"
    return _TEXTS[fix][0]


def working(finding: PreflightFinding) -> str:
    return _TEXTS[finding.fix][2] or "Fixing…"


def outcome(finding: PreflightFinding, was_asked: bool) -> str:
    """Return the outcome of a finding that is gone."""
    return (was_asked and _TEXTS[finding.fix][1]) or "is OK now"


def heading(found: Preflight) -> str:
    many = len(found.blocking_findings)
    if not many:
        return "This job can start"
    verb = "prevents" if many == 1 else "prevent"
    return f"{formats.plural(many, 'problem')} {verb} this job from starting"


def circumstances(found: Preflight) -> str:
    points = len({finding.check for finding in found.findings})
    where = names(found.nodes)
    if len(where) > _NAMES_CHARS:
        where = formats.plural(len(found.nodes), "node")
    said = (
        f"Checked {formats.plural(points, 'point')} on {where} "
        f"in {formats.duration(max(1.0, found.took_s))}."
    )
    said = f"{said} {found.unchecked_message}".rstrip()
    return said if found.succeeded else f"{said} All problems are listed; nothing was started."


def slots(placement: Sequence[Placement]) -> str:
    """Return ``16 GPUs``, or ``4 processes``."""
    gpus = sum(len(one.gpus) for one in placement)
    if gpus:
        return formats.plural(gpus, "GPU")
    return formats.plural(sum(one.processes for one in placement), "process", "processes")


def start_on(smaller: Sequence[Placement], nodes: Sequence[str]) -> str:
    """Return ``Start on gpu09 only, 8 GPUs``."""
    left = [one.node for one in smaller]
    if set(left) == set(nodes):
        return f"Start on {slots(smaller)}"
    if len(left) == 1 and len(left[0]) > _NAME_CHARS:
        return f"Start on 1 node, {slots(smaller)}"
    if len(left) == 1:
        return f"Start on {names(left)} only, {slots(smaller)}"
    where = names(left)
    if len(left) > _NAMES_SHOWN or len(where) > 2 * _NAME_CHARS:
        where = formats.plural(len(left), "node")
    return f"Start on {where}, {slots(smaller)}"


def report(found: Preflight, canary: TrialResult | None) -> str:
    """Return everything as text, for a mail to the administrator of the nodes."""
    lines = [heading(found), circumstances(found), ""]
    for finding in (*found.blocking_findings, *found.warnings):
        state = "hint " if finding.is_warning else "fault"
        where = f" ({names(finding.nodes)})" if finding.nodes else ""
        lines.append(f"{state}  {finding.label}{where}: {finding.message}")
        if finding.remedy:
            lines.append(f"       {finding.remedy}")
    lines.append(f"passed {', '.join(passed(found))}")
    if canary is not None:
        lines += ["", f"trial  {canary.message}", canary.traceback]
    return "\n".join(lines).rstrip() + "\n"


def passed(found: Preflight) -> list[str]:
    return list(dict.fromkeys(one.check for one in found.findings if one.ok))
