"""Steps to the leaders of partitions: the bounds of the logs, and the oldest record from an offset on. Pure.

A broker of Sordini answers all of it for a thousand partitions at once. Of another one the bounds are requested by
ListOffsets, and the record is fetched, for a bounded number of partitions: its time of append is not known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sordini.client.errors import NotServed, Refused
from sordini.client.lag.asking import ANY_BROKER, Ask, Rounds, chunks, required
from sordini.client.lag.model import Age, UnreadRecord
from sordini.client.lag.outlook import Rate
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    OFFSETS_BY_NAME,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
)
from sordini.client.routing import metadata_request, partition_leaders
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_unread_records import (
    DescribeUnreadRecordsRequest,
    UnreadRecordsPartition,
    UnreadRecordsTopic,
)
from sordini.protocol.records.returned_records import returned_batches
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

PARTITIONS_PER_REQUEST: Final = 1_000
TOPICS_PER_REQUEST: Final = 1_000
RECORDS_FETCHED_MAX: Final = 500
"""Of one snapshot, from brokers that are asked record by record; of the others no age is known."""
FETCHED_AT_ONCE: Final = 50
FETCHED_BYTES: Final = 64 * 1024
BATCHES_FETCHED_MAX: Final = 4
"""Fetches of one partition in which there was no record for the reader, before the search ends."""
RETRIABLE: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.OFFSET_NOT_AVAILABLE}
)


class LogPart(NamedTuple):
    """What a leader says of a partition, from an offset on."""

    start: int = 0
    end: int = 0
    stable_end: int = 0
    rate: Rate | None = None
    unread: UnreadRecord | None = None
    is_searched: bool = True
    """Otherwise there is something to read, and its record was not searched."""
    problem: str | None = None


class Topics(NamedTuple):
    """The partitions of some topics, and which broker leads each; None for no leader."""

    leaders: dict[TopicPartition, int | None]
    problems: dict[str, str]
    """Of topics that may not be seen."""
    brokers: set[int]
    """All that are registered."""


def find_leaders(names: Iterable[str]) -> Rounds[Topics]:
    """Topics that do not exist are in neither. Raises ClientError."""
    wanted = sorted(set(names))
    found = Topics({}, {}, set())
    answers = yield [Ask(ANY_BROKER, metadata_request(part)) for part in chunks(wanted, TOPICS_PER_REQUEST)]
    for answer in answers:
        found.brokers.update(broker.node_id for broker in required(answer).brokers)
        for topic in answer.topics:
            if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                continue
            if topic.error_code and not topic.partitions:
                found.problems[topic.name] = str(Refused(f"topic '{topic.name}'", topic.error_code))
                continue
            for index, leader in partition_leaders(topic).items():
                broker = leader.broker_id if leader.broker_id >= 0 else None
                found.leaders[TopicPartition(topic.name, index)] = broker
    return found


def read_logs(
    leaders: Mapping[TopicPartition, int],
    offsets: Mapping[TopicPartition, set[int]],
    now_ms: int,
    *,
    committed_only: bool,
) -> Rounds[dict[tuple[TopicPartition, int], LogPart]]:
    """Each partition from each offset on (-1: from the log start offset). `now_ms` is the wall clock, for records
    that are fetched. Raises ClientError.
    """
    by_broker: dict[int, list[tuple[TopicPartition, int]]] = {}
    for partition, wanted in offsets.items():
        by_broker.setdefault(leaders[partition], []).extend((partition, offset) for offset in sorted(wanted))
    parts = [(broker, part) for broker, rows in by_broker.items() for part in chunks(rows, PARTITIONS_PER_REQUEST)]
    answers = yield [Ask(broker, _unread_request(part, committed_only=committed_only)) for broker, part in parts]
    found: dict[tuple[TopicPartition, int], LogPart] = {}
    unserved: dict[int, list[tuple[TopicPartition, int]]] = {}
    for (broker, part), answer in zip(parts, answers, strict=True):
        if isinstance(answer, NotServed):
            unserved.setdefault(broker, []).extend(part)
            continue
        rows: dict[TopicPartition, list[Any]] = {}
        for topic in required(answer).topics:  # Refused ones come last; one partition may have several rows.
            for row in topic.partitions:
                rows.setdefault(TopicPartition(topic.name, row.partition_index), []).append(row)
        for partition, offset in part:
            found[partition, offset] = _described(partition, rows[partition].pop(0), answer.now_ms)
    if unserved:
        found |= yield from _of_others(unserved, now_ms, committed_only=committed_only)
    return found


def _unread_request(
    rows: Sequence[tuple[TopicPartition, int]], *, committed_only: bool
) -> DescribeUnreadRecordsRequest:
    """In the order of the rows: neighbours of one topic are one element."""
    topics: list[UnreadRecordsTopic] = []
    for partition, offset in rows:
        if not topics or topics[-1].name != partition.topic:
            topics.append(UnreadRecordsTopic(name=partition.topic, partitions=[]))
        topics[-1].partitions.append(UnreadRecordsPartition(partition_index=partition.partition, offset=offset))
    level = READ_COMMITTED if committed_only else READ_UNCOMMITTED
    return DescribeUnreadRecordsRequest(isolation_level=level, topics=topics)


def _described(partition: TopicPartition, row: Any, now_ms: int) -> LogPart:
    if row.error_code:
        return _failed(partition, row.error_code, row.error_message)
    window_s = row.window_ms / 1000
    unread = None
    if row.record_offset >= 0:
        time = row.timestamp if row.timestamp >= 0 else None
        unread = UnreadRecord(
            row.record_offset,
            row.is_record_exact,
            time,
            row.timestamp_type == 1,
            None if time is None else max(0, now_ms - time),
            Age(*(None if bound < 0 else bound for bound in (row.appended_age_min_ms, row.appended_age_max_ms))),
        )
    return LogPart(
        row.log_start_offset,
        row.high_watermark,
        row.last_stable_offset,
        Rate(row.appended / window_s, window_s) if window_s > 0 else None,
        unread,
    )


def _failed(partition: TopicPartition, code: int, message: str | None = None) -> LogPart:
    error = Refused(f"partition {partition}", code, message)
    if code in RETRIABLE:
        raise error
    return LogPart(problem=str(error))


def _of_others(
    rows: Mapping[int, Sequence[tuple[TopicPartition, int]]], now_ms: int, *, committed_only: bool
) -> Rounds[dict[tuple[TopicPartition, int], LogPart]]:
    """As `read_logs`, from brokers that do not know the request."""
    kinds = ((EARLIEST, READ_UNCOMMITTED), (LATEST, READ_UNCOMMITTED), (LATEST, READ_COMMITTED))
    asks, of_broker = [], {}
    for broker, wanted in rows.items():
        for partition, _ in wanted:
            of_broker[partition] = broker
    by_broker: dict[int, list[TopicPartition]] = {}
    for partition, broker in of_broker.items():
        by_broker.setdefault(broker, []).append(partition)
    parts = [(broker, part) for broker, all_of in by_broker.items() for part in chunks(all_of, PARTITIONS_PER_REQUEST)]
    for broker, part in parts:
        asks += [
            Ask(broker, offsets_request(dict.fromkeys(part, time), isolation_level=level), **OFFSETS_BY_NAME)
            for time, level in kinds
        ]
    answers = yield asks
    bounds: dict[TopicPartition, LogPart] = {}
    for number in range(len(parts)):
        listed = [dict(listed_partitions(required(answer))) for answer in answers[3 * number : 3 * number + 3]]
        for partition in parts[number][1]:
            rows_of = [each[partition] for each in listed]
            code = next((row.error_code for row in rows_of if row.error_code), 0)
            bounds[partition] = (
                _failed(partition, code) if code else LogPart(rows_of[0].offset, rows_of[1].offset, rows_of[2].offset)
            )
    found: dict[tuple[TopicPartition, int], LogPart] = {}
    to_fetch: list[tuple[TopicPartition, int]] = []
    for wanted in rows.values():
        for partition, offset in wanted:
            log = bounds[partition]
            first = max(offset, log.start)
            is_unread = log.problem is None and first < (log.stable_end if committed_only else log.end)
            found[partition, offset] = log._replace(is_searched=not is_unread)
            if is_unread:
                to_fetch.append((partition, offset))
    to_fetch.sort(key=lambda row: row[1] - bounds[row[0]].end)  # The farthest behind first.
    for few in chunks(to_fetch[:RECORDS_FETCHED_MAX], FETCHED_AT_ONCE):
        records = yield from _fetch_records(few, of_broker, bounds, now_ms, committed_only=committed_only)
        for row, (unread, is_searched) in records.items():
            found[row] = found[row]._replace(unread=unread, is_searched=is_searched)
    return found


def _fetch_records(
    rows: Sequence[tuple[TopicPartition, int]],
    leaders: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, LogPart],
    now_ms: int,
    *,
    committed_only: bool,
) -> Rounds[dict[tuple[TopicPartition, int], tuple[UnreadRecord | None, bool]]]:
    """The first record of each partition from its offset on, and whether the search went to the end."""
    level = READ_COMMITTED if committed_only else READ_UNCOMMITTED
    at = {row: max(row[1], bounds[row[0]].start) for row in rows}
    found: dict[tuple[TopicPartition, int], tuple[UnreadRecord | None, bool]] = {}
    for _ in range(BATCHES_FETCHED_MAX):
        left = [row for row in rows if row not in found]
        answers = yield [
            Ask(
                leaders[row[0]],
                fetch_request({row[0]: at[row]}, FETCHED_BYTES, bytes_max=FETCHED_BYTES, isolation_level=level),
                **FETCH_BY_NAME,
            )
            for row in left
        ]
        for row, answer in zip(left, answers, strict=True):
            fetched = dict(fetched_partitions(required(answer)))[row[0]]
            if fetched.error_code:
                found[row] = None, False
                continue
            at[row], unread = _first_record(fetched, at[row], now_ms)
            end = bounds[row[0]].stable_end if committed_only else bounds[row[0]].end
            if unread is not None or at[row] >= end:
                found[row] = unread, True
    return found | {row: (None, False) for row in rows if row not in found}


def _first_record(fetched: Any, start: int, now_ms: int) -> tuple[int, UnreadRecord | None]:
    """Where to go on, and the record. Damaged bytes end the search."""
    position = start
    try:
        for batch in returned_batches(fetched.records or b"", start, fetched.aborted_transactions or ()):
            if batch.records:
                first = batch.records[0]
                time = first.timestamp if first.timestamp >= 0 else None
                own_age_ms = None if time is None else max(0, now_ms - time)
                appended = Age(own_age_ms, own_age_ms) if batch.is_log_append_time else Age(None, None)
                return position, UnreadRecord(first.offset, True, time, batch.is_log_append_time, own_age_ms, appended)
            position = batch.next_offset
    except BrokerError:
        pass  # It cannot be read: of what lies there nothing is said, as of what was not fetched.
    return position, None
