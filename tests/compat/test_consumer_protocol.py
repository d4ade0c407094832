"""librdkafka with `group.protocol=consumer`: the coordinator assigns (KIP-848), and members keep what they may keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.groups.polled import QUICK_MEMBERS, Group, PolledMember, polled_group
from tests.compat.groups.waiting import eventually
from tests.outside.processes import SordiniProcess

FLUSH_S = 20
HEARTBEATS = 50
"""Polls of 20 ms, in which a member sends ten heartbeats."""
MakeTopic = Callable[..., str]
StartSordini = Callable[..., SordiniProcess]


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SordiniProcess]:
    """A broker for this file: use topics of your own."""
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka 3.9 with ZooKeeper does not serve it")
    with SordiniProcess(tmp_path_factory.mktemp("consumer-protocol"), QUICK_MEMBERS) as broker:
        yield broker


@pytest.fixture
def group(quick_broker: SordiniProcess, topic: str) -> Iterator[Group]:
    """A group named as the topic."""
    with polled_group(quick_broker.bootstrap, topic) as group:
        yield group


def create(bootstrap: str, topic: str, partitions: int = 4) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # It lives until the answer is there.
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(FLUSH_S)


def produce(bootstrap: str, topic: str, each: int, partitions: int = 4) -> None:
    """Send as many records to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(each * partitions):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(FLUSH_S) == 0


def members_of(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(FLUSH_S).members)


def test_a_second_member_is_given_half_and_the_first_loses_only_that(group: Group, topic: str) -> None:
    create(group.bootstrap, topic)
    first = group.join(topic)
    group.until_shared(4)
    second = group.join(topic)
    group.until_shared(2, 2)
    assert [change for change, _ in first.changes] == ["assigned", "revoked"]
    assert first.changes[1][1] == second.owned
    assert second.changes == [("assigned", second.owned)]
    produce(group.bootstrap, topic, 25)
    group.until(lambda: len(first.read) + len(second.read) == 100, "they read everything")
    assert Counter(partition for partition, _ in first.read) == dict.fromkeys(first.owned, 25)
    assert Counter(partition for partition, _ in second.read) == dict.fromkeys(second.owned, 25)


def test_a_partition_is_not_given_to_a_member_before_another_one_has_given_it_up(group: Group, topic: str) -> None:
    create(group.bootstrap, topic)
    first = group.join(topic)
    group.until_shared(4)
    second = PolledMember(group.bootstrap, topic, [topic])
    try:
        eventually(lambda: members_of(group.bootstrap, topic) == 2, "the second member joins")
        for _ in range(HEARTBEATS):
            second.poll()  # The first one is not polled: it keeps all that it has.
        assert (len(first.owned), second.owned) == (4, set())
    finally:
        group.members.append(second)
    group.until_shared(2, 2)


def test_the_partitions_of_a_member_that_closes_are_given_to_the_others_before_its_session_ends(
    group: Group, topic: str
) -> None:
    create(group.bootstrap, topic)
    first, second = group.join(topic), group.join(topic)
    group.until_shared(2, 2)
    kept = set(first.owned)
    group.leave(second)
    group.until_shared(4)
    assert first.changes[-1] == ("assigned", first.owned - kept)


def test_a_commit_of_a_member_that_does_not_poll_is_refused_once_its_session_has_ended(
    start_sordini: StartSordini, topic: str
) -> None:
    broker = start_sordini(QUICK_MEMBERS | {"group.consumer.session.timeout.ms": 1_000})
    create(broker.bootstrap, topic, 1)
    produce(broker.bootstrap, topic, 10, 1)
    with polled_group(broker.bootstrap, topic) as group:
        slow = group.join(topic, **{"max.poll.interval.ms": 1_000})
        group.until(lambda: len(slow.read) == 10, "it reads everything")
        group.members.remove(slow)  # It works on its ten records. librdkafka sends no heartbeats then.
        try:
            successor = group.join(topic)
            produce(broker.bootstrap, topic, 10, 1)
            group.until(lambda: len(successor.read) == 20, "the next member reads everything")
            successor.commit()
            with pytest.raises(KafkaException) as raised:
                slow.commit()
            assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
            assert group.committed((topic, 0)) == [20]
        finally:
            group.members.append(slow)


def test_a_member_continues_after_the_offsets_that_were_committed(group: Group, topic: str) -> None:
    create(group.bootstrap, topic)
    produce(group.bootstrap, topic, 10)
    first = group.join(topic)
    group.until(lambda: len(first.read) == 40, "it reads everything")
    first.commit()
    group.leave(first)
    produce(group.bootstrap, topic, 5)
    second = group.join(topic)
    group.until(lambda: len(second.read) == 20, "the next member reads the rest")
    assert {offset for _, offset in second.read} == set(range(10, 15))
    assert group.committed((topic, 0), (topic, 3)) == [10, 10]


def test_a_rolling_restart_of_static_members_moves_no_partition(group: Group, topic: str) -> None:
    create(group.bootstrap, topic)
    instances = ["east", "north", "west"]
    members = {instance: group.join(topic, **{"group.instance.id": instance}) for instance in instances}
    group.until(lambda: sorted(len(member.owned) for member in members.values()) == [1, 1, 2], "they share")
    before = {instance: set(member.owned) for instance, member in members.items()}
    changes = {instance: len(member.changes) for instance, member in members.items()}
    for instance in instances:
        group.leave(members[instance])
        members[instance] = group.join(topic, **{"group.instance.id": instance})
        group.until(lambda: bool(members[instance].owned), f"{instance} has its partitions again")  # noqa: B023
        changes[instance] = 1
        assert {name: member.owned for name, member in members.items()} == before
    assert {name: len(member.changes) for name, member in members.items()} == changes


def test_a_regular_expression_subscribes_to_topics_that_exist_and_to_those_created_later(
    group: Group, topic: str
) -> None:
    for name in (f"{topic}-old", f"other-{topic}-old"):
        create(group.bootstrap, name, 2)
    first = group.join(f"^{topic}-.*")
    group.until_shared(2)
    create(group.bootstrap, f"{topic}-new", 2)
    group.until_shared(4)
    assert {name for name, _ in first.owned} == {f"{topic}-old", f"{topic}-new"}
    produce(group.bootstrap, f"{topic}-new", 3, 2)
    group.until(lambda: len(first.read) == 6, "records of the new topic are read")


def test_offsets_of_a_transaction_are_committed_with_it_or_not_at_all(group: Group, topic: str) -> None:
    create(group.bootstrap, topic)
    produce(group.bootstrap, topic, 5)
    member = group.join(topic)
    group.until(lambda: len(member.read) == 20, "it reads everything")
    producer = Producer({"bootstrap.servers": group.bootstrap, "transactional.id": topic})
    producer.init_transactions(FLUSH_S)

    def offsets(end: int) -> list[TopicPartition]:
        return [TopicPartition(topic, partition, end) for partition in range(4)]

    for end, ends in ((3, producer.commit_transaction), (5, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(f"{topic}-made", b"made")
        producer.send_offsets_to_transaction(offsets(end), member.consumer.consumer_group_metadata(), FLUSH_S)
        ends(FLUSH_S)
    assert group.committed(*((topic, partition) for partition in range(4))) == [3, 3, 3, 3]


def test_members_read_every_record_and_never_what_was_committed_again_when_the_broker_is_killed(
    start_sordini: StartSordini, topic: str
) -> None:
    broker = start_sordini(QUICK_MEMBERS)
    create(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, 200)
    with ExitStack() as opened:
        group = opened.enter_context(polled_group(broker.bootstrap, topic))
        first, second = (group.join(topic, **{"max.partition.fetch.bytes": 400}) for _ in range(2))
        group.until_shared(2, 2)
        group.until(lambda: bool(first.read and second.read), "both read")
        first.commit()
        committed, before = first.ends(), len(first.read)
        broker.kill()
        broker.start()
        produce(broker.bootstrap, topic, 50)
        everything = {((topic, partition), offset) for partition in range(4) for offset in range(250)}
        group.until(lambda: everything == {*first.read, *second.read}, "every record is read", 40)
        again = [row for row in first.read[before:] + second.read if row[1] < committed.get(row[0], 0)]
        assert again == []
        for member in group.members:
            member.commit()
        assert group.committed(*((topic, partition) for partition in range(4))) == [250] * 4
        assert sum(len(member.owned) for member in group.members) == 4
