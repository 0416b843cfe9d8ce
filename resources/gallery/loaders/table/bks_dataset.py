"""Reads a table of features: a row for each sample, one column is the target.

The files are CSV or TSV (.csv, .tsv, .tab, .data, .txt, also gzipped) or Parquet. Files named
train, val or test, with these suffixes or in folders of these names, are the training and the
validation set; otherwise rows are drawn for validation.
"""

import functools
import os
import re

import numpy
import torch
from cells import (
    MISSING_NUMBERS,
    MISSING_VALUES,
    NOT_ALIKE,
    NUMBER,
    Format,
    format_of,
    like_pairs,
    sign_of,
)
from labels import PictureNames, choose_target, is_candidate, used_columns
from notes import Notes
from splits import SET_TABLES, TABLE_SUFFIXES, divide, files, part_of
from tables import join_names, numbered_names, numbers, read_table, target_of

TARGET = ""
TASK = "auto"
LEAVE_OUT = ""
DELIMITER = "auto"
DECIMAL = "auto"
DATES = "auto"
TEXTS = ""
HEADER = "auto"
MISSING = "stop"
MISSING_MARKS = ""
SCALE = "standard"
VALIDATION_SHARE = 0.2
SEED = 1

OTHER_FILE = re.compile(r"(readme|licen[cs]e|\.names)[^/]*$", re.IGNORECASE)
TEXT_LIMIT = 50


class UserDataset(torch.utils.data.Dataset):
    """The rows to train on: the features as a vector, and a class or a number."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        self.table = read_once(folder)
        if self.table.classes:
            self.classes = self.table.classes
        membership = enumerate(self.table.is_validation)
        rows = [row for row, is_held in membership if is_held is self.is_validation]
        self.features = torch.from_numpy(self.table.features[rows])
        self.targets = torch.from_numpy(self.table.targets[rows])
        self.value_columns = self.table.value_columns
        self.table_preparation = self.table.preparation
        self.reading_notes = Notes(self.table.notes)
        if self.table.classes:
            self.reading_notes.add_missing(self.classes, set(self.targets.tolist()))

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[index], self.targets[index]

    def read(self, path: str) -> torch.Tensor:
        """The features in the first row of a file: for "Try it"."""
        return self.read_all(path)[0]

    def read_all(self, path: str) -> torch.Tensor:
        """The features in each row of a file."""
        return torch.from_numpy(self.table.features_of(path))


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
        preparation: How features are made of the cells of a row, for the program of an export.
    """

    def __init__(self, folder: str) -> None:
        self.notes = Notes()
        tables, self.test_names = read_folder(folder, self.notes)
        first_path, self.names, _, _ = tables[0]
        for path, names, _, _ in tables:
            if names != self.names:
                raise ValueError(
                    f"{path} has other columns than {first_path}: {join_names(names)} and not "
                    f"{join_names(self.names)}"
                )
        column_parts = zip(*(columns for _, _, columns, _ in tables), strict=True)
        columns = [unmarked([c for cells in parts for c in cells]) for parts in column_parts]
        row_labels = [row_label for table in tables for row_label in table[3]]
        parts = [part_of(path) for path, _, _, row_labels in tables for _ in row_labels]
        target_column = self.find_target(columns, folder, len(tables))
        self.formats = self.formats_of(columns, [*self.feature_columns, target_column])
        kept_rows = self.complete_rows(columns, row_labels, target_column)
        columns = [[column[row] for row in kept_rows] for column in columns]
        self.targets, self.classes = target_of(
            columns[target_column], self.formats[target_column], TASK, self.notes
        )
        labels = self.targets.tolist() if self.classes else [0] * len(kept_rows)
        parts = [parts[row] for row in kept_rows]
        self.is_validation = divide(parts, labels, VALIDATION_SHARE, SEED)
        self.notes.add_unused([row_labels[row] for row in kept_rows], self.is_validation, "row")
        is_training = numpy.array([is_held is False for is_held in self.is_validation])
        if not is_training.any():
            raise ValueError("no row for training has all values")
        self.encoders = [
            Encoder(self.names[n], columns[n], self.formats[n], is_training)
            for n in self.feature_columns
        ]
        self.features = encode(self.encoders, [columns[n] for n in self.feature_columns])
        data_columns = [column for encoder in self.encoders for column in encoder.value_columns]
        target = [] if self.classes else [(self.names[target_column], 0.0, 1.0)]
        self.value_columns = {"data": data_columns, "target": target}
        self.preparation = {
            "columns": [encoder.preparation for encoder in self.encoders],
            "missing": sorted({*MISSING_NUMBERS, *map(str.casefold, names_in(MISSING_MARKS))}),
        }

    def formats_of(self, columns: list[list[str]], column_numbers: list[int]) -> dict[int, Format]:
        """How each used column is read; note what its cells alone do not say."""
        decimal = sign_of([columns[n] for n in column_numbers])
        decimal = {"point": ".", "comma": ","}.get(DECIMAL, decimal)
        formats = {}
        texts = names_in(TEXTS)
        for n in column_numbers:
            try:
                is_text = self.names[n] in texts
                formats[n] = Format("texts") if is_text else format_of(columns[n], decimal, DATES)
            except ValueError as error:
                raise ValueError(f"the column “{self.names[n]}”: {error}") from error
        for note in sorted({form.note for form in formats.values()} - {""}):
            column_names = [self.names[n] for n, form in formats.items() if form.note == note]
            self.notes.add(note, column_names, "column")
        pairs = [
            f"{' and '.join(pair)} in {self.names[n]}"
            for n in self.feature_columns
            if formats[n].kind == "texts"
            for pair in like_pairs(columns[n])
        ]
        self.notes.add(NOT_ALIKE, pairs, "text")
        text_values = [
            f"{cell} in {self.names[n]}"
            for n, form in formats.items()
            if form.kind == "texts"
            for cell in columns[n]
            if cell.casefold() in MISSING_NUMBERS - MISSING_VALUES
        ]
        self.notes.add("Read as texts, not as missing values", text_values, "value")
        return formats

    def find_target(self, columns: list[list[str]], folder: str, table_count: int) -> int:
        """Choose the columns of features; return the index of the target."""
        leave_out = names_in(LEAVE_OUT)
        for name in [*leave_out, *names_in(TEXTS), *([TARGET] if TARGET else [])]:
            if name not in self.names:
                raise ValueError(f"there is no column “{name}”: there are {join_names(self.names)}")
        used, unused = used_columns(
            self.names,
            columns,
            MISSING_NUMBERS,
            PictureNames(other_files(folder)),
            TARGET,
            table_count,
        )
        for reason, names in unused.items():
            self.notes.add(reason, names, "column")
        used = [n for n in used if self.names[n] not in leave_out]
        if TARGET and self.names.count(TARGET) > 1:
            raise ValueError(
                f"{self.names.count(TARGET)} columns are named “{TARGET}”, so it is no target; "
                "rename one"
            )
        if TARGET and self.names.index(TARGET) not in used:
            raise ValueError(f"the target column “{TARGET}” is left out, or has no values")
        if len(used) < 2:
            notes = [note for note in self.notes if note["item"] == "column"]
            omissions = "; ".join({f"{n['reason']}: {join_names(n['names'])}" for n in notes})
            raise ValueError(
                f"the table has {len(used)} column(s) with values, but features and a target need "
                f"two or more; {omissions or 'check what is between columns'}"
            )
        if TARGET:
            target_column = self.names.index(TARGET)
        else:
            target_column, reason = choose_target(
                self.names, columns, used, self.test_names, MISSING_NUMBERS, NUMBER.fullmatch
            )
            self.notes.add(reason, [self.names[target_column]] if reason else [], "column")
        self.feature_columns = [n for n in used if n != target_column]
        return target_column

    def complete_rows(
        self, columns: list[list[str]], row_labels: list[str], target_column: int
    ) -> list[int]:
        """Choose the rows by what is missing."""
        used_columns = [*self.feature_columns, target_column]
        is_empty = numpy.array([self.is_missing(n, columns[n]) for n in used_columns])
        if MISSING == "stop" and is_empty.any():
            column, row = (indices[0] for indices in numpy.nonzero(is_empty))
            names = [f"“{self.names[n]}”" for n in self.feature_columns] + ["the target"]
            raise ValueError(
                f"{row_labels[row]}: {names[column]} has no value ({is_empty.sum()} are missing in "
                'all); set missing to "leave row out" or "mean"'
            )
        is_incomplete = is_empty[-1] if MISSING == "mean" else is_empty.any(0)
        kept_rows = numpy.flatnonzero(~is_incomplete).tolist()
        dropped = [row_labels[row] for row in numpy.flatnonzero(is_incomplete)]
        self.notes.add("Left out, because a value is missing", dropped, "row")
        filled = [used_columns[n] for n in numpy.nonzero(is_empty[:, kept_rows])[0]]
        for note, kinds in (
            ("Missing, so the mean of the column is used", ("numbers", "dates")),
            ("Missing, so the row has none of the column's texts", ("texts",)),
        ):
            names = [self.names[n] for n in filled if self.formats[n].kind in kinds]
            self.notes.add(note, names, "value")
        if len(kept_rows) < 2:
            raise ValueError(f"{len(kept_rows)} row(s) have all values, but two or more are needed")
        return kept_rows

    def is_missing(self, column: int, cells: list[str]) -> list[bool]:
        no_value = MISSING_VALUES if self.formats[column].kind == "texts" else MISSING_NUMBERS
        return [cell.casefold() in no_value for cell in cells]

    def features_of(self, path: str) -> numpy.ndarray:
        names, columns, _ = read_table(path, Notes(), DELIMITER, HEADER)
        columns = [*map(unmarked, columns)]
        feature_names = [self.names[n] for n in self.feature_columns]
        if set(feature_names) <= set(names) and len(set(feature_names)) == len(feature_names):
            cells = [columns[names.index(name)] for name in feature_names]
        elif len(columns) == len(self.names):
            cells = [columns[n] for n in self.feature_columns]
        elif len(columns) == len(feature_names):
            cells = columns
        else:
            raise ValueError(
                f"the file has {len(columns)} columns, and not {join_names(feature_names)}"
            )
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
            self.texts = sorted({cell for cell in cells if cell.casefold() not in MISSING_VALUES})
            if len(self.texts) > TEXT_LIMIT:
                raise ValueError(
                    f"the column “{name}” has {len(self.texts)} different texts, such as "
                    f"“{self.texts[-1][:40]}”: leave it out, or write its numbers in one way. "
                    f"{form.note}".rstrip()
                )
            self.value_columns = [(f"{name} = {text}", 0.0, 1.0) for text in self.texts]
            self.preparation = {"name": name, "kind": "texts", "texts": self.texts}
            return
        values = numbers(cells, form)
        training_values = values[is_training & numpy.isfinite(values)]
        self.mean = training_values.mean() if len(training_values) else 0.0
        self.scale = (training_values.std() if len(training_values) else 0.0) or 1.0
        offset, factor = (self.mean, self.scale) if SCALE == "standard" else (0.0, 1.0)
        self.value_columns = [(name, float(offset), float(factor))]
        self.preparation = {"name": name, "mean": float(offset), "deviation": float(factor)}
        self.preparation |= {"kind": form.kind, "decimal": form.decimal, "unit": form.unit}
        self.preparation["day_first"] = form.day_first
        self.preparation["if_missing"] = float(self.mean)

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
    parts = [encoder.encode(cells) for encoder, cells in zip(encoders, columns, strict=True)]
    return numpy.concatenate(parts, axis=1).astype(numpy.float32)


def read_folder(
    folder: str, notes: Notes
) -> tuple[list[tuple[str, list[str], list[list[str]], list[str]]], dict[str, list[str]]]:
    """The tables with the same columns, those for training first: path and what is in it.

    Also the columns of tables for testing that are not used, by their path.
    """
    paths = [path for path in files(folder, *TABLE_SUFFIXES) if not OTHER_FILE.search(path)]
    samples = [path for path in paths if not is_candidate(path)]
    samples = samples if len(samples) < len(paths) else []
    notes.add("Left out, because they are samples or no data", samples, "file")
    paths = [path for path in paths if path not in samples]
    paths = [path for path in paths if ".txt" not in path.lower()] or paths
    if not paths:
        raise ValueError("the dataset has no CSV, TSV or Parquet file; this loader reads tables")
    notes.add("Left out, because of their suffix", other_files(folder), "file")
    training = [path for path in paths if part_of(path) == "training"]
    validation_paths = [path for path in paths if part_of(path) in ("validation", "test")]
    training = (
        training or [path for path in paths if path not in validation_paths] or validation_paths
    )
    tables = [
        (path, *read_table(os.path.join(folder, path), notes, DELIMITER, HEADER))
        for path in training
    ]
    unnamed = [path for path in paths if path not in (*training, *validation_paths)]
    notes.add("Left out, because others are named for training", unnamed, "file")
    test_names: dict[str, list[str]] = {}
    broken_paths = []
    names = tables[0][1]
    for path in validation_paths if validation_paths != training else []:
        table_notes = Notes()
        try:
            content = read_table(os.path.join(folder, path), table_notes, DELIMITER, HEADER)
        except ValueError:
            if not path.lower().endswith(SET_TABLES):
                raise
            broken_paths.append(path)
            continue
        if len(content[0]) == len(names) and content[0] == numbered_names(len(names)):
            content = (names, *content[1:])
        # A test file without the target, as in competitions, cannot measure.
        if content[0] == names or part_of(path) == "validation":
            tables.append((path, *content))
            notes.extend(table_notes)
        else:
            test_names[path] = content[0]
    notes.add("Left out, because they have other columns", [*test_names], "file")
    notes.add("Left out, because they are no complete tables", broken_paths, "file")
    return tables, test_names


def other_files(folder: str) -> list[str]:
    """The files that are no tables."""
    paths = [path for path in files(folder, "") if not path.lower().endswith(TABLE_SUFFIXES)]
    return [path for path in paths if not OTHER_FILE.search(path)]


def unmarked(cells: list[str]) -> list[str]:
    """The cells, of which those with a missing mark are empty."""
    marks = {mark.casefold() for mark in names_in(MISSING_MARKS)}
    return ["" if cell.casefold() in marks else cell for cell in cells] if marks else cells


def names_in(setting: str) -> list[str]:
    return [name.strip() for name in setting.split(",") if name.strip()]
