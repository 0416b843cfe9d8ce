"""Pictures whose labels are in a table, as competitions and collections have them."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.services.library.dataset_listing import LABELS
from backend.training.user_code import UserCodeError
from tests.gallery.datasets import Datasets, files, open_data
from tests.gallery.test_picture_loaders import Content, notes_of, picture

IDS = [f"{number:04d}ab" for number in range(12)]


def pictures(folder: str, *names: str, suffix: str = ".jpg") -> Content:
    return {
        f"{folder}{name}{suffix}": picture(size=(20, 20), colour=(number * 9 % 256, 0, 0))
        for number, name in enumerate(names)
    }


def table(header: str, *rows: str) -> str:
    return "\n".join([header, *rows]) + "\n" if header else "\n".join(rows) + "\n"


def rows(form: str, *labels: str, names: list[str] = IDS) -> list[str]:
    """A row for each name, with the labels in turn."""
    return [form.format(name, labels[n % len(labels)]) for n, name in enumerate(names)]


def kaggle() -> Content:
    """Of 12 pictures for training 11 have a row, a row has no picture, and a table is a sample."""
    return {
        **pictures("train/", *IDS),
        **pictures("test/", "x", "y"),
        "labels.csv": table("id,breed", *rows("{},{}", "pug", "boxer", names=IDS[:11]), "zzz,pug"),
        "sample_submission.csv": table("id,breed", "x,pug", "y,pug"),
    }


def one_hot() -> Content:
    return {
        **pictures("images/", *IDS, "Test_0"),
        "train.csv": table("image_id,healthy,rust,scab", *rows("{},{}", "1,0,0", "0,1,0", "0,0,1")),
        "test.csv": table("image_id", "Test_0"),
        "sample_submission.csv": table("image_id,healthy,rust,scab", "Test_0,0.25,0.25,0.5"),
    }


def labels_of(datasets: Datasets) -> dict[str, str]:
    return {
        Path(path).name: data.classes[label]
        for data in datasets
        for path, label in data.samples
    }  # fmt: skip


LAYOUTS: dict[str, Content] = {
    "an id without suffix": {"t.csv": table("id,breed", *rows("{},{}", "a", "b"))},
    "a name with suffix": {"t.csv": table("filename,class", *rows("{}.jpg,{}", "a", "b"))},
    "another suffix": {"t.csv": table("file;kind", *rows("{}.PNG;{}", "a", "b"))},
    "a path": {"t.csv": table("kind\tpath", *rows("{1}\t./train/{0}.jpg", "a", "b"))},
    "a path of Windows": {"t.csv": table("path,kind", *rows("C:\\x\\train\\{}.jpg,{}", "a", "b"))},
    "a path of another computer": {
        "t.csv": table("path,kind", *rows("/kaggle/input/dogs/train/{}.jpg,{}", "a", "b"))
    },
    "without a header": {"t.csv": table("", *rows("{}.jpg,{}", "a", "b"))},
    "a list with blanks": {"t.txt": table("", *rows("train/{}.jpg {}", "a", "b"))},
    "the label first": {"t.csv": table("Id,Image", *rows("{1},{0}.jpg", "a", "b"))},
    "other columns": {"t.csv": table("age,id,label,x", *rows("5,{},{},0.5", "a", "b"))},
    "an index of pandas": {
        "t.csv": table(",id,kind", *(f"{n},{row}" for n, row in enumerate(rows("{},{}", "a", "b"))))
    },
    "a URL": {"t.csv": table("url,kind", *rows("https://a.org/x/{}.jpg?w=9,{}", "a", "b"))},
    "a table named for samples": {"samples.csv": table("id,kind", *rows("{},{}", "a", "b"))},
    "numbers of the rows": {
        "t.csv": table("", *(f"{n},{row}" for n, row in enumerate(rows("{}.jpg,{}", "a", "b"))))
    },
    "columns of 0 and 1": {"t.csv": table("id,a,b", *rows("{},{}", "1,0", "0,1"))},
    "columns of texts": {"t.csv": table("id,a,b", *rows("{},{}", "True,False", "False,True"))},
    "sets and a list of all": {
        "trainval.txt": table("", *rows("{} {}", "a", "b", names=IDS[:8])),
        "test.txt": table("", *rows("{} {}", "a", "b", names=IDS[8:])),
        "list.txt": table("", *rows("{} {}", "a", "b")),
    },
    "a table of answers": {
        "train.csv": table("id,kind", *rows("{},{}", "a", "b")),
        "sample_submission.csv": table("id,kind", *rows("{},{}", "b", "b")),
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_table_gives_each_picture_its_label(tmp_path: Path, layout: str) -> None:
    content = pictures("train/", *IDS) | LAYOUTS[layout]
    datasets = open_data("picture-table", files(tmp_path / "d", **content), tmp_path, side=8)
    assert datasets.training.classes == ["a", "b"]
    assert labels_of(datasets) == {f"{name}.jpg": "ab"[n % 2] for n, name in enumerate(IDS)}
    assert datasets.training[0][0].shape == (3, 8, 8)


def test_what_has_no_picture_or_no_row_is_counted(tmp_path: Path) -> None:
    datasets = open_data("picture-table", files(tmp_path / "d", **kaggle()), tmp_path)
    assert len(labels_of(datasets)) == 11
    assert notes_of(datasets) == [
        "Left out, because they are no labels of pictures: 1 table (sample_submission.csv).",
        "Left out, because they are no pictures of the dataset: 1 row (zzz).",
        "Left out, because no row of the table has them: 3 pictures"
        " (test/x.jpg, test/y.jpg, train/0011ab.jpg).",
    ]


def test_unused_columns_and_missing_labels_are_counted(tmp_path: Path) -> None:
    content = pictures("", *IDS) | {
        "t.csv": table("id,age,label", *rows("{},7,{}", "a", "b", names=IDS[:10]),
                       *rows("{},7,", "", names=IDS[10:])),
    }  # fmt: skip
    datasets = open_data("picture-table", files(tmp_path / "d", **content), tmp_path)
    assert notes_of(datasets) == [
        "Left out, because only “label” is predicted: 1 column (age).",
        "Left out, because their label is missing: 2 pictures (0010ab.jpg, 0011ab.jpg).",
    ]


@pytest.mark.parametrize(
    "content",
    [
        {"all.csv": table("id,kind,split", *rows("{},a,train", "", names=IDS[:8]),
                          *rows("{},b,val", "", names=IDS[8:]))},
        {"train.txt": table("", *rows("train/{}.jpg a", "", names=IDS[:8])),
         "val.txt": table("", *rows("train/{}.jpg b", "", names=IDS[8:]))},
        {"train.csv": table("id,kind", *rows("{},a", "", names=IDS[:8])),
         "test.csv": table("id,kind", *rows("{},b", "", names=IDS[8:]))},
        {"all.csv": table("id,kind", *rows("{},a", "", names=IDS[:8]),
                          *rows("{},b", "", names=IDS[8:])),
         "train.txt": table("", *IDS[:8]), "val.txt": table("", *IDS[8:])},
    ],
)  # fmt: skip
def test_files_or_a_column_are_the_sets(tmp_path: Path, content: Content) -> None:
    folder = files(tmp_path / "d", **pictures("train/", *IDS), **content)
    datasets = open_data("picture-table", folder, tmp_path)
    assert [len(data) for data in datasets] == [8, 4]
    assert {label for _, label in datasets.validation.samples} == {1}


def test_the_folder_of_the_set_decides_between_pictures_of_one_name(tmp_path: Path) -> None:
    content = pictures("train/", *"123456") | pictures("test/", *"123456")
    content["train.csv"] = table("id,kind", *rows("{},{}", "a", "b", names=[*"123456"]))
    datasets = open_data("picture-table", files(tmp_path / "d", **content), tmp_path)
    assert {Path(path).parent.name for data in datasets for path, _ in data.samples} == {"train"}


def test_a_table_in_the_folder_of_a_set_is_for_its_pictures(tmp_path: Path) -> None:
    content: Content = {}
    for part, label in (("train", "a"), ("valid", "b")):
        content |= pictures(f"{part}/", *"1234")
        content[f"{part}/_classes.csv"] = table(
            "file,kind", *rows("{}.jpg,{}", label, names=[*"1234"])
        )
    datasets = open_data("picture-table", files(tmp_path / "d", **content), tmp_path)
    assert [{path for path, _ in data.samples} for data in datasets] == [
        {f"{part}/{n}.jpg" for n in "1234"} for part in ("train", "valid")
    ]


def test_zeros_that_excel_removed_are_no_difference(tmp_path: Path) -> None:
    names = [f"{number:03d}" for number in range(12)]
    content = pictures("train/", *names) | {
        "t.csv": table("id,kind", *(f"{int(name)},{'ab'[int(name) % 2]}" for name in names))
    }
    datasets = open_data("picture-table", files(tmp_path / "d", **content), tmp_path)
    assert labels_of(datasets) == {f"{name}.jpg": "ab"[int(name) % 2] for name in names}


@pytest.mark.parametrize(
    ("paths", "name", "part", "expected"),
    [
        (["1.jpg", "001.jpg"], "1", "", ["1.jpg"]),
        (["1.jpg", "001.jpg"], "001.jpg", "", ["001.jpg"]),
        (["a.jpg", "A.jpg"], "A.jpg", "", ["A.jpg"]),
        (["a.jpg", "a.png"], "a.png", "", ["a.png"]),
        (["a.jpg", "a.png"], "a", "", ["a.jpg", "a.png"]),
        (["x/a.jpg", "y/a.jpg"], "y/a", "", ["y/a.jpg"]),
        (["train/a.jpg", "test/a.jpg"], "a", "", ["train/a.jpg"]),
        (["train/a.jpg", "test/a.jpg"], "a", "test", ["test/a.jpg"]),
        (["train/a.jpg", "val/a.jpg"], "a", "validation", ["val/a.jpg"]),
        (["c/train/a.jpg", "d/train/a.jpg"], "/home/x/d/train/a.jpg", "", ["d/train/a.jpg"]),
        (["a.jpg"], "b.jpg", "", []),
    ],
)  # fmt: skip
def test_of_pictures_with_one_name_the_most_alike_is_meant(
    paths: list[str], name: str, part: str, expected: list[str]
) -> None:
    assert LABELS.PictureNames(paths).find_all(name, part) == expected


def test_numbers_are_classes_if_they_repeat_and_values_otherwise(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(200)]
    content = pictures("", *names)

    def targets(*labels: str, **options: str) -> tuple[list[str], list[object]]:
        rows_of_labels = table("id,y", *rows("{},{}", *labels, names=names))
        folder = files(tmp_path / str(labels)[:40], **content, **{"t.csv": rows_of_labels})
        training = open_data("picture-table", folder, tmp_path, **options).training
        return getattr(training, "classes", []), [target for _, target in training.samples]

    assert targets(*map(str, range(100)))[0] == [str(number) for number in range(100)]
    assert targets("0", "5")[0] == ["0", "5"]
    values = targets(*(f"{n / 7:.3f}" for n in range(200)))
    assert values[0] == []
    assert values[1][1].tolist() == pytest.approx([0.143])  # type: ignore[attr-defined]
    assert targets("0", "5", task="numbers")[0] == []


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({}, {}, "no table has the names of the pictures and their labels"),
        ({"t.csv": "a,b\n1\n"}, {}, "and their labels: t.csv, line 2 has 1 columns"),
        ({"t.csv": table("id", *IDS)}, {}, "no table has the names"),
        ({"t.csv": table("id,age,sex", *rows("{},{}", "5,m", "6,f"))}, {},
         "any of the columns age, sex in t.csv can be the label; set target to one of them"),
        ({"t.csv": table("id,a,b", *rows("{},{}", "1,1", "0,1"))}, {},
         "several of the labels a, b, or none, .+; set target to one of these columns"),
        ({"t.csv": table("id,tags", *rows("{},{}", "a|b", "a", "b"))}, {},
         "“a|b” in “tags” looks like several labels, .+ set task to “classes” if it is one"),
        ({"t.csv": table("id,kind", *rows("{},{}", "a", "b"))}, {"target": "x"},
         "there is no column “x”: there are kind"),
        ({"t.csv": table("id,kind", *rows("{},{}", "a", "b"), f"{IDS[0]},b")}, {},
         r"t.csv, line 14: 0000ab.jpg is “b”, and in an earlier row “a”; this loader reads one"),
        ({"t.csv": table("id,kind", *rows("{},a", ""))}, {}, "all pictures have the label “a”"),
        ({"x/new.jpg": picture(), "y/new.jpg": picture(),
          "t.csv": table("id,kind", *rows("{},{}", "a", "b"), "new,a")}, {},
         "t.csv, line 14: “new” may be x/new.jpg or y/new.jpg; write folder and suffix"),
        ({"t.csv": table("id,kind,xmin,ymin,xmax,ymax", *rows("{},{},2,3,9,9", "a", "b"))}, {},
         "t.csv has boxes, which are read in the forms of COCO, VOC and YOLO; convert it, or set"),
        ({"sampleSubmission.csv": table("id,label", *rows("{},{}", "0", "1"))}, {},
         "no table has the names of the pictures and their labels"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, content: Content, options: dict[str, str], message: str
) -> None:
    folder = files(tmp_path / "d", **pictures("", *IDS), **content)
    with pytest.raises(UserCodeError, match=message):
        open_data("picture-table", folder, tmp_path, **options)


@given(name=st.text(st.characters(exclude_categories=["C"], exclude_characters="/\\?%")))
@settings(max_examples=200, deadline=None)
def test_a_picture_is_found_however_its_name_is_written(name: str) -> None:
    name = name.strip().strip(".").strip() or "x"
    path = f"images/{name}.png"
    pictures = LABELS.PictureNames([path, "images/another one.png"])
    spellings = [path, f"{name}.png", unicodedata.normalize("NFD", path), quote(path)]
    spellings += [f"/data/local-files/?d=a/{quote(path)}", path.replace("/", "\\")]
    # Some letters, such as ı, are others once they were capitals.
    spellings += [path.upper()] if path.upper().casefold() == path.casefold() else []
    for spelling in spellings:
        assert pictures.find(spelling) == path


def test_a_table_of_boxes_gives_labels_if_the_target_is_set(tmp_path: Path) -> None:
    content = pictures("", *IDS) | {
        "t.csv": table("id,kind,xmin,ymin,xmax,ymax", *rows("{},{},2,3,9,9", "a", "b"))
    }
    folder = files(tmp_path / "d", **content)
    datasets = open_data("picture-table", folder, tmp_path, target="kind")
    assert labels_of(datasets) == {f"{name}.jpg": "ab"[n % 2] for n, name in enumerate(IDS)}


@pytest.mark.parametrize(
    ("names", "are_boxes"),
    [
        ("filename,class,xmin,ymin,xmax,ymax", True),
        ("image,X_Min,Y_Min,X_Max,Y_Max,label", True),
        ("image,x1,y1,x2,y2", True),
        ("image_id,width,height,bbox,source", True),
        ("patientId,x,y,width,height,Target", True),
        ("id,Left,Top,Right,Bottom", True),
        ("Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId", False),
        ("id,x,y,label", False),
        ("id,width,height,label", False),
        ("id,xmin,xmax,label", False),
    ],
)
def test_columns_of_boxes_are_known_by_their_names(names: str, are_boxes: bool) -> None:
    assert LABELS.has_boxes(names.replace(";", ",").split(",")) is are_boxes


@pytest.mark.parametrize(
    ("name", "can_have_labels"),
    [
        ("sample_submission.csv", False), ("sampleSubmission.csv", False),
        ("a/SampleSubmissionZeros.csv", False), ("sample-submission.csv", False),
        ("samplesubmission.csv", False), ("submission.csv", False), ("Submission (1).csv", False),
        ("gender_submission.csv", False), ("train_test_split.txt", False),
        ("list_eval_partition.csv", False), ("submission/train.csv", True), ("train.csv", True),
        ("samples.csv", True), ("sample.csv", True), ("submissive.csv", True),
    ],
)  # fmt: skip
def test_samples_of_answers_have_no_labels(name: str, can_have_labels: bool) -> None:
    assert LABELS.is_candidate(name) is can_have_labels
