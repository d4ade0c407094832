"""One share partition with two members, its store, ends of locks, leader changes, writes that fail, as a scope allows.

The machine is the product's own (`broker/shares/machine/`). Writes are carried out in order, one by one, at any later
step; what a leader has not written when another one begins is written, or lost, by chance. A write that fails may have
been stored all the same: its answer was lost. A member remembers what it holds and what was answered to it.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.in_flight import InFlightBatch, InFlightBatches, Part
from sordini.broker.shares.machine.record_states import AckType, RecordState
from sordini.broker.shares.machine.share_partition import Change, ShareLimits, SharePartition, StoredState
from sordini.protocol.errors import BrokerError
from tests.model.explore import Did, Explored

RECORDS: Final = 2
MEMBERS: Final = ("a", "b")
LOCK_MS: Final = 10
LIMITS: Final = ShareLimits(delivery_count_max=2, in_flight_max=RECORDS, lock_ms=LOCK_MS)
WORLDS_MAX: Final = 1_000
LOG: Final = [Extent(0, 1), Extent(1, 2)]


class Written(NamedTuple):
    """A change that waits to be written; `acknowledges`: it is in force, and answered, only then."""

    change: Change
    acknowledges: str | None


class Scope(NamedTuple):
    """How often a thing may happen. Two records, two members, two deliveries of each."""

    name: str
    time: int = 0
    """Locks end: all that there are."""
    leader: int = 0
    """Another leader begins with what is stored."""
    failure: int = 0
    """A write is answered with an error, be it stored or not."""
    close: int = 0
    """A member's session closes."""


SCOPES: Final = (
    Scope("locks end, and another leader begins", time=1, leader=1),
    Scope("a write fails, and another leader begins", leader=1, failure=1),
    Scope("a session closes, and another leader begins", leader=1, close=1),
)
EVERYTHING: Final = Scope("a write fails, a session closes, locks end, another leader begins", 1, 1, 1, 1)
LARGER: Final = (
    Scope("locks end, a write fails, and another leader begins", time=1, leader=1, failure=1),
    Scope("locks end, a session closes, and another leader begins", time=1, leader=1, close=1),
    Scope("a write fails, a session closes, and another leader begins", leader=1, failure=1, close=1),
    EVERYTHING,
)
"""To be explored by name: minutes each."""


class World:
    """All of it, at one moment."""

    def __init__(self, partition_type: type[SharePartition] = SharePartition, scope: Scope = EVERYTHING) -> None:
        self.partition_type = partition_type
        self.partition = partition_type(StoredState(0, ()), LIMITS)
        self.now_ms = 0
        self.start = 0
        self.runs: tuple[StateRun, ...] = ()
        self.writes: list[Written] = []
        self.held: dict[str, dict[int, int]] = {member: {} for member in MEMBERS}
        """What each member was handed and whose lock may be in force: offset and deadline."""
        self.done: dict[int, RecordState] = {}
        """What is written, and known to be."""
        self.stored: dict[int, RecordState] = {}
        """What is stored as done."""
        self.given_up: frozenset[int] = frozenset()
        """Came back from their last delivery, be it written or not."""
        self.deliveries = dict.fromkeys(range(RECORDS), 0)
        """Of the present leader and what is stored."""
        self.broken: list[str] = []
        self.left = {"time": scope.time, "leader": scope.leader, "failure": scope.failure, "close": scope.close}

    def copied(self) -> World:
        """One that goes on apart from this one: values are shared, and lists are not."""
        copy = World.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.partition = _copied(self.partition)
        copy.writes = list(self.writes)
        copy.held = {member: dict(records) for member, records in self.held.items()}
        copy.done, copy.stored, copy.left = dict(self.done), dict(self.stored), dict(self.left)
        copy.deliveries, copy.broken = dict(self.deliveries), list(self.broken)
        return copy

    def key(self) -> bytes:
        """Equal for worlds that go on alike, as far as can be known: the members' names do not matter."""
        names: dict[str, int] = {"": 0}
        parts = [_named(part, names) for batch in self.partition.batches for part in (*batch.parts, None)]
        writes = [
            (
                one.change.start,
                names.setdefault(one.acknowledges or "", len(names)),
                one.acknowledges is None,
                *tuple(_named(part, names) for part in one.change.parts),
            )
            for one in self.writes
        ]
        held = {member: tuple(sorted(records.items())) for member, records in self.held.items()}
        for member in sorted(held, key=held.__getitem__):
            names.setdefault(member, len(names))
        by_name = [held[member] for member in sorted(held, key=names.__getitem__)]
        partition = self.partition
        ends = partition.start, partition.end, partition.hint, partition.done
        records = [
            (offset in self.done, offset in self.stored, offset in self.given_up, self.deliveries[offset])
            for offset in range(RECORDS)
        ]
        runs = [(run.first, run.end, int(run.state), run.deliveries) for run in self.runs]
        rest = self.start, runs, self.now_ms, list(self.left.values())
        return blake2b(marshal.dumps((parts, writes, by_name, ends, records, rest), 2), digest_size=16).digest()


def _copied(partition: SharePartition) -> SharePartition:
    copy: SharePartition = SharePartition.__new__(type(partition))
    copy.__dict__.update({key: list(v) if isinstance(v, list) else v for key, v in partition.__dict__.items()})
    copy.batches = InFlightBatches()
    for batch in partition.batches:
        own = InFlightBatch(list(batch.parts))
        own.size = batch.size
        copy.batches.add(own)
    return copy


def _named(part: Part | None, names: dict[str, int]) -> tuple[int, ...]:
    """A part with the number of its member, by order of appearance; nothing ends a batch."""
    if part is None:
        return ()
    member = names.setdefault(part.member, len(names))
    after, reason = -1 if part.after is None else int(part.after), -1 if part.reason is None else int(part.reason)
    return part.first, part.end, int(part.state), part.deliveries, member, part.deadline_ms, after, reason


Step = Callable[[World], None]


def steps(world: World) -> Iterator[tuple[str, Step]]:
    """What may happen next."""
    for member in MEMBERS:
        yield f"{member} fetches", lambda world, member=member: _fetch(world, member)  # type: ignore[misc]
        for kind in (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT):
            for offset in range(RECORDS):

                def say(world: World, member: str = member, kind: AckType = kind, offset: int = offset) -> None:
                    _acknowledge(world, member, kind, offset)

                yield f"{member}: {kind.name} {offset}", say
    if world.writes:
        yield "a write is done", _write
    if world.writes and world.left["failure"]:
        yield "a write fails", lambda world: _fail(world, is_stored=False)
        yield "a write is done, and its answer is lost", lambda world: _fail(world, is_stored=True)
    if world.left["time"]:
        yield "locks end", _expire
    if world.left["close"]:
        for member in MEMBERS:
            yield f"{member}'s session closes", lambda world, member=member: _close(world, member)  # type: ignore[misc]
    if world.left["leader"]:
        yield "another leader", lambda world: _change_leader(world, with_writes=False)
        if world.writes:
            yield "another leader, all written", lambda world: _change_leader(world, with_writes=True)


def _fetch(world: World, member: str) -> None:
    partition, start = world.partition, world.partition.next_offset()
    read = [extent for extent in LOG if extent.end > start]
    for first, end, deliveries in Acquisition(partition, AcquisitionRequest(member, 1, 1, True), world.now_ms).of(read):
        for offset in range(first, end):
            for other, held in world.held.items():
                if held.get(offset, -1) > world.now_ms:
                    world.broken.append(f"{offset} is handed to {member} while {other} holds it")
            if offset in world.done:
                world.broken.append(f"{offset} is delivered again, although it was done")
            world.deliveries[offset] += 1
            if deliveries > LIMITS.delivery_count_max or deliveries > world.deliveries[offset]:
                world.broken.append(f"{offset} is delivered for the {deliveries}th time")
            world.held[member][offset] = world.now_ms + LOCK_MS


def _acknowledge(world: World, member: str, kind: AckType, offset: int) -> None:
    try:
        change = acknowledge(world.partition, member, [Acknowledgement(offset, offset + 1, (kind,))], world.now_ms)
    except BrokerError:
        if world.held[member].get(offset, -1) > world.now_ms and offset >= world.partition.start:
            world.broken.append(f"{member} may not acknowledge {offset}, which it holds")
        return
    if offset not in world.held[member] and offset >= world.partition.start:
        world.broken.append(f"{member} acknowledges {offset}, which it was not handed")
    if change is not None:
        world.held[member].pop(offset, None)
        world.writes.append(Written(change, member))


def _write(world: World) -> None:
    """The oldest write is carried out, and answered."""
    written = world.writes.pop(0)
    world.done.update(_store(world, written))
    if written.acknowledges is not None:
        world.partition.commit(written.change)


def _store(world: World, written: Written) -> dict[int, RecordState]:
    """What is done by a write, which has the start offset of now."""
    parts = written.change.parts
    runs = [StateRun(part.first, part.end, part.after, part.deliveries) for part in parts if part.after is not None]
    world.start = max(world.start, world.partition.start)
    world.runs = with_written(world.runs, runs, world.start)
    found = _ended(written.change)
    world.stored.update(found)
    return found


def _ended(change: Change) -> dict[int, RecordState]:
    return {
        offset: part.after
        for part in change.parts
        if part.after in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
        for offset in range(part.first, part.end)
    }


def _fail(world: World, *, is_stored: bool) -> None:
    """The oldest write is answered with an error, though it may have been carried out."""
    world.left["failure"] -= 1
    written = world.writes.pop(0)
    if is_stored:
        _store(world, written)
    if written.acknowledges is None:
        return
    world.partition.roll_back(written.change)
    for part in written.change.parts:
        world.held[written.acknowledges].update(dict.fromkeys(range(part.first, part.end), part.deadline_ms))


def _expire(world: World) -> None:
    world.left["time"] -= 1
    world.now_ms += LOCK_MS
    _release(world, world.partition.expire(world.now_ms))


def _close(world: World, member: str) -> None:
    world.left["close"] -= 1
    world.held[member].clear()
    _release(world, world.partition.release(member))


def _release(world: World, change: Change | None) -> None:
    """In force at once, and written behind."""
    if change is not None:
        world.writes.append(Written(change, None))
        world.given_up |= _ended(change).keys()
        world.partition.commit(change)


def _change_leader(world: World, *, with_writes: bool) -> None:
    world.left["leader"] -= 1
    for written in world.writes if with_writes else ():
        _store(world, written)
    world.writes.clear()
    world.done.update(world.stored)
    parts = tuple(Part(run.first, run.end, RecordState(run.state), run.deliveries) for run in world.runs)
    world.partition = world.partition_type(StoredState(world.start, parts), LIMITS)
    world.held = {member: {} for member in MEMBERS}
    world.deliveries = dict.fromkeys(range(RECORDS), 0)
    for run in world.runs:
        world.deliveries.update(dict.fromkeys(range(run.first, run.end), run.deliveries))


def check(world: World) -> list[str]:
    """The laws of a moment."""
    partition, found = world.partition, list(world.broken)
    covered = {
        offset: part for batch in partition.batches for part in batch.parts for offset in range(part.first, part.end)
    }
    for offset in range(RECORDS):
        if offset < partition.start and offset not in world.done.keys() | world.stored.keys() | world.given_up:
            found.append(f"{offset} is lost: it is below the start offset and was not done")
        if partition.start <= offset < partition.end and offset not in covered and partition.next_offset() > offset:
            found.append(f"{offset} is lost: it is in no batch, and behind the next fetch")
        part = covered.get(offset)
        if part is not None and part.is_available and partition.next_offset() > offset:
            found.append(f"{offset} is available, and no fetch reads it")
        is_held = part is not None and part.state is RecordState.ACQUIRED and part.after is None
        if part is not None and is_held and not _has_lock(partition, offset, part.deadline_ms):
            found.append(f"the lock of {offset} never ends")
    if partition.done != sum(part.is_done for part in covered.values()):
        found.append(f"{partition.done} records are said to be done")
    return found


def _has_lock(partition: SharePartition, offset: int, deadline_ms: int) -> bool:
    return any(due_ms <= deadline_ms and first <= offset < end for due_ms, first, end in partition._locks)


def explore(
    partition_type: type[SharePartition] = SharePartition, worlds_max: int = WORLDS_MAX, scope: Scope = EVERYTHING
) -> Explored:
    """Visit worlds, nearest first; ends at the first broken law, or when there were so many.

    A world that was visited is remembered by a digest of its key, and the way to it by the step that led there.
    """
    first = World(partition_type, scope)
    ways: list[tuple[int, str]] = [(0, "")]
    seen, nearest = {first.key()}, [(first, 0)]
    depth = count = 0
    while nearest:
        farther: list[tuple[World, int]] = []
        for world, number in nearest:
            for name, step in steps(world):
                after = world.copied()
                step(after)
                count += 1
                key = after.key()
                if (broken := check(after)) or key not in seen:
                    ways.append((number, name))
                if broken:
                    return Explored(len(seen), count, depth + 1, is_whole=False, broken=broken[0], way=_way(ways))
                if key not in seen:
                    seen.add(key)
                    farther.append((after, len(ways) - 1))
            if len(seen) >= worlds_max:
                return Explored(len(seen), count, depth, is_whole=False, broken="", way=[])
        nearest = farther
        depth += bool(nearest)
    return Explored(len(seen), count, depth, is_whole=True, broken="", way=[])


def _way(ways: list[tuple[int, str]]) -> list[tuple[Did, None]]:
    """The steps to the last one."""
    number, names = len(ways) - 1, []
    while number:
        number, name = ways[number]
        names.append(((name,), None))
    return names[::-1]
