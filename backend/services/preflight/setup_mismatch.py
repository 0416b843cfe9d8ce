"""Nodes that do not match because they were set up differently: find them and the right options.

Environments that differ in this way are intact, so none of them is set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.provisioning_options import SetUpOptions, options_of
from backend.services.preflight import findings as preflight_findings

_Kind = tuple[Callable[[NodeEntry], bool], Callable[[SetUpOptions, bool], SetUpOptions]]
_KINDS: Mapping[str, _Kind] = {
    preflight_findings.OPEN_MPI: (
        lambda entry: entry.has_own_mpi,
        lambda options, own: replace(options, system_mpi=own),
    ),
    preflight_findings.PYTHON: (
        lambda entry: entry.shares_environment,
        lambda options, shared: replace(options, shared=shared),
    ),
}


def to_be_alike(
    check: str, entry: NodeEntry, entries: Sequence[NodeEntry]
) -> tuple[Sequence[str], SetUpOptions] | None:
    """Return the nodes to set up like the others, and the options; None if ``entry`` matches."""
    odd = _odd_ones(check, entry, entries)
    if not odd:
        return None
    is_kind, with_kind = _KINDS[check]
    return [one.name for one in odd], with_kind(options_of(entry), not is_kind(odd[0]))


def _odd_ones(check: str, entry: NodeEntry, entries: Sequence[NodeEntry]) -> Sequence[NodeEntry]:
    """Return the nodes that were set up unlike most; in a tie, those like this one."""
    if check not in _KINDS or entry.installation is None:
        return ()
    (is_kind, _), name = _KINDS[check], entry.installation.environment
    found: dict[bool, list[NodeEntry]] = {True: [], False: []}
    for one in entries:
        there = one.installation
        # All nodes have one Open MPI; Pythons differ only between dissimilar nodes.
        if there and (check == preflight_findings.OPEN_MPI or there.environment == name):
            found[is_kind(one)].append(one)
    if len(found[True]) == len(found[False]):
        return found[is_kind(entry)]
    return min(found.values(), key=len)
