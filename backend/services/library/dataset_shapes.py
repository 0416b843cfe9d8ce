"""Recognises the shape of a dataset by the names and first bytes of its files.

`_SHAPES` has one entry for each loader of the gallery, the most specific first.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from backend.base.log import suppress, swallowed
from backend.records.base import number_format
from backend.records.base.cells import (
    BELOW_HEADER,
    ENCODING_NOTES,
    MISSING_NUMBERS,
    MISSING_VALUES,
    NOT_ALIKE,
    NUMBER,
    Format,
    decoded,
    delimiter_of,
    encoding_of,
    footer_count,
    format_of,
    is_header,
    like_pairs,
    names_in_header,
    rows_of,
    sign_of,
    title_count,
    usual_spellings,
)
from backend.records.base.validation import sanitize
from backend.records.library.gallery import Suggestion
from backend.records.library.item import FileEntry
from backend.records.library.preview import ReadingNote
from backend.services.library.dataset_listing import (
    ALL_TABLES,
    HEAD,
    LABELS,
    LONG_HEAD,
    MAX_READS,
    SPLITS,
    Listing,
    ReadBytes,
    short_list,
)

_TARGETS = re.compile("(^|[^a-z])(y|targets?|labels?)([^a-z]|$)")
_YOLO_LINE = re.compile(rb"\s*\d+(\s+(0?\.\d+|[01](\.\d*)?|\d(\.\d+)?e-\d+)){4,}\s*", re.IGNORECASE)
_LEAST_ROWS = 4
_MAX_CLASSES = 50
"""Most classes in a column of whole numbers, as in the loader of tables."""
_MAX_SIDE, _MAX_TESTS = 128, 3
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BOX_SIZES = {"channels": 3, "side": 256}
_AMBIGUOUS = "Choose how to read, because "


class _ShapeMatch(NamedTuple):
    """The recognized shape of a dataset, and the settings of its loader."""

    detail: str
    settings: Mapping[str, str] = {}
    sizes: Mapping[str, int] = {}
    notes: Sequence[ReadingNote] = ()
    choices: Mapping[str, Sequence[str]] = {}
    open_settings: Mapping[str, str] = {}


def recognize_shape(files: Sequence[FileEntry], read: ReadBytes) -> Suggestion | None:
    """Return the loader that fits; ``read`` returns a limited number of first bytes."""
    listing = Listing(files, read)
    for entry, title, find_shape in _SHAPES:
        listing.reads_left = MAX_READS
        try:
            match = find_shape(listing)
        except (OSError, ValueError, LookupError, zlib.error, struct.error) as error:
            swallowed(error)
            continue
        if match is not None:
            messages = [f"This looks like {title}: {sanitize(match.detail, 400)}."]
            samples = [path.as_posix() for path in listing.submissions]
            left_out = ReadingNote.from_names(
                "Left out, because they are samples of answers", samples, "file"
            )
            notes = [*match.notes, left_out]
            messages += [note.message for note in notes if note.count]
            return Suggestion(
                entry,
                title,
                match.settings,
                " ".join(messages),
                match.sizes,
                match.choices,
                match.open_settings,
            )
    return None


def _cifar(
    classes: int, training: Sequence[str], test: str, meta: str, listing: Listing
) -> _ShapeMatch | None:
    sizes = {"classes": classes, "channels": 3, "side": 32}
    binary = {f"{name}.bin" for name in (*training, test)}
    if {*training, test, meta} <= listing.names or binary <= listing.names:
        detail = f"{_plural(len(training), 'training file')} and 1 for testing"
        return _ShapeMatch(detail, sizes=sizes)
    for path in listing.with_suffix(".tar.gz", ".tgz", ".tar"):
        if listing.head(path, 4096).startswith(f"cifar-{classes}-".encode()):
            return _ShapeMatch(f"the archive {path.name}", sizes=sizes)
    return None


def _idx(listing: Listing) -> _ShapeMatch | None:
    pictures, labels = [], []
    for path in listing.paths:
        if "idx" in path.name.lower() or "ubyte" in path.name.lower():
            head = listing.head(path, 16)
            if head[:3] == b"\0\0\x08" and head[3] == 3:
                pictures.append((path, struct.unpack_from(">3I", head, 4)))
            elif head[:4] == b"\0\0\x08\x01":
                labels.append(path)
    if not pictures or len(pictures) != len(labels):
        return None
    path, (count, height, width) = next((p for p in pictures if _is_training(p[0])), pictures[0])
    numbers = {label for p in labels for label in listing.head(p, LONG_HEAD)[8:]}
    sizes = {"classes": len(numbers), "channels": 1}
    return _ShapeMatch(
        f"{_plural(count, 'picture')} of {height} × {width} pixels in {path.name}",
        {"exchange": "true"} if "emnist" in path.name.lower() else {},
        sizes | ({"side": height} if height == width else {}),
    )


def _coco(listing: Listing) -> _ShapeMatch | None:
    pictures = len(listing.pictures)
    for path in listing.with_suffix(".json") if pictures else ():
        head = listing.head(path, LONG_HEAD)
        if re.search(rb'"(bbox|categories)"\s*:|"images"\s*:\s*\[\s*\{', head):
            sizes = dict(_BOX_SIZES)
            with contextlib.suppress(ValueError, LookupError, TypeError):  # It may be cut off.
                sizes["classes"] = len(json.loads(head)["categories"])
            return _ShapeMatch(f"{path.name} and {_plural(pictures, 'picture')}", sizes=sizes)
    return None


def _voc(listing: Listing) -> _ShapeMatch | None:
    notes = listing.with_suffix(".xml")
    head = listing.head(notes[0], 1024) if notes else b""
    if not notes or not listing.pictures or not re.search(rb"<annotation[\s>]", head):
        return None
    pictures = _plural(len(listing.pictures), "picture")
    return _ShapeMatch(
        f"{_plural(len(notes), 'XML file')} with objects and {pictures}", sizes=_BOX_SIZES
    )


def _yolo(listing: Listing) -> _ShapeMatch | None:
    texts = listing.with_suffix(".txt")
    stems = listing.picture_stems if texts else frozenset()
    labels = [path for path in texts if LABELS.comparable(path.stem) in stems]
    # A cut line is left out, unless there is no other line.
    lines = listing.head(labels[0]).strip().splitlines() if labels else []
    if not lines or not all(map(_YOLO_LINE.fullmatch, lines[: max(1, len(lines) - 1)])):
        return None
    pictures = _plural(len(listing.pictures), "picture")
    detail = f"{_plural(len(labels), 'text file')} with boxes as shares of the sides and {pictures}"
    return _ShapeMatch(detail, sizes=_BOX_SIZES)


def _icdar(listing: Listing) -> _ShapeMatch | None:
    texts = listing.with_suffix(".txt")
    stems = listing.picture_stems if texts else frozenset()
    notes = [
        path
        for path in texts
        if {stem := LABELS.comparable(path.stem), stem.removeprefix("gt_")} & stems
    ]
    line = rb"(\xef\xbb\xbf)?\s*-?\d+((\s*,\s*-?\d+){3}(\s*,|\s*$)|( \d+){3} \")"
    if not notes or not re.match(line, listing.head(notes[0], 1024), re.MULTILINE):
        return None
    detail = f"{_plural(len(notes), 'text file')} with regions, named like their pictures"
    return _ShapeMatch(detail, sizes={"classes": 1, **_BOX_SIZES})


def _image_folder(listing: Listing) -> _ShapeMatch | None:
    masks = listing.masks
    pictures = [path for path in listing.pictures if str(path) not in masks]
    names = [path.as_posix() for path in pictures]
    samples, level = SPLITS.sort_by_class(names)
    classes = {name for _, name, _ in samples} - {""}
    if len(classes) < 2 or all(map(SPLITS.part_of, classes)):
        return None
    paths = [path for path, name in zip(pictures, samples, strict=True) if name[1]]
    outside_paths = [path for path, name, _ in samples if not name]
    sizes = _common_size(listing, paths)
    splits = {part for _, name, part in samples if name}
    detail = f"{_plural(len(paths), 'picture')} in {len(classes)} classes"
    detail += f" ({short_list(sorted(classes))})"
    detail += " and folders for training and validation" if len(splits) > 1 else ""
    folders = {"/".join(path.split("/")[: level + 1]) for path, name, _ in samples if name}
    other_files = SPLITS.other_files([path.as_posix() for path in listing.paths], folders)
    outside = "Left out, because they are in no folder of a class", outside_paths, "picture"
    left_out = "Left out, because they are masks of pictures beside them", sorted(masks), "picture"
    notes = [ReadingNote.from_names(*note) for note in (outside, other_files, left_out)]
    return _ShapeMatch(detail, _texts(sizes), {"classes": len(classes), **sizes}, notes)


def _picture_table(listing: Listing) -> _ShapeMatch | None:
    candidates = [
        path
        for path in listing.with_suffix(*ALL_TABLES, ".txt", *SPLITS.SET_TABLES)
        if LABELS.is_candidate(path.as_posix())
    ]
    if not candidates or not listing.pictures:
        return None
    paths = [path for path in map(str, listing.pictures) if path not in listing.masks]
    pictures = LABELS.PictureNames(paths)
    candidates = [path for path in candidates if not pictures.is_companion(path.as_posix())]
    candidates.sort(key=lambda path: (path.suffix == ".txt", not _is_training(path)))
    tables, is_whole = [], True
    for path in candidates[: MAX_READS // 2]:
        rows: list[list[str]] = []
        with suppress(ValueError):  # Another text file need not be a table.
            head = listing.head(path, LONG_HEAD)
            is_whole = is_whole and not _is_cut(head)
            rows, _, _ = _rows(head)
        if len(rows) > 1 and len({len(row) for row in rows}) == 1:
            names, count = _header(rows)
            columns = [[*column] for column in zip(*rows[count:], strict=True)]
            labels = [f"{path.name}, row {n}" for n in range(len(rows) - count)]
            tables.append(LABELS.NamedColumns(path.as_posix(), names, columns, labels))
    table = LABELS.find_labels(tables, pictures)
    if table is None or any(LABELS.has_boxes(t.names) for t in tables if t.path in table.paths):
        return None
    samples, _ = SPLITS.sort_by_class(paths)
    if LABELS.are_labels_of_folders(table, {p: name for p, name, _ in samples}):
        return None
    sizes = _common_size(listing, [PurePosixPath(path) for path in paths])
    labelled_paths = {path for row in table.rows for path in row.pictures}
    detail = f"{short_list(table.paths)} and {_plural(len(paths), 'picture')}"
    data_sizes = dict(sizes)
    open_columns: Sequence[str] = ()
    word_sets: Sequence[str] = ()
    open_settings = {}
    try:
        label_columns, cells = LABELS.choose_label(table)
        detail += f"; predicted is {short_list(label_columns)}"
        classes = {cell for cell in cells if cell.casefold() not in MISSING_VALUES}
        word_sets = LABELS.sets_of_words(classes)
        if 2 * len(classes) <= len(cells) and len(classes) > 1:
            data_sizes["classes"] = len(classes)
    except ValueError as error:
        swallowed(error)
        open_columns = table.names
        open_settings = {"target": "COLUMN"}
    lost = [row.name for row in table.rows if not row.pictures]
    others = [path for path in paths if path not in labelled_paths] if is_whole else []
    notes = [
        ReadingNote.from_names("Choose the one to predict, as target", open_columns, "column"),
        ReadingNote.from_names(LABELS.ONE_CLASS, word_sets, "class"),
        ReadingNote.from_names(
            "Left out, because they are no pictures of the dataset", lost, "row"
        ),
        ReadingNote.from_names("Left out, because no row of the table has them", others, "picture"),
    ]
    choices = {"target": table.names}
    return _ShapeMatch(detail, _texts(sizes), data_sizes, notes, choices, open_settings)


def _texts(values: Mapping[str, int]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


def _common_size(listing: Listing, paths: Sequence[PurePosixPath]) -> dict[str, int]:
    """Return channels and side that suit some of the pictures."""
    sample_paths = [paths[0], paths[len(paths) // 2], paths[-1]]
    picture_sizes = [_picture_size(listing.head(path)) for path in sample_paths]
    side = min(max(min(size[1] for size in picture_sizes), 16), _MAX_SIDE)
    return {"channels": max(size[0] for size in picture_sizes), "side": side}


def _picture_size(head: bytes) -> tuple[int, int]:
    """Return channels and the shorter side, of a PNG or JPEG file; otherwise 3 and 64."""
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        width, height, _, kind = struct.unpack_from(">IIBB", head, 16)
        return (1 if kind in (0, 4) else 3), min(width, height)
    offset = 2
    while head[:2] == b"\xff\xd8" and offset + 10 <= len(head):
        _, mark, length, _, height, width, parts = struct.unpack_from(">BBHBHHB", head, offset)
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            return (1 if parts == 1 else 3), min(width, height)
        offset += 2 + length
    return 3, 64


def _arrays(listing: Listing) -> _ShapeMatch | None:
    paths = listing.with_suffix(".npz", ".npy")
    has_targets = any(_TARGETS.search(path.stem.lower()) for path in paths)
    for path in paths if has_targets or listing.with_suffix(".npz") else ():
        head = listing.head(path)
        if head[:4] == b"PK\3\4":
            (method,) = struct.unpack_from("<H", head, 8)
            head = head[30 + sum(struct.unpack_from("<HH", head, 26)) :]
            if method == zipfile.ZIP_DEFLATED:
                head = zlib.decompressobj(wbits=-15).decompress(head, HEAD)
        header = re.search(rb"'descr': '(.*?)'.*?'shape': \(([\d, ]+)\)", head[:HEAD])
        if header is not None and not _TARGETS.search(path.stem.lower()):
            shape = [int(length) for length in header[2].split(b",") if length.strip()]
            return _ShapeMatch(short_list([p.name for p in paths]), sizes=_array_sizes(shape[1:]))
    return None


def _array_sizes(shape: Sequence[int]) -> dict[str, int]:
    """Return the sizes of a sample."""
    if len(shape) == 1:
        return {"features": shape[0]}
    height, *other_lengths = [length for length in shape if length not in (1, 3)] or [0]
    if len(shape) == 3 and other_lengths == [height]:
        return {"channels": min(shape), "side": height}
    return {"channels": 1, "side": height} if list(shape) == [height, height] else {}


def _table(listing: Listing) -> _ShapeMatch | None:
    tables = listing.with_suffix(*ALL_TABLES, ".parquet")
    texts = [] if tables else listing.with_suffix(".txt", *SPLITS.SET_TABLES)
    # A logo beside a table makes no dataset of pictures.
    if len(listing.pictures) > len(tables) or not (tables or texts):
        return None
    tables = tables or texts
    path = next((p for p in tables if _is_training(p)), tables[0])
    names = short_list([p.name for p in tables])
    head = listing.head(path, LONG_HEAD)
    if head[:4] == b"PAR1":
        return _ShapeMatch(f"{names}; Parquet needs the package pyarrow on each node")
    if b"\0" in head and not texts:
        return _ShapeMatch(names)
    try:
        rows, titles, delimiter = _rows(head)
    except ValueError as error:
        if texts:
            raise
        return _ShapeMatch(f"{names}; {path.name}, {error}")
    # Any text has words between blanks.
    is_prose = bool(texts) and (delimiter == " " or len(rows) < _LEAST_ROWS)
    if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and not is_prose:
        notes = [
            ReadingNote.from_names(
                "Left out, because they are titles above the table", titles, "row"
            )
        ]
        encoding = encoding_of(head[: head.rfind(b"\n")] if _is_cut(head) else head)
        if encoding in ENCODING_NOTES:
            notes.append(ReadingNote.from_names(ENCODING_NOTES[encoding], [path.name]))
        tests = [p for p in tables if SPLITS.part_of(p.name) == "test" and p != path]
        test_rows = {p.name: _rows(listing.head(p, LONG_HEAD))[0] for p in tests[:_MAX_TESTS]}
        test_names = {p: _header(r)[0] for p, r in test_rows.items() if r and _header(r)[1]}
        other_paths = [p.as_posix() for p in listing.paths if p not in tables]
        others = LABELS.PictureNames(other_paths)
        return _columns(names, rows, notes, test_names, others)
    return _ShapeMatch(names) if not texts and re.search(rb"[\t;|,]", head) else None


def _is_cut(head: bytes) -> bool:
    return len(head) >= LONG_HEAD - 4


def _rows(head: bytes) -> tuple[list[list[str]], list[str], str]:
    """Return the first rows of a table, the titles above it, and its delimiter."""
    head = head[: head.rfind(b"\n")] if _is_cut(head) else head
    text, separator = decoded(head, encoding_of(head))
    delimiter = separator or delimiter_of(text)
    rows = [row for _, row in rows_of(text, delimiter)]
    titles = ["".join(row) for row in rows[: title_count(rows) if delimiter != " " else 0]]
    rows = rows[len(titles) :]
    return rows[: len(rows) - footer_count(rows)], titles, delimiter


def _header(rows: list[list[str]]) -> tuple[list[str], int]:
    """Return the names of the columns as the loader does, and the number of rows with them."""
    if len(rows) > 1 and is_header(rows):
        return names_in_header(rows)
    return [f"column {number}" for number in range(1, len(rows[0]) + 1)], 0


def _columns(
    file_names: str,
    rows: list[list[str]],
    notes: list[ReadingNote],
    test_names: Mapping[str, Sequence[str]],
    others: Any,
) -> _ShapeMatch:
    """Return the shape of a table by its first rows, the first of which may be names.

    Args:
        test_names: The columns of tables for testing, by their path.
        others: The `PictureNames` of files that are no tables.
    """
    titles, header_count = _header(rows)
    columns = [[*column] for column in zip(*rows[header_count:], strict=True)]
    below_header = ["; ".join(filter(None, row)) for row in rows[1:header_count]]
    notes.append(ReadingNote.from_names(BELOW_HEADER, below_header, "row"))
    decimal = sign_of(columns)
    formats = [_format(column, decimal) for column in columns]
    missing = [MISSING_VALUES if f.kind == "texts" else MISSING_NUMBERS for f in formats]
    known_cells = [
        [cell for cell in column if cell.casefold() not in no_value]
        for column, no_value in zip(columns, missing, strict=True)
    ]
    is_missing = sum(map(len, known_cells)) < sum(map(len, columns))
    missing_note = ", some values missing, which become the mean of their column"
    used_columns, unused = LABELS.used_columns(titles, columns, MISSING_NUMBERS, others)
    target, reason, question = -1, "", ""
    possible_targets = used_columns or [len(titles) - 1]
    try:
        target, reason = LABELS.choose_target(
            titles, columns, possible_targets, test_names, MISSING_NUMBERS, NUMBER.fullmatch
        )
    except ValueError as error:
        question = str(error)
    widths = [
        1 if formats[n].kind != "texts" else len(set(known_cells[n]))
        for n in used_columns
        if n != target
    ]
    sizes = {} if question else {"features": sum(widths)}
    classes = {*usual_spellings(known_cells[target]).values()}
    is_whole = all(re.fullmatch(r"[+-]?[0-9]+([.,]0*)?", cell) for cell in classes)
    is_text = formats[target].kind == "texts"
    repeat = 2 * len(classes) <= len(known_cells[target])
    is_class = is_text or (is_whole and repeat and len(classes) <= _MAX_CLASSES)
    if len(classes) > 1 and is_class and not question:
        sizes["classes"] = len(classes)
        word_sets = LABELS.sets_of_words(classes) if is_text else []
        notes.append(ReadingNote.from_names(LABELS.ONE_CLASS, word_sets, "class"))
    settings = {"missing": "mean"} if is_missing else {}
    notes += [ReadingNote.from_names(note, names, "column") for note, names in unused.items()]
    notes += [
        ReadingNote.from_names(
            note, [titles[n] for n in used_columns if formats[n].note == note], "column"
        )
        for note in sorted({form.note for form in formats} - {""})
    ]
    pairs = [
        f"{' and '.join(pair)} in {titles[n]}"
        for n in used_columns
        if formats[n].kind == "texts" and n != target
        for pair in like_pairs(known_cells[n])
    ]
    notes.append(ReadingNote.from_names(NOT_ALIKE, pairs, "text"))
    detail = f"{file_names} with {len(columns)} columns{missing_note if is_missing else ''}"
    detail += f"; {question or f'predicted is {titles[target]}'}"
    if reason:
        notes.insert(0, ReadingNote.from_names(reason, [titles[target]], "column"))
    open_settings = dict(
        _open_setting(columns[n], decimal)
        for n in used_columns
        if formats[n].note.startswith(_AMBIGUOUS)
    )
    if question:
        open_settings["target"] = "COLUMN"
    choices = {"target": tuple(titles)}
    return _ShapeMatch(detail, settings, sizes, notes, choices, open_settings)


def _format(cells: Sequence[str], decimal: str) -> Format:
    """Return the format of a column; an ambiguous column has texts, with a note."""
    try:
        return format_of(cells, decimal)
    except ValueError as error:
        return Format("texts", note=f"{_AMBIGUOUS}{error}")


def _open_setting(cells: Sequence[str], decimal: str) -> tuple[str, str]:
    """Return the setting that decides how to read an ambiguous column, and a placeholder."""
    with suppress(ValueError):
        format_of(cells, decimal, "day first")
        return "dates", "ORDER"
    return "decimal", "SIGN"


def _is_training(path: PurePosixPath) -> bool:
    return "train" in path.name.lower() or SPLITS.part_of(path.name) == "training"


def _plural(number: int, noun: str) -> str:
    return f"{number_format.count(number)} {noun}{'' if number == 1 else 's'}"


_SHAPES: tuple[tuple[str, str, Callable[[Listing], _ShapeMatch | None]], ...] = (
    ("cifar-10", "CIFAR-10", partial(_cifar, 10, _BATCHES, "test_batch", "batches.meta")),
    ("cifar-100", "CIFAR-100", partial(_cifar, 100, ["train"], "test", "meta")),
    ("idx", "IDX files, the form of MNIST", _idx),
    ("coco", "boxes in COCO's form", _coco),
    ("voc", "boxes in Pascal VOC's form", _voc),
    ("yolo", "boxes in YOLO's form", _yolo),
    ("icdar", "text regions in ICDAR's form", _icdar),
    ("picture-table", "pictures with a table of labels", _picture_table),
    ("image-folder", "pictures in a folder for each class", _image_folder),
    ("arrays", "NumPy arrays", _arrays),
    ("table", "a table", _table),
)
