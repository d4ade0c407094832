"""Consumer groups (KIP-848) on the kit: librdkafka's members with `group.protocol=consumer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError

from sordini.broker.groups.consumer.machine import record_formats
from sordini.broker.groups.consumer.machine.changes import GroupEpoch, GroupEpochChange
from sordini.broker.groups.consumer.machine.topic_hashes import NO_TOPICS, group_hash, topic_hash
from sordini.protocol.types import TopicId
from sordini.testing import Kafka, KitRecord, make_kafka
from tests.support.group_consumer import GroupConsumer, joined, poll_until

Join = Callable[..., GroupConsumer]


@pytest.fixture
def join(broker: Kafka) -> Iterator[Join]:
    """Members of groups, which leave at the end of the test."""
    with ExitStack() as stack:
        yield lambda *names, **settings: stack.enter_context(joined(broker.bootstrap_servers, *names, **settings))


def test_members_share_partitions_and_offsets_are_those_of_the_group(broker: Kafka, join: Join) -> None:
    orders = broker.topic(partitions=2)
    broker.produce(orders, ["figs", "dates"], partition=0)
    broker.produce(orders, "grapes", partition=1)
    first = join("sharing", orders)
    poll_until([first], lambda: len(first.values) == 3)
    second = join("sharing", orders)
    poll_until([first, second], lambda: len(second.partitions) == 1 == len(first.partitions))
    assert len(broker.members("sharing")) == 2
    poll_until([first, second], lambda: broker.lag("sharing", orders) == 0)
    assert broker.committed("sharing") == {(orders, 0): 2, (orders, 1): 1}
    broker.wait_until_consumed("sharing")


def test_members_of_both_protocols_in_one_group_are_listed(broker: Kafka, join: Join) -> None:
    orders = broker.topic(partitions=2)
    old = join("mixed", orders, **{"group.protocol": "classic", "heartbeat.interval.ms": 50})
    poll_until([old], lambda: len(old.partitions) == 2)
    assert len(broker.members("mixed")) == 1
    new = join("mixed", orders)
    poll_until([old, new], lambda: len(new.partitions) == 1 == len(old.partitions))
    assert len(broker.members("mixed")) == 2


def test_a_group_that_does_not_exist_has_no_members(broker: Kafka) -> None:
    assert broker.members("unknown") == []


def test_a_member_that_is_expelled_loses_its_partitions_and_joins_again(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    broker.produce(orders, "one")
    member = join("expelled", orders)
    poll_until([member], lambda: member.values == [b"one"])
    broker.wait_until_consumed("expelled", orders)
    broker.expel("expelled")
    poll_until([member], lambda: member.losses == 1 and member.partitions == [0])
    assert len(broker.members("expelled")) == 1
    broker.produce(orders, "two")
    poll_until([member], lambda: member.values[-1:] == [b"two"])


def test_the_session_of_a_member_whose_heartbeats_are_held_ends_by_the_brokers_clock(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    broker.produce(orders, "one")
    member = join("absent", orders)
    # A group without members and offsets is removed; to a client, a group that is gone is a fatal error.
    poll_until([member], lambda: broker.committed("absent") == {(orders, 0): 1})
    with broker.on("ConsumerGroupHeartbeat", group="absent").hold(before=True):
        broker.clock.advance(46)
        assert broker.members("absent") == []
    poll_until([member], lambda: member.losses == 1 and member.partitions == [0])
    assert any("member fenced" in line and "session expired" in line for line in broker.log_lines())


def test_a_member_that_a_rule_fences_joins_again(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    member = join("fenced", orders)
    poll_until([member], lambda: member.partitions == [0])
    with broker.on("ConsumerGroupHeartbeat", group="fenced", times=1).fail("FENCED_MEMBER_EPOCH") as rule:
        poll_until([member], lambda: member.losses == 1 and member.partitions == [0])
    assert rule.used == 1


def test_a_member_gets_no_partitions_while_the_answer_to_its_heartbeat_is_held(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    with broker.on("ConsumerGroupHeartbeat", topic=orders, times=1).hold() as rule:
        member = join("held", orders)
        poll_until([member], lambda: rule.used == 1)
        assert member.partitions == []
        assert len(broker.members("held")) == 1, "the request was handled"
        rule.release()
        poll_until([member], lambda: member.partitions == [0])


def test_an_assignor_that_is_refused_is_a_fatal_error_of_the_client(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    with broker.on("ConsumerGroupHeartbeat", group="assigned").fail("UNSUPPORTED_ASSIGNOR"):
        member = join("assigned", orders)
        poll_until([member], lambda: member.errors != [])
    assert [error.code() for error in member.errors] == [KafkaError._FATAL]


def test_requests_about_a_group_are_selected_by_it(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    member = join("seen", orders)
    poll_until([member], lambda: member.partitions == [0])
    beats = broker.requests("ConsumerGroupHeartbeat", when=lambda seen: seen.body.group_id == "seen")
    assert [beats[0].body.member_epoch, beats[0].body.subscribed_topic_names] == [0, [orders]]


def test_the_hash_in_a_groups_record_is_of_its_topics_and_the_racks_of_their_replicas() -> None:
    with make_kafka(3, config={"broker.rack": "rack-a"}) as kafka:
        orders = kafka.topic(partitions=2, replicas=2)
        with joined(kafka.bootstrap_servers, "hashed", orders) as member:
            poll_until([member], lambda: member.partitions == [0, 1])
        (topic,) = kafka._client.metadata(orders).topics
        epochs = [
            change.value
            for record in kafka.records("__consumer_offsets")
            if (change := group_change(record)) is not None
        ]
    hashed = group_hash([topic_hash(orders, TopicId(topic.topic_id), [("rack-a", "rack-a")] * 2)])
    assert epochs == [GroupEpoch(2, hashed), GroupEpoch(3, NO_TOPICS)], "the member joined, and left"


def group_change(record: KitRecord) -> GroupEpochChange | None:
    """The new epoch of a group, of a record that is of one."""
    assert record.key is not None
    found = record_formats.read(record.key, record.value)
    return found.change if isinstance(getattr(found, "change", None), GroupEpochChange) else None
