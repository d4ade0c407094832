"""The keys of server.properties that `--secure` sets, and what it refuses. Pure.

What it sets it sets alone. Where the configuration sets the same, the start is refused: otherwise a protection that the
operator relies on would not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.listeners import OPEN_HOSTS, ListenerEndpoint, read_endpoints, read_protocol_map
from sordini.broker.configuration.protection.open_listeners import is_loopback
from sordini.broker.configuration.settings import ConfigError
from sordini.system.named_tuple import NamedTuple

PROTOCOL: Final = "SASL_SSL"
LISTENERS: Final = "SASL_SSL://:9092"
"""Where a secured broker listens, unless it is said."""
MECHANISM: Final = "SCRAM-SHA-256"
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
FIRST_USER: Final = "admin"
NO_TLS: Final = frozenset({"PLAINTEXT", "SASL_PLAINTEXT"})
_OWN: Final = (
    "security.inter.broker.protocol",
    "inter.broker.listener.name",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.jaas.config",
    "authorizer.class.name",
    "allow.everyone.if.no.acl.found",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)
"""Keys that the configuration may not have; neither may a listener have its own."""
_OF_CLUSTERS: Final = (
    "zookeeper.connect={} names a cluster, and --secure makes the certificates of one broker that has none beside it; "
    "docs/security.md says how the brokers of a cluster are set up"
)


class Place(NamedTuple):
    """Where a secured broker listens."""

    listener: str
    """The name of its first listener of SASL_SSL."""
    hosts: tuple[str, ...]
    """The hosts of its listeners and of its advertised addresses, those by rules too; none that means all addresses."""
    advertised: str
    """Host and port for clients."""


def check_secure(entries: Mapping[str, str]) -> None:
    """Refuse what contradicts --secure. Raises ConfigError."""
    for key in sorted(entries):
        name = key.removeprefix("listener.name.").partition(".")[2] if key.startswith("listener.name.") else key
        if name in _OWN or name.endswith(".sasl.jaas.config"):
            raise ConfigError(
                f"{key} is not valid with --secure, which sets it: allowed is one of both; docs/security.md says how a "
                "broker is secured without --secure"
            )
    if entries.get("zookeeper.connect", "").strip():
        raise ConfigError(_OF_CLUSTERS.format(entries["zookeeper.connect"]))
    for endpoint in _listeners(entries):
        if endpoint.protocol in NO_TLS and not is_loopback(endpoint.host):
            raise ConfigError(
                f"listeners={endpoint!s} is not valid with --secure: allowed is {endpoint.protocol} only on addresses "
                f"of this machine, such as 127.0.0.1, and {PROTOCOL} everywhere"
            )


def place_of(entries: Mapping[str, str]) -> Place:
    """Where a broker with these entries listens. Raises ConfigError for none of SASL_SSL, and for wrong values."""
    found = [one for one in _listeners(entries) if one.protocol == PROTOCOL]
    if not found:
        raise ConfigError(
            f"listeners={entries['listeners']!r} is not valid with --secure: allowed is at least one of {PROTOCOL}"
        )
    config = _shape(entries, found[0].name)
    advertised = config.advertised(config.endpoints)
    at = next(one for one in advertised if one.name == found[0].name)
    by_rule = [one.endpoint for one in config.advertised_rules]
    hosts = dict.fromkeys(one.host for one in (*config.endpoints, *advertised, *by_rule) if one.host not in OPEN_HOSTS)
    shown = f"[{at.host}]" if ":" in at.host else at.host
    return Place(found[0].name, tuple(hosts), f"{shown}:{at.port or 'PORT'}")


def secured(entries: Mapping[str, str], listener: str, files: Mapping[str, str], password: str) -> dict[str, str]:
    """The entries with those that secure the broker. `files` has the paths of `broker.pem` and `ca.pem`."""
    users = [name for name in (f"User:{FIRST_USER}", entries.get("super.users", "").strip()) if name]
    return {
        **entries,
        "listeners": entries.get("listeners", LISTENERS),
        "inter.broker.listener.name": listener,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files["broker.pem"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files["ca.pem"],
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.{listener.lower()}.{MECHANISM.lower()}.sasl.jaas.config": jaas_line(password),
        "authorizer.class.name": AUTHORIZER,
        "super.users": ";".join(users),
    }


def jaas_line(password: str) -> str:
    """The line with which the first user logs in."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{FIRST_USER}" password="{password}";'


def _listeners(entries: Mapping[str, str]) -> tuple[ListenerEndpoint, ...]:
    protocols = read_protocol_map(entries.get("listener.security.protocol.map", ""))
    return read_endpoints("listeners", entries.get("listeners", LISTENERS), protocols)


def _shape(entries: Mapping[str, str], listener: str) -> Config:
    """The configuration with the listeners, and without their protection, which is not made yet."""
    names = (
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "sordini.advertised.host",
        "sordini.advertised.listeners.rules",
    )
    known = {key: entries[key] for key in names if key in entries}
    own = {**known, "listeners": entries.get("listeners", LISTENERS), "inter.broker.listener.name": listener}
    # Any mechanism and line that can be read: only the addresses are looked at.
    own |= {"sasl.enabled.mechanisms": MECHANISM, "sasl.mechanism.inter.broker.protocol": MECHANISM}
    own[f"listener.name.{listener.lower()}.{MECHANISM.lower()}.sasl.jaas.config"] = jaas_line("none")
    return build_config(own)[0]
