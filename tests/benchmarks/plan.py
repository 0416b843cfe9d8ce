"""A plan against the run that follows: seconds a step, whole duration, memory and checkpoint.

Six networks of the gallery train on pictures made here, each as its card says. A ratio is
planned / measured; its distance from 1 is at most 20 %.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from PIL import Image

from backend.records.base.timestamps import seconds
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from tests.benchmarks.figures import Figure

_SIDES = {
    "lenet-5": 64, "tiny-cifar-10": 64, "alexnet": 128, "resnet-18": 64, "vgg-19": 32,
    "inception-bn": 64,
}  # fmt: skip
"""The side of a picture for each network, with which a step takes up to a second on two cores."""
_CLASSES, _PICTURES = 4, 160
_EPOCHS = 4
_LIMIT = 0.2


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        services = open_services(folder / "root", folder / "catalogue.sqlite")
        try:
            _write_pictures(folder / "pictures")
            services.library.import_item(Kind.DATASET, folder / "pictures", "pictures")
            return [f for network in _SIDES for f in _figures(services, network)]
        finally:
            services.close()


def _write_pictures(folder: Path) -> None:
    rng = random.Random(1)
    for number in range(_PICTURES):
        path = folder / f"class-{number % _CLASSES}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.randbytes(128 * 128 * 3)
        Image.frombytes("RGB", (128, 128), pixels).save(path)


def _figures(services: Services, network: str) -> list[Figure]:
    side = str(_SIDES[network])
    services.gallery.add("image-folder", {"side": side}, f"side-{side}")
    sizes = {"classes": str(_CLASSES), "channels": "3", "side": side}
    settings = services.gallery.show(network).card.settings
    services.gallery.add(network, {k: v for k, v in sizes.items() if k in settings}, network)
    job_file = {
        **services.gallery.show(network).card.training,
        "name": network,
        "model": network,
        "dataset": "pictures",
        "loader": f"side-{side}",
        "epochs": _EPOCHS,
        "placement": [{"node": "this-computer", "processes": 1}],
    }
    plan = services.planner.plan(job_file)
    job_id = services.jobs.create(job_file).id
    services.jobs.lifecycle.start(job_id)
    view = services.queries.wait(job_id, is_finished=lambda now: now.state.is_over)
    status, trained = view.status, plan.by_nodes[0]
    checkpoint_bytes = max(c.bytes for c in services.queries.checkpoints(job_id))
    ratios = {
        "seconds a step": (trained.step_s, max(status.rank_step_ms) / 1000),
        "duration": (trained.lasts_s, seconds(status.ended_at) - seconds(status.started_at)),
        "memory": (plan.memory.total_bytes, status.peak_memory_bytes),
        "checkpoint": (plan.checkpoint_bytes, checkpoint_bytes),
    }
    return [
        Figure(
            "X8",
            f"{network}, {name}, |planned / measured − 1|",
            (abs((planned or 0) / (measured or 1) - 1),),
            _LIMIT,
            context=f"planned {planned:.4g}, measured {measured:.4g}",
        )
        for name, (planned, measured) in ratios.items()
    ]
