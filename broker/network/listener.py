"""One entry of `listeners`, with what its connections are given. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sordini.broker.configuration.address_rules import AddressRule
from sordini.broker.network.ports import Peer, SocketOptions
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.network.tls_handshakes import ServerTls


class Listener(NamedTuple):
    """One entry of `listeners`. An empty host means every address."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"
    options: SocketOptions = SocketOptions()
    is_protected: bool = False
    """The inter-broker listener, when there are others: the broker's bounds do not apply to it, only its own."""
    tls: ServerTls | None = None
    """Of an SSL listener."""
    begin_login: Callable[[Peer], bool] | None = None
    """Of a SASL listener: prepares a new connection for its login; False when it has to be closed."""
    on_tls_refused: Callable[[Peer, str], None] | None = None
    """Of an SSL listener: a handshake was refused, and why."""
    address_rules: tuple[AddressRule, ...] = ()
    """Which of its connections are answered with other addresses of brokers than its own."""
