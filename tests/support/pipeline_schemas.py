"""Random schemas of the pipeline, and values that fit them in the forms of JSON and of Avro."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from typing import Any

from hypothesis import strategies as st

from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.kinds import NUMBERED, PLAIN, Decimal, Enum, Kind, ListOf, MapOf, Plain, StructOf

RESERVED = {"topic", "partition", "offset", "timestamp"}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True).filter(lambda name: name.lower() not in RESERVED)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
EPOCH = dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None)
FIRST, LAST = dt.datetime.fromisoformat("0001-01-01"), dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")
SOURCES = st.lists(NAMES | st.just("$.a.b[0]") | st.just("$['a b'].c"), max_size=2, unique=True).map(tuple)


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    precision = draw(st.integers(1, 38))
    return Decimal(precision, draw(st.integers(0, precision)), draw(st.booleans()))


def scalars() -> st.SearchStrategy[Kind]:
    symbols = st.lists(NAMES, min_size=1, max_size=4, unique=True).map(lambda names: Enum(tuple(names)))
    return st.sampled_from(PLAIN).map(Plain) | decimals() | symbols


def _fields(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[tuple[Field, ...]]:
    made = st.builds(
        lambda name, kind, about, is_required, sources: field_of(
            name, kind, about, is_required=is_required, sources=sources
        ),
        NAMES,
        kinds,
        TEXTS,
        st.booleans(),
        SOURCES,
    )
    return st.lists(made, min_size=1, max_size=4, unique_by=lambda field: field.name.lower()).map(tuple)


KINDS = st.recursive(
    scalars(),
    lambda inner: inner.map(ListOf) | inner.map(MapOf) | _fields(inner).map(StructOf),
    max_leaves=6,
)
SCHEMAS = _fields(KINDS).map(lambda fields: Schema("event", fields, about="An event."))


def without_sources(schema: Schema) -> Schema:
    """The same, each field read under its own name."""
    return Schema(schema.name, tuple(map(_plain, schema.fields)))


def _plain(field: Field) -> Field:
    return field_of(field.name, _plain_kind(field.type), is_required=field.is_required)


def _plain_kind(kind: Kind) -> Kind:
    match kind:
        case ListOf():
            return ListOf(_plain_kind(kind.items))
        case MapOf():
            return MapOf(_plain_kind(kind.values))
        case StructOf():
            return StructOf(tuple(map(_plain, kind.fields)))
        case _:
            return kind


def values_of(kind: Kind) -> st.SearchStrategy[Any]:
    """What a column of a kind has, as `pyarrow.Array.to_pylist` returns it."""
    match kind:
        case Decimal():
            bound = 10**kind.precision - 1
            return st.integers(-bound, bound).map(lambda number: scaled(number, kind.scale))
        case Enum():
            return st.sampled_from(kind.symbols)
        case ListOf():
            return st.lists(st.none() | values_of(kind.items), max_size=3)
        case MapOf():
            return st.dictionaries(TEXTS, st.none() | values_of(kind.values), max_size=3).map(
                lambda it: list(it.items())
            )
        case StructOf():
            return rows_of(kind.fields)
        case Plain():
            return _PLAIN_VALUES[kind.name]


def rows_of(fields: tuple[Field, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Names and values; what is not required may be None."""
    return st.fixed_dictionaries(
        {
            field.name: values_of(field.type) if field.is_required else st.none() | values_of(field.type)
            for field in fields
        }
    )


def scaled(number: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(number).scaleb(-scale, decimal.Context(prec=100))


_PLAIN_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_infinity=False, allow_nan=False),
    "double": st.floats(allow_infinity=False, allow_nan=False),
    "boolean": st.booleans(),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(FIRST, LAST).map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "timestamp_ntz": st.datetimes(FIRST, LAST),
    "uuid": st.uuids().map(str),
    "binary": st.binary(max_size=8),
    "date_days": st.dates(),
    "time_ms": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "time_us": st.times(),
    "time_ns": st.times(),
    "timestamp_ms": st.datetimes(FIRST, LAST).map(
        lambda moment: moment.replace(tzinfo=dt.UTC, microsecond=moment.microsecond // 1000 * 1000)
    ),
    "timestamp_us": st.datetimes(FIRST, LAST).map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    # As far as 64 bits have nanoseconds since 1970.
    "timestamp_ns": st.datetimes(dt.datetime.fromisoformat("1678-01-01"), dt.datetime.fromisoformat("2262-01-01")).map(
        lambda moment: moment.replace(tzinfo=dt.UTC)
    ),
}


def to_json(kind: Kind, value: Any) -> Any:
    """A column's value in the form of JSON, by the table of `fields.py`."""
    if value is None:
        return None
    match kind:
        case ListOf():
            return [to_json(kind.items, item) for item in value]
        case MapOf():
            return {key: to_json(kind.values, item) for key, item in value}
        case StructOf():
            return {field.name: to_json(field.type, value[field.name]) for field in kind.fields}
        case Decimal(is_unscaled=True):
            return base64.b64encode(unscaled(value, kind.scale)).decode()
        case Decimal():
            return str(value)
        case Plain("date" | "time" | "timestamp" | "timestamp_ntz"):
            return value.isoformat()
        case Plain(name) if name in NUMBERED:
            return number_of(name, value)
        case Plain("binary"):
            return base64.b64encode(value).decode()
        case _:
            return value


def to_avro_value(kind: Kind, value: Any) -> Any:
    """A column's value as fastavro writes it by `to_avro`."""
    if value is None:
        return None
    match kind:
        case ListOf():
            return [to_avro_value(kind.items, item) for item in value]
        case MapOf():
            return {key: to_avro_value(kind.values, item) for key, item in value}
        case StructOf():
            return {field.name: to_avro_value(field.type, value[field.name]) for field in kind.fields}
        case Plain("time_ns" | "timestamp_ns" as name):
            return number_of(name, value)  # Not among fastavro's logical types.
        case _:
            return value


def number_of(name: str, value: Any) -> int:
    """A date, time or timestamp as a number, by a kind of NUMBERED."""
    match value:
        case dt.datetime():
            micros = (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - EPOCH.date()).days
        case _:
            micros = (dt.datetime.combine(EPOCH.date(), value) - EPOCH) // dt.timedelta(microseconds=1)
    return micros * NUMBERED[name].divided_by // NUMBERED[name].times


def unscaled(value: decimal.Decimal, scale: int) -> bytes:
    """The digits of a decimal as Kafka Connect writes them."""
    number = int(value.scaleb(scale, decimal.Context(prec=100)))
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
