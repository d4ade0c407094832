"""When the constructor of a declared message is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.protocol.declare import EMPTY, message
from sordini.protocol.primitives import Int32, String


def declared() -> Any:
    @message(versions=range(1), flexible=1)
    class Request:
        name: String = ""
        count: Int32 = 3
        parts: list[Any] = EMPTY

    return Request


def test_the_constructor_is_compiled_for_the_first_object_and_kept() -> None:
    cls = declared()
    before = cls.__init__
    first = cls(name="a")
    kept = cls.__init__
    second = cls(name="a")
    assert before is not kept
    assert cls.__init__ is kept
    assert (first.name, first.count, first.parts) == ("a", 3, [])
    assert first == second
    assert first.parts is not second.parts


def test_the_first_object_may_be_of_a_class_below() -> None:
    cls = declared()
    below = type("Below", (cls,), {"__slots__": ()})
    assert below(count=4).count == 4
    assert "__init__" not in vars(below)
    assert cls(count=5).count == 5


def test_an_unknown_field_is_refused_of_the_first_object_and_of_later_ones() -> None:
    cls = declared()
    for _ in range(2):
        with pytest.raises(TypeError, match="nothing"):
            cls(nothing=1)


def test_constructors_of_two_messages_do_not_mix() -> None:
    first, second = declared(), declared()
    first(name="a")
    assert second(name="b").name == "b"
    assert first.__init__ is not second.__init__
