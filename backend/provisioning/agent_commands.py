"""Commands that start, check and end a node's agent, as argument lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from backend.base.log import swallowed
from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeInfo

_CONTROL = "backend.node.agent.control"


@dataclass(frozen=True)
class AgentPaths:
    """The paths of a node's agent; every path is the node's own."""

    name: str
    python: str
    bundle: str
    node_info: NodeInfo

    @property
    def home(self) -> NodeHome:
        return NodeHome(PurePosixPath(self.node_info.home))

    @property
    def sees_data_root(self) -> bool:
        return bool(self.node_info.data_root) and self.node_info.data_root_writable

    @property
    def folder(self) -> str:
        """The folder that the agent writes to: on the data root, or its own without one."""
        if self.sees_data_root:
            return str(PurePosixPath(self.node_info.data_root) / "nodes" / self.name)
        return str(self.home.state)


def start(agent: AgentPaths) -> tuple[str, ...]:
    """Return the command that starts the agent, replacing a running one, and sets it up to start
    after a reboot if possible; it prints the method (`backend.node.agent.autostart`)."""
    return _autostart(agent, "install")


def remove(agent: AgentPaths) -> tuple[str, ...]:
    """Return the command that ends the agent, and prevents its restart."""
    return _autostart(agent, "remove")


def check(agent: AgentPaths, limit_s: float = 0.0) -> tuple[str, ...]:
    """Return a command that succeeds if this bundle's agent runs, or does within ``limit_s``."""
    return (
        *_run_module(agent, _CONTROL),
        *("check", "--bundle", agent.bundle, "--folder", agent.folder, "--limit", str(limit_s)),
    )


def stop(agent: AgentPaths) -> tuple[str, ...]:
    """Return a command that succeeds when no agent writes to that folder any more."""
    return (*_run_module(agent, _CONTROL), "stop", "--folder", agent.folder)


def probe(agent: AgentPaths) -> tuple[str, ...]:
    """Return a command that succeeds if the other commands can be run on the node."""
    return (*_run_module(agent, _CONTROL), "--help")


def list_runs(python: str, bundle: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Return a command that succeeds if no run uses this folder; it prints those runs."""
    program = ("env", f"PYTHONPATH={bundle}", python, "-m", _CONTROL)
    return (*program, "runs", "--home", str(folder))


def _autostart(agent: AgentPaths, action: str) -> tuple[str, ...]:
    return (
        *_run_module(agent, "backend.node.agent.autostart"),
        *(action, "--name", agent.name, "--folder", agent.folder),
        *("--data-root", agent.node_info.data_root or str(agent.home.state)),
        *("--log", str(agent.home.agent_log)),
    )


def start_message(output: str) -> str:
    """Return the output of `start` as a sentence; "" if it cannot be read."""
    try:
        return str(json.loads(output)["sentence"])
    except (ValueError, KeyError, TypeError) as error:
        swallowed(error)
        return ""


def _run_module(agent: AgentPaths, module: str) -> tuple[str, ...]:
    return ("env", f"PYTHONPATH={agent.bundle}", agent.python, "-m", module)
