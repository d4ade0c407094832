"""Every fault of requests and of brokers over HTTP, as librdkafka (C) sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.group_consumer import joined, poll_until
from tests.testing.clients import producer
from tests.testing.conftest import Controlled


def topic(controlled: Controlled, **fields: object) -> str:
    return str(controlled.post("/topics", **fields)["name"])


def texts(controlled: Controlled, name: str) -> list[str | None]:
    """What is in a topic."""
    return [record.text for record in controlled.kafka.records(name)]


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not come to it"
        time.sleep(0.005)


def test_a_produce_that_fails_twice_is_retried_with_the_same_sequence(controlled: Controlled) -> None:
    orders = topic(controlled)
    fault = controlled.fault("Produce", "fail", topic=orders, times=2, code="NOT_ENOUGH_REPLICAS")
    one = producer(controlled, **{"client.id": "till"})
    one.produce(orders, b"one")
    assert one.flush(20) == 0
    assert texts(controlled, orders) == ["one"]
    undone = controlled.delete(f"/faults/{fault}")
    assert (undone["used"], undone["in_force"]) == (2, False)
    sent = controlled.get("/requests?api=Produce&client_id=till")["requests"]
    assert [request["sequences"] for request in sent] == [[{"topic": orders, "partition": 0, "sequence": 0}]] * 3
    failed = f"Produce of topic {orders} fails with NOT_ENOUGH_REPLICAS"
    assert [request["fault"] for request in sent] == [failed, failed, None]
    assert f"{failed}, used 2 of 2 times" in controlled.get("/report")["report"]


def test_only_the_selected_partition_fails_and_a_final_error_reaches_the_client(controlled: Controlled) -> None:
    orders = topic(controlled, partitions=2)
    controlled.fault("PRODUCE", "fail", topic=orders, partition=1, code="TOPIC_AUTHORIZATION_FAILED")
    errors: list[tuple[int, int | None]] = []
    one = producer(controlled)
    for partition in (0, 1):
        one.produce(
            orders,
            b"one",
            partition=partition,
            on_delivery=lambda error, message: errors.append((message.partition(), error and error.code())),
        )
    one.flush(20)
    assert sorted(errors) == [(0, None), (1, KafkaError.TOPIC_AUTHORIZATION_FAILED)]


def test_a_response_is_delayed(controlled: Controlled) -> None:
    orders = topic(controlled)
    fault = controlled.fault("Produce", "delay", topic=orders, times=1, ms=300)
    one = producer(controlled)
    one.produce(orders, b"one")
    wait_for(lambda: controlled.used(fault) == 1)
    assert (one.flush(0.05), texts(controlled, orders)) == (1, ["one"])
    assert one.flush(20) == 0


@pytest.mark.parametrize("before", [False, True])
def test_a_held_request_goes_on_when_it_is_released(controlled: Controlled, *, before: bool) -> None:
    orders = topic(controlled)
    fault = controlled.fault("Produce", "hold", topic=orders, times=1, before=before)
    one = producer(controlled)
    one.produce(orders, b"one")
    wait_for(lambda: controlled.used(fault) == 1)
    assert one.flush(0.05) == 1
    assert texts(controlled, orders) == ([] if before else ["one"])
    controlled.post(f"/faults/{fault}/release")
    assert one.flush(20) == 0
    assert texts(controlled, orders) == ["one"]


@pytest.mark.parametrize(("handled", "found"), [(True, ["one", "one"]), (False, ["one"])])
def test_a_connection_is_closed_before_or_after_the_request_is_handled(
    controlled: Controlled, found: list[str], *, handled: bool
) -> None:
    orders = topic(controlled)
    controlled.fault("Produce", "close_connection", topic=orders, times=1, after_handling=handled)
    one = producer(controlled, **{"enable.idempotence": False})
    one.produce(orders, b"one")
    assert one.flush(20) == 0
    assert texts(controlled, orders) == found


@pytest.mark.parametrize(("do", "found"), [("drop_answer", ["zero", "one"]), ("drop_request", ["zero"])])
def test_a_request_or_its_response_is_lost(controlled: Controlled, do: str, found: list[str]) -> None:
    orders = topic(controlled)
    one = producer(
        controlled,
        **{"enable.idempotence": False, "message.timeout.ms": 600, "request.timeout.ms": 300, "socket.timeout.ms": 300},
    )
    one.produce(orders, b"zero")  # A connection is there from now on: a message's time includes the connecting.
    assert one.flush(20) == 0
    fault = controlled.fault("Produce", do, topic=orders)
    errors: list[int] = []
    one.produce(orders, b"one", on_delivery=lambda error, _: errors.append(error.code()))
    one.flush(20)
    assert (errors, texts(controlled, orders)) == ([KafkaError._MSG_TIMED_OUT], found)
    assert controlled.used(fault) >= 1


def test_a_damaged_batch_is_noticed_by_the_consumer(controlled: Controlled) -> None:
    orders = topic(controlled)
    controlled.kafka.produce(orders, [b"x" * 1000])
    fault = controlled.fault("Fetch", "corrupt", topic=orders, times=1)
    settings = {"group.id": "readers", "check.crcs": True, "log_level": 0}
    reader = Consumer({"bootstrap.servers": controlled.bootstrap_servers, **settings})
    reader.assign([TopicPartition(orders, 0, 0)])
    message = reader.poll(20)
    reader.close()
    assert message is not None
    assert message.error().code() == KafkaError._BAD_MSG  # It skips the batch then.
    assert controlled.used(fault) == 1


def test_a_broker_that_is_killed_paused_or_stopped_is_not_served_until_it_is_back(controlled: Controlled) -> None:
    orders = topic(controlled)
    one = producer(controlled)
    one.produce(orders, b"zero")
    assert one.flush(20) == 0
    for away, back in (("kill", "start"), ("pause", "resume"), ("stop", "start")):
        state = controlled.post(f"/brokers/1/{away}")
        assert (state["running"], state["paused"]) == (away == "pause", away == "pause")
        one.produce(orders, away.encode())
        assert one.flush(0.2) == 1
        state = controlled.post(f"/brokers/1/{back}")
        assert (state["running"], state["paused"]) == (True, False)
        assert one.flush(20) == 0
    assert controlled.post("/brokers/1/restart")["running"]
    assert texts(controlled, orders) == ["zero", "kill", "pause", "stop"]


def test_a_full_and_a_slow_disk(controlled: Controlled) -> None:
    orders = topic(controlled, config={"flush.messages": 1})
    one = producer(controlled, **{"retry.backoff.max.ms": 50})
    for disk in ({"full": True}, {"slow_ms": 400}):
        controlled.post("/brokers/1/disk", **disk)
        one.produce(orders, b"one")
        assert one.flush(0.2) == 1
        controlled.post("/brokers/1/disk", full=False, slow_ms=0)
        assert one.flush(20) == 0
    assert texts(controlled, orders) == ["one", "one"]


def test_a_leader_is_moved_killed_and_replaced(controlled_cluster: Controlled) -> None:
    orders = topic(controlled_cluster, replicas=3)
    place = f"/topics/{orders}/partitions/0"
    one = producer(controlled_cluster, acks="all")
    one.produce(orders, b"one")
    assert one.flush(20) == 0
    first = controlled_cluster.get(place)["leader"]
    moved = controlled_cluster.post(f"{place}/leader")["leader"]
    assert moved != first
    to = ({1, 2, 3} - {first, moved}).pop()
    assert controlled_cluster.post(f"{place}/leader", to=to) == {"leader": to}
    controlled_cluster.post(f"/brokers/{to}/kill")
    one.produce(orders, b"two")
    assert one.flush(20) == 0
    assert controlled_cluster.get(place)["leader"] != to
    controlled_cluster.post("/undo")
    assert all(broker["running"] for broker in controlled_cluster.get("/brokers"))
    assert texts(controlled_cluster, orders) == ["one", "two"]


def test_a_broker_that_is_cut_off_leaves_the_in_sync_set_as_the_clock_advances(
    controlled_cluster: Controlled,
) -> None:
    orders = topic(controlled_cluster, replicas=3)
    place = f"/topics/{orders}/partitions/0"
    leader = controlled_cluster.get(place)["leader"]
    # A leader that cannot reach the controller cannot shrink its in-sync set.
    follower = min({1, 2, 3} - {leader, controlled_cluster.get("/controller")["controller"]})
    controlled_cluster.post(f"/brokers/{follower}/partition", **{"from": [leader]})
    one = producer(controlled_cluster, **{"enable.idempotence": False, "acks": 1})
    one.produce(orders, b"one")
    assert one.flush(20) == 0
    controlled_cluster.post("/clock", advance_s=60)
    wait_for(lambda: follower not in controlled_cluster.get(place)["in_sync"])
    controlled_cluster.post(f"/brokers/{follower}/heal")
    wait_for(lambda: follower in controlled_cluster.get(place)["in_sync"])


def test_a_paused_leader_that_is_detected_is_replaced(controlled_cluster: Controlled) -> None:
    orders = topic(controlled_cluster, replicas=3)
    place = f"/topics/{orders}/partitions/0"
    leader = controlled_cluster.get(place)["leader"]
    controlled_cluster.post(f"/brokers/{leader}/pause", detected=True)
    wait_for(lambda: controlled_cluster.get(place)["leader"] != leader)


def test_a_member_is_expelled_and_joins_again(controlled: Controlled) -> None:
    orders = topic(controlled)
    controlled.kafka.produce(orders, ["one"])
    settings = {"group.id": "shop", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 50, "log_level": 0}
    reader = Consumer({"bootstrap.servers": controlled.bootstrap_servers, **settings})
    assigned: list[int] = []
    reader.subscribe([orders], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    wait_for(lambda: reader.poll(0.05) is not None)
    assert len(controlled.post("/groups/shop/expel")["expelled"]) == 1
    wait_for(lambda: reader.poll(0.05) is None and len(assigned) == 2)
    reader.close()


@pytest.mark.parametrize(("protocol", "code"), [("classic", "ILLEGAL_GENERATION"), ("consumer", "FENCED_MEMBER_EPOCH")])
def test_a_member_is_described_and_fenced_and_its_heartbeats_are_held(
    controlled: Controlled, protocol: str, code: str
) -> None:
    orders, group = topic(controlled, partitions=2), f"shop {protocol}"
    settings = {"group.protocol": protocol} | ({"heartbeat.interval.ms": 50} if protocol == "classic" else {})
    path = f"/groups/{quote(group)}"
    with joined(controlled.bootstrap_servers, group, orders, **settings) as member:
        poll_until([member], lambda: member.partitions == [0, 1])
        found = controlled.get(path)
        both = [{"topic": orders, "partition": 0}, {"topic": orders, "partition": 1}]
        (row,) = found["members"]
        assert (found["protocol"], found["state"], row["id"]) == (protocol, "Stable", member.member_id)
        assert (row["assigned"], row["target"], row["instance_id"]) == (both, both, None)
        assert row["epoch"] == found["epoch"] == found["assignment_epoch"]
        assert (row["epoch"] is None) == (protocol == "classic")

        (fault,) = controlled.post(f"{path}/fence", member=member.member_id)["faults"]
        assert (fault["code"], fault["times"], fault["member_id"]) == (code, 1, member.member_id)
        poll_until([member], lambda: member.losses == 1 and member.partitions == [0, 1])
        assert controlled.used(fault["id"]) == 1

        held = controlled.post(f"{path}/hold-heartbeats")["faults"]
        assert {each["api"] for each in held} == {"Heartbeat", "ConsumerGroupHeartbeat"}
        poll_until([member], lambda: sum(controlled.used(each["id"]) for each in held) == 1)
        for each in held:
            controlled.post(f"/faults/{each['id']}/release")
        controlled.delete("/faults")


def test_an_assignor_is_refused_to_a_group(controlled: Controlled) -> None:
    orders = topic(controlled)
    faults = controlled.post("/groups/refused/refuse-assignor", assignor="range")["faults"]
    assert {(each["api"], each["code"], each["assignor"]) for each in faults} == {
        ("ConsumerGroupHeartbeat", "UNSUPPORTED_ASSIGNOR", "range"),
        ("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL", "range"),
    }
    with joined(controlled.bootstrap_servers, "refused", orders, **{"group.remote.assignor": "range"}) as member:
        poll_until([member], lambda: member.errors != [])
        assert [error.code() for error in member.errors] == [KafkaError._FATAL]
    controlled.delete("/faults")
    with joined(controlled.bootstrap_servers, "refused", orders, **{"group.remote.assignor": "range"}) as member:
        poll_until([member], lambda: member.partitions == [0])


def test_a_transactional_producer_is_fenced(controlled: Controlled) -> None:
    orders = topic(controlled)
    one = producer(controlled, **{"transactional.id": "till 7/8"})
    one.init_transactions(20)
    one.begin_transaction()
    one.produce(orders, b"one")
    one.flush(20)
    controlled.post("/transactional-ids/till%207%2F8/fence")
    with pytest.raises(KafkaException) as refused:
        one.commit_transaction(20)
    assert refused.value.args[0].fatal()
    assert texts(controlled, orders) == []


def test_an_expired_topic_puts_a_reader_out_of_range(controlled: Controlled) -> None:
    orders = topic(controlled)
    controlled.kafka.produce(orders, ["one", "two"])
    assert controlled.post(f"/topics/{orders}/expire") == {"end_offsets": {"0": 2}}
    settings = {"group.id": "readers", "auto.offset.reset": "error", "log_level": 0}
    reader = Consumer({"bootstrap.servers": controlled.bootstrap_servers, **settings})
    reader.assign([TopicPartition(orders, 0, 0)])
    message = reader.poll(20)
    reader.close()
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_the_clock_moves_forward(controlled: Controlled) -> None:
    before = controlled.get("/clock")["now_ms"]
    assert 3_600_000 <= controlled.post("/clock", advance_s=3_600)["now_ms"] - before < 3_700_000


def test_all_faults_are_undone_at_once_and_what_they_hold_is_let_go(controlled: Controlled) -> None:
    orders = topic(controlled)
    fault = controlled.fault("Produce", "hold", topic=orders)
    one = producer(controlled)
    one.produce(orders, b"one")
    wait_for(lambda: controlled.used(fault) == 1)
    assert [one["id"] for one in controlled.get("/faults")] == [fault]
    assert [(one["used"], one["in_force"]) for one in controlled.delete("/faults")] == [(1, False)]
    assert controlled.get("/faults") == []
    assert one.flush(20) == 0
