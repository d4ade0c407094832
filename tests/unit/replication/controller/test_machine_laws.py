"""Invariants of the controller's machine under any events in any order."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import KnownState, LeaderAndIsr, PartitionState, StopReplica
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import (
    ElectionsRequested,
    IsrChange,
    IsrChangesRequested,
    ReassignmentsRequested,
    ShutdownRequested,
)
from sordini.replication.metadata_store import paths
from tests.support.controller_machine_harness import MachineHarness
from tests.support.parts import examples

BROKERS = (1, 2, 3)
TOPICS = ("a", "b")
SURVIVED = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""After these codes, leaders of Apache Kafka 2.7 and 2.8 retry, or continue with the next leader epoch."""
PARTITION = st.permutations(BROKERS).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(BrokerId(b) for b in order[:count]))
)
ALTER = st.builds(
    lambda topic, isr, sender, epoch, version, epoch_shift: ("alter", topic, isr, sender, epoch, version, epoch_shift),
    st.sampled_from(("a", "a", "a", "b")),
    PARTITION,
    # Mostly the known leader; sometimes another broker, another incarnation, or another state.
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
    st.tuples(st.just("read"), st.just("brokers")),
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
        st.tuples(st.just("read"), st.sampled_from(("brokers", "topics", "deletions"))),
        st.tuples(st.just("elect-leader"), st.sampled_from(ElectionType), st.sampled_from(TOPICS), st.integers(0, 1)),
        st.tuples(st.just("reassign"), st.sampled_from(TOPICS), st.integers(0, 1), PARTITION),
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


class LeadershipChecker:
    """Records the leader of each epoch, per incarnation of a partition."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[TopicPartition, bytes, int], BrokerId | None] = {}
        self.seen = 0

    def check(self, harness: MachineHarness) -> None:
        for _, command in harness.sent[self.seen :]:
            if isinstance(command, LeaderAndIsr):
                for info in command.partitions:
                    key = (info.topic_partition, info.topic_id, info.state.leader_epoch)
                    assert self.leaders.setdefault(key, info.state.leader) == info.state.leader, key
        self.seen = len(harness.sent)
        if harness.cluster is not None:
            for topic in harness.cluster.topics.values():
                for partition, known in topic.states.items():
                    assert known.state.isr, "the in-sync set is never empty"
                    assert known.state.leader is None or known.state.leader in known.state.isr
                    assert set(known.state.isr) <= set(topic.assignment.replicas[partition])


def carry_out(harness: MachineHarness, step: tuple[object, ...]) -> None:
    match step:
        case ("flip", int(broker)):
            flip(harness, broker)
        case ("bounce", int(broker)) if harness.tree.stat(paths.broker(BrokerId(broker))):
            harness.fail_broker(broker)
            harness.register_broker(broker)
        case ("topic", str(name), list(replicas)) if not harness.tree.stat(paths.topic(name)):
            number = len(harness.sent).to_bytes(4, "big") + name.encode()
            harness.create_topic(name, dict(enumerate(replicas)), topic_id=number.ljust(16, b"."))
        case ("delete", str(name)) if harness.tree.stat(paths.topic(name)):
            if not harness.tree.stat(paths.delete_topic(name)):
                harness.request_deletion(name)
        case ("shrink", str(name)):
            shrink(harness, TopicPartition(name, 0))
        case ("elect", int(broker)):
            harness.elect(broker)
        case ("answer", int(error)) if harness.unanswered and harness.cluster is not None:
            harness.answer_stop_replica(error)
        case ("read", "brokers"):
            harness.read_brokers()
        case ("read", "topics"):
            harness.read_topics()
        case ("read", "deletions"):
            harness.read_topics()
            harness.read_deletions()
        case ("elect-leader", ElectionType() as election, str(name), int(partition)):
            harness.feed(ElectionsRequested(election, (TopicPartition(name, partition),)))
        case ("reassign", str(name), int(partition), tuple(target)):
            harness.feed(ReassignmentsRequested({TopicPartition(name, partition): target}))
        case ("allow unclean", str(name)):
            harness.allow_unclean(name)
        case ("balance", int(percentage)):
            harness.rebalance(percentage)
        case ("shutdown", int(broker)):
            harness.feed(ShutdownRequested(BrokerId(broker), None))
        case ("directory", int(broker), str(name), int(code)):
            fail(harness, broker, TopicPartition(name, 0), code)
        case ("alter", str(name), tuple(isr), sender, int(epoch), int(version), int(epoch_shift)):
            alter(harness, TopicPartition(name, 0), isr, sender, epoch, version, epoch_shift)
        case ("shrink while it writes", str(name)):
            harness.before_write = lambda _: once(harness, lambda: shrink(harness, TopicPartition(name, 0)))
        case ("refuse", int(count)):
            left = iter(range(count))
            harness.is_refused = lambda _: next(left, None) is not None


def flip(harness: MachineHarness, broker: int) -> None:
    if harness.tree.stat(paths.broker(BrokerId(broker))):
        harness.fail_broker(broker)
    else:
        harness.register_broker(broker)


def shrink(harness: MachineHarness, topic_partition: TopicPartition) -> None:
    """A leader of an old protocol writes a smaller in-sync set itself."""
    known = harness.state(topic_partition)
    if known is not None and known.state.leader is not None:
        harness.write_state(topic_partition, known.state._replace(isr=(known.state.leader,)))


def once(harness: MachineHarness, act: Callable[[], None]) -> None:
    harness.before_write = lambda _: None
    act()


def fail(harness: MachineHarness, broker: int, topic_partition: TopicPartition, code: int) -> None:
    """A broker answers the last command with this code for one partition."""
    announced = any(receiver == broker and isinstance(command, LeaderAndIsr) for receiver, command in harness.sent)
    if harness.cluster is not None and announced:
        harness.answer_leader_and_isr(broker, {topic_partition: code})


def alter(
    harness: MachineHarness,
    topic_partition: TopicPartition,
    isr: tuple[BrokerId, ...],
    sender: object,
    epoch: int,
    version: int,
    epoch_shift: int,
) -> None:
    """A present or former leader requests an ISR change, possibly on an outdated state."""
    known = harness.state(topic_partition)
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
    harness.feed(IsrChangesRequested(BrokerId(leader), harness.epoch_of(leader) + epoch_shift, (change,)))


class ReplyChecker:
    """Follows what is in the store, write by write, and what was replied meanwhile."""

    def __init__(self, harness: MachineHarness) -> None:
        self.harness = harness
        self.last: dict[TopicPartition, KnownState] = {}
        self.seen = 0
        self.replies_seen = 0

    def check(self) -> None:
        harness = self.harness
        fresh = harness.written[self.seen :]
        for topic_partition, known in fresh:
            state, former = known.state, self.last.get(topic_partition)
            assert state.isr, "the in-sync set is never empty"
            assert state.leader is None or state.leader in state.isr, "the leader is in sync"
            if former is not None and former.state.leader != state.leader:
                assert state.leader_epoch > former.state.leader_epoch, "every leader has an epoch of its own"
                was_in_sync = state.leader is None or state.leader in former.state.isr
                assert was_in_sync or topic_partition.topic in harness.unclean, "the leader was in sync"
                assert was_in_sync or (state.recovering and len(state.isr) == 1), "or leads alone, recovering"
            assert former is None or state.leader_epoch >= former.state.leader_epoch
            self.last[topic_partition] = known
        for change, result in harness.replies[self.replies_seen :]:
            assert change is None or isinstance(result, KnownState) or result in SURVIVED, "requested by name"
            if change is not None and isinstance(result, KnownState):
                topic_partition = TopicPartition(change.topic, change.partition)
                self._is_in_store(topic_partition, change, result)
                if (topic_partition, result) in fresh:
                    assert set(result.state.isr) == set(change.isr), "the accepted ISR is the requested one"
                    is_there_already = result.version == change.partition_epoch
                    assert is_there_already or result.version == change.partition_epoch + 1, (
                        "based on the requested state"
                    )
        self.seen, self.replies_seen = len(harness.written), len(harness.replies)

    def _is_in_store(self, topic_partition: TopicPartition, change: IsrChange, result: KnownState) -> None:
        assert result.state.leader_epoch == change.leader_epoch
        harness = self.harness
        written = [*harness.written, *harness.written_by_others, (topic_partition, harness.state(topic_partition))]
        assert (topic_partition, result) in written, "the accepted state is, or was, in the store"


def settle(harness: MachineHarness) -> None:
    """The machine processes all changes, all brokers are registered, and they answer all commands."""
    for broker in BROKERS:
        if not harness.tree.stat(paths.broker(BrokerId(broker))):
            harness.register_broker(broker)
    harness.read_brokers()
    harness.read_topics()
    harness.read_deletions()
    for broker in BROKERS:  # A deletion blocked by a failure is repeated for the next incarnation.
        while harness.unanswered:
            harness.answer_stop_replica()
        harness.fail_broker(broker)
        harness.register_broker(broker)
        harness.read_brokers()
    while harness.unanswered:
        harness.answer_stop_replica()
    for name, topic in harness.topics().items():
        for partition, replicas in topic.replicas.items():
            alter(harness, TopicPartition(name, partition), replicas, None, 0, 0, 0)  # Moves end.


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(TROUBLE, min_size=5, max_size=25))
@example([("alter", "a", (2,), None, 0, 0, 0)])  # Rejected by the current state, which is as old as the topic.
@example(  # The accepted ISR was written by the leader itself, and has been replaced.
    [
        ("shrink", "a"),
        ("topic", "a", [(1,)]),
        ("alter", "a", (1,), None, 0, 0, 0),
        ("shrink", "a"),
        ("alter", "a", (1,), None, 0, -1, 0),
    ]
)
def test_the_store_never_contains_an_invalid_state_and_contains_every_accepted_isr(
    steps: list[tuple[object, ...]],
) -> None:
    harness, leaders = MachineHarness(), LeadershipChecker()
    replies = ReplyChecker(harness)
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.elect()
    carry_out(harness, ("topic", "a", [(BrokerId(1), BrokerId(2), BrokerId(3))]))
    harness.read_topics()
    replies.check()
    for step in steps:
        carry_out(harness, step)
        if step[0] == "topic":
            harness.read_topics()
        replies.check()
        leaders.check(harness)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_no_epoch_has_two_leaders_and_every_leader_is_in_sync(steps: list[tuple[object, ...]]) -> None:
    harness, leaders = MachineHarness(), LeadershipChecker()
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.elect()
    for step in steps:
        carry_out(harness, step)
        leaders.check(harness)
    settle(harness)
    leaders.check(harness)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_states_sent_to_brokers_are_in_the_store_already(steps: list[tuple[object, ...]]) -> None:
    harness = MachineHarness()
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.elect()
    for step in steps:
        announced = len(harness.sent)
        carry_out(harness, step)
        for _, command in harness.sent[announced:]:
            if isinstance(command, LeaderAndIsr):
                for info in command.partitions:
                    stored = harness.state(info.topic_partition)
                    if stored is not None and stored.version == info.partition_epoch:
                        assert stored.state == info.state
                    else:
                        assert stored is None or stored.version > info.partition_epoch


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_once_all_events_are_processed_every_partition_is_led_or_deleted_and_a_new_controller_has_the_same_state(
    steps: list[tuple[object, ...]],
) -> None:
    harness = MachineHarness()
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.elect()
    for step in steps:
        carry_out(harness, step)
    settle(harness)
    before = harness.cluster
    assert before is not None
    assert not before.deletions
    assert harness.deletions() == frozenset()
    assert before.topics.keys() == harness.topics().keys()
    for topic in before.topics.values():
        assert topic.states.keys() == topic.assignment.replicas.keys()
        assert all(known.state.leader is not None for known in topic.states.values())
    harness.lines.clear()
    harness.elect()
    after = harness.cluster
    assert after is not None
    assert after._replace(epoch=before.epoch, controller_id=before.controller_id) == before
    assert not any(line.startswith(("set", "create", "delete")) for line in harness.lines), harness.lines


def test_only_replicas_of_topics_requested_to_be_deleted_are_deleted() -> None:
    harness = MachineHarness()
    harness.register_broker(1)
    harness.create_topic("kept", {0: (BrokerId(1),)})
    harness.create_topic("gone", {0: (BrokerId(1),)})
    harness.elect()
    harness.request_deletion("gone")
    harness.read_deletions()
    stopped = {s.topic_partition.topic for _, c in harness.sent if isinstance(c, StopReplica) for s in c.partitions}
    assert stopped == {"gone"}


def test_a_state_written_by_another_between_reading_and_deciding_is_not_overwritten() -> None:
    harness = MachineHarness()
    for broker in BROKERS:
        harness.register_broker(broker)
    partition = TopicPartition("t", 0)
    harness.create_topic("t", {0: (BrokerId(1), BrokerId(2), BrokerId(3))})
    harness.elect()
    smaller = PartitionState(BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(3)), 1)
    harness.write_state(partition, smaller)
    harness.fail_broker(1)
    harness.read_brokers()
    known = harness.state(partition)
    assert known is not None
    assert known.state.leader == 3, "2 had left the in-sync set, though the controller did not know"


def test_a_leader_that_names_its_topic_repeats_a_change_that_the_store_refused() -> None:
    harness = MachineHarness()
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.elect()
    carry_out(harness, ("topic", "a", [(BrokerId(1), BrokerId(2))]))
    harness.read_topics()
    carry_out(harness, ("refuse", 1))
    alter(harness, TopicPartition("a", 0), (BrokerId(1),), None, 0, 0, 0)
    assert [result for _, result in harness.replies] == [ErrorCode.NOT_CONTROLLER]
