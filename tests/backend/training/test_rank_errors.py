"""Record of a failed rank: one message with the reason, and which failure came first."""

from __future__ import annotations

import ctypes
import operator
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest

from backend.records.jobs.status import RankError
from backend.training import rank, user_code
from backend.training.error_report import make_record
from backend.training.strategies.channel import _convert_errors
from backend.training.train_state import Batch
from tests.backend.training.training_rig import LOADER, MODEL, new_training

SINGLE_PROCESS: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}}


@pytest.mark.parametrize("strategy", ["allreduce", "ddp"])
def test_f12_an_exception_in_one_rank_names_rank_and_cause(tmp_path: Path, strategy: str) -> None:
    model = MODEL.replace(
        "return self.layers(x)",
        "import os\n"
        "        if os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n"
        "            raise ValueError('no luck')\n"
        "        return self.layers(x)",
    )
    training = new_training(tmp_path, model=model, strategy={"name": strategy})
    assert training.train() != 0
    raw = training.error(1)
    error = RankError.from_dict(raw)
    assert error.rank == 1
    assert error.node == "here"
    assert "ValueError: no luck" in error.message
    assert "bks_model.py, line 1" in error.message
    assert "no luck" in error.traceback
    assert raw["secondary"] is False
    path = training.folder.attempt(1).rank_error(0)
    assert not path.exists() or training.error(0)["secondary"] is True


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        ("model", "return self.layers(x).nothing", "has no attribute 'nothing'"),
        ("model", "import sys; sys.exit(0)", "sys.exit(0)"),
        ("model", "return self.layers(x[:, :3])", "The batch was ([8, 4] float32, [8] int64)"),
        ("loss", "return output", "numbers, but must return one"),
        ("loss", "return target['mask'].sum()", "The batch was"),
        ("loss", "return {}['mask']", "KeyError: 'mask'"),
        ("loader", "raise OSError('bad file')", "item"),
        ("loader", "import sys; sys.exit(3)", "sys.exit(3)"),
        ("loader", "return torch.zeros(index % 2 + 1), 0", "different shapes"),
    ],
)
def test_f13_user_code_that_fails_is_explained(
    tmp_path: Path, method: str, code: str, text: str
) -> None:
    old = {
        "model": "return self.layers(x)",
        "loss": "return nn.functional.cross_entropy(output, target)",
        "loader": "return self.x[index], self.y[index]",
    }[method]
    training = new_training(
        tmp_path,
        model=MODEL.replace(old, code) if method != "loader" else MODEL,
        loader=LOADER.replace(old, code) if method == "loader" else LOADER,
        **SINGLE_PROCESS,
    )
    assert training.train() == 1
    assert text in training.error()["sentence"]
    assert "\n" not in training.error()["sentence"]


def test_f50_an_error_in_a_loader_worker_names_the_item(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "if index == 50: raise OSError('bad file')\n        return self.x[index], self.y[index]",
    )
    training = new_training(tmp_path, loader=loader, loader_workers=2, **SINGLE_PROCESS)
    assert training.train() == 1
    assert "item 50," in training.error()["sentence"]
    assert "bad file" in training.error()["sentence"]


def handler() -> None:
    raise RuntimeError("DataLoader worker (pid 17) is killed by signal: Segmentation fault.")


def out_of_shared_memory() -> None:
    raise RuntimeError("DataLoader worker (pid 17) is killed by signal: Bus error.")


def users_handler() -> None:
    raise RuntimeError("the user's handler of SIGUSR1")


def through_horovod(failure: Callable[[], None] | str) -> None:
    """Fail as ``horovod.torch.mpi_ops.synchronize`` does."""
    import horovod.torch.mpi_ops as ops

    code = compile(
        "def wait(raised, error):\n"
        "    try:\n"
        "        if callable(raised): raised()\n"
        "        raise RuntimeError(raised)\n"
        "    except RuntimeError as e:\n"
        "        raise error(e)\n",
        str(ops.__file__),
        "exec",
    )
    space: dict[str, Any] = {}
    exec(code, space)
    space["wait"](failure, ops.HorovodInternalError)


def through_gloo(failure: Callable[[], None] | str) -> None:
    with _convert_errors():
        if isinstance(failure, str):
            raise RuntimeError(failure)
        failure()


def through_user_code(failure: Callable[[], None] | str) -> None:
    with user_code.calling("The model's forward"):
        assert callable(failure)
        failure()


SHUT_DOWN = "Horovod has been shut down. This was caused by an exception on one of the ranks."


@pytest.mark.parametrize(
    ("call", "failure", "text", "is_echo"),
    [
        (through_horovod, SHUT_DOWN, "Another rank ended", True),
        (through_gloo, "[gloo/transport/tcp/pair.cc] Connection closed", "Another rank", True),
        (through_horovod, handler, "killed by signal: Segmentation fault", False),
        (through_horovod, out_of_shared_memory, "killed by signal: Bus error", False),
        (through_horovod, users_handler, "the user's handler", False),
        (through_horovod, "std::bad_alloc", "The node is out of memory. Try batch size 4", False),
        (through_horovod, "CUDA error: out of memory", "Out of GPU memory", False),
        (through_gloo, handler, "killed by signal: Segmentation fault", False),
        (through_gloo, users_handler, "the user's handler", False),
        (through_user_code, handler, "RuntimeError: DataLoader worker (pid 17)", False),
        (through_user_code, users_handler, "The model's forward raised", False),
    ],
)
def test_an_exception_during_a_wait_is_not_blamed_on_another_rank(
    call: Callable[[Any], None], failure: Any, text: str, is_echo: bool
) -> None:
    with pytest.raises(Exception) as failed:  # noqa: PT011 - each is of another kind
        call(failure)
    batch = Batch(stage="backward")
    record = make_record(failed.value, rank=1, node="gpu1", batch=batch, batch_size=8)
    assert text in record["sentence"]
    assert record["secondary"] is is_echo
    assert "backward" not in record["sentence"] or failure is users_handler


@pytest.mark.parametrize("strategy", ["allreduce", "ddp"])
def test_a_loader_worker_that_is_killed_while_its_rank_waits_for_others_is_named(
    tmp_path: Path, strategy: str
) -> None:
    files = tmp_path / "moments"
    files.mkdir()
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "import os, pathlib, signal, time, torch.utils.data\n"
        f"        files = pathlib.Path({str(files)!r})\n"
        "        worker = torch.utils.data.get_worker_info()\n"
        "        self.items = getattr(self, 'items', 0) + 1\n"
        "        is_one = os.environ['OMPI_COMM_WORLD_RANK'] == '1'\n"
        "        if worker is not None and is_one and self.items == 25:\n"
        "            while not (files / 'computed').exists():\n"
        "                time.sleep(0.01)\n"
        "            (files / 'ends').touch()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return self.x[index], self.y[index]",
    )
    model = MODEL.replace(
        "return nn.functional.cross_entropy(output, target)",
        "import os, pathlib, time\n"
        f"        files = pathlib.Path({str(files)!r})\n"
        "        rank = os.environ['OMPI_COMM_WORLD_RANK']\n"
        "        self.steps = getattr(self, 'steps', 0) + self.training\n"
        "        if self.steps == 2 and rank == '1':\n"
        "            self.layers[0].weight.register_post_accumulate_grad_hook(\n"
        "                lambda _: (files / 'computed').touch())\n"
        "        while self.steps == 2 and rank == '0' and not (files / 'ends').exists():\n"
        "            time.sleep(0.01)\n"
        "        return nn.functional.cross_entropy(output, target)",
    )
    training = new_training(
        tmp_path, model=model, loader=loader, loader_workers=1, strategy={"name": strategy}
    )
    assert training.train() != 0
    message = training.error(1)["sentence"]
    # The signal may come when the rank takes the next batch from the worker.
    assert "is killed by signal: Killed" in message or "A loader worker ended" in message
    assert training.error(1)["secondary"] is False


def fail_with_a_signal(kind: type[BaseException]) -> None:
    """Raise in C, with a signal that Python has not handled yet."""
    signal.signal(signal.SIGCHLD, lambda *_: handler())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    signal.pthread_kill(threading.get_ident(), signal.SIGCHLD)
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGCHLD - 1))
    unblock: Any = ctypes.CDLL(None).pthread_sigmask
    unblock.restype = {TypeError: operator.itemgetter(0), AttributeError: operator.attrgetter("x")}[
        kind
    ]
    unblock(signal.SIG_UNBLOCK, mask, None)


@pytest.mark.parametrize("kind", [TypeError, AttributeError])
def test_a_signal_that_comes_with_the_error_does_not_cost_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    recorded: list[BaseException] = []

    def leave(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(rank, "_leave", leave)
    monkeypatch.setattr(rank.RankHeartbeat, "inherited", MagicMock)
    monkeypatch.setattr(rank.Rank, "train", lambda _: fail_with_a_signal(kind))
    monkeypatch.setattr(rank.Rank, "record_error", lambda _, error: recorded.append(error))
    previous_handler = signal.getsignal(signal.SIGCHLD)
    try:
        with pytest.raises(SystemExit):
            rank.main(["--job", str(tmp_path), "--run", "1"])
    finally:
        signal.signal(signal.SIGCHLD, previous_handler)
    (error,) = recorded
    assert "DataLoader worker (pid 17) is killed" in str(error)
    assert isinstance(error.__context__, kind)


def test_f19_a_full_memory_names_the_batch_size_to_try(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "import resource\n"
        "        used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)\n"
        "        torch.zeros(2**30)\n",
    )
    training = new_training(tmp_path, loader=loader, **SINGLE_PROCESS)
    assert training.train() == 1
    assert (
        training.error()["sentence"]
        == "The node is out of memory in the validation. Try batch size 4 instead of 8."
    )


def test_a_dataset_smaller_than_one_step_is_refused_with_the_batch_that_fits(
    tmp_path: Path,
) -> None:
    training = new_training(tmp_path, batch_size=200, **SINGLE_PROCESS)
    assert training.train() == 1
    assert "The dataset has 96 samples" in training.error()["sentence"]
    assert "Choose a batch size of 96 or less" in training.error()["sentence"]


def test_a_launcher_that_does_not_fit_the_library_is_named(tmp_path: Path) -> None:
    training = new_training(tmp_path)
    training.prepare()
    training.config = new_training(tmp_path, name="other", **SINGLE_PROCESS).config
    process = training.start()
    assert process.wait() == 1
    assert "This rank sees 1 process, but the job has 2" in training.error()["sentence"]


@pytest.mark.parametrize(
    ("error", "in_validation", "in_training"),
    [
        (
            user_code.UserCodeError("The model's forward raised ValueError: no.", "Fix it."),
            "In the validation: The model's forward raised ValueError: no. Fix it.",
            "The model's forward raised ValueError: no. Fix it.",
        ),
        (
            MemoryError(),
            "The node is out of memory in the validation. Try batch size 4 instead of 8.",
            "The node is out of memory. Try batch size 4 instead of 8.",
        ),
        (
            ValueError("no"),
            "ValueError: no, in the validation.",
            "ValueError: no, in the model's step.",
        ),
        (ConnectionError("reset"), "in the validation", "in the model's step"),
    ],
)
def test_an_error_in_the_validation_says_that_it_was_there(
    error: BaseException, in_validation: str, in_training: str
) -> None:
    for stage, message in (("validation", in_validation), ("forward", in_training)):
        record = make_record(error, rank=0, node="n", batch=Batch(stage=stage), batch_size=8)
        assert message in record["sentence"]


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (
            {"model": MODEL.replace("return self.layers(x)", "assert self.training, 'no'")},
            "In the validation: The model's forward",
        ),
        (
            {"loader": f"{LOADER}    def __getitem__(self, index):\n        raise OSError\n"},
            "In the validation: ",
        ),
    ],
    ids=["model", "loader"],
)
def test_the_validation_is_named_where_user_code_fails_only_in_it(
    tmp_path: Path, changes: dict[str, str], start: str
) -> None:
    model = changes.get("model", MODEL).replace("'no'", "'no'\n        return self.layers(x)")
    training = new_training(
        tmp_path, model=model, loader=changes.get("loader", LOADER), **SINGLE_PROCESS
    )
    assert training.train() == 1
    assert training.error()["sentence"].startswith(start), training.error()["sentence"]
