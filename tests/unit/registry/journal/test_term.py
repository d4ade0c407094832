"""A term of a writer: answers to Produce, and laws of two writers whose requests are delayed, lost and repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.replay import Stamp
from sordini.registry.journal.term import Outcome, Phase, Term


def a_writing_term() -> Term:
    term = Term(7, 3)
    term.read(term.begin(), 10)
    assert term.phase is Phase.WRITING
    return term


def test_a_term_writes_from_when_its_first_batch_was_read() -> None:
    term = Term(7, 3)
    stamp = term.begin()
    assert stamp == Stamp(7, 3, 0)
    assert term.answered(ErrorCode.NONE) is Outcome.READ_IT
    assert term.phase is Phase.FENCING
    term.read(Stamp(7, 2, 0), 4)
    term.read(Stamp(8, 3, 0), 5)
    assert term.phase is Phase.FENCING
    term.read(stamp, 6)
    assert term.phase is Phase.WRITING
    assert term.offset == 6
    assert term.begin() == Stamp(7, 3, 1)


def test_a_batch_of_a_later_term_ends_this_one() -> None:
    term = a_writing_term()
    term.read(Stamp(8, 9, 0), 11)
    assert term.phase is Phase.WRITING
    term.read(Stamp(7, 4, 0), 12)
    assert term.phase is Phase.OVER


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_refused_batch_is_not_in_the_log_and_its_sequence_is_used_again(code: ErrorCode) -> None:
    term = a_writing_term()
    first = term.begin()
    assert term.answered(code) is Outcome.REFUSED
    assert term.abandon()
    assert term.begin() == first


def test_too_few_replicas_leave_nothing_open_when_the_batch_is_sent_no_more() -> None:
    term = a_writing_term()
    term.begin()
    assert term.answered(ErrorCode.NOT_ENOUGH_REPLICAS) is Outcome.AGAIN
    assert term.abandon()
    assert term.phase is Phase.WRITING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_batch_that_may_be_in_the_log_ends_the_term_when_it_is_sent_no_more(code: ErrorCode) -> None:
    term = a_writing_term()
    term.begin()
    assert term.answered(code) is Outcome.AGAIN
    assert not term.abandon()
    assert term.phase is Phase.OVER


def test_without_an_answer_the_batch_may_be_in_the_log_whatever_is_answered_later() -> None:
    term = a_writing_term()
    term.begin()
    term.unanswered()
    assert term.answered(ErrorCode.MESSAGE_TOO_LARGE) is Outcome.BROKEN
    assert term.phase is Phase.OVER
    assert not term.abandon()


def test_a_fenced_term_still_finds_its_last_batch() -> None:
    term = a_writing_term()
    stamp = term.begin()
    term.unanswered()
    assert term.answered(ErrorCode.INVALID_PRODUCER_EPOCH) is Outcome.FENCED
    term.read(stamp, 11)
    assert term.offset == 11
    assert term.phase is Phase.OVER
    with pytest.raises(AssertionError):
        term.begin()


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_log_that_lost_batches_of_the_term_ends_it(code: ErrorCode) -> None:
    term = a_writing_term()
    term.begin()
    assert term.answered(code) is Outcome.BROKEN
    assert term.phase is Phase.OVER


@given(st.sampled_from(sorted(ErrorCode)))
def test_every_code_has_an_outcome_and_only_known_ones_let_the_term_continue(code: ErrorCode) -> None:
    term = a_writing_term()
    term.begin()
    outcome = term.answered(code)
    continues = term.abandon()
    assert continues == (
        outcome is Outcome.REFUSED or code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    )


class Log:
    """A partition as brokers keep it: epochs and sequences of one producer id are checked at the append."""

    def __init__(self) -> None:
        self.batches: list[tuple[Stamp, int | None]] = []
        self._epoch = -1
        self._next_sequence = 0

    def append(self, stamp: Stamp, schema_id: int | None) -> ErrorCode:
        if stamp.producer_epoch < self._epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if stamp.producer_epoch > self._epoch:
            if stamp.sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self._epoch, self._next_sequence = stamp.producer_epoch, 0
        if stamp.sequence < self._next_sequence:
            return ErrorCode.NONE
        if stamp.sequence > self._next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._next_sequence += 1
        self.batches.append((stamp, schema_id))
        return ErrorCode.NONE


class Writer:
    """A registry: reads the log, and decides `id = next number` on what it has read."""

    def __init__(self) -> None:
        self.term: Term | None = None
        self.position = 0
        self.last_id = 0
        self.sent: tuple[Stamp, int | None] | None = None
        self.answered_ids: list[int] = []

    def read_one(self, log: Log) -> None:
        stamp, schema_id = log.batches[self.position]
        if schema_id is not None:
            self.last_id = schema_id
        if self.term is not None:
            was_under_way = self.term.is_under_way
            self.term.read(stamp, self.position)
            if was_under_way and not self.term.is_under_way and schema_id is not None:
                self.answered_ids.append(schema_id)
        self.position += 1

    @property
    def may_begin(self) -> bool:
        return self.term is not None and self.term.phase is not Phase.OVER and not self.term.is_under_way


class TwoWriters(RuleBasedStateMachine):
    """Both believe that they are elected, at any time; requests arrive late, twice or never, and answers too."""

    writers = Bundle("writers")

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.all = [Writer(), Writer()]
        self.epoch = 0
        self.on_the_way: list[tuple[Writer, Term, Stamp, int | None]] = []

    @rule(number=st.sampled_from([0, 1]))
    def begins_a_term(self, number: int) -> None:
        writer = self.all[number]
        if writer.term is not None:
            writer.term.abandon()
        self.epoch += 1
        writer.term = Term(1, self.epoch)
        writer.sent = writer.term.begin(), None
        self._send(writer)

    @rule(number=st.sampled_from([0, 1]))
    def registers(self, number: int) -> None:
        writer = self.all[number]
        if writer.may_begin and writer.term is not None and writer.term.phase is Phase.WRITING:
            writer.sent = writer.term.begin(), writer.last_id + 1
            self._send(writer)

    @rule(number=st.sampled_from([0, 1]))
    def sends_again(self, number: int) -> None:
        writer = self.all[number]
        if writer.term is not None and writer.term.is_under_way and writer.term.phase is not Phase.OVER:
            writer.term.unanswered()
            self._send(writer)

    @rule(number=st.sampled_from([0, 1]))
    def stops_sending(self, number: int) -> None:
        term = self.all[number].term
        if term is not None:
            term.abandon()

    def _send(self, writer: Writer) -> None:
        assert writer.sent is not None
        assert writer.term is not None
        self.on_the_way.append((writer, writer.term, *writer.sent))

    @precondition(lambda self: self.on_the_way)
    @rule(which=st.integers(0, 1_000), is_answered=st.booleans(), is_kept=st.booleans())
    def a_request_arrives(self, which: int, is_answered: bool, is_kept: bool) -> None:
        at = which % len(self.on_the_way)
        writer, term, stamp, schema_id = self.on_the_way[at]
        if not is_kept:
            del self.on_the_way[at]
        code = self.log.append(stamp, schema_id)
        is_current = writer.term is term and term.is_under_way and writer.sent == (stamp, schema_id)
        if is_answered and is_current and term.phase is not Phase.OVER:
            term.answered(code)
        elif is_current:
            term.unanswered()

    @precondition(lambda self: any(writer.position < len(self.log.batches) for writer in self.all))
    @rule(number=st.sampled_from([0, 1]))
    def reads(self, number: int) -> None:
        writer = self.all[number]
        if writer.position < len(self.log.batches):
            writer.read_one(self.log)

    @rule(number=st.sampled_from([0, 1]))
    def reads_all(self, number: int) -> None:
        while self.all[number].position < len(self.log.batches):
            self.all[number].read_one(self.log)

    @invariant()
    def no_id_is_given_twice(self) -> None:
        ids = [schema_id for _, schema_id in self.log.batches if schema_id is not None]
        assert ids == sorted(set(ids))

    @invariant()
    def what_was_answered_is_in_the_log(self) -> None:
        ids = {schema_id for _, schema_id in self.log.batches}
        assert all(ids.issuperset(writer.answered_ids) for writer in self.all)


TestTwoWriters = TwoWriters.TestCase
