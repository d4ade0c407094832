"""Laws of the history of a share group's rebalances, beside an oracle that reads the states of the group one by one.

The oracle knows nothing of changes, causes in progress or members on their way: it visits every partition and every
member of the group after each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.machine.partition_moves import Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import CAUSES_MAX, ENTRY_BYTES, ROW_BYTES
from sordini.broker.groups.share.machine.events import EpochRaised
from sordini.broker.groups.share.machine.rebalance_history import ShareGroupHistory
from sordini.broker.groups.share.machine.state import ShareGroup
from tests.support.parts import examples
from tests.support.share_group_world import ShareGroupWorld
from tests.unit.broker.groups.share.test_laws import joins, others, play

SCRIPT = st.lists(st.one_of(joins, others, others), min_size=20, max_size=60)
INTERVAL = st.sampled_from((0, 1_000))

Script = list[tuple[str, str, set[str]]]


class End(NamedTuple):
    """What the oracle knows of a target: its epoch, when all had it or it was replaced, and which of the two."""

    epoch: int
    ended_ms: int
    is_overtaken: bool


def played(script: Script, interval_ms: int, *, without: tuple[str, ...] = ()) -> ShareGroupWorld:
    world = ShareGroupWorld(interval_ms=interval_ms, a=2, b=1)
    for what, member_id, names in script:
        if what not in without:
            world.now_ms += 130
            play(world, what, member_id, names)
    return world


def all_have_it(group: ShareGroup) -> bool:
    return all(member.epoch == group.assignment_epoch for member in group.members.values())


def ends(world: ShareGroupWorld) -> list[End]:
    """Of each target that was computed; and of that with which the group was loaded, if members had not got it."""
    found: list[End] = []
    loaded = world.loaded_group
    epoch = None if loaded is None or all_have_it(loaded) else loaded.assignment_epoch
    for now, before, step in world.moments:
        if step.group.assignment_epoch != before.assignment_epoch:
            if epoch is not None:
                found.append(End(epoch, now.wall_ms, is_overtaken=True))
            epoch = step.group.assignment_epoch
        if epoch is not None and all_have_it(step.group):
            found.append(End(epoch, now.wall_ms, is_overtaken=False))
            epoch = None
    return found


def moves(world: ShareGroupWorld) -> Iterator[Move]:
    for rebalance in (*world.history.entries, *world.history.in_progress(world.group)):
        assert not rebalance.moves_omitted
        yield from rebalance.moves


@settings(max_examples=examples(200), deadline=None)
@given(SCRIPT, INTERVAL)
def test_each_target_has_one_entry_that_ends_when_all_have_it_or_the_next_one_is_computed(
    script: Script, interval_ms: int
) -> None:
    world = played(script, interval_ms)
    entries = world.history.entries
    assert [End(e.generation_after, e.ended_ms, is_overtaken=e.is_overtaken) for e in entries] == ends(world)
    for entry in entries:
        assert entry.duration_ms == entry.ended_ms - entry.began_ms >= 0
        assert entry.is_share
        assert entry.causes
        assert all(entry.began_ms <= cause.at_ms <= entry.ended_ms for cause in entry.causes)


@settings(max_examples=examples(200), deadline=None)
@given(SCRIPT, INTERVAL)
def test_each_cause_of_a_group_epoch_is_in_one_rebalance(script: Script, interval_ms: int) -> None:
    world = played(script, interval_ms)
    raised = [action.cause.cause for _, _, step in world.moments for action in step.actions if is_raise(action)]  # type: ignore[union-attr]
    rebalances = [*world.history.entries, *world.history.in_progress(world.group)]
    found = Counter(cause.cause for rebalance in rebalances for cause in rebalance.causes)
    found.pop(RebalanceCause.GROUP_LOADED, None)
    omitted = sum(rebalance.causes_omitted for rebalance in rebalances)
    assert all(len(rebalance.causes) <= CAUSES_MAX for rebalance in rebalances)
    assert found <= Counter(raised)
    assert len(raised) == sum(found.values()) + omitted


def is_raise(action: object) -> bool:
    return isinstance(action, EpochRaised)


@settings(max_examples=examples(200), deadline=None)
@given(SCRIPT, INTERVAL)
def test_the_moves_one_after_the_other_lead_to_what_members_have(script: Script, interval_ms: int) -> None:
    world = played(script, interval_ms, without=("restart",))
    held: set[tuple[str, str, int]] = set()
    for move in moves(world):
        assert (move.source is None) != (move.target is None)
        key = (move.source or move.target or "", move.topic, move.partition)
        if move.target is None:
            assert key in held, "what is taken was given before"
            held.remove(key)
        else:
            assert key not in held, "what is given was not there"
            held.add(key)
    expected = {
        (member.member_id, name_of(world, topic), index)
        for member in world.group.members.values()
        for topic, indexes in member.assigned.items()
        for index in indexes
    }
    assert {key for key in held if key[1] in world_names(world)} == {key for key in expected if key[1]}


def name_of(world: ShareGroupWorld, topic: bytes) -> str:
    """Of a topic that exists; "" of a deleted one."""
    return world.topics.name_of(topic) or ""  # type: ignore[arg-type]


def world_names(world: ShareGroupWorld) -> set[str]:
    return {name for name in ("a", "b", "c") if world.topics.get(name) is not None}


@settings(max_examples=examples(150), deadline=None)
@given(SCRIPT, INTERVAL, st.sampled_from((0, 1, 3)))
def test_the_held_bytes_are_those_of_what_is_kept_and_nothing_is_held_of_nothing(
    script: Script, interval_ms: int, entries_max: int
) -> None:
    world = played(script, interval_ms)
    history = ShareGroupHistory(entries_max)
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


def least_bytes(history: ShareGroupHistory, group: ShareGroup) -> int:
    """Of the rows that the history has to keep, from scratch; it may hold more, such as the names of topics."""
    rows = [row for rebalance in history.entries for row in (*rebalance.causes, *rebalance.moves, *rebalance.members)]
    current = history.in_progress(group)
    rows += [row for rebalance in current for row in (*rebalance.causes, *rebalance.moves)]
    return ROW_BYTES * len(rows) + ENTRY_BYTES * (len(history.entries) + len(current))
