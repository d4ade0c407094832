"""How values become text in a template: escaped, with units, and times that the browser turns into its own zone.

`finalize` sees every value that a template writes: text from the wire cannot control a terminal that it is pasted into,
nor reorder the page by bidirectional marks; markup is escaped by Jinja's autoescape after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup, escape

from sordini.cli.commands.groups.lag_texts import (
    age_text,
    client_lag_text,
    duration_text,
    group_age,
    group_outlook_text,
    number_text,
    rate_text,
    state_text,
)
from sordini.cli.common.output import size_text
from sordini.protocol.printable import shown
from sordini.system.clock import utc_text

UNKNOWN: Final = "\N{EN DASH}"
"""In place of a value that is not known."""
EDITABLE: Final = frozenset("\n\r\t")


def finalize(value: Any) -> Any:
    """What a template writes for a value."""
    if value is None:
        return UNKNOWN
    return shown(value) if type(value) is str else value


def count(number: int | None) -> str:
    """`1 234 567`, in groups of three, apart by narrow spaces that do not break."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def grouped(number: int | None) -> Markup:
    return escape(count(number))


def size(number: int | None) -> Markup:
    """`1.23 MB`; the exact number of bytes is its title."""
    if number is None or number < 0:
        return escape(UNKNOWN)
    return Markup('<span title="{} B">{}</span>').format(count(number), size_text(number))


def when(time_ms: int | None) -> Markup:
    """A time in UTC, which the page's script replaces by the browser's zone; UTC stays its title."""
    if time_ms is None or time_ms < 0:
        return escape(UNKNOWN)
    text = utc_text(time_ms)
    if not text.endswith("Z"):
        return escape(text)
    readable = text.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(text, readable, readable)


def moment(text: str | None) -> Markup:
    """As `when`, of a time in ISO 8601 and UTC."""
    if not text:
        return escape(UNKNOWN)
    readable = text.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(text, readable, readable)


def editable(text: str) -> Markup:
    """A text with its line breaks, for a field or a preformatted block; other control characters are escaped."""
    safe = "".join(letter if letter in EDITABLE else shown(letter) for letter in text)
    return escape(safe)


def path(base: str, **query: Any) -> str:
    """A path with a query; parts that are None are left out. Names of groups may hold anything."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{base}?{urlencode(given, errors='surrogatepass')}" if given else base


def seconds(duration_ms: int | None) -> str:
    return UNKNOWN if duration_ms is None else f"{duration_ms / 1000:.3f} s"


def percent(share: float | None) -> str | None:
    """`12.5 %` of 0.125."""
    return None if share is None else f"{100 * share:.1f} %"


def per_second(rate: float | None) -> str | None:
    """Three digits at least: `0.25`, `1300`."""
    return None if rate is None else number_text(rate)


def lasting(duration_ms: int | None) -> str | None:
    """`3 min 20 s`."""
    return None if duration_ms is None else duration_text(duration_ms / 1000)


def counted(number: int, singular: str, plural: str | None = None) -> Markup:
    """`1 partition`, `2 partitions`."""
    word = singular if number == 1 else plural or f"{singular}s"
    return Markup("{}\N{NO-BREAK SPACE}{}").format(count(number), word)


def groups_path(rows: Iterable[Mapping[str, Any]]) -> str:
    """Where the lags of these groups are."""
    return f"/groups/lags?{urlencode([('group', row['group']) for row in rows], errors='surrogatepass')}"


def combined(fields: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with others in their place."""
    return {**fields, **others}


def decoder_pair(name: str) -> tuple[str, str]:
    """A decoder as forms send it and as they show it."""
    return name, "JSON" if name == "json" else name


FILTERS: Final = {
    "decoder_pair": decoder_pair,
    "grouped": grouped,
    "size": size,
    "when": when,
    "moment": moment,
    "editable": editable,
    "seconds": seconds,
    "combined": combined,
    "counted": counted,
    "age": age_text,
    "client_lag": client_lag_text,
    "lasting": lasting,
    "percent": percent,
    "per_second": per_second,
    "rate": rate_text,
    "partition_outlook": state_text,
    "group_age": group_age,
    "group_outlook": group_outlook_text,
}
