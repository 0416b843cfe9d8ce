"""Tables that name pictures and their labels, such as labels.csv with the columns id and breed."""

import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from splits import CONTAINER, part_of, part_of_folder

SUBMISSION = re.compile(r"(^|[^a-z])(sample)?submissions?([^a-z]|$)")
"""Words in the name of a file whose labels are samples of an answer."""
NO_LABELS = re.compile(r"(^|[^a-z])((eval_)?partition|train_test_split)([^a-z]|$)")
"""Words in the name of a file whose labels are sets."""
BOX_COLUMNS = (
    {"xmin", "ymin", "xmax", "ymax"}, {"x1", "y1", "x2", "y2"}, {"left", "top", "right", "bottom"},
    {"x", "y", "width", "height"}, {"x", "y", "w", "h"}, {"bbox"}, {"bboxes"}, {"boundingbox"},
)  # fmt: skip
"""Names of columns, without signs, that are the sides of a box."""
SPLIT_COLUMNS = {"split", "set", "subset", "usage", "partition", "dataset", "data set", "data_set"}
LABEL_COLUMNS = (
    *("label", "labels", "class_name", "classname", "class name", "class", "classes"),
    *("target", "targets", "category", "categories", "label_name"),
)
"""Names of the column to predict, of which the first in a table is meant."""
EMPTY = "Left out, because they are empty"
NUMBERED = "Left out, because they count the rows"
FILES = "Left out, because they name files that are not read"
SAME_NAME = "Columns of one name, which leave_out omits together"
ONE_CLASS = "Each set of words is one class, and no word is a label of its own"
INDEX_NAME = re.compile(
    r"(^|[_ .-])[iI][dD]$|[a-z]I[dD]$"
    r"|^(?i:|unnamed: 0|index|idx|no\.?|nr\.?|#|s\.? ?no\.?|row|rownames?|column 1)$"
)
"""Names of a column that may number the rows."""
LIKE_A_DATE = re.compile(r"\d+ ?[./:-]")
MOST_EXAMINED = 1000
LEAST_ROWS, MOST_TEXTS, LEAST_SETS = 10, 50, 6
GUESS = "Predicted as a guess, because it is last; target=… sets another"
FLAGS = dict.fromkeys(("0", "-1", "0.0", "False", "false"), False)
FLAGS |= dict.fromkeys(("1", "1.0", "True", "true"), True)


class PictureNames:
    """The pictures of a dataset, by the names that tables and annotations have for them.

    The suffix may be absent or another one. Capitals, the two ways in which é is stored, and %20 in
    place of a blank are no difference. Folders decide between pictures of one name.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths_by_name: dict[str, list[str]] = {}
        for path in paths:
            name = comparable(path).rpartition("/")[2]
            stem = name.rpartition(".")[0] or name
            for key in {name, stem, number_of(stem)}:
                self.paths_by_name.setdefault(key, []).append(path)

    def find_all(self, name: str, part: str = "") -> list[str]:
        """The pictures that a name may mean; those of a part if others are not."""
        parents, _, key = comparable(name).rpartition("/")
        # Label Studio writes a part of a hash before the name of an uploaded file.
        stem = re.sub(r"\.[a-z]\w{1,3}$", "", key)
        keys = (key, stem, number_of(stem), re.sub(r"^[0-9a-f]{8}-", "", key))
        paths = next((self.paths_by_name[k] for k in keys if k in self.paths_by_name), [])
        folders, name = parents.split("/")[::-1], re.split(r"[\\/]", name)[-1]

        def likeness(path: str) -> tuple[object, ...]:
            own_parents, _, own_key = comparable(path).rpartition("/")
            own_part = part_of(own_parents)
            return (
                equal_count(folders, own_parents.split("/")[::-1]),
                re.split(r"[\\/]", path)[-1] == name,
                own_key == key,
                own_key.rpartition(".")[0] == stem,
                part and own_part == part,
                own_part != "test",
            )

        most = max(map(likeness, paths)) if len(paths) > 1 else ()
        return [path for path in paths if not most or likeness(path) == most]

    def find(self, name: str, part: str = "") -> str:
        """The picture that a name means, the first of several, "" if there is none."""
        return next(iter(self.find_all(name, part)), "")

    def is_companion(self, path: str) -> bool:
        """Whether a file is named like a picture, as its caption or its boxes are."""
        return comparable(path).rpartition("/")[2].rpartition(".")[0] in self.paths_by_name


def number_of(stem: str) -> str:
    """A number without the zeros before it, which Excel removes; another text as it is."""
    return str(int(stem)) if stem.isdecimal() else stem


def comparable(name: str) -> str:
    """A path or the URL of a file, so that equal ones are equal texts."""
    path = re.sub(r"^.*\?d=", "", unquote(name)).replace("\\", "/")
    path = path.partition("?")[0] if "://" in path else path
    if path.isascii():  # Of most names, and fast.
        path = path.lower().strip()
    else:
        path = unicodedata.normalize("NFD", path).casefold().strip()
        path = unicodedata.normalize("NFC", path)
    return re.sub(r"^(\.*/)+", "", path)


def equal_count(names: Sequence[str], others: Sequence[str]) -> int:
    """How many of the first ones are equal."""
    pairs = zip(names, others, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(names), len(others)))


class NamedColumns(NamedTuple):
    """The columns of a table as texts, and the position of each row for messages."""

    path: str
    names: list[str]
    columns: list[list[str]]
    row_labels: list[str]


class LabelRow(NamedTuple):
    """A row of a table with labels. ``pictures`` has those that its name may mean."""

    name: str
    pictures: list[str]
    part: str
    cells: list[str]
    row_label: str


class LabelTable(NamedTuple):
    """The tables of one form that name pictures.

    Attributes:
        names: Of the columns but the ones with the pictures and the set.
        other_paths: Tables that are not used.
    """

    paths: list[str]
    names: list[str]
    rows: list[LabelRow]
    other_paths: list[str]


def is_candidate(path: str) -> bool:
    """Whether the file of a name can have labels."""
    return not NO_LABELS.search(words_of_name(path)) and not is_submission(path)


def is_submission(path: str) -> bool:
    """Whether a file is named as a sample of an answer, such as sampleSubmission.csv."""
    return bool(SUBMISSION.search(words_of_name(path)))


def words_of_name(path: str) -> str:
    """The name of a file in lower case, with _ between the words of camelCase."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def has_boxes(names: Collection[str]) -> bool:
    """Whether columns are the sides of boxes."""
    plain_names = {re.sub(r"\W|_", "", name.casefold()) for name in names}
    return any(columns <= plain_names for columns in BOX_COLUMNS)


def box_advice(path: str) -> str:
    return (
        f"{path} has boxes, which are read in the forms of COCO, VOC and YOLO; convert it, or set "
        "target of the loader picture-table to read one label for each picture"
    )


def without_header(table: NamedColumns) -> NamedColumns:
    """The table, whose names are its first row."""
    names = [f"column {number}" for number in range(1, len(table.names) + 1)]
    columns = [[name, *cells] for name, cells in zip(table.names, table.columns, strict=True)]
    return NamedColumns(table.path, names, columns, [f"{table.path}, line 1", *table.row_labels])


def find_labels(tables: Sequence[NamedColumns], pictures: PictureNames) -> LabelTable | None:
    """The table with names of pictures and labels; others with its columns belong to it."""
    named = [(table, picture_column(table, pictures)) for table in tables]
    named = [
        (without_header(table), n)
        if n is not None and pictures.find(table.names[n])
        else (table, n)
        for table, n in named
    ]
    usable = [(table, n) for table, n in named if n is not None and len(table.names) > 1]
    if not usable:
        return None
    main, column = max(usable, key=lambda pair: priority(pair[0]))
    same = [table for table, n in usable if n == column and table.names == main.names]
    # A picture in several lists is in the set of the first one.
    same.sort(key=lambda table: (not part_of(table.path), table.path))
    split = next(
        (
            n
            for n, name in enumerate(main.names)
            if name.casefold() in SPLIT_COLUMNS and n != column
            if all(part_of_folder(cell) for table in same for cell in table.columns[n])
        ),
        None,
    )
    others = [
        n
        for n in range(len(main.names))
        if n not in (column, split)
        if not counts_rows([c for table in same for c in table.columns[n]], len(same))
    ]
    if not others:
        return None
    rows = []
    for table in same:
        part = part_of(table.path)
        for n, name in enumerate(table.columns[column]):
            row_part = part if split is None else part_of_folder(table.columns[split][n])
            cells = [table.columns[m][n] for m in others]
            paths = pictures.find_all(name, row_part)
            rows.append(LabelRow(name, paths, row_part, cells, table.row_labels[n]))
    paths = [table.path for table in same]
    other_paths = [table.path for table in tables if table.path not in paths]
    return LabelTable(paths, [main.names[n] for n in others], rows, other_paths)


def counts_rows(cells: Sequence[str], table_count: int = 1) -> bool:
    """Whether a column numbers the rows of each table."""
    if not all(map(str.isdecimal, cells)):
        return False
    jumps = sum(int(b) != int(a) + 1 for a, b in itertools.pairwise(cells))
    return len(cells) > 1 and jumps < table_count


def used_columns(
    names: Sequence[str],
    columns: Sequence[Sequence[str]],
    missing: Collection[str],
    others: PictureNames,
    target: str = "",
    table_count: int = 1,
) -> tuple[list[int], dict[str, list[str]]]:
    """The columns that can be features or the target, and names of columns by what to say of them.

    Args:
        missing: Texts in lower case that mean no value.
        others: The files that are no tables.
        target: A column to use anyway.
    """
    used = []
    unused: dict[str, list[str]] = {EMPTY: [], NUMBERED: [], FILES: []}
    counts = Counter(names)
    unused[SAME_NAME] = [name for name in names if name and counts[name] > 1]
    for n, (name, cells) in enumerate(zip(names, columns, strict=True)):
        is_empty = all(cell.casefold() in missing for cell in cells)
        is_index = (n == 0 and not name) or INDEX_NAME.search(name)
        if name == target and name:
            used.append(n)
        elif is_empty:
            unused[EMPTY].append(name or f"column {n + 1}")
        elif is_index and counts_rows(cells, table_count):
            unused[NUMBERED].append(name or "(index)")
        elif is_file_name(cells[:: len(cells) // MOST_EXAMINED + 1], others):
            unused[FILES].append(name or f"column {n + 1}")
        else:
            used.append(n)
    return used, unused


def is_file_name(cells: Sequence[str], files: PictureNames) -> bool:
    """Whether most cells name a file of their own; numbers do not."""
    names = {cell for cell in cells if not re.fullmatch(r"[\d.,+-]*", cell)}
    return 2 * len({files.find(name) for name in names} - {""}) > len(cells)


def choose_target(
    names: Sequence[str],
    columns: Sequence[Sequence[str]],
    used: Sequence[int],
    test_names: Mapping[str, Sequence[str]],
    missing: Collection[str],
    is_number: Callable[[str], object],
) -> tuple[int, str]:
    """The column to predict, and why, unless that is plain.

    Args:
        used: The columns that can be it, one or more.
        test_names: The columns of the tables for testing, by their path.
        missing: Texts in lower case that mean no value.

    Raises:
        ValueError: It is open which column is meant; the message names them.
    """
    column, reason = usual_target(names, test_names)
    last = used[-1]
    if column in used:
        return column, reason if column != last else ""
    cells = {
        n: [
            c
            for c in columns[n][:: len(columns[n]) // MOST_EXAMINED + 1]
            if c.casefold() not in missing
        ]
        for n in used
    }
    texts = {n for n in used if 2 * sum(map(bool, map(is_number, cells[n]))) < len(cells[n])}
    other_texts = {n for n in texts if len(cells[n]) >= LEAST_ROWS and not repeats(cells[n])}
    if last in other_texts:
        columns_left = [n for n in used if n not in other_texts]
        if len(columns_left) == 1:
            return columns_left[0], "Predicted, because most texts of the others occur once"
        raise ValueError(
            f"most texts of the last column “{names[last]}” occur once, so it is no target; set "
            f"target to one of {join_names([names[n] for n in columns_left or used])}"
        )
    classes = [n for n in used if are_classes(cells[n], n in texts)]
    is_measured = last not in texts and not (
        repeats(cells[last]) and all(re.fullmatch(r"[+-]?\d+([.,]0*)?", c) for c in cells[last])
    )
    if is_measured and len(classes) == 1 and classes[0] in used[:2]:
        values = " and ".join(sorted({*cells[classes[0]]})[:2])
        raise ValueError(
            f"“{names[classes[0]]}” has classes such as {values}, and the last column "
            f"“{names[last]}” has numbers; set target to one of the two"
        )
    return last, "" if classes == [last] else GUESS


def repeats(cells: Sequence[str]) -> bool:
    """Whether at most half of the cells are different."""
    return 2 * len({*cells}) <= len(cells)


def are_classes(cells: Sequence[str], are_texts: bool) -> bool:
    """Whether a column has a few texts, or whole numbers that count from 0 or 1."""
    values = {*cells}
    if not repeats(cells) or len(values) < 2:
        return False
    if are_texts:
        return len(values) <= MOST_TEXTS and not all(map(LIKE_A_DATE.match, values))
    if not all(re.fullmatch(r"\d([.,]0*)?|10", value) for value in values):
        return False
    numbers = sorted({int(re.split("[.,]", value)[0]) for value in values})
    return numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])


def usual_target(names: Sequence[str], test_names: Mapping[str, Sequence[str]]) -> tuple[int, str]:
    """The column that a file or its name shows as the one to predict, and why; -1 if there is none.

    Args:
        test_names: The columns of the tables for testing, by their path.
    """
    for path, other_names in test_names.items():
        absent = [n for n, name in enumerate(names) if name not in other_names]
        if len(absent) == 1 and len(other_names) == len(names) - 1:
            return absent[0], f"Predicted, because {path} lacks it"
    usual = {name.strip().casefold(): n for n, name in reversed([*enumerate(names)])}
    last = names[-1].strip().casefold()
    if last in LABEL_COLUMNS:
        return len(names) - 1, ""
    column = next((usual[label] for label in LABEL_COLUMNS if label in usual), -1)
    return column, "Predicted, because of its name"


def parts_of_lists(
    folder: str, paths: Sequence[str], pictures: PictureNames
) -> tuple[dict[str, str], list[str]]:
    """The part of each picture that a list such as train.txt or val.txt names, and the lists.

    CUB-200 has the numbers of its pictures in train_test_split.txt.
    """
    parts: dict[str, str] = {}
    lists = []
    for path in sorted(paths, key=lambda path: ("trainval" in path.lower(), path)):
        part = part_of_file(path)
        if not part or pictures.is_companion(path) or not is_candidate(path):
            continue
        lines = lines_of(folder, path)
        found = [
            pictures.find(line, part) or pictures.find(re.split(r"[,;\s]", line)[0], part)
            for line in lines
        ]
        if 2 * sum(map(bool, found)) >= len(lines) > 0:
            lists.append(path)
            for picture in filter(None, found):
                parts.setdefault(picture, part)
    for path in paths:
        parent = path[: -len("train_test_split.txt")]
        if path.endswith("train_test_split.txt") and f"{parent}images.txt" in paths:
            flags = dict(line.split(None, 1) for line in lines_of(folder, path) if " " in line)
            lists.append(path)
            for line in lines_of(folder, f"{parent}images.txt"):
                number, _, name = line.partition(" ")
                picture = pictures.find(name)
                if picture and number in flags:
                    parts[picture] = "training" if flags[number] == "1" else "test"
    return parts, lists


def lines_of(folder: str, path: str) -> list[str]:
    """The lines of a file that are not empty."""
    with open(os.path.join(folder, path), encoding="utf-8-sig", errors="replace") as file:
        return [line.strip() for line in file if line.strip()]


def priority(table: NamedColumns) -> tuple[bool, bool, int]:
    path = table.path.lower()
    is_training = part_of_file(path) == "training"
    return is_training, bool(re.search("label|annot|class|list", path)), len(table.row_labels)


def part_of_file(path: str) -> str:
    return part_of(path.replace("\\", "/").rpartition("/")[2])


def picture_column(table: NamedColumns, pictures: PictureNames) -> int | None:
    """The column that names the most pictures, half of its cells or more; None if none does."""
    best, most = None, 0
    for n, all_cells in enumerate(table.columns):
        cells = all_cells[:: len(all_cells) // MOST_EXAMINED + 1]
        matches = [path for path in map(pictures.find, cells) if path]
        if 2 * len(matches) >= len(cells) and len({*matches}) > most:
            best, most = n, len({*matches})
    return best


def choose_label(table: LabelTable, target: str = "") -> tuple[list[str], list[str]]:
    """The names of the columns to predict, and the label of each row.

    Columns of 0 and 1, of which one is 1 in each row, are the classes.

    Raises:
        ValueError: It is open which column is meant; the message names them.
    """
    columns = {name: [row.cells[n] for row in table.rows] for n, name in enumerate(table.names)}
    if target and target not in columns:
        raise ValueError(f"there is no column “{target}”: there are {join_names(columns)}")
    usual = {name.strip().casefold(): name for name in reversed(columns)}
    name = target or next((usual[label] for label in LABEL_COLUMNS if label in usual), "")
    if name or len(columns) == 1:
        name = name or table.names[0]
        return [name], columns[name]
    is_flag = {*FLAGS}.issuperset
    if not all(map(is_flag, columns.values())):
        raise ValueError(
            f"any of the columns {join_names(columns)} in {table.paths[0]} can be the label; set "
            "target to one of them"
        )
    flags = [*zip(*([FLAGS[c] for c in cells] for cells in columns.values()), strict=True)]
    if {*map(sum, flags)} != {1}:
        raise ValueError(
            f"{table.paths[0]} gives a picture several of the labels {join_names(columns)}, or "
            "none, and this loader reads one for each picture; set target to one of these columns"
        )
    return [*columns], [table.names[row.index(True)] for row in flags]


def are_labels_of_folders(table: LabelTable, class_by_path: Mapping[str, str]) -> bool:
    """Whether the folders are the classes: a column says so, or none is sure to be the label."""
    folders = {*class_by_path.values()} - {""}
    if len(folders) < 2 or all(part_of(name) for name in folders):
        return False
    rows = [
        (row.cells, class_by_path.get(row.pictures[0], "")) for row in table.rows if row.pictures
    ]
    for n in range(len(table.names)):
        pairs = {(cells[n], folder) for cells, folder in rows}
        if len(pairs) == len({cell for cell, _ in pairs}) == len({name for _, name in pairs}) > 1:
            return True
    try:
        choose_label(table)
    except ValueError:
        return not all(CONTAINER.search(name) for name in folders)
    return False


def words_of(label: str) -> list[str]:
    return re.split(r"[|;,]\s*|\s+", label)


def several_labels(cells: Collection[str]) -> str:
    """A cell with several labels such as “haze primary”, if its words make others, too; else ""."""
    labels = sorted({*cells})
    words = {label: words_of(label) for label in labels}
    is_marked = any(re.search(r"\w[|;]\w", label) for label in labels)
    # Names of two words, such as those of birds, have more words than names.
    if is_marked or 2 * len({word for parts in words.values() for word in parts}) < len(labels):
        return next((label for label in labels if len(words[label]) > 1), "")
    return ""


def sets_of_words(cells: Collection[str]) -> list[str]:
    """The cells of two words or more, if there are fewer words than cells, and each is in several.

    Names of birds or of streets have words of their own.
    """
    labels = sorted({*cells})
    counts = Counter(word for label in labels for word in {*words_of(label)})
    if LEAST_SETS <= len(labels) > len(counts) and min(counts.values()) > 1:
        return [label for label in labels if len(words_of(label)) > 1]
    return []


def join_names(names: Collection[str]) -> str:
    return ", ".join([*names][:20]) + (", …" if len(names) > 20 else "")
