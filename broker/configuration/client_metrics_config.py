"""The configuration of a subscription to metrics of clients (KIP-714): which clients push what, and how often.

    metrics        prefixes of metrics' names; `*` is every metric, none is no metric
    interval.ms    how often a client pushes
    match          which clients: selector=regular expression, and all of them must match; none is every client

Checks, their order and their codes are Apache Kafka 4.4's. A regular expression is one of those that are matched in
linear time (`linear_pattern.py`): what only a backtracking engine does, such as a backreference, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from sordini.broker.configuration.linear_pattern import JAVA, LinearPattern, PatternError
from sordini.broker.configuration.settings import INT32_MAX, ConfigError, ValueKind, ValueRule, integer, names
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.system.named_tuple import NamedTuple

CLIENT_METRICS: Final = "client-metrics/"
"""Where entity paths of subscriptions begin."""
METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
INTERVAL_MS_DEFAULT: Final = 300_000
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
ALL_METRICS: Final = "*"
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
DIALECT: Final = JAVA._replace(characters_max=512, states_max=512)
"""One match visits at most so many states for each character of a text, on the loop."""
PREFIXES_MAX: Final = 256
"""Of one subscription."""


class ClientMetricsSetting(NamedTuple):
    """One key of a subscription."""

    key: str
    rule: ValueRule
    default_text: str
    meaning: str


CLIENT_METRICS_SETTINGS: Final = {
    declared.key: declared
    for declared in (
        ClientMetricsSetting(METRICS, names, "", "The names, or prefixes of names, of the metrics that clients push."),
        ClientMetricsSetting(
            INTERVAL, integer(-(2**31), INT32_MAX), str(INTERVAL_MS_DEFAULT), "How often a client pushes its metrics."
        ),
        ClientMetricsSetting(MATCH, names, "", "Which clients push: selector=regular expression, all must match."),
    )
}


class ClientMetricsConfig(NamedTuple):
    """A subscription as it is in force."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, LinearPattern], ...]
    """Selector and pattern, each selector once."""


def client_metrics_entity(name: str) -> str:
    """A subscription as config change notifications name it; escaped, since its name may be any text."""
    # No node is named `.` or `..`, and `quote` leaves dots as they are.
    return CLIENT_METRICS + (name.replace(".", "%2E") if name in (".", "..") else quote(name, safe=""))


def subscription_of(entity_path: str) -> str:
    """The subscription's name; undoes `client_metrics_entity`."""
    return unquote(entity_path.removeprefix(CLIENT_METRICS))


def read_client_metrics(name: str, settings: Mapping[str, str]) -> ClientMetricsConfig:
    """A subscription of these settings; raises BrokerError INVALID_REQUEST or INVALID_CONFIG."""
    for key in settings:
        if key not in CLIENT_METRICS_SETTINGS:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    metrics, match = _list(METRICS, settings), _list(MATCH, settings)
    interval_ms = _interval_ms(settings.get(INTERVAL))
    if len(metrics) > PREFIXES_MAX:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{METRICS} has {len(metrics)} names: allowed are {PREFIXES_MAX}")
    return ClientMetricsConfig(name, metrics, interval_ms, tuple(_patterns(match).items()))


def _list(key: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    text = settings.get(key, "").strip()
    values = dict.fromkeys(part.strip() for part in text.split(",")) if text else {}
    if "" in values:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"Configuration '{key}' values must not be empty.")
    return tuple(values)


def shown_value(key: str, text: str) -> str:
    """The value of a key as it is described."""
    if kind_of(key) is not ValueKind.LIST:
        return text
    return ",".join(dict.fromkeys(part.strip() for part in text.split(",")))


def _interval_ms(text: str | None) -> int:
    if text is None:
        return INTERVAL_MS_DEFAULT
    try:
        value: int = CLIENT_METRICS_SETTINGS[INTERVAL].rule.read(INTERVAL, text)
    except ConfigError:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Invalid value {text} for configuration {INTERVAL}: Not a number of type INT"
        ) from None
    if not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for {INTERVAL}, interval must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} "
            "(1 hour)",
        )
    return value


def _patterns(match: tuple[str, ...]) -> dict[str, LinearPattern]:
    found = {}
    for text in match:
        parts = text.split("=")
        while parts and not parts[-1]:
            parts.pop()  # As Java splits: `client_id=` has no pattern.
        try:
            selector, pattern = map(str.strip, parts)
            if selector not in SELECTORS:
                raise ValueError(selector)
            found[selector] = LinearPattern(pattern, DIALECT)
        except PatternError as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text} ({error})") from None
        except ValueError:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}") from None
    return found


def kind_of(key: str) -> ValueKind:
    """The type of a key's values."""
    return CLIENT_METRICS_SETTINGS[key].rule.kind
