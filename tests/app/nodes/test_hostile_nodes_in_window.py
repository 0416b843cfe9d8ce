"""F59: the window does not trust what a node's agent writes."""

from dataclasses import replace
from itertools import count

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QWidget

from backend.datastore.nodes import files as node_files
from backend.node.metrics.probe import Probe
from backend.records.base.atomic_files import replace_bytes, replace_json
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInstallation
from backend.records.nodes.reading import Cpu, Gpu, GpuProcess, Presence
from backend.services.context.container import open_services
from tests.cluster.windows import open_program
from tests.fakes.mounted_root import mounted
from widgets.nodes.row.node_row import Condition, node_row

INSTALLED = NodeInstallation("/python", "/mpirun", "5.0", "recipe", "/bundle", "/ssh")
MAX_CHARS = 1000
"""Of anything that is shown: what of it a page holds in one place, with words around it."""
MARK = "hostile"
NASTY = f"\x1b[31m<b>{MARK}</b><img src='file:///etc/passwd'>\n\u202e" + 10_000 * "x"


@pytest.fixture
def root(tmp_path):
    root = mounted(tmp_path / "data")
    open_services(root.path, tmp_path / "other.sqlite").close()
    node_files.write_entry(root, NodeEntry("gpu1", NodeAddress("10.0.0.1"), installation=INSTALLED))
    return root


@pytest.fixture
def reading(root):
    return replace(Probe("gpu1", root.path).read(), interval_s=60.0)


@pytest.fixture
def program(root, reading, qapp, qtbot, tmp_path, monkeypatch):
    """A window in which gpu1 is online and open."""
    beats = count(1)

    def is_online(node):
        # The window reads for the first time at any time, and then waits for the next heartbeat.
        write_reading(root, reading, next(beats))
        return node is not None and node.presence is Presence.ONLINE

    with open_program(qapp, root.path, tmp_path / "desktop", monkeypatch, qtbot) as program:
        wait_for_node(qtbot, program, is_online)
        program.window.open_page("nodes")
        program.nodes.open_node("gpu1")
        yield program


def write_reading(root, reading, heartbeat):
    replace_json(root.node("gpu1").status, replace(reading, heartbeat=heartbeat).to_dict())


def wait_for_node(qtbot, program, condition):
    """Refresh repeatedly, as the window does, but more often."""

    def matches():
        program._node_controller.refresh()
        node = program.nodes._states.get("gpu1")
        return condition(node)

    qtbot.waitUntil(matches)


HOSTILE = {
    "ten gigabytes": None,
    "not a number": b'{"heartbeat": NaN}',
    "deep": b'{"a":' * 100_000,
    "a list": b"[1, 2, 3]",
    "without its processor": b'{"name": "\\u001b[31m<b>gpu1</b>", "heartbeat": 1}',
}


def test_f59_a_hostile_status_marks_its_node_until_it_is_fixed(program, root, reading, qtbot):
    for number, (name, content) in enumerate(HOSTILE.items()):
        path = root.node("gpu1").status
        if content is None:
            path.unlink()
            with path.open("wb") as file:
                file.truncate(10 * 2**30)
        else:
            replace_bytes(path, content)
        wait_for_node(qtbot, program, lambda node: any(not f.ok for f in node.findings))
        row = node_row(program.nodes._states["gpu1"])
        assert row.condition.is_notable, name
        assert "status that cannot be used" in row.description, name
        assert not set(row.description) & {"\x1b", "\n"}
        write_reading(root, reading, 1_000 + number)
        wait_for_node(qtbot, program, lambda node: all(f.ok for f in node.findings))


def test_f59_hostile_words_in_a_status_that_fits_are_plain_short_text(
    program, root, reading, qtbot
):
    owner = GpuProcess(1, NASTY, 2**30, NASTY, 60.0)
    gpu = Gpu(
        0, NASTY, NASTY, 2**30, 2**34, 90, 60, processes=(owner,), clock_event_reasons=(NASTY,)
    )
    hostile = replace(
        reading,
        name=NASTY,
        host=NASTY,
        cpu=Cpu(NASTY, 8, 50.0, 1.0),
        driver=NASTY,
        disk_path=NASTY,
        gpus=(gpu,),
        gpu_message=NASTY,
    )
    write_reading(root, hostile, 1_000)
    wait_for_node(qtbot, program, lambda node: node.reading and node.reading.heartbeat == 1_000)
    assert node_row(program.nodes._states["gpu1"]).condition is not Condition.OFFLINE
    program.window.open_page("nodes")
    # In the rack, on the node's own page, and where a job is placed.
    for show in (program.nodes.show_rack, lambda: program.nodes.open_node("gpu1")):
        show()
        assert_plain(program.window)
    program.window.open_page("new-job")
    assert_plain(program.window)
    page = program.nodes.detail
    assert any(MARK in label.text() for label in page.findChildren(QLabel)), "it was shown"


def assert_plain(window):
    for widget in (window, *window.findChildren(QWidget)):
        # Of a tool tip Qt itself decides whether it is markup.
        assert f"<b>{MARK}" not in widget.toolTip(), (type(widget), widget.toolTip()[:200])
        for text in (*shown_texts(widget), widget.toolTip(), widget.accessibleName()):
            if MARK in text:
                assert len(text) < MAX_CHARS, (type(widget), len(text))
                assert not set(text) & {"\x1b", "\u202e"}, type(widget)
        if isinstance(widget, QLabel) and MARK in widget.text():
            assert widget.textFormat() is Qt.TextFormat.PlainText


def shown_texts(widget):
    if isinstance(widget, QLabel):
        yield widget.text()
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        model = widget.model()
        for row in range(min(model.rowCount(QModelIndex()), 100)):
            first = model.index(row, 0, QModelIndex())
            cells = (first.sibling(row, column) for column in range(20))
            yield from (str(cell.data() or "") for cell in cells if cell.isValid())
