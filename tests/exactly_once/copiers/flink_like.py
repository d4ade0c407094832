"""A job in the manner of Flink: two-phase commit with the Java producer, in a JVM inside this program.

    read --> write in a transaction, flush --> checkpoint: offsets and the prepared transaction --> commit
                                                     |
                                  killed from here on: the next program commits what is prepared, by its producer id
                                  and epoch, and reads on from the checkpoint's offsets

The source's offsets are in the checkpoint alone; no group is used. Transactional ids are taken in turn from a pool. What
was written and not prepared is aborted by the next program's `initTransactions`. The Java client has no interface for
resuming a transaction: as Flink does, it is done by reflection.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import jpype

from tests.exactly_once.copiers.orders import PIECE_MAX, POLL_S, Journal, Orders, Stop, output, run
from tests.outside.needs import client_jars
from tests.outside.versions import APACHE_KAFKA

POOL: Final = 3
PARTITIONS: Final = 3
KILLED_AT: Final = 19
"""The transaction of each program that only the next one commits."""
TIMEOUT_MS: Final = 600_000
"""A prepared transaction must not time out before its job is back."""
_LOG4J: Final = Path(__file__).parents[2] / "outside" / "log4j.properties"
_CLIENTS: Final = "org.apache.kafka.clients"
_BYTES: Final = "org.apache.kafka.common.serialization.ByteArray"


class Prepared(NamedTuple):
    """A transaction that was written whole. `name` is the journal's."""

    transactional_id: str
    producer_id: int
    epoch: int
    name: str


class Checkpoint(NamedTuple):
    """What the job goes on from."""

    number: int
    offsets: dict[str, int]
    prepared: Prepared | None

    def save(self, path: Path) -> None:
        """On the disk when this returns, whole or not at all."""
        arriving = path.with_suffix(".arriving")
        with arriving.open("w", encoding="utf-8") as file:
            json.dump(self, file)
            file.flush()
            os.fsync(file.fileno())
        arriving.replace(path)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        if not path.exists():
            return cls(0, {str(number): 0 for number in range(PARTITIONS)}, None)
        number, offsets, prepared = json.loads(path.read_text(encoding="utf-8"))
        return cls(number, offsets, None if prepared is None else Prepared(*prepared))


class Job:
    """A consumer without a group, and a pool of producers."""

    def __init__(self, orders: Orders, journal: Journal) -> None:
        self._orders = orders
        self._journal = journal
        self._path = Path(orders.journal).with_suffix(".checkpoint")
        self._checkpoint = Checkpoint.load(self._path)
        if self._checkpoint.prepared is not None:
            self._commit_prepared(self._checkpoint.prepared)
        self._ids = [f"{orders.name}-{number}" for number in range(POOL)]
        self._producers = [_producer(orders, name) for name in self._ids]
        for producer in self._producers:
            producer.initTransactions()
        self._consumer = _consumer(orders)
        self._seek()

    def _commit_prepared(self, prepared: Prepared) -> None:
        """Commit what the program before has prepared, whether or not it was answered that it is committed."""
        producer = _producer(self._orders, prepared.transactional_id)
        _resume(producer, prepared)
        producer.commitTransaction()
        producer.close()
        if not self._journal.has_ended(prepared.name):
            sys.stdout.write(f"resumed {prepared.name}\n")
        self._journal.ended(prepared.name, "committed")

    def _seek(self) -> None:
        partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
        offsets = {partition(self._orders.source, int(number)): at for number, at in self._checkpoint.offsets.items()}
        self._consumer.assign(list(offsets))
        for one, offset in offsets.items():
            self._consumer.seek(one, jpype.JLong(offset))

    def step(self) -> None:
        """One transaction, if there is anything to read."""
        records = list(self._consumer.poll(jpype.java.time.Duration.ofMillis(int(POLL_S * 1_000))))
        if not records:
            return
        name = self._journal.begin()
        index = self._checkpoint.number % POOL
        producer = self._producers[index]
        producer.beginTransaction()
        for record in records:
            producer.send(self._output(record, name, len(records)))
        producer.flush()
        if self._journal.is_to_be_aborted:
            producer.abortTransaction()
            self._journal.ended(name, "aborted")
            self._seek()
            return
        ends = {str(int(record.partition())): int(record.offset()) + 1 for record in records}
        prepared = Prepared(self._ids[index], *_identity(producer), name)
        offsets = {**self._checkpoint.offsets, **ends}
        self._checkpoint = Checkpoint(self._checkpoint.number + 1, offsets, prepared)
        self._checkpoint.save(self._path)
        if self._journal.begun == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        producer.commitTransaction()
        self._journal.ended(name, "committed")

    def _output(self, record: Any, name: str, size: int) -> Any:
        value = jpype.JArray(jpype.JByte)(output(bytes(record.value()), name, size))
        number = jpype.java.lang.Integer(record.partition())
        return jpype.JClass(f"{_CLIENTS}.producer.ProducerRecord")(self._orders.sink, number, None, value)


def _properties(orders: Orders, **settings: object) -> Any:
    found = jpype.JClass("java.util.Properties")()
    for key, value in {"bootstrap_servers": orders.bootstrap, **settings}.items():
        found.put(key.replace("_", "."), str(value))
    return found


def _producer(orders: Orders, transactional_id: str) -> Any:
    settings = {"key_serializer": f"{_BYTES}Serializer", "value_serializer": f"{_BYTES}Serializer"}
    properties = _properties(orders, transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS, **settings)
    return jpype.JClass(f"{_CLIENTS}.producer.KafkaProducer")(properties)


def _consumer(orders: Orders) -> Any:
    settings = {"key_deserializer": f"{_BYTES}Deserializer", "value_deserializer": f"{_BYTES}Deserializer"}
    ways = {"isolation_level": "read_committed", "enable_auto_commit": "false", "max_poll_records": PIECE_MAX}
    return jpype.JClass(f"{_CLIENTS}.consumer.KafkaConsumer")(_properties(orders, **settings, **ways))


def _field(owner: Any, name: str) -> Any:
    """A private field, by reflection."""
    found = owner.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found


def _manager(producer: Any) -> Any:
    return _field(producer, "transactionManager").get(producer)


def _identity(producer: Any) -> tuple[int, int]:
    """The producer id and the epoch of its transactions."""
    manager = _manager(producer)
    found = _field(manager, "producerIdAndEpoch").get(manager)
    return int(found.producerId), int(found.epoch)


def _resume(producer: Any, prepared: Prepared) -> None:
    """Let a new producer continue in the transaction that another program has prepared."""
    manager = _manager(producer)
    state = jpype.java.lang.Class.forName(f"{_CLIENTS}.producer.internals.TransactionManager$State")
    in_transaction = state.getDeclaredField("IN_TRANSACTION")
    in_transaction.setAccessible(True)
    identity = jpype.JClass("org.apache.kafka.common.utils.ProducerIdAndEpoch")
    _field(manager, "producerIdAndEpoch").set(
        manager, identity(jpype.JLong(prepared.producer_id), jpype.JShort(prepared.epoch))
    )
    _field(manager, "currentState").set(manager, in_transaction.get(None))
    _field(manager, "transactionStarted").setBoolean(manager, True)


def copy(orders: Orders, journal: Journal, stop: Stop) -> None:
    flags = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xrs")
    jars = [str(jar) for jar in client_jars(APACHE_KAFKA)]
    jpype.startJVM(*flags, f"-Dlog4j.configuration=file:{_LOG4J}", classpath=jars)
    job = Job(orders, journal)
    while not stop.is_wanted():
        job.step()
    os._exit(0)  # No transaction is open; closing everything in order would take the JVM seconds.


if __name__ == "__main__":
    run(copy)
