"""The order of requests and responses on one connection.

Pure: no sockets, no clock. Two rules hold:
  - responses leave in the order of their requests;
  - a request starts only when every earlier request is answered, or when it is a Produce and all unanswered earlier
    requests are Produce requests that have appended their records. (A second Fetch must not advance a fetch session
    while the first waits; authentication, groups and throttling rely on this order, too. A Produce whose records take
    long to check must not be overtaken by the next one, which may have the same producer and partition.)

So the pending slots are either one request of any kind, or Produce requests only. Their number and bytes are bounded:
at a bound nothing starts, the owner stops reading, and TCP pushes back.
"""

from __future__ import annotations

from collections import deque
from typing import Any


def is_produce(frame: memoryview) -> bool:
    """Whether a request frame is a Produce."""
    return len(frame) > 1 and frame[0] == 0 == frame[1]  # The API key, 0. A comparison of slices takes twice as long.


class ResponseSlot:
    """The position of one response in the order, with the response once it is known (None: nothing is sent)."""

    __slots__ = ("answer", "blocks_pipeline", "frame_bytes", "is_answered", "is_produce")

    def __init__(self) -> None:
        self.is_answered = False
        self.answer: Any = None
        self.is_produce = False
        self.frame_bytes = 0
        self.blocks_pipeline = False
        """No later request may start, not even a Produce: this request has not appended its records yet."""


class RequestPipeline:
    """The slots of one connection's pending responses: unanswered, or answered behind an unanswered one."""

    __slots__ = ("_pending_bytes_max", "_pending_max", "parked_bytes", "waiting")

    def __init__(self, pending_max: int, pending_bytes_max: int) -> None:
        """`pending_bytes_max` counts the bytes of the requests' frames."""
        assert pending_max >= 1, pending_max
        self._pending_max = pending_max
        self._pending_bytes_max = pending_bytes_max
        self.waiting: deque[ResponseSlot] = deque()
        self.parked_bytes = 0

    def may_start_any(self) -> bool:
        """Whether some request could start now: if not, the next frame need not be read."""
        waiting = self.waiting
        if not waiting:
            return True
        if waiting[-1].blocks_pipeline:  # Nothing starts behind such a request, so it is the last.
            return False
        return (
            waiting[0].is_produce and len(waiting) < self._pending_max and self.parked_bytes < self._pending_bytes_max
        )

    def may_start(self, frame: memoryview) -> bool:
        """Whether this request may start now."""
        return not self.waiting or (is_produce(frame) and self.may_start_any())

    def park(self, slot: ResponseSlot, frame: memoryview) -> None:
        """Add the slot of a request that was started and whose response cannot be sent yet."""
        slot.is_produce = frame[0] == 0 == frame[1]  # As `is_produce`; a frame that was served has a header.
        slot.frame_bytes = len(frame)
        assert not self.waiting or (slot.is_produce and self.waiting[0].is_produce), "a request overtook another"
        self.waiting.append(slot)
        self.parked_bytes += slot.frame_bytes

    def park_answer(self, answer: Any, frame: memoryview) -> None:
        """Add a response that was made at once while earlier ones are pending: it leaves after them."""
        slot = ResponseSlot()
        slot.is_answered = True
        slot.answer = answer
        self.park(slot, frame)

    def take_answers(self) -> list[Any]:
        """Remove the answered slots at the head, and return their responses, in order."""
        waiting = self.waiting
        answers = []
        while waiting and waiting[0].is_answered:
            slot = waiting.popleft()
            self.parked_bytes -= slot.frame_bytes
            if slot.answer is not None:
                answers.append(slot.answer)
                slot.answer = None
        return answers

    def is_blocked(self) -> bool:
        """Whether a request is still at work that must finish even when its peer has closed the connection."""
        return bool(self.waiting) and self.waiting[-1].blocks_pipeline and not self.waiting[-1].is_answered

    def abandon(self) -> list[ResponseSlot]:
        """Remove and return every slot, oldest first: the connection has closed."""
        slots = list(self.waiting)
        self.waiting.clear()
        self.parked_bytes = 0
        return slots
