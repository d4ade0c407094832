"""What the content of nodes is made of: JSON objects, and values that fit the wire format.

A decoder of `znodes.py` is made tolerant by its decorator: what these raise becomes a `Malformed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed

T = TypeVar("T")
Args = ParamSpec("Args")

TEXT_BYTES_MAX = 2**15 - 1
"""The limit of a string in the oldest Metadata responses."""


def tolerant(path_of: Callable[..., str]) -> Callable[[Callable[Args, T]], Callable[Args, T | Malformed]]:
    """Make a decoder return Malformed, with the node that `path_of` names, instead of raising."""

    def decorate(decode: Callable[Args, T]) -> Callable[Args, T | Malformed]:
        @wraps(decode)
        def decode_tolerantly(*args: Args.args, **kwargs: Args.kwargs) -> T | Malformed:
            try:
                return decode(*args, **kwargs)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                return Malformed(path_of(*args, **kwargs), f"{type(error).__name__}: {error}")

        return decode_tolerantly

    return decorate


def encode_object(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_object(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def whole_number(value: Any) -> int:
    """A number that fits the wire format's 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{value} does not fit in 32 bits")
    return value


def wire_text(value: Any) -> str:
    """Text that fits the wire format."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    if len(value.encode()) > TEXT_BYTES_MAX:
        raise ValueError(f"text of more than {TEXT_BYTES_MAX} bytes")
    return value


def broker_ids(value: Any) -> tuple[BrokerId, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of brokers")
    return tuple(BrokerId(whole_number(broker)) for broker in value)
