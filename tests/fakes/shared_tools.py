"""A process that imports torch once in a session, and forks the tools of all tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.services.tools import tool_process
from backend.services.tools.warm_process import ForkedTool, WarmProcess

_READ_AT_IMPORT = ("PYTHON", "OMP_", "LD_", "CUDA", "TORCH")
_stop_warm_process = tool_process.stop_warm_process


class SharedToolProcess(WarmProcess):
    """The process of the window, which outlives the windows and the variables of tests."""

    def start(
        self,
        python: str,
        module: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        own_variables: Sequence[str],
    ) -> ForkedTool | None:
        own_variables = [name for name in environment if not name.startswith(_READ_AT_IMPORT)]
        return super().start(python, module, arguments, folder, environment, own_variables)

    def close(self) -> None:
        """Leave the process to the next test."""

    def end(self) -> None:
        super().close()


@contextmanager
def share_tool_process() -> Iterator[None]:
    """Fork the tools of all tests from one process."""
    process = SharedToolProcess()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_process, "_warm_process", process)
        patch.setattr(tool_process, "stop_warm_process", lambda: None)
        yield
    process.end()


@contextmanager
def start_tools_alone() -> Iterator[None]:
    """Start each tool as a program without a window does, for tests of that start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_process, "_warm_process", None)
        patch.setattr(tool_process, "stop_warm_process", _stop_warm_process)
        yield
