"""Rows of the text in a log: dictionaries, tables, blocks of names and numbers, and lines.

A table has a line of names with a step or an epoch, and lines with as many cells below. A block has
a name and a number in each line, as Stable-Baselines3 prints them. What is none of these is read as
a line (`backend.training.log_lines`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from backend.records.jobs.log_numbers import LONGEST_LINE, NUMBER, is_metric_name
from backend.training.curve_formats import (
    SERIES,
    TOTAL_NAMES,
    Row,
    flatten_row,
    has_position,
    json_object,
    number_of,
    position_kind,
    split_cells,
)
from backend.training.log_lines import LineReader, has_no_values, has_values, is_split

_BORDERS = str.maketrans(dict.fromkeys("│┃║┆┊┌├└╭╰", "|"))
_RULE = re.compile(r"[-=_+|:*~\s\u2500-\u257f]*")
"""Line between the parts of a table, also an empty one."""
_PREFIX = re.compile(
    r"\A(?:\W{0,3}(?:(?:[DIWEF] )?\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|\d\d/\d\d(?= \d\d:)|(?<=\d )[\w.]+(?=\]: )"
    r"|\b(?:DEBUG|INFO|WARNING)\b|copypaste|(?<=- )[\w.]+(?= -)))+[\]\s:>|-]*"
)
"""Date, time and level of a line that a logger wrote."""
_SERIES = re.compile(
    r"\W*(?:(?:training|starting|start|running|begin|evaluating)\s+)?(?:on\s+)?"
    r"((?:cv[ _-]?)?fold|trial|run|seed|client|agent|replica)\W{0,3}(\d+)\b(?![.%]\d)"
    r"(?:\s*(?:/|of)\s*\d+)?[^\w(\[{+-]*",
    re.IGNORECASE,
)
"""The number of a fold or a trial at the start of a line, for this line and those below it."""
_COUNTED_SERIES = frozenset(("fold", "trial", "run"))
"""Series whose number is a position where there is no other."""
_LABEL = re.compile(
    r"\W{0,3}\[((?:rank|gpu|worker)[ _-]?\d+|[^\W\d_]+(?:[ _-][^\W\d_]+)?)\]:?", re.IGNORECASE
)
"""A word in brackets at the start of a line, such as ``[pretrain]``."""
_END = re.compile(
    r"\b(?:done|finish|complete|end|took|elapsed|time|\d+(?:\.\d+)? ?s(?:ec\w*)?\b)", re.IGNORECASE
)
_TITLE = re.compile(r"(?P<sign>[=#*~-])(?P=sign)+\s*(?P<title>[^\W\d].{0,60}?)[\s=#*~:.-]*")
_MAX_TITLE = 60
_LEVELS = frozenset(("debug", "info", "warning", "warn", "error", "note"))
_NORM = re.compile(r"\|\|(\w+)\|\|")
_BAR = re.compile(r"\s*:?\s*\d+%\|[^|]*\|\s*\d+/\d+.*")
_NAMED_NUMBER = re.compile(
    rf"\|?\s*(?P<name>[^\W\d](?:[^|=:.]|[.:](?=\S)){{0,60}}?)\s*"
    rf"(?P<separator>[|:=]|\.{{2,}}|[·…]+|\s{{2,}}|\t)\s*(?P<number>{NUMBER})"
    r"\s*(?:%|[^\W\d_]{1,4})?\s*\|?",
    re.IGNORECASE,
)
_HAS_NUMBER = re.compile(r"(?<![^\s:=([])[-+−]?\.?\d")
"""A text with a number, which is no name such as ``mAP50-95``."""
_WIDE_GAP = re.compile(r"\S\s{2,}\S")
_FRACTION = re.compile(r"(\d+)\s*/\s*(\d+)")
_SUMMARIES = frozenset(("all", "avg", "average", "mean", "total", "overall", ""))
_FIRST_NAMES = {"E": {"E": "epoch", "#": "step"}, "#": {"#": "step"}, "N": {"N": "step"}}
"""The names of positions that are known by the first name: ``E`` and ``#`` in spaCy's tables."""
_MAX_LABELS = 16
_JSON_VALUES = dict(
    zip(
        ("'", "(", ")", "\\", "nan", "inf", "None", "True", "False"),
        ('"', "[", "]", "\\\\", "NaN", "Infinity", "null", "true", "false"),
        strict=True,
    )
)
"""How JSON writes what Python writes otherwise."""
_CALL = re.compile(r"\b(?:\w+\.)?[a-z]+\d*\(([-+.\de]+|nan|inf)\)")
"""A value as NumPy shows it: ``np.float64(0.5)``."""
_PYTHON_VALUE = re.compile(r"['()\\]|\b(?:nan|inf|None|True|False)\b")


class LogReader:
    """Reads the lines of a log in their order."""

    def __init__(self) -> None:
        self._lines = LineReader()
        self._table = _Table()
        self._columns = _AlignedColumns()
        self._order = _PositionOrder()
        self._block: list[tuple[re.Match[str], str]] = []
        self._is_ruled = False
        self._titles = _Titles()
        self._series = ""
        """The name of the fold or trial whose lines these are."""
        self._group = ""
        """The name above the names of a block, such as ``time/``."""
        self._unsure_blocks: list[Row] = []
        """Blocks outside boxes before one of them is repeated: settings may look like them."""
        self._block_names: set[str] = set()
        """The names in the last block outside a box, when one was repeated."""

    def rows(self, line: str) -> Iterator[Row]:
        """Yield the rows that are complete with this line, without the codes of a terminal.

        A row has no position if it is of a script that has printed none until now.
        """
        if len(line) > LONGEST_LINE:
            return
        line = text = _NORM.sub(r"\1", _PREFIX.sub("", line, count=1))
        if (match := _SERIES.match(text)) is not None:
            yield from self._end_block()
            self._start_series(match[1].casefold(), match[2])
            line = text = text[match.end() :]
        label = ""
        if (match := _LABEL.match(text)) is not None and _is_label(match[1]):
            label, line = match[1], text[match.end() :]
        rows: list[Row] = []
        self._lines.counts = {}
        self._titles.note_line(text)
        for row in self._rows(line):
            if self._titles.note_row(row, self._lines.counts):
                self._series = self._titles.title
            series = self._series if self._lines.has_read_position else ""
            name = "/".join(filter(None, (series, label, row.get(SERIES))))
            rows.append({**row, SERIES: name} if name else row)
        yield from self._order.rows(rows, self._lines.counts, bool(rows or _END.search(text)))

    def _start_series(self, name: str, number: str) -> None:
        """Note that the next lines are of another fold or trial, until one has another number."""
        self._series = f"{name} {number}"
        if not self._lines.has_read_position and name in _COUNTED_SERIES:
            self._lines.position = {"step": float(number)}

    def _rows(self, line: str) -> Iterator[Row]:
        text = line.translate(_BORDERS)
        if _RULE.fullmatch(text):
            yield from self._end_block()
            self._table.end_header()
            self._is_ruled = bool(text.strip())
            return
        text = _BAR.sub("", text).strip()
        row = (
            self._dictionary(line)
            or self._table.row(text, line, has_position=bool(self._position))
            or self._columns.row(line, self._position)
        )
        if row:
            yield from self._end_block()
            yield self._positioned(row)
            return
        match = _NAMED_NUMBER.fullmatch(text)
        if match is not None and not _HAS_NUMBER.search(match["name"]):
            yield from self._add_to_block(match)
            return
        cells = split_cells(text)
        if len(cells) == 2 and cells[0].endswith("/") and not cells[1]:
            self._group = cells[0]
            return
        self._is_ruled = False
        yield from self._end_block()
        if not self._table.note_header(cells, line) and (row := self._lines.read(line)):
            if self._lines.has_read_position:
                self._unsure_blocks.clear()
            yield row

    @property
    def first_leads(self) -> Mapping[str, str]:
        """The text before the first values of each name of which other lines are series."""
        return {**self._titles.first_titles, **self._lines.first_leads}

    @property
    def _position(self) -> Mapping[str, float]:
        return self._lines.position

    def _dictionary(self, line: str) -> Row:
        """Return the dictionary in a line, as JSON or Python's, if it has metrics.

        Its epoch may be before it.
        """
        row = dictionary_in(line)
        if row:
            self._lines.read(line[: line.index("{")])
        numbers = {n: v for n, v in row.items() if isinstance(v, str) or number_of(v) is not None}
        has_other_position = any(map(position_kind, row.keys() - numbers.keys()))
        is_row = has_position(list(numbers)) or any(map(is_metric_name, numbers))
        if has_other_position or not is_row:
            return {}
        return {n: v for n, v in numbers.items() if position_kind(n) or not has_no_values(n)}

    def _positioned(self, row: Row) -> Row:
        """Return a row with the position of those before it; note its own."""
        positions: dict[str, float] = {}
        for name, value in row.items():
            kind, number = position_kind(name), number_of(value)
            if kind and number is not None:
                positions.setdefault(kind, number)
        if "epoch" in positions or (positions and "epoch" not in self._position):
            self._lines.position = self._lines.counts = positions
            if "epoch" in positions:
                self._lines.position = {"epoch": positions["epoch"]}
        is_within = "step" not in positions and positions.get("epoch", 0) % 1
        flags = {"is_within_epoch": 1.0} if is_within else {}
        outer_position = {k: v for k, v in self._position.items() if k not in positions}
        return {**outer_position, **flags, **row}

    def _add_to_block(self, match: re.Match[str]) -> Iterator[Row]:
        """Add a name and a number to the block; yield the block that ends before them.

        Behind a line such as ``Epoch 3`` nothing has to wait for the step that a block says.
        """
        name = self._group + match["name"].strip(" <>≤≥~≈")
        if any(name == other_name for _, other_name in self._block):
            yield from self._end_block()
            name = match["name"].strip()
        if self._lines.has_read_position and not self._block:
            if row := self._line_row(match, name):
                yield row
            return
        self._block.append((match, name))
        if self._block_names and self._block_names <= {name for _, name in self._block}:
            yield from self._end_block()

    def end(self) -> Iterator[Row]:
        """Yield the rows of the lines until now that may belong to the next one."""
        yield from self._end_block()
        yield from self._order.end()

    def _end_block(self) -> Iterator[Row]:
        block, self._block, self._group = self._block, [], ""
        numbers: Row = {name: match["number"] for match, name in block}
        position_names = [name for name in numbers if position_kind(name)]
        is_boxed = any("|" in match.string for match, _ in block)
        if not position_names or (not is_boxed and len(block) == 1):
            for match, name in block:
                if row := self._line_row(match, name):
                    yield row
        elif is_boxed:
            yield self._positioned(numbers)
        else:
            yield from self._unboxed_rows(numbers, position_names)

    def _unboxed_rows(self, numbers: Row, position_names: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of a block outside a box, and of those before it."""
        self._unsure_blocks.append(numbers)
        if self._block_names or any(
            block.get(name, numbers[name]) != numbers[name]
            for block in self._unsure_blocks
            for name in position_names
        ):
            self._block_names = {*numbers}
            yield from map(self._positioned, self._unsure_blocks)
            self._unsure_blocks.clear()

    def _line_row(self, match: re.Match[str], name: str) -> Row:
        """Return the row of a line with a name and a number in a block without a position."""
        is_table = match["separator"] not in (":", "=") and not position_kind(name)
        is_boxed = self._is_ruled or "|" in match.string
        if is_table and (is_metric_name(name) or is_boxed) and not has_no_values(name):
            return {**self._position, name: match["number"]}
        return self._lines.read(match.string)


class _Titles:
    """Titles of the sections of a log, such as the models that one script trains.

    A title is between rules of signs, or below one; it is that of a series if the first position of
    the log comes again below it.

    Attributes:
        title: The newest one.
        first_titles: That of the first section for each name in it, if there is another section.
    """

    def __init__(self) -> None:
        self.title = ""
        self.first_titles: dict[str, str] = {}
        self._is_below_rule = False
        self._first_title = self._series_title = ""
        self._first_position: Mapping[str, float] = {}
        self._first_names: set[str] = set()

    def note_line(self, text: str) -> None:
        """Note a line, which may be a title; an empty one and a rule may be above it."""
        text = text.strip()
        if not text or _RULE.fullmatch(text):
            self._is_below_rule |= len(text) > 2
            return
        match = _TITLE.fullmatch(text)
        is_title = match is not None or (self._is_below_rule and len(text) <= _MAX_TITLE)
        self._is_below_rule = False
        title = match["title"] if match is not None else text.rstrip(" .:")
        if is_title and title[:1].isalpha() and "|" not in title and not has_values(title):
            self.title = title

    def note_row(self, row: Row, position: Mapping[str, float]) -> bool:
        """Return whether another section begins with a row that has this position in its line."""
        if position and not self._first_position:
            self._first_position, self._first_title = dict(position), self.title
            self._series_title = self.title
        is_start = bool(position) and position == self._first_position
        if is_start and self.title != self._series_title:
            self._series_title = self.title
            self.first_titles |= dict.fromkeys(self._first_names, self._first_title)
            return True
        if self._series_title == self._first_title:
            self._first_names.update(row)
        return False


_MAX_EARLY_ROWS = 100


class _PositionOrder:
    """Finds out whether a program prints an epoch or a step above its values, or below them.

    Below is where values come before the first position, where the same ones come before the
    second, and where both lines look like an end: with values of their own, or ``Epoch 1 done``.
    """

    def __init__(self) -> None:
        self._first_position: Mapping[str, float] = {}
        self._early_rows: list[Row] = []
        """The rows before the first position, and then those before the second."""
        self._later_rows: list[Row] = []
        self._is_below: bool | None = None

    def rows(self, rows: list[Row], position: Mapping[str, float], is_end: bool) -> Iterator[Row]:
        """Yield the rows whose position is known.

        Args:
            rows: Those of a line.
            position: That in the line itself, {} if it has none.
            is_end: The line may be the last one at its position.
        """
        if self._is_below is False:
            yield from rows
        elif not position:
            if self._first_position:
                self._later_rows += rows
            else:
                self._early_rows += rows
                self._is_below = None if len(self._early_rows) < _MAX_EARLY_ROWS else False
                yield from rows
        else:
            if self._is_below is None and not self._first_position:
                self._first_position = dict(position)
                self._is_below = None if self._early_rows and is_end else False
            elif self._is_below is None and position != self._first_position:
                is_repeated = _names_in(self._early_rows) == _names_in(self._later_rows)
                self._is_below = is_end and is_repeated
                early_rows = self._early_rows if self._is_below else []
                yield from ({**row, **self._first_position} for row in early_rows)
            yield from self._rows_below(position)
            yield from rows

    def _rows_below(self, position: Mapping[str, float]) -> Iterator[Row]:
        if self._is_below is not None:
            rows, self._later_rows = self._later_rows, []
            yield from ({**row, **position} if self._is_below else row for row in rows)

    def end(self) -> Iterator[Row]:
        rows, self._later_rows = self._later_rows, []
        yield from rows


def _names_in(rows: Sequence[Row]) -> set[str]:
    return {name for row in rows for name in row if not (name == SERIES or position_kind(name))}


class _Table:
    """The table to which the lines of a log may belong."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._header_line = ""
        self._is_header_open = False
        self._labels: set[str] = set()

    def note_header(self, cells: Sequence[str], line: str) -> bool:
        """Return whether the cells of a line are names, alone or below those of the line before."""
        if any(map(_HAS_NUMBER.search, cells)):
            self._is_header_open = False
            return False
        if len(cells) == 1:
            words = cells[0].split()
            cells = words if has_position(words) and any(map(is_metric_name, words)) else cells
        if self._is_header_open and len(cells) == len(self._names):
            self._names = [
                f"{name} {cell}".strip() for name, cell in zip(self._names, cells, strict=True)
            ]
            return True
        aliases = _FIRST_NAMES.get(cells[0], {}) if len(cells) > 2 else {}
        names = [aliases.get(cell, cell) for cell in cells]
        has_metric = len(names) > 2 and any(map(is_metric_name, names))
        is_header = has_metric or (
            len(names) > 1 and (has_position(names) or all(map(is_split, names)))
        )
        if is_header:
            self._names, self._is_header_open, self._labels = names, True, set()
            self._header_line = line
        return is_header

    def end_header(self) -> None:
        self._is_header_open = False

    def row(self, text: str, line: str, *, has_position: bool) -> Row:
        """Return the row in a line, {} if it is none.

        Args:
            text: The line without a logger's prefix and a progress bar.
            has_position: Lines before had an epoch or a step, for rows without one.
        """
        names, cells = self._names, split_cells(text)
        if len(cells) == len(names) + 1 > 2:
            # A column of labels needs no name.
            names = ["", *names]
        elif len(cells) == len(names) > 1 and _is_label_unnamed(self._header_line, line, cells):
            names = ["", *names[:-1]]
        elif len(cells) != len(names) and any(map(position_kind, names)):
            cells = text.split()
            if len(cells) < len(names) and "|" not in line:
                cells = _cells_below(self._header_line, names, line)
        if not names or len(cells) != len(names):
            return {}
        row: dict[str, str] = {}
        for name, cell in zip(names, cells, strict=True):
            row |= _values_in(name, cell)
        values = {n: v for n, v in row.items() if not position_kind(n) and not has_no_values(n)}
        if all(number_of(value) is None for value in values.values()):
            return {}
        is_first, self._is_header_open = self._is_header_open, False
        positions = {name: row[name] for name in row if position_kind(name)}
        if positions:
            return self._with_totals(positions, values)
        label = cells[0]
        is_delimited = "," in text or "|" in text
        if is_first and has_position and is_delimited and _are_numbers(cells):
            return values
        self._labels.add(label)
        if not has_position or number_of(label) is not None or len(self._labels) > _MAX_LABELS:
            return {}
        prefix = "" if label.casefold() in _SUMMARIES else f"{label}/"
        return {prefix + name: value for name, value in values.items()}

    def _with_totals(self, positions: Mapping[str, str], values: Row) -> Row:
        """Return a row whose position may have a total, such as ``3/10``."""
        row: dict[str, Any] = dict(values)
        for name, cell in positions.items():
            fraction = _FRACTION.fullmatch(cell)
            if fraction is None and number_of(cell) is None:
                return {}
            row[name] = fraction[1] if fraction is not None else cell
            if fraction is not None:
                row[TOTAL_NAMES[position_kind(name)]] = fraction[2]
        return row


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(number_of(cell) is not None for cell in cells)


def _values_in(name: str, cell: str) -> dict[str, str]:
    """Return the values of a cell by name; those of a list such as ``[0.5, 0.25]`` are numbered."""
    numbers = re.split(r",\s*|\s+", cell[1:-1]) if cell[:1] == "[" and cell[-1:] == "]" else [cell]
    names = [f"{name}/{index}" for index in range(len(numbers))] if len(numbers) > 1 else [name]
    return dict(zip(names, numbers, strict=True))


def _is_label(text: str) -> bool:
    """Return whether a word in brackets names the part of a program, such as ``pretrain``."""
    return not is_split(text) and text.casefold() not in _LEVELS


def _is_label_unnamed(header: str, line: str, cells: Sequence[str]) -> bool:
    """Return whether the names begin above the second column, and the last column is empty."""
    if "|" in line or number_of(cells[0]) is not None:
        return False
    ends = [match.end() for match in re.finditer(r"\S+", header)]
    second_end = line.find(cells[1], len(cells[0])) + len(cells[1])
    return len(ends) > 1 and abs(ends[0] - second_end) < abs(ends[1] - second_end)


def _cells_below(header: str, names: Sequence[str], line: str) -> list[str]:
    """Return the cells of a line by the name above each, "" where a column is empty."""
    starts = [0]
    for name in names:
        starts.append(header.find(name, starts[-1]) + len(name))
    cells = ["" for _ in names]
    for match in re.finditer(r"\S+", line):
        distances = [abs(match.end() - end) for end in starts[1:]]
        index = distances.index(min(distances))
        if cells[index]:
            return []
        cells[index] = match[0]
    return cells


class _AlignedColumns:
    """Numbers below a line of names, such as the energies at a step of a simulation.

    The values at a step are the first below these names: at the end come averages.
    """

    def __init__(self) -> None:
        self._line_above = ""
        self._position: Mapping[str, float] = {}
        self._read_names: set[tuple[str, ...]] = set()

    def row(self, line: str, position: Mapping[str, float]) -> Row:
        """Return the row in a line, {} if it is none.

        Args:
            position: That of the lines before, for rows without one.
        """
        line_above, self._line_above = self._line_above, line
        numbers = line.split()
        if len(numbers) < 2 or any(number_of(number) is None for number in numbers):
            return {}
        names = _names_above(line_above, line)
        if not names or not (position or has_position(names)):
            return {}
        if position != self._position:
            self._position, self._read_names = dict(position), set()
        if tuple(names) in self._read_names:
            return {}
        if not has_position(names):
            self._read_names.add(tuple(names))
        row = dict(zip(names, numbers, strict=True))
        return {n: v for n, v in row.items() if position_kind(n) or not has_no_values(n)}


def _names_above(line: str, numbers: str) -> list[str]:
    """Return the name above each number, right or left aligned with it; [] if this is no header."""
    if _HAS_NUMBER.search(line) or not _WIDE_GAP.search(line):
        return []
    spans = [match.span() for match in re.finditer(r"\S+", numbers)]
    for edges in ([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(line)]):
        names = [line[start:end].strip() for start, end in pairwise(edges)]
        is_cut = any(line[edge - 1 : edge + 1].strip(" ")[1:] for edge in edges[1:-1])
        if all(names) and not is_cut and not line[edges[-1] :].strip():
            return names
    return []


def dictionary_in(line: str) -> dict[str, Any]:
    """Return the dictionary of JSON or Python at the end of a line, {} if there is none."""
    row = json_object(line)
    if row is None:
        line = _CALL.sub(r"\1", line)
        row = json_object(_PYTHON_VALUE.sub(lambda match: _JSON_VALUES[match[0]], line))
    return flatten_row(row) if row is not None else {}
