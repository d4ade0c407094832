"""Keys of listeners' protection where no listener has such protection: they refuse the start.

`ssl.client.auth=required` on a broker of PLAINTEXT listeners, or `sasl.enabled.mechanisms` without a listener of SASL,
ask for what no client would get. A key with the prefix of a listener is about that listener alone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sordini.broker.configuration.keys.listener_keys import find_listener_key
from sordini.broker.configuration.settings import ConfigError, Password

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config

TLS: Final = frozenset({"SSL", "SASL_SSL"})
SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
_ASKING: Final = {
    "ssl.client.auth": ("ssl_client_auth", "none", "certificates of clients", TLS),
    "sasl.enabled.mechanisms": ("sasl_enabled_mechanisms", "", "authentication by SASL", SASL),
    "sasl.jaas.config": ("sasl_jaas_config", None, "authentication by SASL", SASL),
    "sasl.mechanism.inter.broker.protocol": (
        "sasl_mechanism_inter_broker_protocol",
        None,
        "authentication by SASL",
        SASL,
    ),
    "connections.max.reauth.ms": ("connections_max_reauth_ms", 0, "authentication by SASL", SASL),
}
"""The field of each key, the value that asks for nothing, what others ask for, and of which security protocols."""


def check_served(config: Config) -> None:
    """Raise ConfigError for the first key that asks for protection which no listener that it is about has."""
    for key, name, value, protocols in _values(config):
        _, nothing, what, needed = _ASKING[name]
        if value != nothing and not protocols & needed:
            shown = "(hidden)" if isinstance(value, Password) else repr(value)
            allowed = " or ".join(sorted(needed))
            raise ConfigError(f"{key}={shown} asks for {what}; allowed is that only with a listener of {allowed}")


def _values(config: Config) -> Iterator[tuple[str, str, Any, frozenset[str]]]:
    """Keys as they are given, the keys themselves, their values, and the protocols of the listeners they are about."""
    protocols = {endpoint.name: endpoint.protocol for endpoint in config.endpoints}
    for key, (field, *_) in _ASKING.items():
        yield key, key, getattr(config, field), frozenset(protocols.values())
    for key, value in config.listener_overrides:
        known = find_listener_key(key)
        if known is not None and known.setting.key in _ASKING and known.listener in protocols:
            yield key, known.setting.key, value, frozenset({protocols[known.listener]})
