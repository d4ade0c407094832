"""A transaction in two phases over this project's own codecs: prepared by one program, ended by another.

`python -m tests.exactly_once.two_phases '{...}'` begins a transaction, writes it whole, prints which producer it is of, and
waits to be killed: what Flink's sink does between its checkpoint and its commit. Another program ends it with the
transactional id, the producer id and the epoch, and without an InitProducerId, which would abort it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from sordini.client.retries import RETRIABLE
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record
from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess
from tests.support.builders import an_idempotent_batch
from tests.support.wire_client import Client

SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.05
TIMEOUT_MS: Final = 600_000
_TRANSACTIONS: Final = 1
"""The kind of coordinator."""
_AGAIN: Final = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}

Ask = Callable[[ApiKey, int, Any], Any]


class Prepared(NamedTuple):
    """What has to be remembered of a transaction to end it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Orders(NamedTuple):
    """`values` are by partition."""

    bootstrap: str
    transactional_id: str
    topic: str
    values: Mapping[str, list[str]]


def at_coordinator(bootstrap: str, transactional_id: str, request: Callable[[Client], int]) -> int:
    """The first code of a request to the coordinator that is not to be tried again."""

    def once() -> int:
        with _connected(bootstrap) as client:
            wanted = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTIONS)
            found = client.ask(ApiKey.FIND_COORDINATOR, 3, wanted)
        if found.error_code:
            return int(found.error_code)
        with Client(found.host, found.port) as client:
            return request(client)

    return _repeated(once)


def end(bootstrap: str, prepared: Prepared, *, commit: bool) -> int:
    """End a transaction that another program has prepared: EndTxn alone, on a connection of its own."""
    return at_coordinator(bootstrap, prepared.transactional_id, lambda client: end_on(client, prepared, commit=commit))


def end_on(client: Client, prepared: Prepared, *, commit: bool) -> int:
    """The error code of one EndTxn."""
    request = EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.epoch,
        committed=commit,
    )
    return int(client.ask(ApiKey.END_TXN, 3, request).error_code)


def begin(bootstrap: str, transactional_id: str) -> Prepared:
    """A producer id and an epoch; what is open of this transactional id is aborted."""
    granted: list[Prepared] = []

    def init(client: Client) -> int:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        granted.append(Prepared(transactional_id, answer.producer_id, answer.producer_epoch))
        return int(answer.error_code)

    _granted(at_coordinator(bootstrap, transactional_id, init))
    return granted[-1]


def write(orders: Orders, producer: Prepared) -> None:
    """Add the partitions and produce to each; every record is acknowledged by all replicas in sync."""
    numbers = sorted(map(int, orders.values))

    def add(client: Client) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=orders.topic, partitions=numbers)],
        )
        [topic] = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request).results_by_topic_v3_and_below
        return max(int(row.partition_error_code) for row in topic.results_by_partition)

    _granted(at_coordinator(orders.bootstrap, producer.transactional_id, add))
    for number in numbers:
        _granted(_repeated(lambda number=number: _produce(orders, producer, number)))


def _produce(orders: Orders, producer: Prepared, number: int) -> int:
    values = orders.values[str(number)]
    records = [Record(index, 1_700_000_000_000, None, value.encode()) for index, value in enumerate(values)]
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "sequence": 0}
    batch = an_idempotent_batch(records, **ids, transactional=True)
    data = [
        TopicProduceData(name=orders.topic, partition_data=[PartitionProduceData(index=number, records=batch)]),
    ]
    request = ProduceRequest(transactional_id=producer.transactional_id, acks=-1, timeout_ms=20_000, topic_data=data)
    with _connected_to_leader(orders, number) as client:
        [topic] = client.ask(ApiKey.PRODUCE, 9, request).responses
    return int(topic.partition_responses[0].error_code)


def _connected_to_leader(orders: Orders, number: int) -> Client:
    with _connected(orders.bootstrap) as client:
        found = client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=orders.topic)]))
    leaders = {row.partition_index: row.leader_id for topic in found.topics for row in topic.partitions}
    places = {one.node_id: (one.host, one.port) for one in found.brokers}
    if leaders.get(number) not in places:
        raise ConnectionError(f"{orders.topic}-{number} has no leader")
    return Client(*places[leaders[number]])


def _connected(bootstrap: str) -> Client:
    """A connection to the first broker that accepts one."""
    problem: OSError | None = None
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            return Client(host, int(port))
        except OSError as refused:
            problem = refused
    assert problem is not None
    raise problem


def _repeated(request: Callable[[], int]) -> int:
    """The first code that is not one to try again; a connection that is refused or closed is tried again, too."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            code = request()
        except OSError:
            code = ErrorCode.NETWORK_EXCEPTION
        if code not in _AGAIN or time.monotonic() > deadline:
            return code
        time.sleep(POLL_SECONDS)


def _granted(code: int) -> None:
    assert code == 0, ErrorCode(code)


class Preparing(OutsideProcess):
    """A program that prepares one transaction and waits; it is ready when the transaction is prepared."""

    name = "preparing"

    def __init__(self, directory: Path, orders: Orders) -> None:
        super().__init__(directory)
        self._orders = orders

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.exactly_once.two_phases", json.dumps(self._orders._asdict())]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / ".import")])}

    def is_ready(self) -> bool:
        return self.output().endswith("]\n")

    @property
    def prepared(self) -> Prepared:
        return Prepared(*json.loads(self.output()))


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    producer = begin(orders.bootstrap, orders.transactional_id)
    write(orders, producer)
    sys.stdout.write(json.dumps(producer) + "\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
