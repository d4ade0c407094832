"""The kinds of fields: plain ones, decimals and enums, and lists, maps and structs of any of them.

A kind is a value, and has one text, which `kind_of` reads and `text_of` writes:

    string, int, ...                    PLAIN has the names
    decimal(12,2)                       12 digits, two of them behind the point
    decimal_base64(12,2)                the same; texts have the digits' bytes, as Kafka Connect writes them
    enum(NEW,PAID)                      one of these texts
    list<KIND>                          elements may be null
    map<string,KIND>                    keys are texts
    struct<a: KIND!, b: KIND>           fields by name; `!` marks those that are required

The text of a struct leaves out what its fields say beside their kinds (a source, a description).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from sordini.pipeline.schemas.fields import Field


class Numbered(NamedTuple):
    """What a number since 1970, or since midnight, is: a kind, and what makes that of it (days, or microseconds)."""

    of: str
    times: int = 1
    divided_by: int = 1

    def value(self, number: int) -> int:
        """Days or microseconds; parts of a microsecond are dropped."""
        return number * self.times // self.divided_by


NUMBERED: Final = {
    "date_days": Numbered("date"),
    "time_ms": Numbered("time", 1000),
    "time_us": Numbered("time"),
    "time_ns": Numbered("time", divided_by=1000),
    "timestamp_ms": Numbered("timestamp", 1000),
    "timestamp_us": Numbered("timestamp"),
    "timestamp_ns": Numbered("timestamp", divided_by=1000),
}
"""Kinds whose values are numbers, and whose columns are those of another kind."""
PLAIN: Final = (
    "string",
    "int",
    "long",
    "float",
    "double",
    "boolean",
    "date",
    "time",
    "timestamp",
    "timestamp_ntz",
    *NUMBERED,
    "uuid",
    "binary",
)
PRECISION_MAX: Final = 38
"""Digits of a decimal: the bound of Spark, Delta, Iceberg and Arrow's 128 bits."""
DEPTH_MAX: Final = 20
"""Lists, maps and structs inside each other."""
WRITTEN: Final = (
    f"{', '.join(PLAIN)}, decimal(PRECISION,SCALE), decimal_base64(PRECISION,SCALE), enum(A,B), list<KIND>, "
    "map<string,KIND>, struct<NAME: KIND>"
)
_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:!])")


class SchemaError(PipelineError):
    """An invalid schema; the text names the field and the reason."""


@dataclass(frozen=True)
class Plain:
    """A kind without parts; `name` is one of PLAIN."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """Exact numbers of at most `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int
    is_unscaled: bool = False
    """Whether a text is the base 64 of the digits as one number, in two's complement, the highest byte first."""

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= PRECISION_MAX and 0 <= self.scale <= self.precision):
            raise SchemaError(
                f"decimal({self.precision},{self.scale}) has 1 to {PRECISION_MAX} digits, and no more of them behind "
                "the point"
            )


@dataclass(frozen=True)
class Enum:
    """One of some texts, in order."""

    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise SchemaError("an enum has at least one symbol, and each once")
        for symbol in self.symbols:
            if not _SYMBOL.fullmatch(symbol):
                raise SchemaError(f"{symbol!r} is no symbol of an enum: letters, digits and _, no digit first")


@dataclass(frozen=True)
class ListOf:
    """Elements of one kind, which may be null."""

    items: Kind


@dataclass(frozen=True)
class MapOf:
    """Values of one kind by texts."""

    values: Kind


@dataclass(frozen=True)
class StructOf:
    """Fields by name, in order."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        check_names(self.fields, "a struct")


Kind = Plain | Decimal | Enum | ListOf | MapOf | StructOf


def check_names(fields: tuple[Field, ...], whose: str) -> None:
    """At least one field, and no two of one name. Raises SchemaError."""
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"{whose}: two fields are called {name!r} (Spark does not tell capitals apart)")
    if not names:
        raise SchemaError(f"{whose} has no fields")


def text_of(kind: Kind) -> str:
    """The kind's text."""
    match kind:
        case Plain():
            return kind.name
        case Decimal():
            return f"decimal{'_base64' if kind.is_unscaled else ''}({kind.precision},{kind.scale})"
        case Enum():
            return f"enum({','.join(kind.symbols)})"
        case ListOf():
            return f"list<{text_of(kind.items)}>"
        case MapOf():
            return f"map<string,{text_of(kind.values)}>"
        case StructOf():
            fields = (f"{field.name}: {field.kind}{'!' if field.is_required else ''}" for field in kind.fields)
            return f"struct<{', '.join(fields)}>"


@lru_cache(maxsize=4096)
def kind_of(text: str) -> Kind:
    """Reads a kind's text. Raises SchemaError, which says what is allowed."""
    reading = _Reading(text)
    kind = reading.kind(0)
    reading.end()
    return kind


def depth_of(kind: Kind) -> int:
    """How many lists, maps and structs are inside each other."""
    match kind:
        case ListOf():
            return 1 + depth_of(kind.items)
        case MapOf():
            return 1 + depth_of(kind.values)
        case StructOf():
            return 1 + max(depth_of(field.type) for field in kind.fields)
        case _:
            return 0


def has_column(kind: Kind, name: str) -> bool:
    """Whether the column of a kind is that of this plain one, or has it within it."""
    match kind:
        case ListOf():
            return has_column(kind.items, name)
        case MapOf():
            return has_column(kind.values, name)
        case StructOf():
            return any(has_column(field.type, name) for field in kind.fields)
        case Plain():
            return column_of(kind.name) == name
        case _:
            return False


def column_of(name: str) -> str:
    """The plain kind that says what a plain kind's column is."""
    return NUMBERED[name].of if name in NUMBERED else name


def is_moment(kind: Kind) -> bool:
    """Whether values are moments: timestamps that a zone, or UTC, makes definite."""
    return isinstance(kind, Plain) and column_of(kind.name) == "timestamp"


class _Reading:
    """One text, from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                self._wrong()
            self._tokens.append(found[1])
            at = found.end()
        self._tokens.reverse()

    def kind(self, depth: int) -> Kind:
        if depth > DEPTH_MAX:
            raise SchemaError(f"more than {DEPTH_MAX} lists, maps and structs are inside each other")
        name = self._next()
        if name in PLAIN:
            return Plain(name)
        match name:
            case "decimal" | "decimal_base64":
                return self._decimal(is_unscaled=name != "decimal")
            case "enum":
                return Enum(self._symbols())
            case "list":
                self._expect("<")
                items = self.kind(depth + 1)
                self._expect(">")
                return ListOf(items)
            case "map":
                self._expect("<", "string", ",")
                values = self.kind(depth + 1)
                self._expect(">")
                return MapOf(values)
            case "struct":
                return StructOf(self._fields(depth + 1))
        return self._wrong()

    def end(self) -> None:
        if self._tokens:
            self._wrong()

    def _decimal(self, *, is_unscaled: bool) -> Decimal:
        self._expect("(")
        precision = self._number()
        self._expect(",")
        scale = self._number()
        self._expect(")")
        return Decimal(precision, scale, is_unscaled)

    def _symbols(self) -> tuple[str, ...]:
        self._expect("(")
        found = [self._next()]
        while (mark := self._next()) == ",":
            found.append(self._next())
        if mark != ")":
            self._wrong()
        return tuple(found)

    def _fields(self, depth: int) -> tuple[Field, ...]:
        from sordini.pipeline.schemas.fields import field_of

        self._expect("<")
        found = []
        while True:
            name = self._next()
            self._expect(":")
            kind, mark = self.kind(depth), self._next()
            is_required = mark == "!"
            found.append(field_of(name, kind, is_required=is_required))
            mark = self._next() if is_required else mark
            if mark == ">":
                return tuple(found)
            if mark != ",":
                self._wrong()

    def _number(self) -> int:
        token = self._next()
        if not token.isdecimal():
            self._wrong()
        return int(token[:9])

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if self._next() != token:
                self._wrong()

    def _next(self) -> str:
        return self._tokens.pop() if self._tokens else ""

    def _wrong(self) -> NoReturn:
        raise SchemaError(f"{self._text!r} is not one of {WRITTEN}")
