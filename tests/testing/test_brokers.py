"""Brokers that are killed, stopped, paused, cut off and moved, and a clock that is moved forward."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer
from kafka.errors import OffsetOutOfRangeError

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.testing import Kafka, KitError, make_kafka
from sordini.testing.node_handle import NodeHandle
from tests.support.wire_client import Client


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    with make_kafka(3) as made:
        yield made


@pytest.fixture
def single() -> Iterator[Kafka]:
    with make_kafka() as made:
        yield made


def test_a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(cluster: Kafka) -> None:
    orders = cluster.topic(replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    producer.produce(orders, b"one")
    assert producer.flush(20) == 0
    leader = cluster.leader(orders)
    cluster.brokers[leader - 1].kill()
    producer.produce(orders, b"two")
    assert producer.flush(20) == 0
    assert cluster.leader(orders) != leader
    cluster.brokers[leader - 1].start()
    cluster.assert_produced(orders, ["one", "two"])
    cluster.wait_for(lambda: leader in cluster.in_sync(orders))


def test_a_killed_broker_finds_its_files_again(single: Kafka) -> None:
    orders = single.topic()
    single.produce(orders, ["one", "two"])
    bootstrap = single.bootstrap_servers
    single.brokers[0].kill()
    assert not single.brokers[0].is_running
    with pytest.raises(KitError, match="no broker runs"):
        single.records(orders)
    single.brokers[0].start()
    assert single.bootstrap_servers == bootstrap
    single.assert_produced(orders, ["one", "two"])


def test_a_broker_that_is_stopped_hands_its_leaderships_over(cluster: Kafka) -> None:
    orders = cluster.topic(replicas=3)
    leader = cluster.leader(orders)
    cluster.brokers[leader - 1].stop()
    assert cluster.leader(orders) != leader
    cluster.brokers[leader - 1].start()


def test_a_paused_broker_answers_when_it_goes_on(single: Kafka) -> None:
    orders = single.topic()
    producer = Producer({"bootstrap.servers": single.bootstrap_servers})
    producer.produce(orders, b"zero")
    assert producer.flush(20) == 0
    single.brokers[0].pause()
    producer.produce(orders, b"one")
    assert producer.flush(0.3) == 1
    single.brokers[0].resume()
    assert producer.flush(20) == 0
    single.assert_produced(orders, ["zero", "one"])


def test_a_follower_that_is_cut_off_leaves_the_in_sync_set_and_comes_back(cluster: Kafka) -> None:
    orders = cluster.topic(replicas=3)
    leader = cluster.leader(orders)
    # The controller could not be asked by the leader to shrink the in-sync set.
    follower = next(broker for broker in cluster.brokers if broker.id not in (leader, cluster.controller()))
    follower.partition_from(leader)
    cluster.produce(orders, "one", acks=1)
    cluster.clock.advance(60)
    cluster.wait_for(lambda: follower.id not in cluster.in_sync(orders))
    follower.heal()
    cluster.wait_for(lambda: follower.id in cluster.in_sync(orders))


def test_settings_of_a_group_are_in_force_at_every_broker_and_at_one_that_was_away(cluster: Kafka) -> None:
    key, group = "consumer.session.timeout.ms", "billing"
    first, second, away = cluster.brokers

    def described(broker: NodeHandle) -> str | None:
        resource = DescribeConfigsResource(resource_type=32, resource_name=group, configuration_keys=[key])
        with connected(broker) as client:
            answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]))
        (row,) = answer.results[0].configs
        return str(row.value)

    away.stop()
    entry = AlterableConfig(name=key, value="50000")
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[entry])
    with connected(first) as client:
        answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0
    assert described(first) == "50000"
    cluster.wait_for(lambda: described(second) == "50000")
    away.start()
    cluster.wait_for(lambda: described(away) == "50000")


def connected(broker: NodeHandle) -> Client:
    host, _, port = broker.bootstrap_server.rpartition(":")
    return Client(host, int(port))


def test_a_leader_is_moved_to_where_the_test_says(cluster: Kafka) -> None:
    orders = cluster.topic(replicas=3)
    before = cluster.leader(orders)
    moved = cluster.move_leader(orders)
    assert moved != before
    assert cluster.leader(orders) == moved
    target = next(broker.id for broker in cluster.brokers if broker.id not in (before, moved))
    assert cluster.move_leader(orders, to=target) == target == cluster.leader(orders)
    with pytest.raises(KitError, match="broker 7 cannot lead partition 0 of topic"):
        cluster.move_leader(orders, to=7)


def test_a_full_disk_refuses_records_until_there_is_room(single: Kafka) -> None:
    orders = single.topic()
    single.brokers[0].disk_full()
    producer = Producer(
        {
            "bootstrap.servers": single.bootstrap_servers,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "log_level": 0,
        }
    )
    producer.produce(orders, b"one")
    assert producer.flush(0.3) == 1
    single.brokers[0].heal_disk()
    assert producer.flush(20) == 0
    single.assert_produced(orders, ["one"])


def test_a_member_that_is_expelled_joins_again(single: Kafka) -> None:
    orders = single.topic()
    single.produce(orders, ["one"])
    reader = Consumer(
        {
            "bootstrap.servers": single.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )
    assigned: list[int] = []
    reader.subscribe([orders], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    single.wait_for(lambda: reader.poll(0.05) is not None)
    single.expel("shop")
    single.wait_for(lambda: reader.poll(0.05) is None and len(assigned) == 2)
    assert len(single.members("shop")) == 1
    reader.close()


def test_a_member_whose_session_ends_by_the_brokers_clock_is_gone(single: Kafka) -> None:
    orders = single.topic()
    reader = Consumer(
        {
            "bootstrap.servers": single.bootstrap_servers,
            "group.id": "shop",
            "session.timeout.ms": 45_000,
            "log_level": 0,
        }
    )
    reader.subscribe([orders])
    single.wait_for(lambda: reader.poll(0.05) is None and len(single.members("shop")) == 1)
    (first,) = single.members("shop")
    single.clock.advance(46)
    assert first.id not in {member.id for member in single.members("shop")}
    reader.close()


def test_records_are_gone_after_their_retention(single: Kafka) -> None:
    orders = single.topic(config={"retention.ms": 3_600_000, "segment.ms": 600_000})
    single.produce(orders, ["old"])
    single.clock.advance(601)
    single.produce(orders, ["new"], timestamp_ms=single.clock.now_ms())
    single.clock.advance(3_300)
    single.assert_produced(orders, ["new"])


def test_an_expired_topic_puts_a_reader_out_of_range(single: Kafka) -> None:
    orders = single.topic()
    single.produce(orders, ["one", "two"])
    single.expire(orders)
    reader = KafkaConsumer(
        bootstrap_servers=single.bootstrap_servers, auto_offset_reset="none", enable_auto_commit=False
    )
    from kafka import TopicPartition as Partition

    reader.assign([Partition(orders, 0)])
    reader.seek(Partition(orders, 0), 0)
    with pytest.raises(OffsetOutOfRangeError):
        reader.poll(5_000)
    reader.close()


def test_a_transactional_producer_is_fenced(single: Kafka) -> None:
    orders = single.topic()
    producer = Producer({"bootstrap.servers": single.bootstrap_servers, "transactional.id": "till", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(orders, b"one")
    producer.flush(20)
    single.fence("till")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(20)
    assert refused.value.args[0].fatal()
    single.assert_produced(orders, [])


def test_a_transaction_is_read_when_it_is_committed(single: Kafka) -> None:
    orders = single.topic()
    producer = Producer({"bootstrap.servers": single.bootstrap_servers, "transactional.id": "till"})
    producer.init_transactions(20)
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(orders, str(number))
        producer.flush(20)
        end(20)
    single.assert_produced(orders, ["0", "2"])
    assert [record.text for record in single.records(orders, isolation="read_uncommitted")] == ["0", "1", "2"]


def test_the_lag_of_a_group_is_reported_when_it_does_not_consume(single: Kafka) -> None:
    orders = single.topic()
    single.produce(orders, ["one", "two"])
    with pytest.raises(KitError, match="group 'shop' is at most 0 records behind; left are 2 of topic"):
        single.wait_until_consumed("shop", orders, timeout_s=0.05)


async def test_a_group_is_waited_for_until_it_has_committed(single: Kafka) -> None:
    orders = await asyncio.to_thread(single.topic)
    await asyncio.to_thread(single.produce, orders, ["one", "two"])
    reader = AIOKafkaConsumer(
        orders,
        bootstrap_servers=single.bootstrap_servers,
        group_id="shop",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=50,
    )
    await reader.start()
    for _ in range(2):
        await reader.getone()
    await asyncio.to_thread(single.wait_until_consumed, "shop")
    assert await asyncio.to_thread(single.committed, "shop") == {(orders, 0): 2}
    await reader.stop()


def test_the_difference_of_records_is_readable(single: Kafka) -> None:
    orders = single.topic()
    single.produce(orders, ["one", "three"])
    with pytest.raises(AssertionError) as failed:
        single.assert_produced(orders, ["one", "two"])
    assert str(failed.value) == (
        f"topic {orders!r} has other records than expected:\n  0: 'one'\n- 1: expected 'two'\n"
        f"+ 1: found 'three' at {orders}-0@1"
    )
    with pytest.raises(AssertionError, match=r"- missing: 'two'\n\+ not expected: 'three' at"):
        single.assert_produced(orders, ["two", "one"], in_order=False)


def test_nothing_is_left_of_a_cluster_that_was_closed() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with make_kafka(3) as kafka:
        orders = kafka.topic()
        kafka.produce(orders, ["one"])
        bootstrap = kafka.bootstrap_servers
    assert {thread.name for thread in threading.enumerate()} == before
    host, port = bootstrap.split(",")[0].split(":")
    import socket

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1)
    kafka.close()


def test_wrong_settings_are_refused_by_their_name() -> None:
    with pytest.raises(ValueError, match="brokers=0: allowed is a whole number from 1 to 9"):
        make_kafka(0)
    with (
        pytest.raises(Exception, match=r"min\.insync\.replicas='none'"),
        make_kafka(config={"min.insync.replicas": "none"}),
    ):
        pass
    with pytest.raises(Exception, match=r"min\.insync\.replica' is not a key of a broker"):
        make_kafka(config={"min.insync.replica": 2}).start()
