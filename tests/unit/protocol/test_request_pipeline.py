"""The order of requests and answers on one connection."""

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.request_pipeline import RequestPipeline, ResponseSlot, is_produce

PRODUCE = memoryview(b"\x00\x00\x00\x09produce")
FETCH = memoryview(b"\x00\x01\x00\x0cfetch")
STRANGE = memoryview(b"\x00")


def order_with(*frames, pending_max=10, pending_bytes_max=1000):
    order = RequestPipeline(pending_max, pending_bytes_max)
    turns = []
    for frame in frames:
        turn = ResponseSlot()
        order.park(turn, frame)
        turns.append(turn)
    return order, turns


def answer(turn, value):
    turn.is_answered = True
    turn.answer = value


def test_any_request_starts_when_nothing_is_unanswered():
    order, _ = order_with()
    assert order.may_start(PRODUCE)
    assert order.may_start(FETCH)
    assert order.may_start(STRANGE)


def test_a_produce_starts_behind_parked_produces():
    order, _ = order_with(PRODUCE, PRODUCE)
    assert order.may_start(PRODUCE)


def test_nothing_but_a_produce_starts_behind_a_parked_produce():
    order, _ = order_with(PRODUCE)
    assert not order.may_start(FETCH)
    assert not order.may_start(STRANGE)
    assert order.may_start_any()


def test_nothing_starts_behind_a_parked_fetch():
    order, _ = order_with(FETCH)
    assert not order.may_start(PRODUCE)
    assert not order.may_start(FETCH)
    assert not order.may_start_any()


def test_answers_leave_in_the_order_of_their_requests():
    order, (first, second, third) = order_with(PRODUCE, PRODUCE, PRODUCE)
    answer(second, "b")
    assert order.take_answers() == []
    answer(first, "a")
    assert order.take_answers() == ["a", "b"]
    answer(third, "c")
    assert order.take_answers() == ["c"]
    assert not order.waiting


def test_an_answer_made_at_once_waits_for_the_parked_ones_before_it():
    order, (first,) = order_with(PRODUCE)
    order.park_answer("b", PRODUCE)
    assert order.take_answers() == []
    answer(first, "a")
    assert order.take_answers() == ["a", "b"]


def test_a_request_without_a_response_keeps_its_slot_but_sends_nothing():
    order, (first, second) = order_with(PRODUCE, PRODUCE)
    answer(second, "b")
    answer(first, None)
    assert order.take_answers() == ["b"]


def test_the_number_of_parked_requests_is_bounded():
    order, turns = order_with(PRODUCE, PRODUCE, pending_max=2)
    assert not order.may_start_any()
    assert not order.may_start(PRODUCE)
    answer(turns[0], "a")
    order.take_answers()
    assert order.may_start(PRODUCE)


def test_the_bytes_of_parked_requests_are_bounded():
    order, turns = order_with(PRODUCE, pending_bytes_max=len(PRODUCE))
    assert order.parked_bytes == len(PRODUCE)
    assert not order.may_start(PRODUCE)
    answer(turns[0], "a")
    order.take_answers()
    assert order.parked_bytes == 0
    assert order.may_start(PRODUCE)


def test_what_is_abandoned_is_handed_back_oldest_first():
    order, turns = order_with(PRODUCE, PRODUCE)
    assert order.abandon() == turns
    assert not order.waiting
    assert order.parked_bytes == 0
    assert order.may_start(FETCH)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_whatever_is_answered_when_answers_keep_the_order_and_only_produces_overlap(script):
    order = RequestPipeline(pending_max=5, pending_bytes_max=10_000)
    unanswered, sent, started = [], [], 0
    for wants_produce, which in script:
        frame = PRODUCE if wants_produce else FETCH
        if order.may_start(frame):
            assert not unanswered or (is_produce(frame) and all(turn.is_produce for turn in order.waiting))
            turn = ResponseSlot()
            order.park(turn, frame)
            unanswered.append((turn, started))
            started += 1
        elif unanswered:
            turn, number = unanswered.pop(which % len(unanswered))
            answer(turn, number)
            sent += order.take_answers()
        assert len(order.waiting) <= 5
    for turn, number in unanswered:
        answer(turn, number)
    sent += order.take_answers()
    assert sent == list(range(started))


def test_nothing_starts_behind_a_produce_that_is_still_to_be_written() -> None:
    order = RequestPipeline(10, 10**6)
    first, second = ResponseSlot(), ResponseSlot()
    second.blocks_pipeline = True
    order.park(first, PRODUCE)
    assert order.may_start(PRODUCE)
    order.park(second, PRODUCE)
    assert not order.may_start_any()
    assert order.is_blocked()
    first.is_answered = True
    order.take_answers()
    assert not order.may_start(PRODUCE)
    second.blocks_pipeline = False
    assert order.may_start(PRODUCE)
    assert not order.is_blocked()
