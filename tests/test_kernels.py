"""No verdict depends on the kernels that torch chooses for a processor and its threads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_CAPABILITIES = ("default", "avx2", "avx512")
"""Values of ATEN_CPU_CAPABILITY, in the order in which processors have them."""
_TRAIN = {"torch", "tests.backend.training.training_rig", "tests.fakes.runs"}
"""A file that imports one of them may compute with torch, in its own process or in ranks."""
_COMPARE = {
    "approx", "assert_close", "allclose", "assert_allclose", "equal", "array_equal",
    "assert_bit_equal", "accuracy", "curve", "train", "train_well",
}  # fmt: skip
"""What a test uses that compares computed numbers, or whose training ends by them."""
_MEASURE = {"slow_cause", "step_times"}
"""What a test reads of durations, which depend on the load of the processor instead."""


def _tests_on_numbers() -> Iterator[str]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported_modules = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported_modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported_modules.add(node.module or "")
        if not imported_modules & _TRAIN or "cluster" in path.parts:
            continue
        for test in tree.body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                used_names = {
                    getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(test)
                }
                used_names |= {argument.arg for argument in test.args.args}
                if used_names & _COMPARE and not used_names & _MEASURE:
                    yield f"{path.relative_to(ROOT)}::{test.name}"


def _capabilities() -> tuple[str, ...]:
    """Return those that this processor has; torch takes the variable without a check."""
    query = "import torch; print(torch.backends.cpu.get_cpu_capability().lower())"
    environment = {k: v for k, v in os.environ.items() if k != "ATEN_CPU_CAPABILITY"}
    completed = subprocess.run(
        [sys.executable, "-c", query], env=environment, capture_output=True, text=True, check=True
    )
    capability = completed.stdout.strip()
    is_known = capability in _CAPABILITIES
    return _CAPABILITIES[: _CAPABILITIES.index(capability) + 1] if is_known else ("default",)


def test_the_tests_that_depend_on_numbers_include_a_job_that_ends_by_them() -> None:
    tests = list(_tests_on_numbers())
    job = "test_a_sandblaster_job_continues_with_the_portions_of_a_killed_worker"
    assert f"tests/backend/node/run/test_real_runs.py::{job}" in tests
    assert not any(name.startswith("tests/widgets") for name in tests)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("threads", [1, 2])
def test_no_result_depends_on_the_kernels_of_a_processor(threads: int, tmp_path: Path) -> None:
    failures, environment = [], {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    for capability in _capabilities():
        log = tmp_path / f"{capability}.log"
        with log.open("wb") as file:
            completed = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider",
                 *_tests_on_numbers()],
                cwd=ROOT, stdout=file, stderr=file, check=False,
                env={**environment, "ATEN_CPU_CAPABILITY": capability,
                     "OMP_NUM_THREADS": str(threads)},
            )  # fmt: skip
        if completed.returncode:
            failures.append(f"{capability}, {threads} threads:\n{log.read_text()[-8000:]}")
    assert not failures, "\n".join(failures)
