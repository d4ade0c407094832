"""A service in front of all others that takes the times of each request, and keeps what is needed of a slow one.

It is put in place only where tracing is on: a broker without it has no call, branch or import for it. It stands
outermost, so that the throttle time is in the response by then. With it a request costs two reads of the clock; of
one whose response is delayed the first bytes are copied, because its frame is not there any more when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sordini.broker.metrics.tracing.slow_request import ANSWER_BYTES_MAX, HEAD_BYTES_MAX, Pieces
from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service
from sordini.system.named_tuple import NamedTuple

Serve = Callable[[Peer, memoryview], Parts | DelayedResponse | None]


class Measured(NamedTuple):
    """A request whose response is complete. Times are of the monotonic clock, in nanoseconds."""

    peer: Peer
    head: bytes
    request_bytes: int
    began_ns: int
    handled_ns: int
    """When `serve` had returned."""
    ended_ns: int
    sliced_ns: int
    was_blocking: bool
    parts: Parts | None


class Slow(Protocol):
    """What is done with a request that took long."""

    def __call__(self, measured: Measured) -> None: ...


class TracedService:
    """Serves as another service does; `on_slow` is called for each request that took at least `slow_ns`."""

    __slots__ = ("serve",)

    def __init__(self, service: Service, now_ns: Callable[[], int], slow_ns: int, on_slow: Slow) -> None:
        self.serve = _traced(service.serve, now_ns, slow_ns, on_slow)


def _traced(serve: Serve, now_ns: Callable[[], int], slow_ns: int, on_slow: Slow) -> Serve:
    def traced(peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        began_ns = now_ns()
        answer = serve(peer, frame)
        if type(answer) is DelayedResponse:
            if not answer.is_answered:
                follow(answer, peer, frame, began_ns)
                return answer
            parts = answer.parts
        else:
            parts = answer  # type: ignore[assignment]  # The other kinds: mypy does not narrow by `type() is`.
        ended_ns = now_ns()
        if ended_ns - began_ns >= slow_ns:
            head = bytes(frame[:HEAD_BYTES_MAX])
            on_slow(Measured(peer, head, len(frame), began_ns, ended_ns, ended_ns, 0, False, parts))
        return answer

    def follow(pending: DelayedResponse, peer: Peer, frame: memoryview, began_ns: int) -> None:
        """Take the times of a delayed response once what is in front has amended it."""
        head, size, was_blocking, inner = (
            bytes(frame[:HEAD_BYTES_MAX]),
            len(frame),
            pending.blocks_pipeline,
            pending.amend,
        )
        handled_ns = now_ns()

        def amend(parts: Parts | None) -> Parts | None:
            amended = parts if inner is None else inner(parts)
            ended_ns = now_ns()
            if ended_ns - began_ns >= slow_ns:
                sliced_ns = 0 if pending.time_ns is None else pending.time_ns()
                on_slow(Measured(peer, head, size, began_ns, handled_ns, ended_ns, sliced_ns, was_blocking, amended))
            return amended

        pending.amend = amend

    return traced


def kept(parts: Parts | None) -> tuple[Pieces | None, int]:
    """A response in pieces, None where there is none or it is too large, and its bytes."""
    if parts is None:
        return None, 0
    pieces: list[bytes | int] = []
    total = held = 0
    for part in parts:
        is_file = not isinstance(part, (bytes, bytearray, memoryview))
        size = part.size if is_file else len(part)  # type: ignore[union-attr,arg-type]  # As above.
        total += size
        held += 0 if is_file else size
        if held <= ANSWER_BYTES_MAX:
            pieces.append(size if is_file else bytes(part))  # type: ignore[arg-type]
    return (tuple(pieces) if held <= ANSWER_BYTES_MAX else None), total
