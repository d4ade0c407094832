"""One partition of a coordinator's internal topic, for as long as this broker leads it.

A `Shard` is what every coordinator needs of a partition: the journal, the deadlines, and the requests that wait while
the partition is loaded. What the coordinator keeps in it is its state, which fulfils `ShardState`. Groups are one
coordinator.

    became leader -> replay(key, value)... -> replay_open(...)... -> finish_replay
                  -> the records are committed -> on_loaded
                  -> requests, tick(key), expire(key)...    -> resigned -> unload
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from sordini.broker.coordinators.deadline_timer import DeadlineTimer
from sordini.broker.coordinators.journal import Journal, OnDone
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.purgatory import LoadPurgatory
from sordini.protocol.errors import ErrorCode
from sordini.replication.partition import Partition
from sordini.system.named_tuple import NamedTuple


class ShardState(Protocol):
    """What a coordinator keeps of one partition, by key (a group id, a transactional id)."""

    def replay(self, key: bytes, value: bytes) -> str | None:
        """Load the last record of a key; a key whose last record is a tombstone is not replayed.

        Returns why the record is skipped, or None.
        """

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        """Load a record of a transaction without a marker, in the order of the log; returns as `replay`.

        None is for a value that a later committed one of its key has superseded.
        """

    def finish_replay(self) -> Iterator[None]:
        """All records are replayed: derive the state from them. Yields after each bounded piece of work."""

    def on_loaded(self, records: int, took_ms: int) -> None:
        """Requests are served from now on. Sessions start here: clients could not send heartbeats before."""

    def known_keys(self) -> Iterable[str]:
        """The keys that have any state."""

    def tick(self, key: str, late_ms: int) -> None:
        """A deadline of the key has passed, `late_ms` ago (see `Shard.schedule`)."""

    def expire(self, key: str) -> None:
        """Write tombstones for what the key has kept for the whole retention time."""

    def unload(self) -> None:
        """The leadership ended: answer pending requests NOT_COORDINATOR, and release all resources."""


S = TypeVar("S", bound=ShardState)


class ShardSettings(NamedTuple):
    """The settings of a coordinator that its shards have in common."""

    compression_codec: int
    commit_timeout_ms: int
    """Limits the wait for the commit of a batch, and for the loading."""
    load_slice_bytes: int
    expiry_interval_ms: int


class Shard(Generic[S]):
    """A partition, and the coordinator's state of it."""

    def __init__(
        self,
        partition: Partition,
        settings: ShardSettings,
        ports: Ports,
        timer: DeadlineTimer[tuple[int, str]],
        new_state: Callable[[Shard[S]], S],
    ) -> None:
        self.partition = partition
        self.index = partition.name.partition
        self.leader_epoch = partition.leader_epoch
        """The newest one for which the state is in force."""
        self.is_loading = True
        self.journal = Journal(
            partition, ports, codec=settings.compression_codec, timeout_ms=settings.commit_timeout_ms
        )
        self._purgatory = LoadPurgatory(ports.call_later, settings.commit_timeout_ms)
        self._timer = timer
        self.state = new_state(self)

    def schedule(self, key: str, due_ms: int) -> None:
        """Call the state's `tick` at `due_ms` (monotonic) at the latest; earlier calls are possible."""
        self._timer.schedule((self.index, key), due_ms)

    def unschedule(self, key: str) -> None:
        self._timer.cancel((self.index, key))

    def wait_until_loaded(self, on_loaded: Callable[[], None], on_error: OnDone) -> None:
        """Call one of the two, once. The errors are COORDINATOR_LOAD_IN_PROGRESS (timeout) and NOT_COORDINATOR."""
        self._purgatory.add(on_loaded, on_error)

    def loaded(self) -> None:
        """The state is complete and committed."""
        self.is_loading = False
        self._purgatory.complete()

    def close(self) -> None:
        """The leadership ended: all pending requests are answered NOT_COORDINATOR."""
        self.state.unload()
        self.journal.close()
        self._purgatory.fail(ErrorCode.NOT_COORDINATOR)
