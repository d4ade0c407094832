"""The machine of a share partition beside Apache Kafka 4.4.0: the same calls by chance, and the same answers.

`make shares` plays SEEDS scripts; their numbers are the bug reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.record_states import AckType, RecordState
from sordini.broker.shares.machine.share_partition import Change, ShareLimits, SharePartition, StoredState
from sordini.protocol.errors import BrokerError
from tests.compat.shares.judge import Range, ShareGroup, ShareMember
from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.versions import NEWEST_APACHE_KAFKA

SEEDS: Final = range(int(os.environ.get("SORDINI_SHARES", "0")))
STEPS: Final = 40
LOCK_MS: Final = 60_000
"""No lock ends in a script: when it does is up to each clock."""
SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
}

pytestmark = pytest.mark.skipif(not SEEDS, reason="`make shares` runs it")


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    definitions = Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA))
    with KRaftProcess(tmp_path_factory.mktemp("shares"), SETTINGS) as process:
        broker = Broker("127.0.0.1", process.port, definitions, "shares")
        until(lambda: broker.ask("Metadata", 9, topics=[]), lambda seen: isinstance(seen, dict) and seen["brokers"])
        yield broker
        broker.close()


class Script:
    """One share partition twice; the same random calls to both."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.random = Random(seed)
        limits = ShareLimits(self.random.choice([2, 3, 4, 5, 6, 10]), self.random.choice([100, 2_000]), LOCK_MS)
        settings = {
            "share.delivery.count.limit": limits.delivery_count_max,
            "share.partition.max.record.locks": limits.in_flight_max,
            "share.record.lock.duration.ms": limits.lock_ms,
        }
        self.group = ShareGroup(broker, f"script-{seed}", settings)
        self.members = [ShareMember(self.group) for _ in range(2)]
        self.ours = SharePartition(StoredState(0, ()), limits)
        self.log: list[Extent] = []
        self.stored: tuple[StateRun, ...] = ()
        self.stored_start = -1
        self.played: list[object] = []
        """For the message of a failure."""

    def close(self) -> None:
        for member in self.members:
            member.close()

    def play(self) -> None:
        self.produce()
        for _ in range(STEPS):
            (step,) = self.random.choices([self.produce, self.fetch, self.acknowledge, self.reopen], [1, 6, 5, 1])
            step()
        assert self.group.stored() == self._stored(), self.played

    def _stored(self) -> tuple[int, list[tuple[int, int, int, int]]]:
        return self.stored_start, [(run.first, run.end - 1, run.state, run.deliveries) for run in self.stored]

    def produce(self) -> None:
        size = self.random.choice([1, 2, 3, 5, 8, 30])
        first = self.log[-1].end if self.log else 0
        assert self.group.broker.produce(self.group.topic, batch(size))["error_code"] == 0
        self.log.append(Extent(first, first + size))
        self.played.append(("produce", size))

    def fetch(self) -> None:
        asked = self.random.choice([1, 2, 4, 10, 500]), self.random.choice([1, 3, 10, 500])
        self._fetch(self.random.randrange(2), *asked, is_by_records=self.random.random() < 0.5)

    def _fetch(self, number: int, records_max: int, batch_size: int, *, is_by_records: bool) -> None:
        start = self.ours.next_offset()
        request = AcquisitionRequest(str(number), records_max, batch_size, is_by_records)
        found = Acquisition(self.ours, request, 0).of([extent for extent in self.log if extent.end > start])
        expected: list[Range] = [(first, end - 1, deliveries) for first, end, deliveries in found]
        self.played.append(("fetch", number, records_max, batch_size, is_by_records, expected))
        member = self.members[number]
        seen = member.fetch(records_max, batch_size, is_by_records=is_by_records, waits=bool(expected))
        assert seen == expected, self.played

    def acknowledge(self) -> None:
        number = self.random.randrange(2)
        said = list(self._said(str(number)))
        if not said:
            return
        ours = [Acknowledgement(first, last + 1, tuple(map(AckType, types))) for first, last, types in said]
        try:
            self._written(acknowledge(self.ours, str(number), ours, 0))
            expected = 0
        except BrokerError as error:
            expected = error.code
        self.played.append(("acknowledge", number, said, expected))
        assert self.members[number].acknowledge(said) == expected, self.played

    def _said(self, member: str) -> Iterator[tuple[int, int, list[int]]]:
        """What the member holds in part, and now and then what it does not hold."""
        chance, end = self.random, 0
        held = [part for each in self.ours.batches for part in each.parts if part.state is RecordState.ACQUIRED]
        for part in sorted(part for part in held if part.member == member):
            first = self.random.randint(part.first, part.end - 1)
            last = self.random.randint(first, part.end - 1) + (chance.random() < 0.05)
            if first < end or chance.random() < 0.5:
                continue
            end = last + 1
            is_one = chance.random() < 0.6
            yield first, last, [chance.randrange(4) for _ in range(1 if is_one else end - first)]
        if chance.random() < 0.05:
            first = max(end, chance.randint(0, self.ours.end + 2))
            yield first, first, [AckType.ACCEPT]

    def reopen(self) -> None:
        """Another session; its first fetch shows what the former one had released."""
        number = self.random.randrange(2)
        self.members[number].reopen()
        self._written(self.ours.release(str(number)))
        # What a closed session held is released behind the answer.
        assert until(self.group.stored, lambda seen: seen == self._stored()) == self._stored(), self.played
        self.played.append(("reopen", number))
        self._fetch(number, 1, 1, is_by_records=True)

    def _written(self, change: Change | None) -> None:
        if change is None:
            return
        written = [
            StateRun(part.first, part.end, part.after, part.deliveries)
            for part in change.parts
            if part.after is not None
        ]
        self.stored, self.stored_start = with_written(self.stored, written, change.start), change.start
        self.ours.commit(change)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_calls_are_answered_as_by_apache_kafka(apache: Broker, seed: int) -> None:
    script = Script(apache, seed)
    try:
        script.play()
    finally:
        script.close()
