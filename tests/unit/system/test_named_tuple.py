"""`NamedTuple` of `sordini.system` beside that of `typing`."""

from __future__ import annotations

import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import pytest

from sordini.system.named_tuple import NamedTuple as OwnNamedTuple


class Standard(NamedTuple):
    name: str
    size: int = 3
    parent: Standard | None = None

    def doubled(self) -> int:
        return self.size * 2


class Own(OwnNamedTuple):
    name: str
    size: int = 3
    parent: Own | None = None

    def doubled(self) -> int:
        return self.size * 2


class Empty(OwnNamedTuple):
    pass


class Single(OwnNamedTuple):
    value: int


class Shown(OwnNamedTuple):
    value: int

    def __repr__(self) -> str:
        return "shown"


class Inherited(Own):
    """A class below one with fields has the fields of that."""


CASES: list[Callable[[Any], Any]] = [
    lambda cls: cls("a"),
    lambda cls: cls("a", 4),
    lambda cls: cls(size=5, name="b"),
    lambda cls: cls("a", parent=None),
    lambda cls: cls("a") == cls("a", 3, None),
    lambda cls: cls("a") == ("a", 3, None),
    lambda cls: hash(cls("a")),
    lambda cls: cls("a").size,
    lambda cls: cls("a", 8).doubled(),
    lambda cls: cls("a")._asdict(),
    lambda cls: cls("a")._replace(size=9),
    lambda cls: cls._make(["a", 1, None]),
    lambda cls: cls._fields,
    lambda cls: cls._field_defaults,
    lambda cls: cls.__match_args__,
    lambda cls: cls.__mro__[1:],
    lambda cls: tuple(pickle.loads(pickle.dumps(cls("a", 7)))),
    lambda cls: list(inspect.signature(cls).parameters),
    lambda cls: hasattr(cls("a"), "__dict__"),
    lambda cls: set(get_type_hints(cls)),
]

REFUSED: list[Callable[[Any], Any]] = [
    lambda cls: cls(),
    lambda cls: cls("a", 1, None, 2),
    lambda cls: cls("a", name="b"),
    lambda cls: cls("a", other=1),
    lambda cls: cls._make(["a"]),
    lambda cls: cls("a")._replace(other=1),
    lambda cls: setattr(cls("a"), "name", "b"),
    lambda cls: setattr(cls("a"), "other", "b"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_named_tuple_is_used_like_that_of_typing(case: Callable[[Any], Any]) -> None:
    found, expected = case(Own), case(Standard)
    assert found == expected
    assert repr(found) == repr(expected).replace("Standard", "Own")


@pytest.mark.parametrize("case", REFUSED)
def test_a_named_tuple_refuses_what_that_of_typing_refuses(case: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as expected:
        case(Standard)
    with pytest.raises(expected.type):
        case(Own)


def test_constructors_of_classes_with_as_many_fields_do_not_mix() -> None:
    assert Single(value=1) == (1,)
    assert repr(Shown(2)) == "shown"
    assert Empty() == ()
    with pytest.raises(TypeError, match="value"):
        Single()  # type: ignore[call-arg]


def test_a_class_below_one_with_fields_keeps_them() -> None:
    assert Inherited("a", 2)._replace(size=4) == ("a", 4, None)
    assert type(Inherited("a")._replace(size=4)) is Inherited


def test_a_field_without_a_default_behind_one_with_a_default_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="Wrong"):
        type(OwnNamedTuple)("Wrong", (OwnNamedTuple,), {"__annotations__": {"first": int, "second": int}, "first": 1})


def test_another_base_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(AssertionError, match="another base"):
        type(OwnNamedTuple)("Wrong", (OwnNamedTuple, typing.Generic), {})
