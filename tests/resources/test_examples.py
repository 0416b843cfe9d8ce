"""The examples that users copy: they are right, and they learn."""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from pathlib import Path

import pytest
import torch
from PySide6.QtGui import QColor, QImage, QPainter
from torch.utils.data import DataLoader

from backend.records.jobs.job_file import parse_job
from backend.records.jobs.lr_schedule import learning_rate
from backend.training import user_code

DIGITS = Path(__file__).parents[2] / "resources/gallery/digits"


def test_the_job_file_of_the_digits_has_no_faults() -> None:
    parsed = parse_job(tomllib.loads((DIGITS / "job.toml").read_text(encoding="utf-8")))
    assert parsed.errors == ()
    assert parsed.config is not None
    assert parsed.config.world_size == 2


def test_the_digits_are_the_file_that_their_readme_names() -> None:
    file = DIGITS / "dataset/digits.csv.gz"
    readme = (DIGITS / "dataset/README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(file.read_bytes()).hexdigest() in readme
    assert "CC BY 4.0" in readme
    assert gzip.decompress(file.read_bytes()).count(b"\n") == 1797


@pytest.mark.parametrize("paper", ["white", "black"])
def test_a_picture_of_a_digit_becomes_a_sample_like_those_of_the_dataset(
    paper: str, tmp_path: Path
) -> None:
    training, validation = user_code.open_data(DIGITS / "loader", DIGITS / "dataset")
    assert validation is not None
    known, file, right = training.user_dataset, str(tmp_path / "page.png"), 0
    for number in range(40):
        picture, digit = validation.item(number)
        ink = picture[0] if paper == "black" else 1 - picture[0]
        raw = (ink * 255).round().to(torch.uint8).numpy().tobytes()
        drawn = QImage(raw, 8, 8, 8, QImage.Format.Format_Grayscale8).scaled(320, 320)
        page = QImage(600, 800, QImage.Format.Format_RGB32)
        page.fill(QColor(paper))
        painter = QPainter(page)
        painter.drawImage(90, 250, drawn)
        painter.end()
        assert page.save(file)
        found = validation.user_dataset.read(file)
        assert found.shape == picture.shape
        nearest = (known.pictures - found).flatten(1).norm(dim=1).argmin()
        right += int(known.digits[nearest] == digit)
    assert right >= 36


def test_a_file_that_is_no_picture_is_said_to_be_none(tmp_path: Path) -> None:
    training, _ = user_code.open_data(DIGITS / "loader", DIGITS / "dataset")
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ValueError, match="not a picture"):
        training.user_dataset.read(str(tmp_path / "text.png"))


@pytest.mark.slow
def test_the_digits_reach_97_percent_with_the_settings_of_their_job() -> None:
    job = parse_job(tomllib.loads((DIGITS / "job.toml").read_text(encoding="utf-8"))).config
    assert job is not None
    torch.manual_seed(job.seed)
    model = user_code.load_model(DIGITS / "model")
    training, validation = user_code.open_data(DIGITS / "loader", DIGITS / "dataset")
    assert validation is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, **job.optimizer.settings)
    batches = DataLoader(
        training,  # type: ignore[arg-type]  # DataLoader needs only len and item
        batch_size=job.global_batch_size,
        shuffle=True,
        collate_fn=training.collate,
    )
    step = 0
    for _ in range(job.epochs):
        for data, target in batches:
            optimizer.param_groups[0]["lr"] = learning_rate(job, len(batches), step)
            optimizer.zero_grad()
            user_code.compute_loss(model, model(data), target).backward()
            optimizer.step()
            step += 1
    model.eval()
    data, target = validation.collate([validation[index] for index in range(len(validation))])
    with torch.no_grad():
        metrics = user_code.compute_metrics(model, model(data), target)
    assert metrics["accuracy"] >= 0.97
