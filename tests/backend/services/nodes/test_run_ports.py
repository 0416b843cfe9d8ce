"""Whether this computer can reach the ports of runs on a node."""

from __future__ import annotations

import socket

import pytest

from backend.services.nodes import head_node


def test_a_node_whose_ports_answer_is_open_to_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(head_node, "_PORTS", (port,))
        assert "every machine" in head_node.check_ports("gpu1", "127.0.0.1").message
    # Nothing listens any more; the kernel still answers.
    finding = head_node.check_ports("gpu1", "127.0.0.1")
    assert finding.ok
    assert "Who may reach the nodes" in finding.message


@pytest.mark.parametrize(
    "error", [TimeoutError("timed out"), OSError(113, "No route to host"), PermissionError(13, "")]
)
def test_a_firewall_that_drops_or_rejects_closes_the_ports(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    finding = head_node.check_ports("gpu1", "192.0.2.1")
    assert finding.ok
    assert finding.message == "This computer cannot connect to the ports of runs on gpu1."
