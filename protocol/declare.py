"""How a message is declared: one class for all its versions, each field with its history and default.

    @message(versions=range(5), flexible=3)
    class ApiVersionsRequest:
        client_software_name: String = since(3, default="")

`versions` are those the class can be read and written in; from `flexible` on lengths are varints and structs
end with tagged fields (KIP-482). Classes inside a message are marked `@struct` and take their version from
the message around them. Every field has a default (as in the published definitions; a plain value where the
field is in every version), which is also its value after decoding a version without the field.

The decorators rebuild the class with `__slots__`, a keyword constructor and comparison by value. Nothing is
resolved or compiled here: annotations are read when the first codec of a class is made, and its constructor is
compiled when the first object is.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, dataclass_transform

from sordini.protocol.primitives import Blob, Fixed, Many, RecordBytes, Text
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

EMPTY: Final[Any] = type("Empty", (), {"__repr__": lambda _: "EMPTY", "__slots__": ()})()
"""Default of an array: each object gets a fresh empty list."""

_NEVER: Final = 1 << 15  # Above every version: versions travel as int16.


class Spec(NamedTuple):
    """The declaration of a field beside its type; all bounds are versions."""

    default: Any
    since: int = 0
    until: int = _NEVER
    nullable: int = 0
    tag: int | None = None
    packable: bool = False
    is_marked: bool = False

    def is_in(self, version: int) -> bool:
        """Whether the field is on the wire in this version."""
        return self.since <= version <= self.until


class Struct(NamedTuple):
    """The kind of a field whose value is another declared class, or null if `nullable`."""

    cls: type
    nullable: bool = False


class ArrayOf(NamedTuple):
    """The kind of an array field, with the kind of its elements."""

    element: Kind
    nullable: bool


Kind: TypeAlias = Fixed | Text | Blob | RecordBytes | Struct | ArrayOf


class Field(NamedTuple):
    """One field of a class, ready for the compilers."""

    name: str
    kind: Kind
    spec: Spec

    def is_nullable_in(self, version: int) -> bool:
        """Whether the value may be null in this version."""
        kind = self.kind
        if isinstance(kind, Fixed):
            return False
        if isinstance(kind, Struct) and self.spec.tag is not None:
            return self.spec.is_marked  # One that is None is not sent.
        return kind.nullable and version >= self.spec.nullable


def since(version: int, *, default: Any, until: int = _NEVER, nullable: int = 0) -> Any:
    """Declare a field added in `version`; `until` is the last version with it, `nullable` the first with null."""
    return Spec(default, version, until, nullable)


def packable(*, default: Any) -> Any:
    """Declare an array that may be encoded before (`Packed`)."""
    return Spec(default, packable=True)


def until(version: int, *, default: Any) -> Any:
    """Declare a field of the versions 0 to `version`."""
    return Spec(default, 0, version)


def tagged(tag: int, *, since: int, default: Any, is_marked: bool = False) -> Any:
    """Declare an optional field of flexible versions: sent only when it differs from its default.

    A struct's default is None, "not sent"; it is sent whenever there is one. With `is_marked` a byte precedes it that
    is 1, or 0 without a struct behind it.
    """
    return Spec(default, since, tag=tag, is_marked=is_marked)


NEVER = 2**15 - 1
"""For messages without flexible versions."""


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, tagged, packable))
def message(*, versions: range, flexible: int) -> Callable[[type[T]], type[T]]:
    """Declare a request or response, a class that is compiled for each of `versions`."""

    def declare(cls: type[T]) -> type[T]:
        return _rebuilt(cls, versions, flexible)

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, tagged, packable))
def struct(cls: type[T]) -> type[T]:
    """Declare a class that is used inside messages."""
    return _rebuilt(cls, range(0), _NEVER)


def specs_of(cls: type) -> dict[str, Spec]:
    """The declarations of a class's fields, in wire order."""
    return typing.cast("dict[str, Spec]", cls.__dict__["__specs__"])


def versions_of(cls: type) -> range:
    """The versions a message can be read and written in; none for a struct."""
    return typing.cast("range", cls.__dict__["__versions__"])


def flexible_from(cls: type) -> int:
    """The first version of a message with varint lengths and tagged fields."""
    return typing.cast("int", cls.__dict__["__flexible__"])


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a declared class in wire order, with their kinds resolved."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(Field(name, _kind(hints[name]), spec) for name, spec in specs_of(cls).items())


def _kind(hint: Any) -> Kind:
    if isinstance(hint, type):
        return Struct(hint)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not typing.Annotated:  # A struct that may be null: `LeaderIdAndEpoch | None`.
        return Struct(next(option for option in arguments if option is not NoneType), nullable=True)
    marks = typing.cast("Any", hint).__metadata__
    if not isinstance(marks[0], Many):
        return typing.cast("Kind", marks[0])
    held = arguments[0]
    if marks[0].nullable:
        held = next(option for option in typing.get_args(held) if option is not NoneType)
    return ArrayOf(_kind(typing.get_args(held)[0]), marks[0].nullable)


def _rebuilt(cls: type[T], versions: range, flexible: int) -> type[T]:
    """Make the class again with slots: a class cannot gain them once it exists."""
    specs = {}
    for name in cls.__annotations__:
        assert name in cls.__dict__, f"{cls.__name__}.{name} has no default"
        declared = cls.__dict__[name]
        specs[name] = declared if type(declared) is Spec else Spec(declared)
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in specs and name not in {"__dict__", "__weakref__"}
    }
    namespace |= {
        "__slots__": tuple(specs),
        "__specs__": specs,
        "__versions__": versions,
        "__flexible__": flexible,
        "__init__": _first_constructor,
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": _text,
    }
    return typing.cast("type[T]", type(cls.__name__, cls.__bases__, namespace))


def _first_constructor(self: Any, **fields: Any) -> None:
    """The constructor until the class is used: compiling those of all messages takes 6 % of a broker's start."""
    cls = next(base for base in type(self).__mro__ if "__specs__" in base.__dict__)
    made = _constructor(cls.__qualname__, specs_of(cls))
    setattr(cls, "__init__", made)  # noqa: B010 - mypy refuses the assignment to a method.
    made(self, **fields)


def _constructor(owner: str, specs: dict[str, Spec]) -> Callable[..., None]:
    """Generate the constructor: a loop over the fields would take a multiple of the time per object."""
    defaults: dict[str, Any] = {f"default_{name}": spec.default for name, spec in specs.items()}
    parameters = "".join(f", {name}=default_{name}" for name in specs)
    lines = [f"def __init__(self{', *' if specs else ''}{parameters}):", " pass"]
    for name, spec in specs.items():
        fresh = f"[] if {name} is default_{name} else " if spec.default is EMPTY else ""
        lines.append(f" self.{name} = {fresh}{name}")
    exec("\n".join(lines), defaults)  # noqa: S102 - the text consists of declared field names only.
    made: Callable[..., None] = defaults["__init__"]
    made.__qualname__ = f"{owner}.__init__"
    return made


def _equal(self: Any, other: Any) -> bool:
    return type(self) is type(other) and all(
        getattr(self, name) == getattr(other, name) for name in specs_of(type(self))
    )


def _text(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in specs_of(type(self)))
    return f"{type(self).__name__}({fields})"
