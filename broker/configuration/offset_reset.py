"""Where a share group begins to read a partition: `share.auto.offset.reset`, as Apache Kafka 4.4 reads it.

latest | earliest | by_duration:<ISO 8601 duration of days, hours, minutes and seconds, e.g. P1DT2H or PT0.5S>
"""

from __future__ import annotations

import re
from typing import Final

from sordini.broker.configuration.settings import INT64_MAX, ValueKind, ValueRule
from sordini.system.named_tuple import NamedTuple

_BY_DURATION: Final = "by_duration:"
# Java's Duration.parse; the seconds' fraction has their sign.
_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]{1,19})D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?[0-9]{1,19})H)?(?:(?P<minutes>[-+]?[0-9]{1,19})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,19})(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNIT_NANOS: Final = {
    "days": 86_400_000_000_000,
    "hours": 3_600_000_000_000,
    "minutes": 60_000_000_000,
    "seconds": 1_000_000_000,
}


class OffsetReset(NamedTuple):
    """`latest` without a time: the log end. Otherwise the first record that is not older than `age_ms`."""

    strategy: str
    age_ms: int | None = None
    """Of by_duration only."""

    @property
    def is_earliest(self) -> bool:
        return self.strategy == "earliest"

    @property
    def is_latest(self) -> bool:
        return self.strategy == "latest"


LATEST: Final = OffsetReset("latest")
EARLIEST: Final = OffsetReset("earliest")


def read_offset_reset(text: str) -> OffsetReset:
    """Raises ValueError for what is none of the three."""
    if text in ("latest", "earliest"):
        return OffsetReset(text)
    if not text.startswith(_BY_DURATION):
        raise ValueError(text)
    return OffsetReset("by_duration", _duration_ms(text.removeprefix(_BY_DURATION)))


def _checked(text: str) -> str:
    read_offset_reset(text)
    return text


offset_reset = ValueRule(
    ValueKind.STRING, "latest, earliest, or by_duration: and a duration, such as by_duration:PT1H", _checked
)
"""The rule of the key; its value is the text."""


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[unit] for unit in _UNIT_NANOS):
        raise ValueError(text)
    nanos = sum(int(found[unit] or 0) * length for unit, length in _UNIT_NANOS.items())
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    nanos += -fraction if (found["seconds"] or "").startswith("-") else fraction
    if found["sign"] == "-":
        nanos = -nanos
    if nanos < 0 or nanos // 1_000_000_000 > INT64_MAX:
        raise ValueError(text)
    return nanos // 1_000_000
