"""How logins by SASL get into a broker."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.protection.oauthbearer_config import OAUTHBEARER
from sordini.broker.configuration.protection.sasl_config import SASL_PROTOCOLS, jaas_of, mechanisms_of
from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.security.audit.login_events import LoginEvents
from sordini.broker.security.sasl.exchanges import Exchange, PlainExchange, ScramExchange
from sordini.broker.security.sasl.failed_logins import FailedLogins
from sordini.broker.security.sasl.login import LoginDeps, LoginRules
from sordini.broker.security.sasl.logins import Logins
from sordini.broker.security.sasl.users import ScramUsers
from sordini.broker.wiring.deps import Runtime
from sordini.broker.wiring.oauthbearer import KeySources
from sordini.system.named_tuple import NamedTuple

NONCE_BYTES: Final = 24


def wire_logins(
    dynamic: DynamicConfig,
    users: ScramUsers,
    key_sources: KeySources,
    dispatcher: Dispatcher,
    runtime: Runtime,
    events: LoginEvents,
) -> Logins | None:
    """The logins of SASL listeners; None without such a listener. `Config` has checked that the keys go together."""
    config = dynamic.config
    listeners = [endpoint.name for endpoint in config.endpoints if endpoint.protocol in SASL_PROTOCOLS]
    if not listeners:
        return None
    makers = ExchangeMakers(users, key_sources)
    failures = FailedLogins(config.connection_failed_authentication_delay_ms)
    peer_log = PeerLogLimiter(runtime.log, runtime.clock.monotonic_ms())
    deps = LoginDeps(dispatcher, failures, runtime.clock, runtime.call_later, peer_log, events)
    rules: dict[str, LoginRules] = {}

    def read_rules(now: Config) -> None:
        rules.update({name: rules_of(now.listener(name), makers) for name in listeners})

    read_rules(config)
    dynamic.on_change(read_rules)
    return Logins(rules.__getitem__, deps, config.logins_pending_max)


def rules_of(security: ListenerSecurity, makers: ExchangeMakers) -> LoginRules:
    """The rules of one listener."""
    names = mechanisms_of(security)
    return LoginRules(
        {name: makers.maker(name, security) for name in names},
        {name: security.of_mechanism(name).connections_max_reauth_ms for name in names},
        security.keys.sasl_server_max_receive_size,
        security.keys.login_timeout_ms,
    )


class ExchangeMakers(NamedTuple):
    """What the exchanges of all listeners share."""

    users: ScramUsers
    key_sources: KeySources

    def maker(self, mechanism: str, security: ListenerSecurity) -> Callable[[], Exchange]:
        """What makes a new exchange by a mechanism of a listener."""
        if mechanism == OAUTHBEARER:
            from sordini.broker.security.sasl.oauthbearer.exchange import (
                BearerExchange,  # Late: few brokers take tokens.
            )

            return partial(BearerExchange, self.key_sources.verifier(security).accept)
        if mechanism == "PLAIN":
            line = jaas_of(security, mechanism)
            passwords = {} if line is None else line.users
            return partial(PlainExchange, passwords.get)
        return lambda: ScramExchange(mechanism, self.users.answered_with, os.urandom(NONCE_BYTES).hex())
