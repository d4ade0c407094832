"""Laws of the history of a consumer group's rebalances, beside an oracle that reads the states of the group one by one.

The oracle knows nothing of changes, causes in progress or members on their way: it visits every partition and every
member of the group after each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.consumer.machine.events import EpochRaised
from sordini.broker.groups.consumer.machine.rebalance_history import ConsumerGroupHistory
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, is_reconciled
from sordini.broker.groups.machine.partition_moves import Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import CAUSES_MAX, ENTRY_BYTES, ROW_BYTES
from sordini.protocol.types import TopicId
from tests.support.consumer_group_world import ConsumerWorld
from tests.support.parts import examples
from tests.unit.broker.groups.consumer.test_machine_laws import STEP, Judge

STEPS = st.lists(STEP, min_size=40, max_size=80)
INTERVAL = st.sampled_from((0, 1_000))

Pair = tuple[TopicId, int]


class End(NamedTuple):
    """What the oracle knows of a target: its epoch, when it was reached or replaced, and which of the two."""

    epoch: int
    ended_ms: int
    is_overtaken: bool


def played(steps: list[tuple[str, str | int]], interval: int) -> ConsumerWorld:
    judge = Judge(interval)
    for step in steps:
        judge.carry_out(step)
    return judge.world


def owners(group: ConsumerGroup) -> dict[Pair, str]:
    """Of all partitions, by instance id or member id."""
    found = {}
    for topic, by_index in group.owners.items():
        for index, member_id in by_index.items():
            member = group.members[member_id]
            found[topic, index] = member.instance_id or member.member_id
    return found


def gaps(world: ConsumerWorld) -> Counter[Pair]:
    """How long each partition had no owner, of the times that have ended."""
    since: dict[Pair, int] = {}
    found = Counter[Pair]()
    for now, before, step in world.moments:
        old, new = owners(before), owners(step.group)
        for pair in old.keys() - new.keys():
            since[pair] = now.monotonic_ms
        for pair in new.keys() - old.keys():
            found[pair] += now.monotonic_ms - since.pop(pair, now.monotonic_ms)
    return found


def ends(world: ConsumerWorld) -> list[End]:
    """Of each target that was computed; and of that with which the group was loaded, if members were on their way."""
    found: list[End] = []
    epoch: int | None = None
    if world.loaded is not None and not all_reached(world.loaded.before):
        epoch = world.loaded.before.assignment_epoch
    for now, before, step in world.moments:
        if step.group.assignment_epoch != before.assignment_epoch:
            if epoch is not None:
                found.append(End(epoch, now.wall_ms, is_overtaken=True))
            epoch = step.group.assignment_epoch
        if epoch is not None and all_reached(step.group):
            found.append(End(epoch, now.wall_ms, is_overtaken=False))
            epoch = None
    return found


def all_reached(group: ConsumerGroup) -> bool:
    return all(is_reconciled(member, group.assignment_epoch) for member in group.members.values())


def moves(world: ConsumerWorld) -> Iterator[Move]:
    for rebalance in (*world.history.entries, *world.history.in_progress(world.group)):
        assert not rebalance.moves_omitted
        yield from rebalance.moves


@settings(max_examples=examples(400), deadline=None)
@given(STEPS, INTERVAL)
def test_the_time_without_an_owner_of_each_partition_adds_up(steps: list[tuple[str, str | int]], interval: int) -> None:
    world = played(steps, interval)
    expected, found = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for (topic, index), ms in gaps(world).items():
        name = world.topics.name_of(topic)
        if name is not None:  # What a deleted topic had is no pause of its readers.
            expected[name, index] += ms
    # A topic that was deleted and created again has other partitions under the same name.
    is_recreated = any(step[0] in ("delete", "recreate") for step in steps)
    for move in moves(world):
        if move.without_owner_ms > 0:
            found[move.topic, move.partition] += move.without_owner_ms
    if is_recreated:
        expected = Counter({key: ms for key, ms in expected.items() if key[0] == "a"})
        found = Counter({key: ms for key, ms in found.items() if key[0] == "a"})
    assert +expected == +found


@settings(max_examples=examples(400), deadline=None)
@given(STEPS, INTERVAL)
def test_each_target_has_one_entry_that_ends_when_all_have_reached_it_or_the_next_one_is_computed(
    steps: list[tuple[str, str | int]], interval: int
) -> None:
    world = played(steps, interval)
    entries = world.history.entries
    assert [End(e.generation_after, e.ended_ms, is_overtaken=e.is_overtaken) for e in entries] == ends(world)
    for entry in entries:
        assert entry.duration_ms == entry.ended_ms - entry.began_ms >= 0
        assert entry.is_consumer
        assert entry.causes
        assert all(entry.began_ms <= cause.at_ms <= entry.ended_ms for cause in entry.causes)


@settings(max_examples=examples(300), deadline=None)
@given(STEPS, INTERVAL)
def test_each_cause_of_a_group_epoch_is_in_one_rebalance(steps: list[tuple[str, str | int]], interval: int) -> None:
    world = played(steps, interval)
    expected = Counter[RebalanceCause]()
    for _, _, step in world.moments:
        for action in step.actions:
            if isinstance(action, EpochRaised):
                expected[action.cause.cause] += max(len(action.cause.members), 1)
    rebalances = [*world.history.entries, *world.history.in_progress(world.group)]
    found = Counter(cause.cause for rebalance in rebalances for cause in rebalance.causes)
    found.pop(RebalanceCause.GROUP_LOADED, None)
    omitted = sum(rebalance.causes_omitted for rebalance in rebalances)
    assert all(len(rebalance.causes) <= CAUSES_MAX for rebalance in rebalances)
    assert found <= expected
    assert sum(expected.values()) == sum(found.values()) + omitted


@settings(max_examples=examples(300), deadline=None)
@given(STEPS, INTERVAL)
def test_the_moves_one_after_the_other_lead_to_the_owners_that_the_group_has(
    steps: list[tuple[str, str | int]], interval: int
) -> None:
    world = played([step for step in steps if step[0] not in ("restart", "delete", "recreate")], interval)
    folded: dict[tuple[str, int], str | None] = {}
    for move in moves(world):
        before = folded.get((move.topic, move.partition))
        assert move.source == before, "a move begins where the one before it ended"
        folded[move.topic, move.partition] = move.target
    held = {(world.topics.name_of(topic) or "", index): owner for (topic, index), owner in owners(world.group).items()}
    assert held.items() <= folded.items()
    if not world.history.in_progress(world.group):
        assert held == {pair: owner for pair, owner in folded.items() if owner is not None}


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, INTERVAL, st.sampled_from((0, 1, 3)))
def test_the_held_bytes_are_those_of_what_is_kept_and_nothing_is_held_of_nothing(
    steps: list[tuple[str, str | int]], interval: int, entries_max: int
) -> None:
    world = played(steps, interval)
    history = ConsumerGroupHistory(entries_max)
    for now, before, step in world.moments:
        history.observe(before, step, world.topics, now)
        assert history.held_bytes >= least_bytes(history, step.group)
    assert len(history.entries) <= entries_max
    for kept in (history, world.history):
        sizes = []
        kept.abandon()
        while kept.entries:
            sizes.append(kept.held_bytes)
            kept.drop_oldest()
        assert sizes == sorted(sizes, reverse=True)
        assert kept.held_bytes == 0


def least_bytes(history: ConsumerGroupHistory, group: ConsumerGroup) -> int:
    """Of the rows that the history has to keep, from scratch; it may hold more, such as the names of topics."""
    rows = [row for rebalance in history.entries for row in (*rebalance.causes, *rebalance.moves, *rebalance.members)]
    current = history.in_progress(group)
    rows += [row for rebalance in current for row in (*rebalance.causes, *rebalance.moves)]
    return ROW_BYTES * len(rows) + ENTRY_BYTES * (len(history.entries) + len(current))
