"""Form of a preflight check: a probe of each node, and judges, which turn replies into results.

`backend.services.preflight.checks` has the table of all checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.node.system import wording
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.preflight import Fix, PreflightFinding
from backend.records.nodes.provisioning_options import SetUpOptions
from backend.services.preflight.context import JobPreflight, NodePreflight, PreflightTarget, Reply

_TIMED_OUT = 124
"""The exit code of a program that ran past its limit, in `backend.node.checks.preflight_probe`."""

Replies = Mapping[str, Reply | None]


@dataclass(frozen=True)
class Probe:
    """A query to a node: a function of `backend.node.checks.preflight_probe`.

    Attributes:
        name: The key of the reply.
        function: The function that the node calls with the fields of `PreflightTarget`.
        argv: The program that `preflight_probe.command` runs.
    """

    name: str
    function: Callable[[dict[str, Any]], Any]
    argv: Callable[[PreflightTarget], Sequence[str]] = lambda target: ()

    def request(self, target: PreflightTarget) -> Mapping[str, Any]:
        return {"ask": self.function.__name__, "argv": self.argv(target)}

    def reply(self, replies: Replies) -> Reply | None:
        reply = replies.get(self.name)
        return None if reply is None or reply.get("code") == _TIMED_OUT else reply


@dataclass(frozen=True)
class Result:
    """The part of a finding that a judge decides; the check adds the rest.

    Attributes:
        fix: None for the fix of the check.
        nodes: None for the node that is judged.
        check: The name of the check to which the finding belongs, if it is another check.
        details: More fields of `PreflightFinding`.
    """

    message: str
    remedy: str = ""
    fix: Fix | None = None
    nodes: tuple[str, ...] | None = None
    check: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


UniformOption = tuple[Callable[[NodeEntry], bool], Callable[[SetUpOptions, bool], SetUpOptions]]
ReplyJudge = Callable[[PreflightTarget, Reply], Iterable[Result]]
NodeJudge = Callable[[NodePreflight, JobPreflight], Iterable[Result]]
Condition = Callable[[PreflightTarget, Replies], bool]


def is_remote(node: NodePreflight, job: JobPreflight) -> bool:
    return node.name != THIS_COMPUTER


def no_results(target: PreflightTarget, replies: Replies) -> Iterable[Result]:
    return ()


def is_executable(target: PreflightTarget, replies: Replies) -> bool:
    """Return False where no program can be executed: all other failures have this cause."""
    return not (replies.get("home") or {}).get("noexec")


@dataclass(frozen=True)
class Check:
    """One condition of a start. Without an answer of each node concerned it is not fulfilled.

    Attributes:
        name: Also its label, see `PreflightFinding.label`.
        probe: The query to each node; None if ``is_answered`` is enough.
        judge: Judges the reply of one node; pure, as all judges are.
        node_judge: Judges one node without its reply to ``probe``.
        job_judges: Judge the nodes of the job together.
        silence_judge: Judges a missing reply, where that says more than "not checked".
        applies_to: The nodes that the check concerns.
        missing_peers: For a check between nodes, returns the other nodes without a result. If all
            of them have a finding, that is the reason.
        conditions: Must hold at a node before ``judge`` runs, so that a consequence of another
            finding is left out.
        is_answered: Must hold besides a reply to ``probe``.
        fix: The fix of its findings, unless a judge chooses another.
        only_warns: Its findings never prevent a start.
        replaced_part: The part that a new set-up replaces: "environment", "program", "own mpi" or
            nothing.
        uniform_option: Reads and sets the option of a set-up that must be the same on all nodes.
    """

    name: str
    probe: Probe | None = None
    judge: ReplyJudge = no_results
    node_judge: NodeJudge = lambda node, job: ()
    job_judges: tuple[Callable[[JobPreflight], Iterable[Result]], ...] = ()
    silence_judge: Callable[[PreflightTarget, Replies], Iterable[Result]] = no_results
    applies_to: Callable[[NodePreflight, JobPreflight], bool] = lambda node, job: True
    missing_peers: Callable[[NodePreflight, JobPreflight], set[str]] | None = None
    conditions: tuple[Condition, ...] = (is_executable,)
    is_answered: Callable[[NodePreflight, JobPreflight], bool] = lambda node, job: True
    fix: Fix = Fix.LEAVE_OUT
    only_warns: bool = False
    replaced_part: str = ""
    uniform_option: UniformOption | None = None

    def node_findings(
        self, node: NodePreflight, job: JobPreflight, reply: Reply | None
    ) -> Iterator[PreflightFinding]:
        """Yield the findings of one node; ``reply`` is its answer to the probe."""
        results, target, replies = list(self.node_judge(node, job)), node.target, node.replies
        if target is not None and reply is not None:
            results += self.judge(target, reply)
        elif target is not None and replies is not None and self.probe is not None:
            is_due = self.is_relevant(node, job) and self._is_due(target, replies)
            if is_due and self.probe.reply(replies) is None:
                results += self.silence_judge(target, replies)
        for result in results:
            yield self.finding(result, node.name)

    def is_relevant(self, node: NodePreflight, job: JobPreflight) -> bool:
        has_no_peers = self.missing_peers is not None and len(job.nodes) == 1
        return not has_no_peers and self.applies_to(node, job)

    def reply(self, node: NodePreflight, job: JobPreflight) -> Reply | None:
        """Return the reply for ``judge``; None if it is unknown, and so neither good nor bad."""
        if node.target is None or not (self.is_relevant(node, job) and self.is_answered(node, job)):
            return None
        if self.missing_peers is not None and self.missing_peers(node, job):
            return None
        if self.probe is None:
            return {}
        if node.replies is None or not self._is_due(node.target, node.replies):
            return None
        return self.probe.reply(node.replies)

    def _is_due(self, target: PreflightTarget, replies: Replies) -> bool:
        return all(condition(target, replies) for condition in self.conditions)

    def finding(self, result: Result, *nodes: str) -> PreflightFinding:
        finding = PreflightFinding(
            result.check or self.name,
            False,
            result.message,
            result.remedy,
            nodes if result.nodes is None else result.nodes,
            self.fix if result.fix is None else result.fix,
            is_warning=self.only_warns,
        )
        return replace(finding, **result.details)


def unchecked_result(
    node: str, checks: Sequence[str], cause: str = "", *, is_warning: bool = False
) -> Result:
    """Return a result for checks of a node that were not made; a warning prevents no start."""
    label = wording.node_label(node)
    return Result(
        f"{', '.join(checks)} of {label}: not checked{cause and ', '}{sanitize(cause, 160)}.",
        f"Check the load of {label}, then check again.",
        Fix.NONE if is_warning else Fix.LEAVE_OUT,
        details={"is_warning": is_warning},
    )
