"""Numbers, dates and missing values as people write them.

A table's column is read in one format, which all its cells decide. The numbers of curves and logs
are read by the same rules, each alone. Exports and the gallery's loader of tables get a copy of
this module, so it needs the standard library only; nodes import it with Python 3.9.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MISSING_VALUES = {"", "?", "n/a", "nan", "#n/a", "#nv", "<na>"}
MISSING_NUMBERS = MISSING_VALUES | {
    *("na", "null", "none", "missing", "n.a.", "k.a.", ".", "..", "…"),
    *("n/d", "n.d.", "n. d.", "n. a.", "k. a.", "s/d", "keine angabe", "unbekannt", "unknown"),
    *("no data", "not available", "(null)", "\\n", "nat", "-nan", "-nan(ind)", "1.#qnan", "1.#ind"),
    *("-", "--", "---", "–", "—", "−"),
    *("#value!", "#div/0!", "#num!", "#ref!", "#name?", "#null!"),
    *("#wert!", "#zahl!", "#bezug!"),
}
"""In a column of texts the others are texts, such as the name of a class."""
MARK = re.compile(r"[-−–]?9{2,}([.,]0+)?")
"""A number of nines stands for a missing value in many files."""
DELIMITERS = {"tab": "\t", "semicolon": ";", "bar": "|", "comma": ",", "space": " "}
HEADER_ROWS = 100
"""Rows below a header that are compared with it."""
MOST_HEADER_ROWS = 4
MOST_WORDS, LEAST_IDS = 3, 10
SPACES = re.compile(r"(?<=\d)[ '’_\u00a0\u2009\u202f](?=\d{3}(?!\d))")
NUMBER = re.compile(
    r"(?P<currency>[$€£¥₹]?) ?"
    r"(?P<number>[+-]?(?:\d[\d.,]*|[.,]\d+)(?:[edf][+-]?\d+)?|[+-]?inf(?![^\W\d_]))"
    r"(?P<space>\s?)(?P<unit>(?:[^\W\d_]{1,8}|[%‰°][CF]?|[$€£¥₹])(?:[./·*^\u00a0-]+[^\W\d_]{1,8})*[.²³]?|)",
    re.IGNORECASE,
)
"""Number with a unit such as ``kg``, ``m/s`` or ``a.u.``, or with a magnitude such as ``k``."""
MAGNITUDES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
"""Letters right behind a number, where a column has several of them or no unit."""
DEVIATION = re.compile(r"\s*±.*$|(?<=[\d%])\s*[*†‡]+$")
"""The rest of ``0.5 ± 0.1``, and marks as in ``0.5*``."""
DATE = re.compile(
    r"(\d{4}|\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{1,2})(?:[ T](\d{1,2}):(\d\d)"
    r"(?::(\d\d(?:[.,]\d+)?))?(?: ?(?:UTC|GMT|([+-]\d\d)(?::?(\d\d))?))?)?Z?"
)
LIKE_A_TIME = re.compile(r"(?<![\w:])\d{1,2}:\d\d|\d{4}-\d\d-\d\d|\d [^\W\d_]{3,9},? \d{4}")
SUMMARY = re.compile(
    r"(grand |sub)?(totals?|sum|mean|average|avg|median|min|max|count|std|summe|gesamt|mittelwert"
    r"|durchschnitt|anzahl|total|moyenne|somme|media|suma)\b",
    re.IGNORECASE,
)
"""The first cell of a row below a table that sums it up."""
BELOW_HEADER = "Read as units or names, as they are below the header"
NOT_ALIKE = "Read as different, although only capitals or blanks differ"
EPOCH = datetime.date(1970, 1, 1).toordinal()
SAVE_AS_UTF8 = "save the file as “CSV UTF-8”"
ENCODING_LINES = 10_000
"""Lines with bytes beyond ASCII that are examined for their alphabet."""
ENCODING_NOTES = {
    "cp932": "Read in the Japanese encoding of Windows, cp932",
    "cp1251": "Read in the Cyrillic encoding of Windows, cp1251",
}
UTF8_ACCENT = re.compile(rb"\xc2[\xa0-\xbf]|\xc3[\x80-\xbf]")
"""Bytes of UTF-8 that make no sense in cp1252, such as ``Ã¶``."""
HIGH = re.compile(rb"[\x80-\xff]")
KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
KANJI = re.compile(rb"(?<![A-Za-z\x80-\xff])([\x88-\x97][\x40-\x7e\x80-\xfc]){2}")
"""The more frequent ones in cp932; Chinese, Korean and DOS have other bytes at this position."""
WORD = re.compile(rb"[A-Za-z\xa8\xaa\xaf\xb2-\xb4\xb8\xba\xbf-\xff]+")
CYRILLIC_WORD = re.compile(
    rb"[\xa8\xaa\xaf\xb2\xc0-\xdf]?[\xb3\xb4\xb8\xba\xbf\xe0-\xff]*"
    rb"|[\xa8\xaa\xaf\xb2\xc0-\xdf]+"
)
CYRILLIC_VOWELS = "аеиоуыэюяіїєАЕИОУЫЭЮЯІЇЄ".encode("cp1251")
_SIGNS = rb"\x81-\x83\x86-\x90\x98-\x9f\xa1-\xaa\xac-\xba\xbc-\xff"
NOT_WESTERN = re.compile(
    rb"(?<![A-Za-z%s])([\xc0-\xff]{2}|[%s]{3,})(?![A-Za-z%s])"
    % (_SIGNS, _SIGNS, _SIGNS)
    + rb"|(?<=[a-z\xe0-\xff])[\x80-\x84\x86-\x8b\x8d-\x90\x93\x94\x98\x99\x9b\x9d\x9f"
    rb"\xa1-\xa6\xa8\xa9\xac\xaf\xb1-\xb3\xb6\xb8-\xba\xbc-\xbf](?=[a-z\xe0-\xff])"
)
"""In cp1252: words without a letter from a to z, and signs other than quotes in words."""


def encoding_of(content: bytes) -> str:
    """Return the encoding of a table: UTF-16, UTF-8, or one of Windows that its bytes show.

    Another alphabet is no error in cp1252: its letters become accents, and texts may become equal.

    Raises:
        ValueError: The table has several encodings, or none of these; the message has a line.
    """
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if can_decode(content, "utf-8"):
        return "utf-8-sig"
    lines = {n: line for n, line in enumerate(content.split(b"\n"), 1) if not line.isascii()}
    utf8_lines = {n: line for n, line in lines.items() if can_decode(line, "utf-8")}
    if any(UTF8_ACCENT.search(line) or len(HIGH.findall(line)) > 3 for line in utf8_lines.values()):
        other_line = min(lines.keys() - utf8_lines.keys())
        raise ValueError(
            f"line {min(utf8_lines)} is in UTF-8 and line {other_line} is not; {SAVE_AS_UTF8}"
        )
    japanese_text = content.decode("cp932") if can_decode(content, "cp932") else ""
    if japanese_text and (KANJI.search(content) or KANA.search(japanese_text)):
        return "cp932"
    sample = [*lines.items()][:ENCODING_LINES]
    words = [word for _, line in sample for word in WORD.findall(line) if max(word) >= 0xC0]
    letters = b"".join(words)
    vowel_count = sum(map(letters.count, CYRILLIC_VOWELS))
    is_cyrillic = all(map(CYRILLIC_WORD.fullmatch, words)) and len(letters) > 2 * len(words)
    if is_cyrillic and 10 * vowel_count > 3 * len(letters) and can_decode(content, "cp1251"):
        return "cp1251"
    wrong_lines = []
    if UTF8_ACCENT.search(content) or not can_decode(content, "cp1252"):
        wrong_lines = [
            n
            for n, line in lines.items()
            if UTF8_ACCENT.search(line) or not can_decode(line, "cp1252")
        ]
    strange_lines = [n for n, line in sample for _ in NOT_WESTERN.findall(line)]
    if wrong_lines or (strange_lines and 2 * len(strange_lines) >= len(words)):
        first_line = min(wrong_lines + strange_lines)
        raise ValueError(f"line {first_line} is in an unknown encoding; {SAVE_AS_UTF8}")
    return "cp1252"


def can_decode(content: bytes, encoding: str) -> bool:
    """Return whether all bytes are texts in this encoding."""
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def decoded(content: bytes, encoding: str = "") -> tuple[str, str]:
    """Return the text of a table, or of a line in UTF-16, UTF-8 or, as Windows writes it, cp1252.

    Excel's first line ``sep=;`` is a setting: it is left out, and its delimiter returned, else "".
    """
    is_wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode(encoding or ("utf-16" if is_wide else "utf-8-sig"))
    except UnicodeDecodeError:
        text = content.decode(encoding or "cp1252", "replace")
    # Macs write é as two characters.
    text = unicodedata.normalize("NFC", text)
    match = re.match(r'"?sep=(.)"?[ \t]*(?=[\r\n])', text, re.IGNORECASE)
    return (text[match.end() :], match[1]) if match else (text, "")


def usual_spellings(cells: Sequence[str]) -> dict[str, str]:
    """Return for each text the most frequent one that differs in spelling only; letters are codes.

    UCI's adult.test has a dot behind each class, and adult.data has none.
    """
    usual: dict[str, str] = {}
    keys = {}
    for cell, _ in Counter(cells).most_common():
        text = " ".join(cell.split()).rstrip(".") or cell
        keys[cell] = text.casefold() if len(text) > 1 else text
        usual.setdefault(keys[cell], cell)
    return {cell: usual[key] for cell, key in keys.items()}


def like_pairs(cells: Sequence[str]) -> list[tuple[str, ...]]:
    """Return texts that differ only in capitals and blanks, together."""
    texts: dict[str, list[str]] = {}
    for cell in sorted(set(cells)):
        texts.setdefault(" ".join(cell.casefold().split()), []).append(cell)
    return [(*alike_texts,) for alike_texts in texts.values() if len(alike_texts) > 1]


def delimiter_of(text: str) -> str:
    """Return the delimiter that divides the first lines into equally many columns, two or more."""
    lines = [line for line in text[:100_000].splitlines()[:50] if line.strip()]
    if len(text) > 100_000 and len(lines) < 50:
        lines = lines[:-1]
    line_counts = {}
    for delimiter in DELIMITERS.values():
        rows = [row for _, row in rows_of("\n".join(lines), delimiter)]
        # Between words of a title are spaces, too.
        rows = rows[title_count(rows) if delimiter != " " else 0 :]
        counts = [*map(len, rows[: len(rows) - footer_count(rows)])]
        line_counts[delimiter] = max(counts.count(n) if n > 1 else 0 for n in counts or [0])
        if len(set(counts)) == 1 and counts[0] > 1 and not (delimiter == "\t" and is_mixed(rows)):
            return delimiter
    best = max(DELIMITERS.values(), key=lambda delimiter: line_counts[delimiter])
    if 2 * line_counts[best] > len(lines):
        return best
    return max(DELIMITERS.values(), key=lines[0].count) if lines else ","


def is_mixed(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column between tabs has several, with blanks in between as in Fortran."""
    number = r"(\?|[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)"
    numbers = re.compile(rf"{number}( {{2,}}{number}| +{number} +{number})( +{number})*", re.I)
    return any(all(map(numbers.fullmatch, column)) for column in zip(*rows))


def rows_of(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line.

    Raises:
        ValueError: A row cannot be divided; the message has its line.
    """
    if delimiter == " ":
        # Between columns there may be tabs, too, and both around a line.
        text = re.sub(r"^ +| +$", "", text.replace("\t", " "), flags=re.MULTILINE)
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def title_count(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows above a table of three or more columns with at most one cell.

    A comment (``# operator: A, B``) may have several; a header may begin with its sign, too.
    """
    is_comment = ["".join(row).startswith("#") for row in rows]
    comment_count = [*is_comment, False].index(False)
    if comment_count and not is_header(rows[comment_count:] or rows):
        comment_count -= 1
    is_title = [
        n < comment_count or sum(bool(cell.strip()) for cell in row) < 2
        for n, row in enumerate(rows)
    ]
    is_wide = max(map(len, rows), default=0) > 2 and not all(is_title)
    return is_title.index(False) if is_wide else 0


def footer_count(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows below a table of three or more columns with a note, or a sum."""
    count = 0
    for row in reversed(rows[1:] if rows and len(rows[0]) > 2 else []):
        cells = [cell for cell in row if cell.strip()]
        is_note = len(cells) < 2 and not any(map(NUMBER.fullmatch, cells))
        is_sum = len(cells) < len(rows[0]) and bool(SUMMARY.match(cells[0])) if cells else False
        if not is_note and not is_sum:
            break
        count += 1
    return count


def joined(cell: str) -> str:
    """Return the cell with its unit in one piece: that of ``5 sq ft`` has two words."""
    return re.sub(r"(?<=[^\W\d_])(\.?) (?=[^\W\d_])", "\\1\u00a0", cell)


def plain(cell: str) -> str:
    """Return the cell without spaces between thousands, and with a hyphen as its sign.

    Accountants write (1,768) for -1,768, and typesetters a minus that is no hyphen.
    """
    cell = SPACES.sub("", cell).replace("−", "-")
    cell = re.sub(r"^[‐‑–—-] ?(?=[\d.,$€£¥₹])|(?<=[\d.,])[–-]$", "-", cell)
    if len(cell) > 1 and cell[-1] == "-":
        # Programs for accounts write 5- for -5.
        cell = f"-{cell[:-1]}"
    negative = re.fullmatch(r"\((?P<inner>.*)\)|-(?P<amount>[$€£¥₹].*)", cell)
    if negative is None:
        return cell
    return re.sub(r"(?=[\d.,])", "-", negative["inner"] or negative["amount"] or "", count=1)


class Format(NamedTuple):
    """Rules by which the cells of a column are read.

    Attributes:
        kind: numbers, dates (read as days since 1970) or texts.
        decimal: The decimal sign; the other one of point and comma is between thousands.
        unit: What stands before or behind each number.
        day_first: Whether 1/2/2026 is in February.
        note: How it is read, if the cells alone do not say it; "" otherwise.
    """

    kind: str
    decimal: str = "."
    unit: str = ""
    day_first: bool = True
    note: str = ""

    def parse(self, cell: str) -> float:
        """Return the number of a cell, NaN for a missing one.

        Raises:
            ValueError: The cell has another text.
        """
        if cell.casefold() in MISSING_NUMBERS:
            return math.nan
        if self.kind == "dates":
            return days(cell, self.day_first)
        match = NUMBER.fullmatch(plain(joined(cell)))
        units = ("", self.unit)
        if match is not None and match["currency"] + match["unit"] in units:
            return value_of(match["number"], self.decimal)
        if match is not None and match["currency"] in units and magnitude(match):
            return magnitude(match) * value_of(match["number"], self.decimal)
        raise ValueError(f"“{cell[:40]}” is not a number")


def value_of(number: str, decimal: str) -> float:
    """Return the value of digits with this decimal sign; the other one is between thousands."""
    thousands = "," if decimal == "." else "."
    number = number.replace(thousands, "").replace(decimal, ".")
    # Exponents of Fortran are as in 1.5D-3, those of Julia as in 1.5f-3.
    return float(re.sub(r"(?<=[\d.])[dDfF](?=[+-]?\d)", "e", number))


def magnitude(match: re.Match[str]) -> float:
    """Return the factor of a number such as ``1.5k``; 0 for one with a unit."""
    return 0.0 if match["space"] else MAGNITUDES.get(match["unit"], 0.0)


def number_in(cell: str, decimal: str = "") -> float:
    """Return the number of a cell that stands alone; a unit and a deviation are left out.

    Args:
        decimal: The decimal sign, where the cell does not show it. By default a point: ``1,000``
            is a thousand, and ``1.000`` is 1.

    Raises:
        ValueError: The cell has no number.
    """
    if decimal != ",":
        with contextlib.suppress(ValueError):  # Of most cells, and fast.
            return float(cell)
    cell = DEVIATION.sub("", cell)
    match = NUMBER.fullmatch(plain(cell))
    signs = decimal_signs([cell]) if match is not None else set()
    if match is None or not signs:
        raise ValueError(f"“{cell[:40]}” is not a number")
    sign = signs.pop() if len(signs) == 1 else decimal or "."
    return (magnitude(match) or 1.0) * value_of(match["number"], sign)


def format_of(cells: Sequence[str], decimal: str = "", dates: str = "auto") -> Format:
    """Return the format of a column.

    Args:
        decimal: The decimal sign that is known, or seen in other columns: it decides where the
            cells can be read in two ways.
        dates: day first, month first or auto.

    Raises:
        ValueError: The cells can be read in two ways; the message has two examples.
    """
    cells = [cell for cell in cells if cell.casefold() not in MISSING_NUMBERS]
    if decimal != "," or not any("." in cell for cell in cells):
        with contextlib.suppress(ValueError):  # Of most files, and fast.
            if values := [*map(float, cells)]:
                return Format("numbers", note=mark_note(cells, values))
    if cells and all(map(DATE.fullmatch, cells)):
        return date_format(cells, dates)
    matches = [NUMBER.fullmatch(plain(joined(cell))) for cell in cells]
    units = {match["unit"] for match in matches if match is not None}
    if len(units) > max(MOST_WORDS, len(cells) // 4):
        # In addresses such as 5 Mill Lane they are no units.
        matches = [NUMBER.fullmatch(plain(cell)) for cell in cells]
    if not cells or None in matches:
        return Format("texts", note=words_note(cells, matches))
    units = {match["currency"] + match["unit"] for match in matches if match is not None}
    are_scaled = len(units) > 1 and all(
        magnitude(match) or not match["unit"] for match in matches if match is not None
    )
    if are_scaled:
        units = {match["currency"] for match in matches if match is not None}
    if len(units) > 1:
        is_measured = any(" " in cell or "%" in cell for cell in cells)
        return Format("texts", note="Read as texts, because units differ" if is_measured else "")
    signs = decimal_signs(cells)
    if not signs:
        return Format("texts")
    (unit,) = units
    punctuated_cells = [cell for cell in cells if re.search("[.,]", cell)]
    sign = signs.pop() if len(signs) == 1 else decimal
    if not sign and any("," in cell for cell in punctuated_cells):
        plain_cells = [cell for cell in cells if cell not in set(punctuated_cells)]
        if not plain_cells or any(len(re.sub(r"\D", "", cell)) > 3 for cell in plain_cells):
            raise ValueError(
                f"“{punctuated_cells[0]}” and “{punctuated_cells[-1]}” can be read with a "
                "decimal comma, or with "
                "commas between thousands; set decimal to “comma” or “point”"
            )
    sign = sign or "."
    thousands = "," if sign == "." else "."
    hints = ["with a decimal comma"] if sign == "," and any("," in cell for cell in cells) else []
    if any(thousands in cell for cell in cells):
        hints.append(f"with “{thousands}” between thousands")
    hints += [f"in {unit}"] if unit else []
    hints += ["with k for a thousand, and M, G, B and T for more"] if are_scaled else []
    if any(cell[-1] in "-–−" for cell in cells):
        hints.append("with the minus behind the digits")
    note = f"Read as numbers {' and '.join(hints)}" if hints else ""
    form = Format("numbers", sign, unit)
    marks = mark_note(cells, [*map(form.parse, cells)])
    return form._replace(note=". ".join(filter(None, (note, marks))))


def mark_note(cells: Sequence[str], values: Sequence[float]) -> str:
    """Name a number well beyond the range of all others: it probably means missing.

    Nines may occur once. Others are whole, as -200 in UCI's AirQuality, and are repeated.
    """
    numbers = [value for value in values if math.isfinite(value)]
    for value in sorted({min(numbers, default=0.0), max(numbers, default=0.0)}):
        others = [number for number in numbers if number != value]
        if len(set(others)) < 2:
            continue
        low, high = min(others), max(others)
        distance, count = max(low - value, value - high), len(numbers) - len(others)
        cell = cells[values.index(value)]
        is_repeated = count >= 3 and abs(value) >= 99 and value == round(value)
        is_outside = distance > 2 * (high - low) or value < 0 <= low
        if (MARK.fullmatch(cell) and distance > high - low) or (is_repeated and is_outside):
            times = "once" if count == 1 else f"{count} times"
            return (
                f"“{cell}” is read as a number, and probably is a missing mark ({times}); set "
                f"missing_marks={cell}"
            )
    return ""


def words_note(cells: Sequence[str], matches: Sequence[re.Match[str] | None]) -> str:
    """Name the few words for which a column of numbers is one of texts, or say that it has ids."""
    words = {cell for cell, match in zip(cells, matches) if match is None}
    if not words or len(words) > MOST_WORDS or 4 * matches.count(None) > len(cells):
        is_id = len(cells) >= LEAST_IDS and 10 * len(set(cells)) > 9 * len(cells)
        if is_id and 2 * sum(map(bool, map(LIKE_A_TIME.search, cells))) > len(cells):
            return "Read as texts, and not as times: write them as 2025-05-22 07:30"
        if is_id and 2 * matches.count(None) < len(cells):
            return "Read as texts, because not all are numbers"
        return "Nearly each row has another text; leave_out omits a column of names" * is_id
    if matches[0] is None and matches.count(None) == 1:
        return f"Read as texts, because of “{cells[0][:40]}” at the top: delete a row of units"
    quoted_words = " and ".join(f"“{word[:40]}”" for word in sorted(words))
    return f"Read as texts, because of {quoted_words}, which may be a missing mark"


def is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names: most of its cells are no numbers as those below.

    Names may look like a number with a unit, such as ``1stFlrSF``. Without numbers below, the first
    row has names if each of its texts is nowhere below.
    """
    first_row, data_rows = rows[0], rows[1:]
    columns = [*zip(*data_rows[:HEADER_ROWS])]
    balance = sum(map(name_balance, first_row, columns))
    if balance or any(map(NUMBER.fullmatch, first_row)):
        return balance > 0
    if not data_rows or any(NUMBER.fullmatch(cell) for row in data_rows for cell in row):
        return True
    # Names may be absent, above columns of no values.
    return not any(cell in column for cell, column in zip(first_row, zip(*data_rows)) if cell)


def names_in_header(rows: Sequence[Sequence[str]]) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of rows that have them.

    Below the names may be their units, or the names of the columns below those of groups. Names
    that occur once stay as they are; others get their group, also of the cell left of a blank one.
    """
    first_row = min(MOST_HEADER_ROWS, len(rows) - 1)
    columns = [*zip(*rows[first_row : first_row + HEADER_ROWS])]
    count = 1
    while count < first_row and is_below_names(rows[count], columns):
        count += 1
    names = [*rows[0]]
    if count == 1 or (len(set(names)) == len(names) and all(names)):
        return names, count
    name_parts: list[list[str]] = [[] for _ in names]
    for row in rows[:count]:
        group = ""
        for parts, cell in zip(name_parts, row):
            group = cell or group
            parts.append(group)
    return [" ".join(filter(None, parts)) for parts in name_parts], count


def is_below_names(row: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Return whether a row has units or names, and no numbers as the columns below it."""
    balances = [*map(name_balance, row, columns)]
    is_bracketed = all(re.fullmatch(r"\[.*\]|\(.*\)|-?", cell) for cell in row)
    return -1 not in balances and balances.count(1) > (0 if is_bracketed else 1)


def name_balance(cell: str, column: Sequence[str]) -> int:
    """Return 1 for a cell that is no number as those of its column, -1 for one that is, else 0."""
    values = [value for value in column if value.casefold() not in MISSING_NUMBERS]
    matches = [match for match in map(NUMBER.fullmatch, values) if match is not None]
    if not values or len(matches) < len(values) or cell.casefold() in MISSING_NUMBERS:
        return 0
    match = NUMBER.fullmatch(cell)
    is_number = match is not None and match["unit"] in {match["unit"] for match in matches}
    return -1 if is_number else 1


def sign_of(columns: Sequence[Sequence[str]]) -> str:
    """Return the decimal sign that the columns show; "" if they show none, or both."""
    if not any("," in cell for cells in columns for cell in cells):
        return "."
    column_signs = set()
    for cells in columns:
        punctuated_cells = [cell for cell in cells if "." in cell or "," in cell]
        signs = decimal_signs(punctuated_cells) if punctuated_cells else set()
        column_signs |= signs if len(signs) == 1 else set()
    return column_signs.pop() if len(column_signs) == 1 else ""


def decimal_signs(cells: Sequence[str]) -> set[str]:
    """Return the decimal signs with which all cells are numbers; both if they leave it open."""
    possible_signs = {".", ","}
    for cell in cells:
        match = NUMBER.fullmatch(plain(cell))
        text = match["number"] if match else ""
        for sign, thousands in ((r"\.", ","), (",", r"\.")):
            # In India all groups but the last have two digits.
            groups = rf"\d{{0,2}}({thousands}\d{{3}})+|\d?({thousands}\d{{2}})+{thousands}\d{{3}}"
            pattern = rf"[+-]?(([1-9]({groups})|\d*)({sign}\d*)?([edf][+-]?\d+)?|inf)"
            if not re.fullmatch(pattern, text, re.IGNORECASE):
                possible_signs.discard(sign[-1])
    return possible_signs


def date_format(cells: Sequence[str], dates: str) -> Format:
    """Return the format of a column of dates.

    Raises:
        ValueError: The cells can be read in two ways; the message has two examples.
    """
    matches = [match for match in map(DATE.fullmatch, cells) if match is not None]
    ambiguous_dates = [match for match in matches if len(match[1]) < 4]
    can_be = {
        day_first: all(int(match[3 if day_first else 1]) <= 12 for match in ambiguous_dates)
        for day_first in (True, False)
    }
    is_german = any(match[2] == "." for match in ambiguous_dates)
    if dates != "auto" or is_german or not all(can_be.values()) or not ambiguous_dates:
        day_first = dates == "day first" if dates != "auto" else is_german or can_be[True]
        try:
            for cell in cells:
                days(cell, day_first)
        except ValueError:
            return Format("texts")
        zone = " in UTC" if any(match[8] for match in matches) else ""
        return Format("dates", day_first=day_first, note=f"Read as dates, in days since 1970{zone}")
    raise ValueError(
        f"“{cells[0]}” and “{cells[-1]}” can be read with the day or the month first; set dates to "
        "“day first” or “month first”"
    )


def days(cell: str, day_first: bool) -> float:
    """Return a date, with a time or without, as days since 1970; 1/2/2026 by ``day_first``.

    A time with an offset, such as +02:00, becomes one in UTC.

    Raises:
        ValueError: The cell is no date.
    """
    match = DATE.fullmatch(cell)
    if match is None:
        raise ValueError(f"“{cell[:40]}” is not a date")
    first, second, third = int(match[1]), int(match[3]), int(match[4])
    day, month = (first, second) if day_first else (second, first)
    year = third + (0 if third > 99 else 2000 if third < 70 else 1900)
    if len(match[1]) == 4:
        year, month, day = first, second, third
    hours, minutes, seconds = (float((match[n] or "0").replace(",", ".")) for n in (5, 6, 7))
    if match[8]:
        hours -= float(match[8])
        minutes -= float(f"{match[8][0]}{match[9] or 0}")
    seconds += 60 * (minutes + 60 * hours)
    return datetime.date(year, month, day).toordinal() - EPOCH + seconds / 86400
