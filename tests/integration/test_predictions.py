"""A checkpoint is tried on data: by the service, and by `job predict`."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.prediction import CLASSES, PredictionInput
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.services.context.container import Services
from backend.services.tools import tool_process
from tests.integration.test_cli import Cli
from tests.integration.tiny import LOADER, raw_job
from tests.job_views import replace_fields

READING = f"""{LOADER}
    def read(self, path):
        with open(path) as file:
            return torch.tensor([float(word) for word in file.read().split()])
"""


@pytest.fixture
def cli(workplace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(workplace, capsys)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_metrics_are_those_that_the_job_reported_for_the_checkpoint(
    services: Services, finished: str
) -> None:
    checkpoints = services.jobs.queries.checkpoints(finished)
    assert len(checkpoints) > 1
    for checkpoint in checkpoints:
        prediction = services.predictions.predict(finished, checkpoint.name)
        assert (prediction.task, prediction.sample_count) == (CLASSES, 64)
        for name in ("validation/loss", "validation/accuracy"):
            assert prediction.metrics[name] == pytest.approx(checkpoint.metrics[name], abs=1e-6), (
                checkpoint.name
            )


def test_job_predict_prints_the_measures_and_writes_all_predictions(
    cli: Cli, finished: str, tmp_path: Path
) -> None:
    output = tmp_path / "all.csv"
    args = ("job", "predict", finished, "--checkpoint", "latest", "--output", output)
    prediction = cli.json(*args)
    assert prediction["samples"] == 64
    assert prediction["output"] == str(output)
    table = rows(output)
    assert list(table[0])[:6] == [
        *("index", "target", "prediction", "confidence", "top_2", "top_2_confidence")
    ]
    assert list(table[0])[-1] == "top_5_confidence"
    assert [row["index"] for row in table] == [str(n) for n in range(64)]
    right_rows = [row for row in table if row["target"] == row["prediction"]]
    assert len(right_rows) / 64 == pytest.approx(prediction["metrics"]["validation/accuracy"])
    for n, class_measures in enumerate(prediction["classes"]):
        true_rows = [row for row in table if row["target"] == class_measures["class"]]
        predicted_rows = [row for row in table if row["prediction"] == class_measures["class"]]
        hit_count = sum(row in predicted_rows for row in true_rows)
        assert class_measures["count"] == len(true_rows) == sum(prediction["confusion"][n])
        assert class_measures["precision"] == pytest.approx(hit_count / len(predicted_rows))
        assert class_measures["recall"] == pytest.approx(hit_count / len(true_rows))
        assert class_measures["f1"] == pytest.approx(
            2 * hit_count / (len(predicted_rows) + len(true_rows))
        )
    confidences = [float(row["confidence"]) + float(row["top_2_confidence"]) for row in table]
    assert confidences == pytest.approx([1.0] * 64, abs=1e-5)
    previous_content = output.read_bytes()
    assert cli.error(*args) == f"{output} exists already and was not changed."
    assert output.read_bytes() == previous_content


def test_the_dataset_of_the_job_by_name_is_its_validation_set(
    services: Services, finished: str
) -> None:
    default_prediction = services.predictions.predict(finished, "best")
    named_prediction = services.predictions.predict(
        finished, "best", PredictionInput(dataset="tiny@1")
    )
    assert named_prediction.metrics == default_prediction.metrics


def test_files_are_read_by_the_loader_and_named_in_the_table(
    services: Services, cli: Cli, finished: str, tmp_path: Path
) -> None:
    (tmp_path / "sources/loader/bks_dataset.py").write_text(READING)
    services.library.import_item(Kind.LOADER, tmp_path / "sources/loader", "tiny")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "high.txt").write_text("1 1 1 1")
    (folder / "low.txt").write_text("-1 -1 -1 -1")
    (folder / "not.txt").write_text("a picture")
    output = tmp_path / "files.csv"
    with pytest.raises(BackendError, match="has no method read"):
        services.predictions.predict(finished, "best", PredictionInput(files=(str(folder),)))
    args = ("--checkpoint", "best", "--file", folder, "--loader", "tiny@2", "--output", output)
    prediction = cli.json("job", "predict", finished, *args)
    assert (prediction["samples"], prediction["metrics"]) == (2, {})
    assert prediction["notes"] == ["1 file could not be read: not.txt."]
    high, low = rows(output)
    assert (Path(high["file"]).name, high["prediction"]) == ("high.txt", "1")
    assert (Path(low["file"]).name, low["prediction"]) == ("low.txt", "0")
    assert high["target"] == ""
    single_input = PredictionInput(loader="tiny@2", files=(str(folder / "not.txt"),))
    with pytest.raises(BackendError, match=r"read of not\.txt raised ValueError"):
        services.predictions.predict(finished, "best", single_input)


def test_chosen_samples_are_all_shown_with_their_guesses(services: Services, finished: str) -> None:
    sample_input = PredictionInput(split="training", samples="3, 10-11")
    prediction = services.predictions.predict(finished, "best", sample_input)
    assert [example.sample.index for example in prediction.examples] == [3, 10, 11]
    for example in prediction.examples:
        assert example.sample.parts[0].shape == (4,)
        assert example.prediction == example.guesses[0].name
        assert sum(guess.confidence or 0.0 for guess in example.guesses) == pytest.approx(1.0)
    with pytest.raises(BackendError, match="There is no sample 512"):
        services.predictions.predict(finished, "best", replace(sample_input, samples="512"))
    with pytest.raises(BackendError, match="“ten” is no number of a sample"):
        services.predictions.predict(finished, "best", replace(sample_input, samples="ten"))


def test_an_answer_is_computed_once_for_the_same_files(
    services: Services, finished: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first_answer = services.predictions.predict(finished, "best")

    def fail_computing(*_: object) -> None:
        raise AssertionError("the answer is known")

    with monkeypatch.context() as patch:
        patch.setattr(tool_process, "run_tool", fail_computing)
        assert replace(services.predictions.predict(finished, "best"), output="") == replace(
            first_answer, output=""
        )
        with pytest.raises(AssertionError):
            services.predictions.predict(finished, "best", PredictionInput(split="training"))
    Path(first_answer.table).unlink()
    second_answer = services.predictions.predict(finished, "best")
    assert Path(second_answer.table).exists()


def test_a_damaged_version_or_checkpoint_gives_no_answer_not_even_a_kept_one(
    services: Services, finished: str
) -> None:
    default_input, sample_input = PredictionInput(), PredictionInput(split="training", samples="3")
    answer = services.predictions.predict(finished, "best", default_input)
    folder = services.queries.folder(finished)
    pins = services.queries.read(finished)[1].pins
    kinds = {"model": Kind.MODEL, "loader": Kind.LOADER, "dataset": Kind.DATASET}
    contents = {key: services.library.content(k, pins[key].reference) for key, k in kinds.items()}
    victims = [next(p for p in content.rglob("*") if p.is_file()) for content in contents.values()]
    best_checkpoint = next(
        checkpoint for checkpoint in services.queries.checkpoints(finished) if checkpoint.is_best
    )
    victims.append(folder.checkpoints / f"{best_checkpoint.name}.pt")

    for victim in victims:
        sound = victim.read_bytes()
        victim.chmod(0o644)
        for spoiled_content in (sound[:-1], sound[:-1] + bytes([sound[-1] ^ 1]), sound + b"#"):
            victim.write_bytes(spoiled_content)
            # Of a damaged checkpoint, the tool refuses a new answer (see its own tests).
            for prediction_input in (
                (default_input,) if victim.suffix == ".pt" else (default_input, sample_input)
            ):
                with pytest.raises(BackendError, match=r"was changed|damaged|bytes long"):
                    services.predictions.predict(finished, "best", prediction_input)
        victim.write_bytes(sound)
        assert services.predictions.predict(finished, "best", default_input) == answer


def test_a_cancelled_prediction_leaves_no_file(services: Services, finished: str) -> None:
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        services.predictions.predict(finished, "best", progress=progress)
    cache = list(Path(services.catalogue.path).parent.rglob("predictions/*"))
    assert [path for path in cache if path.suffix in (".csv", ".tmp")] == []


def test_a_run_may_remove_the_checkpoint_that_is_being_tried(
    services: Services, finished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, run_tool = services.jobs.queries.read, tool_process.run_tool
    (path,) = {
        Path(checkpoint.path)
        for checkpoint in services.jobs.queries.checkpoints(finished)
        if checkpoint.is_best
    }

    def live(job_id: str) -> Any:
        folder, file, view = read(job_id)
        return folder, file, replace_fields(view, state=JobState.TRAINING)

    def remove_then_run(*args: Any) -> Any:
        path.unlink()
        return run_tool(*args)

    monkeypatch.setattr(services.jobs.queries, "read", live)
    monkeypatch.setattr(tool_process, "run_tool", remove_then_run)
    prediction = services.predictions.predict(finished, "best")
    assert prediction.sample_count == 64
    assert not path.exists()


def test_a_folder_of_too_many_files_is_refused_before_they_are_read(
    services: Services, finished: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.services.jobs.prediction.MAX_FILES", 3)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.png").touch()
    with pytest.raises(BackendError, match="has more than 3 files"):
        services.predictions.predict(finished, "best", PredictionInput(files=(str(folder),)))


def test_a_missing_dataset_is_a_sentence(services: Services, finished: str, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "data/datasets/tiny")
    with pytest.raises(BackendError, match="tiny"):
        services.predictions.predict(finished, "best")


def test_a_job_without_checkpoints_says_so(services: Services) -> None:
    view = services.jobs.create(raw_job())
    with pytest.raises(BackendError, match="has no checkpoint “best”"):
        services.predictions.predict(view.id, "best")
