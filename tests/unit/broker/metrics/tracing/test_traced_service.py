"""The times of a request, whenever its response is complete, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.metrics.tracing.slow_request import ANSWER_BYTES_MAX, HEAD_BYTES_MAX
from sordini.broker.metrics.tracing.traced_service import Measured, TracedService, kept
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.errors import WireError
from tests.support.unit_broker import a_peer

PEER = a_peer()
SLOW_NS = 1_000


class Traced:
    """A service that takes `cost_ns` and gives the prepared answer, behind one that traces."""

    def __init__(self) -> None:
        self.ns = 50
        self.cost_ns = 0
        self.answer: Any = [b"x"]
        self.slow: list[Measured] = []
        self.service = TracedService(self, lambda: self.ns, SLOW_NS, self.slow.append)

    def serve(self, _peer: Any, _frame: memoryview) -> Any:
        self.ns += self.cost_ns
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def ask(self, size: int = 30) -> Any:
        return self.service.serve(PEER, memoryview(bytearray(size)))


def test_only_a_request_that_takes_as_long_as_the_threshold_is_slow() -> None:
    traced = Traced()
    for cost_ns in (0, SLOW_NS - 1, SLOW_NS, SLOW_NS + 5):
        traced.cost_ns = cost_ns
        assert traced.ask() == [b"x"]
    assert [one.ended_ns - one.began_ns for one in traced.slow] == [SLOW_NS, SLOW_NS + 5]
    assert [(one.handled_ns == one.ended_ns, one.was_blocking, one.parts) for one in traced.slow] == [
        (True, False, [b"x"])
    ] * 2


def test_a_request_without_a_response_is_slow_as_others_are() -> None:
    traced = Traced()
    traced.cost_ns, traced.answer = SLOW_NS, None
    assert traced.ask() is None
    assert traced.slow[0].parts is None


def test_a_delayed_response_is_measured_when_it_is_complete_with_what_is_in_front_of_it() -> None:
    traced = Traced()
    pending = traced.answer = DelayedResponse()
    pending.blocks_pipeline = True
    pending.amend = lambda parts: [*(parts or ()), b"throttled"]
    pending.time_ns = lambda: 77
    traced.cost_ns = 10
    assert traced.ask(2 * HEAD_BYTES_MAX) is pending
    pending.unblock_pipeline()
    traced.ns += 5_000
    pending.resolve([b"late"])
    (one,) = traced.slow
    assert pending.parts == one.parts == [b"late", b"throttled"]
    assert (one.handled_ns - one.began_ns, one.ended_ns - one.began_ns, one.sliced_ns) == (10, 5_010, 77)
    assert (one.was_blocking, len(one.head), one.request_bytes) == (True, HEAD_BYTES_MAX, 2 * HEAD_BYTES_MAX)


def test_a_delayed_response_that_was_complete_at_once_or_soon_is_no_slow_one() -> None:
    traced = Traced()
    done = DelayedResponse()
    done.resolve([b"done"])
    traced.answer, traced.cost_ns = done, 5
    assert traced.ask() is done
    soon = traced.answer = DelayedResponse()
    traced.ask()
    soon.resolve([b"soon"])
    assert traced.slow == []
    traced.answer, traced.cost_ns = done, SLOW_NS
    traced.ask()
    assert traced.slow[0].parts == [b"done"]


def test_an_abandoned_request_and_one_that_closes_its_connection_are_not_measured() -> None:
    traced = Traced()
    pending = traced.answer = DelayedResponse()
    traced.ask()
    pending.abandon()
    traced.ns += 2 * SLOW_NS
    pending.resolve([b"too late"])
    traced.answer, traced.cost_ns = WireError("no request"), 2 * SLOW_NS
    with pytest.raises(WireError):
        traced.ask()
    assert traced.slow == []


class Piece:
    """Bytes of a file."""

    def __init__(self, size: int) -> None:
        self.size = size


@given(st.lists(st.one_of(st.binary(max_size=ANSWER_BYTES_MAX // 3), st.integers(0, 10**9)), max_size=8))
def test_what_is_kept_of_a_response_has_its_bytes_in_order_or_there_is_nothing(pieces: list[bytes | int]) -> None:
    parts: Any = [Piece(one) if isinstance(one, int) else bytearray(one) for one in pieces]
    found, size = kept(parts)
    held = sum(len(one) for one in pieces if isinstance(one, bytes))
    assert size == sum(one if isinstance(one, int) else len(one) for one in pieces)
    assert found == (tuple(pieces) if held <= ANSWER_BYTES_MAX else None)


@pytest.mark.parametrize(("size", "is_kept"), [(ANSWER_BYTES_MAX, True), (ANSWER_BYTES_MAX + 1, False)])
def test_a_response_is_kept_up_to_a_bound_that_bytes_of_files_do_not_count_for(size: int, is_kept: bool) -> None:
    pieces: list[bytes | int] = [bytes(size - 10), 10**9, bytes(10)]
    parts: Any = [Piece(one) if isinstance(one, int) else bytearray(one) for one in pieces]
    assert kept(parts) == (tuple(pieces) if is_kept else None, size + 10**9)


def test_no_response_is_kept_as_none() -> None:
    assert kept(None) == (None, 0)
