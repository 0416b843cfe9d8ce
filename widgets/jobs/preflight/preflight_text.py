"""The text of the preflight check: headings, buttons, and the outcome of fixes."""

from __future__ import annotations

from collections.abc import Sequence

from backend.records.jobs.placement import Placement, node_label
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding, TrialResult
from widgets.common import formats

_MAX_NAMES = 3
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
    Fix.CHECK_COMPUTE_NODE: ("Check in a job", "a compute node was checked", ""),
    Fix.LEAVE_OUT: ("Leave out", "is left out of this job", ""),
    Fix.TAKE_FREE_GPUS: ("Use a free GPU", "another GPU is used", ""),
    Fix.FIT_PROCESSES: ("", "fewer processes will start", ""),
    Fix.NONE: ("", "", ""),
}
"""Of each fix: its button, its outcome, and what is shown while it works."""


def node_names(nodes: Sequence[str]) -> str:
    """Return ``gpu09, gpu12`` or ``gpu01, gpu02, gpu03 and 61 more``."""
    shown_names = [*map(node_label, nodes)]
    if len(shown_names) > _MAX_NAMES + 1:
        hidden_count = len(shown_names) - _MAX_NAMES
        return f"{', '.join(shown_names[:_MAX_NAMES])} and {formats.count(hidden_count)} more"
    if len(shown_names) > 1:
        return f"{', '.join(shown_names[:-1])} and {shown_names[-1]}"
    return "".join(shown_names)


def button_text(finding: PreflightFinding) -> str:
    """Return the text of a finding's button, "" if there is no automatic fix."""
    fix = finding.fix
    if fix is Fix.SET_UP_AGAIN:
        nodes_text = node_names(finding.nodes)
        if len(nodes_text) > _NAME_CHARS:
            nodes_text = "it" if len(finding.nodes) == 1 else "them"
            return f"Set {nodes_text} up"
        return f"Set up {nodes_text}"
    if fix is Fix.FIT_PROCESSES:
        return f"Run {finding.process_capacity} processes"
    return _TEXTS[fix][0]


def progress_text(finding: PreflightFinding) -> str:
    return _TEXTS[finding.fix][2] or "Fixing…"


def outcome_text(finding: PreflightFinding, was_requested: bool) -> str:
    """Return the outcome of a finding that is gone."""
    return (was_requested and _TEXTS[finding.fix][1]) or "is OK now"


def heading_text(preflight: Preflight) -> str:
    problem_count = len(preflight.blocking_findings)
    if not problem_count:
        return "This job can start"
    verb = "prevents" if problem_count == 1 else "prevent"
    return f"{formats.plural(problem_count, 'problem')} {verb} this job from starting"


def summary_text(preflight: Preflight) -> str:
    check_count = len({finding.check for finding in preflight.findings})
    nodes_text = node_names(preflight.nodes)
    if len(nodes_text) > _NAMES_CHARS:
        nodes_text = formats.plural(len(preflight.nodes), "node")
    text = (
        f"Checked {formats.plural(check_count, 'point')} on {nodes_text} "
        f"in {formats.duration(max(1.0, preflight.took_s))}."
    )
    text = f"{text} {preflight.unchecked_message}".rstrip()
    return text if preflight.succeeded else f"{text} All problems are listed; nothing was started."


def slots_text(placement: Sequence[Placement]) -> str:
    """Return ``16 GPUs``, or ``4 processes``."""
    gpus = sum(len(p.gpus) for p in placement)
    if gpus:
        return formats.plural(gpus, "GPU")
    return formats.plural(sum(p.processes for p in placement), "process", "processes")


def start_text(smaller_placements: Sequence[Placement], nodes: Sequence[str]) -> str:
    """Return ``Start on gpu09 only, 8 GPUs``."""
    remaining_nodes = [p.node for p in smaller_placements]
    if set(remaining_nodes) == set(nodes):
        return f"Start on {slots_text(smaller_placements)}"
    if len(remaining_nodes) == 1 and len(remaining_nodes[0]) > _NAME_CHARS:
        return f"Start on 1 node, {slots_text(smaller_placements)}"
    if len(remaining_nodes) == 1:
        return f"Start on {node_names(remaining_nodes)} only, {slots_text(smaller_placements)}"
    nodes_text = node_names(remaining_nodes)
    if len(remaining_nodes) > _MAX_NAMES or len(nodes_text) > 2 * _NAME_CHARS:
        nodes_text = formats.plural(len(remaining_nodes), "node")
    return f"Start on {nodes_text}, {slots_text(smaller_placements)}"


def report_text(preflight: Preflight, trial: TrialResult | None) -> str:
    """Return everything as text, for a mail to the administrator of the nodes."""
    lines = [heading_text(preflight), summary_text(preflight), ""]
    for finding in (*preflight.blocking_findings, *preflight.warnings):
        state = "hint " if finding.is_warning else "fault"
        nodes_text = f" ({node_names(finding.nodes)})" if finding.nodes else ""
        lines.append(f"{state}  {finding.label}{nodes_text}: {finding.message}")
        if finding.remedy:
            lines.append(f"       {finding.remedy}")
    lines.append(f"passed {', '.join(passed_checks(preflight))}")
    if trial is not None:
        lines += ["", f"trial  {trial.message}", trial.traceback]
    return "\n".join(lines).rstrip() + "\n"


def passed_checks(preflight: Preflight) -> list[str]:
    return list(dict.fromkeys(f.check for f in preflight.findings if f.ok))
