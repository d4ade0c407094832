"""The ports of replication: the coordination store, channels to other brokers, changes of in-sync sets, clock and log.

The coordination store is ZooKeeper's contract, no more: a tree of small nodes with versions, ephemeral nodes, one-shot
watches, and conditional multi-operation transactions. Brokers agree through it, whether the store is a ZooKeeper
ensemble or a file in the data directory.

Rules that every implementation keeps, checked by one contract suite:
  - the calls of one session take effect in the order in which they were made;
  - results and watch events reach the loop in one order: code that awaits a result directly runs before the watches
    that fired after it, and a session's own change fires its own watch before the change is answered;
  - a watch fires at most once. It is lost when the session is SUSPENDED, so a watcher reads again at the next
    CONNECTED. One callable set twice on one path before it fires is called once;
  - a call of an ended session fails with `SessionExpired`. It is never carried over into another session;
  - after `ConnectionLoss` it is unknown whether the write took effect: read before deciding again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sordini.client import errors
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.client.ports import Rounds
    from sordini.protocol.types import BrokerId, TopicId, TopicPartition
    from sordini.replication.cluster_model import Broker, Command, CommandAnswer
    from sordini.replication.leader import IsrProposal

ANY_VERSION = -1
"""As an expected version: write whatever the version is; in a `Check`: the node only has to exist."""


class Stat(NamedTuple):
    """A node's metadata."""

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


RETRY_DELAY_S = 0.1
"""Between two attempts of a call that fails with `ConnectionLoss`, so that an outage causes no busy loop."""
CONNECT_ATTEMPTS_MIN = 3
"""How many attempts to connect, each without an answer, fit into a session timeout: a session outlasts one or two."""


class CoordinationError(Exception):
    """The store refused or could not answer; `index` says which operation of a `multi` it was."""

    def __init__(self, path: str = "", index: int | None = None) -> None:
        super().__init__(f"{type(self).__name__}: {path}" if path else type(self).__name__)
        self.path = path
        self.index = index


class NoNode(CoordinationError):
    """The node, or the parent of the node to create, does not exist."""


class NodeExists(CoordinationError):
    """The node to create exists."""


class BadVersion(CoordinationError):
    """The node was written since it was read."""


class NotEmpty(CoordinationError):
    """The node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """An ephemeral node cannot be a parent."""


class SessionExpired(CoordinationError):
    """The session is over, with its ephemeral nodes: open a new one."""


class ConnectionLoss(CoordinationError):
    """No response arrived: a write may or may not have taken effect."""


class NotAuthorized(ConnectionLoss):
    """The store refused a call of this login: the znode's access control list does not allow it.

    A running broker repeats the call, as after ConnectionLoss, because an operator may repair the list; a starting one
    refuses the start.
    """

    def __init__(self, path: str = "", index: int | None = None) -> None:
        super().__init__(path, index)
        self.args = (f"NoAuth: the access control list of {path or 'a znode'} does not allow this login",)


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
        """Until when the session certainly lasts, on the monotonic clock, without another response of the store.

        None for a store that expires no sessions.
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
        """Names of a node's children, unordered; the watch fires when a child, or the node, is created or deleted."""

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        """Whether a node exists; the watch fires when it is created, set or deleted."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """One transaction: all operations or none. Raises the first failed one's error, with its `index`."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes are deleted when this returns (or when the store notices)."""


class CoordinationStore(Protocol):
    """Opens sessions."""

    async def open_session(self) -> Session:
        """A connected session. Raises ConnectionLoss when the store cannot be reached in time."""

    async def close(self) -> None: ...


class BrokerChannel(Protocol):
    """How the controller sends commands: one queue per broker, in order, one command in flight.

    A command is retried until the broker answers it or is removed; an unreachable broker does not block the others.
    """

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """The live brokers: the queues of brokers that failed, or registered with a new epoch, are dropped."""

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        """Queue a command; `answered` is called on the loop with the broker's answer, if one arrives."""


Unreachable = errors.Unreachable
"""Another broker cannot be reached: its endpoint is unknown, it does not answer, or the connection broke.

The outcome of the request is unknown.
"""


class BrokerLink(Protocol):
    """A connection to one other broker, with one request in flight. It connects on first use, and again after a
    failure, to the broker's endpoint of that time.
    """

    async def ask(self, request: Any, version: int, timeout_ms: int, rounds: Rounds | None = None) -> Any:
        """Send a request message in exactly this version; returns its response message.

        With `rounds`, these take the responses and send further requests; the response that ends them is returned, or
        None when they took it. A link may also leave all to the caller, who gets the first response then.
        Records in a response are views of the receive buffer, valid as long as they are kept. Raises Unreachable; the
        connection is closed then, and by a cancelled call.
        """

    def close(self) -> None:
        """Close the connection; a call in flight raises Unreachable. The link may be used again."""


class BrokerLinks(Protocol):
    """Opens links to other brokers, on the inter-broker listener."""

    def link(self, broker_id: BrokerId, client_id: str) -> BrokerLink:
        """A link for one caller; never fails, since it connects when it is used."""


class IsrGrant(NamedTuple):
    """The in-sync set in force, by the proposal or already before it."""

    leader_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int


class IsrRefusal(Enum):
    """Why a proposed in-sync set was not adopted."""

    INELIGIBLE = "ineligible"
    """Certainly not carried out: a member may not join now. The leader returns to the set in force."""
    STALE = "stale"
    """Based on an old state. The controller that changed it sends a LeaderAndIsr; until then nothing is known."""


class IsrChanges(Protocol):
    """Changes of in-sync sets: by the controller or, in old protocols, by a conditional write to the store."""

    def propose(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        proposal: IsrProposal,
        answered: Callable[[IsrGrant | IsrRefusal], None],
    ) -> None:
        """Request a change; retried until it is answered. `answered` is called on the loop, once.

        Another proposal for the same partition replaces one that was not answered.
        """

    def withdraw(self, topic_partition: TopicPartition) -> None:
        """The term is over: do not answer. A request in flight may still take effect."""


class Clock(Protocol):
    """Two clocks; `system/clock.py` implements them."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970, for record timestamps and file ages."""

    def monotonic_ms(self) -> int:
        """Milliseconds on a clock that only moves forward, for deadlines and durations."""


class Logger(Protocol):
    """One event, one line, with fields."""

    def debug(self, event: str, **fields: object) -> object: ...

    def info(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...

    def error(self, event: str, **fields: object) -> object: ...


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Schedules a call; takes seconds, as the loop's `call_later` does."""


class Task(Protocol):
    """A running coroutine."""

    def cancel(self) -> bool: ...


Spawn = Callable[[Coroutine[Any, Any, None]], Task]
"""Starts a task and keeps it until it ends; in the broker, its failure is the broker's failure."""
