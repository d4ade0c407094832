"""Laws of a group's machine for any events in any order.

The simulation (`tests/support/groups_world.py`) checks after every step that the invariants hold, that every request is
answered once or pending in one field, that the generation never decreases, and that the folded records are the group.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.broker.groups.machine.events import GroupLimits, LeavingMember
from sordini.broker.groups.machine.state import GroupState, Protocol
from sordini.protocol.errors import ErrorCode
from tests.support.groups_world import Client, World
from tests.support.parts import examples

NAMES = ("A", "B", "C", "D")
INSTANCES = {"C": "c", "D": "d"}
PROTOCOLS = (
    (Protocol("range", b"1"), Protocol("sticky", b"1")),
    (Protocol("sticky", b"2"), Protocol("range", b"2")),
    (Protocol("range", b"3"),),
)
NAME = st.sampled_from(NAMES)
STEP = st.one_of(
    st.tuples(st.sampled_from(("join", "join", "join", "join-once", "sync", "sync", "heartbeat", "commit")), NAME),
    st.tuples(st.sampled_from(("leave", "forget", "like")), NAME),
    st.tuples(st.sampled_from(("wait", "stall")), st.sampled_from((1, 100, 2_000, 5_000, 12_000))),
    st.tuples(st.just("disk"), st.sampled_from(("waits", "works", "answers", "fails"))),
    st.tuples(st.sampled_from(("delete", "gone", "restart", "unload", "again")), st.just("")),
)
LIMITS = st.builds(
    GroupLimits,
    members_max=st.sampled_from((2, 3, 100)),
    initial_rebalance_delay_ms=st.sampled_from((0, 3_000)),
)


class Judge:
    """A simulated group with distinct assignments, and which member had which in each generation."""

    def __init__(self, limits: GroupLimits) -> None:
        self.world = World(limits=limits)
        self.shares: dict[tuple[int, str], bytes] = {}
        self.assigned = 0
        for name in NAMES:
            self.forget(name)

    def forget(self, name: str) -> None:
        self.world.clients[name] = Client(name, INSTANCES.get(name), rebalance_timeout_ms=8_000)

    def sync(self, client: Client) -> None:
        self.assigned += 1
        shares = {name: f"{name}{self.assigned}".encode() for name in NAMES if self.world.clients[name].member_id}
        self.world.sync(client, shares)

    def record_assignments(self) -> None:
        """In one generation a member (or its instance) has one assignment, however often it sends SyncGroup."""
        group = self.world.group
        if group.state is GroupState.STABLE:
            for member in group.members.values():
                key = (group.generation_id, member.group_instance_id or member.member_id)
                assert self.shares.setdefault(key, member.assignment) == member.assignment

    def carry_out(self, step: tuple[str, str | int]) -> None:
        world = self.world
        match step:
            case ("join" | "join-once" as verb, str(name)):
                world.join(world.clients[name], once=verb == "join-once")
            case ("sync", str(name)):
                self.sync(world.clients[name])
            case ("heartbeat", str(name)):
                world.heartbeat(world.clients[name])
            case ("commit", str(name)):
                world.commit(world.clients[name])
            case ("leave", str(name)):
                world.leave(LeavingMember(world.clients[name].member_id, world.clients[name].instance_id))
            case ("forget", str(name)):
                self.forget(name)
            case ("like", str(name)):
                client = world.clients[name]
                client.protocols = PROTOCOLS[(*PROTOCOLS, client.protocols).index(client.protocols) - 1]
            case ("wait", int(duration)):
                world.wait(duration)
            case ("stall", int(duration)):
                world.stall(duration)
            case ("disk", str(how)):
                self.disk(how)
            case (str(verb), _):
                self.whole_group(verb)

    def disk(self, how: str) -> None:
        if how in ("waits", "works"):
            self.world.disk_waits = how == "waits"
        elif self.world.writes:
            self.world.disk_answers(None if how == "answers" else ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def whole_group(self, verb: str) -> None:
        world = self.world
        if verb == "delete":
            world.delete()
        elif verb == "gone":
            world.last_offset_removed()
        elif verb == "restart":
            world.restart()
        elif world.group.state is GroupState.DEAD and not world.group.pending_writes:
            world.restart()  # The shell removes it, and the next request creates it again.
        elif verb == "unload":
            world.unload()
            world.writes.clear()
            world.restart()


@settings(max_examples=examples(400))
@given(LIMITS, st.lists(STEP, max_size=60))
@example(  # A deadline that is set within a grace period, and ends before it, must not cause endless ticks.
    GroupLimits(members_max=2, initial_rebalance_delay_ms=0),
    [("join", "A"), ("wait", 5_000), ("stall", 12_000), ("join", "B"), ("wait", 12_000)],
)
@example(  # A group's record stays when the leadership ends before the write completes.
    GroupLimits(members_max=2, initial_rebalance_delay_ms=0),
    [("join", "A"), ("disk", "waits"), ("leave", "A"), ("disk", "works"), ("unload", "")],
)
def test_invariants_hold_requests_are_answered_once_and_the_records_are_the_group(
    limits: GroupLimits, steps: list[tuple[str, str | int]]
) -> None:
    judge = Judge(limits)
    for step in steps:
        judge.carry_out(step)
        judge.record_assignments()


@settings(max_examples=examples(200))
@given(LIMITS, st.lists(STEP, max_size=60))
def test_no_request_waits_forever_and_silent_members_are_removed(
    limits: GroupLimits, steps: list[tuple[str, str | int]]
) -> None:
    judge = Judge(limits)
    world = judge.world
    for step in steps:
        judge.carry_out(step)
    while world.writes:
        world.disk_answers()
    world.disk_waits = False
    world.wait(3_600_000)
    assert not world.waiting
    assert not world.group.members
    assert not world.group.pending_joins
    assert not world.group.pending_writes
    assert world.group.due_ms is None


class Consumer:
    """A client that follows the protocol in time, and so never has to start over."""

    def __init__(self, world: World, client: Client) -> None:
        self.world = world
        self.client = client
        self.wants = "join"

    @property
    def is_waiting(self) -> bool:
        return any(client is self.client for client, _ in self.world.waiting.values())

    def act(self) -> None:
        """Send the next request, until one is pending or the group is stable."""
        for _ in range(4):
            if self.is_waiting:
                return
            if self.client.error is ErrorCode.REBALANCE_IN_PROGRESS:
                self.wants = "join"
            wanted = self.wants
            self._ask(wanted)
            assert self.client.error in (None, ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), self.world.said[-5:]
            if wanted == "heartbeat" and self.client.error is ErrorCode.NONE:
                return

    def _ask(self, wanted: str) -> None:
        if wanted == "join":
            self.wants = "sync"
            self.world.join(self.client)
        elif wanted == "sync":
            self.wants = "heartbeat"
            self.world.sync(self.client, {name: name.encode() for name in NAMES})
        else:
            self.world.heartbeat(self.client)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("wait", "wait", "stall")),
            st.integers(1, 3_000) | st.integers(1, 40_000),
            st.permutations(NAMES),
            st.integers(1, len(NAMES)),
        ),
        max_size=40,
    ),
    st.sampled_from((0, 3_000)),
)
def test_a_member_that_sends_heartbeats_in_time_survives_any_stall_of_the_broker(
    steps: list[tuple[str, int, list[str], int]], delay_ms: int
) -> None:
    world = World(limits=GroupLimits(initial_rebalance_delay_ms=delay_ms))
    consumers = {name: Consumer(world, world.client(name)) for name in NAMES}
    for name, instance_id in INSTANCES.items():
        world.client(name).instance_id = instance_id
    come: set[str] = set()
    for how, duration_ms, order, count in steps:
        if how == "wait":
            world.wait(min(duration_ms, 3_000))
        else:
            world.stall(duration_ms)
        come.update(order[:count])
        for name in [name for name in order if name in come]:
            consumers[name].act()
    for name in come:
        consumer = consumers[name]
        # Clients that wait for their first generation are members, too, if they joined before the group was full.
        assert consumer.is_waiting or consumer.client.member_id in world.group.members


@settings(max_examples=examples(200))
@given(LIMITS, st.lists(STEP, max_size=40))
def test_every_assignment_that_was_sent_had_been_written(
    limits: GroupLimits, steps: list[tuple[str, str | int]]
) -> None:
    judge = Judge(limits)
    world = judge.world
    for step in steps:
        world.given.clear()
        judge.carry_out(step)
        if world.given:
            assert world.folded is not None
            written = {member.member_id: member.assignment for member in world.folded.members}
            assert all(written[member_id] == assignment for member_id, assignment in world.given)
