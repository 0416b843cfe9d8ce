"""Some samples of a dataset: at given places, or the next ones, of all classes or of one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.records.base import number_format
from backend.records.jobs.config import JobConfig
from backend.records.library.preview import PageSample, SampleError, SamplePage
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.preview import Survey
from backend.training.user_code import UserCodeError, UserData, load_loader


def page(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader``, ``dataset``; ``places`` ([split, index], …), or ``split``, ``start``, ``count``.

    ``of_class`` leaves out other classes. ``budget_s`` (20) limits the time for all samples.
    """
    report("Opening the loader…")
    from backend.training.data import seed_everything

    # As a rank of a job does it: random data are the same there.
    seed_everything(JobConfig.seed)
    pages = _SampleReader(request, report)
    if "places" in request:
        return pages.read_positions(
            [(str(split), int(index)) for split, index in request["places"]]
        ).to_dict()
    position = str(request["split"]), int(request["start"]), int(request["count"])
    return pages.read_range(*position, str(request.get("of_class", ""))).to_dict()


class _SampleReader:
    def __init__(self, request: Mapping[str, Any], report: tool_protocol.Report) -> None:
        self._report = report
        self._loader = load_loader(Path(request["loader"]))
        self._folder = Path(request["dataset"])
        self._deadline = time.monotonic() + float(request.get("budget_s", 20.0))
        self._splits: dict[str, tuple[UserData, Survey]] = {}
        self._samples: list[PageSample] = []
        self._errors: list[SampleError] = []

    def read_positions(self, positions: list[tuple[str, int]]) -> SamplePage:
        for number, (split, index) in enumerate(positions):
            self._report("Reading samples", number, len(positions))
            if not self._read(split, index, ""):
                break
        return SamplePage(tuple(self._samples), errors=tuple(self._errors))

    def read_range(self, split: str, start: int, count: int, of_class: str) -> SamplePage:
        total = len(self._open_split(split)[0])
        end = start
        for end in range(start, total):
            if len(self._samples) + len(self._errors) >= count:
                return SamplePage(tuple(self._samples), end, total, tuple(self._errors))
            self._report("Reading samples", end, total)
            if not self._read(split, end, of_class):
                return SamplePage(tuple(self._samples), end, total, tuple(self._errors))
        return SamplePage(tuple(self._samples), total, total, tuple(self._errors))

    def _open_split(self, split: str) -> tuple[UserData, Survey]:
        if split not in self._splits:
            loader = self._loader
            open_split = loader.validation if split == "validation" else loader.training
            data = open_split(self._folder)
            self._splits[split] = data, Survey(data, split, self._report)
        return self._splits[split]

    def _read(self, split: str, index: int, of_class: str) -> bool:
        """Keep one sample, or its error; return False if the time is over."""
        data, survey = self._open_split(split)
        remaining_s = self._deadline - time.monotonic()
        if remaining_s <= 0:
            return False
        started_s = time.perf_counter()
        try:
            with tool_protocol.time_limit(remaining_s):
                item = data.item(index)
        except tool_protocol.OutOfTime:
            message = (
                f"Sample {number_format.count(index)} was not read within {remaining_s:.0f} s."
            )
            self._errors.append(SampleError(message, index=index))
            return True
        except UserCodeError as error:
            self._errors.append(SampleError(error.message, error.remedy, index, error.traceback))
            return True
        time_ms = (time.perf_counter() - started_s) * 1000
        sample_class = survey.class_of(item)
        if of_class in ("", sample_class):
            sample = survey.sample(index, item, time_ms, sample_class)
            self._samples.append(PageSample(split, sample))
        return True


if __name__ == "__main__":
    tool_protocol.main(page)
