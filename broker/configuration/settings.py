"""How a configuration key is declared, parsed and validated.

A `Setting` has its key, its default, its parser and the allowed values, so that every error text names the key, the
value, and what is allowed.

Keys are fields of dataclasses, one for each group, which `Config` inherits. A dataclass compiles its methods when its
module is imported, at every start: groups that only `Config` uses have none (`init=False, repr=False, eq=False`).
"""

from __future__ import annotations

import dataclasses
import hmac
import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

from sordini.system.named_tuple import NamedTuple

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigError(ValueError):
    """A configuration value that cannot be used; the text names the key, the value and what is allowed."""


class ValueKind(IntEnum):
    """The type codes that DescribeConfigs reports (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Change(Enum):
    """Where a key is changed at run time (KIP-226)."""

    NOWHERE = "no"
    LISTENER = "per listener"
    """As `listener.name.<name>.<key>` of one broker only."""
    BROKER = "one broker"
    """Of one broker, with or without a listener prefix; never as a default of all brokers."""
    ANYWHERE = "yes"


class Prefix(Enum):
    """Whose value a key may have beside the broker's."""

    NONE = "no"
    LISTENER = "listener"
    """`listener.name.<name>.<key>`."""
    MECHANISM = "mechanism"
    """That, and `listener.name.<name>.<mechanism>.<key>` for one SASL mechanism of a listener."""


class Password:
    """A value that is never shown."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Password):
            return False
        own, others = (text.encode(errors="surrogatepass") for text in (self.text, other.text))
        return hmac.compare_digest(own, others)

    def __hash__(self) -> int:
        return hash(self.text)


class ProvidedText(str):
    """A text that came from a config provider: no error and no description shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(hidden)"


class ValueRule(NamedTuple):
    """How the text of a value is parsed, and a description of the allowed values."""

    kind: ValueKind
    allowed: str
    parse: Callable[[str], Any]

    def read(self, key: str, text: str) -> Any:
        """Parse `text`; raises ConfigError, which never contains a password, when it is not allowed."""
        try:
            return self.parse(text.strip())
        except ValueError:
            shown = "(hidden)" if self.kind is ValueKind.PASSWORD else repr(text)
            raise ConfigError(f"{key}={shown} is not valid: allowed is {self.allowed}") from None


def _bounded(
    kind: ValueKind, convert: Callable[[str], Any], noun: str, low: float, high: float, default_high: float
) -> ValueRule:
    def parse(text: str) -> Any:
        if not text.isascii() or "_" in text:
            raise ValueError(text)  # Valid in Python only; other readers of the store could not parse it.
        value = convert(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    words = f"{noun} of at least {low}" if high >= default_high else f"{noun} from {low} to {high}"
    return ValueRule(kind, words, parse)


def integer(low: int = -(2**31), high: int = INT32_MAX) -> ValueRule:
    """A 32-bit whole number within bounds, both included."""
    return _bounded(ValueKind.INT, int, "a whole number", low, high, INT32_MAX)


def short(low: int = -(2**15), high: int = INT16_MAX) -> ValueRule:
    """A 16-bit whole number within bounds, both included."""
    return integer(low, high)._replace(kind=ValueKind.SHORT)


def long(low: int = -(2**63), high: int = INT64_MAX) -> ValueRule:
    """A 64-bit whole number within bounds, both included."""
    return _bounded(ValueKind.LONG, int, "a whole number", low, high, INT64_MAX)


def ratio(low: float = 0.0, high: float = 1.0) -> ValueRule:
    """A decimal number within bounds, both included."""
    return _bounded(ValueKind.DOUBLE, float, "a number", low, high, float("inf"))


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


boolean = ValueRule(ValueKind.BOOLEAN, "true or false", _parse_boolean)
string = ValueRule(ValueKind.STRING, "any text", str)


def one_of(*words: str) -> ValueRule:
    """Exactly one of the given words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return ValueRule(ValueKind.STRING, "one of " + ", ".join(words), parse)


def some_of(*words: str) -> ValueRule:
    """A comma-separated list of the given words, each at most once; none is allowed."""

    def parse(text: str) -> str:
        if not text:
            return ""
        chosen = [part.strip() for part in text.split(",")]
        if len(set(chosen)) != len(chosen) or not set(chosen) <= set(words):
            raise ValueError(text)
        return ",".join(chosen)

    return ValueRule(ValueKind.LIST, "a comma-separated list of " + ", ".join(words), parse)


def _parse_names(text: str) -> str:
    return ",".join(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


password = ValueRule(ValueKind.PASSWORD, "any text", Password)
names = ValueRule(ValueKind.LIST, "a comma-separated list", _parse_names)


def counts_by_address(text: str) -> dict[str, int]:
    """Read `address:count, ...`; raises ValueError when an entry is anything else."""
    import ipaddress  # Late: rarely needed.

    counts: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not (count.isascii() and count.isdigit()):
            raise ValueError(text)
        counts[str(ipaddress.ip_address(host.strip("[]")))] = int(count)
    return counts


def _parse_bounds(text: str) -> str:
    if text:
        counts_by_address(text)
    return text


bounds_by_address = ValueRule(ValueKind.STRING, "address:count, comma-separated", _parse_bounds)


def matching(pattern: str, allowed: str, kind: ValueKind = ValueKind.STRING) -> ValueRule:
    """Text that a pattern matches completely; `allowed` describes the pattern."""

    def parse(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(text)
        return text

    return ValueRule(kind, allowed, parse)


class Setting(NamedTuple):
    """One key of server.properties: its rule, its default as a value, and one line of meaning."""

    key: str
    rule: ValueRule
    default: Any
    meaning: str
    change: Change = Change.NOWHERE
    prefix: Prefix = Prefix.NONE

    @property
    def is_dynamic(self) -> bool:
        """Whether it can be changed while the broker runs, without a listener prefix."""
        return self.change in (Change.ANYWHERE, Change.BROKER)

    @property
    def default_text(self) -> str | None:
        """The default as Apache Kafka's tools print it; None for a key without one."""
        return value_text(self.default)


def value_text(value: Any) -> str | None:
    """A value as text, as in server.properties and DescribeConfigs."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value).replace("e+", "E").replace("e-", "E-")  # As Java writes very large and small numbers.
    return str(value)


def setting(
    key: str,
    rule: ValueRule,
    default: Any,
    meaning: str,
    *,
    dynamic: bool = False,
    change: Change = Change.NOWHERE,
    prefix: Prefix = Prefix.NONE,
) -> Any:
    """Declare a field of a configuration class for `key`; `dynamic` is `change=Change.ANYWHERE`."""
    declared = Setting(key, rule, default, meaning, Change.ANYWHERE if dynamic else change, prefix)
    return dataclasses.field(default=default, metadata={"setting": declared})


def listener_setting(key: str, rule: ValueRule, default: Any, meaning: str, change: Change = Change.LISTENER) -> Any:
    """As `setting`, for a key that a listener may have of its own (`listener.name.<name>.<key>`)."""
    return setting(key, rule, default, meaning, change=change, prefix=Prefix.LISTENER)


def mechanism_setting(key: str, rule: ValueRule, default: Any, meaning: str, change: Change = Change.NOWHERE) -> Any:
    """As `setting`, for a key that a mechanism of a listener may have of its own."""
    return setting(key, rule, default, meaning, change=change, prefix=Prefix.MECHANISM)


def settings_of(cls: type[Any]) -> dict[str, tuple[str, Setting]]:
    """Every key a configuration class declares, with the name of its field."""
    found: dict[str, tuple[str, Setting]] = {}
    for field in dataclasses.fields(cls):
        declared: Setting | None = field.metadata.get("setting")
        if declared is not None:
            found[declared.key] = (field.name, declared)
    return found
