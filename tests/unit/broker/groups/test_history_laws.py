"""Laws of the history of rebalances, for any events in any order; and its bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.machine.events import (
    GroupLimits,
    GroupReply,
    Join,
    Leave,
    Now,
    RebalanceCompleted,
    Sync,
    SyncAnswer,
)
from sordini.broker.groups.machine.partition_moves import ASSIGNMENT_BYTES_MAX, MOVES_MAX, Assignments, moves_between
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.rebalance_history import (
    CAUSES_MAX,
    MEMBERS_MAX,
    NAME_LENGTH_MAX,
    GroupHistory,
    Rebalance,
)
from sordini.broker.groups.machine.state import NO_CALLER, Group, GroupState, Member
from sordini.protocol.errors import ErrorCode
from tests.scenarios.test_group_history import assignment
from tests.support.groups_world import World
from tests.support.parts import examples
from tests.unit.broker.groups.test_machine_laws import LIMITS, STEP, Judge

NOW = Now(5_000, 1_700_000_005_000)


def a_member(name: str, share: str = "", **fields: object) -> Member:
    member = Member(name, None, "client", "/10.0.0.1", 1, 1, (), assignment(share) if share else b"")
    return member._replace(**fields)  # type: ignore[arg-type]


def a_group(*members: Member, generation: int = 1) -> Group:
    by_id = type(Group("g").members)({member.member_id: member for member in members})
    return Group("g", GroupState.STABLE, generation, "consumer", "range", members=by_id)


def rebalanced(history: GroupHistory, before: Group, after: Group, causes: int = 1, **of_cause: str) -> Rebalance:
    """The entry of a rebalance that begins and ends in one step."""
    member = a_member("m")._replace(**of_cause)  # type: ignore[arg-type]
    caused = RebalanceCaused(RebalanceCause.MEMBER_LEFT, member, of_cause.get("client_id", ""))
    completed = RebalanceCompleted(after.generation_id, len(after.members), None)
    entry = history.observe(before, after, Leave(NO_CALLER, ()), [*[caused] * causes, completed], NOW)
    assert entry is not None
    return entry


def completed_in(world: World) -> int:
    return sum(isinstance(action, RebalanceCompleted) for action in world.logged)


@settings(max_examples=examples(300))
@given(LIMITS, st.lists(STEP, max_size=60), st.sampled_from((0, 1, 3, 50)))
def test_every_completed_rebalance_has_one_entry_and_the_history_keeps_its_bounds(
    limits: GroupLimits, steps: list[tuple[str, str | int]], entries_max: int
) -> None:
    judge = Judge(limits)
    world = judge.world
    world.history = GroupHistory(entries_max)
    before, entries = 0, list[Rebalance]()
    for step in steps:
        history = world.history
        judge.carry_out(step)
        if world.history is not history:  # The broker has started again, and its history with it.
            entries, before = [], completed_in(world)
            world.history = GroupHistory(entries_max)
        completed = completed_in(world) - before
        assert len(world.history.entries) == min(completed, entries_max)
        check_entries(world.history, entries)
        entries = list(world.history.entries)
        is_rebalancing = world.group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
        if world.group.state is not GroupState.DEAD:
            assert (world.history.in_progress(world.group) is not None) <= is_rebalancing


def check_entries(history: GroupHistory, earlier: list[Rebalance]) -> None:
    """Entries are in order and whole, and what was there is changed by waits that ended only."""
    for entry in history.entries:
        assert entry.duration_ms == entry.ended_ms - entry.began_ms >= 0
        assert entry.generation_before < entry.generation_after
        assert len(entry.causes) <= CAUSES_MAX
        assert all(row.waited_ms >= -1 for row in entry.members)
    numbers = [entry.generation_after for entry in history.entries]
    assert numbers == sorted(set(numbers))
    by_generation = {entry.generation_after: entry for entry in history.entries}
    for entry in earlier:
        now = by_generation.get(entry.generation_after, entry)
        assert now._replace(members=()) == entry._replace(members=())
        for old, new in zip(entry.members, now.members, strict=True):
            assert new == old or (old.waited_ms == -1 and new == old._replace(waited_ms=new.waited_ms))


@given(st.integers(0, 300), st.integers(0, 400), st.integers(1, 60), st.text(min_size=1, max_size=400))
def test_an_entry_of_any_size_is_bounded_and_says_what_it_omits(
    members: int, partitions: int, causes: int, text: str
) -> None:
    history = GroupHistory(2)
    shares = [f"t/{'/'.join(map(str, range(partitions)))}"] if partitions else []
    before = a_group(*(a_member(f"{n}{text}", share) for n, share in enumerate(shares)))
    after = a_group(*(a_member(f"{text}{n}") for n in range(members)), generation=2)
    entry = rebalanced(history, before, after, causes, client_id=text, member_id=text)
    assert len(entry.causes) + entry.causes_omitted == causes
    assert len(entry.members) + entry.members_omitted == members
    assert len(entry.moves) + entry.moves_omitted == partitions
    assert (len(entry.causes), len(entry.members), len(entry.moves)) <= (CAUSES_MAX, MEMBERS_MAX, MOVES_MAX)
    assert len(entry.members) <= MEMBERS_MAX
    assert len(entry.moves) <= MOVES_MAX
    for cause in entry.causes:
        assert max(map(len, (cause.detail, cause.member.member_id, cause.member.client_id))) <= NAME_LENGTH_MAX
    for _ in range(4):
        rebalanced(history, before, after, causes)
    assert len(history.entries) == 2


def test_the_held_bytes_are_those_of_the_entries() -> None:
    history, before = GroupHistory(3), a_group(a_member("a", "t/0/1"))
    sizes = []
    for _ in range(6):
        rebalanced(history, before, a_group(a_member("b", "t/0/1"), generation=2))
        sizes.append(history.held_bytes)
    assert sizes == [sizes[0], 2 * sizes[0], 3 * sizes[0], 3 * sizes[0], 3 * sizes[0], 3 * sizes[0]]
    while history.entries:
        history.drop_oldest()
    assert history.held_bytes == 0


def test_large_assignments_are_not_compared() -> None:
    huge = a_member("a", assignment=bytes(ASSIGNMENT_BYTES_MAX + 1))
    entry = rebalanced(GroupHistory(1), a_group(huge), a_group(a_member("b", "t/0"), generation=2))
    assert not entry.partitions_known
    assert entry.moves == ()


def test_damaged_assignments_are_not_compared() -> None:
    damaged = Assignments.of(a_group(a_member("a", assignment=b"\x00\x00\x7f")))
    assert damaged.owners is None
    assert moves_between(damaged, Assignments.of(a_group())) is None


def test_members_that_come_and_go_during_a_rebalance_do_not_add_up() -> None:
    history = GroupHistory(1)
    group = a_group(a_member("a"))
    for number in range(10 * MEMBERS_MAX):
        name = f"m{number}"
        joined = a_group(a_member("a"), a_member(name))
        event = Join(NO_CALLER, "", None, "c", "/h", 1, 1, "consumer", (), name, False, False)
        history.observe(group, joined, event, [RebalanceCaused(RebalanceCause.MEMBER_JOINED, None, "")], NOW)
    assert history._in_progress is not None
    assert len(history._in_progress.joined_ms) <= 2 * 2 + MEMBERS_MAX
    assert len(history._in_progress.causes) == CAUSES_MAX


def test_a_late_assignment_of_a_rebalance_without_room_changes_no_entry_before_it() -> None:
    history, member = GroupHistory(2), a_member("a")
    before = a_group(member)
    event = Join(NO_CALLER, "a", None, "c", "/h", 1, 1, "consumer", (), "", False, False)
    history.observe(before, before, event, [RebalanceCaused(RebalanceCause.LEADER_REJOINED, member, "")], NOW)
    history.observe(before, before, Leave(NO_CALLER, ()), [RebalanceCompleted(1, 1, None)], NOW)
    (entry,) = history.entries
    assert entry.members[0].waited_ms == -1
    history.begin(before, RebalanceCaused(RebalanceCause.LEADER_REJOINED, member, ""), NOW)
    history.abandon()
    synced = Sync(NO_CALLER, "a", None, 2, None, None, {})
    history.observe(before, before, synced, [GroupReply(NO_CALLER, SyncAnswer(ErrorCode.NONE))], NOW)
    assert list(history.entries) == [entry]
