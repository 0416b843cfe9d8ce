"""Something is held over the window: where it would land, and what that would do."""

from __future__ import annotations

from dataclasses import replace

from backend.records.library.item import Kind
from tests.pictures.gallery import screen
from tests.pictures.screens.compare import put_updates
from tests.pictures.screens.jobs import open_job
from tests.pictures.screens.library import item
from tests.pictures.stage import Stage
from tests.widgets import drags
from tests.widgets.compare.compare_samples import eight_updates, three_updates
from widgets.common.drag_and_drop import DropOffer
from widgets.library.library_page import LibraryPage

_LONG_NAME = (
    "resnet-152, fine-tuned on everything that anybody in the lab ever labelled, best of nine"
)


@screen("drop-on-compare")
def drop_on_compare(stage: Stage) -> None:
    put_updates(stage, three_updates())
    drags.drag_over(stage.compare, drags.jobs("unet-cells"))


@screen("drop-is-too-many")
def drop_is_too_many(stage: Stage) -> None:
    put_updates(stage, eight_updates())
    drags.drag_over(stage.compare, drags.jobs("unet-cells"))


@screen("drop-on-place")
def drop_on_place(stage: Stage) -> None:
    open_job(stage)
    stage.window.side_bar.accept_jobs(
        lambda dragged_jobs: DropOffer(f"Compare {dragged_jobs.label}")
    )
    drags.drag_over(stage.window.side_bar._buttons["compare"], drags.jobs("a", "b", "c"))


@screen("drop-on-place-refused")
def drop_on_place_refused(stage: Stage) -> None:
    open_job(stage)
    refusal = DropOffer("At most 8 jobs can be compared: remove one first", is_accepted=False)
    stage.window.side_bar.accept_jobs(lambda _dragged_jobs: refusal)
    drags.drag_over(stage.window.side_bar._buttons["compare"], drags.jobs(_LONG_NAME))


@screen("drop-on-model")
def drop_on_model(stage: Stage) -> None:
    page = _models(stage)
    page.show_item("resnet-18")
    drags.drag_over(page, drags.file("/home/mai/best.pt"), page.rect().center())


@screen("drop-on-model-with-weights")
def drop_on_model_with_weights(stage: Stage) -> None:
    page = _models(stage)
    page.show_item("mlp")
    drags.drag_over(page, drags.file(f"/home/mai/{_LONG_NAME}.safetensors"), page.rect().center())


@screen("drop-weights-elsewhere")
def drop_weights_elsewhere(stage: Stage) -> None:
    open_job(stage)
    drags.drag_over(stage.window, drags.file(f"/home/mai/{_LONG_NAME}.safetensors"))


def _models(stage: Stage) -> LibraryPage:
    page = stage.library(Kind.MODEL)
    weighted_model = replace(
        item(Kind.MODEL, "mlp", 1, 22_100),
        details={"weights": {"name": "weights.pt", "bytes": 98_000_000}},
    )
    page.show_items((weighted_model, item(Kind.MODEL, "resnet-18", 2, 22_100)))
    return page
