"""Tools as the desktop runs them: real processes, and users' code at its worst."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from backend.services.tools.warm_process import WarmProcess
from tests.fakes.shared_tools import start_tools_alone
from tests.waiting import LIMIT_S

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
ANCESTOR = Path(__file__).parents[3] / "data/ancestor"

GOOD = """
import torch

class UserModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, data):
        return self.layer(data.flatten(1))

    def loss(self, output, target):
        return torch.nn.functional.cross_entropy(output, target)
"""

# A child in a session of its own, without the tag in its environment, whose parent is gone.
HIDDEN_CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "-c",
    "import subprocess, sys; child = subprocess.Popen("
    "['sleep', '600'], start_new_session=True, env={'PATH': '/usr/bin:/bin'});"
    "open(sys.argv[1], 'w').write(str(child.pid))", MARK])
"""


@pytest.fixture(autouse=True)
def no_process_and_no_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """After every test: what the tool started is gone, and so is its temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tool_process.tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
    assert [pid for pid in _pids() if str(folder) in _command(pid)] == []


@pytest.fixture
def alone() -> Iterator[None]:
    """No tool is forked: each starts a Python of its own, as without a window."""
    with start_tools_alone():
        yield


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def process_ends(pid: int) -> bool:
    """Whether a process is gone, or goes soon."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        # It becomes readable as the process ends.
        return bool(select.select([handle], [], [], LIMIT_S)[0])
    finally:
        os.close(handle)


def model(folder: Path, text: str) -> Path:
    source = folder / "model"
    source.mkdir(exist_ok=True)
    (source / "bks_model.py").write_text(text)
    return source


def refusal(
    source: Path, time_limit_s: float = LIMIT_S, progress: Progress | None = None
) -> ToolError:
    with pytest.raises(ToolError) as caught:
        tool_process.check_model(
            source,
            GALLERY / "loader",
            GALLERY / "dataset",
            time_limit_s=time_limit_s,
            progress=progress,
        )
    return caught.value


@pytest.mark.usefixtures("alone")
def test_the_digits_model_passes_with_its_layers_and_one_step() -> None:
    check = tool_process.check_model(GALLERY / "model", GALLERY / "loader", GALLERY / "dataset")
    assert check.parameters == check.trainable_parameters == 29066
    assert check.parameter_bytes == 4 * 29066
    assert sum(layer.parameters for layer in check.layers) == 29066
    assert check.layers[0].output == "[4, 32, 8, 8] float32"
    assert check.loss is not None
    assert 1 < check.loss < 5
    assert set(check.metrics or {}) == {"accuracy"}
    assert check.warnings == ()


@pytest.mark.slow
def test_a_model_without_a_loader_is_built_and_the_check_says_that_no_more_was_tried() -> None:
    check = tool_process.check_model(GALLERY / "model")
    assert (check.parameters, check.loss, check.was_tried) == (29066, None, False)
    assert check.warnings == ("No loader was given, so no step was made.",)


@pytest.mark.slow
def test_a_model_and_loader_of_the_ancestor_run_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(
        "".join(f"{n % 3} {'0.5 ' * (n % 6 + 1)}\n" for n in range(50))
    )
    check = tool_process.check_model(ANCESTOR / "model", ANCESTOR / "loader", tmp_path)
    assert set(check.metrics or {}) == {"accuracy", "hits"}
    assert check.batch == "({features: [4, 6] float32, mask: [4, 6] float32}, [4] int64)"
    sizes = tool_process.count_samples(ANCESTOR / "loader", tmp_path)
    assert (sizes.training, sizes.validation) == (40, 10)


@pytest.mark.slow
def test_parameters_without_a_gradient_are_named(tmp_path: Path) -> None:
    text = GOOD.replace("10)", "10); self.idle = torch.nn.Linear(2, 2)")
    check = tool_process.check_model(model(tmp_path, text), GALLERY / "loader", GALLERY / "dataset")
    assert "2 parameters got no gradient (idle.weight, idle.bias)" in check.warnings[0]


@pytest.mark.slow
def test_f59_an_exception_of_a_model_cannot_control_a_terminal(tmp_path: Path) -> None:
    error = refusal(model(tmp_path, r"raise ValueError('\x1b[2J cleared')"))
    assert "\x1b" not in error.message + error.traceback


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "import sys; sys.exit(0)",
            "bks_model.py, while it was imported, exited the program",
            marks=pytest.mark.slow,
        ),
        pytest.param("x = = 1", "bks_model.py, line 1: invalid syntax.", marks=pytest.mark.slow),
        (GOOD.replace("64", "63"), "The model's forward raised RuntimeError: mat1 and mat2"),
        pytest.param(
            GOOD.replace("def loss", "def cost"),
            "UserModel has no method loss.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_f49_a_model_that_cannot_be_used_is_refused_in_words(
    tmp_path: Path, text: str, message: str
) -> None:
    assert refusal(model(tmp_path, text)).message.startswith(message)


IMPORTING = "Importing and building the model"


class WhenWritten(Progress):
    """Does something at the first report of the import at which something stands in ``mark``."""

    def __init__(self, mark: Path, act: Callable[[WhenWritten], object]) -> None:
        super().__init__()
        self._mark, self._act = mark, act
        self.labels: list[str] = []

    def report(self, done: float, total: float, label: str) -> None:
        self.labels.append(label)
        # What is reported may be older than the file, which is empty at first.
        if label == f"{IMPORTING}…" and self._mark.exists() and self._mark.read_text():
            self._act(self)


@pytest.mark.usefixtures("alone")
def test_f18_f49_an_infinite_import_ends_at_the_limit_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "pid"
    text = HIDDEN_CHILD.replace("MARK", repr(str(mark))) + "while True: pass"
    now = tool_process.time.monotonic

    def pass_the_limit(_: object) -> None:
        monkeypatch.setattr(tool_process.time, "monotonic", lambda: now() + 700)

    error = refusal(
        model(tmp_path, text), time_limit_s=600, progress=WhenWritten(mark, pass_the_limit)
    )
    assert error.message == (
        f"The check of the model did not end within 600 s; last step: {IMPORTING}."
    )
    assert process_ends(int(mark.read_text()))


@pytest.mark.slow
def test_f49_the_error_shows_the_line_of_an_infinite_import(tmp_path: Path) -> None:
    error = refusal(model(tmp_path, "while True: pass"), time_limit_s=30)
    assert 'bks_model.py", line 1 in <module>' in error.output


def test_f49_f59_endless_output_is_cut_and_cannot_control_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import sys\nfor n in range(16): sys.stdout.write('x' * (1 << 20))\n" + GOOD
    sizes: list[int] = []
    result = tool_process._ToolRun.result

    def count(run: tool_process._ToolRun, read: Any) -> Any:
        sizes.append(len(run._output_tail))
        return result(run, read)

    monkeypatch.setattr(tool_process._ToolRun, "result", count)
    text += "\n" + r"print('\x1b[31mred\x1b[0m\x1b]0;title\x07 10%\r20%\x00')"
    check = tool_process.check_model(model(tmp_path, text))
    assert sizes[0] < 1 << 20
    assert len(check.output) <= 4000
    assert check.output == "20%\n", "as a terminal shows it"


@pytest.mark.usefixtures("alone")
def test_f14_f49_a_model_that_ends_python_by_itself(tmp_path: Path) -> None:
    error = refusal(model(tmp_path, "import os; os._exit(7)"))
    assert error.message == (f"The check of the model exited with code 7; last step: {IMPORTING}.")


@pytest.mark.usefixtures("alone")
def test_f15_a_model_that_crashes_python(tmp_path: Path) -> None:
    error = refusal(model(tmp_path, "import ctypes; ctypes.string_at(0)"))
    assert error.message.startswith("The check of the model crashed Python (SIGSEGV)")
    assert "bks_model.py" in error.output


@pytest.mark.slow
def test_f19_a_model_too_large_for_the_memory(tmp_path: Path) -> None:
    text = GOOD.replace(
        "self.layer", "self.huge = torch.nn.Linear(1 << 25, 1 << 25); self.layer", 1
    )
    error = refusal(model(tmp_path, text))
    assert error.message == "This computer has too little memory for it."


@pytest.mark.slow
def test_a_model_that_closes_its_output_is_checked_all_the_same(tmp_path: Path) -> None:
    text = "import os, sys\nsys.stdout.close(); os.close(1); os.close(2)\n" + GOOD
    assert tool_process.check_model(model(tmp_path, text)).parameters == 650


@pytest.mark.slow
def test_a_model_that_reads_standard_input_gets_none(tmp_path: Path) -> None:
    error = refusal(model(tmp_path, "input('which size? ')"))
    assert "EOFError" in error.message


@pytest.mark.slow
def test_f18_children_in_sessions_of_their_own_are_gone_after_the_check(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = HIDDEN_CHILD.replace("MARK", repr(str(mark))) + GOOD
    tool_process.check_model(model(tmp_path, text))
    assert process_ends(int(mark.read_text()))


def test_cancelling_ends_the_tool_with_everything_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = HIDDEN_CHILD.replace("MARK", repr(str(mark))) + "while True: pass"
    progress = WhenWritten(mark, Progress.cancel)
    with pytest.raises(Cancelled):
        tool_process.check_model(model(tmp_path, text), progress=progress)
    assert process_ends(int(mark.read_text()))
    assert progress.labels[-1] == f"{IMPORTING}…"


@pytest.mark.usefixtures("alone")
def test_a_tool_does_not_see_the_users_pythonpath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("logging", "json", "torch", "typing", "sitecustomize", "abc"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('shadowed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    (tmp_path / "source").mkdir()
    assert "here" in str(refusal(model(tmp_path / "source", "raise ValueError('here')")))


def test_the_pid_of_an_ended_tool_may_belong_to_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "600"]) as other_process:
        identity = process_identity.process(other_process.pid)
        monkeypatch.setattr(process_cleanup, "descendants", lambda _pid: (identity,))
        tool_process.check_model(model(tmp_path, GOOD))
        assert other_process.poll() is None
        other_process.kill()


@pytest.mark.parametrize("is_warm", [False, True])
def test_f06_a_tool_ends_when_the_desktop_is_killed(tmp_path: Path, is_warm: bool) -> None:
    mark = tmp_path / "pid"
    os.mkfifo(mark)
    source = model(tmp_path, HIDDEN_CHILD.replace("MARK", repr(str(mark))) + "while True: pass")
    program = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[2]\n"
        "from pathlib import Path\n"
        "from backend.services.tools import tool_process\n"
        f"{is_warm} and tool_process.start_warm_process()\n"
        "tool_process.check_model(Path(sys.argv[1]))\n"
    )
    folder = tmp_path / "killed"
    folder.mkdir()
    desktop = subprocess.Popen(
        [sys.executable, "-c", program, str(source), str(folder)], cwd=CODE_ROOT
    )
    child = int(mark.read_text())  # waits for who writes into the pipe
    tools = [process.pid for process in process_cleanup.descendants(desktop.pid)]
    assert len(tools) >= 1 + is_warm
    desktop.send_signal(signal.SIGKILL)
    desktop.wait()
    assert all(map(process_ends, [*tools, child]))


@pytest.mark.slow
def test_f58_the_desktop_loads_neither_torch_nor_the_users_code() -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from backend.services.tools.tool_process import check_model\n"
        f"check_model(Path({str(GALLERY / 'model')!r}))\n"
        "assert not {'torch', 'numpy', 'bks_model'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=CODE_ROOT, check=True)


@pytest.mark.usefixtures("alone")
def test_a_forged_result_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import os\n"
        "result = open('/proc/self/cmdline').read().split('\\0')[-3]\n"
        'open(result, "w").write(\'{"ok": true, "result": {"parameters": "many"}}\')\n'
        "os._exit(0)\n"
    )
    error = refusal(model(tmp_path, text))
    assert error.message.startswith("The check of the model returned an unusable result")


def test_the_preview_comes_back_as_a_record() -> None:
    preview = tool_process.preview(GALLERY / "loader", GALLERY / "dataset", samples=2)
    assert (preview.count, len(preview.samples), len(preview.classes)) == (1438, 2, 10)


def test_an_error_of_the_world_is_a_backend_error(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="The loader has no"):
        tool_process.count_samples(tmp_path, tmp_path)


KERAS = """
import keras

class UserModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.flat = keras.layers.Flatten()
        self.dense = keras.layers.Dense(10)

    def call(self, data):
        return self.dense(self.flat(data))

    def loss(self, output, target):
        return keras.ops.mean(
            keras.losses.sparse_categorical_crossentropy(target, output, from_logits=True))
"""


@pytest.mark.slow
def test_a_keras_model_is_checked_with_the_parameters_of_its_first_batch(tmp_path: Path) -> None:
    check = tool_process.check_model(
        model(tmp_path, KERAS), GALLERY / "loader", GALLERY / "dataset"
    )
    assert check.parameters == 650
    assert [(layer.kind, layer.parameters) for layer in check.layers] == [
        ("Flatten", 0),
        ("Dense", 650),
    ]
    assert check.loss is not None


@pytest.mark.slow
def test_a_model_with_compiled_and_scripted_parts_is_checked(tmp_path: Path) -> None:
    source = model(
        tmp_path,
        GOOD.replace("self.layer(data.flatten(1))", "self.two(self.one(data))").replace(
            "self.layer = torch.nn.Linear(64, 10)",
            "self.one = torch.compile(Flat(), backend='eager')\n"
            "        self.two = torch.jit.script(torch.nn.Linear(64, 10))",
        )
        + "\nclass Flat(torch.nn.Module):\n"
        "    def forward(self, data):\n        import late\n        return late.flat(data)\n",
    )
    (source / "late.py").write_text("def flat(data): return data.flatten(1)\n")
    assert tool_process.check_model(source, GALLERY / "loader", GALLERY / "dataset").loss


CACHES = """
import pathlib, numpy, torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        {at_init}
    def __len__(self):
        return 4
    def __getitem__(self, index):
        {at_item}
        return torch.zeros(64), 0
"""
WRITES = (
    "torch.save([1], self.folder / 'processed.pt')",
    "torch.save([1], str(self.folder / 'processed.pt'))",
    "numpy.save(self.folder / 'cache.npy', numpy.zeros(3))",
    "(self.folder / 'cache').mkdir()",
    "(pathlib.Path(__file__).parent / 'cache').write_text('x')",
    "(self.folder / 'a.csv').write_text('x')",
)


@pytest.mark.parametrize(("target", "write"), zip(["at_init", "at_item"] * 3, WRITES, strict=True))
def test_a_loader_cannot_write_into_a_version(tmp_path: Path, target: str, write: str) -> None:
    loader, dataset, model = (tmp_path / name for name in ("loader", "dataset", "model"))
    for folder in (loader, dataset, model):
        folder.mkdir()
    (dataset / "a.csv").write_text("1")
    (model / "bks_model.py").write_text(GOOD)
    text = CACHES.format(**{"at_init": "pass", "at_item": "pass", target: write})
    (loader / "bks_dataset.py").write_text(text)
    results: list[tuple[str, str]] = []
    try:
        errors = tool_process.preview(loader, dataset).errors
        results += [(e.message, e.remedy) for e in errors]
    except ToolError as error:
        results.append((error.message, error.remedy))
    with pytest.raises(ToolError) as caught:
        tool_process.check_model(model, loader, dataset)
    results.append((caught.value.message, caught.value.remedy))
    assert {remedy.partition(",")[0] for _, remedy in results} == {
        "The files of the library are read-only"
    }
    assert [path.name for path in dataset.iterdir()] == ["a.csv"]
    assert (dataset / "a.csv").read_text() == "1"
    assert [path.name for path in loader.iterdir()] == ["bks_dataset.py"]


@pytest.fixture
def warm() -> WarmProcess:
    """The process from which tools of all tests are forked."""
    warm_process = tool_process._warm_process
    assert warm_process is not None
    return warm_process


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return model(tmp_path, GOOD)


def server_of(warm: WarmProcess) -> int:
    assert warm._process is not None
    return warm._process.pid


def test_tools_are_forked_from_one_process_in_which_no_user_code_runs(
    warm: WarmProcess, tiny: Path
) -> None:
    (tiny / "bks_model.py").write_text(
        "import builtins, os, sys\n"
        "print('before', getattr(builtins, 'mark', 'nothing'), os.getpid(), os.getppid())\n"
        "builtins.mark = 'something'; os.environ['MARK'] = '1'; sys.modules['json'] = None\n" + GOOD
    )
    outputs = [tool_process.check_model(tiny).output.split() for _ in range(3)]
    assert {output[1] for output in outputs} == {"nothing"}
    assert len({output[2] for output in outputs}) == 3
    assert {int(output[3]) for output in outputs} == {server_of(warm)}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('no')", "raised ValueError: no"),
        ("import os; os._exit(7)", "exited with code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed Python (SIGSEGV)"),
        ("import sys; sys.exit(3)", "exited the program"),
        ("import time; time.sleep(600)", "did not end within"),
        ("import os; os.fork() or os.setsid() or __import__('time').sleep(600)", ""),
        (HIDDEN_CHILD.replace("MARK", "'/dev/null'"), ""),
        (HIDDEN_CHILD.replace("MARK", "'/dev/null'") + "import os; os._exit(7)", "exited with"),
    ],
)
def test_a_forked_tool_ends_as_one_of_its_own_does(
    warm: WarmProcess, tiny: Path, code: str, message: str
) -> None:
    tool_process.check_model(tiny)
    server = server_of(warm)
    (tiny / "bks_model.py").write_text(f"{code}\n{GOOD}")
    if message:
        with pytest.raises(ToolError) as caught:
            tool_process.check_model(tiny, time_limit_s=1 if "within" in message else 120)
        assert message in caught.value.message
    else:
        tool_process.check_model(tiny)
    assert psutil.Process(server).children() == []
    (tiny / "bks_model.py").write_text(GOOD)
    assert tool_process.check_model(tiny).parameters == 650
    assert server_of(warm) == server


def test_a_forked_tool_is_cancelled(warm: WarmProcess, tiny: Path) -> None:
    (tiny / "bks_model.py").write_text("import time; time.sleep(600)")

    class InTheModel(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            if "model" in label:
                self.cancel()

    with pytest.raises(Cancelled):
        tool_process.check_model(tiny, progress=InTheModel())
    assert psutil.Process(server_of(warm)).children() == []


@pytest.mark.usefixtures("alone")
def test_another_environment_or_a_lost_process_begins_a_new_one(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tiny / "bks_model.py").write_text(f"import os; print(os.environ.get('MARK'))\n{GOOD}")
    tool_process.start_warm_process()
    warm = tool_process._warm_process
    assert warm is not None
    assert tool_process.check_model(tiny).output.split() == ["None"]
    first = server_of(warm)
    monkeypatch.setenv("MARK", "other")
    assert tool_process.check_model(tiny).output.split() == ["other"]
    second = server_of(warm)
    os.kill(second, signal.SIGKILL)
    os.waitid(os.P_PID, second, os.WEXITED | os.WNOWAIT)
    assert tool_process.check_model(tiny).output.split() == ["other"]
    assert len({first, second, server_of(warm)}) == 3
    tool_process.stop_warm_process()
    assert warm._process is None


def test_the_process_ends_with_its_window_and_when_it_is_idle(tmp_path: Path) -> None:
    code = (
        "import socket, sys; from backend.training.tools import fork_server as one;"
        "one.IDLE_S = float(sys.argv[1]); one._PRELOADED = ();"
        "one.lazy_dynamo.postpone = tuple; one.main()"
    )
    for idle_s in ("0.01", "1000"):
        own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = subprocess.Popen([sys.executable, "-c", code, idle_s], stdin=other_end.fileno())
        other_end.close()
        if idle_s == "1000":
            own_end.close()
        assert server.wait(LIMIT_S) == 0
        own_end.close()
