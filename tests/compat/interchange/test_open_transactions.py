"""Transactions that are open when the files change hands: their client ends them with the next broker, or that one does.

The brokers listen on one port, so a client finds the next one where the last one was. What the next coordinator has of
a transaction (its partitions, the group of its offsets, its timeout) is in `__transaction_state`; its records and offsets
are open in the logs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.compat.groups.waiting import eventually
from tests.compat.interchange.cluster import Exchange
from tests.compat.interchange.loads import SECONDS_MAX, transactional
from tests.compat.interchange.served import bounds, committed_offsets, records
from tests.outside.ports import free_port
from tests.outside.processes import BrokerProcess
from tests.support.confluent_admin import admin_of

TOPIC = "across"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]
TIMEOUT_MS = 20_000
"""Of the transaction that no client ends; the first broker is stopped before that has passed."""
WITHOUT_END_SECONDS_MAX = 90
CONTINUES = {"log_level": 0, "metadata.recovery.strategy": "none", "message.timeout.ms": 120_000}
"""A client whose only broker is away for a while."""


def send_offset(producer: Producer, bootstrap: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], metadata, SECONDS_MAX)
    consumer.close()


def write(producer: Producer, value: bytes) -> None:
    for partition in PARTITIONS:
        producer.produce(TOPIC, value, partition=partition.partition)
    assert producer.flush(120) == 0


def open_ends(bootstrap: str) -> list[bool]:
    """Whether each partition has an open transaction."""
    return [stable < end for _, stable, end in bounds(bootstrap, PARTITIONS).values()]


def hand_over(exchange: Exchange, version: str, first: str, how: str) -> None:
    (exchange.kill if how == "killed" else exchange.stop)()
    if first == "ours":
        exchange.apache(version)
    else:
        exchange.sordini()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_open_transactions_are_ended_by_their_client_or_their_timeout_with_the_next_broker(
    exchange: Callable[..., Exchange], version: str, first: str, how: str
) -> None:
    cluster = exchange(f"open-{version}-{first}-{how}", free_port())
    broker: BrokerProcess = cluster.sordini()
    if first == "theirs":  # The cluster is made by ours.
        cluster.stop()
        broker = cluster.apache(version)
    bootstrap = broker.bootstrap
    admin = admin_of({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, len(PARTITIONS), 1)])[TOPIC].result(SECONDS_MAX)
    committing = transactional(bootstrap, "commits", **CONTINUES)
    aborting = transactional(bootstrap, "aborts", **CONTINUES)
    leaving = transactional(bootstrap, "leaves", TIMEOUT_MS)
    for offset, producer in enumerate((committing, aborting, leaving), 1):
        producer.begin_transaction()
        write(producer, b"before")
        send_offset(producer, bootstrap, f"group-{offset}", offset)
    assert open_ends(bootstrap) == [True, True]
    hand_over(cluster, version, first, how)
    for producer in (committing, aborting):
        write(producer, b"after")
    committing.commit_transaction(120)
    aborting.abort_transaction(120)
    eventually(lambda: open_ends(bootstrap) == [False, False], "nothing is open", WITHOUT_END_SECONDS_MAX)
    found = records(bootstrap, PARTITIONS, "read_committed")
    assert [[row[4] for row in rows] for rows in found.values()] == [[b"before", b"after"]] * 2
    offsets = [committed_offsets(bootstrap, f"group-{number}", PARTITIONS) for number in (1, 2, 3)]
    assert offsets == [{f"{TOPIC}-0": (1, None)}, {}, {}]
    committing.begin_transaction()
    write(committing, b"next")
    committing.commit_transaction(SECONDS_MAX)
    found = records(bootstrap, PARTITIONS, "read_committed")
    assert [[row[4] for row in rows] for rows in found.values()] == [[b"before", b"after", b"next"]] * 2
