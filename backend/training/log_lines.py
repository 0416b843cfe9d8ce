"""Numbers in a line of a log that people write for people, such as ``Epoch 3/60 loss: 0.2``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backend.records.base.cells import decimal_signs, number_in
from backend.records.jobs.log_numbers import (
    COUNT,
    LONGEST_LINE,
    NUMBER,
    PLAIN_COUNT,
    is_metric_name,
    metric_value,
)
from backend.training.curve_formats import SERIES

_GAP = r"\b\.{0,3}[^\w\n+.-]{0,5}[ \t]{0,12}"
_POSITION = re.compile(
    r"(?<![^\W\d_])(?<!num_)(?<!max_)(?<!total_)(?<!n_)"
    r"(?<!best )(?<!best_)(?<!loss_)(?<!acc_)(?<!accuracy_)(?<!score_)(?<!error_)(?:"
    r"(?:epoche?|époque|[eé]poca|durchlauf|эпоха|エポック|에폭|轮次|ep)"
    rf"{_GAP}(?P<epoch>{PLAIN_COUNT}(?:\.\d+)?)"
    rf"|(?<!\d)(?P<numbered_epoch>{PLAIN_COUNT})(?:st|nd|rd|th)?[ -]?epoch"
    r"(?=\s*(?:[]):,|-]|results))"
    rf"|第\s*(?P<chinese_epoch>{PLAIN_COUNT})\s*(?:轮|個?epoch|エポック|(?=/))"
    rf"|train(?:ing)?:?\s+(?P<train_epoch>{PLAIN_COUNT})(?=\s*[\[(])"
    r"|(?:global[ _]step|n(?:um_)?updates|step|iter|iteration|itr|it|episode|generation|gen|round"
    r"|tick|schritt|étape|pas+o|шаг|итерация|ステップ|步|up(?=\.)|update|(?<!/)batch"
    r"|(?<!\w )(?<!\w  )(?:steps|iters|iterations|updates))"
    rf"{_GAP}(?P<step>{COUNT}(?:\.\d+)?[kM]?))(?![\w.]*\d|[,:]\d)"
    rf"(?:\s*(?:/|of\b|von\b|sur\b|de\b)\s*(?P<total>{COUNT}(?:\.\d{{3}})*[kM]?)(?!\d|\s*/\s*\d)(?:\s*轮)?)?",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\bWarning: ")
_HAS_NUMBER = re.compile(r"\d|\bnan\b|\binf\b", re.IGNORECASE)
_MAY_HAVE_VALUES = re.compile(r"\d\.\d|[:=]\s*[-+.]?\d|\A\W*\d|progress|epoch", re.IGNORECASE)
"""What a line has with a value or a position, or else one of their names."""
_EPOCH_GROUPS = ("epoch", "numbered_epoch", "chinese_epoch", "train_epoch")
_POINTED = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_LEADING_COUNT = re.compile(
    rf"\s*(?:\[(\d+)\]|(\d+)[:.)]|(\d+)(?=\s+[^\W\d][\w ]{{0,40}}[:=]\s*{NUMBER}))\s", re.IGNORECASE
)
"""The iteration before the values, as gradient boosting prints it: ``[10]``, ``10:``, ``10.``."""
_LEADING_PARTS = re.compile(r"\s*\[(\d+)/(\d+)\]\s*\[(\d+)/(\d+)\]")
"""Epoch and batch: ``[1/5][50/1583]``."""
_BATCH = re.compile(r"\bepoch:?\s*\[?\d+\]?\s*\[\s*(\d+)/(\d+)\]", re.IGNORECASE)
"""The batch behind the epoch: ``Epoch: [0][ 50/5004]``."""
_LEADING_PAIR = re.compile(r"\s*\[?(\d+)[|,]\s*(\d+)[]|]\s*(?=[^\W\d])")
"""Epoch and step: ``[1,  2000]``, ``1|2000|``."""
_TIME = re.compile(
    rf"\W*(?:sim(?:ulation|ulated)?[ _]?)?(?:t|time)\s*[=:]\s*({NUMBER})"
    r"(?![\w:%]|\s*(?:[smh]|ms|sec)\b)",
    re.IGNORECASE,
)
"""The time of a simulation, whose steps are counted."""
_LEADING_PART = re.compile(rf"\s*[\[(]?({COUNT})\s*/\s*({COUNT})[])]?:?\s")
_PROGRESS = re.compile(r"\bprogress\W{1,5}(\d+)(?:\.\d+)?\s*%", re.IGNORECASE)
_REPLACEMENTS = tuple(
    (sign, re.compile(pattern, re.IGNORECASE), replacement)
    for sign, pattern, replacement in (
        ("|", r"(?<!\w)\|{1,2}(\w+)\|{1,2}(?=\s*[:=]|\s+[-\d])", r"\1"),  # The norm ``|g|``
        ("'", r"'s (?=\w)", " "),  # LightGBM's “training's auc”
        ("'", r"(?<![^\W\d_])'|'(?![^\W\d_])", ""),  # Python's dictionaries
        ("%|", r":?\s*\b\d+%\|[^|]*\|", "|"),  # A progress bar
        ("] ", r"\A[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [\w.]+:\d+\] ", ""),  # Google's loggers
        ("est ", r"\bbest (?:is|trial)\b.*", ""),
        (":", r"\(\w+:\d+\)|\b[\w.]+:[\w.<>]+:\d+(?=\s+[-|])", ""),  # A line of the code
        ("(", r"\b(?-i:[A-Z])\w*\(\w+=.*\)", ""),  # Settings: ``Namespace(epoch=100, lr=0.1)``
        ("(", rf"\b(?:tensor|array|(?:np\.)?float\d+)\(\[?({NUMBER})\]?[^()]*\)", r"\1"),
        ("/", rf"\b(\w+)/(\w+)( \w+):? ({NUMBER})\s*/\s*({NUMBER})", r"\1\3: \4, \2\3: \5"),
        ("", rf"[↓↑▲▼⬆⬇~≈]\s*(?={NUMBER})", ""),
        ("(", r"\bepoch\((\w+)\)", r"\1 epoch"),  # MMEngine's “Epoch(val) [1]”
        ("[", r"\[epoch[_-](\d+)\]", r"epoch \1"),  # Sections of a file of settings
        ("%)", rf"(?<=[:=])\s*{COUNT}\s*/\s*{COUNT}\s*\(\s*({NUMBER})\s*%\)", r" \1"),
        ('"', r'(?<=[:=])\s*"([^"]*)"', r"\1"),
        ("[", rf"(?<=[:=])\s*\[({NUMBER})\]", r"\1"),
        # What a line says of an earlier value: ``(best 0.9 at epoch 3)``, ``0.1 -> 0.01``.
        ("(", r"\([^()]*\b(?:best|bisher)\b[^()]*\)", ""),
        ("", rf"(?<![\w.]){NUMBER}\s*(?:->|→|=>|⇒)\s*(?={NUMBER})", ""),
    )
)
"""What is read otherwise than it stands: a sign that such a text has, pattern and replacement."""
_WIDE_SIGNS = str.maketrans("：，；（）【】＝", ":,;()[]=")
_PAIRS = re.compile(r"\(([^()]*)\)\s*[:=]\s*\(([^()]*)\)")
"""Names and their values, each in brackets: ``(loss, acc) = (0.9, 0.5)``."""
_NAMED_BEFORE = re.compile(r"[\s(\[@,-]*(?:\b(?:at|after|for|in|on)\s*)?\|[)\]]*\s*(?=[:=])")
"""The rest of a position in ``auc at step 200: 0.8`` or ``loss (epoch 3) = 0.4``."""
_SPLIT = re.compile(
    r"(?<![\w/.-])(?:(?P<train>train|training|trn)"
    r"|(?:val|valid|validation|test|eval|evaluation|dev|prüfung|validierung)(?:[_-]\w+)?)(?![\w/-]|\.\w)",
    re.IGNORECASE,
)
"""Word before values of a line that says whether they are those of the training."""
_TRAINING = re.compile(r"(?<![^\W\d_])(?:train|trn)", re.IGNORECASE)
_EVALUATION = re.compile(r"(?:val|valid|validation|test|eval|evaluation|dev)\b", re.IGNORECASE)
_RATE = re.compile(r"\blr\b|rate$|norm", re.IGNORECASE)
"""What an evaluation has not."""
_OPEN_GROUP = re.compile(r"(\w+)[\[(][^][()]*$")
_ITEM_START = re.compile(r"[,|;:\])(\t]\s*$|\s[- ]\s*$")
_ITEM_END = re.compile(r"\s*%?\s*(?:[,|;)\t]|\.?$|\s[:*-]\s)|\s{2,}")
"""What is around ``mfu 3.6%`` in a line such as ``iter 10: loss 3.9, mfu 3.6%``."""
_EPOCH_PART = re.compile(
    rf"(?:^|[\[(|])\s*(?P<part>{COUNT})\s*/\s*(?P<total>{COUNT})|\b\d+-\d+\s?batch",
    re.IGNORECASE,
)
"""The part of an epoch that is done: ``[ 320/6000``, ``| 3/10``, ``1-20batch``."""
_WORD = r"[^\W\d_](?:[\w./@'’-]*[\w@/-])?(?:\([^\W\d]\w*(?:\(\w+\))?\))?"
_NUMBERED_VALUE = re.compile(rf"\s*(\d+)\s+({_WORD})\s+({NUMBER})\s*")
"""A step, a name and a value: ``250 val 6.5``."""
_SENTENCE = re.compile(
    rf"([^\W\d_][^:=|]*(?:: \w+)?)(?:\s*[:=]|\s+(?:is|was))\s*({NUMBER})\s*%?[.!]?", re.IGNORECASE
)
_NO_NAME = re.compile(r"\b\d[\d,.]*\b|[^\w\s/@-]")
_LIST_REST = re.compile(r"[\s|,;%:()*>-]*")
_LIST = re.compile(
    rf"({_WORD}(?: {_WORD}){{0,2}})\s*[:=]?\s*\[({NUMBER}(?:,\s+{NUMBER}){{1,15}})\]", re.IGNORECASE
)
_VALUE = re.compile(
    rf"(?<![\w.])({_WORD}(?: {_WORD}){{0,2}})(\s*[:=]\s*|\s+(?:(?:is|was|reached)\s+)?)({NUMBER})"
    r"(?![\w/:]|\.\d|-\d|\s*(?:ms|s|secs?|seconds?|min|mins|minutes?|h|hours?|std|Stunden)\b)",
    re.IGNORECASE,
)
_MEAN = re.compile(rf"\s*\(\s*({NUMBER})\s*\)")
_VERB = re.compile(
    r"\A(?:finished |completed |ended |done )?with(?=\s)|\s(?:reached|is|was)\Z", re.IGNORECASE
)
_LEAD = re.compile(r"(?<![\w.])[^\W\d]+(?: \d+\b)?(?![\w./])")
"""The words of the text before the values, without those that may count, such as ``img_12.png``."""
_MAX_LEADS = 8
"""More of them are no series: a number behind a word may count the samples."""
_VALUE_BEFORE = re.compile(
    rf"(?<![\w.])({NUMBER})\s*%?\s+([^\W\d_][\w/@-]*)(?=\s*(?:[,;|]|$))", re.IGNORECASE
)
"""The value before its name: ``0.9 loss, 45.5% accuracy``."""
_SHORT_LIST = re.compile(r"\d,\d")
_LIST_NAME = re.compile(
    r"(?:gpu|device|rank|node|core|cpu|id|layer|shape|size|dim|kernel|stride)s?$", re.IGNORECASE
)
_NO_VALUES = re.compile(
    r"\At\Z|(?:^|_|\b)(?:(?:elapsed_?)?time(?: cost|_ms)?|eta|elapsed|remaining|progress|seed"
    r"|rank|port|pid|epochs?|steps?|iter|iterations|batch(?:es)?|lineno| from|to)$"
    r"|\.(?:cpp|cc|cu|py|h|go|rs|jl|java|lua)$",
    re.IGNORECASE,
)
"""Names of times, settings and places in the code, which are no metrics."""
_OF_STEP = re.compile(r"[^\W_]_(?:step|epoch)\Z")
"""The end of Lightning's ``train_loss_step``."""
_UNITS = frozenset(("s", "sec", "secs", "second", "seconds", "ms", "min", "minutes", "h", "hours"))


def has_no_values(name: str) -> bool:
    """Return whether a name is that of a time or a setting, such as ``ETA`` or ``seed``."""
    is_metric_of_step = _OF_STEP.search(name) and is_metric_name(name)
    return bool(_NO_VALUES.search(name)) and not is_metric_of_step


def has_values(text: str) -> bool:
    """Return whether a text has a position, or a name and a number."""
    return bool(_POSITION.search(text) or _VALUE.search(text))


def is_split(text: str) -> bool:
    """Return whether a text is the name of a part of the data, such as ``val``."""
    return bool(_SPLIT.fullmatch(text))


class LineReader:
    """Reads the lines of a log in their order.

    Attributes:
        position: The epoch, or else the step, of the lines before: it counts for lines without one.
        has_read_position: Whether a line had it.
        counts: The epoch and the step in the last line itself.
        first_leads: The text before the first values of each name of which other lines are series.
    """

    def __init__(self) -> None:
        self.position: dict[str, float] = {}
        self.has_read_position = False
        self.counts: dict[str, float] = {}
        self._part_total = 0.0
        self._is_part_last = False
        self._has_numbered_values = False
        self._first_epoch: float | None = None
        self._time: float | None = None
        self._time_count = 0
        self._leads: dict[frozenset[str], tuple[str, Mapping[str, float]]] = {}
        """The text before the values of these names, and its last position."""
        self._other_leads: dict[frozenset[str], set[str]] = {}
        self.first_leads: dict[str, str] = {}
        self._evaluated_names: set[str] = set()
        """The names in the last line, if it has no position and its values are of an evaluation."""

    def read(self, line: str) -> dict[str, Any]:
        """Return the numbers of a line by name; without a position, if none is known.

        ``is_within_epoch`` is added to a line of which an epoch has several, and the text before
        the values as their series if lines at one position differ in it: ``Region 82``. Names have
        ``_`` for blanks.

        Args:
            line: Without the codes of a terminal.
        """
        is_short = len(line) <= LONGEST_LINE
        if not is_short or not _HAS_NUMBER.search(line) or _WARNING.search(line):
            return {}
        if not (_MAY_HAVE_VALUES.search(line) or is_metric_name(line) or _POSITION.search(line)):
            return {}
        line = _simplified(line)
        if (match := _NUMBERED_VALUE.fullmatch(line)) is not None and not self.has_read_position:
            self._has_numbered_values |= is_split(match[2]) or is_metric_name(match[2])
            return (
                {"step": float(match[1]), match[2]: number_in(match[3])}
                if self._has_numbered_values
                else {}
            )
        text = _NAMED_BEFORE.sub("", _POSITION.sub("|", line))
        matches = [*_VALUE.finditer(text)]
        decimal = _decimal_sign([match[3] for match in matches])
        counts, totals = self._counts_in(line, decimal)
        self.counts = counts
        has_count = bool(counts) or _has_metrics(matches)
        is_list = (has_count or self.has_read_position) and _is_list(text, matches)
        metrics = [
            match
            for match in matches
            if _is_metric(match, has_count=has_count) or (is_list and not has_no_values(match[1]))
        ]
        prefixes = [*_prefixes(text, metrics)]
        texts = [
            _mean_or_value(match, prefix) for match, prefix in zip(metrics, prefixes, strict=True)
        ]
        values = {
            prefix + "_".join(_VERB.sub("", match[1]).split()): metric_value(
                match[1], text_value, decimal
            )
            for match, prefix, text_value in zip(metrics, prefixes, texts, strict=True)
        }
        if not values:
            values = _values_before_names(text) if counts else _value_of_sentence(line)
        self._note_position(counts, totals)
        if not values:
            return {}
        if not counts:
            values = self._with_last_prefix(values)
        flags: dict[str, float] = {}
        if "step" not in counts and not any(is_split(prefix.rstrip("/")) for prefix in prefixes):
            is_other_loop, is_within = self._note_part(text, counts)
            if is_other_loop:
                values = {f"evaluation/{name}": value for name, value in values.items()}
            elif is_within and (counts or self.position):
                flags = {"is_within_epoch": 1.0}
        position = {**self.position, **counts}
        series = (
            self._series_by_lead(text[: metrics[0].start()], position, values) if metrics else {}
        )
        return {**position, **totals, **flags, **series, **values}

    def _series_by_lead(
        self, text: str, position: Mapping[str, float], names: Iterable[str]
    ) -> dict[str, str]:
        """Return the series of a line if others at one position have its names, {} if not.

        Args:
            text: What is before the values: ``Region 82``, where another line has ``Region 94``.
        """
        lead, key = " ".join(_LEAD.findall(text)), frozenset(names)
        first_lead, last_position = self._leads.setdefault(key, (lead, position))
        if lead == first_lead:
            self._leads[key] = lead, position
            return {}
        other_leads = self._other_leads.setdefault(key, set())
        if position == last_position and len(other_leads) < _MAX_LEADS:
            other_leads.add(lead)
            for name in key:
                # Lines of another kind with this name have other text before it.
                if sum(name in names_of_kind for names_of_kind in self._leads) == 1:
                    self.first_leads[name] = first_lead
        return {SERIES: lead} if lead in other_leads else {}

    def _counts_in(self, line: str, decimal: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return the epoch and the step of a line, and their totals, by name."""
        counts: dict[str, float] = {}
        totals: dict[str, float] = {}
        for match in _POSITION.finditer(line):
            epoch = next((match[group] for group in _EPOCH_GROUPS if match[group]), None)
            if epoch is not None:
                counts.setdefault("epoch", _count(epoch, decimal))
            else:
                counts.setdefault("step", _count(match["step"], ""))
            if match["total"]:
                key = "total_steps" if epoch is None else "epochs"
                totals.setdefault(key, _count(match["total"], ""))
        if not counts and (parts := _LEADING_PAIR.match(line)):
            return {"epoch": float(parts[1]), "step": float(parts[2])}, {}
        if not counts and (parts := _LEADING_PARTS.match(line)):
            counts, totals = {"epoch": float(parts[1])}, {"epochs": float(parts[2])}
            batch: Sequence[str] | None = parts.groups()[2:]
        else:
            batch_match = _BATCH.search(line)
            start = batch_match.start() if batch_match is not None else 0
            is_evaluation = bool(_last_prefix(_SPLIT.finditer(line, 0, start), ""))
            batch = None if batch_match is None or is_evaluation else batch_match.groups()
        if batch and "step" not in counts:
            counts["step"] = self._step_of_batch(counts["epoch"], *map(float, batch))
        if counts or "epoch" in self.position:
            return counts, totals
        if leading_count := _LEADING_COUNT.match(line):
            return {"step": float(next(filter(None, leading_count.groups())))}, {}
        if part := _LEADING_PART.match(line):
            return {"step": _count(part[1], "")}, {"total_steps": _count(part[2], "")}
        if progress := _PROGRESS.search(line):
            return {"step": float(progress[1])}, {"total_steps": 100.0}
        if (time := _TIME.match(line)) and (self._time_count or not self.has_read_position):
            return {"step": self._count_time(number_in(time[1]))}, {}
        return {}, {}

    def _step_of_batch(self, epoch: float, batch: float, batch_count: float) -> float:
        """Return the step of a batch since the first epoch of the log."""
        self._first_epoch = epoch if self._first_epoch is None else self._first_epoch
        return (epoch - self._first_epoch) * batch_count + batch

    def _count_time(self, time: float) -> float:
        """Return the number of the steps of a simulation until this time."""
        self._time_count += time != self._time
        self._time = time
        return float(self._time_count)

    def _note_position(self, counts: dict[str, float], totals: dict[str, float]) -> None:
        if counts:
            self._evaluated_names = set()
        self.has_read_position |= bool(counts)
        if "epoch" in counts:
            # The total of the steps is that of the epoch.
            totals.pop("total_steps", None)
            if counts["epoch"] != self.position.get("epoch"):
                self._part_total, self._is_part_last = 0.0, False
            self.position = {"epoch": counts["epoch"], **totals}
        elif "step" in counts and "epoch" not in self.position:
            self.position = {"step": counts["step"]}

    def _with_last_prefix(self, values: dict[str, float]) -> dict[str, float]:
        """Return the values below those of an evaluation, whose means they are, with its name."""
        by_name = {name.rpartition("/")[2]: name for name in self._evaluated_names}
        if values.keys() <= by_name.keys():
            return {by_name[name]: value for name, value in values.items()}
        self._evaluated_names = {name for name in values if "/" in name}
        return values

    def _note_part(self, text: str, counts: dict[str, float]) -> tuple[bool, bool]:
        """Return whether a line is of another loop than the training's, and within an epoch.

        A loop with another number of batches, which begins when all of those are done, is an
        evaluation: Keras prints one without a name.
        """
        match = _EPOCH_PART.search(text)
        if match is not None and match["total"]:
            part, total = _count(match["part"], ""), _count(match["total"], "")
            if self._is_part_last and total != self._part_total:
                return True, False
            self._part_total, self._is_part_last = total, part >= total
        return False, bool(counts.get("epoch", 0) % 1 or match)


def _simplified(line: str) -> str:
    """Return a line without quotes, brackets around a number, and values of the past."""
    line = line.translate(_WIDE_SIGNS)
    for sign, pattern, replacement in _REPLACEMENTS:
        if sign in line:
            line = pattern.sub(replacement, line)
    line = _PAIRS.sub(_paired, line) if "(" in line else line
    return _LIST.sub(_numbered, line) if "[" in line else line


def _numbered(match: re.Match[str]) -> str:
    """Return the values of a metric in a list, such as one for each class, with names."""
    name, numbers = match[1], match[2].split(",")
    if not is_metric_name(name):
        return match[0]
    return ", ".join(f"{name}/{n}: {number.strip()}" for n, number in enumerate(numbers))


def _paired(match: re.Match[str]) -> str:
    names, numbers = (text.split(",") for text in match.groups())
    if len(names) != len(numbers):
        return match[0]
    pairs = zip(names, numbers, strict=True)
    return ", ".join(f"{name.strip()}: {number.strip()}" for name, number in pairs)


def _prefixes(text: str, metrics: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield the prefix of each value: ``val/`` behind a word that names the validation.

    Of a name that a line has twice, the word may be in the name before it, or before a bracket:
    ``Train Loss: 0.4 Acc: 0.9 | Test Loss: 0.5 Acc: 0.8``, ``loss[ctc=2, att=1], tot_loss[ctc=3]``.
    Behind ``val loss`` at the start of a line that names no training, all values are of it.
    """
    name_counts = Counter(match[1] for match in metrics)
    is_evaluation = bool(
        metrics and _EVALUATION.match(metrics[0][1]) and not _TRAINING.search(text)
    )
    prefix, name_prefix, start = "", "", 0
    for match in metrics:
        prefix = _last_prefix(_SPLIT.finditer(text, start, match.start()), prefix)
        name_prefix = _last_prefix(_SPLIT.finditer(match[1]), name_prefix)
        group = _OPEN_GROUP.search(text, 0, match.start())
        start = match.end()
        if is_evaluation and not (prefix or _SPLIT.search(match[1]) or _RATE.search(match[1])):
            yield name_prefix
        elif name_counts[match[1]] < 2:
            yield prefix
        else:
            yield f"{group[1]}/" if group is not None else prefix or name_prefix


def _last_prefix(words: Iterable[re.Match[str]], prefix: str) -> str:
    """Return the prefix by the last of the words, by default that of the words before."""
    for word in words:
        prefix = "" if word["train"] else f"{word[0].casefold()}/"
    return prefix


def _mean_or_value(match: re.Match[str], prefix: str) -> str:
    """Return the number of a match of `_VALUE`; of an evaluation the mean in brackets behind it."""
    mean = _MEAN.match(match.string, match.end()) if prefix else None
    return match[3] if mean is None else mean[1]


def _has_metrics(matches: Iterable[re.Match[str]]) -> bool:
    """Return whether a line has ``name: value`` of a metric, so that its other values are, too."""
    return any(match[2].strip() and is_metric_name(match[1].split()[-1]) for match in matches)


def _is_list(text: str, matches: Sequence[re.Match[str]]) -> bool:
    """Return whether a line has nothing but names with numbers, at least one with decimals."""
    rest = text
    for match in reversed(matches):
        rest = rest[: match.start()] + rest[match.end() :]
    has_decimals = any("." in match[3] for match in matches)
    return len(matches) > 1 and has_decimals and _LIST_REST.fullmatch(rest) is not None


def _value_of_sentence(line: str) -> dict[str, float]:
    """Return the metric at the end of a line: ``Accuracy on the 10000 test images: 55 %``."""
    match = _SENTENCE.fullmatch(line.strip())
    if match is None or not is_metric_name(match[1]):
        return {}
    words = _NO_NAME.sub(" ", match[1]).split()
    return {"_".join(words): metric_value(match[1], match[2])} if len(words) > 2 else {}


def _values_before_names(text: str) -> dict[str, float]:
    matches = [
        match
        for match in _VALUE_BEFORE.finditer(text)
        if match[2].casefold() not in _UNITS and not match[1].isdigit()
    ]
    if not any(is_metric_name(match[2]) for match in matches):
        return {}
    return {match[2]: metric_value(match[2], match[1]) for match in matches}


def _is_metric(match: re.Match[str], *, has_count: bool) -> bool:
    """Return whether a name and a number in a line are a metric, and no setting or time.

    Args:
        match: A match of `_VALUE`.
        has_count: The line has an epoch or a step; otherwise only what is surely a metric counts.
    """
    name, separator, number = match.groups()
    is_list = _LIST_NAME.search(name) and _SHORT_LIST.fullmatch(number)
    if is_list or has_no_values(name):
        return False
    if separator.strip():
        return has_count or is_metric_name(name.split()[-1])
    is_item = _ITEM_START.search(match.string, 0, match.start()) and _ITEM_END.match(
        match.string, match.end()
    )
    is_usual = is_metric_name(name.split()[-1]) or (has_count and is_item is not None)
    return is_usual and not number.isdigit()


def _decimal_sign(numbers: Iterable[str]) -> str:
    """Return the decimal sign that the numbers of a line show, "" if they do not agree."""
    signs = {"".join(signs) for signs in map(decimal_signs, zip(numbers)) if len(signs) == 1}
    return signs.pop() if len(signs) == 1 else ""


def _count(text: str, decimal: str) -> float:
    """Return an epoch, or with "" for ``decimal`` a whole number: 1.000 steps are a thousand."""
    return number_in(text, decimal or ("," if _POINTED.fullmatch(text) else ""))
