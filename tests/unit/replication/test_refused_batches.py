"""The errors of batches that follow a refused one."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader, read_header
from sordini.protocol.types import TopicPartition
from sordini.replication import refused_batches
from sordini.replication.refused_batches import GAP_CODE, GAP_MS, PRODUCERS_MAX, REFUSED_MS, RefusedBatches
from sordini.storage.producer_state import SEQUENCE_MAX
from tests.support.builders import a_batch, an_idempotent_batch

NAME = TopicPartition("orders", 0)
OUT_OF_ORDER = BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "8 where 3 was due")
FULL = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")


def a_header(**fields: int) -> BatchHeader:
    return read_header(memoryview(an_idempotent_batch(**fields)))


def code_for(
    given: RefusedBatches, error: BrokerError, header: BatchHeader, now_ms: int = 0, name: TopicPartition = NAME
) -> int:
    return given.error_for(name, header, error, now_ms).code


@pytest.mark.parametrize("code", sorted(refused_batches.TRANSIENT))
def test_a_gap_after_a_transient_refusal_gets_the_same_error(code: ErrorCode) -> None:
    given = RefusedBatches()
    assert code_for(given, BrokerError(code, "not now"), a_header()) == code
    assert code_for(given, OUT_OF_ORDER, a_header(), REFUSED_MS - 1) == code
    why = str(given.error_for(NAME, a_header(), OUT_OF_ORDER, 0))
    assert why == "8 where 3 was due; an earlier batch was refused: send both again"


def test_the_gap_is_reported_when_the_first_batch_is_not_sent_again() -> None:
    given = RefusedBatches()
    code_for(given, FULL, a_header())
    assert code_for(given, OUT_OF_ORDER, a_header(), 20_000) == FULL.code
    assert code_for(given, OUT_OF_ORDER, a_header(), REFUSED_MS) == OUT_OF_ORDER.code, (
        "the copied error does not extend the time"
    )
    assert code_for(given, OUT_OF_ORDER, a_header(), 0) == OUT_OF_ORDER.code
    assert len(given.by_producer) == 0


def test_the_first_gap_of_a_producer_in_a_term_is_reported_when_its_earlier_batch_has_had_time_to_come() -> None:
    given = RefusedBatches()

    def code(now_ms: int, term: int | None) -> int:
        return given.error_for(NAME, a_header(), OUT_OF_ORDER, now_ms, term).code

    assert code(0, None) == OUT_OF_ORDER.code, "it has batches in this term: no leader has changed between them"
    assert code(0, 4) == GAP_CODE
    assert code(GAP_MS - 1, 4) == GAP_CODE
    assert code(GAP_MS, 4) == code(2 * GAP_MS, 4) == OUT_OF_ORDER.code, "the time does not begin anew"
    assert code(2 * GAP_MS, 5) == GAP_CODE, "another term"
    assert code(3 * GAP_MS - 1, None) == GAP_CODE, "a batch behind one that was refused"
    assert code(4 * GAP_MS, None) == OUT_OF_ORDER.code
    assert len(given.by_producer) == 0


def test_a_gap_in_a_new_term_says_what_is_missing() -> None:
    why = str(RefusedBatches().error_for(NAME, a_header(), OUT_OF_ORDER, 0, 4))
    assert why == "8 where 3 was due; an earlier batch has not come to this leader yet: send both again"


def test_only_the_same_producer_epoch_and_partition_gets_the_error_again() -> None:
    given = RefusedBatches()
    code_for(given, FULL, a_header(producer_id=7))
    assert code_for(given, OUT_OF_ORDER, a_header(producer_id=8)) == OUT_OF_ORDER.code
    assert code_for(given, OUT_OF_ORDER, a_header(producer_id=7), name=TopicPartition("orders", 1)) == OUT_OF_ORDER.code
    assert code_for(given, OUT_OF_ORDER, a_header(producer_id=7)) == FULL.code
    assert code_for(given, OUT_OF_ORDER, a_header(producer_id=7, producer_epoch=1)) == OUT_OF_ORDER.code


def is_refused(given: RefusedBatches, sequence: int, now_ms: int = 0, epoch: int = 0) -> bool:
    try:
        given.check_order(NAME, a_header(sequence=sequence, producer_epoch=epoch), now_ms)
    except BrokerError as error:
        return given.error_for(NAME, a_header(sequence=sequence), error, now_ms).code == FULL.code
    return False


def test_what_comes_behind_a_refused_batch_of_a_producer_that_is_not_known_has_to_wait_for_it() -> None:
    given = RefusedBatches()
    assert not is_refused(given, 6), "nothing was refused"
    code_for(given, FULL, a_header(sequence=6))
    code_for(given, FULL, a_header(sequence=9))
    assert [is_refused(given, sequence) for sequence in (3, 6, 9, 12)] == [False, False, True, True]
    code_for(given, FULL, a_header(sequence=3))
    assert [is_refused(given, sequence) for sequence in (3, 6)] == [False, True]
    assert not is_refused(given, 6, epoch=1), "it has begun anew"
    assert is_refused(given, 6, REFUSED_MS - 1)
    assert not is_refused(given, 6, REFUSED_MS), "what was refused for it does not extend the time"


def test_what_has_ended_is_forgotten_and_a_later_refusal_begins_with_its_own_batch() -> None:
    given = RefusedBatches()
    code_for(given, FULL, a_header(sequence=3))
    code_for(given, FULL, a_header(sequence=900, producer_id=8), 1)
    assert not is_refused(given, 6, REFUSED_MS)
    assert len(given.by_producer) == 1, "the other one has not ended"
    code_for(given, FULL, a_header(sequence=900), REFUSED_MS)
    assert not is_refused(given, 900, REFUSED_MS + 1), "it is the batch that was refused"
    assert is_refused(given, 903, REFUSED_MS + 1)


def test_a_refused_batch_is_before_those_whose_sequences_have_started_again_at_0() -> None:
    given = RefusedBatches()
    code_for(given, FULL, a_header(sequence=SEQUENCE_MAX - 1))
    assert [is_refused(given, sequence) for sequence in (SEQUENCE_MAX - 4, SEQUENCE_MAX, 3)] == [False, True, True]


def test_a_gap_makes_no_other_batch_wait() -> None:
    given = RefusedBatches()
    assert given.error_for(NAME, a_header(sequence=6), OUT_OF_ORDER, 0, 4).code == GAP_CODE
    assert not is_refused(given, 9)
    code_for(given, FULL, a_header(sequence=9))
    assert is_refused(given, 12)
    assert not is_refused(given, 9)


def test_other_errors_and_those_of_producers_without_an_id_are_unchanged() -> None:
    given = RefusedBatches()
    plain = read_header(memoryview(a_batch()))
    assert code_for(given, FULL, plain) == FULL.code
    assert len(given.by_producer) == 0
    code_for(given, FULL, a_header())
    fenced = BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, "another is newer")
    assert code_for(given, fenced, a_header()) == fenced.code


def test_the_number_of_remembered_producers_is_bounded_and_the_oldest_is_evicted() -> None:
    given = RefusedBatches()
    header = a_header()
    for number in (*range(PRODUCERS_MAX), 0, PRODUCERS_MAX):
        code_for(given, FULL, header._replace(producer_id=number))
    assert len(given.by_producer) == PRODUCERS_MAX
    assert code_for(given, OUT_OF_ORDER, header._replace(producer_id=1)) == OUT_OF_ORDER.code
    assert code_for(given, OUT_OF_ORDER, header._replace(producer_id=0)) == FULL.code, "it was refused again since"
