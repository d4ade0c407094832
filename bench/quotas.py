"""Clients with quotas beside Apache Kafka: the rate at which the same client ends.

Each client moves 17 seconds' worth of its quota. Ten may be used at once, since the rate is measured over all windows
but one; for the rest the client has to wait.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import sides, starting, table
from bench.clusters import Labels
from bench.goals import between, summary
from bench.sides import Say
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    QuotaOp,
)
from tests.outside.java import ZooKeeperProcess
from tests.support.wire_client import Client

PART: Final = "quotas"
TOPIC: Final = "rated"
RATE: Final = 1_000_000.0
BATCH_BYTES: Final = 100_000
SECONDS: Final = 17
ROUNDS_MAX: Final = 3
PATIENCE_S: Final = 120
AS_THEIRS: Final = between(0.9, 1.1)


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` both brokers are Apache Kafka's, which proves the harness."""
    seconds, rounds = (1, 1) if quick else (SECONDS, min(rounds, ROUNDS_MAX))
    found = [table.head(*labels, goals=True)]
    seen: dict[str, list[list[float]]] = {"produce": [[], []], "consume": [[], []]}
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(directory / "zookeeper"))
        pair = sides.both(*labels, zookeeper.connect, apache_only=apache_only)
        brokers = [side.start(directory / name, {}) for name, side in pair._asdict().items()]
        for broker in brokers:
            starting.timed_start(broker, watch_idle=False)
            running.callback(broker.stop)
        for number in range(rounds):
            for side, broker in enumerate(brokers):
                topic = f"{TOPIC}-{number}"
                with Client("127.0.0.1", broker.port) as client:
                    client.create(topic)
                    _limit(client, f"producer-{number}", "producer_byte_rate")
                    _limit(client, f"consumer-{number}", "consumer_byte_rate")
                amount = int(seconds * RATE) // BATCH_BYTES
                for what, took in (
                    ("produce", _produce(broker.bootstrap, topic, f"producer-{number}", amount)),
                    ("consume", _consume(broker.bootstrap, topic, f"consumer-{number}", amount)),
                ):
                    seen[what][side].append(amount * BATCH_BYTES / took)
                    say(f"{what}, {broker.name}: {seen[what][side][-1]:,.0f} bytes/s")
    for what, (theirs, ours) in seen.items():
        name = f"{what} {seconds} MB with a quota of 1 MB/s"
        found.append(table.judged_row(name, "bytes/s", median(theirs), median(ours), AS_THEIRS))
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    rounds = min(rounds, ROUNDS_MAX)
    return f"medians of {rounds} rounds; confluent-kafka, records of {BATCH_BYTES:,} bytes. Again: {again}."


def _limit(client: Client, client_id: str, key: str) -> None:
    entry = AlteredEntry(
        entity=[AlteredEntity(entity_type="client-id", entity_name=client_id)], ops=[QuotaOp(key=key, value=RATE)]
    )
    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=[entry]))
    if any(row.error_code for row in answer.entries):
        raise SystemExit(f"the quota was refused: {answer}")


def _produce(bootstrap: str, topic: str, client_id: str, amount: int) -> float:
    """Seconds to write so many records, one in each request."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 1,
            "request.timeout.ms": PATIENCE_S * 1000,
        }
    )
    errors: list[object] = []
    began = time.monotonic()
    for _ in range(amount):
        producer.produce(topic, b"x" * BATCH_BYTES, partition=0, on_delivery=lambda error, _: errors.append(error))
    if producer.flush(PATIENCE_S) or _problems(errors):
        raise SystemExit(f"records were not written: {_problems(errors)}")
    return time.monotonic() - began


def _problems(errors: Sequence[object]) -> list[object]:
    return [error for error in errors if error is not None][:3]


def _consume(bootstrap: str, topic: str, client_id: str, amount: int) -> float:
    """Seconds to read so many records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 5 * BATCH_BYTES,
            "socket.timeout.ms": PATIENCE_S * 1000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    began, seen = time.monotonic(), 0
    while seen < amount:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            seen += 1
        elif time.monotonic() - began > PATIENCE_S:
            raise SystemExit(f"{seen} of {amount} records were read in {PATIENCE_S} s")
    took = time.monotonic() - began
    consumer.close()
    return took
