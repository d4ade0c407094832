"""Requests of one snapshot, each with where it goes; a round of them is sent at once. Pure.

The steps of a snapshot are generators: they yield a round and are resumed with the responses in the same order, where a
request failed with its ClientError. So the asyncio shell and the test kit's blocking one carry out the same steps.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, TypeVar

from sordini.client.errors import ClientError
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

ANY_BROKER: Final = -1


class Ask(NamedTuple):
    """One request."""

    broker: int
    """Its id, or ANY_BROKER."""
    request: Any
    at_least: int = 0
    at_most: int | None = None


Round = Sequence[Ask]
Answers = Sequence[Any]
"""Responses, or a ClientError for a request that failed."""
Rounds = Generator[Round, Answers, T]


def chunks(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """The items in parts of at most `size`."""
    return (items[first : first + size] for first in range(0, len(items), size))


def required(answer: Any) -> Any:
    """A response. Raises the ClientError that came in its place."""
    if isinstance(answer, ClientError):
        raise answer
    return answer
