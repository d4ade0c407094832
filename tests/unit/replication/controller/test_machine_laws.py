"""What holds for the controller's machine whatever happens, in whatever order it hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import KnownState, LeaderAndIsr, PartitionState, StopReplica
from sordini.replication.controller.machine.election_algorithms import Election
from sordini.replication.controller.machine.events import (
    ElectionsWanted,
    IsrChange,
    IsrChangesWanted,
    MovesWanted,
    ShutdownWanted,
)
from sordini.replication.metadata_store import paths
from tests.support.controller_machine_harness import World

BROKERS = (1, 2, 3)
TOPICS = ("a", "b")
SURVIVED = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""After these, leaders of Apache Kafka 2.7 and 2.8 ask again, or go on with the next leader epoch."""
PARTITION = st.permutations(BROKERS).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(BrokerId(b) for b in order[:count]))
)
ALTER = st.builds(
    lambda topic, isr, sender, epoch, version, life: ("alter", topic, isr, sender, epoch, version, life),
    st.sampled_from(("a", "a", "a", "b")),
    PARTITION,
    # Mostly the leader, as it is known; at times somebody else, of another life, or on another state.
    st.sampled_from((None, None, None, *BROKERS)),
    st.sampled_from((0, 0, 0, -1, 1)),
    st.sampled_from((0, 0, 0, -1, 1)),
    st.sampled_from((0, 0, 0, -1)),
)
TROUBLE = st.one_of(
    *[ALTER] * 8,
    st.tuples(st.just("topic"), st.sampled_from(TOPICS), st.lists(PARTITION, min_size=1, max_size=2)),
    st.tuples(st.just("flip"), st.sampled_from(BROKERS)),
    st.tuples(st.just("bounce"), st.sampled_from(BROKERS)),
    st.tuples(st.just("shutdown"), st.sampled_from(BROKERS)),
    st.tuples(st.just("elect"), st.sampled_from(BROKERS)),
    st.tuples(st.just("look"), st.just("brokers")),
    st.tuples(st.just("shrink"), st.sampled_from(TOPICS)),
    st.tuples(st.just("shrink while it writes"), st.just("a")),
    st.tuples(st.just("shrink while it writes"), st.just("a")),
    st.tuples(st.just("refuse"), st.integers(0, 2)),
    st.tuples(st.just("allow unclean"), st.just("a")),
    st.tuples(st.just("balance"), st.sampled_from((0, 50))),
    st.tuples(st.just("directory"), st.sampled_from(BROKERS), st.sampled_from(TOPICS), st.sampled_from((0, 11, 56))),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), st.sampled_from(BROKERS)),
        st.tuples(st.just("bounce"), st.sampled_from(BROKERS)),
        st.tuples(st.just("topic"), st.sampled_from(TOPICS), st.lists(PARTITION, min_size=1, max_size=2)),
        st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
        st.tuples(st.just("shrink"), st.sampled_from(TOPICS)),
        st.tuples(st.just("elect"), st.sampled_from(BROKERS)),
        st.tuples(st.just("answer"), st.sampled_from((0, 0, 0, 56))),
        st.tuples(st.just("look"), st.sampled_from(("brokers", "topics", "deletions"))),
        st.tuples(st.just("elect-leader"), st.sampled_from(Election), st.sampled_from(TOPICS), st.integers(0, 1)),
        st.tuples(st.just("move"), st.sampled_from(TOPICS), st.integers(0, 1), PARTITION),
        st.tuples(st.just("shutdown"), st.sampled_from(BROKERS)),
        st.tuples(st.just("allow unclean"), st.sampled_from(TOPICS)),
        st.tuples(st.just("balance"), st.sampled_from((0, 50))),
        st.tuples(
            st.just("directory"), st.sampled_from(BROKERS), st.sampled_from(TOPICS), st.sampled_from((0, 11, 56))
        ),
        ALTER,
    ),
    max_size=25,
)


class Judge:
    """Remembers who was told to lead in which epoch, per life of a partition."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[TopicPartition, bytes, int], BrokerId | None] = {}
        self.seen = 0

    def look(self, world: World) -> None:
        for _, command in world.sent[self.seen :]:
            if isinstance(command, LeaderAndIsr):
                for info in command.partitions:
                    key = (info.topic_partition, info.topic_id, info.state.leader_epoch)
                    assert self.leaders.setdefault(key, info.state.leader) == info.state.leader, key
        self.seen = len(world.sent)
        if world.cluster is not None:
            for topic in world.cluster.topics.values():
                for partition, known in topic.states.items():
                    assert known.state.isr, "the in-sync set is never empty"
                    assert known.state.leader is None or known.state.leader in known.state.isr
                    assert set(known.state.isr) <= set(topic.assignment.replicas[partition])


def carry_out(world: World, step: tuple[object, ...]) -> None:
    match step:
        case ("flip", int(broker)):
            flip(world, broker)
        case ("bounce", int(broker)) if world.tree.stat(paths.broker(BrokerId(broker))):
            world.broker_goes(broker)
            world.broker_comes(broker)
        case ("topic", str(name), list(replicas)) if not world.tree.stat(paths.topic(name)):
            lives = len(world.sent).to_bytes(4, "big") + name.encode()
            world.topic_made(name, dict(enumerate(replicas)), topic_id=lives.ljust(16, b"."))
        case ("delete", str(name)) if world.tree.stat(paths.topic(name)):
            if not world.tree.stat(paths.delete_topic(name)):
                world.deletion_wanted(name)
        case ("shrink", str(name)):
            shrink(world, TopicPartition(name, 0))
        case ("elect", int(broker)):
            world.elect(broker)
        case ("answer", int(error)) if world.answers and world.cluster is not None:
            world.answer(error)
        case ("look", "brokers"):
            world.look_at_brokers()
        case ("look", "topics"):
            world.look_at_topics()
        case ("look", "deletions"):
            world.look_at_topics()
            world.look_at_deletions()
        case ("elect-leader", Election() as election, str(name), int(partition)):
            world.feed(ElectionsWanted(election, (TopicPartition(name, partition),)))
        case ("move", str(name), int(partition), tuple(target)):
            world.feed(MovesWanted({TopicPartition(name, partition): target}))
        case ("allow unclean", str(name)):
            world.allow_unclean(name)
        case ("balance", int(percentage)):
            world.balance(percentage)
        case ("shutdown", int(broker)):
            world.feed(ShutdownWanted(BrokerId(broker), None))
        case ("directory", int(broker), str(name), int(code)):
            fail(world, broker, TopicPartition(name, 0), code)
        case ("alter", str(name), tuple(isr), sender, int(epoch), int(version), int(life)):
            alter(world, TopicPartition(name, 0), isr, sender, epoch, version, life)
        case ("shrink while it writes", str(name)):
            world.before_write = lambda _: once(world, lambda: shrink(world, TopicPartition(name, 0)))
        case ("refuse", int(count)):
            left = iter(range(count))
            world.is_refused = lambda _: next(left, None) is not None


def flip(world: World, broker: int) -> None:
    if world.tree.stat(paths.broker(BrokerId(broker))):
        world.broker_goes(broker)
    else:
        world.broker_comes(broker)


def shrink(world: World, topic_partition: TopicPartition) -> None:
    """A leader of an old protocol writes a smaller in-sync set itself."""
    known = world.state(topic_partition)
    if known is not None and known.state.leader is not None:
        world.state_written(topic_partition, replace(known.state, isr=(known.state.leader,)))


def once(world: World, act: Callable[[], None]) -> None:
    world.before_write = lambda _: None
    act()


def fail(world: World, broker: int, topic_partition: TopicPartition, code: int) -> None:
    """A broker answers what it was told last with this code for one partition."""
    told = any(receiver == broker and isinstance(command, LeaderAndIsr) for receiver, command in world.sent)
    if world.cluster is not None and told:
        world.answer_leader_and_isr(broker, {topic_partition: code})


def alter(
    world: World,
    topic_partition: TopicPartition,
    isr: tuple[BrokerId, ...],
    sender: object,
    epoch: int,
    version: int,
    life: int,
) -> None:
    """A leader, or whoever thinks so, asks for another in-sync set on a state that may be gone."""
    known = world.state(topic_partition)
    if known is None:
        return
    leader = known.state.leader if sender is None else sender
    if not isinstance(leader, int):
        return
    change = IsrChange(
        topic_partition.partition,
        isr,
        known.state.leader_epoch + epoch,
        known.version + version,
        topic=topic_partition.topic,
    )
    world.feed(IsrChangesWanted(BrokerId(leader), world.epoch_of(leader) + life, (change,)))


class Clerk:
    """Follows what is in the store, write by write, and what was replied meanwhile."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.last: dict[TopicPartition, KnownState] = {}
        self.seen = 0
        self.heard = 0

    def look(self) -> None:
        world = self.world
        fresh = world.written[self.seen :]
        for topic_partition, known in fresh:
            state, former = known.state, self.last.get(topic_partition)
            assert state.isr, "the in-sync set is never empty"
            assert state.leader is None or state.leader in state.isr, "the leader is in sync"
            if former is not None and former.state.leader != state.leader:
                assert state.leader_epoch > former.state.leader_epoch, "every leader has an epoch of its own"
                was_in_sync = state.leader is None or state.leader in former.state.isr
                assert was_in_sync or topic_partition.topic in world.unclean, "who leads was in sync"
                assert was_in_sync or (state.recovering and len(state.isr) == 1), "or leads alone, recovering"
            assert former is None or state.leader_epoch >= former.state.leader_epoch
            self.last[topic_partition] = known
        for change, verdict in world.replies[self.heard :]:
            assert change is None or isinstance(verdict, KnownState) or verdict in SURVIVED, "asked by name"
            if change is not None and isinstance(verdict, KnownState):
                topic_partition = TopicPartition(change.topic, change.partition)
                self._is_in_store(topic_partition, change, verdict)
                if (topic_partition, verdict) in fresh:
                    assert set(verdict.state.isr) == set(change.isr), "what is granted is what was asked for"
                    is_there_already = verdict.version == change.partition_epoch
                    assert is_there_already or verdict.version == change.partition_epoch + 1, "on the state asked on"
        self.seen, self.heard = len(world.written), len(world.replies)

    def _is_in_store(self, topic_partition: TopicPartition, change: IsrChange, verdict: KnownState) -> None:
        assert verdict.state.leader_epoch == change.leader_epoch
        world = self.world
        written = [*world.written, *world.written_by_others, (topic_partition, world.state(topic_partition))]
        assert (topic_partition, verdict) in written, "what is granted is, or was, in the store"


def settle(world: World) -> None:
    """The machine hears of everything, all brokers are there, and they answer all they are asked."""
    for broker in BROKERS:
        if not world.tree.stat(paths.broker(BrokerId(broker))):
            world.broker_comes(broker)
    world.look_at_brokers()
    world.look_at_topics()
    world.look_at_deletions()
    for broker in BROKERS:  # What was blocked by a refusal is tried again in another life.
        while world.answers:
            world.answer()
        world.broker_goes(broker)
        world.broker_comes(broker)
        world.look_at_brokers()
    while world.answers:
        world.answer()
    for name, topic in world.topics().items():
        for partition, replicas in topic.replicas.items():
            alter(world, TopicPartition(name, partition), replicas, None, 0, 0, 0)  # Moves end.


@settings(max_examples=300, deadline=None)
@given(st.lists(TROUBLE, min_size=5, max_size=25))
@example([("alter", "a", (2,), None, 0, 0, 0)])  # Refused by the state in force, which is as old as the topic.
@example(  # What is granted was written by the leader itself, and is over again.
    [
        ("shrink", "a"),
        ("topic", "a", [(1,)]),
        ("alter", "a", (1,), None, 0, 0, 0),
        ("shrink", "a"),
        ("alter", "a", (1,), None, 0, -1, 0),
    ]
)
def test_the_store_never_holds_a_bad_state_and_what_is_granted_is_in_it(steps: list[tuple[object, ...]]) -> None:
    world, judge = World(), Judge()
    clerk = Clerk(world)
    for broker in BROKERS:
        world.broker_comes(broker)
    world.elect()
    carry_out(world, ("topic", "a", [(BrokerId(1), BrokerId(2), BrokerId(3))]))
    world.look_at_topics()
    clerk.look()
    for step in steps:
        carry_out(world, step)
        if step[0] == "topic":
            world.look_at_topics()
        clerk.look()
        judge.look(world)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_no_epoch_has_two_leaders_and_every_leader_is_in_sync(steps: list[tuple[object, ...]]) -> None:
    world, judge = World(), Judge()
    for broker in BROKERS:
        world.broker_comes(broker)
    world.elect()
    for step in steps:
        carry_out(world, step)
        judge.look(world)
    settle(world)
    judge.look(world)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_what_brokers_are_told_is_in_the_store_already(steps: list[tuple[object, ...]]) -> None:
    world = World()
    for broker in BROKERS:
        world.broker_comes(broker)
    world.elect()
    for step in steps:
        told = len(world.sent)
        carry_out(world, step)
        for _, command in world.sent[told:]:
            if isinstance(command, LeaderAndIsr):
                for info in command.partitions:
                    stored = world.state(info.topic_partition)
                    if stored is not None and stored.version == info.partition_epoch:
                        assert stored.state == info.state
                    else:
                        assert stored is None or stored.version > info.partition_epoch


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_once_all_is_heard_everything_is_led_or_gone_and_a_new_controller_would_think_the_same(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for broker in BROKERS:
        world.broker_comes(broker)
    world.elect()
    for step in steps:
        carry_out(world, step)
    settle(world)
    before = world.cluster
    assert before is not None
    assert not before.deletions
    assert world.deletions() == frozenset()
    assert before.topics.keys() == world.topics().keys()
    for topic in before.topics.values():
        assert topic.states.keys() == topic.assignment.replicas.keys()
        assert all(known.state.leader is not None for known in topic.states.values())
    world.said.clear()
    world.elect()
    after = world.cluster
    assert after is not None
    assert replace(after, epoch=before.epoch, controller_id=before.controller_id) == before
    assert not any(line.startswith(("set", "create", "delete")) for line in world.said), world.said


def test_a_replica_is_deleted_only_of_a_topic_that_somebody_wants_deleted() -> None:
    world = World()
    world.broker_comes(1)
    world.topic_made("kept", {0: (BrokerId(1),)})
    world.topic_made("gone", {0: (BrokerId(1),)})
    world.elect()
    world.deletion_wanted("gone")
    world.look_at_deletions()
    stopped = {s.topic_partition.topic for _, c in world.sent if isinstance(c, StopReplica) for s in c.partitions}
    assert stopped == {"gone"}


def test_a_state_written_by_another_between_reading_and_deciding_is_not_overwritten() -> None:
    world = World()
    for broker in BROKERS:
        world.broker_comes(broker)
    partition = TopicPartition("t", 0)
    world.topic_made("t", {0: (BrokerId(1), BrokerId(2), BrokerId(3))})
    world.elect()
    smaller = PartitionState(BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(3)), 1)
    world.state_written(partition, smaller)
    world.broker_goes(1)
    world.look_at_brokers()
    known = world.state(partition)
    assert known is not None
    assert known.state.leader == 3, "2 had left the in-sync set, though the controller did not know"


def test_what_the_store_refuses_to_write_for_a_leader_that_asks_by_name_is_to_be_asked_for_again() -> None:
    world = World()
    for broker in BROKERS:
        world.broker_comes(broker)
    world.elect()
    carry_out(world, ("topic", "a", [(BrokerId(1), BrokerId(2))]))
    world.look_at_topics()
    carry_out(world, ("refuse", 1))
    alter(world, TopicPartition("a", 0), (BrokerId(1),), None, 0, 0, 0)
    assert [verdict for _, verdict in world.replies] == [ErrorCode.NOT_CONTROLLER]
