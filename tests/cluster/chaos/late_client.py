"""A transactional producer whose EndTxn of one transaction arrives again in the next one, by hand.

In each round it has two connections to its coordinator. On the newer one it ends a transaction, as a client does that
got no answer on the older one, connected again and sent again. When the next transaction is under way, what was sent
first arrives: EndTxn on the older connection, of the producer id and epoch that are still in force. No broker may
serve it, and the transaction that is under way ends as its producer says (docs/delayed-requests.md).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record
from tests.cluster.chaos.events import ABORTED, COMMITTED, COMMITTING, OPEN, Began, Late, Txn
from tests.cluster.chaos.raw_client import PATIENCE_SECONDS, Links
from tests.cluster.chaos.transacting import TIMEOUT_MS
from tests.cluster.chaos.working import Working, split
from tests.cluster.security import connected
from tests.support.builders import a_batch
from tests.support.wire_client import Client

ATTEMPTS_MAX: Final = 50
AGAIN_SECONDS: Final = 0.05
"""Between two attempts while the markers of the last transaction are being written."""
ROUNDS_OF_A_LIFE: Final = 5
LATER: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
NO_ANSWER: Final = -1
_TRANSACTION: Final = 1
"""The key type of FindCoordinator."""


class RefusedError(Exception):
    """A broker refused a request; the round cannot go on."""


class Life(NamedTuple):
    """A producer id and epoch, and the next sequence of each partition."""

    pid: str
    producer_id: int
    epoch: int
    sequences: dict[str, int]


class LateClient:
    """One transactional id."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._id = working.orders.transactional_id
        self._links = Links(working.orders.bootstrap, working.orders.security)
        self._choice = random.Random(working.orders.name)
        self._lives = count(1)
        self._numbers = count(1)

    def run(self) -> None:
        while self._working:
            with suppress(OSError, RefusedError):
                self._live()
            time.sleep(1 / self._working.orders.per_second)

    def _live(self) -> None:
        """Rounds of one producer epoch, until something is refused. Raises OSError and RefusedError."""
        address = self._coordinator()
        life = self._begin(address)
        for _ in range(ROUNDS_OF_A_LIFE):
            if not self._working:
                return
            self._round(address, life)
            time.sleep(1 / self._working.orders.per_second)

    def _coordinator(self) -> str:
        found = self._links.any(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=self._id, key_type=_TRANSACTION))
        _check(found.error_code)
        return f"{found.host}:{found.port}"

    def _begin(self, address: str) -> Life:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        pid, t0 = f"{self._working.orders.name}/{next(self._lives)}", time.monotonic()
        for _ in range(ATTEMPTS_MAX):
            answer = self._links.ask(address, ApiKey.INIT_PRODUCER_ID, 4, request)
            if answer.error_code not in LATER:
                break
            time.sleep(AGAIN_SECONDS)
        _check(answer.error_code)
        self._working.recorder.note(Began(self._id, pid, t0, time.monotonic()))
        return Life(pid, answer.producer_id, answer.producer_epoch, {})

    def _round(self, address: str, life: Life) -> None:
        commit = self._choice.random() < 0.5
        with self._connected(address) as older, self._connected(address) as newer:
            first = self._written(newer, life)
            self._end(newer, life, first, commit=commit)
            second = self._written(newer, life)
            self._arrive_late(older, life, second, commit=commit)
            self._end(newer, life, second, commit=not commit)

    def _arrive_late(self, older: Client, life: Life, open_one: Txn, *, commit: bool) -> None:
        try:
            code = older.ask(ApiKey.END_TXN, 3, self._end_request(life, commit=commit)).error_code
        except OSError:
            code = NO_ANSWER  # Its connection was closed, as it should be, or the broker is gone.
        self._working.recorder.note(Late(open_one.id, code, time.monotonic()))

    def _written(self, link: Client, life: Life) -> Txn:
        """Begin a transaction and write one record to each of two partitions."""
        name = f"{life.pid}/{next(self._numbers)}"
        tps = self._choice.sample(self._working.orders.partitions, 2)
        txn = Txn(name, OPEN, [(tp, -1, f"{name}/{tp}") for tp in tps], self._id, life.pid, time.monotonic())
        self._note(txn)
        self._add(link, life, tps)
        leaders = self._links.leaders(self._working.orders.topics)
        recs = []
        for tp, _, value in txn.recs:
            if tp not in leaders:
                raise RefusedError(f"{tp} has no leader")
            recs.append((tp, self._produce(leaders[tp], life, tp, value), value))
        return txn._replace(recs=recs)

    def _add(self, link: Client, life: Life, tps: Iterable[str]) -> None:
        numbers: dict[str, list[int]] = {}
        for topic, number in map(split, tps):
            numbers.setdefault(topic, []).append(number)
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=ones) for topic, ones in numbers.items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=life.producer_id,
            v3_and_below_producer_epoch=life.epoch,
            v3_and_below_topics=topics,
        )
        for _ in range(ATTEMPTS_MAX):
            answer = link.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
            codes = {
                row.partition_error_code
                for result in answer.results_by_topic_v3_and_below
                for row in result.results_by_partition
            }
            if not codes & LATER:
                break
            time.sleep(AGAIN_SECONDS)
        for code in codes:
            _check(code)

    def _produce(self, address: str, life: Life, tp: str, value: str) -> int:
        topic, partition = split(tp)
        sequence = life.sequences.get(tp, 0)
        batch = a_batch(
            [Record(0, time.time_ns() // 1_000_000, None, value.encode())],
            producer_id=life.producer_id,
            producer_epoch=life.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        rows = [PartitionProduceData(index=partition, records=memoryview(batch))]
        data = [TopicProduceData(name=topic, partition_data=rows)]
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=4_000, topic_data=data)
        row = self._links.ask(address, ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0]
        _check(row.error_code)
        life.sequences[tp] = sequence + 1
        return int(row.base_offset)

    def _end(self, link: Client, life: Life, txn: Txn, *, commit: bool) -> None:
        if commit:
            self._note(txn._replace(state=COMMITTING, t=time.monotonic()))
        request = self._end_request(life, commit=commit)
        for _ in range(ATTEMPTS_MAX):
            code = link.ask(ApiKey.END_TXN, 3, request).error_code
            if code not in LATER:
                break
            time.sleep(AGAIN_SECONDS)
        _check(code)
        self._note(txn._replace(state=COMMITTED if commit else ABORTED, t=time.monotonic()))

    def _end_request(self, life: Life, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self._id, producer_id=life.producer_id, producer_epoch=life.epoch, committed=commit
        )

    def _connected(self, address: str) -> Client:
        """A connection that the broker has accepted: it has answered on it. Raises OSError."""
        link = connected(address, self._working.orders.security, PATIENCE_SECONDS)
        link.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        return link

    def _note(self, txn: Txn) -> None:
        self._working.recorder.note(txn)
        self._working.recorder.flush()


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RefusedError(str(ErrorCode(code)))


def main() -> None:
    working = Working()
    LateClient(working).run()
    working.recorder.close()


if __name__ == "__main__":
    main()
