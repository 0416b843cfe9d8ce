"""Every plot of the window can be taken along, under a name that says what it is of."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton

from tests.pictures.camera import drawn
from tests.pictures.gallery import LARGE, SCREENS
from tests.pictures.stage import Stage
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.actions.job_actions import SAVE_FILE
from widgets.nodes.page import node_actions

KINDS = {"PNG": b"\x89PNG", "SVG": b"<?xml", "PDF": b"%PDF-"}


def taken(stage: Stage) -> list[tuple[str, bytes]]:
    """What comes of every entry "This plot as …" that is seen."""
    found: list[tuple[str, bytes]] = []
    buttons = [
        one for one in stage.window.findChildren(QPushButton) if one.isVisibleTo(stage.window)
    ]
    # A page that is not made yet comes to the front when it is.
    for signal in (
        stage.compare.save_requested,
        stage.form.picture_requested,
    ):
        signal.connect(lambda name, content: found.append((name, content)))
    stage.jobs.detail.job_actions.add_handler(SAVE_FILE, lambda *args: found.append(args))
    stage.nodes.node_actions.add_handler(node_actions.SAVE, lambda *args: found.append(args))
    for button in buttons:
        if button.menu() is not None:
            for action in button.menu().actions():
                if action.text().startswith("This plot as"):
                    action.trigger()
    return found


@pytest.mark.parametrize(
    ("screen", "names"),
    [
        ("failed", ["vit-s16 · plankton adamw Memory of GPU 3 on gpu03, GiB"]),
        pytest.param(
            "failed-warned", ["vit-s16 · plankton adamw Learning rate"], marks=pytest.mark.slow
        ),
        pytest.param(
            "ranks",
            ["retinanet-r50 · coco 2x Temperature, gpu07, during this job"],
            marks=pytest.mark.slow,
        ),
        pytest.param("node-detail", ["Temperature, gpu07, since"], marks=pytest.mark.slow),
        ("parallel", ["Parallel coordinates", "Training loss"]),
        ("new-job", ["Learning rate by epoch"]),
    ],
)
def test_a_plot_is_saved_as_picture_drawing_and_page(
    screen: str, names: list[str], theme_manager: ThemeManager
) -> None:
    with drawn(SCREENS[screen], LARGE) as stage:
        found = taken(stage)
    for name in names:
        mine = [(said, content) for said, content in found if said.startswith(name)]
        assert {said.rpartition(".")[2].upper() for said, _ in mine} == set(KINDS), found
        for said, content in mine:
            assert content.startswith(KINDS[said.rpartition(".")[2].upper()])
