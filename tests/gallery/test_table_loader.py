"""The loader of tables: every form of CSV that programs write, and Parquet."""

from __future__ import annotations

import gzip
import importlib
import sys
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.records.base.cells import format_of
from backend.records.library.preview import note_messages
from backend.training.user_code import UserCodeError
from tests.gallery.datasets import Datasets, files, open_data

FLOWERS = [(5.5, 1.25, "red"), (4.5, 1.5, "blue"), (6.5, 0.75, "red"), (3.5, 2.5, "green"),
           (5.0, 1.0, "blue"), (7.5, 2.0, "green")]  # fmt: skip


def rows(datasets: Datasets) -> list[tuple[list[float], object]]:
    """Every sample as numbers and the name of its class, or its number; sorted."""
    sample_rows: list[tuple[list[float], object]] = []
    for data in datasets:
        for features, target in (data[index] for index in range(len(data))):
            names = getattr(data, "classes", None)
            is_ = names[int(target)] if names else target.tolist()
            sample_rows.append((features.tolist(), is_))
    return sorted(sample_rows, key=lambda row: (row[0], str(row[1])))


def flowers(delimiter: str = ",", point: str = ".", header: str = "a,b,colour\n") -> str:
    lines = [delimiter.join([str(a), str(b), c]) for a, b, c in FLOWERS]
    return header.replace(",", delimiter) + "\n".join(lines).replace(".", point) + "\n"


TABLES = {
    "commas": flowers().encode(),
    "no header": flowers(header="").encode(),
    "semicolons": flowers(";").encode(),
    "decimal comma": flowers(";", ",").encode(),
    "tabs": flowers("\t").encode(),
    "tabs and decimal comma": flowers("\t", ",").encode(),
    "bars": flowers("|").encode(),
    "spaces": flowers(" ").encode(),
    "spaces that align": flowers(" ").replace(" ", "    ").encode(),
    "spaces after commas": flowers(", ").encode(),
    "BOM": flowers().encode("utf-8-sig"),
    "BOM without header": flowers(header="").encode("utf-8-sig"),
    "UTF-16 of Excel": flowers("\t").encode("utf-16"),
    "ends of lines of Windows": flowers().replace("\n", "\r\n").encode(),
    "ends of lines of old Macs": flowers().replace("\n", "\r").encode(),
    "no end of the last line": flowers().rstrip().encode(),
    "empty lines": flowers().replace("\n", "\n\n").encode(),
    "empty rows of Excel": flowers().encode() + b",,\n,,\n",
    "delimiter at the end": flowers().replace("\n", ",\n").encode(),
    "quotes": flowers().replace("red", '"red"').replace("colour", '"colour"').encode(),
    "quoted decimal commas": "".join(
        f'"{a}","{b}",{c}\n'.replace(".", ",") for a, b, c in FLOWERS
    ).encode(),
    "gzip": gzip.compress(flowers().encode(), mtime=0),
    "Excel's first line": b"sep=;\r\n" + flowers(";", ",").encode(),
    "Excel's first line, with a tab": ("SEP=\t\n" + flowers("\t")).encode("utf-16"),
    "Excel's first line, quoted": b'"sep=|"\n' + flowers("|").encode(),
    "Excel's first line and a title": b"\xef\xbb\xbfsep=;\n\nFlowers;;\n" + flowers(";").encode(),
    "titles": ("Flowers of May\n\n\"written on 3 Jan, 8:15\"\n" + flowers()).encode(),
    "titles with empty cells": b"Flowers;;\n;;2026\n;;\n" + flowers(";").encode(),
    "a title without a header": ("Flowers\t\t\n" + flowers("\t", header="")).encode(),
    "units below the names": flowers(header="a,b,colour\n[cm],[g],[-]\n").encode(),
    "units without brackets": flowers(header="a,b,colour\ncm,g,\n").encode(),
    "names in two lines": flowers(header="leaf,,\nlength,width,colour\n").encode(),
    "names in three lines": flowers(";", ",", "leaf,leaf,kind\na,b,\ncm,cm,\n").encode(),
    "blanks and a tab": "".join(f'{a}   {b:<9}\t"{c}"\n' for a, b, c in FLOWERS).encode(),
    "index of pandas": ("," + "".join(
        f"{n - 1 if n else ''}{',' if n else ''}{line}\n"
        for n, line in enumerate(flowers().splitlines())
    )).encode(),
}  # fmt: skip


@pytest.mark.parametrize("form", TABLES)
def test_a_table_is_read_however_it_was_written(tmp_path: Path, form: str) -> None:
    name = "flowers.csv.gz" if form == "gzip" else "flowers.csv"
    datasets = open_data(
        "table", files(tmp_path / "d", **{name: TABLES[form]}), tmp_path, scale="none"
    )
    assert rows(datasets) == sorted(([a, b], c) for a, b, c in FLOWERS)
    assert datasets.training.classes == ["blue", "green", "red"]
    assert (len(datasets.training), len(datasets.validation)) == (5, 1)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("Report\n" + flowers(), ["t.csv, line 1"]),
        ("sep=;\nReport;;\n\n;by Ann;\n" + flowers(";"), ["t.csv, line 2", "t.csv, line 4"]),
        (flowers() + "Total,,\n", []),
        ("x,y\n,a\n2,b\n3,a\n4,b\n", []),
    ],
)
def test_titles_above_a_table_are_counted(tmp_path: Path, table: str, names: list[str]) -> None:
    folder = files(tmp_path / "d", **{"t.csv": table})
    notes = open_data("table", folder, tmp_path, missing="leave row out").training.reading_notes
    titles = [note["names"] for note in notes if "titles above the table" in note["reason"]]
    assert titles == [names] * bool(names)


@pytest.mark.parametrize(
    ("head", "names", "note_rows"),
    [
        ("a,b,y\n[cm],[g],\n", ["a", "b"], ["t.csv, line 2"]),
        ("size,,y\na,b,\n", ["size a", "size b"], ["t.csv, line 2"]),
        ("a,b,y\n", ["a", "b"], []),
        ("a,b,y\n1,low,x\n", ["a", "b"], []),
    ],
)
def test_lines_below_the_header_are_names_or_units(
    tmp_path: Path, head: str, names: list[str], note_rows: list[str]
) -> None:
    table = head + "".join(f"{n},{n * n},{'xy'[n % 2]}\n" for n in range(20))
    dataset = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path).training
    columns = [name.partition(" = ")[0] for name, _, _ in dataset.value_columns["data"]]
    assert [*dict.fromkeys(columns)] == names
    notes = [note for note in dataset.reading_notes if "below the header" in note["reason"]]
    assert [note["names"] for note in notes] == [note_rows] * bool(note_rows)


FOOTERS = {
    "a sum": "Total,99,\n",
    "a mean and a note": "Average,4.5,\nSource: the office\n",
    "a note after an empty line": "\n\nEnd of report\n",
    "a note with a comma": '"Notes: none, so far"\n',
}


@pytest.mark.parametrize("form", FOOTERS)
def test_sums_and_notes_below_a_table_are_no_rows(tmp_path: Path, form: str) -> None:
    folder = files(tmp_path / "d", **{"t.csv": flowers() + FOOTERS[form]})
    datasets = open_data("table", folder, tmp_path, scale="none")
    assert rows(datasets) == sorted(([a, b], c) for a, b, c in FLOWERS)
    assert any("below the table" in note["reason"] for note in datasets.training.reading_notes)


def test_comments_are_no_rows(tmp_path: Path) -> None:
    table = "# by Ann, Bob\n# at 8:15, 20 C, wet\n" + flowers().replace("4.5", "# a pause\n4.5")
    assert len(rows(open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path))) == 6


def test_classes_that_differ_in_capitals_only_are_one_and_letters_are_codes(tmp_path: Path) -> None:
    def classes(names: str) -> list[str]:
        table = "a,b,y\n" + "".join(f"{n},{n},{name}\n" for n, name in enumerate(names.split()))
        folder = files(tmp_path / names, **{"t.csv": table})
        return open_data("table", folder, tmp_path).training.classes or []

    assert classes("Yes no YES Yes No no") == ["Yes", "no"]
    assert classes("C c C c") == ["C", "c"]


def test_a_file_of_the_uci_repository_is_a_table(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"iris.data": flowers(header=""), "iris.names": "About it"})
    assert len(rows(open_data("table", folder, tmp_path))) == len(FLOWERS)
    folder = files(tmp_path / "e", **{"a.data": "1,2,a\n3,4,b\n", "a.test": "x,y\n1,a\n"})
    notes = open_data("table", folder, tmp_path).training.reading_notes
    assert ("Left out, because they have other columns", ["a.test"]) in [
        (note["reason"], note["names"]) for note in notes
    ]


def in_encoding(encoding: str, *labels: str) -> bytes:
    """A table of two columns, of which the second has the labels."""
    lines = ["a,b", *(f"{n},{label}" for n, label in enumerate(labels * 3))]
    return "\n".join(lines).encode(encoding)


_UNKNOWN = "is in an unknown encoding; save the file as “CSV UTF-8”"
_JAPANESE = "Read in the Japanese encoding of Windows"
_CYRILLIC = "Read in the Cyrillic encoding of Windows"
ENCODINGS: dict[str, tuple[bytes, str, list[str]]] = {
    "German": (in_encoding("cp1252", "groß", "klein"), "", ["groß", "klein"]),
    "French": (in_encoding("cp1252", "«À»", "d’été", "œuf"), "", ["d’été", "œuf", "«À»"]),
    "Icelandic": (in_encoding("cp1252", "þýðing", "lög"), "", ["lög", "þýðing"]),
    "units": (in_encoding("cp1252", "m²", "½ €", "°C"), "", ["m²", "°C", "½ €"]),
    "mojibake of SMS": (in_encoding("cp1252", "don‰Ûªt", "å£5"), "", ["don‰Ûªt", "å£5"]),
    "kana": (in_encoding("cp932", "はい", "いいえ"), _JAPANESE, ["いいえ", "はい"]),
    "kanji": (in_encoding("cp932", "合格", "不合格"), _JAPANESE, ["不合格", "合格"]),
    "Russian": (in_encoding("cp1251", "Да", "Нет"), _CYRILLIC, ["Да", "Нет"]),
    "Ukrainian": (in_encoding("cp1251", "Київ", "Львів"), _CYRILLIC, ["Київ", "Львів"]),
    "Russian of Unix": (in_encoding("koi8-r", "Москва", "да"), _UNKNOWN, []),
    "Greek": (in_encoding("cp1253", "ναι", "όχι"), _UNKNOWN, []),
    "Hebrew": (in_encoding("cp1255", "כן", "לא"), _UNKNOWN, []),
    "Chinese": (in_encoding("gbk", "男", "女"), _UNKNOWN, []),
    "Korean": (in_encoding("euc-kr", "예", "아니오"), _UNKNOWN, []),
    "Japanese of Unix": (in_encoding("euc-jp", "はい", "いいえ"), _UNKNOWN, []),
    "Polish": (in_encoding("cp1250", "żółty", "biały"), _UNKNOWN, []),
    "German of DOS": (in_encoding("cp850", "größe", "käse"), _UNKNOWN, []),
    "two encodings": (
        in_encoding("utf-8", "Köln", "Bonn") + b"\n" + in_encoding("cp1252", "Köln", "Bonn"),
        "line 2 is in UTF-8 and line 9 is not; save the file as “CSV UTF-8”", [],
    ),
    "two encodings in a line": (
        b"a,b\n" + "Köln,".encode() + "süß\n".encode("cp1252"), _UNKNOWN, []),
}  # fmt: skip


@pytest.mark.parametrize("form", ENCODINGS)
def test_a_table_in_an_encoding_of_windows_is_read_or_refused(tmp_path: Path, form: str) -> None:
    table, message, classes = ENCODINGS[form]
    folder = files(tmp_path / "d", **{"t.csv": table})
    if not classes:
        with pytest.raises(UserCodeError, match=f"t.csv, .*{message}"):
            open_data("table", folder, tmp_path)
        return
    training = open_data("table", folder, tmp_path).training
    assert training.classes == sorted(classes)
    reasons = " ".join(note["reason"] for note in training.reading_notes)
    assert message in reasons
    assert ("encoding" in reasons) is bool(message)


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        ([1, 2, 3, 1, 2, 3], ["1", "2", "3"]),
        ([0, 1, 0, 1, 0, 1], ["0", "1"]),
        ([-1, 1, -1, 1, 1, 1], ["-1", "1"]),
        (["1.0", "2.0", "2.0", "1.0", "2.0", "1.0"], ["1", "2"]),
        (["yes", "no", "no", "yes", "no", "no"], ["no", "yes"]),
        (["5", "5", "b", "b", "5", "b"], ["5", "b"]),
    ],
)
def test_classes_are_found_and_counted_from_0(
    tmp_path: Path, column: list[object], classes: list[str]
) -> None:
    table = "x,y\n" + "".join(f"{n},{value}\n" for n, value in enumerate(column))
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path)
    assert datasets.training.classes == datasets.validation.classes == classes
    assert {int(target) for _, target in datasets.training} <= set(range(len(classes)))


@pytest.mark.parametrize(
    ("settings", "is_numbers"),
    [({}, True), ({"task": "numbers"}, True), ({"task": "classes"}, False)],
)
def test_a_target_may_be_a_number(
    tmp_path: Path, settings: dict[str, str], is_numbers: bool
) -> None:
    table = "x,y\n" + "".join(f"{n},{n * 0.5}\n" for n in range(20))
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path, **settings)
    assert hasattr(datasets.training, "classes") is not is_numbers
    if is_numbers:
        assert datasets.training[0][1].shape == (1,)
        assert sorted(is_ for _, is_ in rows(datasets)) == [[n * 0.5] for n in range(20)]


def test_the_target_and_columns_are_chosen_by_name(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"t.csv": flowers(header="a,b,colour\n")})
    datasets = open_data("table", folder, tmp_path, target="b", leave_out="a")
    assert datasets.training[0][0].shape == (3,), "one for each colour"
    assert datasets.training[0][1].shape == (1,)


def test_texts_among_the_features_become_one_column_each(tmp_path: Path) -> None:
    table = "size,colour,kind\n1,red,x\n2,blue,y\n3,red,x\n4,green,y\n"
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path, scale="none")
    assert rows(datasets)[0] == ([1, 0, 0, 1], "x")


def test_features_have_mean_0_and_variance_1_in_training(tmp_path: Path) -> None:
    table = "x,same,y\n" + "".join(f"{n * n},7,{n % 2}\n" for n in range(100))
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path)
    features = datasets.training.features.numpy()
    numpy.testing.assert_allclose(features.mean(0), [0, 0], atol=1e-6)
    numpy.testing.assert_allclose(features.std(0), [1, 0], atol=1e-6)


GAPS = "a,b,y\n1,2,x\n,4,y\n5,?,x\n7,NaN,y\n9,2,x\n3,2,\n"


@pytest.mark.parametrize(
    ("missing", "count"), [("leave row out", 2), ("mean", 5)]
)  # fmt: skip
def test_rows_with_missing_values_are_left_out_or_filled(
    tmp_path: Path, missing: str, count: int
) -> None:
    folder = files(tmp_path / "d", **{"t.csv": GAPS})
    datasets = open_data("table", folder, tmp_path, missing=missing, scale="none")
    table_rows = rows(datasets)
    assert len(table_rows) == count
    assert numpy.isfinite([features for features, _ in table_rows]).all()


def test_a_missing_text_is_no_mean(tmp_path: Path) -> None:
    table = "a,b,y\n1,red,x\n,blue,y\n5,,x\n7,red,y\n9,,x\n"
    folder = files(tmp_path / "d", **{"t.csv": table})
    notes = open_data("table", folder, tmp_path, missing="mean").training.reading_notes
    names_by_reason = {note["reason"]: note["names"] for note in notes}
    assert names_by_reason["Missing, so the mean of the column is used"] == ["a"]
    assert names_by_reason["Missing, so the row has none of the column's texts"] == ["b", "b"]


def test_train_and_validation_files_are_the_sets_and_a_test_file_without_target_is_not(
    tmp_path: Path,
) -> None:
    folder = files(
        tmp_path / "d",
        **{"train.csv": flowers(), "val.csv": flowers()[: flowers().index("4.5")] + "9,9,red\n",
           "test.csv": "a,b\n1,2\n", "README.txt": "about"},
    )  # fmt: skip
    datasets = open_data("table", folder, tmp_path, scale="none")
    assert (len(datasets.training), len(datasets.validation)) == (6, 2)
    assert [9.0, 9.0] in datasets.validation.features.tolist()
    folder = files(tmp_path / "e", **{"train.csv": flowers(), "test.csv": "a,b\n1,2\n"})
    datasets = open_data("table", folder, tmp_path)
    assert (len(datasets.training), len(datasets.validation)) == (5, 1)


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "\n\n", "t.csv is empty"),
        ("t.csv", "a,b,c\n", "t.csv has a header and no rows"),
        ("t.csv", "a\n1\n2\n3\n", r"the table has 1 column\(s\) with values"),
        ("t.csv", "a,b\n,1\n,2\n", r"the table has 1 column\(s\) with values"),
        ("t.csv", "a,b,y\n1,2,x\n1,2\n", "t.csv, line 3 has 2 columns, and the first has 3"),
        ("t.csv", GAPS, r"t.csv, line 3: “a” has no value \(4 are missing in all\)"),
        ("t.csv", "a,b,y\n1,2,x\n1,,x\n", "t.csv, line 3: “b” has no value"),
        ("t.csv.gz", TABLES["gzip"][:-12], "t.csv.gz is cut off or damaged"),
        ("t.csv", "a,y\n" + "".join(f"t{n},{n % 2}\n" for n in range(60)), "“a” has 60 different"),
        ("t.parquet", b"PAR1 no", "t.parquet cannot be read"),
        ("picture.png", b"\x89PNG", "the dataset has no CSV, TSV or Parquet file"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, name: str, table: str | bytes, message: str
) -> None:
    with pytest.raises(UserCodeError, match=message):
        open_data("table", files(tmp_path / "d", **{name: table}), tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "color"}, "there is no column “color”: there are a, b, colour"),
        ({"leave_out": "c"}, "there is no column “c”"),
        ({"target": "a", "leave_out": "a"}, "the target column “a” is left out"),
        ({"leave_out": "a, b"}, r"1 column\(s\) with values"),
        ({"task": "numbers"}, "the target is not a number everywhere: “red”"),
        ({"delimiter": "semicolon"}, r"1 column\(s\) with values"),
    ],
)
def test_a_setting_that_does_not_fit_the_table_is_one_sentence(
    tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    folder = files(tmp_path / "d", **{"t.csv": flowers()})
    with pytest.raises(UserCodeError, match=message):
        open_data("table", folder, tmp_path, **settings)


@pytest.mark.parametrize("row", ["5.5,1.25\n", "5.5,1.25,red\n", "b,a\n1.25,5.5\n"])
def test_a_file_with_a_row_is_tried(tmp_path: Path, row: str) -> None:
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": flowers()}), tmp_path)
    known_features = [
        features.tolist() for features, _ in [*datasets.training, *datasets.validation]
    ]
    (tmp_path / "new.csv").write_text(row)
    assert datasets.training.read(str(tmp_path / "new.csv")).tolist() in known_features
    (tmp_path / "all.csv").write_text(flowers())
    assert len(datasets.training.read_all(str(tmp_path / "all.csv"))) == 6


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    pyarrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    a, b, colour = (list(column) for column in zip(*FLOWERS, strict=True))
    (tmp_path / "d").mkdir()
    parquet.write_table(
        pyarrow.table({"a": a, "b": b, "colour": colour}), tmp_path / "d/flowers.parquet"
    )
    datasets = open_data("table", tmp_path / "d", tmp_path, scale="none")
    assert rows(datasets) == sorted(([a, b], c) for a, b, c in FLOWERS)


def test_columns_of_parquet_without_numbers_or_texts_are_left_out(tmp_path: Path) -> None:
    """Hugging Face stores pictures as bytes in such columns."""
    pyarrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    picture = [{"bytes": b"PNG", "path": "1.png"}] * 6
    (tmp_path / "d").mkdir()
    table = pyarrow.table({"image": picture, "raw": [b"x"] * 6, "label": [0, 1] * 3})
    parquet.write_table(table, tmp_path / "d/t.parquet")
    with pytest.raises(UserCodeError, match="no numbers or texts: image, raw"):
        open_data("table", tmp_path / "d", tmp_path)


def test_without_pyarrow_a_csv_is_read_and_a_parquet_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    open_data("table", files(tmp_path / "d", **{"t.csv": flowers()}), tmp_path)
    with pytest.raises(UserCodeError, match=r"The code needs pyarrow") as error:
        open_data("table", files(tmp_path / "e", **{"t.parquet": b"PAR1"}), tmp_path)
    assert error.value.package == "pyarrow"


_CELL = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@given(
    table=st.lists(st.tuples(_CELL, _CELL, st.sampled_from("pqr")), min_size=4, max_size=12).map(
        # A cell that has one meaning only: 1,234 alone can be read in two ways.
        lambda rows: [*rows, (0.25, 0.25, "p")]
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    has_header=st.booleans(),
    point=st.sampled_from([".", ","]),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_table_is_read_back(
    tmp_path: Path,
    table: list[tuple[float, float, str]],
    delimiter: str,
    has_header: bool,
    point: str,
) -> None:
    point = "." if delimiter == "," else point
    lines = [delimiter.join([repr(a).replace(".", point), repr(b).replace(".", point), c])
             for a, b, c in table]  # fmt: skip
    head = [delimiter.join("abc")] if has_header else []
    (tmp_path / "d").mkdir(exist_ok=True)
    (tmp_path / "d/t.csv").write_text("\n".join(head + lines))
    datasets = open_data("table", tmp_path / "d", tmp_path, scale="none")
    expected_rows = sorted(
        ([float(numpy.float32(a)), float(numpy.float32(b))], c) for a, b, c in table
    )
    assert rows(datasets) == expected_rows


COLUMNS: dict[str, tuple[list[str], list[float], str]] = {
    "thousands": (["1,234", "985", "12,000", "7"], [1234, 985, 12000, 7], "“,” between thousands"),
    "decimal comma": (["0,5", "1,25", "3", "2,0"], [0.5, 1.25, 3, 2], "a decimal comma"),
    "both signs": (["1.234,5", "0,5", "12", "7"], [1234.5, 0.5, 12, 7], "“.” between thousands"),
    "spaces": (["1 234", "12 345 678", "5", "7"], [1234, 12345678, 5, 7], ""),
    "apostrophes": (["1'234", "12’345", "5", "7"], [1234, 12345, 5, 7], ""),
    "accounts": (["(1,768)", "995", "(5)", "12,000"], [-1768, 995, -5, 12000], "between thousands"),
    "a minus": (["−5", "7", "−1.5", "0.25"], [-5, 7, -1.5, 0.25], ""),
    "a minus behind": (["5-", "7", "1.5-", "0.25"], [-5, 7, -1.5, 0.25], "minus behind the digits"),
    "a minus behind, with a decimal comma": (
        ["1.768,5-", "0,5", "3-", "7"], [-1768.5, 0.5, -3, 7], "the minus behind the digits"),
    "a dash as a minus": (["–5", "7", "– 1.5", "‐0.25"], [-5, 7, -1.5, -0.25], ""),
    "money behind": (["1.234,50 €", "7,00 €", "3 €"], [1234.5, 7, 3], "in €"),
    "money with a dash": (["–€5", "€7"], [-5, 7], "in €"),
    "debts": (["-$5", "($7.50)", "$1,200.00", "$3"], [-5, -7.5, 1200, 3], "in $"),
    "groups of India": (["₹1,23,456.50", "₹12,34,567"], [123456.5, 1234567], "in ₹"),
    "percent": (["5 %", "7%", "12.5%", "0"], [], "Read as texts, because units differ"),
    "a unit": (["5 kg", "7.5 kg", "1,200 kg", "3 kg"], [5, 7.5, 1200, 3], "in kg"),
    "a unit of two parts": (["0.5 a.u.", "2 a.u.", "1 a.u.", "3 a.u."], [0.5, 2, 1, 3], "in a.u."),
    "a quotient": (["5 m/s²", "7.5 m/s²", "1 m/s²", "3 m/s²"], [5, 7.5, 1, 3], "in m/s²"),
    "magnitudes": (["1.5k", "2M", "800", "3K"], [1500, 2e6, 800, 3000], "with k for a thousand"),
    "money in magnitudes": (["€1.5M", "€500K", "€0", "€3"], [1.5e6, 5e5, 0, 3], "in € and with k"),
    "kelvin": (["300K", "280K", "295K", "310K"], [300, 280, 295, 310], "in K"),
    "money": (["$5", "$7.50", "$1,200.00", "$3"], [5, 7.5, 1200, 3], "in $"),
    "exponents": (["1e3", "-.5", "+25.E-2", "3"], [1000, -0.5, 0.25, 3], ""),
    "ISO dates": (["1970-01-02", "1970-01-11", "1969-12-31"], [1, 10, -1], "dates"),
    "dates with points": (["2.1.1970", "11.1.70", "31.12.1969"], [1, 10, -1], "dates"),
    "month first": (["1/2/1970", "1/11/1970", "12/31/1969", "1/1/1970"], [1, 10, -1, 0], "dates"),
    "times": (["1970-01-01 06:00", "1970-01-01T12:00", "1970-01-02 00:00", "1970-01-01"],
              [0.25, 0.5, 1, 0], "dates"),
    "times with a zone": (
        ["1970-01-02T02:00:00+02:00", "1970-01-01T12:00-0600", "1970-01-01 05:30+05:30",
         "1970-01-01T06:00:00.000Z", "1970-01-01 12:00:00,0 UTC", "1969-12-31 19:00-05"],
        [1, 0.75, 0, 0.25, 0.5, 0], "dates, in days since 1970 in UTC"),
    "a unit of two words": (["2,131 sq ft", "980 sq ft", "1,200 sq ft"], [2131, 980, 1200],
                            "“,” between thousands and in sq\u00a0ft"),
    "a unit with points": (["5 fl. oz.", "7.5 fl. oz."], [5, 7.5], "in fl.\u00a0oz."),
    "money for a time": (["$5 per hour", "$7.50 per hour"], [5, 7.5], "in $per\u00a0hour"),
    "units of two words": (["5 sq ft", "7 sq m", "3 sq ft"], [], "because units differ"),
    "missing": (["2", "None", "NA", "2"], [2], "Missing, so the mean of the column"),
    "dashes": (["2,5", "–", "−", "2,5", "-"], [2.5], "Missing, so the mean of the column"),
    "words": (["2", "n/d", "keine Angabe", "2", "k. A."], [2], "Missing, so the mean"),
    "marks of programs": (["2", "#NV", "<NA>", "\\N", "2", "NaT"], [2], "Missing, so the mean"),
    "errors of a German sheet": (["2", "#WERT!", "#BEZUG!", "2"], [2], "Missing, so the mean"),
    "nines": (["-999", "12.5", "-3", "7"], [-999, 12.5, -3, 7],
              "“-999” is read as a number, and probably is a missing mark"),
    "nines with a decimal comma": (["-9999,00", "0,5", "1,5"], [-9999, 0.5, 1.5],
                                   "“-9999,00” is read as a number, and probably is a missing"),
    "nines at the top": (["9999", "12", "30", "9999"], [9999, 12, 30], "probably is a missing"),
    "nines among their like": (["99", "12", "98", "100"], [99, 12, 98, 100], ""),
    "two values, one of nines": (["99", "1", "99", "1"], [99, 1], ""),
    "a word of the lab": (["2", "3", "4", "5", "verschollen"], [],
                          "Read as texts, because of “verschollen”, which may be a missing mark"),
    "classes": (["2", "b", "3", "c"], [], ""),
    "errors of a sheet": (["2", "#DIV/0!", "n.a.", "2"], [2], "Missing, so the mean of the column"),
}  # fmt: skip


@pytest.mark.parametrize("form", COLUMNS)
def test_numbers_are_read_as_people_write_them_and_what_is_not_plain_is_said(
    tmp_path: Path, form: str
) -> None:
    cells, values, note = COLUMNS[form]
    table = "x;y\n" + "".join(f"{cell};{n % 2}\n" for n, cell in enumerate([*cells, *cells]))
    folder = files(tmp_path / "d", **{"t.csv": table})
    datasets = open_data("table", folder, tmp_path, scale="none", missing="mean", target="y")
    if values:
        assert sorted({features[0] for features, _ in rows(datasets)}) == sorted(set(values))
    else:
        assert len(datasets.training[0][0]) == len(set(cells))
    notes = " ".join(note_messages(datasets.training.reading_notes))
    assert note in notes
    assert bool(notes) is bool(note)


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (["g/L", "2", "3", "4", "5"], "because of “g/L” at the top: delete a row of units"),
        (["%", "2.5", "3", "4", "5"], "because of “%” at the top: delete a row of units"),
        (["2", "3", "4", "5", "g/L"], "because of “g/L”, which may be a missing mark"),
        (["g/L", "2", "3", "4", "g/L", "5", "6", "7", "8"], "“g/L”, which may be a missing mark"),
        ([f"probe {n}" for n in range(10)], "Nearly each row has another text; leave_out omits"),
        ([f"P{n}-a" for n in range(19)] + ["P1-a"], "Nearly each row has another text"),
        ([f"{n} Mill Lane {'ABCDEFGHIJ'[n]}" for n in range(10)], "Nearly each row has another"),
        ([f"{n}.5 sq ft" for n in range(19)] + ["TBD"], "Read as texts, because of “TBD”, which"),
        ([f"{n} sq ft" for n in range(12)] + [*"abcde"], "because not all are numbers"),
        ([f"{n} fl oz" for n in range(12)] + [f"{n} cu in" for n in range(12)], "units differ"),
        ([f"07:30:{n}" for n in range(10, 20)], "and not as times: write them as 2025-05-22"),
        ([f"May {n}, 2025 7:30 PM" for n in range(10, 20)], "and not as times: write them as"),
        ([f"{n} May 2025" for n in range(10, 20)], "and not as times: write them as"),
        ([f"probe {n}" for n in range(9)], ""),
        ([f"probe {n % 18}" for n in range(20)], ""),
        ([str(n) for n in range(20)], ""),
        (["red", "blue"] * 10, ""),
    ],
)
def test_a_column_of_texts_that_should_be_none_is_noted(cells: list[str], note: str) -> None:
    form_note = format_of(cells).note
    assert note in form_note
    assert bool(note) is bool(form_note)


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        ([*["-200"] * 3, "0,8", "5,1", "3,2"], "“-200” is read as a number, and probably is a "
         "missing mark (3 times); set missing_marks=-200"),
        (["-200", "600", "-200", "2000", "-200", "900"], "“-200”"),
        (["500", "1", "500", "2", "500", "3.5"], "“500”"),
        (["-1000", "5", "-3", "-1000", "-1000.0", "4"], "“-1000”"),
        (["9999", "1.5", "2"], "“9999” is read as a number, and probably is a missing mark (once)"),
        (["-200", "0.8", "-200", "5.1"], ""),
        (["-200", "-180", "-200", "-200", "40"], ""),
        (["0", "0", "0", "1000", "1010"], ""),
        (["-5", "-5", "-5", "10", "20"], ""),
        (["100.5", "100.5", "100.5", "1", "2"], ""),
        (["100", "100", "100", "80", "55"], ""),
        (["200", "200", "200", "1"], ""),
    ],
)  # fmt: skip
def test_a_repeated_number_beyond_all_others_is_noted(cells: list[str], mark: str) -> None:
    note = format_of(cells).note
    assert mark in note
    assert ("missing mark" in note) is bool(mark)


@pytest.mark.parametrize(
    ("cells", "settings", "value"),
    [
        (["1,234", "2,701"], {"decimal": "point"}, 1234),
        (["1,234", "2,701"], {"decimal": "comma"}, 1.234),
        (["1,234", "1234"], {"decimal": "point"}, 1234),
        (["1/2/1970", "3/4/1970"], {"dates": "day first"}, 31),
        (["1/2/1970", "3/4/1970"], {"dates": "month first"}, 1),
    ],
)
def test_a_column_that_can_be_read_in_two_ways_is_refused_and_a_setting_decides(
    tmp_path: Path, cells: list[str], settings: dict[str, str], value: float
) -> None:
    table = "x;y\n" + "".join(f"{cell};{n % 2}\n" for n, cell in enumerate(cells * 3))
    folder = files(tmp_path / "d", **{"t.csv": table})
    with pytest.raises(UserCodeError, match=f"the column “x”: “{cells[0]}” and “.+” can be read"):
        open_data("table", folder, tmp_path)
    datasets = open_data("table", folder, tmp_path, scale="none", **settings)
    assert value in [pytest.approx(features[0]) for features, _ in rows(datasets)]


def test_columns_of_a_table_may_have_different_decimal_signs(tmp_path: Path) -> None:
    table = "a;b;y\n" + "".join(f"{n},5;{n}.25;{n % 2}\n" for n in range(6))
    datasets = open_data("table", files(tmp_path / "d", **{"t.csv": table}), tmp_path, scale="none")
    assert rows(datasets)[3][0] == [3.5, 3.25]


@given(
    values=st.lists(st.integers(0, 10**7), min_size=3, max_size=9),
    mark=st.sampled_from([" ", "'", "\u202f", "_"]),
)
def test_numbers_with_marks_between_thousands_are_read_back(values: list[int], mark: str) -> None:
    cells = [f"{value:,}".replace(",", mark) for value in values]
    form = format_of(cells)
    assert [form.parse(cell) for cell in cells] == values


@pytest.mark.parametrize("name", ["None", "NA", "null"])
def test_a_text_that_elsewhere_means_missing_is_a_class_among_texts(
    tmp_path: Path, name: str
) -> None:
    table = "x,kind\n" + "".join(f"{n},{('red', name, 'blue')[n % 3]}\n" for n in range(60))
    folder = files(tmp_path / "d", **{"t.csv": table})
    for missing in ("stop", "mean", "leave row out"):
        datasets = open_data("table", folder, tmp_path, missing=missing)
        assert datasets.training.classes == sorted([name, "red", "blue"])
        assert len(datasets.training) + len(datasets.validation) == 60
        notes = note_messages(datasets.training.reading_notes)
        assert notes[0].startswith("Read as texts, not as missing values: 20 values")


def test_rows_and_columns_that_are_left_out_are_counted(tmp_path: Path) -> None:
    folder = files(tmp_path / "d", **{"t.csv": GAPS.replace("\n", ",\n")})
    datasets = open_data("table", folder, tmp_path, missing="leave row out")
    assert list(note_messages(datasets.training.reading_notes))[:2] == [
        "Left out, because they are empty: 1 column (column 4).",
        "Left out, because a value is missing: 4 rows (t.csv, line 3, t.csv, line 4, "
        "t.csv, line 5 and 1 more).",
    ]


def test_numbers_that_are_codes_can_be_texts(tmp_path: Path) -> None:
    table = "code,y\n" + "".join(f"{100 + n % 3},{n % 2}\n" for n in range(12))
    folder = files(tmp_path / "d", **{"t.csv": table})
    datasets = open_data("table", folder, tmp_path, texts="code")
    assert datasets.training[0][0].shape == (3,)
    assert datasets.training.value_columns["data"][0] == ("code = 100", 0.0, 1.0)


@pytest.mark.parametrize(
    ("marks", "cells"),
    [
        ("-999", ["2", "-999", "4"]),
        ("verschollen", ["2", "verschollen", "4"]),
        ("-999, Verschollen", ["2", "verschollen", "-999", "4"]),
    ],
)
def test_what_means_missing_in_a_file_can_be_named(
    tmp_path: Path, marks: str, cells: list[str]
) -> None:
    table = "x,y\n" + "".join(f"{cell},{n % 2}\n" for n, cell in enumerate(cells * 4))
    folder = files(tmp_path / "d", **{"t.csv": table})
    datasets = open_data(
        "table", folder, tmp_path, missing="leave row out", missing_marks=marks, scale="none"
    )
    assert {features[0] for features, _ in rows(datasets)} == {2.0, 4.0}
    (tmp_path / "new.csv").write_text("x\n-999\n4\n")
    assert numpy.isfinite(datasets.training.read(str(tmp_path / "new.csv")).numpy()).all()
    with pytest.raises(UserCodeError, match="“x” has no value"):
        open_data("table", folder, tmp_path, missing_marks=marks)
