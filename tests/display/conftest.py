"""Parts and toasts of the window in the report of a failed test."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.display.desk import Program


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    program = getattr(item, "funcargs", {}).get("program")
    if report.failed and isinstance(program, Program) and program.process.poll() is None:
        lines = [f"{part.kind}: {part.name}" for part in program.parts() if part.name]
        lines += [f"Toast before: {text}" for text in program.read_windows().get("said", ())]
        report.sections.append(("What stood in the window", "\n".join(lines)))
    return report
