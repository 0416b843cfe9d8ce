"""Models and loaders from the gallery: the dialog, the suggestion, and the empty places."""

from __future__ import annotations

from backend.records.library.gallery import DataShape
from backend.records.library.item import Kind
from tests.pictures.gallery import EVERY, LARGE, SMALL, SMALLEST, screen
from tests.pictures.screens.library import dataset, show_plankton
from tests.pictures.stage import Stage
from tests.widgets.library.gallery_samples import LOADERS, MODELS, graph_of
from widgets.common.fields import LineEdit
from widgets.common.toast import NextStep
from widgets.library.gallery_dialog import GalleryDialog, GalleryPreset

THREE = (LARGE, SMALL, SMALLEST)
DATA = {"classes": 3, "channels": 1, "side": 28}


def _gallery(stage: Stage, kind: Kind = Kind.MODEL, entry: str = "", **sizes: int) -> GalleryDialog:
    if kind is Kind.MODEL:
        stage.library(kind).show_items(())
    else:
        dataset(stage)
    preset = GalleryPreset(entry, data=DataShape(sizes=sizes))
    dialog = stage.lay_over(GalleryDialog(kind, {"lenet-5": 2}, preset, stage.window))
    dialog.show_entries(MODELS if kind is Kind.MODEL else LOADERS)
    for model in MODELS if kind is Kind.MODEL else ():
        dialog.show_graph(model.name, graph_of(model))
    return dialog


screen("gallery-models", THREE)(lambda stage: _gallery(stage, **DATA))
screen("gallery-long-note", THREE)(lambda stage: _gallery(stage, entry="ndsb-net-1"))
screen("gallery-misfit")(lambda stage: _gallery(stage, entry="alexnet", **DATA))
screen("gallery-loaders", THREE)(lambda stage: _gallery(stage, Kind.LOADER, "image-folder"))
screen("gallery-refused")(
    lambda stage: _gallery(stage, Kind.LOADER, "table").show_error(
        "The data root /lab/ring has no space left: 3.1 MB are free. Free some space."
    )
)
screen("gallery-adding")(lambda stage: _gallery(stage).show_progress(0.42, "Copying bks_model.py"))


@screen("gallery-layers", THREE)
def gallery_layers(stage: Stage) -> None:
    dialog = _gallery(stage, entry="lenet-5")
    dialog._tabs.choose("layers")
    dialog._show_tab("layers")


@screen("gallery-fault", THREE)
def gallery_fault(stage: Stage) -> None:
    dialog = _gallery(stage, Kind.LOADER, "image-folder")
    for name, text in (("Side, pixels", "4"), ("Share for validation", "a fifth")):
        line = next(edit for edit in dialog.findChildren(LineEdit) if edit.accessibleName() == name)
        line.setText(text)
        line.textEdited.emit(text)


@screen("gallery-no-match")
def gallery_no_match(stage: Stage) -> None:
    dialog = _gallery(stage)
    dialog._search.setText("transformer")
    dialog._search._send_text()


@screen("dataset-suggestion", EVERY)
def dataset_suggestion(stage: Stage) -> None:
    page = show_plankton(stage)
    message = (
        "This looks like pictures in a folder for each class: 30 336 pictures in 121 classes "
        "(acantharia_protist, amphipods, appendicularian_s_shape, …)."
    )
    offers = NextStep(message, "Add a loader for it", print), NextStep("", "Settings…", print)
    page.detail.show_offers("plankton@2", *offers)


@screen("dataset-loader-added", THREE)
def dataset_loader_added(stage: Stage) -> None:
    page = show_plankton(stage)
    offer = NextStep("plankton has its loader.", "Train…", print)
    page.detail.show_offers("plankton@2", offer)
