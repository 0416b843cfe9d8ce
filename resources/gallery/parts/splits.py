"""Training and validation set: by the names of folders and files, or drawn by a seed."""

import functools
import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence

PARTS = {
    "train": "training", "training": "training", "trainval": "training",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test", "t10k": "test",
    "trn": "training", "tra": "training", "tst": "test", "tes": "test",
}  # fmt: skip
PICTURES = (
    ".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".jp2", ".j2k", ".jpf", ".jpx",
    ".bmp", ".dib", ".gif", ".webp", ".avif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
    ".tga", ".pcx",
)  # fmt: skip
"""Suffixes of pictures that Pillow reads."""
TABLES = (".csv", ".tsv", ".tab", ".data")
SET_TABLES = (".train", ".trn", ".tra", ".val", ".test", ".tst", ".tes")
"""Suffixes of tables for training and testing, as in the UCI repository."""
TEXT_TABLES = (*TABLES, ".txt", *SET_TABLES)
TABLE_SUFFIXES = (*TEXT_TABLES, *(f"{suffix}.gz" for suffix in TEXT_TABLES), ".parquet")
COMPANIONS = (".txt", ".json", ".xml", ".csv", "thumbs.db", "desktop.ini")

MASK = re.compile(
    r"[ _-](?:masks?|seg|segmentation|gt|groundtruth|label)(?:[ _-]?\d+)?$", re.IGNORECASE
)

MASK_FOLDER = re.compile(
    r"(masks?|annot(ation)?s?|labels?|seg(mentation)?s?(class|object)?|gt|ground[ _-]?truths?"
    r"|trimaps?)$",
    re.IGNORECASE,
)
CONTAINER = re.compile(
    r"(^|[^a-z])((jpeg)?images?|imgs?|pictures?|photos?|frames?|jpe?g|png|parts?|batch"
    r"|originals?|raw|rgb|inputs?)([^a-z]|$)",
    re.IGNORECASE,
)
"""Words in the name of a folder with pictures of all classes."""


def masks_of(paths: Collection[str]) -> list[str]:
    """The masks of pictures: a_mask.png beside a.jpg; masks/a.png or masks/a_L.png of images/a.jpg.

    In other folders equal names say nothing: of cats/1.jpg and masks/1.jpg each is a sample.
    """
    stems = {path: os.path.splitext(path.replace(os.sep, "/"))[0] for path in paths}
    all_stems = {*stems.values()}
    folders: dict[str, set[str]] = defaultdict(set)
    for stem in all_stems:
        parent, _, name = stem.rpartition("/")
        folders[name].add(parent)
    masks = []
    for path, stem in stems.items():
        parent, _, name = stem.rpartition("/")
        plain_name = MASK.sub("", name)
        is_beside = plain_name != name and f"{parent}/{plain_name}".lstrip("/") in all_stems
        if is_beside or has_picture(parent, name, folders):
            masks.append(path)
    return masks


def has_picture(parent: str, name: str, folders: Mapping[str, Collection[str]]) -> bool:
    """Whether a folder such as images has the picture of a file in one such as masks.

    Args:
        folders: The folders that have a picture, by its name.
    """
    parents = parent.split("/")
    levels = [level for level, folder in enumerate(parents) if MASK_FOLDER.search(folder)]
    # Of 1_2.png in masks the picture may be 1.jpg.
    names = {name, *(name[: match.start()] for match in re.finditer("[ _.-]", name))}
    siblings = [
        sibling_folder(parents, folder.split("/"), level)
        for level in levels
        for picture_name in names
        for folder in folders.get(picture_name, ())
    ]
    return any(
        (part_of(sibling) or CONTAINER.search(sibling)) and not MASK_FOLDER.search(sibling)
        for sibling in siblings
    )


def sibling_folder(parents: list[str], others: list[str], level: int) -> str:
    """The folder of other parents that is beside that at a level, "" if none is."""
    if level == len(parents) - 1:
        return others[-1]
    # Of masks/train/a.png the picture is in images/train.
    rest = others[:level] + others[level + 1 :]
    return others[level] if rest == parents[:level] + parents[level + 1 :] else ""


def classes_in_names(paths: Sequence[str]) -> list[str]:
    """The words with which most names begin, such as cat and dog of cat.0.jpg and dog_1.jpg.

    Each is in several names. Pictures for testing may have other names.
    """
    names = [
        re.split(r"[\\/]", path)[-1] for path in paths if part_of(os.path.dirname(path)) != "test"
    ]
    first_words = [re.split(r"[\d.]", name)[0].strip(" _-(") for name in names]
    counts = Counter(word for word in first_words if word and not part_of_folder(word))
    words = sorted(word for word, count in counts.items() if count > 1)
    is_most = 2 * sum(counts[word] for word in words) > len(names)
    return words if len(words) > 1 and is_most else []


def advice_without_classes(paths: Sequence[str]) -> str:
    """What pictures without a folder for each class are and what to do, "" if it is not known."""
    masks = sorted(masks_of(paths))
    if masks:
        return (
            f"{len(masks)} of the pictures are masks of others ({', '.join(masks[:3])}), and "
            "no loader of the gallery reads masks; import a loader of your own"
        )
    words = classes_in_names(paths)
    if words:
        return (
            f"the names of the pictures begin with {', '.join(words[:3])}; if these are their "
            "classes, put the pictures into a folder for each"
        )
    return ""


def part_of_folder(name: str) -> str:
    """The part that a folder is named for, such as train2017; "" for another name."""
    return PARTS.get(name.lower().rstrip("0123456789"), "")


def part_of(path: str) -> str:
    """The part that a word in a relative path names, "" if none does."""
    tokens = re.findall("t10k|[a-z]+", path.lower())
    return next((PARTS[token] for token in reversed(tokens) if token in PARTS), "")


def sort_by_class(paths: Sequence[str]) -> tuple[list[tuple[str, str, str]], int]:
    """Path, class ("" for none) and part of each picture, and the level of the classes' folders.

    Folders are sets only if what stands beside them agrees: of bus/front, car/side and train/front
    each is a class. In bus/train and car/train the class is the folder around the set. Paths have
    "/".
    """
    folders = [path.split("/")[:-1] for path in paths]
    deepest = max(map(len, folders), default=0)
    level = next((n for n in range(deepest) if holds_sets(folders, n)), -1)
    # Folders around all pictures, such as the name of the dataset, are no classes.
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    class_level = len(list(shared))
    if level >= 0:
        is_inside = any(
            len(parents) > level + 1 and part_of_folder(parents[level]) for parents in folders
        )
        class_level = level + 1 if is_inside else level - 1
    samples = []
    for path, parents in zip(paths, folders, strict=True):
        part = part_of_folder(parents[level]) if len(parents) > level >= 0 else ""
        is_in_class = len(parents) > class_level and (level < 0 or part)
        samples.append((path, parents[class_level] if is_in_class else "", part))
    return samples, class_level


def other_files(paths: Sequence[str], folders: Collection[str]) -> tuple[str, list[str]]:
    """Reason and paths of a note on files in folders of classes with another suffix."""
    level = max((folder.count("/") + 1 for folder in folders), default=0)
    other_paths = [
        path
        for path in paths
        if "/".join(path.split("/")[:-1][:level]) in folders
        and not path.lower().endswith(PICTURES + COMPANIONS)
    ]
    suffixes = sorted({os.path.splitext(path)[1].lower() or "none" for path in other_paths})
    return f"Left out, because no picture has their suffix ({', '.join(suffixes[:5])})", other_paths


def holds_sets(folders: Sequence[Sequence[str]], level: int) -> bool:
    """Whether the folders at a level are sets such as train and val, and not classes."""
    names_below = defaultdict(set)
    for parents in folders:
        if len(parents) > level:
            names_below[parents[level]].update(parents[level + 1 : level + 2])
    parts = {part_of_folder(name) for name in names_below} - {""}
    classes = {name for top, names in names_below.items() if part_of_folder(top) for name in names}
    other_names = [names for top, names in names_below.items() if not part_of_folder(top)]
    if not classes:
        # The classes may be the folders around: bus/train, car/train.
        return (
            bool(parts)
            and not other_names
            and len({tuple(parents[:level]) for parents in folders}) > 1
        )
    is_alike = any(names & classes for names in other_names) or sum(map(bool, other_names)) > 1
    return len(parts) > 1 or (bool(parts) and not is_alike)


def divide(
    parts: Sequence[str], classes: Sequence[Hashable], share: float, seed: int
) -> list[bool | None]:
    """Whether each sample is for validation; None: it is in neither set.

    Samples named for validation are, or else those named for testing. Without either, a share of
    each class is drawn.

    Args:
        parts: For each sample: training, validation, test or "".
        classes: For each sample; all the same where samples have none.
    """
    import numpy  # The desktop sorts the names of files without it.

    validation_part = "validation" if "validation" in parts else "test"
    if validation_part in parts and not {"validation", "test"} >= set(parts):
        return [
            part == validation_part if part in (validation_part, "training", "") else None
            for part in parts
        ]
    members: dict[Hashable, list[int]] = {}
    for number in numpy.random.default_rng(seed).permutation(len(parts)).tolist():
        members.setdefault(classes[number], []).append(number)
    drawn_numbers = {
        n
        for class_members in members.values()
        for n in class_members[: round(len(class_members) * share)]
    }
    if not drawn_numbers and len(parts) > 1:
        drawn_numbers = {max(members.values(), key=len)[0]}
    return [number in drawn_numbers for number in range(len(parts))]


@functools.lru_cache
def files(folder: str, *suffixes: str) -> list[str]:
    """Relative paths of the files below a folder with these endings, sorted."""
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(suffixes) and not name.startswith(".")
    )
