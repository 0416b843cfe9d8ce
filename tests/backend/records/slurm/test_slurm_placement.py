"""A placement in Slurm becomes one command and one script, or a sentence that says why not."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.slurm.cluster import Association, Partition, PartitionNode
from backend.records.slurm.placement import (
    SlurmPlacement,
    batch_script,
    check_placement,
    parse_job_number,
    sbatch_command,
    with_time_limit,
)

NODES = tuple(PartitionNode(f"g{n}", "idle", 8, 1000, {"a100": 4}) for n in range(3))
MAIN = Partition("main", True, True, None, NODES)
SHORT = Partition("short", True, False, 120, NODES[:2])
DOWN = Partition("old", False, False, None, (PartitionNode("o1", "drained", is_usable=False),))
PARTITIONS = (MAIN, SHORT, DOWN)
ACCOUNTS = (Association("lab", "", ("normal", "long")), Association("guest", "short", ("short",)))
FULL = SlurmPlacement(
    nodes=3,
    processes=2,
    gpus=2,
    gpu_type="a100",
    partition="main",
    time_limit_min=36 * 60,
    account="lab",
    qos="long",
    constraint="ib&avx",
    exclusive=True,
    options=("--mem=0", "--mail-user=a b"),
)


def test_each_setting_is_an_option_of_sbatch() -> None:
    assert sbatch_command(FULL, "job-1", 2, "/data/50%/slurm.log") == (
        *("sbatch", "--parsable", "--requeue", "--job-name=ringmaster-job-1"),
        *("--comment=ringmaster:job-1:2", "--output=/data/50%%/slurm.log", "--open-mode=append"),
        *("--chdir=/", "--nodes=3", "--ntasks-per-node=2", "--signal=B:USR1@120"),
        *("--partition=main", "--account=lab", "--qos=long", "--constraint=ib&avx"),
        *("--time=1-12:00:00", "--gres=gpu:a100:2", "--exclusive", "--mem=0", "--mail-user=a b"),
    )


def test_what_is_not_chosen_is_left_to_slurm() -> None:
    command = sbatch_command(SlurmPlacement(continues=False), "j", 1, "/l")
    names = {part.partition("=")[0] for part in command}
    assert names == {
        *("sbatch", "--parsable", "--no-requeue", "--job-name", "--comment", "--output"),
        *("--open-mode", "--chdir", "--nodes", "--ntasks-per-node", "--signal"),
    }


def test_without_a_limit_that_of_the_partition_holds_and_a_stop_comes_well_before_it() -> None:
    short = with_time_limit(SlurmPlacement(partition="short"), PARTITIONS)
    assert (short.time_limit_s, short.stop_before_s) == (120, 30)
    assert with_time_limit(SlurmPlacement(), PARTITIONS).time_limit_s == 0


@given(st.text(min_size=1, max_size=30).filter(lambda text: not set(text) & {"\0", "/"}))
def test_the_script_starts_the_supervisor_whatever_the_folder_is_called(name: str) -> None:
    if any(0xD800 <= ord(character) <= 0xDFFF for character in name):
        return
    python = "/bin/echo"
    folder = f"/data/{name}"
    script = batch_script(
        SlurmPlacement(setup=("true",)), python=python, code_root="/co de", job_folder=folder, run=3
    )
    result = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    expected_output = f"-m backend.node.run.slurm_run --job {folder} --run 3\n"
    assert result.stdout == expected_output.encode()


def test_the_script_sets_up_before_it_starts_the_program(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $MODULE $PYTHONPATH $PYTHONUTF8\n")
    python.chmod(0o755)
    placement = SlurmPlacement(setup=("export MODULE=cuda",))
    script = batch_script(placement, python=str(python), code_root="/code", job_folder="/j", run=1)
    output = subprocess.check_output(["sh"], input=script, text=True, env=os.environ)
    assert output == "cuda /code 1\n"


def test_a_line_before_the_run_that_fails_ends_the_job_and_is_named() -> None:
    """In a login shell: only there is ``module`` known."""
    placement = SlurmPlacement(setup=("false 'x'", "echo later"))
    script = batch_script(placement, python="echo", code_root="/code", job_folder="/j", run=1)
    result = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "This line failed: false 'x'\n")
    assert script.startswith("#!/bin/bash -l\n")


def test_the_number_of_a_job_is_read_with_and_without_a_cluster() -> None:
    outputs = ("17\n", "17;west\n", "module loaded\n18\n", "", "Submitted batch job 17")
    assert [parse_job_number(output) for output in outputs] == ["17", "17", "18", "", ""]


def test_a_placement_that_fits_has_no_error() -> None:
    assert check_placement(FULL, PARTITIONS, ACCOUNTS) == ()
    assert check_placement(SlurmPlacement(partition="short", account="guest"), PARTITIONS) == ()


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"partition": "gone"}, "no partition “gone”", "main, short, old"),
        ({"partition": "old", "nodes": 1}, "starts no jobs now", "another partition"),
        ({"partition": "old", "nodes": 1}, "(o1 is drained)", ""),
        ({"partition": "short", "nodes": 1}, "above that of the partition short, 0-00:02:00", ""),
        ({"time_limit_min": 1}, "60 s is too short", "2 minutes"),
        ({"gpu_type": "h100"}, "0 usable nodes with 2 h100 GPUs", "fewer"),
        ({"nodes": 4}, "3 usable nodes with 2 a100 GPUs, and the job asks for 4", ""),
        ({"gpus": 3}, "3 GPUs have 3 processes, not 2", ""),
        ({"account": "other"}, "the account “other”", "guest, lab"),
        ({"qos": "night"}, "the QOS “night”", "long, normal"),
        ({"options": ("mem=0",)}, "“mem=0” is not written as --name=value", "--mem=32G"),
        ({"options": ("--comment=x",)}, "--comment is set by the program", "Remove it"),
        ({"options": ("--time=1:00",)}, "--time is set by the program", "time_limit_min"),
        ({"gpu_type": "a100:4"}, "The GPU type has a number", "gpus"),
        ({"account": "a b;"}, "The account has characters", ""),
    ],
)
def test_what_slurm_would_refuse_is_a_sentence_before_the_start(
    changes: dict[str, object], message: str, remedy: str
) -> None:
    placement = replace(FULL, **changes)  # type: ignore[arg-type]  # as the parameters say
    errors = check_placement(placement, PARTITIONS, ACCOUNTS)
    assert any(message in error.message and remedy in error.remedy for error in errors), errors


def test_a_placement_survives_its_file() -> None:
    assert SlurmPlacement.from_dict(FULL.to_dict()) == FULL
