"""Reads pictures whose labels are in a table: train/01.jpg, and labels.csv with 01 and rose.

The column with the pictures is the one whose cells are their names, with folder and suffix or
without. Tables of one form named train, val or test, a column “split”, or else the folders of the
pictures are the sets.
"""

import os

import torch
from cells import MISSING_VALUES, format_of
from labels import (
    LabelTable,
    NamedColumns,
    PictureNames,
    box_advice,
    choose_label,
    find_labels,
    has_boxes,
    is_candidate,
    join_names,
    parts_of_lists,
    several_labels,
)
from notes import Notes
from picture_set import PictureSet
from splits import PICTURES, TABLE_SUFFIXES, files, masks_of, part_of
from tables import read_table, target_of

TARGET = ""
TASK = "auto"
SIDE = 64
CHANNELS = 3
WHITE = 0
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1


class UserDataset(PictureSet):
    """The pictures to train on, and the class or a vector of one number for each."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        notes = Notes()
        samples, classes, name = find_samples(folder, notes)
        super().__init__(folder, samples, self.is_validation, globals(), notes)
        if classes:
            self.classes = classes
            notes.add_missing(classes, {label for _, label in self.samples})
        else:
            self.value_columns = {"target": [(name, 0.0, 1.0)]}


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    is_validation = True


def find_samples(folder: str, notes: Notes) -> tuple[list[tuple[str, object, str]], list[str], str]:
    """Path, target and part of each picture, the classes, and the name of the target."""
    paths = files(folder, *PICTURES)
    masks = {*masks_of(paths)}
    notes.add("Left out, because they are masks of pictures beside them", sorted(masks), "picture")
    paths = [path for path in paths if path not in masks]
    table, listed = read_labels(folder, PictureNames(paths), notes)
    label_columns, cells = choose_label(table, TARGET)
    name = join_names(label_columns)
    unused = [column for column in table.names if column not in label_columns]
    notes.add(f"Left out, because only “{name}” is predicted", unused, "column")
    samples = {}
    for row, cell in zip(table.rows, cells, strict=True):
        if len(row.pictures) > 1:
            raise ValueError(
                f"{row.row_label}: “{row.name}” may be {row.pictures[0]} or {row.pictures[1]}; "
                "write folder and suffix into the table"
            )
        for path in row.pictures:
            earlier_cell = samples.setdefault(path, (cell, row))[0]
            if earlier_cell != cell:
                raise ValueError(
                    f"{row.row_label}: {path} is “{cell}”, and in an earlier row “{earlier_cell}”; "
                    "this loader reads one label for each picture"
                )
    lost = [row.name for row in table.rows if not row.pictures]
    notes.add("Left out, because they are no pictures of the dataset", lost, "row")
    others = [path for path in paths if path not in samples]
    notes.add("Left out, because no row of the table has them", others, "picture")
    blank = [path for path, (cell, _) in samples.items() if cell.casefold() in MISSING_VALUES]
    notes.add("Left out, because their label is missing", blank, "picture")
    labelled = {path: pair for path, pair in samples.items() if path not in {*blank}}
    targets, classes = targets_of([cell for cell, _ in labelled.values()], name, notes)
    parts = [
        row.part or listed.get(path) or part_of(os.path.dirname(path))
        for path, (_, row) in labelled.items()
    ]
    return [*zip(labelled, targets, parts, strict=True)], classes, name


def read_labels(
    folder: str, pictures: PictureNames, notes: Notes
) -> tuple[LabelTable, dict[str, str]]:
    """The rows of the table that names the pictures, and the parts of those in lists."""
    table_notes: dict[str, Notes] = {}
    tables, errors, unlabelled = [], {}, []
    for path in files(folder, *TABLE_SUFFIXES):
        if not is_candidate(path):
            unlabelled.append(path)
        elif not pictures.is_companion(path):
            table_notes[path] = Notes()
            try:
                content = read_table(os.path.join(folder, path), table_notes[path])
                tables.append(NamedColumns(path, *content))
            except ValueError as error:
                errors[path] = str(error)
    table = find_labels(tables, pictures)
    if table is None:
        reason = f": {next(iter(errors.values()))}" if errors else ""
        raise ValueError(f"no table has the names of the pictures and their labels{reason}")
    boxes = [t.path for t in tables if t.path in table.paths and has_boxes(t.names)]
    if boxes and not TARGET:
        raise ValueError(box_advice(boxes[0]))
    listed, lists = parts_of_lists(folder, table.other_paths, pictures)
    notes.add("Read as lists of the sets", lists, "file")
    unlabelled += [path for path in table.other_paths if path not in lists]
    for path in table.paths:
        notes.extend(table_notes[path])
    notes.add("Left out, because they are no labels of pictures", unlabelled, "table")
    notes.add("Left out, because they are no complete tables", sorted(errors), "file")
    return table, listed


def targets_of(cells: list[str], name: str, notes: Notes) -> tuple[list[object], list[str]]:
    """The target of each cell, and the names of the classes."""
    example = several_labels(cells) if TASK == "auto" else ""
    if example:
        raise ValueError(
            f"“{example}” in “{name}” looks like several labels, and this loader reads one for "
            "each picture; set task to “classes” if it is one"
        )
    form = format_of(cells)
    values, classes = target_of(cells, form, TASK, notes, are_ids_classes=True)
    if classes and len(classes) < 2:
        raise ValueError(f"all pictures have the label “{classes[0]}” in “{name}”; two are needed")
    return values.tolist() if classes else [*torch.from_numpy(values)], classes
