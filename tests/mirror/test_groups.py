"""Groups of the source go on in the target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from sordini.mirror.formats import Checkpoint, KeyValue, read_checkpoint
from sordini.mirror.naming import Naming
from sordini.protocol import types
from sordini.testing import Kafka, make_kafka
from tests.mirror.running import RunningMirror, eventually, plan, records_of, source, values_of

CHECKPOINTS = "east.checkpoints.internal"


@pytest.fixture
def east() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 2}) as kafka:
        yield kafka


def consumer(kafka: Kafka, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,  # Its close waits for the fetch that is delayed.
        }
    )


def read(kafka: Kafka, group: str, topic: str, count: int) -> list[str]:
    """What a member reads of its group's next records; it commits them."""
    member = consumer(kafka, group)
    member.subscribe([topic])
    found: list[str] = []
    try:

        def all_are_read() -> bool:
            record = member.poll(0.2)
            if record is not None and not record.error():
                found.append(record.value().decode())
            return len(found) == count

        eventually(all_are_read, lambda: found)
        if found:
            member.commit(asynchronous=False)
    finally:
        member.close()
    return found


def commit(kafka: Kafka, group: str, topic: str, offset: int, partition: int = 0) -> None:
    member = consumer(kafka, group)
    try:
        member.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    finally:
        member.close()


def checkpoints(kafka: Kafka) -> dict[tuple[str, types.TopicPartition], Checkpoint]:
    found = [read_checkpoint(KeyValue(record.key or b"", record.value)) for record in records_of(kafka, CHECKPOINTS)]
    return {(one.group, one.partition): one for one in found}


def test_a_group_goes_on_in_the_target_with_the_next_record(east: Kafka, central: Kafka) -> None:
    sent = [str(number) for number in range(100)]
    with RunningMirror(plan(central, source("east", east), sync_group_offsets=True)) as mirror:
        eventually(lambda: mirror.is_copying)
        for start in range(0, 100, 7):  # Many transactions, each with its marker in the target.
            east.produce("orders", sent[start : start + 7])
            end = min(start + 7, 100)
            eventually(lambda end=end: len(values_of(central, "east.orders")) == end)
        assert read(east, "billing", "orders", 41) == sent[:41]
        place = ("east.orders", 0)
        eventually(lambda: central.committed("billing").get(place, 0) > 40)
    assert read(central, "billing", "east.orders", 59) == sent[41:]


def test_a_group_goes_on_after_the_mirror_was_started_again(east: Kafka, central: Kafka) -> None:
    sent = [str(number) for number in range(50)]
    with RunningMirror(plan(central, source("east", east))):
        for start in range(0, 50, 5):
            east.produce("orders", sent[start : start + 5])
            eventually(lambda end=start + 5: len(values_of(central, "east.orders")) == end)
    assert read(east, "billing", "orders", 23) == sent[:23]
    with RunningMirror(plan(central, source("east", east), sync_group_offsets=True)):
        eventually(lambda: central.committed("billing").get(("east.orders", 0), 0) > 22)
    assert read(central, "billing", "east.orders", 27) == sent[23:]


def test_a_group_of_transactional_records_reads_none_twice(east: Kafka, central: Kafka) -> None:
    """The source has markers and aborted records between those that are copied."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "transactional.id": "shop"})
    producer.init_transactions(20)
    for number in range(20):
        producer.begin_transaction()
        producer.produce("orders", str(number), partition=0)
        assert producer.flush(20) == 0  # An abort drops what is not sent yet.
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(20)
    kept = [str(number) for number in range(20) if number % 3 != 1]
    with RunningMirror(plan(central, source("east", east), sync_group_offsets=True)):
        eventually(lambda: values_of(central, "east.orders") == kept)
        assert read(east, "billing", "orders", 6) == kept[:6]
        eventually(lambda: central.committed("billing").get(("east.orders", 0)))
        assert read(central, "billing", "east.orders", len(kept) - 6) == kept[6:]


def test_checkpoints_follow_the_group(east: Kafka, central: Kafka) -> None:
    place = ("billing", types.TopicPartition("east.orders", 0))
    with RunningMirror(plan(central, source("east", east))):
        east.produce("orders", [str(number) for number in range(10)])
        eventually(lambda: len(values_of(central, "east.orders")) == 10)
        for offset in (4, 8, 2):
            commit(east, "billing", "orders", offset)
            eventually(lambda offset=offset: checkpoints(central).get(place) == Checkpoint(*place, offset, offset))
    assert central.committed("billing") == {}


def test_groups_are_chosen_by_pattern_and_console_consumers_are_left_out(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "1")
    for group in ("billing", "audit", "console-consumer-1"):
        commit(east, group, "orders", 1)
    with RunningMirror(plan(central, source("east", east, groups=["bill.*", "console.*"]))):
        eventually(lambda: checkpoints(central))
    assert {group for group, _ in checkpoints(central)} == {"billing"}


def test_a_group_that_is_active_in_the_target_keeps_its_own_offset(east: Kafka, central: Kafka) -> None:
    east.produce("orders", ["0", "1", "2"])
    with RunningMirror(plan(central, source("east", east), sync_group_offsets=True)):
        eventually(lambda: len(values_of(central, "east.orders")) == 3)
        member = consumer(central, "billing")
        member.subscribe(["east.orders"])
        eventually(lambda: member.poll(0.2) and member.assignment())
        commit(east, "billing", "orders", 3)
        commit(east, "other", "orders", 3)
        eventually(lambda: central.committed("other"))
        assert central.committed("billing") == {}
        member.close()
        eventually(lambda: central.committed("billing") == {("east.orders", 0): 3})


def test_an_offset_in_the_target_never_goes_back(east: Kafka, central: Kafka) -> None:
    east.produce("orders", ["0", "1", "2"])
    with RunningMirror(plan(central, source("east", east), sync_group_offsets=True)):
        eventually(lambda: len(values_of(central, "east.orders")) == 3)
        commit(central, "billing", "east.orders", 3)
        commit(east, "billing", "orders", 1)
        commit(east, "other", "orders", 1)
        eventually(
            lambda: (
                central.committed("other")
                and ("billing", types.TopicPartition("east.orders", 0)) in checkpoints(central)
            )
        )
    assert central.committed("billing") == {("east.orders", 0): 3}


def test_a_group_of_merged_sources_has_the_smallest_offset_once_all_are_known(east: Kafka, central: Kafka) -> None:
    with make_kafka(topics={"orders": 2}) as west:
        west.produce("orders", [f"w{number}" for number in range(10)])
        merged = plan(central, source("east", east), source("west", west), naming=Naming.MERGE, sync_group_offsets=True)
        with RunningMirror(merged):
            eventually(lambda: len(values_of(central, "orders")) == 10)
            east.produce("orders", [f"e{number}" for number in range(10)])
            eventually(lambda: len(values_of(central, "orders")) == 20)
            commit(east, "billing", "orders", 10)
            commit(east, "other", "orders", 10)
            commit(west, "other", "orders", 0)
            eventually(lambda: ("billing", types.TopicPartition("orders", 0)) in checkpoints(central))
            eventually(lambda: central.committed("other"))
            assert central.committed("billing") == {}
            commit(west, "billing", "orders", 4)
            eventually(lambda: central.committed("billing"))
    (offset,) = central.committed("billing").values()
    unread = [record.text for record in central.records("orders", 0) if record.offset >= offset]
    assert {f"w{number}" for number in range(4, 10)} <= set(unread)


def test_a_group_that_is_refused_holds_up_no_other(east: Kafka, central: Kafka) -> None:
    east.produce("orders", "1")
    for group in ("audit", "billing", "claims"):
        commit(east, group, "orders", 1)
    with (
        east.on("OffsetFetch", group="billing").fail("GROUP_AUTHORIZATION_FAILED"),
        RunningMirror(plan(central, source("east", east))) as mirror,
    ):
        eventually(lambda: {group for group, _ in checkpoints(central)} == {"audit", "claims"})
        eventually(lambda: any("GROUP_AUTHORIZATION_FAILED" in notice for notice in mirror.notices))
