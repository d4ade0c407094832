"""What the cluster needs from the world: the coordination store, a way to command brokers, a clock and a log.

The coordination store is ZooKeeper's contract, no more: a tree of small nodes with versions, nodes that die with
their session, one-shot watches, and several writes at once under conditions. Everything a broker agrees on with
others goes through it, whether the store is a ZooKeeper ensemble or a file in the data directory.

Rules every implementation keeps, and one contract suite proves:
  - the calls of one session take effect in the order in which they were made;
  - results and watch events reach the loop in one order: whoever awaits a result directly runs before the watches
    that fired after it, and a change one makes oneself fires one's own watch before the change is answered;
  - a watch fires at most once. It is lost when the session says SUSPENDED, so whoever watches reads again at the
    next CONNECTED. One callable set twice on one path before it fires is called once;
  - a call of an ended session fails with `SessionExpired`. It is never carried over into another session;
  - after `ConnectionLoss` nobody knows whether the write took effect: read before deciding again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from sordini.protocol.types import BrokerId, TopicId, TopicPartition
    from sordini.replication.cluster_model import Answer, Broker, Command
    from sordini.replication.leader import IsrProposal

ANY_VERSION = -1
"""As an expected version: write whatever the version is; in a `Check`: the node only has to exist."""


class Stat(NamedTuple):
    """What the store knows of a node beside its bytes."""

    czxid: int
    """The transaction that created the node; for /brokers/ids/N this is the broker epoch."""
    mzxid: int
    created_ms: int
    modified_ms: int
    version: int
    """How often the data was set since the node was created."""
    ephemeral_owner: int
    """The session whose end deletes the node, or 0 for a node that stays."""
    children_count: int


class CoordinationError(Exception):
    """The store refused or could not answer; `index` says which operation of a `multi` it was."""

    def __init__(self, path: str = "", index: int | None = None) -> None:
        super().__init__(f"{type(self).__name__}: {path}" if path else type(self).__name__)
        self.path = path
        self.index = index


class NoNode(CoordinationError):
    """The node, or the parent of the node to create, is not there."""


class NodeExists(CoordinationError):
    """The node to create is there already."""


class BadVersion(CoordinationError):
    """The node was written by somebody else since it was read."""


class NotEmpty(CoordinationError):
    """The node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """A node that dies with its session cannot be a parent."""


class SessionExpired(CoordinationError):
    """The session is over, with its ephemeral nodes; only a new one can go on."""


class ConnectionLoss(CoordinationError):
    """The answer did not arrive: a write may or may not have taken effect."""


class StoreUnusable(CoordinationError):
    """The store cannot be opened at all; the message says what and why."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.args = (reason,)


class SessionState(Enum):
    """CONNECTED and SUSPENDED alternate until EXPIRED or CLOSED, which are final."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class WatchKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """What happened, where, and in which session the watch had been set."""

    kind: WatchKind
    path: str
    session_id: int


Watch = Callable[[WatchEvent], None]


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check
OperationResult = str | Stat | None
"""The path for a Create (its number included when sequential), the new Stat for a Set, None otherwise."""


@runtime_checkable
class Session(Protocol):
    """One session with the store. Every method may raise SessionExpired or ConnectionLoss."""

    @property
    def session_id(self) -> int: ...

    @property
    def state(self) -> SessionState: ...

    @property
    def lives_until_ms(self) -> int | None:
        """Until when the session lives for certain, on the monotonic clock, if the store is never heard of again.

        None for a store that ends no session because it is silent.
        """

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        """Call `listener` on the loop at every change of state from now on, in one order with results."""

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Make a node; the path it got. Raises NodeExists, NoNode, NoChildrenForEphemerals.

        A sequential node's name ends in ten digits that count the nodes ever created under its parent. With
        `make_parents` missing parents are made, empty and persistent, and stay even if the node is then refused.
        """

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Read a node; the watch fires when it is set or deleted. Raises NoNode (no watch is left then)."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's bytes. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node without children. Raises NoNode, BadVersion, NotEmpty."""

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        """Names of a node's children, in no order; the watch fires when one comes or goes, or the node goes."""

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        """Look for a node; the watch fires when it is created, set or deleted."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All of it or nothing, as one transaction. Raises the first refusal, its `index` set."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes are gone when this returns (or when the store notices)."""


class CoordinationStore(Protocol):
    """Where sessions come from."""

    async def open_session(self) -> Session:
        """A connected session. Raises ConnectionLoss when the store cannot be reached in time."""

    async def close(self) -> None: ...


class BrokerChannel(Protocol):
    """How the controller commands brokers: one queue per broker, in order, one command in flight.

    A command is repeated until the broker answers it or leaves the set of brokers; another broker's silence never
    holds this one's queue.
    """

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """These and no others are alive: queues of brokers that left, or came again with a new epoch, are dropped."""

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[Answer], None]) -> None:
        """Queue a command; `answered` is called on the loop with the broker's answer, if there ever is one."""


class Unreachable(Exception):
    """Another broker cannot be asked: it is not known where it is, it does not answer, or the connection broke.

    Whether the request was carried out is not known.
    """


class BrokerLink(Protocol):
    """A way to ask one other broker, one request after another. It connects when it is first used, and again after a
    failure, wherever the broker is by then.
    """

    async def ask(self, request: Any, version: int, timeout_ms: int) -> Any:
        """Send a request message in this version, and no other; its response message.

        Records in a response are views of the receive buffer, valid for as long as they are kept. Raises Unreachable;
        the connection is closed then, and by a cancelled call.
        """

    def close(self) -> None:
        """Close the connection; a call under way raises Unreachable. The link may be used again."""


class Links(Protocol):
    """Where links to other brokers come from: on the listener that brokers use among themselves."""

    def link(self, broker_id: BrokerId, client_id: str) -> BrokerLink:
        """A link of the caller's own; never fails, since it connects when it is used."""


class IsrGrant(NamedTuple):
    """An in-sync set as it is now, by a proposal or found to be so already."""

    leader_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int


class IsrRefusal(Enum):
    """Why a proposed in-sync set never will be."""

    INELIGIBLE = "ineligible"
    """It was certainly not carried out: a member may not join now. The leader goes back to what was."""
    STALE = "stale"
    """It was made on a state that is gone. Whoever changed it sends a LeaderAndIsr: until then nothing is known."""


class IsrChanges(Protocol):
    """Who grants changes of in-sync sets: the controller or, for old protocols, a conditional write to the store."""

    def propose(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        proposal: IsrProposal,
        answered: Callable[[IsrGrant | IsrRefusal], None],
    ) -> None:
        """Ask for a change; repeated until there is an answer, which `answered` gets on the loop, once.

        Another proposal for the same partition takes the place of one that was not answered.
        """

    def withdraw(self, topic_partition: TopicPartition) -> None:
        """The term is over: nobody waits for an answer. What is under way may still take effect."""


class Clock(Protocol):
    """The two clocks of broker/clock.py, as this layer may ask for them."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Log(Protocol):
    """One event, one line, with fields: what structlog's bound loggers offer."""

    def info(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...

    def error(self, event: str, **fields: object) -> object: ...
