"""Wire the nodes: their controller, and the signals between it and the window."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.jobs.wiring import JobControllers
from app.nodes.node_controller import NodeController
from app.nodes.usage_controller import UsageController
from app.runtime.background import Runner
from backend.base import log
from backend.records.nodes.reading import Finding, NodeState
from widgets.nodes.page import node_actions

if TYPE_CHECKING:
    from app.main.pages import Pages
    from app.shell.window_controller import FrameController
    from backend.services.context.container import Services

NODE_INTERVAL_MS = 2000


def wire(
    services: Services,
    pages: Pages,
    frame: FrameController,
    runner: Runner,
    jobs: JobControllers,
    parent: QObject,
) -> NodeController:
    """Make the controller of the nodes, connect it with the window, and start to poll."""
    window, page, detail = pages.window, pages.nodes, pages.jobs.detail
    controller = NodeController(services, runner, page, window, NODE_INTERVAL_MS, parent)

    def show_nodes(states: tuple[NodeState, ...]) -> None:
        jobs.onboarding.see_nodes(len(states))
        window.side_bar.show_nodes(states)
        jobs.jobs.show_nodes(states)
        frame.notice_rules.see_nodes(states)
        local_reading = states[0].reading
        if local_reading is not None:
            pages.jobs.welcome_page.show_reading(local_reading)
        detail.show_node_histories(page.histories, page.heartbeats(), time.time())
        controller.watch(detail.job_nodes)

    def show_checks(findings: tuple[Finding, ...]) -> None:
        pages.jobs.welcome_page.show_findings(findings)
        frame.show_checks(findings)

    controller.nodes_listed.connect(show_nodes)
    window.refresh_requested.connect(controller.refresh)
    window.side_bar.node_opened.connect(pages.open_node)
    page.node_actions.add_handler(node_actions.MOVE_OFF, jobs.jobs.move_off)
    page.node_actions.add_handler(node_actions.SAVE, jobs.file_export.save)
    frame.add_command("Add a node", "plus", controller.add)
    usage = UsageController(services, runner, jobs.file_export.save, window)
    page.node_actions.add_handler(node_actions.USAGE, lambda _node: usage.choose())
    frame.add_command(node_actions.USAGE.text, node_actions.USAGE.icon, usage.choose)
    frame.command_search.add_source("node", controller.palette_entries, pages.open_node)
    controller.start()
    runner.run("doctor", services.nodes.doctor, show_checks, log.swallowed)
    return controller
