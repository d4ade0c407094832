"""When a batch of a verified transaction may be appended."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.storage import transaction_verification
from sordini.storage.producer_state import ProducerState, SentBatch
from sordini.storage.transaction_verification import TransactionVerifications, VerificationGuard

PRODUCER = 7


def refusal(verifications: TransactionVerifications, guard: VerificationGuard | None, sequence: int) -> ErrorCode:
    with pytest.raises(BrokerError) as caught:
        verifications.check(PRODUCER, guard, sequence)
    return caught.value.code


def test_a_batch_is_admitted_under_the_guard_of_its_verification() -> None:
    verifications = TransactionVerifications()
    guard = verifications.begin(PRODUCER, 0, 5)
    verifications.check(PRODUCER, guard, 5)


def test_without_a_verification_nothing_is_admitted() -> None:
    verifications = TransactionVerifications()
    assert refusal(verifications, None, 0) == ErrorCode.INVALID_TXN_STATE
    verifications.begin(PRODUCER, 0, 0)
    assert refusal(verifications, None, 0) == ErrorCode.INVALID_TXN_STATE


def test_a_guard_is_over_with_the_first_batch_of_the_transaction_or_a_marker() -> None:
    state = ProducerState()
    guard = state.verifications.begin(PRODUCER, 0, 0)
    state.apply(PRODUCER, 0, SentBatch(0, 0, 0, 0, 0), is_transactional=True)
    assert refusal(state.verifications, guard, 0) == ErrorCode.INVALID_TXN_STATE
    again = state.verifications.begin(PRODUCER, 0, 1)
    assert again is not guard
    state.apply_marker(PRODUCER, 0, 1, 0, 0, commit=False)
    assert refusal(state.verifications, again, 1) == ErrorCode.INVALID_TXN_STATE


def test_a_stale_answer_does_not_admit_to_the_next_transaction() -> None:
    """The transaction ends by a marker while the coordinator's answer is on its way, and another one begins."""
    verifications = TransactionVerifications()
    stale = verifications.begin(PRODUCER, 0, 0)
    verifications.end(PRODUCER)
    current = verifications.begin(PRODUCER, 0, 0)
    assert refusal(verifications, stale, 0) == ErrorCode.INVALID_TXN_STATE
    verifications.check(PRODUCER, current, 0)


def test_requests_of_one_transaction_in_flight_together_share_a_guard() -> None:
    verifications = TransactionVerifications()
    assert verifications.begin(PRODUCER, 0, 0) is verifications.begin(PRODUCER, 0, 0)


def test_a_batch_behind_one_that_is_still_to_come_is_refused() -> None:
    """The first was not verified in time; its producer sends both again, in order."""
    verifications = TransactionVerifications()
    first = verifications.begin(PRODUCER, 0, 3)
    second = verifications.begin(PRODUCER, 0, 4)
    assert refusal(verifications, second, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.check(PRODUCER, first, 3)


def test_a_delayed_duplicate_holds_up_no_batch_that_the_log_expects() -> None:
    """A Produce that was given up and sent again is verified once more, in the producer's next transaction."""
    verifications = TransactionVerifications()
    assert verifications.begin(PRODUCER, 0, 2) is verifications.begin(PRODUCER, 0, 6)
    guard = verifications.begin(PRODUCER, 0, 6)
    assert refusal(verifications, guard, 6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.check(PRODUCER, guard, 6, is_next=True)
    verifications.end(PRODUCER)
    with pytest.raises(BrokerError):
        verifications.check(PRODUCER, guard, 6, is_next=True)


def test_a_lower_sequence_is_awaited_from_its_verification_on() -> None:
    verifications = TransactionVerifications()
    guard = verifications.begin(PRODUCER, 0, 4)
    assert verifications.begin(PRODUCER, 0, 3) is guard
    assert refusal(verifications, guard, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_next_sequence_of_a_known_producer_waits_for_no_lower_one() -> None:
    """The lower one is a delayed batch of an earlier transaction. Without a verification it is refused all the same."""
    verifications = TransactionVerifications()
    guard = verifications.begin(PRODUCER, 0, 3)
    verifications.check(PRODUCER, guard, 4, is_next=True)
    verifications.end(PRODUCER)
    with pytest.raises(BrokerError, match="no verified transaction"):
        verifications.check(PRODUCER, guard, 4, is_next=True)


def test_a_newer_epoch_has_a_guard_of_its_own() -> None:
    verifications = TransactionVerifications()
    old = verifications.begin(PRODUCER, 0, 9)
    new = verifications.begin(PRODUCER, 1, 0)
    assert refusal(verifications, old, 9) == ErrorCode.INVALID_TXN_STATE
    verifications.check(PRODUCER, new, 0)
    fenced = verifications.begin(PRODUCER, 0, 9)
    assert refusal(verifications, fenced, 9) == ErrorCode.INVALID_TXN_STATE
    verifications.check(PRODUCER, new, 0)


def test_a_guard_that_is_dropped_leaves_room_for_one_of_a_lower_epoch() -> None:
    verifications = TransactionVerifications()
    refuted = verifications.begin(PRODUCER, 5, 0)
    verifications.drop(PRODUCER, refuted)
    assert refusal(verifications, refuted, 0) == ErrorCode.INVALID_TXN_STATE
    current = verifications.begin(PRODUCER, 1, 0)
    verifications.drop(PRODUCER, refuted)
    verifications.drop(PRODUCER, None)
    verifications.check(PRODUCER, current, 0)


def test_the_number_of_guards_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verification, "GUARDS_MAX", 2)
    verifications = TransactionVerifications()
    oldest = verifications.begin(PRODUCER, 0, 0)
    for producer_id in (8, 9):
        verifications.begin(producer_id, 0, 0)
    assert len(verifications) == 2
    assert refusal(verifications, oldest, 0) == ErrorCode.INVALID_TXN_STATE
