"""One share partition with two members, its store, one end of locks, one leader change, one write that fails.

The machine is the product's own (`broker/shares/machine/`). Writes are carried out in order, one by one, at any later
step; what a leader has not written when another one begins is written, or lost, by chance. A member remembers what it
holds and what was answered to it; records are few, so every order of events is visited.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import AckType, RecordState
from sordini.broker.shares.machine.share_partition import Change, ShareLimits, SharePartition, StoredState
from sordini.protocol.errors import BrokerError

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


class World:
    """All of it, at one moment."""

    def __init__(self, partition_type: type[SharePartition] = SharePartition) -> None:
        self.partition_type = partition_type
        self.partition = partition_type(StoredState(0, ()), LIMITS)
        self.now_ms = 0
        self.start = 0
        self.runs: tuple[StateRun, ...] = ()
        self.writes: list[Written] = []
        self.held: dict[str, dict[int, int]] = {member: {} for member in MEMBERS}
        """What each member was handed and whose lock may be in force: offset and deadline."""
        self.done: dict[int, RecordState] = {}
        """What was answered as written."""
        self.deliveries = dict.fromkeys(range(RECORDS), 0)
        """Of the present leader and what is stored."""
        self.broken: list[str] = []
        self.left = {"time": 1, "leader": 1, "failure": 1, "close": 1}

    def key(self) -> object:
        """Equal for worlds that go on alike."""
        batches = tuple(tuple(batch.parts) for batch in self.partition.batches)
        ends = self.partition.start, self.partition.end, self.partition.hint, self.partition.done
        held = tuple(tuple(sorted(records.items())) for records in self.held.values())
        done, left = tuple(sorted(self.done.items())), tuple(self.left.values())
        stored = self.start, self.runs, tuple(self.writes)
        return batches, ends, held, done, left, stored, self.now_ms, tuple(self.deliveries.values())


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
        yield "a write fails", _fail
    if world.left["time"]:
        yield "locks end", _expire
    if world.left["close"]:
        yield "a's session closes", _close
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
    written = world.writes.pop(0)
    _store(world, written)
    if written.acknowledges is not None:
        world.partition.commit(written.change)


def _store(world: World, written: Written) -> None:
    parts = written.change.parts
    runs = [StateRun(part.first, part.end, part.after, part.deliveries) for part in parts if part.after is not None]
    world.start = max(world.start, written.change.start)
    world.runs = with_written(world.runs, runs, world.start)
    for part in parts:
        if part.after in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED):
            world.done.update(dict.fromkeys(range(part.first, part.end), part.after))


def _fail(world: World) -> None:
    world.left["failure"] -= 1
    written = world.writes.pop(0)
    if written.acknowledges is None:
        return
    world.partition.roll_back(written.change)
    for part in written.change.parts:
        world.held[written.acknowledges].update(dict.fromkeys(range(part.first, part.end), part.deadline_ms))


def _expire(world: World) -> None:
    world.left["time"] -= 1
    world.now_ms += LOCK_MS
    _release(world, world.partition.expire(world.now_ms))


def _close(world: World) -> None:
    world.left["close"] -= 1
    world.held["a"].clear()
    _release(world, world.partition.release("a"))


def _release(world: World, change: Change | None) -> None:
    """In force at once, and written behind."""
    if change is not None:
        world.writes.append(Written(change, None))
        world.partition.commit(change)


def _change_leader(world: World, *, with_writes: bool) -> None:
    world.left["leader"] -= 1
    for written in world.writes if with_writes else ():
        _store(world, written)
    world.writes.clear()
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
        if offset < partition.start and offset not in world.done and not _is_on_its_way(world, offset):
            found.append(f"{offset} is lost: it is below the start offset and was not done")
        if partition.start <= offset < partition.end and offset not in covered and partition.next_offset() > offset:
            found.append(f"{offset} is lost: it is in no batch, and behind the next fetch")
        part = covered.get(offset)
        if part is not None and part.is_available and partition.next_offset() > offset:
            found.append(f"{offset} is available, and no fetch reads it")
        if part is not None and part.state is RecordState.ACQUIRED and part.after is None:
            due_ms = partition.next_deadline_ms()
            if due_ms is None or due_ms > part.deadline_ms:
                found.append(f"the lock of {offset} never ends")
    if partition.done != sum(part.is_done for part in covered.values()):
        found.append(f"{partition.done} records are said to be done")
    return found


def _is_on_its_way(world: World, offset: int) -> bool:
    """Whether it is archived by a change that is in force before it is written."""
    parts = [part for written in world.writes for part in written.change.parts]
    return any(part.first <= offset < part.end and part.after is RecordState.ARCHIVED for part in parts) or (
        not world.left["failure"]
    )


class Explored(NamedTuple):
    """How many worlds were visited, and the way to the first in which a law is broken."""

    worlds: int
    way: tuple[str, ...]
    broken: list[str]


def explore(partition_type: type[SharePartition] = SharePartition, worlds_max: int = WORLDS_MAX) -> Explored:
    """Visit worlds, nearest first; ends at the first broken law, or when there were so many."""
    first = World(partition_type)
    seen, waiting = {first.key()}, [(first, ())]
    for world, way in waiting:
        if len(seen) >= worlds_max:
            break
        for name, step in steps(world):
            after = copy.deepcopy(world)
            step(after)
            path: tuple[str, ...] = (*way, name)
            if broken := check(after):
                return Explored(len(seen), path, broken)
            if (key := after.key()) not in seen:
                seen.add(key)
                waiting.append((after, path))
    return Explored(len(seen), (), [])
