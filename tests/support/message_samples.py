"""Messages to test with, made from the declarations: one sample by rule, and any number by hypothesis."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from sordini.protocol import primitives
from sordini.protocol.declare import EMPTY, ArrayOf, Field, Kind, Struct, fields_of
from sordini.protocol.served_apis import APIS

MESSAGES = [cls for api in APIS.values() for cls in (api.request, api.response)]
NUMBER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


def every_version() -> Iterator[tuple[type, int]]:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield api.request, version
            yield api.response, version


def present_fields(cls: type, version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.spec.is_in(version)]


def sample(cls: type, version: int) -> Any:
    """A message in which every field differs from its default and each number is another."""
    return _sampled(cls, version, iter(range(1, 1000)))


def _sampled(cls: type, version: int, numbers: Iterator[int]) -> Any:
    made = cls()
    for field in present_fields(cls, version):
        setattr(made, field.name, _sampled_value(field.kind, field.name, version, numbers))
    return made


def _sampled_value(kind: Kind, name: str, version: int, numbers: Iterator[int]) -> Any:
    if isinstance(kind, Struct):
        return _sampled(kind.cls, version, numbers)
    if isinstance(kind, ArrayOf):
        count = 1 if _holds_arrays(kind.element) else 2
        return [_sampled_value(kind.element, name, version, numbers) for _ in range(count)]
    number = next(numbers)
    if isinstance(kind, primitives.Text):
        return f"{name}-{number}"
    if isinstance(kind, primitives.Fixed):
        special = {"?": name != "allow_auto_topic_creation", "16s": bytes(15) + bytes([number])}
        return special.get(kind.letter, number)
    return b"records %d" % number


def _holds_arrays(kind: Kind) -> bool:
    return isinstance(kind, Struct) and any(isinstance(field.kind, ArrayOf) for field in fields_of(kind.cls))


@cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Any message that can be written in `version`: fields it does not have keep their defaults."""
    fields = present_fields(cls, version)
    return st.builds(cls, **{field.name: _values_of_field(field, version) for field in fields})


def _values_of_field(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values(field.kind, version)
    if field.spec.tag is not None and isinstance(field.kind, Struct):
        return st.none() | values
    if field.is_nullable_in(version):
        return st.none() | values
    if field.spec.tag is not None and field.spec.default is not EMPTY:
        return st.just(field.spec.default) | values
    return values


def _values(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Struct):
        return messages(kind.cls, version)
    if isinstance(kind, ArrayOf):
        return st.lists(_values(kind.element, version), max_size=3)
    if isinstance(kind, primitives.Text):
        return st.text(max_size=8) | st.just("x" * 130)
    if isinstance(kind, primitives.Fixed):
        return _fixed(kind)
    return st.binary(max_size=8) | st.just(bytes(20_000))


def _fixed(kind: primitives.Fixed) -> st.SearchStrategy[Any]:
    if kind.letter == "?":
        return st.booleans()
    if kind.letter == "16s":
        return st.binary(min_size=16, max_size=16)
    if kind.letter == "d":
        return st.floats(allow_nan=False)
    half = 1 << NUMBER_BITS[kind.letter] - 1
    return st.integers(-half, half - 1)
