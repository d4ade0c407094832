"""The keys of SASL: which mechanisms a listener takes, and the bounds of a login."""

# ruff: noqa: RUF009 - a `Password` is not changed, as the values of the other keys.

from __future__ import annotations

import dataclasses
from typing import Final

from sordini.broker.configuration.keys.oauthbearer_keys import OAuthBearerSettings
from sordini.broker.configuration.settings import (
    Change,
    Password,
    integer,
    listener_setting,
    long,
    mechanism_setting,
    one_of,
    password,
    setting,
    some_of,
)

WITH_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""By these a broker logs in to others, too."""
MECHANISMS: Final = (*WITH_PASSWORDS, "OAUTHBEARER")
_ENABLED: Final = some_of(*MECHANISMS)
_OWN: Final = one_of(*WITH_PASSWORDS)
_NO_KERBEROS: Final = "Kerberos (GSSAPI) is not served"


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class SaslSettings(OAuthBearerSettings):
    """Settings of one SASL listener, or of the broker where a listener has none."""

    sasl_enabled_mechanisms: str = listener_setting(
        "sasl.enabled.mechanisms",
        _ENABLED._replace(allowed=f"{_ENABLED.allowed}; {_NO_KERBEROS}"),
        "",
        "The mechanisms that a SASL listener takes; a SASL listener needs at least one.",
        Change.BROKER,
    )
    sasl_jaas_config: Password | None = mechanism_setting(
        "sasl.jaas.config",
        password,
        None,
        "A JAAS line: username and password are this broker's own, each user_NAME a user of PLAIN and its password.",
        Change.BROKER,
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        "sasl.mechanism.inter.broker.protocol",
        _OWN._replace(allowed=f"{_OWN.allowed}; {_NO_KERBEROS}"),
        None,
        "The mechanism by which this broker logs in to others, where their listener is one of SASL.",
        change=Change.BROKER,
    )
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        integer(1),
        524288,
        "Maximum size of a request before the login.",
    )
    connections_max_reauth_ms: int = mechanism_setting(
        "connections.max.reauth.ms",
        long(0),
        0,
        "Lifetime of a SASL session: clients authenticate again, or are disconnected; 0 is no bound (KIP-368).",
    )
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        integer(0),
        100,
        "How long the answer to a failed login waits; doubled with each further failure from the same address.",
    )
    login_timeout_ms: int = setting(
        "sordini.login.timeout.ms",
        integer(1),
        10000,
        "Time within which a new connection of a SASL listener must log in.",
    )
    logins_pending_max: int = setting(
        "sordini.logins.pending.max",
        integer(1),
        1000,
        "Connections that have not logged in yet; further ones are closed.",
    )
