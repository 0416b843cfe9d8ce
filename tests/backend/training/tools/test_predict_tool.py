"""Predictions as a tool computes them: outputs of any form, and users' code at its worst."""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.base.errors import BackendError
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import Launch
from backend.records.jobs.prediction import BOXES, CLASSES, VALUES, Prediction
from backend.training.checkpoint import FORMAT, write_checkpoint
from backend.training.tools import predict as predict_tool
from backend.training.tools import protocol as tool_protocol
from backend.training.user_code import load_model
from tests.integration.tiny import LOADER, MODEL, raw_job, write_sources

LINEAR = "return self.layer(data)"


class Rig:
    """Sources, and a checkpoint of the model with the weights that it is built with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "table.csv"
        self.write(MODEL, LOADER)

    def write(self, model: str, loader: str = LOADER) -> None:
        self.sources = write_sources(self.folder)
        (self.sources[0] / "bks_model.py").write_text(model)
        (self.sources[1] / "bks_dataset.py").write_text(loader)

    def forward(self, text: str, loader: str = LOADER) -> None:
        """Write a model with this end of its forward."""
        self.write(MODEL.replace(LINEAR, text), loader)

    def save(self, **buffers: torch.Tensor) -> Path:
        torch.manual_seed(1)
        state = {
            "format": FORMAT,
            "model": load_model(self.sources[0]).state_dict(),
            "ranks": [{"buffers": buffers}],
        }
        record = Checkpoint("epoch-0001", 1, 1, 8, 0, 0, "", "c" * 64, "2026-11-27T12:00:00Z")
        return Path(write_checkpoint(self.folder, state, record).path)

    def predict(self, checkpoint: Path | None = None, **request: Any) -> Prediction:
        config = parse_job(raw_job(1, batch_size=16)).config
        assert config is not None
        model, loader, dataset = map(str, self.sources)
        launch = Launch("job", 1, config, (), model, loader, dataset)
        full_request: Mapping[str, Any] = {
            "launch": launch.to_dict(),
            "checkpoint": str(checkpoint or self.save()),
            "table": str(self.table),
            **request,
        }
        progress = self.folder / "progress"
        with contextlib.closing(tool_protocol.Report(progress)) as report:
            return Prediction.from_dict(predict_tool.predict(full_request, report))

    def rows(self) -> list[dict[str, str]]:
        with self.table.open(newline="") as file:
            return list(csv.DictReader(file))

    def refusal(self, **request: Any) -> BackendError:
        with pytest.raises(BackendError) as caught:
            self.predict(**request)
        return caught.value


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_mistakes_are_shown_the_most_confident_first_with_the_names_of_the_classes(
    rig: Rig,
) -> None:
    rig.write(
        MODEL,
        LOADER.replace("seed, count = 1, 512", 'classes, seed, count = "no yes".split(), 1, 512'),
    )
    result = rig.predict()
    assert result.task == CLASSES
    assert [entry.name for entry in result.classes] == ["no", "yes"]
    wrong_rows = [row for row in rig.rows() if row["prediction"] != row["target"]]
    wrong_rows.sort(key=lambda row: -float(row["confidence"]))
    assert [str(entry.sample.index) for entry in result.mistakes] == [
        row["index"] for row in wrong_rows[:48]
    ]
    assert result.mistakes[0].sample.target != result.mistakes[0].prediction
    assert {entry.prediction for entry in result.best} == {"no", "yes"}
    assert len(result.best) == 10


def test_predictions_come_from_the_evaluated_model(rig: Rig) -> None:
    buffer = "self.register_buffer('scale', torch.ones(1), persistent=False)"
    rig.write(
        MODEL.replace("self.layer =", f"{buffer}; self.layer =").replace(
            LINEAR,
            "return self.scale * nn.functional.dropout(self.layer(data), 0.9, self.training)",
        )
    )
    result = rig.predict(checkpoint=rig.save(scale=torch.tensor([3.0])), samples=[0])
    (row,) = rig.rows()
    torch.manual_seed(1)
    layer = load_model(rig.sources[0]).get_submodule("layer")
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(2))
    expected_confidence = (3 * layer(data[:1])).softmax(1).max().detach()
    assert float(row["confidence"]) == pytest.approx(float(expected_confidence), abs=2e-6)
    assert result.sample_count == 1


def test_an_output_that_is_a_probability_already_stays_one(rig: Rig) -> None:
    rig.forward("return self.layer(data).softmax(1)")
    guesses = rig.predict().examples[0].guesses
    rig.forward(LINEAR)
    assert rig.predict().examples[0].guesses == guesses


def test_without_a_validation_set_the_training_samples_are_predicted(rig: Rig) -> None:
    rig.write(MODEL, LOADER.partition("class UserValDataset")[0])
    result = rig.predict()
    assert result.sample_count == 512
    assert result.notes == ("There is no validation set; these are the training samples.",)


def test_numbers_are_shown_with_their_targets(rig: Rig) -> None:
    model = MODEL.replace(LINEAR, "return self.layer(data)[:, 0]").replace(
        "nn.functional.cross_entropy(output, target)", "((output - target) ** 2).mean()"
    )
    rig.write(model.partition("    def metrics")[0], LOADER.replace(".long()", ".float()"))
    result = rig.predict()
    assert (result.task, result.classes, result.confusion) == (VALUES, (), ())
    first, row = result.examples[0], rig.rows()[0]
    assert float(row["prediction"]) == pytest.approx(float(first.prediction), rel=1e-5)
    assert row["target"] in ("0", "1")
    assert first.output[0].display_kind == "values"
    assert result.metrics["validation/loss"] == pytest.approx(
        sum((float(r["prediction"]) - float(r["target"])) ** 2 for r in rig.rows()) / 64, rel=1e-3
    )


@pytest.mark.parametrize(
    ("output", "form"),
    [
        ("self.layer(data)[:, :1].repeat(1, 100)", "wave"),
        ("self.layer(data)[:, :1].repeat(1, 6)", "values"),
        ("self.layer(data)[:, :1, None, None].repeat(1, 3, 8, 8)", "image"),
        ("{'all': self.layer(data)[:, None].repeat(1, 4, 1)}", "table"),
    ],
)
def test_an_output_of_another_form_is_shown_by_its_shape(rig: Rig, output: str, form: str) -> None:
    rig.forward(f"return {output}", LOADER.replace(".long()", ".float()"))
    result = rig.predict(samples=[2, 5])
    assert [example.sample.index for example in result.examples] == [2, 5]
    assert [part.display_kind for part in result.examples[0].output] == [form]
    assert result.notes[0].startswith("There are no metrics: The model's ")
    assert len(rig.rows()) == 2


def test_boxes_are_shares_of_the_picture(rig: Rig) -> None:
    boxes = (
        "return [{'boxes': torch.tensor([[4.0, 2.0, 8.0, 6.0]]), 'labels': torch.tensor([1]),"
        " 'scores': torch.tensor([0.75])} for _ in data]"
    )
    loader = LOADER.replace(
        "self.data = torch.randn(self.count, 4, generator=made)",
        "self.data = torch.rand(self.count, 3, 8, 16, generator=made)",
    ).replace("self.data.sum(1) > 0", "self.data.sum((1, 2, 3)) > 0")
    rig.forward(boxes, loader.replace("seed, count = 1", "classes, seed, count = ['a', 'ox'], 1"))
    result = rig.predict()
    assert result.task == BOXES
    box = result.examples[0].boxes[0]
    assert (box.name, box.confidence, box.corners) == ("ox", 0.75, (0.25, 0.25, 0.5, 0.75))
    assert rig.rows()[0]["prediction"] == "ox 0.75 [4.0, 2.0, 8.0, 6.0]"
    assert rig.rows()[0]["confidence"] == "0.75"


def test_boxes_are_measured_against_those_of_the_targets(rig: Rig) -> None:
    result = boxes_of(rig, "{'boxes': torch.tensor([[4.0, 2.0, 8.0, 6.0], [0.0, 0.0, 1.0, 1.0]])}")
    (measures,) = result.detections
    assert (measures.name, measures.count) == ("ox", 128)
    # One of two true boxes is found in each picture, and nothing wrong.
    assert measures.ap50 == measures.ap75 == pytest.approx(51 / 101)
    assert measures.at_50[:51] == (1.0,) * 51
    assert measures.at_50[51:] == (0.0,) * 50
    assert result.metrics["validation/AP50"] == pytest.approx(51 / 101)
    assert [box.corners for box in result.examples[0].truth] == [
        (0.25, 0.25, 0.5, 0.75),
        (0.0, 0.0, 0.0625, 0.125),
    ]


@pytest.mark.parametrize(
    "target", ["0", "{'masks': torch.ones(1)}", "{'boxes': torch.ones(1, 5)}", "{'boxes': 'none'}"]
)
def test_boxes_without_true_boxes_have_no_measures(rig: Rig, target: str) -> None:
    result = boxes_of(rig, target)
    assert (result.task, result.detections, result.examples[0].truth) == (BOXES, (), ())
    assert "validation/AP50" not in result.metrics


def boxes_of(rig: Rig, target: str) -> Prediction:
    """Return the predictions of a model with one box for each picture, on these targets."""
    model = MODEL.replace(
        LINEAR,
        "return [{'boxes': torch.tensor([[4.0, 2.0, 8.0, 6.0]]), 'labels': torch.tensor([1]),"
        " 'scores': torch.tensor([0.75])} for _ in data]",
    ).replace("nn.functional.cross_entropy(output, target)", "output[0]['boxes'].sum()")
    loader = LOADER.replace(
        "self.data = torch.randn(self.count, 4, generator=made)",
        "self.data = torch.rand(self.count, 3, 8, 16, generator=made)",
    ).replace("self.data.sum(1) > 0", "self.data.sum((1, 2, 3)) > 0")
    loader = loader.replace("seed, count = 1", "classes, seed, count = ['a', 'ox'], 1")
    collate = (
        "    def collate(self, items):\n"
        f"        return torch.stack([one for one, _ in items]), [{target} for _ in items]\n"
    )
    loader = loader.replace("    def __len__", f"{collate}\n    def __len__", 1)
    rig.write(model.partition("    def metrics")[0], loader)
    return rig.predict()


READ = """
    def read(self, path):
        if path.endswith("bad"):
            raise OSError("cannot identify image file")
        return torch.full((4,), float(path[-1]))
"""


def test_files_with_a_loader_that_returns_a_whole_sample(rig: Rig) -> None:
    rig.write(MODEL, LOADER + READ.replace("float(path[-1]))", "float(path[-1])), 1"))
    result = rig.predict(files=["/x/1", "/x/2"])
    assert (result.sample_count, result.task) == (2, CLASSES)
    assert [example.file for example in result.examples] == ["/x/1", "/x/2"]
    assert result.examples[0].sample.target == ""


def test_each_row_of_a_file_with_several_is_a_sample(rig: Rig) -> None:
    read_all = """
    def read_all(self, path):
        if path.endswith("bad"):
            raise OSError("cannot be read")
        return torch.full((int(path[-1]), 4), 1.0)
"""
    rig.write(MODEL, LOADER + READ + read_all)
    result = rig.predict(files=["/x/1", "/x/3", "/x/bad"])
    labels = ["/x/1", "/x/3, row 1", "/x/3, row 2", "/x/3, row 3"]
    assert [example.file for example in result.examples] == labels
    assert result.notes == ("1 file could not be read: bad.",)
    assert [line.rsplit(",", 2)[-1].strip('"\r\n') for line in rig.table.read_text().splitlines()][
        1:
    ] == ["/x/1", " row 1", " row 2", " row 3"]


@pytest.mark.parametrize("name", [b"caf\xe9 1", b"\xff\xfe1", "süß 1".encode(), b"\xe4\xb8 1"])
def test_a_name_of_any_bytes_is_exact_in_the_table_and_shown_by_escapes(
    rig: Rig, name: bytes
) -> None:
    rig.write(MODEL, LOADER + READ)
    result = rig.predict(files=["/x/2", os.fsdecode(b"/x/" + name)])
    assert name in rig.table.read_bytes()
    assert result.sample_count == 2
    file = result.examples[1].file
    assert file == (b"/x/" + name).decode("utf-8", "backslashreplace")
    file.encode()


def test_files_of_different_sizes_are_batches_of_one(rig: Rig) -> None:
    loader_code = READ.replace("torch.full((4,)", "torch.full((4 * int(path[-1]),)")
    rig.forward("return self.layer(data[:, :4])", LOADER + loader_code)
    assert rig.predict(files=["/x/1", "/x/2"]).sample_count == 2


def test_a_file_that_is_no_picture_is_a_sentence_with_its_name(rig: Rig) -> None:
    rig.write(MODEL, LOADER + READ)
    message = rig.refusal(files=["/x/bad"]).message
    assert message.startswith("UserValDataset.read of bad raised OSError: cannot identify")


def test_a_loader_without_read_says_how_to_read_files(rig: Rig) -> None:
    error = rig.refusal(files=["/x/1"])
    assert "has no method read" in error.message
    assert "def read(self, path)" in error.remedy


def test_more_classes_than_are_measured_are_a_note(rig: Rig) -> None:
    rig.write(MODEL.replace("Linear(4, 2)", "Linear(4, 300)"))
    result = rig.predict()
    assert (result.task, result.classes, result.confusion) == (CLASSES, (), ())
    assert "at most 200 classes; there are 300" in result.notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.layer(data)", "The model's forward returns nothing."),
        ("return self.layer(data.cuda())", "The model's forward raised "),
        ("return self.layer(data).squeeze(1)[0, 0, 0]", "The model's forward raised IndexError"),
    ],
)
def test_a_forward_that_gives_no_output_is_a_sentence(rig: Rig, text: str, message: str) -> None:
    rig.forward(text)
    assert rig.refusal().message.startswith(message)


def test_a_model_that_needs_a_gpu_gets_a_remedy(rig: Rig) -> None:
    rig.forward("raise RuntimeError('No CUDA GPUs are available')")
    assert "device of the data" in rig.refusal().remedy


def test_a_forward_that_hangs_is_ended(rig: Rig) -> None:
    # Its time is over at once, and the batch before it has all of its own.
    rig.forward("import signal; signal.raise_signal(signal.SIGALRM)")
    assert rig.refusal().message == "The model's forward did not end within 120 s."


def test_a_loader_that_hangs_is_ended(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_tool, "OPEN_S", 0.3)
    rig.write(
        MODEL,
        LOADER.replace(
            "def __init__(self, folder):", "def __init__(self, folder):\n        time.sleep(60)"
        ),
    )
    assert rig.refusal().message.startswith("Opening data and model did not end")


def test_a_checkpoint_of_another_model_is_refused(rig: Rig) -> None:
    checkpoint = rig.save()
    rig.write(MODEL.replace("nn.Linear(4, 2)", "nn.Linear(4, 3)"))
    assert rig.refusal(checkpoint=checkpoint).message.startswith(
        "The checkpoint does not fit the model"
    )


def test_a_damaged_checkpoint_is_refused(rig: Rig) -> None:
    checkpoint = rig.save()
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(content)
    assert "cannot be used" in rig.refusal(checkpoint=checkpoint).message


def test_a_class_name_with_a_formula_sign_is_text_in_the_table(rig: Rig) -> None:
    rig.write(
        MODEL, LOADER.replace("seed, count = 1, 512", "classes, seed, count = ['=1', '@a'], 1, 512")
    )
    rig.predict()
    assert {row["target"] for row in rig.rows()} == {"'=1", "'@a"}


BY_FILE = """
    def read(self, path):
        return self.data[int(path[3:])]
"""
CROSS = "nn.functional.cross_entropy(output, target)"
GAUSS = "((output[:, 0] - target) ** 2 / output[:, 1].exp() + output[:, 1]).mean()"
OUTPUT_TYPES = """
import collections
import dataclasses
Out = collections.namedtuple("Out", "scores features")

@dataclasses.dataclass
class Outputs:
    hidden: torch.Tensor
    scores: torch.Tensor
"""
CLASS, NUMBERS = CLASSES, VALUES


@pytest.mark.parametrize(
    ("output", "loss", "task", "first"),
    [
        ("x", CROSS, CLASS, ""),
        ("x.squeeze()", CROSS.replace("output,", "output.view(-1, 2),"), CLASS, ""),
        ("x.log_softmax(1).squeeze()", "-output.view(-1, 2)[range(len(target)), target].mean()",
         CLASS, ""),
        ("{'loss': x.sum(), 'logits': x, 'hidden': data.repeat(1, 9)}",
         CROSS.replace("output", "output['logits']"), CLASS, ""),
        ("(data.repeat(1, 9), x)", CROSS.replace("output", "output[1]"), CLASS, ""),
        ("Out(x, data)", CROSS.replace("output", "output.scores"), CLASS, ""),
        ("Outputs(data, x)", CROSS.replace("output", "output.scores"), CLASS, ""),
        ("x.T", CROSS.replace("output", "output.T"), CLASS, ""),
        ("x", "nn.functional.binary_cross_entropy_with_logits(output, torch.eye(2)[target])",
         CLASS, ""),
        ("x.softmax(1)", "((output - torch.eye(2)[target]) ** 2).sum()", CLASS, ""),
        ("x", GAUSS, NUMBERS, r"\[-?[\d.]+, -?[\d.]+\]"),
        ("x[:, :1].squeeze()", "((output - target) ** 2).mean()", NUMBERS, r"-?[\d.]+"),
        ("x[None].repeat(3, 1, 1)", "output.sum()", NUMBERS, r"\[\[-?.*, .*\], \[.*\], \[.*\]\]"),
        ("{'mean': x[:, 0], 'more': {'both': x}, 'size': x.new_zeros(7)}", "output['mean'].sum()",
         NUMBERS, r"mean: -?[\d.]+; more\.both: \[.+, .+\]"),
        ("(x[:, 0], x[:, 1])", "output[0].sum()", NUMBERS, r"0: -?[\d.]+; 1: -?[\d.]+"),
        ("x.reshape(-1)", "output.sum()", NUMBERS, ""),
        ("[{'boxes': one.repeat(1, 2)} for one in x]", "output[0]['boxes'].sum()", BOXES, "1 1 .*"),
    ],
)  # fmt: skip
def test_each_sample_has_its_own_answer_alone_in_a_set_and_as_a_file(
    rig: Rig, output: str, loss: str, task: str, first: str
) -> None:
    model = MODEL.replace(LINEAR, f"x = self.layer(data)\n        return {output}")
    model = model.replace(CROSS, loss).partition("    def metrics")[0]
    rig.write(
        model.replace("class UserModel", OUTPUT_TYPES + "\nclass UserModel"), LOADER + BY_FILE
    )
    samples = [*range(16), 16]  # The last batch has one sample.
    result = rig.predict(samples=samples)
    assert result.task == task
    rows = [{**row, "target": "", "file": ""} for row in rig.rows()]
    assert re.fullmatch(first or ".*", rows[5]["prediction"])
    assert (rows[5]["confidence"] == "") == (task == VALUES)
    for request in ({"samples": [5]}, {"samples": [16]}, {"samples": [16, 5]}):
        rig.predict(**request)
        assert [{**answer, "target": "", "file": ""} for answer in rig.rows()] == [
            rows[number] for number in request["samples"]
        ]
    rig.predict(files=["/x/5", "/x/16"])
    file_rows = [
        {**answer, "target": "", "file": "", "index": i}
        for answer, i in zip(rig.rows(), "56", strict=True)
    ]
    assert file_rows == [{**rows[n], "index": i} for n, i in ((5, "5"), (16, "6"))]


@pytest.mark.parametrize(
    ("output", "note"),
    [
        ("x.reshape(-1)", "Output that belongs to no single sample is not shown."),
        ("{'a': x, 'b': x @ x.T}", "Output that belongs to no single sample is not shown (b)."),
        ("x.reshape(16, -1)", "The model takes no batches of 2 and 3 samples: the first axis "),
    ],
)
def test_a_note_names_outputs_that_belong_to_no_sample(rig: Rig, output: str, note: str) -> None:
    rig.forward(f"x = self.layer(data[:, :3] @ torch.eye(3, 4)); return {output}")
    notes = rig.predict(samples=list(range(16))).notes
    assert any(line.startswith(note) for line in notes), notes


def test_an_output_that_is_no_number_is_no_class(rig: Rig) -> None:
    rig.forward("x = self.layer(data); return torch.where(data[:, :1] > 1, torch.nan, x)")
    result = rig.predict()
    missing = [row for row in rig.rows() if row["prediction"] == "not a number"]
    assert 0 < len(missing) < 64
    assert {row["confidence"] + row["top_2"] for row in missing} == {"not a number"}
    assert sum(map(sum, result.confusion)) == 64 - len(missing)
    assert {example.prediction for example in (*result.best, *result.mistakes)} == {"0", "1"}
    example_by_index = {str(example.sample.index): example for example in result.examples}
    assert example_by_index[missing[0]["index"]].guesses == ()
    assert f"{len(missing)} of 64 samples is not a number (NaN), first of " in result.notes[0]
    rig.forward("return self.layer(data) * torch.nan")
    assert rig.predict().task == CLASSES


def test_targets_beyond_the_scores_are_no_classes(rig: Rig) -> None:
    rig.write(MODEL.partition("    def metrics")[0].replace(CROSS, GAUSS),
              LOADER.replace(".long()", ".long() * 7"))  # fmt: skip
    result = rig.predict()
    assert (result.task, result.notes) == (VALUES, ())
    assert {row["target"] for row in rig.rows()} == {"0", "7"}
