"""What the keys of SASL mean together: which listeners take which mechanisms, and how this broker logs in to others.

Pure. `Config` checks itself with it, at the start and at each change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.protection.oauthbearer_config import OAUTHBEARER, check_oauthbearer
from sordini.broker.configuration.settings import ConfigError, Password
from sordini.client.jaas import JaasLine, read_jaas
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config

SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class InterBrokerCredentials(NamedTuple):
    """How this broker logs in to others."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"InterBrokerCredentials({self.mechanism}, {self.username})"


def check_sasl(config: Config) -> None:
    """Raise ConfigError for SASL listeners that lack some keys."""
    names = [endpoint.name for endpoint in config.endpoints if endpoint.protocol in SASL_PROTOCOLS]
    for name in names:
        security = config.listener(name)
        if not security.keys.sasl_enabled_mechanisms:
            raise ConfigError(
                f"sasl.enabled.mechanisms='' is not valid for the listener {name}: allowed is at least one mechanism"
            )
        for mechanism in mechanisms_of(security):
            line = jaas_of(security, mechanism)
            if mechanism == "PLAIN" and (line is None or not line.users):
                raise ConfigError(
                    f"the listener {name} takes PLAIN and knows no users; allowed is a line "
                    f'listener.name.{name.lower()}.plain.sasl.jaas.config with user_NAME="PASSWORD"'
                )
            if mechanism == OAUTHBEARER:
                check_oauthbearer(security, config.oauthbearer_allowed_urls)
    own_login(config)


def own_login(config: Config) -> InterBrokerCredentials | None:
    """What this broker logs in with at others. Raises ConfigError where it is needed and missing."""
    name = config.inter_broker_listener
    security = config.listener(name)
    if security.protocol not in SASL_PROTOCOLS:
        return None
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism is None or mechanism not in mechanisms_of(security):
        enabled = security.keys.sasl_enabled_mechanisms
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={mechanism or ''!r} is not valid: allowed is a mechanism of the "
            f"listener {name} ({enabled})"
        )
    line = jaas_of(security, mechanism)
    if line is None or line.username is None or line.password is None:
        raise ConfigError(
            f"this broker has no credentials for other brokers; allowed is a line listener.name.{name.lower()}."
            f"{mechanism.lower()}.sasl.jaas.config with username and password"
        )
    return InterBrokerCredentials(mechanism, line.username, line.password)


def mechanisms_of(security: ListenerSecurity) -> list[str]:
    return [name for name in security.keys.sasl_enabled_mechanisms.split(",") if name]


def jaas_of(security: ListenerSecurity, mechanism: str) -> JaasLine | None:
    """The JAAS line of a listener for a mechanism. Raises ConfigError for one that cannot be read."""
    line: Password | None = security.of_mechanism(mechanism).sasl_jaas_config
    if line is None:
        return None
    key = f"listener.name.{security.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    try:
        return read_jaas(key, line.text, mechanism)
    except ValueError as error:
        raise ConfigError(str(error)) from None
