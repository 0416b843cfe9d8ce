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
"""Metadata of a field: its own reader, or None if the field is not in the JSON."""
KEY = "key"
"""Metadata of a field: its key in the JSON, if that is not the field's name."""


def kind_of(value: object) -> str:
    """Name the type of a value in the user's words."""
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), type(value).__name__)


class SchemaError(ValueError):
    """A value that does not fit. ``path`` grows from the value outwards."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path.lstrip('.') or 'it'} {self.args[0]}"


@dataclass(frozen=True, eq=False)
class Rules:
    """A reader for each type, `str` or ``Union[float, None]``.

    Values of one of the ``exact_types`` are taken without a call.
    """

    readers: Mapping[Any, Reader]
    exact_types: frozenset[type] = frozenset({str, bool, int, float})
    max_elements: int = sys.maxsize
    refuses_unknown: bool = False


_FIELDS = "__dataclass_fields__"
_TYPE_LABELS: Mapping[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _scalar_reader(kind: Callable[[Any], Any], *accepted_types: type) -> Reader:
    """Return a reader that converts values of the accepted types, by default all, to ``kind``."""

    def read(raw: Any) -> Any:
        try:
            if not accepted_types or type(raw) in accepted_types:
                return kind(raw)
        except (TypeError, ValueError, OverflowError):
            pass  # The message below is clearer.
        raise SchemaError(f"must be {_TYPE_LABELS[kind]}, not {kind_of(raw)}")

    return read


LENIENT = Rules({**{kind: _scalar_reader(kind) for kind in _TYPE_LABELS}, Any: lambda raw: raw})
"""Values are converted; unknown keys are ignored, because a newer program wrote them."""
STRICT = Rules(
    {
        **{kind: _scalar_reader(kind, kind) for kind in _TYPE_LABELS},
        float: _scalar_reader(float, float, int),
        Any: lambda raw: raw,
    },
    refuses_unknown=True,
)
"""Values of other types and unknown keys are refused."""


class Record:
    """A dataclass that is stored as JSON: each field by its name or `KEY`, in order.

    ``label`` names it in messages, ``newest_schema`` is its format number if it has a field
    ``schema``, and ``required`` are fields that must be in the JSON although they have a default.
    """

    _label: str
    _newest_schema: int
    _required_fields: frozenset[str]
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
        """Return the record as a `json_value`."""
        return dict(json_value(self))

    @classmethod
    def from_dict(cls: type[_R], raw: Mapping[str, Any]) -> _R:
        """Read the output of `to_dict`.

        Raises:
            ValueError: `to_dict` did not write it, or a newer Ringmaster did.
        """
        try:
            return build(cls, raw, cls._rules)
        except SchemaError as error:
            path = error.path.lstrip(".") or "table"
            raise ValueError(f"{cls._label} without a usable {path}: it {error.args[0]}") from None


def build(record: Callable[..., _T], raw: object, rules: Rules) -> _T:
    """Build a dataclass from parsed JSON.

    Raises:
        ValueError: The JSON does not fit; the message names the field.
    """
    value: _T = _record_reader(record, rules)(raw)
    return value


def check_schema(raw: Mapping[str, Any], label: str, newest_schema: int) -> None:
    """Check the format number of a record. ``label`` names its kind in the message: "node".

    Raises:
        ValueError: The record has no number, or a newer Ringmaster wrote it.
    """
    schema_number = raw.get("schema")
    if not isinstance(schema_number, int) or schema_number > newest_schema:
        raise ValueError(
            f"{label} of format {schema_number!r}; this Ringmaster reads up to {newest_schema}"
        )


class _UnionRewriter(ast.NodeTransformer):
    """Write ``X | Y`` as ``Union[X, Y]``, which Python 3.9 can evaluate."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        kinds = ast.Tuple([self.visit(node.left), self.visit(node.right)], ast.Load())
        return ast.Subscript(ast.Name("Union", ast.Load()), kinds, ast.Load())


def evaluate_annotation(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an annotation, such as ``tuple[int, ...] | None``."""
    tree = _UnionRewriter().visit(ast.parse(text, mode="eval"))
    return eval(ast.unparse(tree), {**names, "Union": Union})


@cache
def _stored_fields(record: Any) -> tuple[tuple[str, Field[Any]], ...]:
    """Return key and field of each stored value."""
    stored_fields = (field for field in fields(record) if field.metadata.get(READ, True))
    return tuple((field.metadata.get(KEY, field.name), field) for field in stored_fields)


def json_value(value: Any, documents: bool = False) -> Any:
    """Return ``value`` as JSON stores it; a number that is not finite becomes None.

    Args:
        value: Records, mappings, lists, texts, numbers.
        documents: Whether a record becomes the result of its ``to_json`` or ``to_dict``.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [json_value(element, documents) for element in value]
    if isinstance(value, Mapping):
        return {key: json_value(element, documents) for key, element in value.items()}
    if hasattr(value, _FIELDS):
        to_document = documents and (
            getattr(value, "to_json", None) or getattr(value, "to_dict", None)
        )
        if to_document:
            return json_value(to_document(), documents)
        stored_fields = _stored_fields(value.__class__)
        return {
            key: json_value(getattr(value, field.name), documents) for key, field in stored_fields
        }
    return str(value) if isinstance(value, PurePath) else value


@cache
def _record_reader(record: Any, rules: Rules) -> Reader:
    """Return the reader of a dataclass. Its fields are analysed once: a reading has 600 values."""
    names, newest_schema = (
        vars(sys.modules[record.__module__]),
        getattr(record, "_newest_schema", 0),
    )
    field_plans = []
    for key, field in _stored_fields(record):
        read, exact_types = field.metadata.get(READ), frozenset[type]()
        if read is None:
            read, exact_types = _reader_of(evaluate_annotation(str(field.type), names), rules)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        is_required = not has_default or field.name in getattr(record, "_required_fields", ())
        field_plans.append((key, field.name, exact_types, read, is_required))

    def read_record(raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise SchemaError(f"must be a table, not {kind_of(raw)}")
        if newest_schema:
            check_schema(raw, record._label, newest_schema)
        values: dict[str, Any] = {}
        key = ""
        try:
            for key, name, exact_types, read, is_required in field_plans:
                if key in raw:
                    value = raw[key]
                    values[name] = value if type(value) in exact_types else read(value)
                elif is_required:
                    raise SchemaError("is missing")
            if rules.refuses_unknown and len(values) < len(raw):
                keys = {key for key, *_ in field_plans}
                key = next(key for key in raw if key not in keys)
                raise SchemaError("is unknown")
        except (SchemaError, AttributeError, TypeError) as error:
            schema_error = (
                error if isinstance(error, SchemaError) else SchemaError("has another form")
            )
            schema_error.path = f".{key}{schema_error.path}"
            raise schema_error from None
        return record(**values)

    return read_record


def _reader_of(kind: Any, rules: Rules) -> tuple[Reader, frozenset[type]]:
    """Return a reader, and the types of the values that do not need it."""
    type_args, exact_types = get_args(kind), rules.exact_types & {kind}
    if kind in rules.readers:
        return rules.readers[kind], exact_types
    if hasattr(kind, _FIELDS):
        return _record_reader(kind, rules), exact_types
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_reader(kind), exact_types
    read, exact_types = _reader_of(type_args[1 if get_origin(kind) is Mapping else 0], rules)
    if get_origin(kind) is Union:
        return read, exact_types | {type(None)}
    if get_origin(kind) is tuple:
        return _tuple_reader(read, exact_types, rules.max_elements), frozenset()
    return _mapping_reader(read, exact_types), frozenset()


def _enum_reader(kind: type[Enum]) -> Reader:
    def read(raw: Any) -> Enum:
        try:
            return kind(raw)
        except ValueError:
            raise SchemaError("is not a known value") from None

    return read


def _tuple_reader(read: Reader, exact_types: frozenset[type], max_elements: int) -> Reader:
    def read_all(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise SchemaError(f"must be a list, not {kind_of(raw)}")
        if len(raw) > max_elements:
            raise SchemaError(f"contains more than {max_elements} elements")
        if exact_types.issuperset(map(type, raw)):
            return tuple(raw)
        return tuple(value for _, value in _read_pairs(enumerate(raw), read, exact_types, "[{}]"))

    return read_all


def _mapping_reader(read: Reader, exact_types: frozenset[type]) -> Reader:
    def read_all(raw: Any) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise SchemaError(f"must be a table, not {kind_of(raw)}")
        return dict(_read_pairs(raw.items(), read, exact_types, ".{}"))

    return read_all


def _read_pairs(
    pairs: Iterable[Any], read: Reader, exact_types: frozenset[type], path_format: str
) -> Iterator[tuple[Any, Any]]:
    key: Any = None
    try:
        for key, value in pairs:
            yield key, value if type(value) in exact_types else read(value)
    except SchemaError as error:
        error.path = path_format.format(key) + error.path
        raise
