"""What brokers do with a request: the transaction coordinator, the group coordinator and the leaders of partitions.

`NewestConnections` is the product's. The rest is Apache Kafka's protocol below KIP-890 part 2: the epoch stays the same
from one transaction to the next. A question of a leader or a group coordinator to the transaction coordinator (KIP-890
part 1) and the append that follows are one step.

Rules that are wrong on purpose are subclasses (`variants.py`, `planted_bugs.py`).
"""

from __future__ import annotations

from sordini.broker.coordinators.newest_connection import NewestConnections
from tests.model.transactions.scopes import Scope
from tests.model.transactions.state import (
    ABORT,
    ABORTED,
    COMMIT,
    COMMITTED,
    COMPLETE,
    EMPTY,
    END,
    GROUP,
    INIT,
    MARKER,
    NONE,
    OFFSETS,
    ONGOING,
    OPEN,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TO_COORDINATOR,
    TWICE,
    UNWRITTEN,
    Entry,
    Line,
    Marker,
    Memory,
    Offsets,
    Partition,
    Request,
    Shared,
    replaced,
)

OK, AGAIN, CLOSED, FATAL = "OK", "to be sent again", "the connection is closed", "refused"
"""Replies: served; a retriable error; none, the connection is closed; an error that ends the producer."""

KEY = "id"
Served = tuple[Line, str]


class Rules:
    """The product's rules."""

    connections_type: type[NewestConnections] = NewestConnections

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.offsets_bit = 1 << scope.partitions

    # The newest connection.

    def guards(self, request: Request) -> bool:
        """Whether the rule applies to this kind of request."""
        return True

    def admit(self, memory: Memory, connection: int, *, is_init: bool = False) -> Memory | None:
        """The memory after this request is admitted; None if it is not."""
        newest = self.connections_type(memory.floor)
        if memory.newest != NONE:
            newest.admit(KEY, memory.newest, is_init=True)
        return Memory(connection, memory.floor) if newest.admit(KEY, connection, is_init=is_init) else None

    def unloaded(self, memory: Memory, accepted: int) -> Memory:
        """At the broker that is not the coordinator any more."""
        return Memory(NONE, 0)

    def loaded(self, memory: Memory, accepted: int) -> Memory:
        """At the broker that is coordinator now; `accepted` is its count of connections."""
        return Memory(NONE, accepted)

    def aborted(self, memory: Memory, accepted: int) -> Memory:
        """At the group coordinator, when an abort marker is in the partition of the offsets.

        A client that gave up a TxnOffsetCommit did not send it again on another connection, so nothing newer is
        remembered: all connections of that moment count as older.
        """
        return self.admit(memory, accepted) or memory

    def _admitted(self, line: Line, request: Request, *, is_init: bool = False) -> Line | None:
        if not self.guards(request):
            return line
        memory = self.admit(line.memories[request.broker], request.connection, is_init=is_init)
        return memory and line._replace(memories=replaced(line.memories, request.broker, memory))

    # Requests.

    def serve(self, line: Line, shared: Shared, request: Request) -> Served:
        if request.kind in TO_COORDINATOR:
            if request.broker != shared.coordinator:
                return line, AGAIN
            return self._inits(line, request) if request.kind == INIT else self._coordinates(line, request)
        return self._commits_offsets(line, request) if request.kind == OFFSETS else self._appends(line, request)

    def is_fenced(self, epoch: int, known: int) -> bool:
        """Whether the coordinator refuses a request of this producer epoch."""
        return epoch != known

    def _inits(self, line: Line, request: Request) -> Served:
        entry = line.entry
        if request.epoch not in (NONE, entry.epoch, entry.last):
            return line, FATAL
        if entry.state in PREPARED:
            return line, AGAIN
        if request.epoch not in (NONE, entry.epoch):
            admitted = self._admitted(line, request)  # The retry of KIP-360: the epoch is given already.
            return (admitted, OK) if admitted else (line, CLOSED)
        line = self._admitted(line, request, is_init=True) or line
        entry = entry._replace(epoch=entry.epoch + 1, last=request.epoch)
        if entry.state == ONGOING:
            return line._replace(entry=_prepared(entry, PREPARE_ABORT, NONE)), AGAIN
        return line._replace(entry=entry._replace(state=EMPTY, partitions=0, tag=NONE)), OK

    def _coordinates(self, line: Line, request: Request) -> Served:
        if self.is_fenced(request.epoch, line.entry.epoch):
            return line, FATAL
        admitted = self._admitted(line, request)
        if admitted is None:
            return line, CLOSED
        entry = line.entry
        if request.kind == END:
            after, reply = self._ended(entry, request)
        elif entry.state in PREPARED:
            return admitted, AGAIN
        else:
            begun = entry if entry.state == ONGOING else entry._replace(state=ONGOING, partitions=0, tag=request.tag)
            after = begun._replace(partitions=begun.partitions | 1 << request.partition)
            reply = OK
        return admitted._replace(entry=after), reply

    def _ended(self, entry: Entry, request: Request) -> tuple[Entry, str]:
        state = PREPARE_COMMIT if request.outcome == COMMIT else PREPARE_ABORT
        if entry.state == ONGOING:
            return _prepared(entry, state, request.tag), OK
        if entry.state == state:
            return entry, AGAIN
        return entry, OK if entry.state == COMPLETE[state] else FATAL

    def verify(self, line: Line, request: Request) -> str:
        """The coordinator's word on the first write of a transaction to a partition (KIP-890 part 1)."""
        entry = line.entry
        if request.epoch != entry.epoch:
            return FATAL
        if entry.state in PREPARED:
            return AGAIN
        return OK if entry.state == ONGOING and entry.partitions >> request.partition & 1 else FATAL

    def _commits_offsets(self, line: Line, request: Request) -> Served:
        offsets = line.offsets
        known = offsets.partition.epoch
        if request.epoch < known:
            return line, FATAL
        if request.epoch > known:  # The key of the memory is the producer id and epoch.
            forgotten = line.memories[GROUP]._replace(newest=NONE)
            line = line._replace(memories=replaced(line.memories, GROUP, forgotten))
        admitted = self._admitted(line, request)
        if admitted is None:
            return line, CLOSED
        partition = offsets.partition._replace(epoch=request.epoch)
        reply = OK if any(tag != NONE for tag in offsets.pending) else self.verify(line, request)
        if reply != OK:
            return admitted._replace(offsets=offsets._replace(partition=partition)), reply
        key = request.tag % self.scope.transactions % self.scope.offset_keys
        pending = replaced(offsets.pending, key, request.tag)
        return admitted._replace(offsets=offsets._replace(partition=partition, pending=pending)), OK

    def is_seen(self, sequence: int, following: int) -> bool:
        """Whether a batch was appended before."""
        return sequence < following

    def _appends(self, line: Line, request: Request) -> Served:
        partition = line.data[request.partition]
        if request.epoch < partition.epoch:
            return line, FATAL
        following = partition.sequence if request.epoch == partition.epoch else 0
        if self.is_seen(request.sequence, following):
            return line, OK
        if request.sequence > following:
            return line, FATAL
        reply = OK if OPEN in partition.fates else self.verify(line, request)
        if reply != OK:
            return line, reply
        fate = OPEN if partition.fates[request.tag] == UNWRITTEN else TWICE
        fates = replaced(partition.fates, request.tag, fate)
        after = partition._replace(epoch=request.epoch, sequence=request.sequence + 1, fates=fates)
        return line._replace(data=replaced(line.data, request.partition, after)), OK

    # Markers.

    def marker(self, line: Line, shared: Shared, partition: int) -> Marker:
        entry = line.entry
        outcome = COMMIT if entry.state == PREPARE_COMMIT else ABORT
        link = entry.links[partition]
        return Marker(MARKER, partition, link, shared.coordinator_epoch, entry.epoch, outcome, entry.tag)

    def answered(self, line: Line, partition: int) -> Line:
        """The line after the coordinator has the answer to its marker."""
        entry = line.entry
        pending = entry.pending & ~(1 << partition)
        if pending:
            return line._replace(entry=entry._replace(pending=pending))
        done = entry._replace(state=COMPLETE[entry.state], pending=0, partitions=0, tag=NONE)
        return line._replace(entry=done)

    def write(self, line: Line, marker: Marker) -> tuple[Line, bool]:
        """The line after a marker has reached a leader, and whether it was written."""
        if marker.partition < self.scope.partitions:
            partition = self._fenced_by(line.data[marker.partition], marker)
            if partition is None:
                return line, False
            fate = COMMITTED if marker.outcome == COMMIT else ABORTED
            fates = tuple(fate if before == OPEN else before for before in partition.fates)
            data = replaced(line.data, marker.partition, partition._replace(fates=fates))
            return line._replace(data=data), True
        partition = self._fenced_by(line.offsets.partition, marker)
        if partition is None:
            return line, False
        line = line._replace(offsets=_offsets_ended(line.offsets._replace(partition=partition), marker))
        if marker.outcome == ABORT:
            memory = self.aborted(line.memories[GROUP], line.accepted[GROUP])
            line = line._replace(memories=replaced(line.memories, GROUP, memory))
        return line, True

    def is_of_former_coordinator(self, marker: Marker, partition: Partition) -> bool:
        return marker.coordinator_epoch < partition.coordinator_epoch

    def is_marker_admitted(self, newest: int, connection: int) -> bool:
        """Whether a leader writes a marker of this coordinator epoch on this connection."""
        return self.admit(Memory(newest, 0), connection) is not None

    def _fenced_by(self, partition: Partition, marker: Marker) -> Partition | None:
        """The partition's producer state with the epochs of a marker; None if the marker is refused."""
        if marker.epoch < partition.epoch or self.is_of_former_coordinator(marker, partition):
            return None
        newest = partition.link if marker.coordinator_epoch == partition.coordinator_epoch else NONE
        if not self.is_marker_admitted(newest, marker.connection):
            return None
        sequence = partition.sequence if marker.epoch == partition.epoch else 0
        return Partition(marker.epoch, sequence, marker.coordinator_epoch, marker.connection, partition.fates)

    # Moves of coordinators.

    def moved(self, line: Line, shared: Shared) -> Line:
        """The line after the transaction coordinator moved to the other broker, which reads the log."""
        here, there = shared.coordinator, 1 - shared.coordinator
        memories = replaced(line.memories, here, self.unloaded(line.memories[here], line.accepted[here]))
        memories = replaced(memories, there, self.loaded(memories[there], line.accepted[there]))
        entry = line.entry
        pending = entry.partitions if entry.state in PREPARED else 0
        entry = entry._replace(pending=pending, links=(0,) * len(entry.links))
        return line._replace(memories=memories, entry=entry)

    def group_moved(self, line: Line) -> Line:
        """The line after the group coordinator moved away and back."""
        accepted = line.accepted[GROUP]
        memory = self.loaded(self.unloaded(line.memories[GROUP], accepted), accepted)
        return line._replace(memories=replaced(line.memories, GROUP, memory))


def _prepared(entry: Entry, state: int, tag: int) -> Entry:
    return entry._replace(state=state, pending=entry.partitions, tag=tag)


def _offsets_ended(offsets: Offsets, marker: Marker) -> Offsets:
    fates, is_foreign = offsets.partition.fates, offsets.is_foreign
    for tag in offsets.pending:
        if tag == NONE:
            continue
        if marker.outcome == COMMIT:
            fates = replaced(fates, tag, COMMITTED)
            is_foreign = is_foreign or marker.tag != tag
        elif fates[tag] == UNWRITTEN:
            fates = replaced(fates, tag, ABORTED)
    partition = offsets.partition._replace(fates=fates)
    return Offsets(partition, (NONE,) * len(offsets.pending), is_foreign)
