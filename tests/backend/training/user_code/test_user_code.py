"""The contract with users' code, against real files in real folders."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from backend.training import user_code
from backend.training.tools.check_model import check_model
from backend.training.user_code import UserCodeError, errors, load_loader, load_model
from backend.training.user_code.sources import known_sources
from tests.backend.training.training_rig import ROOT, new_training
from tests.waiting import LIMIT_S

MODEL = """
import torch

class UserModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, data):
        return self.layer(data)

    def loss(self, output, target):
        return torch.nn.functional.cross_entropy(output, target)
"""

LOADER = """
import torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.full((4,), float(index)), index % 2
"""


def write(folder: Path, **files: str) -> Path:
    """Files by name, with __ for a slash: ``layers__conv="…"`` is layers/conv.py."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the sources of each test, whose names would be those of the next one's."""
    monkeypatch.setattr(sys, "argv", ["rank.py", "--job", "1"])
    yield
    for source in list(known_sources.values()):
        source.unload()


def load_refused(folder: Path) -> UserCodeError:
    with pytest.raises(UserCodeError) as caught:
        load_model(folder)
    return caught.value


def test_a_model_may_be_several_files_that_import_each_other_either_way(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model="from layers.dense import Dense\nfrom .sizes import WIDTH\nimport sizes\n"
        "import layers.dense as dense\nimport layers\nimport layers.dense\n"
        "assert sizes.WIDTH is WIDTH and layers.dense.Dense is dense.Dense is Dense\n"
        + MODEL.replace("torch.nn.Linear(4, 2)", "Dense(WIDTH)"),
        sizes="WIDTH = [4, 2]\n",
        layers__dense="import torch\nfrom ..sizes import WIDTH\nimport sizes\n"
        "assert WIDTH is sizes.WIDTH\n"
        "class Dense(torch.nn.Linear):\n"
        "    def __init__(self, sizes): super().__init__(*sizes)\n",
    )
    model = load_model(tmp_path)
    assert model(torch.zeros(3, 4)).shape == (3, 2)


def test_a_model_may_import_by_name_with_importlib(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model="import importlib\nWIDTH = importlib.import_module('sizes_by_name').WIDTH\n"
        + MODEL.replace("(4, 2)", "(4, WIDTH)"),
        sizes_by_name="WIDTH = 7\n",
    )
    assert load_model(tmp_path)(torch.zeros(1, 4)).shape == (1, 7)


def test_a_models_utils_and_a_loaders_utils_are_two(tmp_path: Path) -> None:
    model = write(
        tmp_path / "model",
        bks_model="import utils\n" + MODEL + "\nW = utils.W",
        utils="W = 'model'",
    )
    loader = write(
        tmp_path / "loader",
        bks_dataset="from utils import W\n" + LOADER.replace("index % 2", "W"),
        utils="W = 'loader'",
    )
    loaded_model = load_model(model)
    data = load_loader(loader).training(tmp_path)
    assert sys.modules[type(loaded_model).__module__].W == "model"
    assert data[0][1] == "loader"


def test_a_users_module_has_its_own_name_for_pickles_and_importlib(tmp_path: Path) -> None:
    """Also in a subfolder, also after loading, also for code that calls pickle."""
    write(
        tmp_path,
        bks_dataset="import importlib, pickle\nfrom words.kept import Words\n"
        + LOADER.replace("self.folder = folder", "self.words = pickle.loads(pickle.dumps(Words()))")
        + "        importlib.import_module('words.late')\n"
        + "        return self.words\n",
        words__kept="class Words: pass",
        words__late="",
    )
    dataset = load_loader(tmp_path).training(tmp_path)
    user_words = dataset.user_dataset.words
    assert type(user_words).__module__ == "words.kept"
    assert type(pickle.loads(b"cwords.kept\nWords\n.")()) is type(user_words)
    assert importlib.import_module("words.late") is sys.modules["words.late"]


def test_a_folder_that_user_code_puts_on_the_path_is_part_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    to_path = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__) + '/src')\n"
    for kind in ("model", "loader"):
        write(tmp_path / kind, src__shared_name=f"W = '{kind}'")
    write(tmp_path / "model", bks_model=f"{to_path}import shared_name\n{MODEL}")
    write(
        tmp_path / "loader",
        bks_dataset=f"{to_path}import shared_name\n{LOADER}".replace("index % 2", "shared_name.W"),
    )
    load_model(tmp_path / "model")
    assert load_loader(tmp_path / "loader").training(tmp_path)[0][1] == "loader"


def test_user_code_sees_no_arguments_but_its_own_file(tmp_path: Path) -> None:
    write(tmp_path, bks_model="import argparse\nargparse.ArgumentParser().parse_args()\n" + MODEL)
    load_model(tmp_path)
    assert sys.argv == [str(tmp_path / "bks_model.py")]


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from words import double
""" + LOADER.replace(
    "self.folder = folder",
    """with POOL as pool:
            assert list(pool.map(double, range(9))) == list(range(0, 18, 2))""",
)


def write_pool(folder: Path, pool: str) -> Path:
    """Load with a pool of processes, whose function imports a file named like Python's own."""
    return write(
        folder,
        bks_dataset=POOL.replace("POOL", pool),
        words="from tokenize import FACTOR\ndef double(n): return n * FACTOR\n",
        tokenize="FACTOR = 2\n",
    )


EXECUTOR = "ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('{}'))"


@pytest.mark.parametrize(
    "pool",
    [
        EXECUTOR.format("spawn"),
        pytest.param(EXECUTOR.format("forkserver"), marks=pytest.mark.slow),
        pytest.param("multiprocessing.get_context('spawn').Pool(1)", marks=pytest.mark.slow),
    ],
)
def test_a_pool_of_processes_in_a_loader_works_as_in_a_script(tmp_path: Path, pool: str) -> None:
    loader = write_pool(tmp_path / "loader", pool)
    (dataset := tmp_path / "dataset").mkdir()
    request = {"loader": str(loader), "dataset": str(dataset), "time_limit_s": LIMIT_S}
    (tmp_path / "request").write_text(json.dumps(request))
    command = [sys.executable, "-m", "backend.training.tools.preview", "request", "result", "far"]
    command[3:] = [str(tmp_path / name) for name in command[3:]]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as process:
        assert process.wait() == 0
    assert json.loads((tmp_path / "result").read_text())["ok"]


@pytest.mark.slow
def test_a_pool_of_processes_works_in_a_rank(tmp_path: Path) -> None:
    training = new_training(tmp_path, batch_size=2, epochs=1)
    # A process of the pool imports the main module, which must be that of a real rank.
    training.is_forked = False
    write_pool(training.sources / "loader", EXECUTOR.format("spawn"))
    training.train_well()


def test_an_import_inside_a_function_works_after_loading(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_dataset=LOADER.replace("return torch.full", "import late; return late.T, torch.full"),
        late="T = 'late'",
    )
    assert load_loader(tmp_path).training(tmp_path)[3][0] == "late"


def test_an_installed_package_never_sees_a_users_file_of_that_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model="import colorsys\nassert colorsys.MINE\nimport wave\n" + MODEL,
        colorsys="MINE = True",
    )
    load_model(tmp_path)
    import colorsys

    assert not hasattr(colorsys, "MINE")


def test_loading_leaves_the_users_folder_and_the_process_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, bks_model="import utils\n" + MODEL, utils="")
    path, files = [*sys.path, str(tmp_path)], sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    load_model(tmp_path)
    assert sys.path == path
    assert sorted(tmp_path.rglob("*")) == files
    assert sys.dont_write_bytecode is False


def test_code_under_main_does_not_run(tmp_path: Path) -> None:
    write(tmp_path, bks_model=MODEL + "\nif __name__ == '__main__':\n    raise RuntimeError\n")
    load_model(tmp_path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_loaders_classes_reach_the_workers_of_a_data_loader(tmp_path: Path, method: str) -> None:
    write(
        tmp_path,
        bks_dataset="from parts import Half\n" + LOADER.replace("index % 2", "Half(index).value"),
        parts="class Half:\n    def __init__(self, n): self.value = n / 2\n",
    )
    data = load_loader(tmp_path).training(tmp_path)
    loader = DataLoader(
        data,  # type: ignore[arg-type]  # DataLoader needs only len and item
        batch_size=5,
        num_workers=1,
        collate_fn=data.collate,
        multiprocessing_context=multiprocessing.get_context(method),
    )
    batches = [user_code.split_batch(batch) for batch in loader]
    assert [target.tolist() for _, target in batches] == [
        [0, 0.5, 1, 1.5, 2],
        [2.5, 3, 3.5, 4, 4.5],
    ]


def test_f50_an_item_that_raises_in_a_worker_is_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_dataset=LOADER.replace(
            "return torch", "if index == 7: raise ValueError('torn picture')\n        return torch"
        ),
    )
    data = load_loader(tmp_path).training(tmp_path)
    loader = DataLoader(data, batch_size=5, num_workers=1, collate_fn=data.collate)  # type: ignore[arg-type]  # DataLoader needs only len and item
    with pytest.raises(UserCodeError) as caught:
        list(map(user_code.split_batch, loader))
    assert caught.value.message == (
        "UserDataset, item 7, raised ValueError: torn picture (bks_dataset.py, line 12)."
    )
    assert caught.value.index == 7
    assert caught.value.traceback.splitlines()[1].strip().startswith(f'File "{tmp_path}')


def test_f50_items_of_unequal_shapes_are_named(tmp_path: Path) -> None:
    write(tmp_path, bks_dataset=LOADER.replace("(4,)", "(4 + index,)"))
    data = load_loader(tmp_path).training(tmp_path)
    with pytest.raises(UserCodeError, match=r"different shapes.*\[4\].*\[5\]"):
        user_code.split_batch(data.collate([data[0], data[1]]))


@pytest.mark.parametrize("missing_indices", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_items_that_are_none_are_named(tmp_path: Path, missing_indices: tuple[int, ...]) -> None:
    statement = "return torch.full"
    code = LOADER.replace(
        statement, f"if index in {missing_indices}: return None\n        {statement}"
    )
    write(tmp_path, bks_dataset=code)
    data = load_loader(tmp_path).training(tmp_path)
    with pytest.raises(
        UserCodeError, match=f"returned None for {len(missing_indices)} of the 3 items"
    ):
        user_code.split_batch(data.collate([data[0], data[1], data[2]]))


@pytest.mark.parametrize(
    ("error", "is_of_length"),
    [
        ("IndexError(f'index {index} is out of bounds for dimension 0 with size 5')", True),
        ("IndexError(f'no sample {index}')", True),
        ("IndexError('list index out of range')", False),
        ("IndexError('index 99 is out of bounds for axis 1 with size 10')", False),
        ("KeyError(index)", False),
        ("ValueError(f'item {index} is torn')", False),
    ],
)
def test_a_length_that_counts_items_that_do_not_exist_is_said(
    tmp_path: Path, error: str, is_of_length: bool
) -> None:
    code = LOADER.replace("return torch.full", f"raise {error}\n        return torch.full")
    write(tmp_path, bks_dataset=code)
    data = load_loader(tmp_path).training(tmp_path)
    with pytest.raises(UserCodeError) as caught:
        data.item(6)
    assert ("has no item 6, although its __len__ is" in caught.value.message) is is_of_length
    assert caught.value.index == 6


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("0", "has no items"),
        ("-3", "has no items"),
        ("2.5", "returns a float"),
        ("1 << 80", "which is too large"),
        ("1 / 0", "__len__ raised ZeroDivisionError"),
    ],
)
def test_f50_a_length_that_is_none(tmp_path: Path, length: str, message: str) -> None:
    write(tmp_path, bks_dataset=LOADER.replace("return 10", f"return {length}"))
    with pytest.raises(UserCodeError, match=message):
        len(load_loader(tmp_path).training(tmp_path))


def test_f49_no_bks_model(tmp_path: Path) -> None:
    assert (
        load_refused(tmp_path).message == "The model has no bks_model.py at the top of its files."
    )
    write(tmp_path, inside__bks_model=MODEL)
    assert "“inside”" in load_refused(tmp_path).remedy


def test_f49_no_user_model(tmp_path: Path) -> None:
    assert load_refused(write(tmp_path, bks_model="class Net: pass")).message == (
        "bks_model.py defines no UserModel."
    )


@pytest.mark.parametrize(
    "definition", ["class UserModel: pass", "UserModel = 3", "def UserModel(): 1"]
)
def test_f49_a_user_model_that_is_no_module(tmp_path: Path, definition: str) -> None:
    assert load_refused(write(tmp_path, bks_model=definition)).message == (
        "UserModel in bks_model.py is not a torch.nn.Module."
    )


def test_f49_no_loss(tmp_path: Path) -> None:
    write(tmp_path, bks_model=MODEL.replace("def loss", "def cost"))
    assert load_refused(tmp_path).message == "UserModel has no method loss."


def test_f49_a_syntax_error_is_shown_with_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, bks_model="from parts.net import Net\n" + MODEL, parts__net="x = 1\ny = = 2\n")
    assert load_refused(tmp_path).message == "parts/net.py, line 2: invalid syntax."


def test_f49_a_missing_module_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    error = load_refused(
        write(tmp_path, bks_model="import numpy\nimport biotite.structure\n" + MODEL)
    )
    assert error.message == "The model needs biotite (bks_model.py, line 2)."
    assert error.package == "biotite"
    assert error.remedy == f"Install it with {sys.executable} -m pip install biotite."
    error = load_refused(write(tmp_path, bks_model="from .helpers import x\n"))
    assert "the module “helpers”" in error.message
    assert error.package == ""


@pytest.mark.parametrize(
    ("module", "location", "message"),
    [
        ("PIL", "bks_dataset.py, line 3", "The loader needs Pillow (bks_dataset.py, line 3)."),
        ("PIL.Image", "bks_model.py, line 1", "The model needs Pillow (bks_model.py, line 1)."),
        (
            "cv2",
            "parts/io.py, line 9",
            "The code needs opencv-python-headless (parts/io.py, line 9).",
        ),
        (
            "sklearn.svm",
            "bks_dataset.py, line 2",
            "The loader needs scikit-learn (bks_dataset.py, line 2).",
        ),
        ("yaml", "", "The code needs pyyaml."),
        ("h5py", "a/bks_dataset.py, line 7", "The loader needs h5py (a/bks_dataset.py, line 7)."),
    ],
)
def test_a_missing_package_is_named_as_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, module: str, location: str, message: str
) -> None:
    monkeypatch.setattr(errors, "_location_of", lambda *_: location)
    error = errors.explain(ModuleNotFoundError(f"No module named '{module}'", name=module), "It")
    assert error.message == message
    assert error.package
    assert error.remedy.endswith(f"-m pip install {error.package}.")


@pytest.mark.parametrize("name", ["utils", "src", "config", "models", "helpers"])
def test_f49_a_part_of_the_users_project_is_never_said_to_be_a_package(
    tmp_path: Path, name: str
) -> None:
    error = load_refused(write(tmp_path, bks_model=f"from {name}.layers import Block\n"))
    assert "pip install" not in error.remedy
    assert (error.package, error.module) == ("", name), "the user knows whether it is one"
    assert f"“{name}” is a file or folder of your project, import the folder that" in error.remedy
    write(tmp_path, net__parts__bks_model="", **{f"net__parts__{name}__layers": ""})
    assert load_refused(tmp_path).remedy == "It is in net/parts: import it from net.parts."


def test_f49_an_import_that_leads_out_of_the_files(tmp_path: Path) -> None:
    error = load_refused(write(tmp_path, bks_model="from ..common import x\n"))
    assert error.remedy.startswith(
        "The import goes beyond the imported files. Import the folder above"
    )


@pytest.mark.parametrize(
    ("model", "loader", "remedy"),
    [
        (MODEL.replace("self, data)", "self, left, right)"), LOADER, "def forward(self, data)"),
        (MODEL.replace("self, output, target)", "self, output)"), LOADER, "def loss(self, output,"),
        (MODEL, LOADER.replace("self, folder)", "self, folder, size)"), "the dataset's folder"),
        (MODEL.replace("__init__(self)", "__init__(self, width)"), LOADER, "without arguments"),
        (MODEL, LOADER.replace("(self, index)", "(self)"), "def __getitem__(self, index)"),
        (MODEL, LOADER.replace("index % 2", "float(index % 2)"), ".long()"),
        (MODEL, LOADER.replace("float(index))", "index)"), ".float()"),
    ],
    ids=["forward", "loss", "loader", "model", "item", "target", "data"],
)
def test_f49_a_wrong_signature_or_type_is_shown_with_the_right_one(
    tmp_path: Path, model: str, loader: str, remedy: str
) -> None:
    write(tmp_path, bks_model=model, bks_dataset=loader)
    request = {"model": tmp_path, "loader": tmp_path, "dataset": tmp_path}
    with pytest.raises(UserCodeError) as caught:
        check_model(request, lambda *_: None)  # type: ignore[arg-type]  # reports nothing
    assert remedy in caught.value.remedy


def test_f49_an_error_inside_the_users_function_is_no_wrong_signature(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model=MODEL.replace("self.layer(data)", "self.layer.forward()"),
        bks_dataset=LOADER,
    )
    with pytest.raises(UserCodeError, match=r"missing 1 required.*line 10") as caught:
        user_code.compute_output(load_model(tmp_path), torch.zeros(2, 4))
    assert caught.value.remedy == ""


def test_f49_a_name_that_cannot_be_imported(tmp_path: Path) -> None:
    error = load_refused(write(tmp_path, bks_model="from parts import Absent\n", parts=""))
    assert "cannot import name 'Absent' from 'parts'" in error.message
    assert "_ringmaster" not in error.message


def test_f49_sys_exit_at_import(tmp_path: Path) -> None:
    error = load_refused(write(tmp_path, bks_model="import sys\nsys.exit(3)\n"))
    assert error.message == "bks_model.py, while it was imported, exited the program (sys.exit(3))."


def test_f49_an_exception_in_init(tmp_path: Path) -> None:
    write(tmp_path, bks_model=MODEL.replace("super().__init__()", "raise KeyError('width')"))
    error = load_refused(tmp_path)
    assert error.message == "UserModel() raised KeyError: 'width' (bks_model.py, line 6)."
    assert "user_code.py" not in error.traceback


def test_a_broken_model_can_be_fixed_and_loaded_in_the_same_process(tmp_path: Path) -> None:
    write(tmp_path, bks_model="import parts\n" + MODEL, parts="1 / 0")
    load_refused(tmp_path)
    write(tmp_path, parts="")
    load_model(tmp_path)


def test_running_out_of_memory_is_not_shown_as_the_users_bug(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model=MODEL.replace("return self.layer(data)", "return torch.empty(1 << 50)"),
    )
    model = load_model(tmp_path)
    with pytest.raises(RuntimeError, match="allocate"):
        user_code.compute_output(model, torch.zeros(1, 4))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("output.sum().item()", "returns a float, not a tensor"),
        ("output", r"returns \(3, 2\) numbers"),
        ("output.detach().sum()", "does not depend on any parameter"),
        ("output.nothing", "loss raised AttributeError"),
    ],
)
def test_a_loss_that_cannot_be_trained_on(tmp_path: Path, loss: str, message: str) -> None:
    write(tmp_path, bks_model=MODEL.split("return torch.nn.functional")[0] + f"return {loss}\n")
    model = load_model(tmp_path)
    with pytest.raises(UserCodeError, match=message):
        user_code.compute_loss(model, model(torch.zeros(3, 4)), None)


def test_metrics_may_be_floats_or_tensors_and_nothing_else(tmp_path: Path) -> None:
    metrics = "\n    def metrics(self, output, target):\n        return {}\n"
    entries = "{'a': output.mean(), 'b': output.sum().item(), 'c': 1, 'd': output.new_ones(1)}"
    model = load_model(write(tmp_path, bks_model=MODEL + metrics.replace("{}", entries)))
    values = user_code.compute_metrics(model, torch.ones(2, 2), None)
    assert values == {"a": 1.0, "b": 4.0, "c": 1.0, "d": 1.0}
    assert all(type(value) is float for value in values.values())
    model = load_model(write(tmp_path, bks_model=MODEL + metrics.replace("{}", "{'a': output}")))
    with pytest.raises(UserCodeError, match="“a” is a Tensor, not one number"):
        user_code.compute_metrics(model, torch.ones(2, 2), None)


def test_a_batch_is_a_pair() -> None:
    assert user_code.split_batch([1, 2]) == (1, 2)
    with pytest.raises(UserCodeError, match="batches of 3 parts"):
        user_code.split_batch((1, 2, 3))
    with pytest.raises(UserCodeError, match="batches of a Tensor"):
        user_code.split_batch(torch.zeros(2))


def test_nested_batches_move_whole() -> None:
    batch = {"a": [torch.zeros(2), (torch.zeros(3), "text")], "b": 1}
    moved_batch = user_code.to_device(batch, "meta")
    assert moved_batch["a"][0].device.type == moved_batch["a"][1][0].device.type == "meta"
    assert (moved_batch["a"][1][1], moved_batch["b"]) == ("text", 1)
    assert user_code.batch_size(batch) == 2


def test_a_keras_3_model_is_a_model(tmp_path: Path) -> None:
    write(
        tmp_path,
        bks_model="""
import keras

class UserModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, data):
        return self.dense(data)

    def loss(self, output, target):
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(
            target, output, from_logits=True))
""",
    )
    model = load_model(tmp_path)
    assert user_code.needs_first_batch(model)
    data, target = torch.randn(3, 4), torch.tensor([0, 1, 0])
    user_code.materialize(model, data)
    assert not user_code.needs_first_batch(model)
    assert sum(p.numel() for p in model.parameters()) == 10
    user_code.compute_loss(model, user_code.compute_output(model, data), target).backward()
    assert user_code.compute_metrics(model, None, None) == {}


def test_the_loaders_own_validation_is_used_unless_the_job_names_another(tmp_path: Path) -> None:
    plain_loader = write(tmp_path / "plain", bks_dataset=LOADER)
    full_loader = write(
        tmp_path / "both",
        bks_dataset=LOADER
        + "\nclass UserValDataset(UserDataset):\n    def __len__(self): return 3\n",
    )
    a, b = tmp_path / "a", tmp_path / "b"
    assert user_code.open_data(plain_loader, a)[1] is None
    data_pairs = [
        user_code.open_data(full_loader, a),
        user_code.open_data(plain_loader, a, None, b),
        user_code.open_data(plain_loader, a, full_loader),
        user_code.open_data(full_loader, a, plain_loader, b),
    ]
    validation_sets = [(v.class_name, Path(v.user_dataset.folder).name) for _, v in data_pairs if v]
    assert validation_sets == [
        ("UserValDataset", "a"),
        ("UserDataset", "b"),
        ("UserValDataset", "a"),
        ("UserDataset", "b"),
    ]


def test_a_loader_may_fetch_its_own_data_into_an_empty_dataset(tmp_path: Path) -> None:
    source = write(
        tmp_path / "loader",
        bks_dataset="import os\n"
        + LOADER.replace(
            "self.folder = folder",
            "path = os.path.join(folder, 'fetched.txt')\n"
            "        if not os.path.exists(path): open(path, 'w').close()",
        ),
    )
    files = tmp_path / "files"
    files.mkdir()
    assert len(load_loader(source).training(files)) == 10
    assert (files / "fetched.txt").exists()


LAZY_PARTS = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.lazy = nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyLinear(3))
        self.known = nn.BatchNorm1d(3)
        self.steps, self.register = 0, self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        x = self.known(self.layer(x))
        self.steps += self.training
        self.seen += 1
        return FORWARD
    def loss(self, output, target):
        return nn.functional.cross_entropy(LOSS, target)
"""
LAZY = {
    "in evaluation": ("self.lazy(x)", "output"),
    "in training only": ("x + self.lazy(x) if self.training else x", "output"),
    "every second step": ("self.lazy(x) if self.training and self.steps % 2 == 0 else x", "output"),
    "an auxiliary head": ("(x, self.lazy(x)) if self.training else (x, x)", "sum(output)"),
    "in the loss": ("x", "self.lazy(output)"),
    "in the loss of training": ("x", "self.lazy(output) if self.training else output"),
}


@pytest.mark.parametrize("kind", LAZY)
def test_a_part_that_only_training_uses_gets_its_shape_and_nothing_else_changes(
    tmp_path: Path, kind: str
) -> None:
    forward, loss = LAZY[kind]
    text = LAZY_PARTS.replace("FORWARD", forward).replace("LOSS", loss)
    model: Any = load_model(write(tmp_path, bks_model=text))
    data, target = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
    random_numbers = torch.get_rng_state()
    user_code.materialize(model, data, target)
    user_code.require_shapes(model)
    assert torch.equal(torch.get_rng_state(), random_numbers)
    assert not user_code.needs_first_batch(model)
    assert model.training
    assert (model.steps, model.seen.item()) == (0, 0)
    for norm in (model.known, model.lazy[0]):
        assert not norm.running_mean.any()
        assert norm.num_batches_tracked == 0
    user_code.compute_loss(model, user_code.compute_output(model, data), target).backward()


def test_a_part_of_unknown_shape_is_named(tmp_path: Path) -> None:
    text = LAZY_PARTS.replace("FORWARD", "x if self.steps < 100 else self.lazy(x)")
    model = load_model(write(tmp_path, bks_model=text.replace("LOSS", "output")))
    user_code.materialize(model, torch.randn(8, 4), torch.zeros(8, dtype=torch.long))
    with pytest.raises(
        user_code.UserCodeError, match=r"lazy\.0\.weight.*and \d more|lazy\.1\.weight"
    ):
        user_code.require_shapes(model)
