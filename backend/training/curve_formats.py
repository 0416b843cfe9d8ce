"""Files in which training programs write their numbers, recognized by their content.

Lines of JSON, a document of JSON, YAML or NumPy with a list of rows, a table with a header (comma,
semicolon, tab or blanks), numbers below each other in a file that is named as their metric, and the
event files of TensorBoard. A row has a step or an epoch; a file without such a row holds no curves,
unless it has the name or the metrics of a history: then its rows are counted.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.cells import decimal_signs, decoded, number_in
from backend.records.jobs.log_numbers import is_metric_name

STEPS = (
    *("step", "global_step", "trainer/global_step", "iter", "iteration", "iterations"),
    *("num_updates", "train_step", "total_iter", "steps", "iters", "updates", "it", "n_iter"),
    *("episode", "generation", "gen", "round", "schritt", "étape", "paso"),
    *("tick", "number_of_trees", "n_trees", "trees", "n_estimators"),
    *("train/global_step", "time/total_timesteps", "total_timesteps", "timesteps", "env_steps"),
)
EPOCHS = ("epoch", "epoch_num", "current_epoch", "epoche", "époque", "época")
TOTALS = ("total_steps", "max_steps", "num_steps", "total_iters")
EPOCH_TOTALS = ("epochs", "total_epochs", "max_epochs", "num_epochs", "num_train_epochs")
NO_METRICS = frozenset(
    (
        *(*STEPS, *EPOCHS, *TOTALS, *EPOCH_TOTALS),
        *("time", "ts", "timestamp", "_timestamp", "_runtime", "total_flos", "wall_time", ""),
    )
)
TOTAL_NAMES = {"step": TOTALS[0], "epoch": EPOCH_TOTALS[0]}
_STEP_NAME = re.compile(
    r"(?:(?:global|train|training|trainer|optimizer|opt|agent|env|total_env|current|cur|true"
    r"|val|valid|validation|test|eval)_)?"
    r"(?:num_updates|n?updates|[ni]?step|[ni]?iter|iteration|itr|update|timestep|(?<=env_)(?:steps|interacts))"
    r"(?:_?(?:num|number|no\.?|idx|index|count|counter|id|#))?"
)
_EPOCH_NAME = re.compile(
    r"(?:(?:train|training|current|cur)_)?(?:epoch|epoche|époque|época)"
    r"(?:_?(?:num|number|no\.?|nr\.?|idx|index|count|counter|#))?"
)
GROUPS = ("mode", "split", "phase", "subset", "stage")
"""Names of a text that describes a row's values, such as ``"mode": "val"``."""
SERIES = "series"
"""Name of the text by which rows differ that count from the start again, such as folds."""
_NUMBERED_SERIES = ("fold", "cv_fold", "kfold", "trial", "rank")
"""Names of a number that is such a text."""
_METRIC_NAMES = ("metric", "metric_name", "tag", "variable", "key", "name")
"""Names of a text that names the row's ``value``, as in ``"metric": "loss", "value": 0.5``."""
_CONTAINERS = frozenset(("data", "metrics", "scalars", "values"))
"""Names around all values of a row, which say nothing of them."""
_COMPARED_BYTES = 4096
_CHUNK_BYTES = 4_000_000
"""Bytes that are read from a file at once; the rest is read the next time."""
_HEAD_BYTES = 65_536
_DOCUMENT_BYTES = 50_000_000
_MAX_LINE_BYTES = 100_000
_MAX_ELEMENTS = 16
"""Length of a list in a row, such as the twelve figures of COCO; a longer list is no metric."""
_DELIMITERS = (",", ";", "\t", "|", None)
_COMMENT_SIGNS = "#%!/ "
_RULE_SIGNS = frozenset("|-+:= ")
"""Signs of a line between header and rows, as Markdown has it."""
_UNIT = re.compile(r"(?<=\S)\s*(?:\[[^]]*]|\([^)]*\))$")
_NUMBERED = re.compile(r"(?:(?P<name>[^\W\d_][^\W\d]*?)[ _-]?)?(?P<number>\d+)")
"""Key of a table in a document, such as ``epoch_1``."""
_MOST_COMMENTS = 20
"""The most lines before the header of a table: comments, and a title."""
_HISTORY_NAME = re.compile(
    r"hist|(?<![^\W_])log(?!it)|loss|metric|progress|curve|verlauf", re.IGNORECASE
)
"""A part of the name of a file whose rows are counted."""
NUMBERED_STEM = re.compile(r"(?:(?<=[^\W_])[ _-])?(epoch|step|iter|iteration)[ =_-]?(\d+)\Z")
"""The position at the end of the name of a file, such as ``metrics_epoch_3``."""
_PLAIN_NAME = re.compile(r"[\w./-]+")
_NUMBER_DELIMITER = re.compile(r"[,;\s]+")
_MLFLOW_LINE = re.compile(r"\d{13} \S+ \d+")
"""Milliseconds, value and step of a metric, in a file of its name below ``metrics``."""
_DOCUMENT_START = re.compile(rb"\s*[\[{]\s*[\[{\"\d\]}-]")
_EVENTS = b"brain.Event:"
_ARRAYS = (b"\x93NUMPY", b"PK")
"""The first bytes of an array of NumPy, and of several in a zip archive."""
Row = Mapping[str, Any]


def normalized(name: str) -> str:
    """Return a name as `STEPS` and the other lists have it, without a unit: ``Step [-]``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", _UNIT.sub("", name.strip()))
    return "_".join(words.casefold().replace("-", " ").split())


@lru_cache(maxsize=1024)
def position_kind(name: str) -> str:
    """Return "step" or "epoch" for the name of one, such as ``Training Step``, else ""."""
    key = normalized(name).removeprefix("_")
    last_part = key.rpartition("/")[2]
    if key in STEPS or _STEP_NAME.fullmatch(last_part):
        return "step"
    return "epoch" if key in EPOCHS or _EPOCH_NAME.fullmatch(last_part) else ""


def number_of(value: Any, decimal: str = "") -> float | None:
    """Return the number of a value or a cell, None if it has none; see `cells.number_in`."""
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        return number_in(value.strip(), decimal) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        # A text such as a name: no metric.
        return None


def _may_name_values(name: str) -> bool:
    """Return whether the column of a table may have values; its name may be in a line above."""
    return not name or not (normalized(name) in NO_METRICS or position_kind(name))


def series_of(row: Row) -> str:
    """Return the name of the series to which a row belongs, such as ``fold 2``; "" if of none."""
    if SERIES in row:
        return str(row[SERIES])
    numbers = {normalized(name): number_of(value) for name, value in row.items()}
    series = [(name, numbers.get(name)) for name in _NUMBERED_SERIES]
    return "/".join(f"{name} {number:g}" for name, number in series if number is not None)


def is_series(name: str) -> bool:
    return name == SERIES or normalized(name) in _NUMBERED_SERIES


def has_position(names: Iterator[str] | Sequence[str]) -> bool:
    return any(map(position_kind, names))


class CurveFile:
    """File that may hold curves; its format may show only when it grows."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._file = ForeignFile(path, offset)
        self._format: Any = None
        self._header: list[str] = []
        self._lines_above: list[list[str]] = []
        """The fields of the lines without numbers above a header."""
        self._delimiter: str | None = ","
        self._decimal = ""
        self._row_count = 0
        self._signature: tuple[int, ...] = ()
        self._was_document = False
        self.is_events = False
        self.header_count = 0
        """Headers of the table until now: a program that resumes may append another."""

    @property
    def read_bytes(self) -> int:
        return self._file.offset

    @property
    def has_format(self) -> bool:
        return self._format is not None

    @property
    def was_rewritten(self) -> bool:
        """Return whether old rows may come again."""
        return self._file.was_replaced or self._was_document or self._format == self._document

    def rows(self) -> Iterator[Row]:
        """Yield the new rows, or all rows if the file was written again.

        Raises:
            OSError, ValueError: The file cannot be read.
        """
        status = self._file.path.stat()
        signature = (status.st_ino, status.st_size, status.st_mtime_ns)
        is_stream = self._format not in (None, self._document)
        if is_stream or signature != self._signature:
            self._signature = signature
            content = self._file.read(_CHUNK_BYTES if is_stream else _HEAD_BYTES)
            if self._file.offset == 0:
                # New, or another content than before.
                self._was_document |= self._format == self._document
                self._format = self._recognize(content[:_HEAD_BYTES])
            if self._format is not None:
                yield from self._format()

    def lines(self) -> Iterator[str]:
        """Yield the new complete lines.

        Raises:
            OSError: The file cannot be read.
        """
        content = self._file.read(_CHUNK_BYTES)
        # A progress bar writes its line again and again, without an end.
        end = max(content.rfind(b"\n"), content.rfind(b"\r")) + 1
        if not end and len(content) > _MAX_LINE_BYTES:
            # A line without an end, such as a file of bytes.
            end = len(content)
        self._file.advance(content[:end])
        for line in content[:end].splitlines():
            if len(line) <= _MAX_LINE_BYTES:
                yield decoded(line)[0]

    def _recognize(self, head: bytes) -> Any:
        self.is_events = _EVENTS in head[:64]
        if self.is_events:
            return self._events
        if head.startswith(_ARRAYS) and self._file.path.suffix in (".npy", ".npz"):
            return self._document
        if b"\0" in head:
            return None
        # The last line may be incomplete.
        complete_content = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
        lines = complete_content.decode("utf-8-sig", "replace").splitlines()
        objects = [row for line in lines if (row := json_object(line)) is not None]
        if len(objects) > 1 or (objects and has_position(list(flatten_row(objects[0])))):
            return self._json_lines
        if _DOCUMENT_START.match(head) or self._file.path.suffix in (".yaml", ".yml"):
            return self._document
        if self._has_header(lines):
            return self._table
        return self._numbers if self._is_of_one_metric(lines) else None

    def _is_of_one_metric(self, lines: Sequence[str]) -> bool:
        """Return whether the file is named as a metric and has only its values, or steps, too."""
        path = self._file.path
        if "metrics" in path.parts[:-1] and lines:
            return all(map(_MLFLOW_LINE.fullmatch, lines))
        rows = [[*map(number_of, _NUMBER_DELIMITER.split(line.strip()))] for line in lines]
        counts = {len(row) for row in rows if None not in row}
        return is_metric_name(path.stem) and len(rows) > 1 and counts in ({1}, {2})

    def _numbers(self) -> Iterator[Row]:
        path = self._file.path
        name = path.stem
        if "metrics" in path.parts[:-1]:
            name = "/".join(path.parts[len(path.parts) - path.parts[::-1].index("metrics") :])
        for line in self.lines():
            self._row_count += 1
            numbers = [*map(number_of, _NUMBER_DELIMITER.split(line.strip()))]
            if _MLFLOW_LINE.fullmatch(line):
                yield {name: numbers[1], STEPS[0]: numbers[2]}
            else:
                yield {name: numbers[-1], STEPS[0]: [self._row_count, numbers[0]][len(numbers) > 1]}

    def _has_header(self, lines: Sequence[str]) -> bool:
        """Return whether comments or a title are above a line with the names of columns."""
        table_lines = [line for line in lines if not _RULE_SIGNS.issuperset(line.strip())]
        for index, line in enumerate(table_lines[:_MOST_COMMENTS]):
            for delimiter in _DELIMITERS:
                names = self._names_in(line, delimiter)
                if (
                    len(names) < 2
                    or not has_position(names)
                    or not any(map(_may_name_values, names))
                ):
                    continue
                # Blanks and commas separate words of any text; numbers below make it a table.
                # The units of the columns may be between the names and the numbers.
                is_table = any(
                    _is_row(_fields(row_line, delimiter), len(names), delimiter)
                    for row_line in table_lines[index + 1 : index + 3]
                )
                if is_table or (delimiter and index == 0):
                    self._delimiter, self._header, self._decimal = delimiter, [], ""
                    for row_line in table_lines[index + 1 :]:
                        self._learn_decimal(_fields(row_line, delimiter))
                    return not any(number_of(name) is not None for name in names)
        return False

    def _json_lines(self) -> Iterator[Row]:
        for line in self.lines():
            if (row := json_object(line)) is not None:
                yield row

    def _table(self) -> Iterator[Row]:
        for line in self.lines():
            fields = _fields(line, self._delimiter)
            names = self._names_in(line, self._delimiter)
            if has_position(names) and not any(number_of(name) is not None for name in names):
                self._header = _whole_names(self._lines_above, names)
                self.header_count += 1
                self._row_count = 0
                self._lines_above = []
            elif all(number_of(field) is None for field in fields):
                self._lines_above.append(fields)
            elif not _RULE_SIGNS.issuperset(line.strip()):
                self._learn_decimal(fields)
                self._row_count += 1
                # Behind the columns of the file is the count, where they have none.
                values = [*map(self._value, fields), self._row_count]
                yield dict(zip(self._header, values, strict=False))

    def _names_in(self, line: str, delimiter: str | None) -> list[str]:
        """Return the names in a header; without a position, with that of the rows as pandas has it.

        The index of pandas has no name. In another table without a position, rows are counted.
        """
        names = _fields(line.lstrip(_COMMENT_SIGNS), delimiter)
        is_history = _HISTORY_NAME.search(self._file.path.stem) or any("loss" in n for n in names)
        is_header = len(names) > 1 or _PLAIN_NAME.fullmatch(line.strip()) is not None
        is_header &= len({*names}) == len(names) and any(map(is_metric_name, names))
        if delimiter is None or not (is_history and is_header):
            return names
        if names[0] == "":
            return [EPOCHS[0], *names[1:]]
        return names if has_position(names) else [*names, STEPS[0]]

    def _learn_decimal(self, fields: Sequence[str]) -> None:
        """Note the decimal sign that a field shows: in a file with ``0,5``, ``1.000`` is 1000."""
        punctuated_fields = [field for field in fields if "," in field or "." in field]
        for field in [] if self._decimal else punctuated_fields:
            if len(signs := decimal_signs([field])) == 1:
                self._decimal = signs.pop()

    def _value(self, field: str) -> str | float | None:
        """Return a field; if its commas or points may stand between thousands, its number."""
        if "," not in field and self._decimal != ",":
            return field
        # Semicolons are used where a comma begins the decimals.
        default = "," if self._delimiter == ";" and "," in field else "."
        number = number_of(field, self._decimal or default)
        return field if number is None else number

    def _document(self) -> Iterator[Row]:
        if self._signature[1] <= _DOCUMENT_BYTES:
            path = self._file.path
            content = path.read_bytes()
            if content.startswith(_ARRAYS):
                document: Any = _read_arrays(content, path.stem)
            else:
                is_json = path.suffix not in (".yaml", ".yml")
                document = json.loads(content) if is_json else _read_yaml(content)
            match = NUMBERED_STEM.search(path.stem)
            if match is not None and _is_row_of_metrics(document):
                yield {match[1]: int(match[2]), **document}
            else:
                yield from _rows_in(document, {})

    def _events(self) -> Iterator[Row]:
        """Read records: 8 bytes of length, 4 of its check, the event, 4 of its check."""
        from google.protobuf.message import DecodeError
        from tensorboardX.proto.event_pb2 import Event

        content, start = self._file.read(_CHUNK_BYTES), 0
        while len(content) >= start + 12:
            end = start + struct.unpack_from("<Q", content, start)[0] + 16
            if len(content) < end:
                if not start and end > _CHUNK_BYTES and end <= self._signature[1]:
                    # A picture, for example.
                    self._file.skip(end)
                break
            with suppress(DecodeError):
                event = Event.FromString(content[start + 12 : end - 4])
                scalars = {value.tag: _scalar(value) for value in event.summary.value}
                yield {**scalars, "step": event.step}
            self._file.advance(content[start:end])
            start = end


def _read_yaml(content: bytes) -> Any:
    # Late: few scripts write YAML.
    import yaml

    try:
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _read_arrays(content: bytes, name: str) -> dict[str, list[float]]:
    """Return the vectors in a file of NumPy; ``name`` is that of an array that is alone."""
    # Late, as most files are others.
    import numpy

    file = io.BytesIO(content)
    try:
        if content.startswith(b"PK"):
            # An archive of samples may be much larger than the file.
            sizes = [member.file_size for member in zipfile.ZipFile(file).infolist()]
            if sum(sizes) > _DOCUMENT_BYTES:
                return {}
            file.seek(0)
        loaded = numpy.load(file, allow_pickle=False)
        arrays = {name: loaded} if isinstance(loaded, numpy.ndarray) else dict(loaded)
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error
    return {
        key: array.tolist()
        for key, array in arrays.items()
        if array.ndim == 1 and array.dtype.kind in "fiu"
    }


def json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line, also behind a prefix such as ``:::MLLOG``."""
    start = line.find("{")
    if start >= 0 and line.rstrip().endswith("}"):
        with suppress(ValueError, RecursionError):
            value = json.loads(line[start:])
            return value if isinstance(value, dict) else None
    return None


def flatten_row(row: Row, prefix: str = "") -> dict[str, Any]:
    """Return a row with the values of the tables and short lists in it, named by their paths."""
    values: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}".strip()
        if isinstance(value, dict):
            values |= flatten_row(value, prefix if key in _CONTAINERS else f"{name}/")
        elif isinstance(value, list) and position_kind(name):
            # NVIDIA's DLLogger writes [epoch, step], [epoch], or [] for a summary.
            names = ("epoch", name)[: len(value)]
            values |= dict(zip(names, value, strict=False)) if value else {name: None}
        elif isinstance(value, list) and len(value) <= _MAX_ELEMENTS:
            values |= flatten_row({str(n): element for n, element in enumerate(value)}, f"{name}/")
        else:
            values[name] = value
    return values


def named_value(row: Row) -> Row:
    """Return a row with one metric's name and value, of a long table, as one with that metric."""
    keys = {normalized(key): key for key in row}
    name_key = next((keys[name] for name in _METRIC_NAMES if name in keys), "")
    if not isinstance(row.get(name_key), str) or "value" not in keys:
        return row
    other_values = {
        key: value for key, value in row.items() if key not in (name_key, keys["value"])
    }
    return {**other_values, row[name_key]: row[keys["value"]]}


def _is_row_of_metrics(document: Any) -> bool:
    """Return whether a document is a table of single metrics without a position."""
    if not isinstance(document, dict) or any(isinstance(v, list) for v in document.values()):
        return False
    names = [*flatten_row(document)]
    return not has_position(names) and any(map(is_metric_name, names))


def _rows_in(value: Any, parent: Row) -> Iterator[Row]:
    """Find the rows of a document: tables in a list, or lists of equal length in a table."""
    if isinstance(value, list):
        for element in value:
            if isinstance(element, dict):
                yield {**parent, **element}
    elif isinstance(value, dict):
        if columns := _numbered_columns(value):
            value = columns
        totals = {key: value[key] for key in (*TOTALS, *EPOCH_TOTALS) if key in value}
        lists = {key: item for key, item in value.items() if isinstance(item, list) and item}
        tables = {key: item for key, item in lists.items() if isinstance(item[0], dict)}
        if columns := _columns_of(lists):
            for values in zip(*columns.values(), strict=True):
                yield {**parent, **totals, **dict(zip(columns, values, strict=True))}
        elif tables:
            shared_values = {**parent, **totals}
            yield from _interleave(
                _rows_in(rows, {**shared_values, **({GROUPS[0]: key} if len(tables) > 1 else {})})
                for key, rows in tables.items()
            )
        elif has_position(list(value)):
            yield {**parent, **value}
        elif rows := [*_numbered_rows(value)]:
            yield from ({**parent, **row} for row in rows)
        else:
            yield from _interleave(
                _rows_in(item, {**parent, GROUPS[0]: key})
                for key, item in value.items()
                if isinstance(item, dict)
            )


def _numbered_rows(tables: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the tables of a document by their numbers: ``{"epoch_1": {"loss": 0.5}}``."""
    matches = [_NUMBERED.fullmatch(key) for key in tables]
    for match, row in zip(matches, tables.values(), strict=True):
        if match is None or not isinstance(row, dict) or not any(map(is_metric_name, row)):
            return
        name = match["name"] or EPOCHS[0]
        if position_kind(name):
            yield {name: int(match["number"]), **row}


def _numbered_columns(tables: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a document that numbers the values of each, as pandas writes it."""
    columns = [column for column in tables.values() if isinstance(column, dict)]
    keys = [*columns[0]] if columns else []
    if len(columns) < len(tables) or not all(map(str.isdigit, keys)):
        return {}
    is_table = all([*column] == keys for column in columns) and not any(
        isinstance(value, (dict, list)) for column in columns for value in column.values()
    )
    return {name: [*column.values()] for name, column in tables.items()} if is_table else {}


def _interleave(groups: Iterable[Iterator[Row]]) -> Iterator[Row]:
    """Yield the first row of each group, then the second ones: their steps only grow."""
    for rows in zip_longest(*groups):
        yield from (row for row in rows if row is not None)


def _columns_of(lists: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the lists with a value for each step or epoch.

    Without a list of these, as in the history that many programs keep, the longest ones have a
    value for each epoch if one of them is named as a metric.
    """
    positions = [name for name in lists if has_position([name])]
    is_history = any(is_metric_name(name) for name in lists)
    if not positions and not is_history:
        return {}
    length = len(lists[positions[0]]) if positions else max(map(len, lists.values()))
    columns = {name: values for name, values in lists.items() if len(values) == length}
    return columns if positions else {EPOCHS[0]: list(range(1, length + 1)), **columns}


def split_cells(line: str) -> list[str]:
    """Return the cells of a line in a log: between bars, wide gaps, semicolons or commas."""
    if "|" in line:
        return _fields(line, "|")
    cells = re.split(r"\t|\s{2,}", line.strip())
    delimiter = ";" if ";" in line else ","
    return cells if len(cells) > 1 else _fields(line, delimiter)


def _fields(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if delimiter == "|":
        # Of a table in Markdown, where **0.5** is emphasized.
        line = line.strip().removeprefix("|").removesuffix("|")
        return [field.strip(" *`") for field in line.split("|")]
    with suppress(csv.Error):
        return [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
    return []


def _whole_names(lines_above: Iterable[list[str]], names: list[str]) -> list[str]:
    """Return the names of a header of several lines, such as ``val/loss``.

    Above the header of Excel or pandas a name stands for the blank fields behind it, too.
    """
    if len({*names}) == len(names):
        return names
    columns: list[tuple[str, ...]] = [()] * len(names)
    for fields in lines_above:
        if len(fields) == len(names):
            group = ""
            for index, field in enumerate(fields):
                group = field or group
                columns[index] += (group,)
    return [
        name if position_kind(name) else "/".join(filter(None, (*column, name)))
        for column, name in zip(columns, names, strict=True)
    ]


def _is_row(fields: Sequence[str], column_count: int, delimiter: str | None) -> bool:
    numbers = [number_of(field) for field in fields]
    is_filled = len(numbers) == column_count and any(n is not None for n in numbers)
    return is_filled and (delimiter is not None or None not in numbers)


def _scalar(value: Any) -> float | None:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    numbers = [*tensor.float_val, *tensor.double_val]
    if len(tensor.tensor_content) in (4, 8):
        numbers += struct.unpack(
            "<f" if len(tensor.tensor_content) == 4 else "<d", tensor.tensor_content
        )
    return float(numbers[0]) if len(numbers) == 1 else None


class ForeignFile:
    """File of another program, read from ``offset`` on, and from its start if it was replaced.

    Such a program appends, cuts, replaces or rewrites its file: Lightning writes its CSV again,
    with more columns, when a new metric comes. The bytes read before are therefore compared each
    time. A replaced file has another inode, is shorter than these bytes, or has other first or last
    bytes.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.was_replaced = False
        self._inode: tuple[int, int] | None = None
        self._head = self._tail = b""

    def read(self, limit_bytes: int) -> bytes:
        """Return the bytes after ``offset``, which stays until `advance`.

        Raises:
            OSError: The file cannot be read.
        """
        with self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            inode = (status.st_dev, status.st_ino)
            head = file.read(len(self._head))
            file.seek(self.offset - len(self._tail))
            tail = file.read(len(self._tail))
            if (
                self._inode not in (None, inode)
                or status.st_size < self.offset
                or (head, tail) != (self._head, self._tail)
            ):
                self.was_replaced = True
                self.offset, self._head, self._tail = 0, b"", b""
            self._inode = inode
            file.seek(self.offset)
            return file.read(limit_bytes)

    def advance(self, content: bytes) -> None:
        """Continue after ``content``, with which the bytes of the last `read` begin."""
        if self.offset == len(self._head) < _COMPARED_BYTES:
            self._head = (self._head + content)[:_COMPARED_BYTES]
        self._tail = (self._tail + content)[-_COMPARED_BYTES:]
        self.offset += len(content)

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes, without comparing them later."""
        self.offset, self._tail = self.offset + count, b""
