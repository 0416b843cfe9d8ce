"""Tables as columns of texts, and a column as classes or numbers."""

import contextlib
import gzip
import os
from collections.abc import Collection
from unicodedata import normalize

import numpy
from cells import (
    BELOW_HEADER,
    DELIMITERS,
    ENCODING_NOTES,
    NOT_ALIKE,
    NUMBER,
    Format,
    decoded,
    delimiter_of,
    encoding_of,
    footer_count,
    is_header,
    like_pairs,
    names_in_header,
    rows_of,
    title_count,
    usual_spellings,
)
from labels import ONE_CLASS, sets_of_words
from notes import Notes

MOST_CLASSES = 50


def read_table(
    path: str, notes: Notes, delimiter: str = "auto", header: str = "auto"
) -> tuple[list[str], list[list[str]], list[str]]:
    """Names of the columns, the columns as texts, and the position of each row for messages."""
    file = os.path.basename(path)
    if path.lower().endswith(".parquet"):
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.read_table(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{file} cannot be read: {error}") from error
        has_cells = [
            not (pyarrow.types.is_nested(field.type) or pyarrow.types.is_binary(field.type))
            for field in table.schema
        ]
        other_names = [
            name for name, is_ in zip(table.column_names, has_cells, strict=True) if not is_
        ]
        notes.add("Left out, because they have no numbers or texts", other_names, "column")
        table = table.drop_columns(other_names)
        cells = [
            ["" if v is None else normalize("NFC", str(v)) for v in table_column.to_pylist()]
            for table_column in table.columns
        ]
        if not table.num_rows or not cells:
            raise ValueError(f"{file} has no rows")
        return table.column_names, cells, [f"{file}, row {n}" for n in range(1, len(cells[0]) + 1)]
    text, separator = text_of(path, notes)
    delimiter = DELIMITERS.get(delimiter) or separator or delimiter_of(text)
    try:
        numbered_rows = [*rows_of(text, delimiter)]
    except ValueError as error:
        raise ValueError(f"{file}, {error}") from error
    rows = [row for _, row in numbered_rows]
    row_labels = [f"{file}, line {line}" for line, _ in numbered_rows]
    if not rows:
        raise ValueError(f"{file} is empty")
    titles = title_count(rows)
    notes.add("Left out, because they are titles above the table", row_labels[:titles], "row")
    rows, row_labels = rows[titles:], row_labels[titles:]
    end = len(rows) - footer_count(rows)
    notes.add("Left out, because they are sums or notes below the table", row_labels[end:], "row")
    is_comment = [row[0][:1] == "#" and len(row) != len(rows[0]) for row in rows[:end]]
    comments = [label for label, is_ in zip(row_labels, is_comment, strict=False) if is_]
    notes.add("Left out, because they are comments in the table", comments, "row")
    table_rows = [n for n in range(end) if not is_comment[n]]
    rows, row_labels = [rows[n] for n in table_rows], [row_labels[n] for n in table_rows]
    for row, row_label in zip(rows, row_labels, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{row_label} has {len(row)} columns, and the first has {len(rows[0])}"
            )
    has_names = header == "yes" or (header == "auto" and is_header(rows))
    names, count = numbered_names(len(rows[0])), 0
    if has_names:
        names, count = names_in_header(rows)
        notes.add(BELOW_HEADER, row_labels[1:count], "row")
    rows, row_labels = rows[count:], row_labels[count:]
    if not rows:
        raise ValueError(f"{file} has a header and no rows")
    return names, [list(column) for column in zip(*rows, strict=True)], row_labels


def numbered_names(count: int) -> list[str]:
    """The names of the columns of a table without a header."""
    return [f"column {number}" for number in range(1, count + 1)]


def text_of(path: str, notes: Notes) -> tuple[str, str]:
    """The text of a table, and the delimiter of Excel's first line."""
    file_name = os.path.basename(path)
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise ValueError(f"{file_name} is cut off or damaged: {error}") from error
    try:
        encoding = encoding_of(content)
    except ValueError as error:
        raise ValueError(f"{file_name}, {error}") from error
    if encoding in ENCODING_NOTES:
        notes.add(ENCODING_NOTES[encoding], [file_name], "file")
    return decoded(content, encoding)


def numbers(cells: list[str], form: Format) -> numpy.ndarray:
    """The numbers of a column, NaN where one is missing."""
    if form.decimal == "." and not form.unit and form.kind == "numbers":
        with contextlib.suppress(ValueError):  # Of missing values, or of thousands.
            return numpy.array(cells).astype(numpy.float64)
    return numpy.array([form.parse(cell) for cell in cells])


def join_names(names: Collection[str]) -> str:
    return ", ".join([*names][:20]) + (", …" if len(names) > 20 else "")


def target_of(
    cells: list[str], form: Format, task: str, notes: Notes, are_ids_classes: bool = False
) -> tuple[numpy.ndarray, list[str]]:
    """The numbers and names of the classes, or vectors of one number without names.

    Args:
        task: auto, classes or numbers.
        are_ids_classes: Whether more than `MOST_CLASSES` numbers are classes if none is left out.
    """
    values = None if form.kind == "texts" else numbers(cells, form)
    if task == "numbers" and values is None:
        text = next(cell for cell in cells if not NUMBER.fullmatch(cell))
        raise ValueError(f"the target is not a number everywhere: “{text}”")
    if values is not None:
        is_whole = numpy.isfinite(values).all() and (values == values.round()).all()
        count = len(set(values))
        is_id = are_ids_classes and values.max() - values.min() == count - 1
        are_few = (count <= MOST_CLASSES or is_id) and 2 * count <= len(values)
        if task == "numbers" or (task == "auto" and not (is_whole and are_few)):
            return values.astype(numpy.float32)[:, None], []
        if is_whole:
            class_values, classes = numpy.unique(values, return_inverse=True)
            return classes.astype(numpy.int64), [str(int(value)) for value in class_values]
    spellings, other_pairs = usual_spellings(cells), like_pairs(cells)
    others = [f"{cell} as {usual}" for cell, usual in sorted(spellings.items()) if cell != usual]
    notes.add(
        "Read as one class, because only capitals, blanks or a dot at the end differ",
        others,
        "class",
    )
    other_pairs = [pair for pair in other_pairs if len({spellings[text] for text in pair}) > 1]
    notes.add(ONE_CLASS, sets_of_words(cells), "class")
    notes.add(NOT_ALIKE, [" and ".join(pair) for pair in other_pairs], "class")
    texts, classes = numpy.unique([spellings[cell] for cell in cells], return_inverse=True)
    return classes.astype(numpy.int64), texts.tolist()
