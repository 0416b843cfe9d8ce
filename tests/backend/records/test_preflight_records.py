"""Where a job could start although it cannot as it is."""

from __future__ import annotations

from backend.records.job import Placement
from backend.records.preflight import Fix, Preflight, PreflightFinding, smaller_placement

THREE = tuple(Placement(name, 2) for name in ("a", "b", "c"))


def fault(*nodes: str, gpus: tuple[str, ...] = (), is_warning: bool = False) -> PreflightFinding:
    return PreflightFinding("x", False, "No.", "Do.", nodes, Fix.LEAVE_OUT, is_warning, gpus)


def names(*findings: PreflightFinding) -> list[str]:
    return [one.node for one in smaller_placement(THREE, findings)]


def test_the_node_with_a_fault_is_left_out() -> None:
    assert names(fault("b")) == ["a", "c"]
    assert names(fault("a"), fault("c")) == ["b"]


def test_nothing_is_offered_without_need_or_where_nothing_is_left() -> None:
    assert names() == []
    assert names(fault("a", is_warning=True)) == []
    assert names(fault("a"), fault("b"), fault("c")) == []
    assert names(fault()) == [], "a fault of the desktop is in every smaller job too"


def test_of_two_that_cannot_do_together_the_one_with_more_trouble_goes() -> None:
    assert names(fault("a", "b")) == ["a", "c"]
    assert names(fault("a", "b"), fault("a", "c")) == ["b", "c"]
    assert names(fault("a", "b"), fault("b")) == ["a", "c"]
    assert names(fault("a", "b"), fault("b", "c"), fault("a", "c")) == ["a"]


def test_only_the_gpus_in_trouble_are_left_out() -> None:
    placement = (Placement("a", gpus=("1", "2")), Placement("b", gpus=("3",)))
    found = smaller_placement(placement, (fault("a", gpus=("2",)), fault("b", gpus=("3",))))
    assert found == (Placement("a", gpus=("1",)),)


def test_a_warning_keeps_nobody_from_starting() -> None:
    found = Preflight(("a",), (fault("a", is_warning=True),), 1.0)
    assert found.passed
    assert found.warnings
    assert not Preflight(("a",), (fault("a"),), 1.0).passed


def test_the_document_is_plain() -> None:
    raw = Preflight(("a", "b"), (fault("a"),), 1.234, (Placement("b", 2),)).to_dict()
    assert raw["passed"] is False
    assert raw["took_s"] == 1.23
    assert raw["findings"][0]["fix"] == "leave it out"
    assert raw["smaller"][0]["node"] == "b"
