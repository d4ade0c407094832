"""How the console reaches the cluster: for each visitor with the visitor's own credentials.

The cluster's access control decides what a visitor sees and changes, since the cluster sees the visitor's principal.
With a token instead of users, every visitor is the principal of the console's --command-config.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials
from sordini.client.cluster_core import Access, Login, not_opened
from sordini.client.errors import Disconnected
from sordini.client.security import ClientSecurity
from sordini.client.sockets import connect_with
from sordini.console.security.sessions import Session
from sordini.mirror.cluster import Cluster as MirrorCluster
from sordini.mirror.plan import Access as MirrorAccess

CLIENT_ID: Final = "sordini-console"
MIRRORED: Final = "this cluster"
"""What error texts of a mirror's topics call it."""
ANSWER_S: Final = 10.0
"""For any response; pages that read much have several requests."""
LOGIN_S: Final = 15.0


class ClusterAccess:
    """Makes the clients of sessions."""

    def __init__(self, bootstrap: Iterable[Address], security: ClientSecurity, sasl_mechanism: str | None) -> None:
        """`sasl_mechanism`: by which visitors log in; None: as `security` does."""
        self._bootstrap = tuple(bootstrap)
        self._security = security
        self.sasl_mechanism = sasl_mechanism

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self._bootstrap))

    def of(self, session: Session) -> ClusterClient:
        """The session's client, which is closed with it."""
        for one in session.closables:
            if isinstance(one, ClusterClient):
                return one
        cluster = self.opened(session)
        session.closables.append(cluster)
        return cluster

    def opened(self, session: Session) -> ClusterClient:
        """Another client for the same visitor, for requests that wait; the caller closes it."""
        return self._cluster(session.principal, session.password)

    def of_mirrors(self, session: Session) -> MirrorCluster:
        """A client for the topics of mirrors, for the same visitor; the caller closes it."""
        connect, login = partial(connect_with, self._security.tls), self._login(session.principal, session.password)
        return MirrorCluster(MirrorAccess(MIRRORED, self._bootstrap, connect, login))

    def own(self) -> ClusterClient:
        """One that logs in as the console's own file says; the caller closes it."""
        return self._cluster("", None)

    async def check(self, username: str, password: str) -> None:
        """Log in to the cluster. Raises ClientError, Unauthorized for a name or a password that is refused."""
        try:
            async with asyncio.timeout(LOGIN_S), self._cluster(username, password) as cluster:
                await cluster.metadata([])
        except TimeoutError:
            raise Disconnected(f"the cluster did not answer within {LOGIN_S:g} s") from None

    def _cluster(self, username: str, password: str | None) -> ClusterClient:
        login = self._login(username, password)
        explain = partial(not_opened, protocol=self._security.protocol)
        access = Access(self._bootstrap, CLIENT_ID, login, answer_s=ANSWER_S, explain=explain)
        return ClusterClient(access, partial(connect_with, self._security.tls))

    def _login(self, username: str, password: str | None) -> Login | None:
        if self.sasl_mechanism is None or password is None:
            return self._security.sasl
        credentials = SaslCredentials(self.sasl_mechanism, username, password)
        return lambda: credentials
