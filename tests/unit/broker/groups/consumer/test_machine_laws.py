"""Laws of a consumer group's machine (KIP-848) for any events in any order.

After every step the world (`tests/support/consumer_group_world.py`) checks the invariants of the group, and that its
folded records are the group. Here: what members believe to own, and that they get there.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.consumer.machine.events import ConsumerLimits, Refusal
from sordini.broker.groups.consumer.machine.state import ConsumerGroupState
from sordini.protocol.errors import ErrorCode
from tests.support.consumer_group_world import ConsumerWorld, FakeTopics, SimulatedMember
from tests.support.parts import examples

NAMES = ("A", "B", "C", "D")
STATIC = {"D": "d"}
EAGER = "A"
"""Of the members that speak the classic protocol."""
SESSION_MS = 10_000
SUBSCRIPTIONS = (frozenset({"a"}), frozenset({"a", "b"}), frozenset({"b", "later"}), frozenset[str]())
NAME = st.sampled_from(NAMES)
BEAT = st.tuples(st.sampled_from(("heartbeat", "heartbeat", "busy", "busy", "lost", "settle")), NAME)
"""`busy`: the application goes on with what it had."""
STEP = st.one_of(
    BEAT,
    BEAT,
    BEAT,
    BEAT,
    st.tuples(st.sampled_from(("leave", "pause", "crash", "subscribe", "regex", "other protocol")), NAME),
    st.tuples(st.sampled_from(("wait", "wait", "stall")), st.sampled_from((1, 100, 3_000, 9_000, 21_000))),
    st.tuples(st.sampled_from(("grow", "delete", "recreate", "restart", "slowly", "at once", "work")), st.just("")),
)


class Judge:
    """The members' clients, and what they believe."""

    def __init__(self, interval_ms: int) -> None:
        self.topics = FakeTopics(a=5, b=3)
        limits = ConsumerLimits(
            session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms, allows_downgrade=False
        )
        self.world = ConsumerWorld(self.topics, limits)
        self.members = {name: self.member(name) for name in NAMES}
        self.lives = 0
        self.incarnation = 0
        self.partitions = 5

    def member(self, name: str, life: int = 0) -> SimulatedMember:
        return SimulatedMember(f"{name}{life}", instance_id=STATIC.get(name))

    def carry_out(self, step: tuple[str, str | int]) -> None:
        world = self.world
        match step:
            case ("heartbeat" | "lost" | "busy" as verb, str(name)):
                self.heartbeat(self.members[name], is_lost=verb == "lost")
                if verb == "heartbeat":
                    self.members[name].settle()
            case ("settle", str(name)):
                self.members[name].settle()
            case ("leave", str(name)):
                world.leave(self.members[name])
            case ("pause", str(name)) if name in STATIC:
                world.leave(self.members[name], epoch=-2)
                self.crash(name)
            case ("crash", str(name)):
                self.crash(name)
            case ("other protocol", str(name)):
                self.crash(name)
                self.members[name].is_classic = True
            case ("subscribe", str(name)):
                member = self.members[name]
                member.topics = SUBSCRIPTIONS[(SUBSCRIPTIONS.index(member.topics) + 1) % len(SUBSCRIPTIONS)]
                member.says_all = True
            case ("regex", str(name)):
                self.members[name].regex = "" if self.members[name].regex else "b.*"
                self.members[name].says_all = True
            case ("wait" | "stall" as verb, int(ms)):
                world.wait(ms, late_ms=ms if verb == "stall" else 0)
            case ("grow", _):
                self.partitions += 1
                self.topics.put("a", self.partitions)
            case ("delete", _):
                self.topics.delete("b")
            case ("recreate", _):
                self.incarnation += 1
                self.topics.put("b", 3, self.incarnation)
            case ("restart", _):
                world.restart()
            case ("slowly" | "at once" as verb, _):
                world.assigns_slowly = verb == "slowly"
            case ("work", _):
                world.finish_work()
            case _:
                pass
        self.check()

    def crash(self, name: str) -> None:
        """The process is gone, and another one takes its place under a new id."""
        self.lives += 1
        topics = self.members[name].topics
        self.members[name] = self.member(name, self.lives)
        self.members[name].topics = topics

    def heartbeat(self, member: SimulatedMember, *, is_lost: bool = False) -> None:
        """A client whose session has ended by its own clock stops consuming before it asks again."""
        if self.world.now_ms - member.last_answer_ms >= SESSION_MS:
            member.owned, member.assigned = set(), set()
            member.says_all = True
        if member.is_classic:
            self.world.beat_classic(member, is_eager=member.member_id[0] in EAGER)
        else:
            self.world.heartbeat(member, is_lost=is_lost)

    def check(self) -> None:
        """No two clients consume a partition whose sessions have not ended by their own clocks."""
        live = [m for m in self.members.values() if self.world.now_ms - m.last_answer_ms < SESSION_MS]
        consumed = [pair for member in live for pair in member.owned if self.is_fenced_in_time(member)]
        assert len(consumed) == len(set(consumed)), "a partition has two consumers"

    def is_fenced_in_time(self, member: SimulatedMember) -> bool:
        """Whether the member may consume: its epoch is the group's for it, or it was told to give partitions up.

        A member that ignores a revocation for its rebalance timeout is fenced, and learns of it by its next heartbeat.
        """
        known = self.world.group.members.get(member.member_id)
        return known is not None and member.epoch in (known.epoch, known.previous_epoch)


@settings(max_examples=examples(250), deadline=None)
@given(st.lists(STEP, min_size=1, max_size=60), st.sampled_from((0, 1_000)))
def test_no_partition_has_two_consumers_and_the_log_has_the_group(
    steps: list[tuple[str, str | int]], interval: int
) -> None:
    judge = Judge(interval)
    for step in steps:
        judge.carry_out(step)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEP, min_size=1, max_size=40), st.sampled_from((0, 1_000)), st.sampled_from((*NAMES, "")))
def test_once_nothing_happens_any_more_every_member_gets_its_target_though_one_never_gives_anything_up(
    steps: list[tuple[str, str | int]], interval: int, busy_name: str
) -> None:
    judge = Judge(interval)
    for step in steps:
        judge.carry_out(step)
    world = judge.world
    world.assigns_slowly = False
    busy = judge.members.get(busy_name)
    for _ in range(30):
        world.wait(1_500)
        for member in judge.members.values():
            judge.heartbeat(member)
            if member is not busy:
                member.settle()
        world.finish_work()
        judge.check()
    assert world.group.state is ConsumerGroupState.STABLE
    assert set(world.group.members) == {member.member_id for member in judge.members.values()}
    for member in judge.members.values():
        if member is busy:
            member.settle()
        target = world.group.targets.get(member.member_id, {})
        assert member.owned == {(topic, index) for topic, indexes in target.items() for index in indexes}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEP, min_size=1, max_size=30), NAME, st.sampled_from((-3, 7, 100, 2**31 - 1)))
def test_an_epoch_that_no_member_can_have_is_refused_and_changes_nothing(
    steps: list[tuple[str, str | int]], name: str, epoch: int
) -> None:
    judge = Judge(0)
    for step in steps:
        judge.carry_out(step)
    member, before = judge.members[name], judge.world.group
    member.epoch = before.epoch + epoch if epoch > 0 else epoch
    answer = judge.world.heartbeat(member, is_lost=True)
    assert isinstance(answer, Refusal)
    assert answer.code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
    assert judge.world.group == before
