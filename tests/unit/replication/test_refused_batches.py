"""What is told of batches that come behind one that was refused."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader, read_header
from sordini.protocol.types import TopicPartition
from sordini.replication import refused_batches
from sordini.replication.refused_batches import PRODUCERS_MAX, REFUSED_MS, RefusedBatches
from tests.support.builders import a_batch, an_idempotent_batch

NAME = TopicPartition("orders", 0)
OUT_OF_ORDER = BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "8 where 3 was due")
FULL = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")


def a_header(**fields: int) -> BatchHeader:
    return read_header(memoryview(an_idempotent_batch(**fields)))


def told(
    given: RefusedBatches, error: BrokerError, header: BatchHeader, now_ms: int = 0, name: TopicPartition = NAME
) -> int:
    return given.told(name, header, error, now_ms).code


@pytest.mark.parametrize("code", sorted(refused_batches.PASSING))
def test_a_gap_behind_a_refusal_that_passes_is_refused_alike(code: ErrorCode) -> None:
    given = RefusedBatches()
    assert told(given, BrokerError(code, "not now"), a_header()) == code
    assert told(given, OUT_OF_ORDER, a_header(), REFUSED_MS - 1) == code
    why = str(given.told(NAME, a_header(), OUT_OF_ORDER, 0))
    assert why == "8 where 3 was due; what came before it was refused: send both again"


def test_the_truth_is_told_when_the_first_batch_does_not_come_again() -> None:
    given = RefusedBatches()
    told(given, FULL, a_header())
    assert told(given, OUT_OF_ORDER, a_header(), 20_000) == FULL.code
    assert told(given, OUT_OF_ORDER, a_header(), REFUSED_MS) == OUT_OF_ORDER.code, "what is told alike prolongs nothing"
    assert told(given, OUT_OF_ORDER, a_header(), 0) == OUT_OF_ORDER.code
    assert len(given) == 0


def test_only_the_same_producer_in_the_same_epoch_and_partition_is_meant() -> None:
    given = RefusedBatches()
    told(given, FULL, a_header(producer_id=7))
    assert told(given, OUT_OF_ORDER, a_header(producer_id=8)) == OUT_OF_ORDER.code
    assert told(given, OUT_OF_ORDER, a_header(producer_id=7), name=TopicPartition("orders", 1)) == OUT_OF_ORDER.code
    assert told(given, OUT_OF_ORDER, a_header(producer_id=7)) == FULL.code
    assert told(given, OUT_OF_ORDER, a_header(producer_id=7, producer_epoch=1)) == OUT_OF_ORDER.code


def test_other_errors_and_producers_without_an_id_are_told_as_they_are() -> None:
    given = RefusedBatches()
    plain = read_header(memoryview(a_batch()))
    assert told(given, FULL, plain) == FULL.code
    assert len(given) == 0
    told(given, FULL, a_header())
    fenced = BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, "another is newer")
    assert told(given, fenced, a_header()) == fenced.code


def test_no_more_producers_are_remembered_than_there_is_room_for_and_the_oldest_is_forgotten() -> None:
    given = RefusedBatches()
    header = a_header()
    for number in (*range(PRODUCERS_MAX), 0, PRODUCERS_MAX):
        told(given, FULL, header._replace(producer_id=number))
    assert len(given) == PRODUCERS_MAX
    assert told(given, OUT_OF_ORDER, header._replace(producer_id=1)) == OUT_OF_ORDER.code
    assert told(given, OUT_OF_ORDER, header._replace(producer_id=0)) == FULL.code, "it was refused again since"
