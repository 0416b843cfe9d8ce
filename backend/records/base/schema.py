"""Records as JSON by the type hints of their dataclasses, and the format numbers of files.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, Union, get_args, get_origin

_T = TypeVar("_T")
_R = TypeVar("_R", bound="Record")
Reader = Callable[[Any], Any]
READ = "read"
"""In a field's metadata: its own reader, or None if the field is not in the JSON."""
KEY = "key"
"""In a field's metadata: its key in the JSON, if that is not the field's name."""


def kind_of(value: object) -> str:
    """Name the type of a value in the user's words."""
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), type(value).__name__)


class SchemaError(ValueError):
    """A value that does not fit. ``where`` grows from the value outwards."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path.lstrip('.') or 'it'} {self.args[0]}"


@dataclass(frozen=True, eq=False)
class Rules:
    """A reader for each type, `str` or ``Union[float, None]``.

    Values whose very type is one of ``as_is`` are taken without a call.
    """

    readers: Mapping[Any, Reader]
    exact_types: frozenset[type] = frozenset({str, bool, int, float})
    max_elements: int = sys.maxsize
    refuses_unknown: bool = False


_FIELDS = "__dataclass_fields__"
_WORDS: Mapping[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _scalar(kind: Callable[[Any], Any], *accepted: type) -> Reader:
    """Return a reader that converts to ``kind`` what is ``accepted``, by default everything."""

    def read(raw: Any) -> Any:
        try:
            if not accepted or type(raw) in accepted:
                return kind(raw)
        except (TypeError, ValueError, OverflowError):
            pass  # The sentence below is clearer.
        raise SchemaError(f"must be {_WORDS[kind]}, not {kind_of(raw)}")

    return read


LENIENT = Rules({**{kind: _scalar(kind) for kind in _WORDS}, Any: lambda raw: raw})
"""Values are converted; unknown keys are ignored, because a newer program wrote them."""
STRICT = Rules(
    {
        **{kind: _scalar(kind, kind) for kind in _WORDS},
        float: _scalar(float, float, int),
        Any: lambda raw: raw,
    },
    refuses_unknown=True,
)
"""Values of other types and unknown keys are refused."""


class Record:
    """A dataclass that is stored as JSON: each field by its name or `KEY`, in order.

    ``what`` names it in messages, ``newest`` is its format number if it has a field ``schema``, and
    ``needs`` are fields that must be in the JSON although they have a default.
    """

    _what: str
    _newest: int
    _needs: frozenset[str]
    _rules: Rules

    def __init_subclass__(
        cls,
        label: str,
        newest_schema: int = 0,
        required: Iterable[str] = (),
        rules: Rules = LENIENT,
    ) -> None:
        cls._label, cls._newest_schema = label, newest_schema
        cls._required_fields, cls._rules = frozenset(required), rules

    def to_dict(self) -> dict[str, Any]:
        """Return the record as `plain` values."""
        return dict(json_value(self))

    @classmethod
    def from_dict(cls: type[_R], raw: Mapping[str, Any]) -> _R:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: It was not written by `to_dict`, or by a newer Ringmaster.
        """
        try:
            return build(cls, raw, cls._rules)
        except SchemaError as error:
            where = error.path.lstrip(".") or "table"
            raise ValueError(f"{cls._what} without a usable {where}: it {error.args[0]}") from None


def build(record: Callable[..., _T], raw: object, rules: Rules) -> _T:
    """Build a dataclass from parsed JSON.

    Raises:
        ValueError: It does not fit; the message names the field.
    """
    built: _T = _record_reader(record, rules)(raw)
    return built


def check_schema(raw: Mapping[str, Any], what: str, newest: int) -> None:
    """Check the format number of a record. ``what`` names its kind in the message: "node".

    Raises:
        ValueError: It has no number, or a newer Ringmaster wrote it.
    """
    schema = raw.get("schema")
    if not isinstance(schema, int) or schema > newest:
        raise ValueError(f"{what} of format {schema!r}; this Ringmaster reads up to {newest}")


class _Unions(ast.NodeTransformer):
    """Write ``X | Y`` as ``Union[X, Y]``, which Python 3.9 can evaluate."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        kinds = ast.Tuple([self.visit(node.left), self.visit(node.right)], ast.Load())
        return ast.Subscript(ast.Name("Union", ast.Load()), kinds, ast.Load())


def type_of(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an annotation, such as ``tuple[int, ...] | None``."""
    tree = _Unions().visit(ast.parse(text, mode="eval"))
    return eval(ast.unparse(tree), {**names, "Union": Union})


@cache
def _stored_fields(record: Any) -> tuple[tuple[str, Field[Any]], ...]:
    """Return key and field of what the JSON has."""
    stored = (field for field in fields(record) if field.metadata.get(READ, True))
    return tuple((field.metadata.get(KEY, field.name), field) for field in stored)


def json_value(value: Any, documents: bool = False) -> Any:
    """Return ``value`` as JSON has it; a number that is not finite becomes None.

    Args:
        value: Records, mappings, lists and plain values.
        documents: Whether a record is what its ``to_json`` or ``to_dict`` returns.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [json_value(one, documents) for one in value]
    if isinstance(value, Mapping):
        return {key: json_value(one, documents) for key, one in value.items()}
    if hasattr(value, _FIELDS):
        own = documents and (getattr(value, "to_json", None) or getattr(value, "to_dict", None))
        if own:
            return json_value(own(), documents)
        stored = _stored_fields(value.__class__)
        return {key: json_value(getattr(value, field.name), documents) for key, field in stored}
    return str(value) if isinstance(value, PurePath) else value


@cache
def _record_reader(record: Any, rules: Rules) -> Reader:
    """Return the reader of a dataclass. Its fields are analysed once: a reading has 600 values."""
    names, newest = vars(sys.modules[record.__module__]), getattr(record, "_newest", 0)
    plan = []
    for key, field in _stored_fields(record):
        read, as_is = field.metadata.get(READ), frozenset[type]()
        if read is None:
            read, as_is = _reader(type_of(str(field.type), names), rules)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        is_needed = not has_default or field.name in getattr(record, "_needs", ())
        plan.append((key, field.name, as_is, read, is_needed))

    def read_record(raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise SchemaError(f"must be a table, not {kind_of(raw)}")
        if newest:
            check_schema(raw, record._what, newest)
        values: dict[str, Any] = {}
        key = ""
        try:
            for key, name, as_is, read, is_needed in plan:
                if key in raw:
                    value = raw[key]
                    values[name] = value if type(value) in as_is else read(value)
                elif is_needed:
                    raise SchemaError("is missing")
            if rules.refuses_unknown and len(values) < len(raw):
                keys = {key for key, *_ in plan}
                key = next(key for key in raw if key not in keys)
                raise SchemaError("is unknown")
        except (SchemaError, AttributeError, TypeError) as error:
            known = error if isinstance(error, SchemaError) else SchemaError("has another form")
            known.path = f".{key}{known.path}"
            raise known from None
        return record(**values)

    return read_record


def _reader(kind: Any, rules: Rules) -> tuple[Reader, frozenset[type]]:
    """Return a reader, and the types of the values that do not need it."""
    inner, as_is = get_args(kind), rules.exact_types & {kind}
    if kind in rules.readers:
        return rules.readers[kind], as_is
    if hasattr(kind, _FIELDS):
        return _record_reader(kind, rules), as_is
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind), as_is
    read, as_is = _reader(inner[1 if get_origin(kind) is Mapping else 0], rules)
    if get_origin(kind) is Union:
        return read, as_is | {type(None)}
    if get_origin(kind) is tuple:
        return _elements(read, as_is, rules.max_elements), frozenset()
    return _mapping(read, as_is), frozenset()


def _member(kind: type[Enum]) -> Reader:
    def read(raw: Any) -> Enum:
        try:
            return kind(raw)
        except ValueError:
            raise SchemaError("is not a known value") from None

    return read


def _elements(read: Reader, as_is: frozenset[type], most: int) -> Reader:
    def read_all(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise SchemaError(f"must be a list, not {kind_of(raw)}")
        if len(raw) > most:
            raise SchemaError(f"contains more than {most} elements")
        if as_is.issuperset(map(type, raw)):
            return tuple(raw)
        return tuple(value for _, value in _each(enumerate(raw), read, as_is, "[{}]"))

    return read_all


def _mapping(read: Reader, as_is: frozenset[type]) -> Reader:
    def read_all(raw: Any) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise SchemaError(f"must be a table, not {kind_of(raw)}")
        return dict(_each(raw.items(), read, as_is, ".{}"))

    return read_all


def _each(
    pairs: Iterable[Any], read: Reader, as_is: frozenset[type], form: str
) -> Iterator[tuple[Any, Any]]:
    key: Any = None
    try:
        for key, value in pairs:
            yield key, value if type(value) in as_is else read(value)
    except SchemaError as error:
        error.path = form.format(key) + error.path
        raise
