"""Whom a quota is for, its keys and values, and where the coordination store has them. Pure.

    /config/users/<user>                     a user, whatever its client id
    /config/users/<user>/clients/<client>    a user with this client id
    /config/clients/<client>                 a client id, whatever its user
    /config/ips/<address>                    an address, whatever its connections' users

`<default>` in the place of a name is for all names without a quota of their own. Names are escaped as Apache Kafka
escapes them. A user's node may hold credentials beside its quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from sordini.system.named_tuple import NamedTuple

DEFAULT: Final = ""
"""In the place of a name: all that have none of their own. No user, client id or address with quotas is empty."""
_DEFAULT_NODE: Final = "<default>"
"""No escaped name is equal to it."""
USERS, CLIENTS, ADDRESSES = "users", "clients", "ips"
PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"
CLIENT_KEYS: Final = (CONSUMER_RATE, MUTATION_RATE, PRODUCER_RATE, REQUEST_PERCENTAGE)
ADDRESS_KEYS: Final = (CONNECTION_RATE,)
QUOTA_KEYS: Final = frozenset((*CLIENT_KEYS, *ADDRESS_KEYS))
WHOLE_KEYS: Final = frozenset({PRODUCER_RATE, CONSUMER_RATE, CONNECTION_RATE})
"""Keys whose values are whole numbers."""
_ROUNDING: Final = 1e-6


class QuotaEntity(NamedTuple):
    """A user, a client id or both, or an address; DEFAULT: all without a quota of their own. None: not a part of it."""

    user: str | None = None
    client: str | None = None
    address: str | None = None

    @property
    def path(self) -> str:
        """The entity as config change notifications name it. There must be a part."""
        if self.address is not None:
            return f"{ADDRESSES}/{_escaped(self.address)}"
        parts = []
        if self.user is not None:
            parts += [USERS, _escaped(self.user)]
        if self.client is not None:
            parts += [CLIENTS, _escaped(self.client)]
        assert parts, "an entity has a part"
        return "/".join(parts)

    @property
    def keys(self) -> tuple[str, ...]:
        """The quotas that it may have."""
        return CLIENT_KEYS if self.address is None else ADDRESS_KEYS


def entity_of(path: str) -> QuotaEntity | None:
    """The entity of a path; None for paths of other kinds."""
    match path.split("/"):
        case [kind, name] if kind == USERS:
            return QuotaEntity(user=_plain(name))
        case [kind, name] if kind == CLIENTS:
            return QuotaEntity(client=_plain(name))
        case [kind, name] if kind == ADDRESSES:
            return QuotaEntity(address=_plain(name))
        case [kind, name, inner, client] if (kind, inner) == (USERS, CLIENTS):
            return QuotaEntity(_plain(name), _plain(client))
    return None


def quotas_of(entity: QuotaEntity, settings: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    """The quotas among an entity's settings, and the keys whose values are no numbers."""
    found: dict[str, float] = {}
    unreadable = []
    for key in entity.keys:
        if key in settings:
            try:
                found[key] = checked_value(key, float(settings[key]))
            except ValueError:
                unreadable.append(key)
    return found, unreadable


def checked_value(key: str, value: float) -> float:
    """A quota's value, rounded where it is a whole number. Raises ValueError with what is allowed."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{key}={value} is not valid: allowed is a number of at least 0")
    if key not in WHOLE_KEYS:
        return value
    whole = int(value + _ROUNDING)
    if abs(whole - value) > _ROUNDING:
        raise ValueError(f"{key}={value} is not valid: allowed is a whole number")
    return float(whole)


def value_text(key: str, value: float) -> str:
    """A value as the store has it."""
    return str(int(value)) if key in WHOLE_KEYS else repr(float(value))


def _escaped(name: str) -> str:
    return quote(name, safe="") or _DEFAULT_NODE


def _plain(name: str) -> str:
    return DEFAULT if name == _DEFAULT_NODE else unquote(name)
