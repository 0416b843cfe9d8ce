"""The place Nodes as a person sees it: pictures to look at, and nothing in them is cut or blank.

They go to a scratch folder; those of the guide into ``docs/pictures`` when RINGMASTER_PICTURES
is set.
"""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from backend.records.cluster import SetUp
from backend.records.job import THIS_COMPUTER
from backend.records.set_up_choices import SetUpOptions
from tests.widgets.cluster import samples
from tests.widgets.cluster.test_add_node_dialog import KEY
from tests.widgets.cluster.test_set_up_again import THREE as NODES
from tests.widgets.cluster.test_set_up_again import node
from tests.widgets.cluster.test_set_up_dialog import (
    BROKEN,
    CHANGED,
    GIVEN_UP,
    LIVE,
    READY,
    UNKNOWN,
)
from tests.widgets.jobs.test_job_detail import LIVE as JOB
from widgets.cluster.add_node_dialog import AddNodeDialog
from widgets.cluster.nodes_page import NodesPage
from widgets.cluster.set_up_again import SetUpAgainDialog
from widgets.cluster.set_up_dialog import SetUpDialog
from widgets.common.look import ThemeChoice
from widgets.main_window import MainWindow

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
PUBLISHED = {"nodes-light", "node-detail-dark", "provision-live-light"}
LARGE, SMALL = (1440, 900), (1000, 640)
LONG_KEY = replace(
    KEY,
    host="node-rack3-row7-machine-003.cluster.example.org",
    port=2222,
    fingerprint="SHA256:k3J9wq7Y0sJm9TgR0ePZyVnE2b1sWc8uXo5dLx0Qk3A",
)
LONG_NAMES = "node-rack3-row7-machine-{:03d}.cluster.example.org"
NOON = 1_700_000_000.0
ALONE = (replace(samples.state(THIS_COMPUTER, "half", 2), entry=None),)

CLUSTERS = {
    "nodes-1": ALONE,
    "nodes-4": samples.cluster(4),
    "nodes": samples.cluster(12),
    "nodes-20": samples.cluster(20),
    "nodes-64": samples.cluster(64),
    "nodes-long-names": samples.cluster(12, LONG_NAMES),
    "nodes-long-names-wall": samples.cluster(30, LONG_NAMES),
    "nodes-processors": tuple(samples.state(f"cpu{n}", "ours", 0) for n in range(5)),
}


@pytest.fixture(params=[ThemeChoice.LIGHT, ThemeChoice.DARK], ids=["light", "dark"])
def dressed(request, look):
    look.choose(request.param)
    return request.param.value


@pytest.fixture
def take(tmp_path):
    def take(widget, name):
        wanted = name in PUBLISHED and os.environ.get("RINGMASTER_PICTURES")
        folder = PICTURES if wanted else tmp_path
        for _ in range(3):
            QApplication.processEvents()
        image = widget.grab().toImage()
        assert image.save(str(folder / f"{name}.png"))
        across, down = range(0, image.width(), 5), range(0, image.height(), 5)
        assert len({image.pixel(x, y) for x in across for y in down}) > 8, f"{name} is nearly blank"

    return take


@pytest.fixture
def window(qtbot):
    def window(states, size):
        window, page = MainWindow(), NodesPage(lambda: NOON)
        qtbot.addWidget(window)
        window.add_page("nodes", page)
        window.resize(*size)
        window.show()
        window.go("nodes")
        views = tuple(replace(JOB, id=key, name=name) for key, name in samples.JOBS.items())
        window.side_bar.show_live(views)
        window.side_bar.set_count("nodes", len(states))
        window.side_bar.show_nodes(states)
        page.show_jobs(views)
        page.show_nodes(states, {"gpu07": NOON - 1900})
        return window, page

    return window


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", CLUSTERS)
def test_nodes(window, take, dressed, name, size):
    shown, page = window(CLUSTERS[name], size)
    take(shown, f"{name}-{dressed}" if size == LARGE else f"{name}-{size[0]}x{size[1]}-{dressed}")
    assert page.width() <= shown.width()
    assert_fits(page._scroll if page.rack.isVisible() else page.detail._content)


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=lambda size: f"{size[0]}x{size[1]}")
def test_node_detail(window, take, dressed, size):
    shown, page = window(tuple(_later(s, 1, 66.0) for s in samples.cluster(12)), size)
    shown.side_bar.show_nodes(samples.cluster(12))
    page.open_node("gpu07")
    for beat in range(2, 240):
        heat = 66 + 25 * min(1.0, max(0.0, (beat - 140) / 40))
        page._clock = lambda beat=beat: NOON + 2 * beat
        page.show_nodes(tuple(_later(state, beat, heat) for state in samples.cluster(12)))
    take(shown, f"node-detail-{dressed}" if size == LARGE else f"node-detail-small-{dressed}")
    assert_fits(page.detail._content)


def assert_fits(scroll):
    assert scroll.widget().width() <= scroll.viewport().width(), "it would scroll sideways"


def _later(state, beat, heat):
    """The node some beats later; in gpu07 the third GPU gets hot."""
    if state.name != "gpu07":
        return state
    hot = ("hardware thermal slowdown",) if heat > 85 else ()
    cards = tuple(
        replace(
            gpu,
            temperature_c=round(
                heat if gpu.index == 3 else 66 + 2 * math.sin(beat / 9 + gpu.index)
            ),
            use_percent=round(94 + 3 * math.sin(beat / 5 + gpu.index)),
            clock_event_reasons=hot if gpu.index == 3 else (),
        )
        for gpu in state.reading.gpus
    )
    now = replace(state, reading=replace(state.reading, heartbeat=beat, gpus=cards))
    return samples.judged(now)


@pytest.mark.parametrize(
    "state", ["form", "fault", "looking", "trust", "changed", "passphrase", "refused"]
)
def test_add_a_node(qtbot, take, dressed, state):
    dialog = AddNodeDialog(("gpu07",))
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.keyClicks(dialog._host, "gpu07" if state == "fault" else "gpu13.lab.example.org")
    if state not in ("form", "fault"):
        dialog._wish()
    if state == "trust":
        dialog.ask_trust(KEY)
    elif state == "changed":
        dialog.show_changed_key(KEY, "SHA256:9fX0aa7Y0sJm9TgR0ePZyVnE2b1sWc8uXo5dLx0Q111")
    elif state == "passphrase":
        dialog.ask_passphrase("Passphrase of ~/.ssh/id_ed25519")
    elif state == "refused":
        dialog.show_refusal("user", "gpu13 lets nobody in as “mai”.", "Choose a key file.")
    take(dialog, f"add-node-{state}-{dressed}")


@pytest.mark.parametrize("refused", [False, True], ids=["more", "more-refused"])
def test_all_that_can_be_said_of_a_node(qtbot, take, dressed, refused):
    dialog = AddNodeDialog()
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.keyClicks(dialog._host, "gpu13.lab.example.org")
    dialog._more.click()
    if refused:
        dialog.show_refusal("data_root", "gpu13 does not see /srv/lab.", "Mount it there.")
    take(dialog, f"add-node-more{'-refused' if refused else ''}-{dressed}")
    assert dialog.height() <= SMALL[1] - 40, "it does not fit a small screen"


HOW_TO_SET_UP = {
    "several": (NODES, ("gpu1", "gpu3"), SetUpOptions()),
    "one": (NODES[:1], ("gpu1",), SetUpOptions(limits_key=True)),
    "misfit": (
        (NODES[0], node("gpu2", mpirun="", data_root="", ready=False)),
        ("gpu2",),
        SetUpOptions(system_mpi=True, shared=True),
    ),
    "many": (
        tuple(node(LONG_NAMES.format(n)) for n in range(64)),
        [LONG_NAMES.format(n) for n in range(64)],
        SetUpOptions(),
    ),
}


@pytest.mark.parametrize("state", HOW_TO_SET_UP)
def test_how_to_set_up(qtbot, take, dressed, state):
    dialog = SetUpAgainDialog(*HOW_TO_SET_UP[state], "5.0.11")
    qtbot.addWidget(dialog)
    dialog.show()
    take(dialog, f"set-up-choices-{state}-{dressed}")
    assert dialog.height() <= SMALL[1] - 40, "it does not fit a small screen"
    assert_fits(dialog._scroll)


@pytest.mark.parametrize("state", ["waiting", "live", "failed", "cancelled", "ready", "several"])
def test_set_up(qtbot, take, dressed, state):
    dialog = SetUpDialog()
    qtbot.addWidget(dialog)
    dialog.show()
    states = {"failed": BROKEN, "ready": READY, "waiting": SetUp("gpu13"), "cancelled": GIVEN_UP}
    first = states.get(state, LIVE)
    dialog.show_set_up(first, "mai@10.0.4.23")
    if state == "several":
        for node, steps in (("gpu14", BROKEN.steps), ("gpu15", READY.steps), ("gpu16", ())):
            dialog.show_set_up(replace(LIVE, node=node, steps=steps))
    take(dialog, f"provision-{state}-{dressed}")


@pytest.mark.parametrize("state", ["unknown", "changed"])
@pytest.mark.parametrize("several", [False, True], ids=["alone", "several"])
def test_a_host_key_in_a_set_up(qtbot, take, dressed, state, several):
    dialog = SetUpDialog()
    qtbot.addWidget(dialog)
    dialog.show()
    met = replace(UNKNOWN if state == "unknown" else CHANGED, key=LONG_KEY)
    dialog.show_set_up(met, "mai@10.0.4.23")
    if several:
        dialog.show_set_up(replace(LIVE, node=LONG_NAMES.format(3)))
        dialog.show_set_up(replace(met, node="gpu14"))
        dialog.choose("gpu14")
    take(dialog, f"provision-key-{state}-{'several-' * several}{dressed}")
    assert dialog.height() <= SMALL[1] - 40, "it does not fit a small screen"


@pytest.mark.parametrize("accepted", ["", "SHA256:9fX0aa7Y0sJm9TgR0ePZyVnE2b1sWc8uXo5dLx0Q111"])
def test_a_host_key_in_another_look(qtbot, take, dressed, accepted):
    dialog = SetUpAgainDialog(*HOW_TO_SET_UP["misfit"], "5.0.11")
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.show_key(LONG_KEY, accepted)
    take(dialog, f"set-up-choices-key-{'changed' if accepted else 'unknown'}-{dressed}")
    spare = dialog.height() - dialog.layout().totalHeightForWidth(dialog.width())
    assert abs(spare) <= 2, "something is cut, or there is a gap"
    assert dialog.height() <= SMALL[1] - 40, "it does not fit a small screen"
