"""The order of requests and answers on one connection.

Pure: no sockets, no clock. Two rules hold:
  - answers leave in the order of their requests;
  - a request starts only when nothing before it is unanswered, or when it is a Produce and everything before it
    that is unanswered is a parked Produce as well, and has written what it writes. (A second Fetch must not advance
    a session whose first is parked; authentication, groups and throttling rely on this order, too. And a Produce whose
    records take long to check must not be overtaken by the next, which may be of the same producer and partition.)

So the waiting turns are either one request of any kind, or Produce requests only. Their number and bytes are
bounded: past a bound nothing starts, the owner stops reading, and TCP pushes back.
"""

from __future__ import annotations

from collections import deque
from typing import Any


def is_produce(frame: memoryview) -> bool:
    """Whether a request frame is a Produce."""
    return len(frame) > 1 and frame[0] == 0 == frame[1]  # The API key, 0. A comparison of slices takes twice as long.


class Turn:
    """One request's place in the order: answered or not yet, and then with what (None: nothing is sent)."""

    __slots__ = ("answer", "frame_bytes", "holds", "is_answered", "is_produce")

    def __init__(self) -> None:
        self.is_answered = False
        self.answer: Any = None
        self.is_produce = False
        self.frame_bytes = 0
        self.holds = False
        """Nothing behind it may start, not even a Produce: what it writes is not written yet."""


class ConnectionOrder:
    """The turns of one connection that wait: for their own answer, or for the answer of one before them."""

    __slots__ = ("_parked_bytes_max", "_parked_max", "parked_bytes", "waiting")

    def __init__(self, parked_max: int, parked_bytes_max: int) -> None:
        assert parked_max >= 1, parked_max
        self._parked_max = parked_max
        self._parked_bytes_max = parked_bytes_max
        self.waiting: deque[Turn] = deque()
        self.parked_bytes = 0

    def may_start_any(self) -> bool:
        """Whether some request could start now: False means that looking at the next one is of no use."""
        waiting = self.waiting
        if not waiting:
            return True
        if waiting[-1].holds:  # Nothing starts behind one that holds, so it is the last.
            return False
        return waiting[0].is_produce and len(waiting) < self._parked_max and self.parked_bytes < self._parked_bytes_max

    def may_start(self, frame: memoryview) -> bool:
        """Whether this request may start now."""
        return not self.waiting or (is_produce(frame) and self.may_start_any())

    def park(self, turn: Turn, frame: memoryview) -> None:
        """A request that was started waits, for its answer or for its turn."""
        turn.is_produce = is_produce(frame)
        turn.frame_bytes = len(frame)
        assert not self.waiting or (turn.is_produce and self.waiting[0].is_produce), "a request overtook another"
        self.waiting.append(turn)
        self.parked_bytes += turn.frame_bytes

    def park_answer(self, answer: Any, frame: memoryview) -> None:
        """A request was answered at once while earlier ones still wait: its answer leaves after theirs."""
        turn = Turn()
        turn.is_answered = True
        turn.answer = answer
        self.park(turn, frame)

    def take_answers(self) -> list[Any]:
        """Remove the answered turns at the head, and return what is to be sent for them, in order."""
        waiting = self.waiting
        answers = []
        while waiting and waiting[0].is_answered:
            turn = waiting.popleft()
            self.parked_bytes -= turn.frame_bytes
            if turn.answer is not None:
                answers.append(turn.answer)
                turn.answer = None
        return answers

    def is_held(self) -> bool:
        """Whether a request is still to be written whose answer nobody may wait for any more."""
        return bool(self.waiting) and self.waiting[-1].holds and not self.waiting[-1].is_answered

    def abandon(self) -> list[Turn]:
        """The connection is gone: remove and return every waiting turn, oldest first."""
        turns = list(self.waiting)
        self.waiting.clear()
        self.parked_bytes = 0
        return turns
