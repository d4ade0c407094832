"""Who may connect and do what: logins, users, and the authorizer of a broker, if one is configured."""

from __future__ import annotations

import os

from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.security.access import Access
from sordini.broker.security.acls.acl_store import AclStore
from sordini.broker.security.acls.authorizer import Authorizer
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.denials import Denials
from sordini.broker.security.audit.login_events import LoginEvents
from sordini.broker.security.sasl.cluster_secret import SECRET_BYTES
from sordini.broker.security.sasl.first_user import FirstUser, make_first_user
from sordini.broker.security.sasl.logins import Logins
from sordini.broker.security.sasl.users import ScramUsers
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.oauthbearer import KeySources
from sordini.broker.wiring.sasl import wire_logins
from sordini.replication.ports import Session
from sordini.system.named_tuple import NamedTuple


class SecurityParts(NamedTuple):
    """Security of one broker, without TLS, which is below the requests."""

    users: ScramUsers
    logins: Logins | None
    """None without a SASL listener."""
    login_events: LoginEvents
    """Of logins by SASL and by TLS."""
    access: Access
    acls: AclStore | None
    """None without an authorizer."""
    audit: AuditLog
    key_sources: KeySources
    """Of OAUTHBEARER."""

    async def start(self, session: Session, first_user: FirstUser | None = None, cluster_id: str = "") -> None:
        """Read users, keys of OAUTHBEARER and access control entries, and follow the changes of these.

        Raises CoordinationError, and StartRefused for a file of keys that cannot be used.
        """
        await self.load_users(session)
        if first_user is not None:
            await make_first_user(first_user, cluster_id, self.users, session)
        await self.key_sources.start()
        if self.acls is not None:
            await self.acls.start()

    async def load_users(self, session: Session) -> None:
        """Read users and, where there are logins, the secret of made-up credentials. Raises CoordinationError."""
        await self.users.load(session)
        if self.logins is not None:
            await self.users.load_secret(session)

    def tick(self, now_ms: int) -> None:
        """Write the counts of log lines that were too many; `now_ms` on the monotonic clock."""
        if self.logins is not None:
            self.logins.tick(now_ms)
        self.audit.tick(now_ms)

    async def stop(self) -> None:
        """Follow no more changes, and write how many audit lines were too many."""
        self.audit.close()
        if self.acls is not None:
            await self.acls.stop()


def wire_security(deps: BrokerDeps, dispatcher: Dispatcher) -> SecurityParts:
    """Build it; nothing is read yet."""
    users = ScramUsers(deps.runtime.log, os.urandom(SECRET_BYTES))
    audit = AuditLog(deps.audit, deps.cluster.identity.broker_id, deps.runtime.clock)
    key_sources = KeySources(deps.fetch_keys, deps.runtime)
    events = LoginEvents(audit, with_successes=deps.config.audit_log_successes)
    logins = wire_logins(deps.dynamic, users, key_sources, dispatcher, deps.runtime, events)
    acls = _wire_acls(deps)
    access = Access() if acls is None else Access(acls.authorizer, Denials(audit))
    return SecurityParts(users, logins, events, access, acls, audit, key_sources)


def _wire_acls(deps: BrokerDeps) -> AclStore | None:
    config, runtime = deps.config, deps.runtime
    if not config.authorizer_class_name:
        return None
    return AclStore(
        deps.cluster.session,
        Authorizer(config.super_user_principals, allow_if_no_entries=config.allow_everyone_if_no_acl_found is True),
        runtime.spawn,
        runtime.clock,
        runtime.log,
        config.zookeeper_session_timeout_ms,
    )
