"""How a property is declared, read and validated: fields of dataclasses, each with the name that the documents give it.

Every error text names the property, the value and what is allowed. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from examples.heritage.errors import ConfigError

INT32_MAX: Final = 2**31 - 1


class Rule(NamedTuple):
    """How the text of a value is read, and a description of the allowed values."""

    allowed: str
    read: Callable[[str], Any]
    """Raises ValueError for what is not allowed."""


def integer(low: int, high: int = INT32_MAX) -> Rule:
    """A whole number within bounds, both included."""

    def read(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return Rule(f"a whole number of at least {low}" if high == INT32_MAX else f"{low} to {high}", read)


def one_of(*words: str) -> Rule:
    """Exactly one of the given words."""
    return Rule(f"one of {', '.join(words)}", {word: word for word in words}.__getitem__)


string: Final = Rule("any text", str)
boolean: Final = Rule("true or false", lambda text: {"true": True, "false": False}[text.lower()])


class Declared(NamedTuple):
    """The name of a property, its rule, and one line of meaning."""

    name: str
    rule: Rule
    meaning: str


def declare(name: str, rule: Rule, default: object, meaning: str) -> Any:
    """A field of a dataclass."""
    return dataclasses.field(default=default, metadata={"declared": Declared(name, rule, meaning)})


class Properties:
    """What configurations have in common; they are dataclasses of such fields."""

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """Read properties, whose values may be text. Raises ConfigError for an unknown name or a wrong value."""
        known = {field.metadata["declared"].name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {}
        for name in sorted(properties):
            if name not in known:
                raise ConfigError(f"{name} is no property of {cls.__name__}; known are {', '.join(sorted(known))}")
            text = str(properties[name])
            rule = known[name].metadata["declared"].rule
            try:
                values[known[name].name] = rule.read(text.strip())
            except (ValueError, KeyError):
                raise ConfigError(f"{name}={text!r} is not valid: allowed is {rule.allowed}") from None
        return cls(**values)
