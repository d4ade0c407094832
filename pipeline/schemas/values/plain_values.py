"""The rules of the plain kinds, of decimals and of enums: for JSON's values, and for texts.

Whatever is accepted is exact: a number that a column could only keep rounded (a decimal with more digits behind the
point, a float beyond its range) does not fit.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

from sordini.pipeline.schemas.kinds import NUMBERED, Decimal, Enum, Kind, Numbered, Plain
from sordini.pipeline.schemas.values.misfit import Reader, misfit

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The bounds of timestamps that all readers of tables support, in µs since 1970: the years 1 to 9999."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The same of dates, in days since 1970."""
DAY_US: Final = 86_400_000_000
FLOAT_MAX: Final = 3.4028234663852886e38
TEXT_OF_NUMBER_MAX: Final = 400
"""Longer texts are no numbers: a double has at most 309 digits before its point."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d.*", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT: Final = decimal.Context(prec=100, traps=[decimal.InvalidOperation, decimal.Inexact])


def plain_reader(kind: Kind, *, numbers_as_text: bool = False) -> Reader:
    """The reader of a plain kind, a decimal or an enum.

    With `numbers_as_text` whole numbers, truth values and numbers may be texts: those of Protobuf's JSON, and of pairs.
    """
    match kind:
        case Decimal():
            return _decimal(kind)
        case Enum():
            return _enum(kind)
        case Plain("int"):
            return _whole(kind, 31, numbers_as_text)
        case Plain("long"):
            return _whole(kind, 63, numbers_as_text)
        case Plain("float"):
            return _number(kind, FLOAT_MAX, numbers_as_text)
        case Plain("double"):
            return _number(kind, math.inf, numbers_as_text)
        case Plain("boolean"):
            return _truth(kind, numbers_as_text)
        case Plain(name) if name in NUMBERED:
            return _numbered(_whole(kind, 63, numbers_as_text), kind, NUMBERED[name])
        case Plain("string"):
            return string
        case Plain():
            return _of_text(kind, _TEXTS[kind.name])
    raise AssertionError(f"{kind} has parts")


def string(value: Any) -> str:
    """Texts as they are; other values as their JSON, as Spark's reader of JSON has them."""
    return value if type(value) is str else json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def bounded_us(value: int) -> int:
    """Raises ValueError for a moment outside the years that tables support."""
    if not FIRST_US <= value <= LAST_US:
        raise ValueError(value)
    return value


def bounded_days(value: int) -> int:
    """Raises ValueError for a day outside the years that tables support."""
    if not FIRST_DAY <= value <= LAST_DAY:
        raise ValueError(value)
    return value


def bounded_time(value: int) -> int:
    """Raises ValueError for microseconds that are not within a day."""
    if not 0 <= value < DAY_US:
        raise ValueError(value)
    return value


BOUNDED: Final = {"date": bounded_days, "time": bounded_time, "timestamp": bounded_us}
"""The check of a number, by the kind of its column."""


def unscaled_decimal(data: bytes, scale: int, kind: Decimal) -> decimal.Decimal:
    """The digits in two's complement, the highest byte first, with `scale` of them behind the point.

    Raises decimal.DecimalException if the kind has fewer digits.
    """
    return exact_decimal(decimal.Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _WIDE), kind)


def unscaled_reader(kind: Decimal, scale: int) -> Reader:
    """The reader of texts in base 64 that have a decimal's digits, `scale` of them behind the point."""

    def read(value: Any) -> decimal.Decimal:
        if type(value) is str and len(value) <= TEXT_OF_NUMBER_MAX:
            try:
                return unscaled_decimal(_binary(value), scale, kind)
            except (ValueError, decimal.DecimalException):
                pass
        raise misfit(kind)

    return read


_WIDE: Final = decimal.Context(prec=1000)


def exact_decimal(value: decimal.Decimal, kind: Decimal) -> decimal.Decimal:
    """With the kind's scale. Raises decimal.DecimalException if it has more digits."""
    if value.adjusted() >= kind.precision:  # Before it is expanded: 1E+999999 is short as a text.
        if value:
            raise decimal.InvalidOperation
        value = decimal.Decimal(0)
    found = value.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if not found.is_finite() or (found and found.adjusted() >= kind.precision - kind.scale):
        raise decimal.InvalidOperation
    return found


def _decimal(kind: Decimal) -> Reader:
    if kind.is_unscaled:
        return unscaled_reader(kind, kind.scale)

    def read(value: Any) -> decimal.Decimal:
        try:
            if type(value) is decimal.Decimal:
                return exact_decimal(value, kind)
            if type(value) is int:
                if value.bit_length() <= 128:
                    return exact_decimal(decimal.Decimal(value), kind)
            elif type(value) is float:
                return exact_decimal(decimal.Decimal(repr(value)), kind)
            elif type(value) is str and len(value) <= TEXT_OF_NUMBER_MAX and _NUMBER.fullmatch(value):
                return exact_decimal(decimal.Decimal(value), kind)
        except decimal.DecimalException:
            pass
        raise misfit(kind)

    return read


def _enum(kind: Enum) -> Reader:
    symbols = frozenset(kind.symbols)

    def read(value: Any) -> str:
        if type(value) is str and value in symbols:
            return value
        raise misfit(kind)

    return read


def _whole(kind: Kind, bits: int, numbers_as_text: bool) -> Reader:  # noqa: FBT001
    bound = 1 << bits

    def read(value: Any) -> int:
        if type(value) is int and -bound <= value < bound:
            return value
        if numbers_as_text and type(value) is str and len(value) <= TEXT_OF_NUMBER_MAX and _WHOLE.fullmatch(value):
            number = int(value)
            if -bound <= number < bound:
                return number
        raise misfit(kind)

    return read


def _number(kind: Kind, greatest: float, numbers_as_text: bool) -> Reader:  # noqa: FBT001
    def read(value: Any) -> float:
        found: float | None = None
        if type(value) is float:
            found = value
        elif type(value) is str:
            if value in _SPECIAL:
                return _SPECIAL[value]
            if numbers_as_text and len(value) <= TEXT_OF_NUMBER_MAX and _NUMBER.fullmatch(value):
                found = float(value)
        elif type(value) is int or type(value) is decimal.Decimal:
            try:
                found = float(value)
            except OverflowError:
                found = None
        # A number beyond the range is parsed as infinity.
        if found is None or not -greatest <= found <= greatest or math.isinf(found):
            raise misfit(kind)
        return found

    return read


def _truth(kind: Kind, numbers_as_text: bool) -> Reader:  # noqa: FBT001
    def read(value: Any) -> bool:
        if type(value) is bool:
            return value
        if numbers_as_text and type(value) is str and value.lower() in {"true", "false"}:
            return value.lower() == "true"
        raise misfit(kind)

    return read


def _numbered(whole: Reader, kind: Kind, numbered: Numbered) -> Reader:
    check = BOUNDED[numbered.of]

    def read(value: Any) -> int:
        try:
            return check(numbered.value(whole(value)))
        except ValueError:
            raise misfit(kind) from None

    return read


def _of_text(kind: Kind, parse: Callable[[str], Any]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            try:
                return parse(value)
            except (ValueError, OverflowError):
                pass
        raise misfit(kind)

    return read


def _date(text: str) -> int:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return dt.date.fromisoformat(text).toordinal() - FIRST_ORDINAL


def _time(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    found = dt.time.fromisoformat(text)
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _timestamp(text: str) -> int:
    return _microseconds(_moment(text))


def _timestamp_ntz(text: str) -> int:
    found = _moment(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return _microseconds(found)


def _moment(text: str) -> dt.datetime:
    if not _MOMENT.fullmatch(text):
        raise ValueError(text)
    return dt.datetime.fromisoformat(text)


def _microseconds(moment: dt.datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return bounded_us((aware - _EPOCH) // _MICROSECOND)


def _uuid(text: str) -> str:
    lower = text.lower()
    if not _UUID.fullmatch(lower):
        raise ValueError(text)
    return lower


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(text) from None


FIRST_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_TEXTS: Final[dict[str, Callable[[str], Any]]] = {
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "uuid": _uuid,
    "binary": _binary,
}
