"""A test that is wrong is told so: rules that cannot mean anything, texts where several are meant, conditions that fail."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS
from sordini.testing import Kafka, KitError, Sasl, make_kafka
from sordini.testing.arguments import ArgumentRefused
from sordini.testing.faults.mentions import mentioned
from sordini.testing.owned_keys import OWNED_KEYS
from tests.testing.clients import producer
from tests.testing.conftest import Controlled

SELECTIONS: list[tuple[dict[str, Any], str]] = [
    ({"api": "Produce", "group": "shop"}, "a request Produce names no group; it can be selected by topic, partition"),
    ({"api": "Heartbeat", "topic": "orders"}, "a request Heartbeat names no topic; it can be selected by group, "),
    ({"api": "Heartbeat", "partition": 0}, "a request Heartbeat names no partition"),
    ({"api": "Metadata", "topic": "orders", "partition": 0}, "a request Metadata names no partition"),
    ({"api": "DescribeGroups", "member_id": "a"}, "a request DescribeGroups names no member id"),
    ({"api": "Heartbeat", "assignor": "range"}, "a request Heartbeat names no assignor"),
    ({"api": "Heartbeat", "member_id": 7}, "allowed is a text"),
    ({"api": "JoinGroup", "assignor": ""}, "allowed is a text"),
    ({"api": "Fetch", "transactional_id": "a"}, "a request Fetch names no transactional id"),
    ({"api": "Produce", "broker": 7}, "allowed is one of the brokers: 1"),
    ({"api": "Produce", "broker": "1"}, "allowed is a whole number from 1 on"),
    ({"api": "Produce", "topic": ["orders"]}, "allowed is a text"),
    ({"api": "Produce", "topic": ""}, "allowed is a text"),
    ({"api": "Produce", "partition": -1}, "allowed is a whole number from 0 to 2147483647"),
    ({"api": "Produce", "times": 0}, "allowed is a whole number from 1 to 1000000000"),
    ({"api": "Produce", "times": "2"}, "allowed is a whole number from 1 to 1000000000"),
    ({"api": "Produce", "times": 1.5}, "allowed is a whole number from 1 to 1000000000"),
    ({"api": "Produce", "times": True}, "allowed is a whole number from 1 to 1000000000"),
    ({"api": "Produce", "after": -1}, "allowed is a whole number from 0 to 1000000000"),
    ({"api": "LeaderAndIsr"}, "LeaderAndIsr is a request between brokers, which no rule touches"),
    ({"api": "Vote"}, "the brokers do not serve Vote"),
    ({"api": "Prodduce"}, "there is no API 'Prodduce': did you mean Produce"),
    ({"api": 0}, "a name of the Kafka protocol"),
]
ACTIONS: list[tuple[dict[str, Any], Callable[[Any], object], str]] = [
    ({"do": "fail", "code": "NONE"}, lambda rule: rule.fail("NONE"), "is no error: nothing would fail"),
    ({"do": "fail", "code": 0}, lambda rule: rule.fail(0), "is no error: nothing would fail"),
    ({"do": "fail", "code": 999}, lambda rule: rule.fail(999), "there is no error code 999: allowed are -1 to "),
    ({"do": "fail", "code": True}, lambda rule: rule.fail(True), "a name of the Kafka protocol"),
    (
        {"do": "fail", "code": "NOT_ENOUGH_REPLICA"},
        lambda rule: rule.fail("NOT_ENOUGH_REPLICA"),
        "did you mean NOT_ENOUGH_REPLICAS",
    ),
    ({"do": "delay", "ms": -1}, lambda rule: rule.delay(-1), "a number from 0 to "),
    ({"do": "delay", "ms": "100"}, lambda rule: rule.delay("100"), "a number from 0 to "),
    ({"do": "delay", "ms": True}, lambda rule: rule.delay(True), "a number from 0 to "),
]


@pytest.mark.parametrize(("given", "said"), SELECTIONS, ids=[str(row[0]) for row in SELECTIONS])
def test_a_selection_that_cannot_mean_anything_is_refused_alike_in_a_test_and_by_the_control(
    broker: Kafka, controlled: Controlled, given: dict[str, Any], said: str
) -> None:
    selected = {name: value for name, value in given.items() if name != "api"}
    with pytest.raises(ArgumentRefused) as refused:
        broker.on(given["api"], **selected)
    answer = controlled.ask("POST", "/faults", {**given, "do": "corrupt"})
    assert answer.status == 400
    for text in (str(refused.value), " ".join(answer.value.values())):
        assert said in text
    assert controlled.get("/faults") == []


@pytest.mark.parametrize(("given", "choose", "said"), ACTIONS, ids=[str(row[0]) for row in ACTIONS])
def test_an_action_that_cannot_mean_anything_is_refused_alike_in_a_test_and_by_the_control(
    broker: Kafka, controlled: Controlled, given: dict[str, Any], choose: Callable[[Any], object], said: str
) -> None:
    rule = broker.on("Produce")
    with pytest.raises(ArgumentRefused) as refused:
        choose(rule)
    answer = controlled.ask("POST", "/faults", {"api": "Produce", **given})
    assert answer.status == 400
    for text in (str(refused.value), " ".join(answer.value.values())):
        assert said in text
    assert controlled.get("/faults") == []
    rule.corrupt()  # Nothing was put in force: the rule can still be chosen.


def test_a_rule_without_an_action_is_refused_by_its_block_and_at_the_end_of_the_test(broker: Kafka) -> None:
    said = "the rule for Produce of topic orders does nothing: choose one of fail, "
    with pytest.raises(ValueError, match=said), broker.on("Produce", topic="orders"):
        pass
    broker.begin_test()
    broker.on("Produce", topic="orders")
    with pytest.raises(
        ValueError, match=r"test_wrong_rules\.py:\d+: the rule for Produce of topic orders does nothing"
    ):
        broker.check_rules()
    broker.check_rules()


def test_the_release_of_a_rule_that_does_not_hold_is_refused_alike(broker: Kafka, controlled: Controlled) -> None:
    with pytest.raises(ValueError, match="nothing is held: Produce is damaged"):
        broker.on("Produce").corrupt().release()
    fault = controlled.fault("Produce", "corrupt")
    answer = controlled.ask("POST", f"/faults/{fault}/release")
    assert (answer.status, answer.value["error"]) == (400, "release: nothing is held: Produce is damaged")


def test_every_request_of_clients_can_be_selected_by_what_it_names() -> None:
    for api in APIS:
        if api not in INTER_BROKER_APIS:
            names = {"topic", "partition", "group", "member_id", "assignor", "transactional_id"}
            assert mentioned(ApiKey(api)) <= names
    assert mentioned(ApiKey.OFFSET_FETCH) == {"topic", "partition", "group", "member_id"}
    assert mentioned(ApiKey.LEAVE_GROUP) == mentioned(ApiKey.HEARTBEAT) == {"group", "member_id"}
    assert mentioned(ApiKey.JOIN_GROUP) == mentioned(ApiKey.SYNC_GROUP) == {"group", "member_id", "assignor"}
    assert mentioned(ApiKey.CONSUMER_GROUP_HEARTBEAT) == {"topic", "partition", "group", "member_id", "assignor"}
    assert mentioned(ApiKey.DESCRIBE_GROUPS) == {"group"}
    assert mentioned(ApiKey.ADD_PARTITIONS_TO_TXN) == {"topic", "partition", "transactional_id"}
    assert mentioned(ApiKey.FIND_COORDINATOR) == {"group", "transactional_id"}


def test_a_partition_alone_selects_the_requests_for_it(broker: Kafka) -> None:
    orders = broker.topic(partitions=2)
    with broker.on("Produce", partition=1).fail("INVALID_RECORD") as rule:
        one = producer(broker)
        failed: dict[int, bool] = {}
        for partition in (0, 1):
            one.produce(
                orders,
                b"one",
                partition=partition,
                on_delivery=lambda error, message: failed.update({message.partition(): error is not None}),
            )
            one.flush(20)
    assert (failed, rule.used) == ({0: False, 1: True}, 1)


def test_a_coordinator_is_looked_for_by_the_group_of_a_rule(broker: Kafka) -> None:
    with broker.on("FindCoordinator", group="movers", times=1).fail("COORDINATOR_NOT_AVAILABLE") as rule:
        joined(broker, "others")
        assert rule.used == 0
        joined(broker, "movers")
    assert rule.used == 1


def joined(broker: Kafka, group: str) -> None:
    """Let a consumer of librdkafka join a group, and leave it again."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.subscribe([broker.topic()])
    for _ in range(400):
        consumer.poll(0.05)
        if consumer.assignment():
            break
    else:
        raise AssertionError("no partition was assigned")
    consumer.close()


def sent(broker: Kafka, topic: str) -> None:
    """Let a producer send a record, and wait until it has its answer."""
    one = producer(broker)
    one.produce(topic, b"one")
    assert one.flush(20) == 0


def test_what_a_condition_raises_fails_the_test_where_it_was_written(broker: Kafka) -> None:
    orders = broker.topic()

    def run() -> None:
        with broker.on("Produce", when=lambda request: request.nothing).fail("INVALID_RECORD"):
            sent(broker, orders)  # The client is served as if the rule were not there.

    with pytest.raises(AttributeError, match="no attribute 'nothing'") as failed:
        run()
    last = traceback.extract_tb(failed.value.__traceback__)[-1]
    assert (last.filename, last.line) == (
        __file__,
        'with broker.on("Produce", when=lambda request: request.nothing).fail("INVALID_RECORD"):',
    )
    broker.assert_produced(orders, ["one"])
    broker.check_rules()


def test_a_failure_that_came_of_a_broken_condition_does_not_hide_it(broker: Kafka) -> None:
    orders = broker.topic()

    def run() -> None:
        with broker.on("Produce", when=lambda request: 1 / 0 > 0).fail("INVALID_RECORD"):
            sent(broker, orders)
            broker.assert_produced(orders, [])

    with pytest.raises(ZeroDivisionError) as failed:
        run()
    assert isinstance(failed.value.__context__, AssertionError)


def test_a_wait_ends_at_once_with_what_a_condition_raises(broker: Kafka) -> None:
    orders = broker.topic()
    rule = broker.on("Produce", when=lambda request: 1 / 0 > 0).drop_answer()
    sent(broker, orders)
    with pytest.raises(ZeroDivisionError):
        broker.wait_for(lambda: rule.used == 1, timeout_s=600)


def test_a_condition_that_is_no_function_or_one_that_would_have_to_be_awaited_is_refused(broker: Kafka) -> None:
    async def later(request: object) -> bool:
        return True

    for wrong in ("topic == 'orders'", later):
        with pytest.raises(ValueError, match="allowed is a function of the request's message"):
            broker.on("Produce", when=wrong)  # type: ignore[arg-type]


# Texts where several are meant.


def test_a_text_is_one_topic_and_not_one_for_each_letter() -> None:
    with make_kafka(topics="orders") as kafka:
        assert kafka.topic("others") == "others"
        assert kafka.end_offsets("orders") == {0: 0}
        with pytest.raises(KitError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kafka.records("o")


def test_a_single_value_is_a_list_of_one_and_anything_else_that_can_be_iterated_over_is_many(broker: Kafka) -> None:
    for values, expected in (
        ("figs", ["figs"]),
        (b"figs", ["figs"]),
        ({"what": "figs"}, ['{"what": "figs"}']),
        (7, ["7"]),
        (("figs", "nuts"), ["figs", "nuts"]),
        ((one for one in ("figs", "nuts")), ["figs", "nuts"]),
        (bytearray(b"figs"), ["figs"]),
    ):
        orders = broker.topic()
        broker.produce(orders, values)
        broker.assert_produced(orders, expected)
    orders = broker.topic()
    broker.produce(orders, "figs")
    broker.assert_produced(orders, "figs")
    broker.assert_produced(orders, b"figs")
    with pytest.raises(AssertionError, match="0: expected 'fig'"):
        broker.assert_produced(orders, "fig")


def test_headers_are_a_dict_or_pairs(broker: Kafka) -> None:
    orders = broker.topic()
    broker.produce(orders, "one", headers=[("a", "1"), ("a", "2")])
    broker.produce(orders, "two", headers={"b": None})
    assert [record.headers for record in broker.records(orders)] == [(("a", b"1"), ("a", b"2")), (("b", None),)]


WRONG: list[tuple[Callable[[Kafka], object], str]] = [
    (lambda kafka: kafka.topic(partitions="3"), "partitions='3': allowed is a whole number from 1"),  # type: ignore[arg-type]
    (lambda kafka: kafka.topic(partitions=0), "partitions=0: allowed is a whole number from 1"),
    (lambda kafka: kafka.topic(replicas="1"), "replicas='1': allowed is a whole number from 1"),  # type: ignore[arg-type]
    (lambda kafka: kafka.topic(config="retention.ms=1"), "config='retention.ms=1': allowed is a dict of"),  # type: ignore[arg-type]
    (lambda kafka: kafka.topic(["orders"]), r"name=\['orders'\]: allowed is a text"),  # type: ignore[arg-type]
    (lambda kafka: kafka.produce("orders", []), r"values=\[\]: allowed is one value, or several"),
    (lambda kafka: kafka.produce("orders", "x", headers="a=b"), "headers='a=b': allowed is a dict of values"),  # type: ignore[arg-type]
    (lambda kafka: kafka.produce("orders", "x", headers=["ab"]), r"headers=\['ab'\]: allowed is a dict of values"),  # type: ignore[list-item]
    (lambda kafka: kafka.produce("orders", "x", partition="0"), "partition='0': allowed is a whole number"),  # type: ignore[arg-type]
    (lambda kafka: kafka.produce("orders", "x", acks=0), "acks=0: allowed is one of -1, 1"),
    (lambda kafka: kafka.produce("orders", "x", timestamp_ms="now"), "timestamp_ms='now': allowed is a whole number"),  # type: ignore[arg-type]
    (lambda kafka: kafka.expel("shop", b"member"), "member=b'member': allowed is a text, or several in a list"),  # type: ignore[arg-type]
    (lambda kafka: kafka.move_leader("orders", to="2"), "to='2': allowed is a whole number from 1"),  # type: ignore[arg-type]
    (lambda kafka: kafka.wait_until_consumed("shop", 7), "topic=7: allowed is a text, or several in a list"),  # type: ignore[arg-type]
    (lambda kafka: kafka.load("no.pack", 7), "no.pack"),  # type: ignore[arg-type]
    (lambda kafka: kafka.brokers[0].partition_from("2"), "others=.*: allowed is each of these once: none"),  # type: ignore[arg-type]
    (lambda kafka: kafka.brokers[0].partition_from([2]), "others=.*: allowed is each of these once: none"),  # type: ignore[arg-type]
    (lambda kafka: kafka.brokers[0].partition_from(2), "others=.*: allowed is each of these once: none"),
    (lambda kafka: kafka.brokers[0].slow_disk("50"), "ms='50': allowed is a number from 0"),  # type: ignore[arg-type]
    (lambda kafka: kafka.brokers[0].pause(detected="yes"), "detected='yes': allowed is True or False"),  # type: ignore[arg-type]
    (lambda kafka: kafka.clock.advance("60"), "seconds='60': allowed is a number from 0"),  # type: ignore[arg-type]
    (lambda kafka: kafka.clock.advance(-1), "seconds=-1: allowed is a number from 0"),
    (lambda _: make_kafka("3"), "brokers='3': allowed is a whole number from 1 to 9"),  # type: ignore[arg-type]
    (lambda _: make_kafka(topics=7), "topics=7: allowed is a text, or several in a list"),  # type: ignore[arg-type]
    (lambda _: make_kafka(topics=b"orders"), "topics=b'orders': allowed is a text, or several in a list"),  # type: ignore[arg-type]
    (lambda _: make_kafka(topics={"orders": "3"}), r"topics\['orders'\]='3': allowed is a whole number from 1"),  # type: ignore[dict-item]
    (lambda _: make_kafka(config="a=b"), "config='a=b': allowed is a dict of values by key"),  # type: ignore[arg-type]
    (lambda _: make_kafka(listeners="SSL"), "listeners='SSL': allowed is a dict of protocols by listener"),  # type: ignore[arg-type]
    (lambda _: make_kafka(sasl="alice"), "sasl='alice': allowed is a dict of passwords by user"),  # type: ignore[arg-type]
    (lambda _: make_kafka(sasl=Sasl("alice")), "users='alice': allowed is a dict of passwords by user"),  # type: ignore[arg-type]
    (lambda _: make_kafka(sasl=Sasl({"a": "b"}, "PLIAN")), "mechanisms='PLIAN': allowed are PLAIN"),
    (lambda _: make_kafka(sasl={"alice": 7}), r"users\['alice'\]=7: allowed is a text"),  # type: ignore[dict-item]
    (lambda _: make_kafka(tls=1), "tls=1: allowed is one of True, False, 'mutual'"),
    (lambda _: make_kafka(seed="1"), "seed='1': allowed is a whole number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[row[1] for row in WRONG])
def test_what_is_neither_one_nor_several_of_what_is_meant_is_refused(
    broker: Kafka, call: Callable[[Kafka], object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        call(broker)


def test_a_single_mechanism_of_logins_is_a_text() -> None:
    with make_kafka(sasl=Sasl({"alice": "secret"}, "SCRAM-SHA-256")) as kafka:
        assert kafka.client_settings("alice")["sasl.mechanism"] == "SCRAM-SHA-256"


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("key", OWNED_KEYS)
def test_a_key_that_the_kit_sets_is_refused_with_the_reason(key: str, isolation: str) -> None:
    with pytest.raises(ArgumentRefused) as refused:
        make_kafka(config={key: "1"}, isolation=isolation)
    assert str(refused.value) == f"config[{key!r}]='1': {OWNED_KEYS[key]}"


# What would never come.


def test_a_request_to_a_paused_broker_fails_at_once_with_the_reason(broker: Kafka) -> None:
    orders = broker.topic()
    broker.produce(orders, "one")
    broker.brokers[0].pause()
    with pytest.raises(KitError, match="broker 1 is paused, and answers nothing until `resume`"):
        broker.records(orders)
    with pytest.raises(KitError, match="broker 1 is paused"):
        broker.produce(orders, "two")
    broker.brokers[0].resume()
    broker.assert_produced(orders, ["one"])


def test_a_partition_whose_only_leader_is_paused_or_gone_is_named_with_its_brokers() -> None:
    with make_kafka(2) as kafka:
        orders = kafka.topic(replicas=1)
        leader = kafka.leader(orders)
        kafka.brokers[leader - 1].pause()
        with pytest.raises(KitError, match=f"has no leader that answers: broker {leader} is paused"):
            kafka.records(orders)
        kafka.brokers[leader - 1].resume()
        kafka.brokers[leader - 1].kill()
        with pytest.raises(KitError, match=f"has no leader that answers: broker {leader} does not run"):
            kafka.produce(orders, "one")


def test_a_paused_leader_that_the_others_notice_is_waited_for() -> None:
    with make_kafka(3) as kafka:
        orders = kafka.topic(replicas=3)
        kafka.produce(orders, "one")
        kafka.brokers[kafka.leader(orders) - 1].pause(detected=True)
        kafka.assert_produced(orders, ["one"])


def test_a_partition_or_topic_that_does_not_exist_is_named(broker: Kafka) -> None:
    orders = broker.topic(partitions=2)
    with pytest.raises(KitError, match=f"topic '{orders}' has no partition 2: it has 2"):
        broker.produce(orders, "one", partition=2)
    with pytest.raises(KitError, match="there is no topic 'nowhere'"):
        broker.produce("nowhere", "one")


def test_retention_follows_the_clock_however_little_it_is_moved(broker: Kafka) -> None:
    for seconds in (3, 7):
        orders = broker.topic(config={"retention.ms": 2_000})
        broker.produce(orders, "one")
        broker.clock.advance(1)
        broker.assert_produced(orders, ["one"])
        broker.clock.advance(seconds)
        broker.assert_produced(orders, [])
