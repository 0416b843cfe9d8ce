"""Exports, used without Ringmaster."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
import pytest
import safetensors.torch
import torch
from PIL import Image

from backend.base.errors import BackendError
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import JobConfig, Optimizer
from backend.records.jobs.history import Block, encode
from backend.records.jobs.job_file import shareable_config
from backend.records.jobs.placement import Placement
from backend.services.tools import tool_process
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.export import export
from backend.training.user_code import load_loader, load_model, materialize, needs_first_batch

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
ANCESTOR = Path(__file__).parents[3] / "data/ancestor"


class ExportedCheckpoint:
    """A checkpoint with its record, a history, and exports of them."""

    def __init__(self, folder: Path, source: Path = GALLERY / "model") -> None:
        self.folder = folder
        self.source = source
        torch.manual_seed(3)
        self.model = load_model(source).eval()
        if needs_first_batch(self.model):
            materialize(self.model, torch.zeros(2, 1, 8, 8))
        self.path = folder / "epoch-0002-step-000040.pt"
        torch.save({"model": self.model.state_dict(), "optimizer": {}, "step": 40}, self.path)
        self.record = Checkpoint(
            self.path.stem, 1, 2, 40, 0, 0, "", "c" * 64, "2026-11-21T07:30:00Z", {"loss": 0.25}
        )
        self.describe()
        self.history = folder / "history.toml"

    def describe(self) -> None:
        content = self.path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        record = replace(self.record, bytes=len(content), sha256=sha256)
        replace_json(self.path.with_suffix(".json"), record.to_dict())

    def export(self, export_format: str, output: Path | None = None) -> Path:
        output_path = output or self.folder / f"out.{export_format}"
        self.notes = tool_process.export(
            self.path,
            export_format,
            output_path,
            self.source,
            GALLERY / "loader",
            GALLERY / "dataset",
            {"job.toml": 'name = "digits"\n'},
            self.history,
        )
        return output_path

    def refusal(self, export_format: str = "pt", output: Path | None = None) -> str:
        previous_files = sorted(self.folder.rglob("*"))
        with pytest.raises(BackendError) as caught:
            self.export(export_format, output)
        assert sorted(self.folder.rglob("*")) == previous_files, "nothing new is left"
        return caught.value.message


@pytest.fixture(autouse=True)
def most_exports_need_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process imports torch again; ONNX has one, for what torch warns of on the way."""
    run_tool = tool_process.run_tool

    def run_here(
        tool: str, request: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any], *args: Any
    ) -> Any:
        if request["format"] == "onnx":
            return run_tool(tool, request, read, *args)
        with contextlib.closing(tool_protocol.Report(tmp_path.with_name("progress"))) as report:
            return read(export(request, report))

    monkeypatch.setattr(tool_process, "run_tool", run_here)


@pytest.fixture
def checkpoint(tmp_path: Path) -> ExportedCheckpoint:
    return ExportedCheckpoint(tmp_path)


def test_a_state_dict_loads_with_weights_only(checkpoint: ExportedCheckpoint) -> None:
    state = torch.load(checkpoint.export("pt"), weights_only=True)
    assert list(state) == list(checkpoint.model.state_dict())
    assert all(torch.equal(state[name], v) for name, v in checkpoint.model.state_dict().items())


def test_safetensors_hold_the_same_numbers(checkpoint: ExportedCheckpoint) -> None:
    state = safetensors.torch.load_file(checkpoint.export("safetensors"))
    assert set(state) == set(checkpoint.model.state_dict())
    assert all(torch.equal(state[name], v) for name, v in checkpoint.model.state_dict().items())


def test_onnx_gives_the_outputs_of_the_model_for_any_batch_size(
    checkpoint: ExportedCheckpoint,
) -> None:
    session = onnxruntime.InferenceSession(checkpoint.export("onnx"))
    assert checkpoint.notes == ()
    data = load_loader(GALLERY / "loader").training(GALLERY / "dataset")
    for size in (1, 7):
        batch = torch.stack([data[index][0] for index in range(size)])
        (output,) = session.run(None, {"data": batch.numpy()})
        with torch.no_grad():
            numpy.testing.assert_allclose(output, checkpoint.model(batch), atol=1e-5)


def test_m18_a_zip_loads_elsewhere_in_plain_torch_and_its_hashes_match(
    checkpoint: ExportedCheckpoint, tmp_path: Path
) -> None:
    checkpoint.history.write_bytes(
        encode(Block("TRAINING", 1, 1, 3, 1, "2026-11-21T07:30:00Z", {"loss": [3.0, 2.0, 1.0]}))
        + encode(
            Block(
                "TRAINING",
                2,
                1,
                3,
                3,
                "2026-11-21T07:40:00Z",
                {"loss": [0.5], "validation/loss": [0.75]},
            )
        )
        + b"[[entry]]\nhalf a block\n"
        + encode(Block("TRAINING", 2, 1, 4, 4, "2026-11-21T07:41:00Z", {"loss": [0.25]}))
        + b"[[entry]]\nhalf a blo"
    )
    unzip_folder = tmp_path / "elsewhere, far"
    shutil.unpack_archive(checkpoint.export("zip"), unzip_folder)
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=unzip_folder, check=True)
    hashed_names = {
        line.split("  ")[1] for line in (unzip_folder / "SHA256SUMS").read_text().splitlines()
    }
    present_names = {
        p.relative_to(unzip_folder).as_posix() for p in unzip_folder.rglob("*") if p.is_file()
    }
    assert hashed_names == present_names - {"SHA256SUMS"}
    completed = subprocess.run(
        [sys.executable, "load.py"],
        cwd=unzip_folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    assert b"29,066 parameters loaded" in completed.stdout
    torch.save(torch.ones(2, 1, 8, 8), tmp_path / "in.pt")
    program = (
        "import torch; from load import load_model\n"
        f"torch.save(load_model()(torch.load({str(tmp_path / 'in.pt')!r})), "
        f"{str(tmp_path / 'out-of-zip.pt')!r})"
    )
    subprocess.run([sys.executable, "-c", program], cwd=unzip_folder, env=environment, check=True)
    output = torch.load(tmp_path / "out-of-zip.pt", weights_only=True)
    assert torch.equal(output, checkpoint.model(torch.ones(2, 1, 8, 8)))
    with (unzip_folder / "history.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["step", "epoch", "loss", "validation/loss"],
            ["1", "1", "3", ""],
            ["2", "1", "2", ""],
            ["3", "1", "0.5", "0.75"],
            ["4", "1", "0.25", ""],
        ]
    assert checkpoint.notes == (
        "1 of 4 blocks of the history are damaged; history.csv lacks their steps.",
    )
    assert checkpoint.notes[0] in (unzip_folder / "README.md").read_text()
    assert len(tomllib.loads((unzip_folder / "history.toml").read_text())["entry"]) == 3
    texts = [
        p.read_text()
        for p in unzip_folder.rglob("*")
        if p.is_file() and p.suffix not in (".pt", ".pyc")
    ]
    assert not any(str(tmp_path) in text for text in texts), "no path of this place is in it"


FORM = {"shape": [1, 8, 8], "dtype": "float32", "low": 0.0, "high": 1.0}


def predicted(folder: Path, *names: str) -> str:
    process = subprocess.run(
        [sys.executable, "predict.py", *names],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout + process.stderr


def test_the_zip_predicts_for_tensors_arrays_and_pictures(
    checkpoint: ExportedCheckpoint, tmp_path: Path
) -> None:
    classes = [f"digit {number}" for number in range(10)]
    content = torch.load(checkpoint.path, weights_only=True)
    torch.save({**content, "input": {**FORM, "classes": classes}}, checkpoint.path)
    checkpoint.describe()
    folder = tmp_path / "elsewhere"
    shutil.unpack_archive(checkpoint.export("zip"), folder)
    sample = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.save(sample, folder / "a.pt")
    numpy.save(folder / "b.npy", sample.numpy())
    picture = Image.fromarray((sample[0].numpy() * 255).round().astype("uint8"))
    picture.resize((80, 80), Image.Resampling.NEAREST).save(folder / "c.png")
    with torch.no_grad():
        best = int(checkpoint.model(sample[None])[0].argmax())
    lines = predicted(folder, "a.pt", "b.npy", "c.png").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["a.pt", "b.npy", "c.png"]
    assert all(line.partition(": ")[2].startswith(f"digit {best} ") for line in lines), lines
    torch.save(sample[:, :4], folder / "d.pt")
    assert "d.pt has the shape [1, 4, 8], not [1, 8, 8]." in predicted(folder, "d.pt")


def test_a_zip_of_a_checkpoint_without_the_form_of_its_input_has_no_prediction(
    checkpoint: ExportedCheckpoint, tmp_path: Path
) -> None:
    shutil.unpack_archive(checkpoint.export("zip"), tmp_path / "z")
    assert not (tmp_path / "z/predict.py").exists()


def test_m18_a_changed_file_of_the_zip_is_named(
    checkpoint: ExportedCheckpoint, tmp_path: Path
) -> None:
    shutil.unpack_archive(checkpoint.export("zip"), tmp_path / "z")
    (tmp_path / "z/job.toml").write_text("other")
    completed = subprocess.run(
        [sys.executable, "load.py"], cwd=tmp_path / "z", capture_output=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (
        1,
        b"job.toml was changed after the export.\n",
    )


def test_m18_a_model_of_several_files_loads_from_the_zip(tmp_path: Path) -> None:
    """A file of the model has the name of a module of the standard library."""
    source = shutil.copytree(ANCESTOR / "model", tmp_path / "model")
    (source / "tokenize.py").write_text("HIDDEN = 8\n")
    with (source / "bks_model.py").open("a") as file:
        file.write("\nfrom tokenize import HIDDEN\n")
    checkpoint = ExportedCheckpoint(tmp_path, source)
    shutil.unpack_archive(checkpoint.export("zip"), tmp_path / "z")
    subprocess.run([sys.executable, "load.py"], cwd=tmp_path / "z", check=True)


@pytest.mark.slow
def test_m18_a_keras_model_loads_from_the_zip(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "bks_model.py").write_text(
        "import keras\n"
        "class UserModel(keras.Model):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.flat = keras.layers.Flatten()\n"
        "        self.dense = keras.layers.Dense(10)\n"
        "    def call(self, data): return self.dense(self.flat(data))\n"
        "    def loss(self, output, target): return keras.ops.mean(output)\n"
    )
    checkpoint = ExportedCheckpoint(tmp_path, source)
    shutil.unpack_archive(checkpoint.export("zip"), tmp_path / "z")
    assert torch.load(tmp_path / "z/example.pt", weights_only=True).count_nonzero() == 0
    completed = subprocess.run(
        [sys.executable, "load.py"],
        cwd=tmp_path / "z",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout
    assert "650 parameters loaded" in completed.stdout


def test_f60_values_of_environment_variables_do_not_leave_with_the_job_file() -> None:
    job = JobConfig(
        name="n",
        model="m",
        dataset="d",
        loader="l",
        epochs=1,
        batch_size=1,
        optimizer=Optimizer("sgd", 0.1),
        placement=(Placement("this-computer", 1),),
        environment={"TOKEN": "secret-1234"},
        start_from="/home/anna/weights.pt",
    )
    shared_config = shareable_config(job)
    assert shared_config["environment"] == {"TOKEN": ""}
    assert shared_config["start_from"] == "weights.pt"


def test_nothing_is_overwritten(checkpoint: ExportedCheckpoint) -> None:
    output = checkpoint.folder / "mine.pt"
    output.write_text("mine")
    assert checkpoint.refusal("pt", output) == f"{output} exists already and was not changed."
    assert output.read_text() == "mine"


def test_a_missing_folder_is_named(checkpoint: ExportedCheckpoint) -> None:
    output = checkpoint.folder / "absent/out.pt"
    assert checkpoint.refusal("pt", output) == f"The folder {output.parent} does not exist."


def test_f30_a_flipped_bit_is_refused(checkpoint: ExportedCheckpoint) -> None:
    content = bytearray(checkpoint.path.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.path.write_bytes(content)
    assert "was changed after it was written: its hash differs" in checkpoint.refusal()


def test_f29_a_truncated_checkpoint_is_refused(checkpoint: ExportedCheckpoint) -> None:
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-1000])
    assert "was changed after it was written" in checkpoint.refusal()


def test_f31_a_pickle_bomb_with_a_matching_hash_is_not_run(checkpoint: ExportedCheckpoint) -> None:
    mark = checkpoint.folder / "executed"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(mark),)

    torch.save({"model": Bomb()}, checkpoint.path)
    checkpoint.describe()
    assert checkpoint.refusal() == (
        f"The checkpoint {checkpoint.path.stem} contains an object that is not allowed in one; "
        "nothing of it was executed."
    )
    assert not mark.exists()


def test_f46_a_missing_checkpoint_is_named(checkpoint: ExportedCheckpoint) -> None:
    checkpoint.path.unlink()
    assert "no longer exists" in checkpoint.refusal()


def test_f53_a_checkpoint_of_another_model_is_refused_for_onnx(
    checkpoint: ExportedCheckpoint,
) -> None:
    torch.save({"model": {"features.0.weight": torch.zeros(1)}}, checkpoint.path)
    checkpoint.describe()
    assert checkpoint.refusal("onnx").startswith(
        "The checkpoint does not fit the model: the model has "
    )


def test_a_model_that_cannot_be_traced_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "bks_model.py").write_text(
        "import torch\n"
        "class UserModel(torch.nn.Module):\n"
        "    def __init__(self): super().__init__(); self.w = torch.nn.Linear(64, 10)\n"
        "    def forward(self, x):\n"
        "        y = self.w(x.flatten(1))\n"
        "        return y if y.sum() > 0 else -y\n"
        "    def loss(self, o, t): return o.sum()\n"
    )
    message = ExportedCheckpoint(tmp_path, source).refusal("onnx")
    assert message.startswith("The model cannot be exported to ONNX")


def test_f26_a_full_disk_is_reported(checkpoint: ExportedCheckpoint) -> None:
    request = {
        "format": "pt",
        "checkpoint": str(checkpoint.path),
        "partial": "/dev/full",
        "model": str(checkpoint.source),
    }
    report = tool_protocol.Report(checkpoint.folder / "progress")
    with contextlib.closing(report), pytest.raises(BackendError, match="cannot be written to /dev"):
        export(request, report)
