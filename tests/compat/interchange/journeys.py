"""A cluster's files going from hand to hand; what every broker served and said on the way is kept for the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic

from tests.compat.groups.waiting import eventually
from tests.compat.interchange import loads
from tests.compat.interchange.cluster import Exchange, harm, wait_for_retention
from tests.compat.interchange.served import Served, served
from tests.outside.java import ApacheKafkaProcess
from tests.outside.processes import SordiniProcess
from tests.support.confluent_admin import admin_of

STRAY: Final = f"nobodys-0.{7:032x}-stray"
"""As Apache Kafka 3.9.1 renames what no topic claims; 2.7.2 takes no directory of that name."""
DIRECTORY_ID: Final = "dGhpcyBpcyBhIHV1aWQgMQ"
"""A key that a newer Apache Kafka writes into meta.properties, and others keep."""
ACKNOWLEDGED: Final = 400
STEP_SECONDS_MAX: Final = 30
LAST_STAGE: Final = 4


@dataclass
class Passed:
    """One broker's turn."""

    first: Served
    """Before it wrote anything."""
    last: Served
    files: Path
    """A copy of the directory as it was left."""
    said: str
    """What it had logged before it wrote anything; of Apache Kafka with a look for segments to delete."""
    harm: list[str]
    """Lines thereof which say that it found, cut or deleted something."""


@dataclass
class CleanJourney:
    """Ours, theirs, ours, theirs; each stopped in order."""

    version: str
    stages: list[Passed]
    """In the last one Apache Kafka ends the transaction that was open in the files, and does nothing else."""
    refusals: dict[str, str]
    """What a second broker said: "ours" beside theirs, "theirs" beside ours."""


def clean_journey(exchange: Exchange, version: str) -> CleanJourney:
    stages, refusals = list[Passed](), dict[str, str]()
    ours = exchange.sordini()
    loads.create_topics(ours.bootstrap)
    stages.append(_stage(exchange, 1))

    exchange.apache(version)
    refusals["ours"] = _refused(exchange.sordini_beside())
    stages.append(_stage(exchange, 2))
    if version != "2.7.2":
        (exchange.data / STRAY).mkdir()
    with (exchange.data / "meta.properties").open("a") as meta:
        meta.write(f"directory.id={DIRECTORY_ID}\n")

    exchange.sordini()
    refusals["theirs"] = _refused(exchange.apache_process(version))
    stages.append(_stage(exchange, 3))

    exchange.apache(version)
    stages.append(_stage(exchange, 4))
    return CleanJourney(version, stages, refusals)


def _stage(exchange: Exchange, seed: int) -> Passed:
    broker = exchange.broker
    assert broker is not None
    first = served(broker.bootstrap)
    found = []
    if isinstance(broker, ApacheKafkaProcess):
        wait_for_retention(broker)
        found = harm(broker)
    said = broker.output()
    if seed == LAST_STAGE:
        loads.transactional(broker.bootstrap, "left-open")
    else:
        loads.write(broker.bootstrap, seed)
        loads.transactions(broker.bootstrap, seed)
        _delete_a_topic(broker.bootstrap)
    last = served(broker.bootstrap)
    exchange.stop()
    copy = broker.directory / "files"
    shutil.copytree(exchange.data, copy)
    return Passed(first, last, copy, said, found)


def _delete_a_topic(bootstrap: str) -> None:
    """Its directory is there still when the broker stops."""
    admin = admin_of({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("doomed", 1, 1)]).values():
        future.result(STEP_SECONDS_MAX)
    loads.send(bootstrap, "doomed", 0, [{"value": b"gone"}])
    for future in admin.delete_topics(["doomed"]).values():
        future.result(STEP_SECONDS_MAX)
    eventually(lambda: "doomed" not in admin.list_topics(timeout=10).topics, "the topic is gone")


def _refused(process: ApacheKafkaProcess | SordiniProcess) -> str:
    """What a broker says that has to end by itself."""
    process.launch()
    try:
        assert process.wait_for_exit(STEP_SECONDS_MAX) != 0
        return process.output()
    finally:
        process.kill()


@dataclass
class Acknowledged:
    """What was acknowledged to producers."""

    records: dict[int, bytes] = field(default_factory=dict)
    """Value by offset, of `once-0`."""
    committed: list[bytes] = field(default_factory=list)
    """Values of transactions whose commit was acknowledged and is in `money-0`."""
    aborted: list[bytes] = field(default_factory=list)


@dataclass
class KilledJourney:
    """Ours, theirs, ours; each killed in the middle of load, but the last."""

    version: str
    acknowledged: Acknowledged
    stages: list[Served]
    outputs: list[str]


def killed_journey(exchange: Exchange, version: str) -> KilledJourney:
    acknowledged, stages, outputs = Acknowledged(), list[Served](), list[str]()
    ours = exchange.sordini()
    loads.create_topics(ours.bootstrap)
    loads.write(ours.bootstrap, 1)
    _kill_under_load(exchange, acknowledged, outputs, transactions=False)

    theirs = exchange.apache(version)
    stages.append(served(theirs.bootstrap))
    loads.write(theirs.bootstrap, 2)
    _kill_under_load(exchange, acknowledged, outputs, transactions=True)

    ours = exchange.sordini()
    stages.append(served(ours.bootstrap))
    exchange.stop()
    outputs.append(ours.output())
    return KilledJourney(version, acknowledged, stages, outputs)


def _kill_under_load(exchange: Exchange, acknowledged: Acknowledged, outputs: list[str], *, transactions: bool) -> None:
    broker = exchange.broker
    assert broker is not None
    before = len(acknowledged.records)
    with _loaded(broker.bootstrap, acknowledged, transactions=transactions):
        eventually(
            lambda: (
                len(acknowledged.records) - before > ACKNOWLEDGED
                and (not transactions or (len(acknowledged.committed) > 50 and len(acknowledged.aborted) > 50))
            ),
            "enough is acknowledged",
            STEP_SECONDS_MAX,
        )
        exchange.kill()
    outputs.append(broker.output())


@contextmanager
def _loaded(bootstrap: str, acknowledged: Acknowledged, *, transactions: bool) -> Iterator[None]:
    """Producers at work; they end when the broker is gone and the block is left."""
    over = Event()
    workers = [Thread(target=_produce, args=(bootstrap, acknowledged, over))]
    if transactions:
        workers.append(Thread(target=_transact, args=(bootstrap, acknowledged, over)))
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join(STEP_SECONDS_MAX)
            assert not worker.is_alive()


def _produce(bootstrap: str, acknowledged: Acknowledged, over: Event) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            value, offset = message.value(), message.offset()
            assert value is not None
            assert offset is not None
            acknowledged.records[offset] = value

    producer = Producer(_settings(bootstrap) | {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 8})
    number = 0
    while not over.is_set():
        value = b"record %d of %s" % (number, bootstrap.encode())
        producer.produce("once", value * 4, partition=0, on_delivery=delivered)
        number += 1
        producer.poll(0.001)
    producer.purge()


def _transact(bootstrap: str, acknowledged: Acknowledged, over: Event) -> None:
    """Transactions of five, each second one aborted, until the broker is gone."""
    from confluent_kafka import KafkaException

    producer = Producer(_settings(bootstrap) | {"transactional.id": "under-load", "linger.ms": 0})
    ended: tuple[list[bytes], list[bytes]] = ([], [])
    try:
        producer.init_transactions(10)
        for number in range(10_000):
            if over.is_set():
                break
            producer.begin_transaction()
            values = [b"transaction %d, record %d" % (number, record) for record in range(5)]
            for value in values:
                producer.produce("money", value, partition=0)
            if producer.flush(5) == 0:
                # The end of a transaction is answered before its markers are written, which its coordinator does later,
                # even in its next life. They are there when the next transaction could begin.
                reported, former = ended
                reported += former
            if number % 2:
                producer.abort_transaction(2)
                ended = acknowledged.aborted, values
            else:
                producer.commit_transaction(2)
                ended = acknowledged.committed, values
    except KafkaException:
        # The broker is killed in the middle of one: its outcome is unknown.
        pass
    producer.purge()


def _settings(bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "error_cb": lambda _: None,
        "transaction.timeout.ms": 600_000,
    }
