"""Types of command line arguments: durations, times, partitions, settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import click

from sordini.admin.selections import PartitionSelection
from sordini.system.clock import SystemClock, utc_ms

T = TypeVar("T")
StartPosition = tuple[str, int]
"""The start of reading: ("beginning", 0), ("end", 0), ("offset", N), ("last", N) or ("time", ms)."""

_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_PLAIN: Final = re.compile(r"(?:\d+(?:ms|s|m|h|d|w))+")
_PLAIN_PART: Final = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_ISO: Final = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?", re.IGNORECASE
)


def parse_duration_ms(text: str) -> int:
    """Read `90s`, `1h30m`, `2d` or ISO 8601's `PT1H30M`. Raises ValueError."""
    if _PLAIN.fullmatch(text):
        return sum(int(count) * _UNITS_MS[unit] for count, unit in _PLAIN_PART.findall(text))
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is not a duration such as 90s, 1h30m, 2d or PT1H30M")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:5])
    parts = zip((weeks, days, hours, minutes, seconds), ("w", "d", "h", "m", "s"), strict=True)
    return sum(count * _UNITS_MS[unit] for count, unit in parts) + int((found[6] or "0").ljust(3, "0"))


def parse_topic_partitions(text: str) -> PartitionSelection:
    """Read `TOPIC` (all its partitions: None) or `TOPIC:0,2-4`. Raises ValueError."""
    topic, colon, listed = text.partition(":")
    if not topic:
        raise ValueError(f"{text!r} names no topic")
    return topic, parse_numbers(listed) if colon else None


def parse_numbers(text: str) -> tuple[int, ...]:
    """Read `0,2-4` as (0, 2, 3, 4): sorted, each once. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip(), re.ASCII)
        if match is None:
            raise ValueError(f"{text!r} is not a list of numbers such as 0,2-4")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"the range {part!r} ends before it begins")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_setting(text: str) -> tuple[str, str, str]:
    """Read `KEY=VALUE`, `KEY+=VALUE` (append) or `KEY-=VALUE` (subtract): (key, "", "+" or "-", value)."""
    key, equals, value = text.partition("=")
    sign = key[-1:] if key[-1:] in ("+", "-") else ""
    key = key.removesuffix(sign).strip()
    if not equals or not key:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key, sign, value


def parse_start(text: str) -> StartPosition:
    """Read `beginning`, `end`, an offset, `-10` (the last ten), a time, or how long ago. Raises ValueError."""
    if text in {"beginning", "earliest"}:
        return ("beginning", 0)
    if text in {"end", "latest"}:
        return ("end", 0)
    if re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
        number = int(text)
        return ("last", -number) if text.startswith("-") else ("offset", number)
    try:
        if text[:1].isdigit() and "-" in text:
            return ("time", utc_ms(text))
        return ("time", SystemClock().now_ms() - parse_duration_ms(text))
    except ValueError:
        raise ValueError(f"{text!r} is not beginning, end, an offset, a time or a duration") from None


def parse_instant(text: str) -> int:
    """Read an ISO 8601 time, UTC where it names no zone, or milliseconds since 1970: as these. Raises ValueError."""
    if re.fullmatch(r"\d{9,15}", text, re.ASCII):  # Eight digits are a date.
        return int(text)
    try:
        return utc_ms(text)
    except ValueError as error:
        raise ValueError(f"{error}, or milliseconds since 1970 such as 1795286459500") from None


def parse_since(text: str) -> int:
    """Read a time as `parse_instant`, or how long ago: 90s, 1h30m. Raises ValueError."""
    with suppress(ValueError):
        return parse_instant(text)
    try:
        return SystemClock().now_ms() - parse_duration_ms(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a time such as 2026-11-21T18:30 nor a duration such as 15m") from None


def _click_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser as the type of a click option: its ValueError becomes click's BadParameter."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


DURATION: Final = _click_type(parse_duration_ms)
NUMBERS: Final = _click_type(parse_numbers)
INSTANT: Final = _click_type(parse_instant)
PARTITIONS: Final = _click_type(parse_topic_partitions)
SETTING: Final = _click_type(parse_setting)
SINCE: Final = _click_type(parse_since)
START: Final = _click_type(parse_start)


def partitions_option(
    help_text: str, *, required: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --topic TOPIC[:PARTITIONS], as `wanted`; `help_text` is without that it can be repeated."""
    return click.option(
        "--topic",
        "-t",
        "wanted",
        metavar="TOPIC[:PARTITIONS]",
        type=PARTITIONS,
        multiple=True,
        required=required,
        help=f"{help_text} Can be repeated.",
    )
