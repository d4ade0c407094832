"""A cluster as a client has it: how it is reached, how a connection begins, and which broker is where. Pure.

The client has three layers, and two shells that carry the same deciders out:

    ClientConnection (connection.py)      requests to bytes, bytes to responses; one connection, no I/O
    open_session, ClusterMap (here),      negotiation and login as steps; addresses and leaders; what is temporary
      RetryRules (retries.py)
    asyncio:  PipelinedConnection  ->  Link      ->  Cluster    (pipelined_connection.py, cluster.py)
    blocking: BlockingConnection   ->  OpenLink  ->  LinkPool   (blocking.py, blocking_link.py, link_pool.py)

`Access` says how a cluster is reached; the shell has the socket, the clock and randomness. An opened `Link` sends a
request in the newest version that both sides know. `Cluster` shares one link for each address and purpose, since
requests are pipelined; `LinkPool` lends each link to one borrower, since a thread waits for its response. Both look
leaders and coordinators up by `routing`, and repeat an attempt by `RetryRules`: each attempt looks up again.

Errors are those of `errors.py`, whose text is for the user. `AsyncConnection`, with one request in flight and a timer
for it, stands beside this: brokers use it among themselves, in fixed versions. It shares `open_session` and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials, authenticate
from sordini.client.errors import (
    ClientError,
    Disconnected,
    InvalidResponse,
    NotABroker,
    Unauthorized,
    Unreachable,
    reason_of,
)
from sordini.client.routing import PartitionLeader, broker_addresses, is_recreated, newer_leaders, partition_leaders
from sordini.client.versions import ServedVersions, Steps, negotiate
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition
from sordini.system.named_tuple import NamedTuple

FIRST_RESPONSES_BYTES_MAX: Final = 1024 * 1024
"""The limit until a session is open, whose responses are short: the first bytes of some protocols read as a length that
is below the other limit."""
SESSION_PART: Final = 0.85
"""Of the lifetime of a login; then a new connection is made instead of authenticating again (KIP-368)."""
NO_EPOCH: Final = -1
NO_LEADER: Final = PartitionLeader(-1, NO_EPOCH)

Login = Callable[[], SaslCredentials]
"""What to log in with, read for each connection; raises OSError and ValueError, for a token that cannot be read."""
Explain = Callable[[Address, ClientError], ClientError]
"""The error for the user, for one that ended the negotiation or the login on a new connection."""


def not_opened(address: Address, error: ClientError, protocol: str = "PLAINTEXT") -> ClientError:
    """Why a connection could be made and no session begun on it; `protocol` is the security protocol."""
    if isinstance(error, Disconnected) and "ssl" in error.reason:
        # An alert: of TLS 1.3 a client learns after its handshake that its certificate is refused.
        return Unreachable(f"{address} accepts connections and ends TLS: {error.reason}")
    if not isinstance(error, Unreachable):
        return error
    words = "plaintext" if protocol == "PLAINTEXT" else protocol
    kind = NotABroker if isinstance(error, InvalidResponse) else Unreachable
    return kind(
        f"{address} accepts connections and does not answer as a broker does: is this a {words} Kafka listener?"
    )


class Access(NamedTuple):
    """How a cluster is reached, and what applies to each connection."""

    bootstrap: tuple[Address, ...]
    client_id: str
    login: Login | None = None
    name: str = ""
    """The cluster's name in error texts, for clients of several."""
    connect_s: float = 10.0
    """For connecting, and again for negotiation and login."""
    answer_s: float | None = None
    """For any response; None where the caller bounds the time."""
    response_bytes_max: int = 256 * 1024 * 1024
    """A length beyond this is no response of a broker but the first bytes of another protocol."""
    explain: Explain = not_opened
    """Programs put the names of their own settings into the texts."""


class Session(NamedTuple):
    """What the first exchanges on a connection found out."""

    versions: ServedVersions
    lifetime_s: float
    """For how long the connection is used; infinite without a login that ends."""


def open_session(broker: str, login: Login | None, nonce: str) -> Steps[Session]:
    """Negotiate versions and log in. `nonce` is fresh random text; `broker` is its name in error texts.

    Raises NotServed and Unauthorized.
    """
    versions = yield from negotiate(broker)
    lifetime_ms = 0
    if login is not None:
        try:
            credentials = login()
        except (OSError, ValueError) as error:
            raise Unauthorized(f"no token to log in with: {error}") from None
        lifetime_ms = yield from authenticate(credentials, versions, broker, nonce)
    return Session(versions, lifetime_ms / 1000 * SESSION_PART if lifetime_ms > 0 else float("inf"))


def cannot_reach(address: Address, error: OSError | UnicodeError, seconds: float) -> Unreachable:
    """Why an address could not be connected to within `seconds`."""
    if isinstance(error, TimeoutError):
        reason = f"no answer within {seconds:g} s"
    elif isinstance(error, UnicodeError):  # Of the codec for host names: an empty or a long label, or no text at all.
        reason = f"{address.host!a} is no host name"
    else:
        reason = reason_of(error)
    return Unreachable(f"cannot reach {address}: {reason}")


def no_broker(problems: Sequence[Unreachable]) -> Unreachable:
    """The error when no address has a broker: a later attempt may succeed unless none has one for us."""
    text = "; ".join(map(str, problems))
    is_final = problems and all(isinstance(problem, NotABroker) for problem in problems)
    return (NotABroker if is_final else Unreachable)(text)


class _Topic(NamedTuple):
    """The leaders of a topic's partitions, and its id; zeros where the cluster reports none."""

    topic_id: bytes
    leaders: dict[int, PartitionLeader]


def _newest(known: _Topic | None, row: MetadataResponseTopic) -> _Topic:
    """What is known of a topic after a response, which may be older than an earlier one of another broker."""
    found = partition_leaders(row)
    if known is None or is_recreated(known.topic_id, row.topic_id):
        return _Topic(row.topic_id, found)
    if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # A broker that has just started knows no topic yet. But if this one was deleted, its epochs begin again.
        outdated = {number: leader._replace(epoch=NO_EPOCH) for number, leader in known.leaders.items()}
        return _Topic(NO_TOPIC_ID, outdated)
    topic_id = known.topic_id if row.topic_id == NO_TOPIC_ID else row.topic_id
    return _Topic(topic_id, known.leaders | newer_leaders(known.leaders, found))


class ClusterMap:
    """The brokers of a cluster and the leaders of partitions, as the newest metadata has them."""

    def __init__(self, bootstrap: Iterable[Address]) -> None:
        self._bootstrap = tuple(bootstrap)
        self.addresses: dict[int, Address] = {}
        """The live brokers, by their ids."""
        self._topics: dict[str, _Topic] = {}

    def learn(self, response: MetadataResponse) -> None:
        """Its brokers are the live ones from now on, and its leaders lead, unless newer ones are known."""
        self.addresses = broker_addresses(response)
        for topic in response.topics:
            name = topic.name or ""
            self._topics[name] = _newest(self._topics.get(name), topic)

    def forget(self) -> None:
        """The brokers may have moved: begin at the bootstrap addresses. Leaders stay until the next metadata."""
        self.addresses = {}

    def candidates(self) -> list[Address]:
        """Where any broker may be: those that are known, then the bootstrap addresses."""
        return list(dict.fromkeys((*self.addresses.values(), *self._bootstrap)))

    def leader(self, partition: TopicPartition) -> PartitionLeader:
        """A partition's leader; NO_LEADER where none is known."""
        topic = self._topics.get(partition.topic)
        return NO_LEADER if topic is None else topic.leaders.get(partition.partition, NO_LEADER)
