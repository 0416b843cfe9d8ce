"""Jobs on GPUs of this computer, behind a library with NVML's own ABI: whose they are at the start,
and that a rank sees the one that was chosen for it and no other."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from backend.node.system import process_cleanup
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, run_tag
from backend.records.jobs.state import JobState
from tests.fakes.nvml.driver import FakeDriver, build
from tests.integration.tiny import raw_job
from tests.waiting import wait_for

GPU = "GPU-0000000{}-aaaa-bbbb-cccc-dddddddddddd"
NOT_THERE = 4_194_000
"""No process has such a number: of a display of another user as little is seen."""


GATE = """
#include <unistd.h>

__attribute__((constructor)) static void wait_until_it_is_open(void)
{
    while (access(OPEN, F_OK))
        usleep(10000);
}
"""


class Desk:
    """The command line of a computer with four GPUs."""

    def __init__(self, folder: Path, driver: FakeDriver) -> None:
        self.root = DataRoot(folder / "data")
        self.driver = driver
        catalogue = folder / "desktop" / "catalogue.sqlite"
        self._common = ["--data-root", str(self.root.path), "--catalogue", str(catalogue)]

    def __call__(self, *args: str) -> tuple[int, Any]:
        """Exit code and the document that was printed."""
        completed = subprocess.run(
            [sys.executable, "main.py", *self._common, *args, "--json"],
            cwd=CODE_ROOT,
            env=dict(self.driver.environment),
            stdout=subprocess.PIPE,
            check=False,
        )
        return completed.returncode, json.loads(completed.stdout)

    def describe_gpus(self, *lines: str) -> None:
        """Set the processes on the GPUs; `nvml.c` lists the line formats."""
        self.driver.describe("gpus 4", *lines)


@pytest.fixture
def desk(workplace: Path) -> Iterator[Desk]:
    desk = Desk(workplace, FakeDriver(build(workplace / "nvml"), workplace / "gpus"))
    desk.describe_gpus()
    yield desk
    for folder in desk.root.jobs.iterdir():
        process_cleanup.end_tagged(run_tag(folder.name, 1), 0.0)


@pytest.fixture
def make(desk: Desk, tmp_path: Path) -> Callable[..., str]:
    """Makes a job on GPUs by their numbers; its id."""

    def make_job(*numbers: int, beside: Mapping[str, str] | None = None, **changes: Any) -> str:
        gpus = [GPU.format(number) for number in numbers]
        placement = [{"node": "this-computer", "gpus": gpus, "beside": beside or {}}]
        file = tmp_path / "job.toml"
        file.write_text(tomli_w.dumps(raw_job(placement=placement, **changes)))
        code, view = desk("job", "create", str(file))
        assert code == 0, view
        return str(view["id"])

    return make_job


@pytest.fixture
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", "import signal; signal.pause()", "night.py"]
    process = subprocess.Popen(argv)
    wait_for(lambda: b"night.py" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    yield process
    process.kill()
    process.wait()


def gpus_of_ranks(job_id: str) -> dict[str, str]:
    """Return the visible GPUs of each rank of run 1, by the number of the rank."""
    gpu_by_rank = {}
    for process in process_cleanup.tagged(run_tag(job_id, 1)):
        folder = Path(f"/proc/{process.pid}")
        try:
            if b"rank_bootstrap.py" in (folder / "cmdline").read_bytes():
                entries = (folder / "environ").read_bytes().decode().split("\0")
                environment = dict(entry.split("=", 1) for entry in entries if entry)
                gpu_by_rank[environment["OMPI_COMM_WORLD_RANK"]] = environment[
                    "CUDA_VISIBLE_DEVICES"
                ]
        except OSError:
            continue
    return gpu_by_rank


def test_m03_each_rank_sees_the_gpu_that_was_chosen_for_it_and_no_other(
    desk: Desk, make: Callable[..., str], tmp_path: Path
) -> None:
    # Without CUDA a rank soon ends, so each waits at its start until it was checked.
    gate_library, gate_file = tmp_path / "gate.so", tmp_path / "seen"
    build_gate = [
        "cc",
        "-shared",
        "-fPIC",
        f'-DOPEN="{gate_file}"',
        "-o",
        str(gate_library),
        "-xc",
        "-",
    ]
    subprocess.run(build_gate, input=GATE, text=True, check=True)
    job_id = make(2, 1, environment={"LD_PRELOAD": str(gate_library)})
    assert desk("job", "start", job_id)[0] == 0
    expected_gpus = {"0": GPU.format(2), "1": GPU.format(1)}
    wait_for(lambda: gpus_of_ranks(job_id) == expected_gpus, "two ranks with a GPU each")
    gate_file.touch()
    # PyTorch has no CUDA here; what the rank itself sees stands in what it says about that.
    code, view = desk("job", "wait", job_id)
    assert (code, view["state"]) == (1, JobState.ERROR.value)
    rank = view["error"]["rank"]
    message = f"The GPU {expected_gpus[str(rank)]} cannot be used: CUDA finds no device."
    assert view["error"]["sentence"].startswith(message)


def test_a_gpu_taken_after_the_form_refuses_the_start_and_names_its_user(
    desk: Desk, make: Callable[..., str], other_process: subprocess.Popen[bytes]
) -> None:
    job_id = make(0, 1)
    desk.describe_gpus(f"process 1 {other_process.pid} 18432")
    code, refusal = desk("job", "start", job_id)
    assert code == 1
    gpu_user = f"{getpass.getuser()}: {Path(sys.executable).name} (pid {other_process.pid})"
    message = f"GPU 1 of this computer is in use by {gpu_user} and holds 18 GiB."
    assert refusal["error"]["sentence"] == message
    assert desk("job", "show", job_id)[1]["run"] == 0
    assert list(desk.root.job(job_id).attempts.iterdir()) == []


@pytest.mark.slow
def test_a_job_starts_next_to_the_chosen_user_and_no_other(
    desk: Desk,
    make: Callable[..., str],
    other_process: subprocess.Popen[bytes],
) -> None:
    desk.describe_gpus(f"process 1 {other_process.pid} 18432")
    user, alone_strategy = getpass.getuser(), {"name": "alone"}
    alice_job_id = make(1, beside={GPU.format(1): "alice"}, strategy=alone_strategy)
    assert not desk("job", "preflight", alice_job_id)[1]["passed"]
    code, refusal = desk("job", "start", alice_job_id)
    assert code == 1
    assert f"in use by {user}: " in refusal["error"]["sentence"]

    own_job_id = make(1, beside={GPU.format(1): user}, strategy=alone_strategy)
    assert desk("job", "preflight", own_job_id)[1]["passed"]
    assert desk("job", "start", own_job_id)[0] == 0
    # Another job of it is another matter.
    (copy,) = desk("job", "clone", own_job_id)[1]["placement"]
    assert copy == {"node": "this-computer", "gpus": [GPU.format(1)]}


@pytest.mark.slow
def test_a_gpu_with_a_display_can_be_trained_on(desk: Desk, make: Callable[..., str]) -> None:
    job_id = make(1, strategy={"name": "alone"})
    desk.describe_gpus(f"graphics 1 {NOT_THERE} 300")
    assert desk("job", "preflight", job_id)[1]["passed"]
    assert desk("job", "start", job_id)[0] == 0
    assert read_json(desk.root.job(job_id).launch)["ranks"][0]["gpu"] == GPU.format(1)
