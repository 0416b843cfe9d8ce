"""The form of a preflight check: what is asked of a node, and how the answer is judged.

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
from backend.services.preflight.context import Facts, JobPreflight, NodePreflight, PreflightTarget

_TIMED_OUT = 124
"""The code of what had not ended in its time; see `backend.node.checks.preflight_probe`."""

Replies = Mapping[str, Facts | None]


@dataclass(frozen=True)
class Probe:
    """A question to a node: a function of `backend.node.checks.preflight_probe`.

    Attributes:
        name: The key of its answer.
        ask: The function. The node calls it with the fields of `PreflightTarget`.
        argv: The program that `preflight_probe.command` runs.
    """

    name: str
    ask: Callable[[dict[str, Any]], Any]
    argv: Callable[[PreflightTarget], Sequence[str]] = lambda target: ()

    def request(self, target: PreflightTarget) -> Mapping[str, Any]:
        return {"ask": self.ask.__name__, "argv": self.argv(target)}

    def answer(self, replies: Replies) -> Facts | None:
        facts = replies.get(self.name)
        return None if facts is None or facts.get("code") == _TIMED_OUT else facts


@dataclass(frozen=True)
class Result:
    """A finding without what its check says of all its findings.

    Attributes:
        fix: None for the fix of the check.
        nodes: None for the node that is judged.
        check: The name of another check, if it is one of that.
        details: More fields of `PreflightFinding`.
    """

    sentence: str
    remedy: str = ""
    fix: Fix | None = None
    nodes: tuple[str, ...] | None = None
    check: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


Alike = tuple[Callable[[NodeEntry], bool], Callable[[SetUpOptions, bool], SetUpOptions]]
Judge = Callable[[PreflightTarget, Facts], Iterable[Result]]
OfNode = Callable[[NodePreflight, JobPreflight], Iterable[Result]]
Need = Callable[[PreflightTarget, Replies], bool]


def is_remote(node: NodePreflight, job: JobPreflight) -> bool:
    return node.name != THIS_COMPUTER


def nothing(target: PreflightTarget, replies: Replies) -> Iterable[Result]:
    return ()


def is_executable(target: PreflightTarget, replies: Replies) -> bool:
    """Return False where no program can be executed: whatever fails has this one cause."""
    return not (replies.get("home") or {}).get("noexec")


@dataclass(frozen=True)
class Check:
    """One condition of a start. Without an answer of each node concerned it is not fulfilled.

    Attributes:
        name: Also its label, see `PreflightFinding.label`.
        probe: What is asked of each node; None if ``is_answered`` says it.
        judge: Judges the answer of one node; pure, as all judges are.
        known: Judges what is known of one node without ``probe``.
        together: Judges what must fit between the nodes.
        silence: Judges that ``probe`` was not answered, where that says more than "not checked".
        of_nodes: The nodes that the check concerns.
        waits_for: Of a check between nodes: the others to which it has no answer. If all of them
            have a fault, that is the reason.
        needs: What must hold at a node before ``judge`` says anything: a fault that follows from
            another one is left out.
        is_answered: What must hold besides the answer to ``probe``.
        fix: Offered with its findings, unless a judge says another.
        only_warns: Its findings never prevent a start.
        sets_aside: What a set-up again replaces: "environment", "program", "own mpi" or nothing.
        alike: Reads and sets the option of a set-up that must be the same on all nodes.
    """

    name: str
    probe: Probe | None = None
    judge: Judge = nothing
    known: OfNode = lambda node, job: ()
    together: tuple[Callable[[JobPreflight], Iterable[Result]], ...] = ()
    silence: Callable[[PreflightTarget, Replies], Iterable[Result]] = nothing
    of_nodes: Callable[[NodePreflight, JobPreflight], bool] = lambda node, job: True
    waits_for: Callable[[NodePreflight, JobPreflight], set[str]] | None = None
    needs: tuple[Need, ...] = (is_executable,)
    is_answered: Callable[[NodePreflight, JobPreflight], bool] = lambda node, job: True
    fix: Fix = Fix.LEAVE_OUT
    only_warns: bool = False
    sets_aside: str = ""
    alike: Alike | None = None

    def of_node(
        self, node: NodePreflight, job: JobPreflight, facts: Facts | None
    ) -> Iterator[PreflightFinding]:
        """Yield what is wrong with one node; ``facts`` are its answer."""
        results, target, replies = list(self.known(node, job)), node.target, node.replies
        if target is not None and facts is not None:
            results += self.judge(target, facts)
        elif target is not None and replies is not None and self.probe is not None:
            is_due = self.concerns(node, job) and self._is_due(target, replies)
            if is_due and self.probe.answer(replies) is None:
                results += self.silence(target, replies)
        for one in results:
            yield self.finding(one, node.name)

    def concerns(self, node: NodePreflight, job: JobPreflight) -> bool:
        is_alone = self.waits_for is not None and len(job.nodes) == 1
        return not is_alone and self.of_nodes(node, job)

    def answer(self, node: NodePreflight, job: JobPreflight) -> Facts | None:
        """Return what ``judge`` judges; None if it is unknown, and so neither good nor bad."""
        if node.target is None or not (self.concerns(node, job) and self.is_answered(node, job)):
            return None
        if self.waits_for is not None and self.waits_for(node, job):
            return None
        if self.probe is None:
            return {}
        if node.replies is None or not self._is_due(node.target, node.replies):
            return None
        return self.probe.answer(node.replies)

    def _is_due(self, target: PreflightTarget, replies: Replies) -> bool:
        return all(need(target, replies) for need in self.needs)

    def finding(self, result: Result, *nodes: str) -> PreflightFinding:
        found = PreflightFinding(
            result.check or self.name,
            False,
            result.sentence,
            result.remedy,
            nodes if result.nodes is None else result.nodes,
            self.fix if result.fix is None else result.fix,
            is_warning=self.only_warns,
        )
        return replace(found, **result.details)


def not_checked(node: str, checks: Sequence[str], why: str = "", *, warns: bool = False) -> Result:
    """Say that checks of a node were not made; those that only warn never prevent a start."""
    place = wording.node_label(node)
    return Result(
        f"{', '.join(checks)} of {place}: not checked{why and ', '}{sanitize(why, 160)}.",
        f"Check the load of {place}, then check again.",
        Fix.NONE if warns else Fix.LEAVE_OUT,
        details={"is_warning": warns},
    )
