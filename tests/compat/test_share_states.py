"""The share coordinator beside Apache Kafka 4.4.0: the same requests by chance, the same answers, the same records.

`make shares` plays SEEDS scripts; their numbers are the bug reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.machine.stored_state import Snapshot
from sordini.broker.share_state.ports import SharePartitionKey, StateWrite
from sordini.broker.share_state.records import SHARE_STATE_TOPIC, StateKey, read_key, read_value, state_record
from sordini.broker.share_state.state_apis import (
    DELETE,
    INITIALIZE,
    READ,
    STATE_APIS,
    SUMMARIZE,
    WRITE,
    InitialState,
    StateApi,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import read_header
from sordini.protocol.records.key_values import read_key_values
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset, TopicId, topic_id_text
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.support.unit_broker import UnitBroker, a_broker
from tests.support.wire_client import Client

SEEDS: Final = range(int(os.environ.get("SORDINI_SHARES", "0")))
STEPS: Final = 120
UPDATES_PER_SNAPSHOT: Final = 5
SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
}
TOPIC: Final = "judged"
PARTITIONS: Final = 2
NOT_READY: Final = frozenset({14, 15, 16})

pytestmark = pytest.mark.skipif(not SEEDS, reason="`make shares` runs it")

Line = tuple[bytes, bytes | None]


class Apache:
    """Apache Kafka 4.4.0, with one topic, and with the topic of states."""

    def __init__(self, process: KRaftProcess) -> None:
        self._log = Path(process.data_directory) / f"{SHARE_STATE_TOPIC}-0" / f"{0:020}.log"
        self._client = Client("127.0.0.1", process.port)
        broker = Broker("127.0.0.1", process.port, Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA)), TOPIC)
        until(lambda: broker.ask("Metadata", 9, topics=[]), lambda seen: isinstance(seen, dict) and seen["brokers"])
        self.topic_id = TopicId(broker.topic_id(broker.create_led("topic", PARTITIONS)))
        name = SharePartitionKey("first", self.topic_id, 0)
        until(
            lambda: broker.ask(
                "FindCoordinator", 6, key_type=2, coordinator_keys=[f"first:{topic_id_text(self.topic_id)}:0"]
            ),
            lambda seen: seen["coordinators"][0]["error_code"] not in NOT_READY,
        )
        until(
            lambda: self.ask(SUMMARIZE, 1, a_request(SUMMARIZE, [(name, None)])),
            lambda seen: seen.results[0].partitions[0].error_code not in NOT_READY,
        )
        broker.close()

    def close(self) -> None:
        self._client.__exit__(None, None, None)

    def ask(self, api: StateApi, version: int, request: Any) -> Any:
        return self._client.ask(api.key, version, request)

    def lines(self) -> list[Line]:
        return lines_of(self._log.read_bytes())


def lines_of(log: bytes) -> list[Line]:
    """The records of a log segment."""
    found: list[Line] = []
    view, position = memoryview(log), 0
    while position < len(log):
        header = read_header(view[position:])
        batch = view[position : position + header.size]
        found += [(key or b"", value) for key, value in read_key_values(batch, header)]
        position += header.size
    return found


def timeless(line: Line) -> tuple[StateKey, Any]:
    """A record without the times of its clock; the bytes are those that our writer makes of it."""
    key = read_key(line[0])
    assert isinstance(key, StateKey), key
    record = read_value(key.kind, line[1])
    assert not isinstance(record, Damaged), record
    assert state_record(key.share_partition, record) == line
    if isinstance(record, Snapshot):
        return key, record._replace(created_ms=0, written_ms=0)
    return key, record


def a_request(api: StateApi, rows: list[tuple[SharePartitionKey, Any]]) -> Any:
    """One request for share partitions of one group."""
    topics: dict[TopicId, Any] = {}
    for key, argument in rows:
        topic = topics.setdefault(key.topic_id, api.topic(topic_id=key.topic_id))
        topic.partitions.append(api.row(key.partition, argument))
    return api.request(group_id=rows[0][0].group_id, topics=list(topics.values()))


def answers(response: Any) -> dict[tuple[bytes, int], Any]:
    """The rows but for the texts of errors, by topic and partition."""
    found = {}
    for topic in response.results:
        for row in topic.partitions:
            row.error_message = None
            found[bytes(topic.topic_id), row.partition] = row
    return found


class Script:
    """Random requests on a few share partitions of one group."""

    def __init__(self, seed: int, topic_id: TopicId) -> None:
        self.random = Random(seed)
        group_id = f"group-{seed}"
        self.keys = [SharePartitionKey(group_id, topic_id, number) for number in range(PARTITIONS)]
        self.wrong = [
            SharePartitionKey(group_id, topic_id, PARTITIONS),
            SharePartitionKey(group_id, topic_id, -1),
            SharePartitionKey(group_id, TopicId(bytes(range(16))), 0),
        ]

    def steps(self) -> Iterator[tuple[StateApi, int, Any]]:
        for key in self.keys:
            yield INITIALIZE, 0, a_request(INITIALIZE, [(key, InitialState(0, None))])
        for _ in range(STEPS):
            weights = [2, 8, 30, 1, 8]
            (api,) = self.random.choices([INITIALIZE, READ, WRITE, DELETE, SUMMARIZE], weights)
            keys = self.keys if self.random.random() < 0.9 else self.wrong
            chosen = self.random.sample(keys, self.random.choice([1, 1, 2]))
            version = self.random.randint(APIS[api.key].min_version, APIS[api.key].max_version)
            yield api, version, a_request(api, [(key, self.argument(api)) for key in chosen])

    def argument(self, api: StateApi) -> Any:
        draw = self.random
        if api is INITIALIZE:
            return InitialState(self.epoch(), self.start())
        if api is READ:
            return self.epoch()
        if api is WRITE:
            runs = tuple(self.run() for _ in range(draw.choice([0, 1, 1, 2, 5])))
            done = draw.choice([None, 0, draw.randint(1, 9)])
            return StateWrite(self.epoch(), self.epoch(), self.start(), done, runs)
        return None

    def epoch(self) -> int:
        return self.random.choices([-1, 0, 1, 2, 3], [1, 4, 6, 8, 12])[0]

    def start(self) -> Offset | None:
        return None if self.random.random() < 0.3 else Offset(self.random.randint(0, 25))

    def run(self) -> StateRun:
        first = self.random.randint(0, 30)
        deliveries = self.random.randint(0, 4)
        return StateRun(first, first + self.random.randint(1, 8), self.random.choice([0, 2, 3, 4]), deliveries)


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    with KRaftProcess(tmp_path_factory.mktemp("share-states"), SETTINGS) as process:
        made = Apache(process)
        yield made
        made.close()


async def our_broker(broker: UnitBroker, topic_id: TopicId) -> None:
    await broker.lead(TOPIC, PARTITIONS, topic_id=topic_id)
    await broker.lead(SHARE_STATE_TOPIC, 1)
    await broker.settled()


def our_lines(broker: UnitBroker) -> list[Line]:
    log = broker.parts.replicas.partition(SHARE_STATE_TOPIC, 0).log
    piece = log.read(0, 1 << 30, log.log_end_offset, whole_first=True)
    if piece is None:
        return []
    try:
        return lines_of(bytes(piece.read()))
    finally:
        piece.release()


@pytest.mark.parametrize("seed", SEEDS)
async def test_requests_by_chance_have_the_same_answers_and_the_same_records(seed: int, apache: Apache) -> None:
    before = len(apache.lines())
    async with a_broker(SETTINGS) as broker:
        await our_broker(broker, apache.topic_id)
        played: list[Any] = []
        for api, version, request in Script(seed, apache.topic_id).steps():
            played.append(request)
            theirs = apache.ask(api, version, request)
            ours = broker.ask(api.key, version, request)
            assert answers(ours) == answers(theirs), (len(played), played[-8:])
        assert [timeless(line) for line in our_lines(broker)] == [timeless(line) for line in apache.lines()[before:]]


def test_every_request_is_played() -> None:
    seen = {api.kind for seed in SEEDS for api, _, _ in Script(seed, TopicId(bytes(16))).steps()}
    assert seen == {api.kind for api in STATE_APIS}


def test_apache_kafka_refuses_no_version_that_is_sent(apache: Apache) -> None:
    key = SharePartitionKey("versions", apache.topic_id, 0)
    for api in STATE_APIS:
        for version in range(APIS[api.key].min_version, APIS[api.key].max_version + 1):
            argument = {INITIALIZE: InitialState(0, None), READ: 0, WRITE: StateWrite(0, 0, None, None, ())}.get(api)
            response = apache.ask(api, version, a_request(api, [(key, argument)]))
            assert {row.error_code for row in answers(response).values()} <= {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}
