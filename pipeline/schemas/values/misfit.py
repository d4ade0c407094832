"""A value that does not fit its column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, Self

from sordini.pipeline.schemas.kinds import Enum, Kind, ListOf, MapOf, StructOf, text_of

Reader = Callable[[Any], Any]
"""From a value to that of the column; never called with None. Raises Misfit."""

SYMBOLS_SHOWN_MAX: Final = 10
KEY_CHARACTERS_MAX: Final = 40


class Misfit(Exception):
    """The path and what is wrong there: `lines[3].price is not a decimal(10,2)`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def within(self, step: str) -> Self:
        """The same, of a value around it."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path} {self.problem}".strip()


def misfit(kind: Kind) -> Misfit:
    """The error for a value that is none of a kind."""
    match kind:
        case Enum():
            shown = ", ".join(kind.symbols[:SYMBOLS_SHOWN_MAX])
            return Misfit(f"is none of {shown}{', ...' if len(kind.symbols) > SYMBOLS_SHOWN_MAX else ''}")
        case ListOf(Enum() | ListOf() | MapOf() | StructOf()):
            return Misfit("is not a list")
        case MapOf():
            return Misfit("is not a map")
        case StructOf():
            return Misfit("is not a struct")
        case _:
            text = text_of(kind)
            return Misfit(f"is not {'an' if text[0] in 'aeiou' else 'a'} {text}")


def never(kind: Kind) -> Reader:
    """The reader of a kind, of values none of which fits."""

    def read(value: Any) -> NoReturn:  # noqa: ARG001
        raise misfit(kind)

    return read


def key_step(key: str) -> str:
    """How a map's key stands in a path."""
    return f"[{key[:KEY_CHARACTERS_MAX]!r}]"
