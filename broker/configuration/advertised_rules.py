"""`sordini.advertised.listeners.rules` as text.

    RULES     = RULE [; RULE ...]                      the first rule that holds decides
    RULE      = NAME://host:port CONDITION ...         all of its conditions must hold
    CONDITION = on=LISTENER                            needed where the broker has several listeners
              | from=NETWORK[,NETWORK ...]             the client's address: 172.18.0.0/16, 10.1.2.3, fd00::/8
              | to=ADDRESS[:PORT][,...]                the address it connected to, of this machine
              | sni=NAME[,NAME ...]                    the TLS server name; *.example.com stands for one label

What a rule means is `broker/configuration/address_rules.py`'s.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final, TypeVar

from sordini.broker.configuration.address_rules import AddressRule, ConnectedAddress, IpNetwork, RuleConditions
from sordini.broker.configuration.listeners import ListenerEndpoint, is_host, read_endpoints
from sordini.broker.configuration.protection.unserved_protection import TLS
from sordini.broker.configuration.settings import ConfigError
from sordini.system.named_tuple import NamedTuple

KEY: Final = "sordini.advertised.listeners.rules"
RULES_MAX: Final = 64
"""Each connection is compared with all of them, and each name is a further endpoint in the cluster's metadata."""

_CONDITIONS: Final = ("on", "from", "to", "sni")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,99}")
_SERVER_NAME: Final = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_])?")

T = TypeVar("T")


class AdvertisedRule(NamedTuple):
    """One rule, the listener whose connections it is for, and this broker's address under its name."""

    endpoint: ListenerEndpoint
    listener: str
    rule: AddressRule


def read_rules(text: str | None, listeners: tuple[ListenerEndpoint, ...]) -> tuple[AdvertisedRule, ...]:
    """Read the rules of a broker with these listeners. Raises ConfigError, which names the rule and what is allowed."""
    entries = [entry.strip() for entry in (text or "").split(";") if entry.strip()]
    if len(entries) > RULES_MAX:
        raise ConfigError(f"{KEY} has {len(entries)} rules: allowed are {RULES_MAX}")
    rules = tuple(_read_rule(number, entry, listeners) for number, entry in enumerate(entries, 1))
    known: dict[str, AdvertisedRule] = {}
    for number, rule in enumerate(rules, 1):
        first = known.setdefault(rule.endpoint.name, rule)
        if (first.endpoint, first.listener) != (rule.endpoint, rule.listener):
            raise _refusal(
                number,
                str(rule.endpoint),
                f"{rule.endpoint.name} is {first.endpoint} on {first.listener} in an earlier rule: allowed is a name "
                "of its own, or the same address and listener",
            )
    return rules


def _read_rule(number: int, entry: str, listeners: tuple[ListenerEndpoint, ...]) -> AdvertisedRule:
    address, *words = entry.split()
    values = _values(number, words)
    listener = _listener(number, values.get("on"), listeners)
    name = address.partition("://")[0].upper()
    if not _NAME.fullmatch(name):
        raise _refusal(number, address, "allowed is NAME://host:port, the name of letters, digits, - and _")
    if name in {known.name for known in listeners}:
        raise _refusal(number, address, f"{name} is a listener: allowed is a name that is not in listeners")
    endpoint = _endpoint(number, address, {name: listener.protocol})
    conditions = RuleConditions(
        _each(number, "from", values, _network),
        _each(number, "to", values, _connected),
        _each(number, "sni", values, _server_name),
    )
    if conditions == RuleConditions():
        raise _refusal(number, entry, "a rule needs from=, to= or sni=; without a condition, use advertised.listeners")
    if conditions.server_names and listener.protocol not in TLS:
        raise _refusal(
            number, f"sni={values['sni']}", f"{listener.name} is {listener.protocol}: allowed on SSL and SASL_SSL"
        )
    return AdvertisedRule(endpoint, listener.name, AddressRule(name, conditions))


def _endpoint(number: int, address: str, protocols: dict[str, str]) -> ListenerEndpoint:
    try:
        (endpoint,) = read_endpoints(KEY, address, protocols)
    except ValueError:  # It is none, or several.
        endpoint = None
    if endpoint is None or not endpoint.port or not is_host(endpoint.host):
        raise _refusal(
            number,
            address,
            "allowed is one NAME://host:port with an address that clients can connect to and a port from 1 to 65535",
        )
    return endpoint


def _values(number: int, words: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not value or name not in _CONDITIONS:
            raise _refusal(number, word, "allowed are on=LISTENER, from=NETWORK, to=ADDRESS and sni=NAME")
        if name in values:
            raise _refusal(number, word, f"{name}= is there twice: allowed is one, with commas between its values")
        values[name] = value
    return values


def _listener(number: int, name: str | None, listeners: tuple[ListenerEndpoint, ...]) -> ListenerEndpoint:
    names = ", ".join(end.name for end in listeners)
    if name is None:
        if len(listeners) > 1:
            raise _refusal(number, "", f"a rule needs on=LISTENER, one of {names}")
        return listeners[0]
    found = next((end for end in listeners if end.name == name.upper()), None)
    if found is None:
        raise _refusal(number, f"on={name}", f"allowed is a name from listeners ({names})")
    return found


def _each(number: int, name: str, values: dict[str, str], read: Callable[[str], T]) -> tuple[T, ...]:
    found = []
    for part in values[name].split(",") if name in values else ():
        try:
            found.append(read(part))
        except ValueError as error:
            raise _refusal(number, f"{name}={part}", str(error)) from None
    return tuple(found)


def _network(text: str) -> IpNetwork:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        try:
            whole = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError("allowed is an address or a network as 172.18.0.0/16 or fd00::/8") from None
        raise ValueError(f"an address within a network: allowed is {whole}, or the address alone") from None


def _connected(text: str) -> ConnectedAddress:
    host, port = text, None
    bracketed = re.fullmatch(r"\[([^]]*)\](?::(\d{1,5}))?", text)
    plain = re.fullmatch(r"([^:]*):(\d{1,5})", text)
    if found := bracketed or plain:
        host, port = found[1], None if found[2] is None else int(found[2])
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or (port is not None and not 0 < port <= 65535):
        raise ValueError("allowed is an address of this machine, as 127.0.0.2, 127.0.0.2:9092, ::1 or [::1]:9092")
    return ConnectedAddress(address, port)


def _server_name(text: str) -> str:
    name = text.lower().rstrip(".")
    if not _SERVER_NAME.fullmatch(name):
        raise ValueError("allowed is a host name, or *. and a host name")
    return name


def _refusal(number: int, entry: str, allowed: str) -> ConfigError:
    shown = f" {entry!r}" if entry else ""
    return ConfigError(f"{KEY}: rule {number}{shown} is not valid: {allowed}")
