"""Where a job could start although it cannot as it is."""

from __future__ import annotations

from dataclasses import replace

from backend.records.jobs.placement import Placement
from backend.records.nodes.preflight import (
    Fix,
    Preflight,
    PreflightFinding,
    fixed_placement,
    smaller_placement,
)

THREE = tuple(Placement(name, 2) for name in ("a", "b", "c"))


def failure(*nodes: str, gpus: tuple[str, ...] = (), is_warning: bool = False) -> PreflightFinding:
    return PreflightFinding("x", False, "No.", "Do.", nodes, Fix.LEAVE_OUT, is_warning, gpus)


def names(*findings: PreflightFinding) -> list[str]:
    return [p.node for p in smaller_placement(THREE, findings)]


def test_the_node_with_a_fault_is_left_out() -> None:
    assert names(failure("b")) == ["a", "c"]
    assert names(failure("a"), failure("c")) == ["b"]


def test_nothing_is_offered_without_need_or_where_nothing_is_left() -> None:
    assert names() == []
    assert names(failure("a", is_warning=True)) == []
    assert names(failure("a"), failure("b"), failure("c")) == []
    assert names(failure()) == [], "a fault of the desktop is in every smaller job too"


def test_the_node_with_more_faults_of_a_failing_pair_is_left_out() -> None:
    assert names(failure("a", "b")) == ["a", "c"]
    assert names(failure("a", "b"), failure("a", "c")) == ["b", "c"]
    assert names(failure("a", "b"), failure("b")) == ["a", "c"]
    assert names(failure("a", "b"), failure("b", "c"), failure("a", "c")) == ["a"]


def test_only_the_gpus_with_faults_are_left_out() -> None:
    placement = (Placement("a", gpus=("1", "2")), Placement("b", gpus=("3",)))
    result = smaller_placement(placement, (failure("a", gpus=("2",)), failure("b", gpus=("3",))))
    assert result == (Placement("a", gpus=("1",)),)


def test_a_warning_prevents_no_start() -> None:
    result = Preflight(("a",), (failure("a", is_warning=True),), 1.0)
    assert result.succeeded
    assert result.warnings
    assert not Preflight(("a",), (failure("a"),), 1.0).succeeded


def test_the_document_is_plain() -> None:
    raw = Preflight(("a", "b"), (failure("a"),), 1.234, (Placement("b", 2),)).to_dict()
    assert raw["passed"] is False
    assert raw["took_s"] == 1.23
    assert raw["findings"][0]["fix"] == "leave it out"
    assert raw["smaller"][0]["node"] == "b"


def test_fewer_processes_are_a_smaller_job_on_the_same_nodes() -> None:
    many = replace(failure("a"), fix=Fix.FIT_PROCESSES, process_capacity=1)
    result = smaller_placement(THREE, (many, failure("c")))
    assert result == (Placement("a", 1), Placement("b", 2))


def test_a_fix_changes_only_the_faulty_part_of_the_placement() -> None:
    placement = (Placement("a", gpus=("1", "2")), Placement("b", gpus=("3",)))
    assert fixed_placement(placement, failure("b")) == placement[:1]
    assert fixed_placement(placement, failure("a", gpus=("1",))) == (
        Placement("a", gpus=("2",)),
        placement[1],
    )
    assert fixed_placement(placement, failure("b", gpus=("3",))) == placement[:1]
    other_finding = replace(failure("b", gpus=("3",)), fix=Fix.TAKE_FREE_GPUS, free_gpus=("4",))
    assert fixed_placement(placement, other_finding) == (placement[0], Placement("b", gpus=("4",)))
    fewer = replace(failure("b"), fix=Fix.FIT_PROCESSES, process_capacity=1)
    assert fixed_placement(THREE, fewer)[1] == Placement("b", 1)


def test_a_choice_of_the_user_is_undone_only_on_request() -> None:
    by_itself = {fix for fix in Fix if not fix.needs_a_person}
    assert by_itself == {
        *(Fix.SET_UP_AGAIN, Fix.INSTALL_CLUSTER_KEY, Fix.END_ORPHANS, Fix.START_AGENT),
        *(Fix.CHECK_AGAIN, Fix.SHARE_JOBS),
    }


def test_a_later_check_of_a_part_changes_only_the_findings_of_that_part() -> None:
    def point(check: str, ok: bool, *nodes: str) -> PreflightFinding:
        return PreflightFinding(check, ok, "x", nodes=nodes)

    earlier = Preflight(
        ("a", "b", "c"),
        (point("agent", False, "b"), point("agent", False, "c"), point("Python", True)),
        9.0,
    )
    part = Preflight(
        ("a", "b"),
        (point("disk", False, "a"), point("clock", False, "b"), point("agent", True)),
        2.0,
    )
    later = earlier.after_part(part, ("b",))
    assert {(p.check, p.nodes) for p in later.blocking_findings} == {
        ("agent", ("c",)),
        ("clock", ("b",)),
    }
    assert [p.check for p in later.findings if p.ok] == ["Python"]
    healed = later.after_part(Preflight((), (point("agent", True),), 1.0), ("c",))
    assert {p.check for p in healed.findings if p.ok} == {"Python", "agent"}
    assert [p.check for p in healed.blocking_findings] == ["clock"]
