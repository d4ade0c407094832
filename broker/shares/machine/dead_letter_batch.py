"""The records that dead letters are, as Apache Kafka 4.4.0 writes them (KIP-1191). Pure.

Key and value are null, or with errors.deadletterqueue.copy.record.enable those of the record that died; its headers are
not copied. The headers are texts, numbers in decimal. The time is that of the dead letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sordini.broker.shares.machine.record_states import DeathReason
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.protocol.records.batch import HEADER_SIZE, Record, build_batch
from sordini.protocol.records.copied_records import CopiedRecords
from sordini.system.named_tuple import NamedTuple

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"

TEXTS: Final = {
    DeathReason.REJECTED: b"Offset rejected by client.",
    DeathReason.DELIVERIES_EXCEEDED: b"Offset delivery count exceeded the threshold.",
}
RECORDS_MAX: Final = 500
"""Of one batch: about two milliseconds to build."""
OVERHEAD_BYTES: Final = 80
"""The most that a record takes beside its key, its value and its headers' texts: lengths, deltas, a count."""


class Origin(NamedTuple):
    """Where records died."""

    group_id: str
    topic: str
    partition: int


class DeadLetterBatch(NamedTuple):
    """A batch of the first dead letters."""

    records: bytes
    letters: int
    headers_only: int
    """How many have no copy of their record because it is too large."""


def offsets_of(letters: Iterable[DeadLetters], count_max: int = RECORDS_MAX) -> list[int]:
    """The first offsets."""
    found: list[int] = []
    for one in letters:
        found += range(one.first, min(one.end, one.first + count_max - len(found)))
        if len(found) >= count_max:
            break
    return found


def dead_letter_batch(
    origin: Origin, letters: Iterable[DeadLetters], copied: CopiedRecords, now_ms: int, bytes_max: int
) -> DeadLetterBatch:
    """One batch of the first dead letters, which are sorted: at least one, whatever its size.

    It ends before the first one of whose record nothing is known yet. A record that is too large for a batch of its own
    is not copied.
    """
    lines: list[Record] = []
    size, headers_only = HEADER_SIZE, 0
    for one, offset in _each(letters):
        if len(lines) == RECORDS_MAX or offset >= copied.end:
            break
        headers = _headers(origin, one, offset)
        key, value = copied.records.get(offset, (None, None))
        least = OVERHEAD_BYTES + sum(len(name) + len(text) for name, text in headers)
        copy_size = len(key or b"") + len(value or b"")
        is_too_large = copy_size > 0 and HEADER_SIZE + least + copy_size > bytes_max
        if is_too_large:
            key, value, copy_size = None, None, 0
        if lines and size + least + copy_size > bytes_max:
            break
        headers_only += is_too_large
        size += least + copy_size
        lines.append(Record(len(lines), now_ms, key, value, headers))
    return DeadLetterBatch(build_batch(lines), len(lines), headers_only)


def behind(letters: Iterable[DeadLetters], count: int) -> tuple[list[DeadLetters], list[DeadLetters]]:
    """The first `count` dead letters, and those behind them."""
    written: list[DeadLetters] = []
    left: list[DeadLetters] = []
    for one in letters:
        taken = min(one.end - one.first, count)
        count -= taken
        if taken:
            written.append(one._replace(end=one.first + taken))
        if one.first + taken < one.end:
            left.append(one._replace(first=one.first + taken))
    return written, left


def _each(letters: Iterable[DeadLetters]) -> Iterator[tuple[DeadLetters, int]]:
    for one in letters:
        for offset in range(one.first, one.end):
            yield one, offset


def _headers(origin: Origin, one: DeadLetters, offset: int) -> tuple[tuple[str, bytes], ...]:
    return (
        (TOPIC, origin.topic.encode()),
        (PARTITION, b"%d" % origin.partition),
        (OFFSET, b"%d" % offset),
        (GROUP, origin.group_id.encode(errors="surrogateescape")),
        (DELIVERY_COUNT, b"%d" % one.deliveries),
        (MESSAGE, TEXTS[one.reason]),
    )
