"""Which tables are the sets, and which columns the loader of tables uses."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.records.base.cells import NOT_ALIKE
from backend.training.user_code import UserCodeError
from tests.gallery.datasets import files, open_data
from tests.gallery.test_suggestions import suggest_loader
from tests.gallery.test_table_loader import FLOWERS, flowers, rows

ROWS = [(n + 5, n % 2, n * n, "xyz"[n % 3]) for n in range(12)]


def numbered(header: str, *columns: int, count: int = 12) -> str:
    lines = [",".join(str(row[n]) for n in columns) for row in ROWS[:count]]
    return "\n".join([header, *lines]) + "\n"


@pytest.mark.parametrize(
    ("content", "features", "reason"),
    [
        ({"train.csv": numbered("Id,Survived,size,kind", 0, 1, 2, 3),
          "test.csv": numbered("Id,size,kind", 0, 2, 3)},
         ["size", "kind = x", "kind = y", "kind = z"], "Predicted, because test.csv lacks it"),
        ({"train.csv": numbered("Label,size,label2", 1, 2, 2)}, ["size", "label2"],
         "Predicted, because of its name"),
        ({"a.csv": numbered("size,class,height", 2, 1, 2)}, ["size", "height"],
         "Predicted, because of its name"),
        ({"a.csv": numbered("label,size,target", 2, 2, 1)}, ["label", "size"], ""),
        ({"a.csv": numbered("size,height,group", 2, 2, 1)}, ["size", "height"], ""),
        ({"train.csv": numbered("size,height,group", 2, 2, 1),
          "test.csv": numbered("size,height,group", 2, 2, 1)}, ["size", "height"], ""),
    ],
)  # fmt: skip
def test_the_column_to_predict_is_shown_by_the_test_file_or_a_name(
    tmp_path: Path, content: dict[str, str], features: list[str], reason: str
) -> None:
    training = open_data("table", files(tmp_path / "d", **content), tmp_path).training
    assert [name for name, _, _ in training.value_columns["data"]] == features
    assert training.classes == ["0", "1"]
    reasons = {note["reason"] for note in training.reading_notes}
    assert {text for text in reasons if text.startswith("Predicted")} == {reason} - {""}


def lines(*columns: Callable[[int], object]) -> str:
    """A table without names of 20 rows, whose cells are functions of the row."""
    return "".join("\t".join(str(column(n)) for column in columns) + "\n" for n in range(1, 21))


def measured(n: int) -> float:
    return n * n * 0.37 % 7


def letters(n: int) -> str:
    return "MB"[n % 2]


def sentence(n: int) -> str:
    return f"see you at {n}"


GUESS = "Predicted as a guess, because it is last; target=… sets another"
TARGETS: dict[str, tuple[str, str, str]] = {
    "texts at the end": (lines(measured, measured, letters), "column 3", ""),
    "numbers of classes at the end": (lines(measured, lambda n: n % 3), "column 2", ""),
    "numbers at the end": (lines(measured, measured), "column 2", GUESS),
    "years at the end": (lines(letters, lambda n: 1990 + n % 5), "column 2", GUESS),
    "several columns of texts": (lines(letters, measured, letters), "column 3", GUESS),
    "flags among numbers": (
        lines(measured, measured, lambda n: n % 2, measured), "column 4", GUESS),
    "texts among texts": (lines(letters, letters, measured), "column 3", GUESS),
    "a message at the end": (
        lines(letters, sentence), "column 1", "Predicted, because most texts of the others occur"),
    "letters first": (
        lines(letters, measured, measured), "",
        "“column 1” has classes such as B and M, and the last column “column 3” has numbers; set "
        "target to one of the two"),
    "letters behind a number": (lines(lambda n: n * 7, letters, measured), "", "“column 2” has"),
    "classes first": (lines(lambda n: n % 3 + 1, measured, measured), "", "such as 1 and 2"),
    "a name at the end": (
        lines(measured, letters, sentence), "",
        "most texts of the last column “column 3” occur once, so it is no target; set target to "
        "one of column 1, column 2"),
}  # fmt: skip


@pytest.mark.parametrize("form", TARGETS)
def test_import_and_loader_guess_a_target_with_a_word_or_ask(tmp_path: Path, form: str) -> None:
    table, target, message = TARGETS[form]
    suggestion = suggest_loader({"a.data": table})
    assert suggestion is not None
    assert message in suggestion.message
    assert ("predicted is" in suggestion.message) is bool(target)
    folder = files(tmp_path / "d", **{"a.data": table})
    if not target:
        with pytest.raises(UserCodeError, match=message):
            open_data("table", folder, tmp_path)
        training = open_data("table", folder, tmp_path, target="column 1").training
        assert not [n for n in training.reading_notes if n["reason"].startswith("Predicted")]
        return
    assert f"predicted is {target}." in suggestion.message
    notes = open_data("table", folder, tmp_path).training.reading_notes
    guesses = [note for note in notes if note["reason"].startswith("Predicted")]
    assert [note["names"] for note in guesses] == [[target]] * bool(message)
    assert all(note["reason"].startswith(message) for note in guesses)


def csv_rows(header: str, labels: str) -> str:
    rows = (f"{n * n},{n},{label}" for n, label in enumerate(labels.split(";") * 4))
    return "\n".join([header, *rows]) + "\n"


SAME_NAME = "Columns of one name, which leave_out omits together"
ONE_CLASS = "Each set of words is one class, and no word is a label of its own"
BELOW_HEADER = "Read as units or names, as they are below the header"
READINGS: dict[str, tuple[str, str, int, list[str]]] = {
    "two columns of one name": (csv_rows("a,a,y", "x;z"), SAME_NAME, 2, ["x", "z"]),
    "sets of words": (
        csv_rows("a,b,tags", "haze road;clear;haze;clear road;clear water;haze water;water road"),
        ONE_CLASS, 5,
        ["clear", "clear road", "clear water", "haze", "haze road", "haze water", "water road"]),
    "sets with bars": (
        csv_rows("a,b,y", "a|b;a|c;a;b|c;b;c"), ONE_CLASS, 3, ["a", "a|b", "a|c", "b", "b|c", "c"]),
    "names of two words": (
        csv_rows("a,b,y", "red jay;blue jay;red kite;owl"), ONE_CLASS, 0,
        ["blue jay", "owl", "red jay", "red kite"]),
    "grades": (
        csv_rows("a,b,y", "low;very low;high;very high"), ONE_CLASS, 0,
        ["high", "low", "very high", "very low"]),
    "questions below the names": (
        csv_rows('Q1,Q2,Q3\nHow old?,How tall?,"Well,\nreally?"\n{1},{2},{3}', "Yes;No"),
        BELOW_HEADER, 2, ["No", "Yes"]),
    "units below": (csv_rows("a,b,y\n[cm],[g],-", "Yes;No"), BELOW_HEADER, 1, ["No", "Yes"]),
    "columns without a name or values": (
        "v1,v2,,\n" + "ham,at home,,\nspam,free,,\nham,later,,\n" * 4,
        "Left out, because they are empty", 2, ["at home", "free", "later"]),
}  # fmt: skip


@pytest.mark.parametrize("form", READINGS)
def test_import_and_loader_read_columns_alike(tmp_path: Path, form: str) -> None:
    table, reason, count, classes = READINGS[form]
    suggestion = suggest_loader({"a.csv": table})
    assert suggestion is not None
    assert suggestion.data_sizes["classes"] == len(classes)
    assert (f"{reason}: {count} " in suggestion.message) is bool(count)
    folder = files(tmp_path / "d", **{"a.csv": table})
    training = open_data("table", folder, tmp_path, **suggestion.settings).training
    assert training.classes == classes
    counts = [note["count"] for note in training.reading_notes if note["reason"] == reason]
    assert counts == [count] * bool(count)
    assert suggestion.data_sizes["features"] == len(training[0][0])


def test_a_target_has_a_name_of_its_own(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"a.csv": csv_rows("a,a,y", "x;z")})
    with pytest.raises(UserCodeError, match="2 columns are named “a”, so it is no target"):
        open_data("table", folder, tmp_path, target="a")


@pytest.mark.parametrize(
    ("header", "is_index"),
    [("Id", True), ("PassengerId", True), ("customer_id", True), ("", True), ("No", True),
     ("index", True), ("Unnamed: 0", True), ("acid", False), ("humid", False), ("year", False)],
)  # fmt: skip
def test_a_column_that_counts_the_rows_is_left_out(
    tmp_path: Path, header: str, is_index: bool
) -> None:
    table = numbered(f"{header},size,kind", 0, 2, 1)
    content = {"train.csv": table, "val.csv": numbered(f"{header},size,kind", 0, 2, 1, count=6)}
    training = open_data("table", files(tmp_path / "d", **content), tmp_path).training
    names = [name for name, _, _ in training.value_columns["data"]]
    assert names == (["size"] if is_index else [header, "size"])
    reasons = [note["reason"] for note in training.reading_notes]
    assert ("Left out, because they count the rows" in reasons) is is_index


def test_numbers_that_do_not_count_are_features_whatever_their_name(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"t.csv": numbered("id,size,kind", 2, 2, 1)})
    training = open_data("table", folder, tmp_path).training
    assert [name for name, _, _ in training.value_columns["data"]] == ["id", "size"]


def test_names_of_files_are_no_features_and_unused_tables_are_counted(tmp_path: Path) -> None:
    lines = "".join(f"a{n}.wav,{n * n},{n % 2}\n" for n in range(6))
    content = {f"audio/{name}.wav": "RIFF" for n in range(6) for name in (f"a{n}", str(n * n))}
    content |= {"meta/train.csv": f"file,size,kind\n{lines}", "more.csv": "a,b\n1,2\n",
                "sample_submission.csv": "id,kind\n1,0\n"}  # fmt: skip
    training = open_data("table", files(tmp_path / "d", **content), tmp_path).training
    assert [name for name, _, _ in training.value_columns["data"]] == ["size"]
    notes = {note["reason"]: note["names"] for note in training.reading_notes}
    assert notes["Left out, because they name files that are not read"] == ["file"]
    assert notes["Left out, because others are named for training"] == ["more.csv"]
    assert notes["Left out, because they are samples or no data"] == ["sample_submission.csv"]


@pytest.mark.parametrize(
    ("training", "test"),
    [("adult.data", "adult.test"), ("digits.tra", "digits.tes"), ("a.trn", "a.tst"),
     ("a.train", "a.val"), ("a.train.gz", "a.test.gz")],
)  # fmt: skip
def test_suffixes_are_the_sets_and_a_dot_makes_no_class(
    tmp_path: Path, training: str, test: str
) -> None:
    """As in UCI's adult.test: a comment above, and a dot behind each class."""
    lines = [f"{n * n}, {n}, {'<=50K' if n % 3 else '>50K'}" for n in range(9)]
    content = {
        training: "\n".join(lines).encode() + b"\n\n",
        test: ("|1x3 Cross validator\n" + ".\n".join(lines[:6]) + ".\n\n").encode(),
    }
    content = {k: gzip.compress(v) if k.endswith("gz") else v for k, v in content.items()}
    datasets = open_data("table", files(tmp_path / "d", **content), tmp_path)
    assert [len(data) for data in datasets] == [9, 6]
    assert datasets.training.classes == ["<=50K", ">50K"]
    notes = {note["reason"]: note["count"] for note in datasets.training.reading_notes}
    assert notes == {
        "Read as one class, because only capitals, blanks or a dot at the end differ": 2,
        "Left out, because they are titles above the table": 1,
    }


def test_a_file_with_the_suffix_of_a_set_need_not_be_a_table(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"a.csv": flowers(), "unit.test": "assert x(1, 2)\nend\n"})
    datasets = open_data("table", folder, tmp_path)
    assert len(rows(datasets)) == len(FLOWERS)
    assert "unit.test" in str(datasets.training.reading_notes)


def test_texts_that_differ_in_capitals_or_blanks_only_are_noted(tmp_path: Path) -> None:
    cells = ["Y", "y", "New  York", "New York", "K\u00e4se", "Ka\u0308se"]
    lines = "".join(f"{n},{cell},{'Aa'[n % 2]}\n" for n, cell in enumerate(cells))
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": f"a,b,c\n{lines}"}), tmp_path)
    names = [name for name, _, _ in datasets.training.value_columns["data"]]
    assert names == ["a", "b = Käse", "b = New  York", "b = New York", "b = Y", "b = y"]
    notes = [
        note["names"] for note in datasets.training.reading_notes if note["reason"] == NOT_ALIKE
    ]
    assert notes == [["New  York and New York in b", "Y and y in b"], ["A and a"]]
