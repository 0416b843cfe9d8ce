"""What presses keys says as well as a test what it did not see; no window imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from backend.records.library.preview import ModelCheck
from backend.records.nodes.reading import Finding
from backend.services.context.container import Services, open_services
from backend.services.nodes.service import NodeService
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError

MODEL_CHECK = ModelCheck(10, 10, 40, loss=0.7, batch="([4, 4] float32, [4] int64)")

pytest.register_assert_rewrite(
    *(f"tests.app.keys_{name}" for name in ("everywhere", "of_jobs", "of_new_job", "of_plots"))
)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """The services of an empty data root."""
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    yield services
    services.close()


@pytest.fixture(autouse=True, scope="module")
def no_style_stays(qapp: QApplication) -> Iterator[None]:
    """The style of a window goes with it: whatever the next files make would be polished by it."""
    yield
    qapp.setStyleSheet("")


@pytest.fixture(autouse=True, scope="module")
def nothing_is_imported() -> Iterator[None]:
    """What is installed is checked, each new job measured and tried: seconds of torch."""
    findings = tuple(Finding(check, True, f"{check} is there") for check in ("MPI", "torch", "ssh"))

    def measure(*_: object, **__: object) -> None:
        raise ToolError("not now")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeService, "doctor", lambda _: (*findings, Finding("GPUs", True, "none")))
        patch.setattr(tool_process, "count_samples", measure)
        patch.setattr(tool_process, "check_model", lambda *_, **__: MODEL_CHECK)
        yield
