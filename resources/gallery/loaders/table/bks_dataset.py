"""Reads a table of features: a row for each sample, one column is the target.

The files are CSV or TSV (.csv, .tsv, .txt, also gzipped) or Parquet. Files named train, val or
test, or in folders of these names, are the training and the validation set; otherwise rows are
drawn for validation.
"""

import contextlib
import csv
import functools
import gzip
import io
import os
import re

import numpy
import torch
from cells import NO_NUMBER, NO_VALUE, NUMBER, Format, format_of, sign_of
from notes import Notes
from splits import divide, files, part_of

TARGET = ""
TASK = "auto"
LEAVE_OUT = ""
DELIMITER = "auto"
DECIMAL = "auto"
DATES = "auto"
TEXTS = ""
HEADER = "auto"
MISSING = "stop"
SCALE = "standard"
VALIDATION_SHARE = 0.2
SEED = 1

DELIMITERS = {"tab": "\t", "semicolon": ";", "bar": "|", "comma": ",", "space": " "}
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")
OTHER_FILE = re.compile(r"(readme|licen[cs]e|\.names)[^/]*$", re.IGNORECASE)
MOST_TEXTS = MOST_CLASSES = 50


class UserDataset(torch.utils.data.Dataset):
    """The rows to train on: the features as a vector, and a class or a number."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        self.table = read_once(folder)
        if self.table.classes:
            self.classes = self.table.classes
        held = enumerate(self.table.is_validation)
        rows = [row for row, is_held in held if is_held is self.is_validation]
        self.features = torch.from_numpy(self.table.features[rows])
        self.targets = torch.from_numpy(self.table.targets[rows])
        self.value_columns = self.table.value_columns
        self.reading_notes = Notes(self.table.notes)
        if self.table.classes:
            self.reading_notes.add_missing(self.classes, set(self.targets.tolist()))

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[index], self.targets[index]

    def read(self, path: str) -> torch.Tensor:
        """The features in the first row of a file: for "Try it"."""
        return torch.from_numpy(self.table.features_of(path)[0])


class UserValDataset(UserDataset):
    """The rows that the model never trains on."""

    is_validation = True


class Table:
    """All rows of the files.

    Attributes:
        names: Of the columns of features.
        features: A row of 32-bit numbers for each sample.
        targets: The number of a class, or a vector of one number.
        classes: The names of the classes; empty if the target is a number.
        is_validation: For each row; None: it is in neither set.
        value_columns: Name, offset and factor of each number of the data and of the target.
    """

    def __init__(self, folder: str) -> None:
        self.notes = Notes()
        tables = read_folder(folder, self.notes)
        first, self.names, _, _ = tables[0]
        for path, names, _, _ in tables:
            if names != self.names:
                raise ValueError(
                    f"{path} has other columns than {first}: {named(names)} and not "
                    f"{named(self.names)}"
                )
        together = zip(*(columns for _, _, columns, _ in tables), strict=True)
        columns = [[cell for cells in parts for cell in cells] for parts in together]
        places = [place for table in tables for place in table[3]]
        parts = [part_of(path) for path, _, _, places in tables for _ in places]
        of_target = self.columns_to_use(columns, first)
        self.formats = self.formats_of(columns, [*self.chosen, of_target])
        keep = self.rows_to_use(columns, places, of_target)
        columns = [[column[row] for row in keep] for column in columns]
        self.targets, self.classes = self.target_of(columns[of_target], self.formats[of_target])
        labels = self.targets.tolist() if self.classes else [0] * len(keep)
        parts = [parts[row] for row in keep]
        self.is_validation = divide(parts, labels, VALIDATION_SHARE, SEED)
        self.notes.add_unused([places[row] for row in keep], self.is_validation, "row")
        is_training = numpy.array([held is False for held in self.is_validation])
        if not is_training.any():
            raise ValueError("no row for training has all values")
        self.encoders = [
            Encoder(self.names[n], columns[n], self.formats[n], is_training) for n in self.chosen
        ]
        self.features = encode(self.encoders, [columns[n] for n in self.chosen])
        own = [column for encoder in self.encoders for column in encoder.value_columns]
        target = [] if self.classes else [(self.names[of_target], 0.0, 1.0)]
        self.value_columns = {"data": own, "target": target}

    def formats_of(self, columns: list[list[str]], used: list[int]) -> dict[int, Format]:
        """How each used column is read; note what its cells alone do not say."""
        decimal = sign_of([columns[n] for n in used])
        decimal = {"point": ".", "comma": ","}.get(DECIMAL, decimal)
        formats = {}
        texts = names_in(TEXTS)
        for n in used:
            try:
                is_text = self.names[n] in texts
                formats[n] = Format("texts") if is_text else format_of(columns[n], decimal, DATES)
            except ValueError as error:
                raise ValueError(f"the column “{self.names[n]}”: {error}") from error
        for note in sorted({form.note for form in formats.values()} - {""}):
            alike = [self.names[n] for n, form in formats.items() if form.note == note]
            self.notes.add(note, alike, "column")
        kept = [
            f"{cell} in {self.names[n]}"
            for n, form in formats.items()
            if form.kind == "texts"
            for cell in columns[n]
            if cell.casefold() in NO_NUMBER - NO_VALUE
        ]
        self.notes.add("Read as texts, not as missing values", kept, "value")
        return formats

    def columns_to_use(self, columns: list[list[str]], path: str) -> int:
        """Choose the columns of features; return the place of the target."""
        has_values = [any(cell.casefold() not in NO_NUMBER for cell in one) for one in columns]
        counts_rows = self.names[0] == "" and columns[0] == [
            str(int(columns[0][0]) + row) if columns[0][0].isdecimal() else ""
            for row in range(len(columns[0]))
        ]
        used = [n for n, has in enumerate(has_values) if has and not (n == 0 and counts_rows)]
        leave_out = names_in(LEAVE_OUT)
        for name in [*leave_out, *names_in(TEXTS), *([TARGET] if TARGET else [])]:
            if name not in self.names:
                raise ValueError(f"there is no column “{name}”: there are {named(self.names)}")
        unused = [self.names[n] or "(index)" for n in range(len(columns)) if n not in used]
        self.notes.add("Left out, because they are empty or count the rows", unused, "column")
        used = [n for n in used if self.names[n] not in leave_out]
        if TARGET and self.names.index(TARGET) not in used:
            raise ValueError(f"the target column “{TARGET}” is left out, or has no values")
        if len(used) < 2:
            raise ValueError(
                f"{os.path.basename(path)} has {len(used)} column(s) with values, but features and "
                "a target need two or more; check what is between columns"
            )
        of_target = self.names.index(TARGET) if TARGET else used[-1]
        self.chosen = [n for n in used if n != of_target]
        return of_target

    def rows_to_use(self, columns: list[list[str]], places: list[str], of_target: int) -> list[int]:
        """Choose the rows by what is missing."""
        used = [*self.chosen, of_target]
        is_empty = numpy.array([self.is_missing(n, columns[n]) for n in used])
        if MISSING == "stop" and is_empty.any():
            column, row = (found[0] for found in numpy.nonzero(is_empty))
            names = [f"“{self.names[n]}”" for n in self.chosen] + ["the target"]
            raise ValueError(
                f"{places[row]}: {names[column]} has no value ({is_empty.sum()} are missing in "
                'all); set missing to "leave row out" or "mean"'
            )
        lacks = is_empty[-1] if MISSING == "mean" else is_empty.any(0)
        keep = numpy.flatnonzero(~lacks).tolist()
        dropped = [places[row] for row in numpy.flatnonzero(lacks)]
        self.notes.add("Left out, because a value is missing", dropped, "row")
        filled = [self.names[used[n]] for n in numpy.nonzero(is_empty[:, keep])[0]]
        self.notes.add("Missing, so the mean of the column is used", filled, "value")
        if len(keep) < 2:
            raise ValueError(f"{len(keep)} row(s) have all values, but two or more are needed")
        return keep

    def is_missing(self, column: int, cells: list[str]) -> list[bool]:
        no_value = NO_VALUE if self.formats[column].kind == "texts" else NO_NUMBER
        return [cell.casefold() in no_value for cell in cells]

    def target_of(self, cells: list[str], form: Format) -> tuple[numpy.ndarray, list[str]]:
        values = None if form.kind == "texts" else numbers(cells, form)
        if TASK == "numbers" and values is None:
            text = next(cell for cell in cells if not NUMBER.fullmatch(cell))
            raise ValueError(f"the target is not a number everywhere: “{text}”")
        if values is not None:
            is_whole = numpy.isfinite(values).all() and (values == values.round()).all()
            count = len(set(values))
            are_few = count <= MOST_CLASSES and 2 * count <= len(values)
            if TASK == "numbers" or (TASK == "auto" and not (is_whole and are_few)):
                return values.astype(numpy.float32)[:, None], []
            if is_whole:
                found, classes = numpy.unique(values, return_inverse=True)
                return classes.astype(numpy.int64), [str(int(value)) for value in found]
        texts, classes = numpy.unique(cells, return_inverse=True)
        return classes.astype(numpy.int64), texts.tolist()

    def features_of(self, path: str) -> numpy.ndarray:
        names, columns, _ = read_table(path, HEADER)
        wanted = [self.names[n] for n in self.chosen]
        if set(wanted) <= set(names) and len(set(wanted)) == len(wanted):
            cells = [columns[names.index(name)] for name in wanted]
        elif len(columns) == len(self.names):
            cells = [columns[n] for n in self.chosen]
        elif len(columns) == len(wanted):
            cells = columns
        else:
            raise ValueError(f"the file has {len(columns)} columns, and not {named(wanted)}")
        return encode(self.encoders, cells)


class Encoder:
    """Makes numbers of a column: one, or for texts one for each text."""

    def __init__(
        self, name: str, cells: list[str], form: Format, is_training: numpy.ndarray
    ) -> None:
        self.name = name
        self.form = form
        self.texts: list[str] = []
        if form.kind == "texts":
            self.texts = sorted({cell for cell in cells if cell.casefold() not in NO_VALUE})
            if len(self.texts) > MOST_TEXTS:
                raise ValueError(
                    f"the column “{name}” has {len(self.texts)} different texts, such as "
                    f"“{self.texts[-1][:40]}”: leave it out, or write its numbers in one way"
                )
            self.value_columns = [(f"{name} = {text}", 0.0, 1.0) for text in self.texts]
            return
        values = numbers(cells, form)
        seen = values[is_training & numpy.isfinite(values)]
        self.mean = seen.mean() if len(seen) else 0.0
        self.scale = (seen.std() if len(seen) else 0.0) or 1.0
        offset, factor = (self.mean, self.scale) if SCALE == "standard" else (0.0, 1.0)
        self.value_columns = [(name, float(offset), float(factor))]

    def encode(self, cells: list[str]) -> numpy.ndarray:
        if self.texts:
            return numpy.array([[cell == text for text in self.texts] for cell in cells], "float64")
        try:
            values = numbers(cells, self.form)
        except ValueError as error:
            raise ValueError(f"{error} in the column “{self.name}”") from error
        values = numpy.where(numpy.isnan(values), self.mean, values)
        if SCALE == "standard":
            values = (values - self.mean) / self.scale
        return values[:, None]


@functools.lru_cache(maxsize=1)
def read_once(folder: str) -> Table:
    """The table, which training and validation have in common."""
    return Table(folder)


def encode(encoders: list[Encoder], columns: list[list[str]]) -> numpy.ndarray:
    parts = [one.encode(cells) for one, cells in zip(encoders, columns, strict=True)]
    return numpy.concatenate(parts, axis=1).astype(numpy.float32)


def read_folder(
    folder: str, notes: Notes
) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """The tables with the same columns, those for training first: path and what is in it."""
    found = [path for path in files(folder, *ENDINGS) if not OTHER_FILE.search(path)]
    found = [path for path in found if ".txt" not in path.lower()] or found
    if not found:
        raise ValueError("the dataset has no CSV, TSV or Parquet file; this loader reads tables")
    training = [path for path in found if part_of(path) == "training"]
    held = [path for path in found if part_of(path) in ("validation", "test")]
    training = training or [path for path in found if path not in held] or held
    tables = [(path, *read_table(os.path.join(folder, path))) for path in training]
    others = []
    for path in held if held != training else []:
        table = (path, *read_table(os.path.join(folder, path)))
        # A test file without the target, as in competitions, cannot measure.
        if table[1] == tables[0][1] or part_of(path) == "validation":
            tables.append(table)
        else:
            others.append(path)
    notes.add("Left out, because they have other columns", others, "file")
    return tables


def read_table(path: str, header: str = HEADER) -> tuple[list[str], list[list[str]], list[str]]:
    """Names of the columns, the columns as texts, and the place of each row for messages."""
    file = os.path.basename(path)
    if path.lower().endswith(".parquet"):
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.read_table(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{file} cannot be read: {error}") from error
        cells = [["" if v is None else str(v) for v in one.to_pylist()] for one in table.columns]
        if not table.num_rows or not cells:
            raise ValueError(f"{file} has no rows")
        return table.column_names, cells, [f"{file}, row {n}" for n in range(1, len(cells[0]) + 1)]
    text = text_of(path)
    reader = csv.reader(
        io.StringIO(text, newline=None), delimiter=delimiter_of(text), skipinitialspace=True
    )
    rows, places = [], []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                places.append(f"{file}, line {reader.line_num}")
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num}: {error}") from error
    if not rows:
        raise ValueError(f"{file} is empty")
    for row, place in zip(rows, places, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(f"{place} has {len(row)} columns, and the first has {len(rows[0])}")
    has_names = header == "yes" or (header == "auto" and is_header(rows))
    names = rows[0] if has_names else [f"column {n}" for n in range(1, len(rows[0]) + 1)]
    rows, places = rows[has_names:], places[has_names:]
    if not rows:
        raise ValueError(f"{file} has a header and no rows")
    return names, [list(column) for column in zip(*rows, strict=True)], places


def text_of(path: str) -> str:
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise ValueError(f"{os.path.basename(path)} is cut off or damaged: {error}") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def delimiter_of(text: str) -> str:
    """The delimiter that divides the first lines into equally many columns, two or more."""
    if DELIMITER != "auto":
        return DELIMITERS[DELIMITER]
    lines = [line.strip(" ") for line in text[:100_000].splitlines()[:50] if line.strip()]
    if len(text) > 100_000 and len(lines) < 50:
        lines = lines[:-1]
    for delimiter in DELIMITERS.values():
        counts = {len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)}
        if len(counts) == 1 and counts != {1}:
            return delimiter
    return max(DELIMITERS.values(), key=lines[0].count) if lines else ","


def is_header(rows: list[list[str]]) -> bool:
    """Whether the first row has no number, and is over numbers or has texts of its own."""
    first, below = rows[0], rows[1:]
    if any(NUMBER.fullmatch(cell) for cell in first):
        return False
    if not below or any(NUMBER.fullmatch(cell) for row in below for cell in row):
        return True
    return all(
        cell not in column for cell, column in zip(first, zip(*below, strict=True), strict=True)
    )


def numbers(cells: list[str], form: Format) -> numpy.ndarray:
    """The numbers of a column, NaN where one is missing."""
    if form.decimal == "." and not form.unit and form.kind == "numbers":
        with contextlib.suppress(ValueError):  # Of missing values, or of thousands.
            return numpy.array(cells).astype(numpy.float64)
    return numpy.array([form.parse(cell) for cell in cells])


def names_in(setting: str) -> list[str]:
    return [name.strip() for name in setting.split(",") if name.strip()]


def named(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
