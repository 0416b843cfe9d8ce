"""The commands by which a node's agent is started, looked for and ended, as argument lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeFacts

_CONTROL = "backend.node.agent.control"


@dataclass(frozen=True)
class AgentPlace:
    """Where the agent of a node runs; every path is the node's own."""

    name: str
    python: str
    bundle: str
    facts: NodeFacts

    @property
    def home(self) -> NodeHome:
        return NodeHome(PurePosixPath(self.facts.home))

    @property
    def sees_data_root(self) -> bool:
        return bool(self.facts.data_root) and self.facts.data_root_writable

    @property
    def folder(self) -> str:
        """What the agent writes to: its folder on the data root, or its own where it sees none."""
        if self.sees_data_root:
            return str(PurePosixPath(self.facts.data_root) / "nodes" / self.name)
        return str(self.home.state)


def start(place: AgentPlace) -> tuple[str, ...]:
    """Starts the agent in place of one that runs, keeps it over reboots where that can be had,
    and prints which it was (`backend.node.agent.autostart`)."""
    return _service(place, "install")


def leave(place: AgentPlace) -> tuple[str, ...]:
    """Ends the agent, and whatever would start it again."""
    return _service(place, "remove")


def check(place: AgentPlace, limit_s: float = 0.0) -> tuple[str, ...]:
    """Ends well when an agent of this bundle lives, or comes to within ``limit_s``."""
    return (
        *_module(place, _CONTROL),
        *("check", "--bundle", place.bundle, "--folder", place.folder, "--limit", str(limit_s)),
    )


def stop(place: AgentPlace) -> tuple[str, ...]:
    """Ends well when no agent writes to that folder any more."""
    return (*_module(place, _CONTROL), "stop", "--folder", place.folder)


def answers(place: AgentPlace) -> tuple[str, ...]:
    """Ends well when the other commands can be given there."""
    return (*_module(place, _CONTROL), "--help")


def runs(place: AgentPlace) -> tuple[str, ...]:
    """Ends well when no run lives from the program's folder there, and prints those that do."""
    return (*_module(place, _CONTROL), "runs", "--home", str(place.home.path))


def _service(place: AgentPlace, act: str) -> tuple[str, ...]:
    return (
        *_module(place, "backend.node.agent.autostart"),
        *(act, "--name", place.name, "--folder", place.folder),
        *("--data-root", place.facts.data_root or str(place.home.state)),
        *("--log", str(place.home.agent_log)),
    )


def kept(output: str) -> str:
    """What `start` printed, as a sentence; "" when it cannot be read."""
    try:
        return str(json.loads(output)["sentence"])
    except (ValueError, KeyError, TypeError):
        return ""


def _module(place: AgentPlace, module: str) -> tuple[str, ...]:
    return ("env", f"PYTHONPATH={place.bundle}", place.python, "-m", module)
