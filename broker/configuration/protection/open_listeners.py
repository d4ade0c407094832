"""Listeners without access control: without TLS, bound beyond this machine, and no authorizer. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config
    from sordini.broker.configuration.listeners import ListenerEndpoint


def open_listeners(config: Config) -> tuple[ListenerEndpoint, ...]:
    """Those of a configuration; none with an authorizer."""
    if config.authorizer_class_name:
        return ()
    without_tls = [one for one in config.endpoints if one.protocol in ("PLAINTEXT", "SASL_PLAINTEXT")]
    return tuple(one for one in without_tls if not is_loopback(one.host))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to a host; of names only `localhost` is known to be so."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
