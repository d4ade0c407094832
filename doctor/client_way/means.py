"""How the examined client connects: its protocol, its login, its time, as `--command-config` gives them."""

from __future__ import annotations

import datetime as dt

from sordini.client.addresses import Address
from sordini.client.cluster import Connect
from sordini.client.cluster_core import Access
from sordini.client.errors import ClientError
from sordini.client.ports import Socket
from sordini.client.security import PLAINTEXT, ClientSecurity
from sordini.client.sockets import connect, start_tls
from sordini.replication.ports import Clock
from sordini.system.named_tuple import NamedTuple

CLIENT_ID = "sordini-doctor"


class Means(NamedTuple):
    """What every step takes."""

    clock: Clock
    security: ClientSecurity = PLAINTEXT
    timeout_s: float = 5.0
    """For each step that waits for a peer."""

    @property
    def protocol(self) -> str:
        return self.security.protocol

    @property
    def has_tls(self) -> bool:
        return self.security.tls is not None

    def access(self, *bootstrap: Address, logs_in: bool = True) -> Access:
        """The client's own access, whose errors are not put into sentences."""
        login = self.security.sasl if logs_in else None
        timeout_s = self.timeout_s
        return Access(
            bootstrap, CLIENT_ID, login, connect_s=timeout_s, answer_s=timeout_s, explain=lambda _, error: error
        )

    def connect_at(self, ip: str) -> Connect:
        """Connects to this address, whatever the name resolves to, with TLS for the name."""

        async def connect_there(address: Address) -> Socket:
            connected = await connect(Address(ip, address.port))
            tls = self.security.tls
            return connected if tls is None else await start_tls(connected, tls, address.host)

        return connect_there

    def now(self) -> dt.datetime:
        """By this machine's clock."""
        return dt.datetime.fromtimestamp(self.clock.now_ms() / 1000, dt.UTC)


def tls_reason(error: ClientError) -> str:
    """The system's reason with which a connection ended after its handshake, in lower case and without its source."""
    return str(getattr(error, "reason", "")).lower().rpartition("] ")[2].partition(" (_")[0]


def sasl_protocol(protocol: str, *, logs_in: bool) -> str:
    """The security protocol with the same TLS, with a login or without."""
    bare = "SSL" if protocol.endswith("SSL") else "PLAINTEXT"
    return f"SASL_{bare}" if logs_in else bare
