"""The broker is killed while dead letters are written: every record that was given up has one, and no other record.

The moment of a kill is when the log of dead letters has grown to a size that is drawn by chance, or some milliseconds
later: between a dead letter and the end of its record, before both, or behind. A dead letter is written once more for
a record that was not archived yet, so the number of its copies is bounded by the kills that it has seen.

`make share-kills` runs it for SORDINI_SHARE_KILLS seconds; otherwise it is a slice of a few kills.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.returned_records import returned_batches
from tests.outside.processes import SordiniProcess
from tests.support.share_group import (
    ACCEPT,
    REJECT,
    RELEASE,
    Acknowledged,
    Acquired,
    NotCoordinated,
    ShareMember,
    ShareTopic,
    find_topic,
    prepare,
)
from tests.support.wire_client import Client

SECONDS: Final = float(os.environ.get("SORDINI_SHARE_KILLS", "0"))
KILLS: Final = 3
"""Of the short slice."""
DEAD: Final = "dlq.work"
LIMIT: Final = 2
IN_FLIGHT_MAX: Final = 1_200
"""More than the dead letters of one batch."""
RECORDS: Final = 1_500
"""Produced before each kill."""
LETTER_BYTES: Final = 200
"""About the size of one dead letter."""
LATER_MS_MAX: Final = 5.0
PATIENCE_S: Final = 60.0
SETTINGS: Final[dict[str, object]] = {
    "share.coordinator.state.topic.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
}
OF_GROUP: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": LIMIT,
    "share.partition.max.record.locks": IN_FLIGHT_MAX,
    "errors.deadletterqueue.topic.name": DEAD,
}
REJECTED, EXCEEDED = b"Offset rejected by client.", b"Offset delivery count exceeded the threshold."
FATES: Final = (ACCEPT, REJECT, RELEASE, REJECT, ACCEPT)
"""What is said of a record, by its offset."""


class Letter(NamedTuple):
    """What the headers of a dead letter say."""

    offset: int
    deliveries: int
    reason: bytes


class Work:
    """One broker, and a member that says of each record what its fate is."""

    def __init__(self, broker: SordiniProcess, seed: int) -> None:
        self.broker, self.chance = broker, random.Random(seed)
        self.end = 0
        self.kills: list[int] = []
        """How many records there were at each kill."""
        with self._connected() as client:
            _create_dead(client)
            self._topic = prepare(client, "workers", "work", OF_GROUP)

    def _connected(self) -> Client:
        return Client("127.0.0.1", self.broker.port)

    def produce(self) -> None:
        records = [Record(number, 1, None, b"%d" % (self.end + number)) for number in range(RECORDS)]
        with self._connected() as client:
            (row,) = client.produce(self._topic.name, [build_batch(records)])
        assert (row.error_code, row.base_offset) == (0, self.end), row
        self.end += RECORDS

    def kill_while_it_writes(self) -> None:
        """The member works, and the broker is killed meanwhile."""
        log = self.broker.data_directory / f"{DEAD}-0"
        grown = _size(log) + self.chance.randrange(RECORDS * LETTER_BYTES // 2)
        later_s = self.chance.choice((0.0, 0.0, self.chance.uniform(0, LATER_MS_MAX / 1_000)))
        ended = threading.Event()
        worker = threading.Thread(target=self._work_until_killed, args=(ended,))
        worker.start()
        deadline_s = time.monotonic() + PATIENCE_S
        while _size(log) <= grown and not ended.is_set():
            assert time.monotonic() < deadline_s, f"no dead letters are written\n{self.broker.tail()}"
        time.sleep(later_s)  # A part of the moment that is drawn: nothing is waited for.
        self.broker.kill()
        self.kills.append(self.end)
        worker.join()
        self.broker.start()

    def _work_until_killed(self, ended: threading.Event) -> None:
        try:
            self.finish()
        except (OSError, AssertionError):
            return  # The broker was killed; what became of the records is judged in the end.
        finally:
            ended.set()

    def finish(self) -> None:
        """Work until the group has nothing left to do. Raises OSError and AssertionError."""
        deadline_s = time.monotonic() + PATIENCE_S
        with self._connected() as client:
            member = ShareMember(client, _found(client, self._topic))
            member.join()
            while self._lag(client):
                assert time.monotonic() < deadline_s, f"the group is not done\n{self.broker.tail()}"
                acquired = member.fetch(500, wait_ms=100).acquired
                if acquired:
                    assert member.acknowledge(list(_said(acquired))) == 0

    def _lag(self, client: Client) -> int:
        """Records that are not done."""
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self._topic.group, topics=None)
        answer = client.ask(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsRequest(groups=[group])
        ).groups[0]
        rows = [row for topic in answer.topics for row in topic.partitions]
        return rows[0].lag if rows and rows[0].error_code == 0 and rows[0].lag >= 0 else self.end

    def letters(self) -> Iterator[Letter]:
        with self._connected() as client:
            position = 0
            while data := client.fetch(DEAD, offset=position):
                for batch in returned_batches(data, position, ()):
                    position = batch.next_offset
                    yield from (_letter(record) for record in batch.records)


def _create_dead(client: Client) -> None:
    allowed = CreatableTopicConfig(name="errors.deadletterqueue.group.enable", value="true")
    topic = CreatableTopic(name=DEAD, num_partitions=1, replication_factor=1, configs=[allowed])
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
    assert answer.topics[0].error_code == 0, answer


def _found(client: Client, topic: ShareTopic) -> ShareTopic:
    """The topic, when the broker leads and coordinates again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return find_topic(client, topic.group, topic.name)
        except NotCoordinated:
            assert time.monotonic() < deadline_s, "there is no coordinator"


def _said(acquired: Sequence[Acquired]) -> Iterator[Acknowledged]:
    for one in acquired:
        for offset in range(one.first, one.last + 1):
            yield offset, offset, FATES[offset % len(FATES)]


def _size(log: Path) -> int:
    return sum(path.stat().st_size for path in log.glob("*.log"))


def _letter(record: Record) -> Letter:
    said = {name: value or b"" for name, value in record.headers}
    return Letter(
        int(said["__dlq.errors.offset"]), int(said["__dlq.errors.delivery.count"]), said["__dlq.errors.message"]
    )


def judge(work: Work) -> tuple[int, int]:
    """Raises AssertionError. Returns how many records have dead letters, and how many of these are copies."""
    by_record: dict[int, list[Letter]] = {}
    for one in work.letters():
        by_record.setdefault(one.offset, []).append(one)
    for offset in range(work.end):
        letters, fate = by_record.pop(offset, []), FATES[offset % len(FATES)]
        seen = sum(produced > offset for produced in work.kills)
        if fate == ACCEPT:
            assert letters == [], "it was accepted"
            continue
        assert 1 <= len(letters) <= 1 + seen, (offset, letters, work.kills)
        assert all(one in _allowed(offset, fate) for one in letters), letters
        by_record[-1 - offset] = letters
    assert all(offset < 0 for offset in by_record), "there is no such record"
    copies = sum(len(letters) - 1 for letters in by_record.values())
    # Only what is in flight when the broker is killed can be written once more.
    assert copies <= len(work.kills) * IN_FLIGHT_MAX
    return len(by_record), copies


def _allowed(offset: int, fate: int) -> set[Letter]:
    """A record that was acquired is delivered once, whether or not it was before the kill: that is not stored."""
    return {Letter(offset, 1, REJECTED)} if fate == REJECT else {Letter(offset, LIMIT, EXCEEDED)}


def test_what_was_given_up_has_a_dead_letter_however_often_the_broker_is_killed_and_what_was_accepted_has_none(
    tmp_path: Path,
) -> None:
    until_s = time.monotonic() + SECONDS
    with SordiniProcess(tmp_path, SETTINGS) as broker:
        work = Work(broker, seed=1)
        while len(work.kills) < KILLS or time.monotonic() < until_s:
            work.produce()
            work.kill_while_it_writes()
        work.finish()
        records, copies = judge(work)
    sys.stderr.write(f"{len(work.kills)} kills, {work.end} records, {records} dead letters, {copies} copies of these\n")
    if SECONDS:
        assert copies, "no kill was between a dead letter and the end of its record"
