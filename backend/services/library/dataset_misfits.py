"""Says what the files of a dataset are that no loader of the gallery fits, and what to do.

`_NEAR_MISSES` has one entry for each form that is nearly read, the most specific first.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

from backend.base.log import suppress
from backend.records.base import number_format
from backend.records.base.validation import sanitize
from backend.records.library.item import FileEntry
from backend.services.library.dataset_listing import (
    ALL_TABLES,
    LABELS,
    LONG_HEAD,
    MAX_READS,
    SPLITS,
    Listing,
    ReadBytes,
    short_list,
)

_NO_DATA = re.compile(r"(readme|licen[cs]e|changelog|makefile)[^/]*$", re.IGNORECASE)
_FORMS = (
    "it reads pictures in a folder for each class or with a table of labels, boxes (COCO, VOC, "
    "YOLO), tables (CSV, TSV, Parquet) and arrays (.npz, .npy)"
)


def misfit_message(files: Sequence[FileEntry], read: ReadBytes) -> str:
    """Return what the files of a dataset are that no loader fits, and what to do."""
    listing = Listing(files, read)
    listing.reads_left = MAX_READS
    suffixes = Counter(
        path.suffix.lower() or "without suffix" for path in [*listing.paths, *listing.submissions]
    )
    counts = [f"{number_format.count(n)} {suffix}" for suffix, n in suffixes.most_common()]
    content = f"these files ({short_list(counts)})" if counts else "a dataset without files"
    hint = f"{_FORMS}; convert the data, or import a loader of your own"
    with suppress(OSError, ValueError, LookupError, zlib.error):
        hint = next(filter(None, (find(listing) for find in _NEAR_MISSES)), hint)
    return f"No loader of the gallery fits {sanitize(f'{content}: {hint}', 500)}."


def _json_lines(listing: Listing) -> str:
    is_lines = bool(listing.with_suffix(".jsonl", ".ndjson"))
    for path in listing.with_suffix(".json")[:1]:
        is_lines |= bool(re.match(rb"\s*\{[^\n]*\}\s*\n\s*\{", listing.head(path, LONG_HEAD)))
    advice = (
        "convert JSON lines to CSV with a column for each key, such as text and label; free text "
        "needs a loader of your own"
    )
    return advice if is_lines else ""


def _text_folders(listing: Listing) -> str:
    texts = [path.as_posix() for path in listing.with_suffix(".txt")]
    classes = sorted({name for _, name, _ in SPLITS.sort_by_class(texts)[0]} - {""})
    if listing.pictures or len(classes) < 2 or all(map(SPLITS.part_of, classes)):
        return ""
    return (
        f"texts in a folder for each class ({short_list(classes)}) are free text, which needs a "
        "loader of your own"
    )


def _separate_targets(listing: Listing) -> str:
    texts = listing.with_suffix(*ALL_TABLES, ".txt")
    targets = [path.name for path in texts if re.match("y([^a-z]|$)", path.stem.lower())]
    samples = [path.name for path in texts if re.match("x([^a-z]|$)", path.stem.lower())]
    if not targets or not samples:
        return ""
    return (
        f"samples and targets are in files of their own ({short_list([*samples[:1], *targets])}); "
        "join them to one CSV with the target as the last column, or save them as arrays such as "
        "x_train.npy and y_train.npy"
    )


def _bare_names(listing: Listing) -> str:
    names = [p.name for p in listing.paths if not p.suffix and not _NO_DATA.search(p.name)]
    if 2 * len(names) < len(listing.paths) or not names:
        return ""
    return (
        f"{short_list(names)} {'has' if len(names) == 1 else 'have'} no suffix; give a table .csv,"
        " .tsv or .txt, or import a loader of your own"
    )


def _box_tables(listing: Listing) -> str:
    tables = [*listing.with_suffix(*ALL_TABLES), *listing.with_suffix(".txt")]
    for path in tables[: MAX_READS // 2] if listing.pictures else ():
        header = listing.head(path).partition(b"\n")[0].decode("utf-8", "replace")
        if LABELS.has_boxes(re.split(r"[,;\t|]", header)):
            return str(LABELS.box_advice(path.name))
    return ""


def _bare_pictures(listing: Listing) -> str:
    if not listing.pictures:
        return ""
    samples = f"{short_list([path.name for path in listing.submissions])} has no labels; "
    advice = SPLITS.advice_without_classes([*map(str, listing.pictures)]) or (
        "put the pictures into a folder for each class, or add a table with the label of each "
        "picture, or import a loader of your own"
    )
    return f"{samples if listing.submissions else ''}{advice}"


def _bare_tables(listing: Listing) -> str:
    names = [path.name for path in listing.with_suffix(*ALL_TABLES)]
    if not names:
        return ""
    return (
        f"{short_list(names)} {'is' if len(names) == 1 else 'are'} no complete table; write a row "
        "for each sample, with the same columns in each, one of them to predict"
    )


_NEAR_MISSES: tuple[Callable[[Listing], str], ...] = (
    _json_lines,
    _text_folders,
    _separate_targets,
    _box_tables,
    _bare_pictures,
    _bare_names,
    _bare_tables,
)
