"""Every plot of the window can be taken along, under a name that says what it is of."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton

from tests.pictures.camera import open_screen
from tests.pictures.gallery import LARGE, SCREENS
from tests.pictures.stage import Stage
from widgets.common.theme_manager import ThemeManager
from widgets.jobs.actions.job_actions import SAVE_FILE
from widgets.nodes.page import node_actions

KINDS = {"PNG": b"\x89PNG", "SVG": b"<?xml", "PDF": b"%PDF-"}


def saved_files(stage: Stage) -> list[tuple[str, bytes]]:
    """Return the files of all visible entries "This plot as …"."""
    files: list[tuple[str, bytes]] = []
    buttons = [b for b in stage.window.findChildren(QPushButton) if b.isVisibleTo(stage.window)]
    # A page that is not made yet comes to the front when it is.
    for signal in (
        stage.compare.save_requested,
        stage.form.picture_requested,
    ):
        signal.connect(lambda name, content: files.append((name, content)))
    stage.jobs.detail.job_actions.add_handler(SAVE_FILE, lambda *args: files.append(args))
    stage.nodes.node_actions.add_handler(node_actions.SAVE, lambda *args: files.append(args))
    for button in buttons:
        if button.menu() is not None:
            for action in button.menu().actions():
                if action.text().startswith("This plot as"):
                    action.trigger()
    return files


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
    with open_screen(SCREENS[screen], LARGE) as stage:
        files = saved_files(stage)
    for name in names:
        plot_files = [
            (file_name, content) for file_name, content in files if file_name.startswith(name)
        ]
        assert {file_name.rpartition(".")[2].upper() for file_name, _ in plot_files} == set(
            KINDS
        ), files
        for file_name, content in plot_files:
            assert content.startswith(KINDS[file_name.rpartition(".")[2].upper()])
