"""The hours of a node are set from two desktops and by a command, and spare older programs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from backend.base.errors import BackendError
from backend.datastore.nodes import files as node_files
from backend.records.base.atomic_files import read_json
from backend.records.nodes.entry import NodeEntry
from backend.services.nodes.registry import NodeRegistry
from tests.fakes.command_line import run_command
from tests.fakes.mounted_root import mounted
from tests.widgets.nodes.samples import entry, state


@pytest.fixture
def desktops(tmp_path: Path) -> tuple[NodeRegistry, NodeRegistry]:
    root = mounted(tmp_path)
    node_files.write_entry(root, entry("gpu02"))
    return NodeRegistry(root, tmp_path / "one"), NodeRegistry(root, tmp_path / "other")


def test_only_a_node_with_hours_needs_a_program_that_knows_them(
    desktops: tuple[NodeRegistry, NodeRegistry], tmp_path: Path
) -> None:
    path = tmp_path / "nodes" / "gpu02" / "node.json"
    assert "gives_way" not in read_json(path)
    assert desktops[0].entry("gpu02").gives_way == ""
    desktops[0].set_gives_way("gpu02", "always")
    assert read_json(path)["gives_way"] == "always"
    desktops[0].set_gives_way("gpu02", "never")
    assert "gives_way" not in read_json(path)


@pytest.mark.parametrize(
    ("first", "second", "kept_hours"),
    [
        ("always", "never", ""),
        ("always", "8:00-18:00 Mon-Fri", ""),
        ("8:00-18:00 Mon-Fri", "always", ""),
        ("8:00-18:00 Mon-Fri", "8:00-17:00 Mon-Fri", ""),
        ("always", "always", "always"),
        ("8:00-18:00 Mon-Fri", "08:00–18:00 Mon–Fri", "08:00–18:00 Mon–Fri"),
    ],
)
def test_one_of_two_desktops_wins_and_the_other_says_so(
    desktops: tuple[NodeRegistry, NodeRegistry], first: str, second: str, kept_hours: str
) -> None:
    first_desktop, second_desktop = desktops
    known_hours = second_desktop.entry("gpu02").gives_way or ("always" if second == "never" else "")
    won = first_desktop.set_gives_way("gpu02", first).gives_way
    if kept_hours or known_hours == won:
        assert second_desktop.set_gives_way("gpu02", second, known_hours).gives_way == kept_hours
        return
    with pytest.raises(BackendError) as caught:
        second_desktop.set_gives_way("gpu02", second, known_hours)
    assert str(caught.value) == f"gpu02 was changed meanwhile, and gives way: {won}."
    assert first_desktop.entry("gpu02").gives_way == won


def test_the_command_prints_the_earlier_hours(
    desktops: tuple[NodeRegistry, NodeRegistry], capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(*arguments: str) -> str:
        assert run_command(SimpleNamespace(cluster=desktops[0]), "node", "edit", *arguments) == 0
        return capsys.readouterr().out.strip()

    assert edit("gpu02") == "gpu02 gives way: never."
    assert edit("gpu02", "--gives-way", "8:00-18:00 Mon-Fri") == (
        "gpu02 gives way: 08:00–18:00 Mon–Fri. Before: never."
    )
    assert edit("gpu02", "--gives-way", "never") == (
        "gpu02 gives way: never. Before: 08:00–18:00 Mon–Fri."
    )
    for node, hours, message in (
        ("gpu02", "25:00-26:00", "“25:00” is not a time of day"),
        ("gpu03", "always", "There is no node “gpu03”."),
        ("this-computer", "always", "This computer was not added as a node."),
    ):
        with pytest.raises(BackendError, match=message):
            desktops[0].set_gives_way(node, hours)


def test_the_document_of_a_node_has_its_hours() -> None:
    assert state("gpu02").to_json()["gives_way"] == ""
    assert NodeEntry.from_dict({**entry("gpu02").to_dict(), "gives_way": "always"}).gives_way
