"""Faults by script, seen by clients: librdkafka (C), aiokafka and kafka-python."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CorruptRecordException
from confluent_kafka import KafkaError
from kafka import KafkaProducer

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.testing import Kafka
from sordini.testing.faults.names import api_of, code_of
from tests.testing.clients import producer


def test_a_produce_that_fails_twice_is_retried_with_the_same_sequence(broker: Kafka) -> None:
    orders = broker.topic()
    with broker.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS") as rule:
        one = producer(broker)
        one.produce(orders, b"one")
        assert one.flush(20) == 0
    assert rule.used == 2
    broker.assert_produced(orders, ["one"])
    sent = broker.requests("Produce")
    assert [request.sequences for request in sent] == [[(orders, 0, 0)]] * 3
    assert [request.fault is None for request in sent] == [False, False, True]


def test_an_error_that_is_final_reaches_the_client(broker: Kafka) -> None:
    orders = broker.topic()
    errors: list[KafkaError | None] = []
    one = producer(broker)
    with broker.on("PRODUCE", topic=orders).fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        one.produce(orders, b"one", on_delivery=lambda error, _: errors.append(error))
        one.flush(20)
    assert [error.code() for error in errors if error] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    broker.assert_produced(orders, [])


def test_only_the_selected_topic_and_partition_of_a_request_fails(broker: Kafka) -> None:
    good, bad = broker.topic(), broker.topic(partitions=2)
    sender = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retries=0, linger_ms=200, acks="all")
    with broker.on("Produce", topic=bad, partition=1).fail("INVALID_RECORD"):
        sends = [
            sender.send(good, b"g", partition=0),
            sender.send(bad, b"b0", partition=0),
            sender.send(bad, b"b1", partition=1),
        ]
        sender.flush(20)
    sender.close()
    assert [send.succeeded() for send in sends] == [True, True, False]
    broker.assert_produced(good, ["g"])
    broker.assert_produced(bad, ["b0"])


def test_a_held_response_leaves_when_the_test_says_so(broker: Kafka) -> None:
    orders = broker.topic()
    delivered: list[int] = []
    one = producer(broker)
    with broker.on("Produce", topic=orders, times=1).hold() as rule:
        one.produce(orders, b"one", on_delivery=lambda _, message: delivered.append(message.offset()))
        broker.wait_for(lambda: rule.used == 1)
        broker.assert_produced(orders, ["one"])
        one.poll(0.05)
        assert delivered == []
        rule.release()
        one.flush(20)
    assert delivered == [0]


def test_a_request_that_is_held_before_it_is_handled_has_done_nothing(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker)
    with broker.on("Produce", topic=orders, times=1).hold(before=True) as rule:
        one.produce(orders, b"one")
        broker.wait_for(lambda: rule.used == 1)
        broker.assert_produced(orders, [])
    assert one.flush(20) == 0
    broker.assert_produced(orders, ["one"])


def test_a_response_that_is_lost_after_the_append_is_sent_again_and_appended_once(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker)
    with broker.on("Produce", topic=orders, times=1).close_connection(after=True):
        one.produce(orders, b"one")
        assert one.flush(20) == 0
    broker.assert_produced(orders, ["one"])
    assert len(broker.requests("Produce")) == 2


def test_without_idempotence_the_same_fault_makes_a_duplicate(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker, **{"enable.idempotence": False})
    with broker.on("Produce", topic=orders, times=1).close_connection(after=True):
        one.produce(orders, b"one")
        assert one.flush(20) == 0
    broker.assert_produced(orders, ["one", "one"])


def test_a_response_that_never_comes_ends_in_the_clients_timeout_and_a_retry(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker, **{"socket.timeout.ms": 300, "message.timeout.ms": 20_000, "request.timeout.ms": 300})
    with broker.on("Produce", topic=orders, times=1).drop_answer():
        one.produce(orders, b"one")
        assert one.flush(20) == 0
    broker.assert_produced(orders, ["one"])


def test_a_request_that_is_dropped_is_not_handled(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker, **{"message.timeout.ms": 1_500, "request.timeout.ms": 300, "socket.timeout.ms": 300})
    errors: list[KafkaError | None] = []
    with broker.on("Produce", topic=orders).drop_request() as rule:
        one.produce(orders, b"one", on_delivery=lambda error, _: errors.append(error))
        one.flush(20)
    assert rule.used >= 1
    assert [error.code() for error in errors if error] == [KafkaError._MSG_TIMED_OUT]
    broker.assert_produced(orders, [])


async def test_a_damaged_batch_is_noticed_by_the_consumer_and_read_again(broker: Kafka) -> None:
    orders = await asyncio.to_thread(broker.topic)
    await asyncio.to_thread(broker.produce, orders, [b"x" * 1000])
    reader = AIOKafkaConsumer(orders, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    await reader.start()
    with broker.on("Fetch", topic=orders).corrupt(), pytest.raises(CorruptRecordException):
        await reader.getone()
    assert (await reader.getone()).value == b"x" * 1000
    await reader.stop()


async def test_a_delayed_response_is_waited_for_by_aiokafka_and_the_loop_goes_on(broker: Kafka) -> None:
    orders = await asyncio.to_thread(broker.topic)
    sender = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    await sender.start()
    with broker.on("Produce", topic=orders, times=1).delay(200) as rule:
        sent = asyncio.ensure_future(sender.send_and_wait(orders, b"one"))
        await asyncio.to_thread(broker.wait_for, lambda: rule.used == 1)
        assert not sent.done()
        assert (await sent).offset == 0
    await sender.stop()


async def test_a_coordinator_that_moves_is_found_again_by_aiokafka(broker: Kafka) -> None:
    orders = await asyncio.to_thread(broker.topic)
    await asyncio.to_thread(broker.produce, orders, ["one", "two"])
    reader = AIOKafkaConsumer(
        orders,
        bootstrap_servers=broker.bootstrap_servers,
        group_id="movers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=20,
    )
    await reader.start()
    with broker.on("OffsetCommit", group="movers", times=2).fail("NOT_COORDINATOR") as rule:
        await reader.getone()
        await reader.commit()
    await reader.stop()
    assert rule.used == 2
    assert broker.committed("movers") == {(orders, 0): 1}


def test_requests_pass_before_a_rule_acts_when_it_says_so(broker: Kafka) -> None:
    orders = broker.topic()
    one = producer(broker, **{"enable.idempotence": False, "retries": 0})
    failed: list[bool] = []
    with broker.on("Produce", topic=orders, after=2, times=1).fail("INVALID_RECORD"):
        for number in range(4):
            one.produce(orders, str(number), on_delivery=lambda error, _: failed.append(error is not None))
            one.flush(20)
    assert failed == [False, False, True, False]


def test_names_are_those_of_the_protocol_and_an_error_suggests_the_nearest() -> None:
    assert api_of("Produce") is api_of("PRODUCE") is api_of(ApiKey.PRODUCE) is ApiKey.PRODUCE
    assert api_of("OffsetCommit") is api_of("offset_commit") is ApiKey.OFFSET_COMMIT
    assert code_of("NOT_ENOUGH_REPLICAS") is code_of(19) is ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(ValueError, match="no API 'Prodduce': did you mean Produce"):
        api_of("Prodduce")
    with pytest.raises(ValueError, match="no error code 'NOT_ENOUGH_REPLICA': did you mean NOT_ENOUGH_REPLICAS"):
        code_of("NOT_ENOUGH_REPLICA")


def test_a_rule_does_one_thing(broker: Kafka) -> None:
    with pytest.raises(ValueError, match="this rule fails already"):
        broker.on("Produce").fail("INVALID_RECORD").delay(1)


def test_what_was_injected_is_reported(broker: Kafka) -> None:
    orders = broker.topic()
    with broker.on("Produce", topic=orders, times=1).fail("NOT_ENOUGH_REPLICAS"):
        one = producer(broker)
        one.produce(orders, b"one")
        one.flush(20)
    report = broker.report()
    assert f"Produce of topic {orders} fails with NOT_ENOUGH_REPLICAS, used 1 of 1 times" in report
    assert "-> broker 1: Produce v" in report
