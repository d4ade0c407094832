"""Requests that take more than one slice of work: the same three steps as a short one, with other requests between.

    decode ──► handle ──► encode ──► the delayed response

A request enters at the first step that did not fit: `decode` with many elements, `handle` with a handler that has more
steps than a slice. It blocks its connection's pipeline until it is answered, and is cancelled when the connection
closes.
"""

from __future__ import annotations

from typing import Any

from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.requests.call import Call, LongCall, VersionedApi
from sordini.broker.requests.decoding_costs import COST_BYTES, cost_max_of
from sordini.broker.requests.fence import Fence
from sordini.broker.requests.finished_work import handled, no_result
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.protocol import codecs
from sordini.protocol.errors import MessageTooCostly, WireError
from sordini.protocol.primitives import ROW_COST


class LongRequests:
    """Carries requests on from the step that did not fit."""

    def __init__(self, slices: SliceScheduler, fence: Fence) -> None:
        self._slices = slices
        self._fence = fence

    def decode(
        self, versioned: VersionedApi, peer: Peer, correlation_id: int, client_id: str | None, body: memoryview
    ) -> DelayedResponse:
        """Decode, handle and answer a request. `body` is the frame behind its header."""
        pending = _blocking_response()
        return self._scheduled(pending, self._decoding(versioned, peer, correlation_id, client_id, body, pending))

    def handle(self, call: Call, work: Work[Any], pending: DelayedResponse | None = None) -> DelayedResponse:
        """Go on with a handler's work and answer its call, by a delayed response that is there already or a new one."""
        pending = _blocking_response() if pending is None else pending
        return self._scheduled(pending, self._handling(call, work, pending))

    def _decoding(
        self,
        versioned: VersionedApi,
        peer: Peer,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        pending: DelayedResponse,
    ) -> Work[None]:
        bound = cost_max_of(versioned.api) * max(len(body), COST_BYTES) // COST_BYTES
        try:
            decode = codecs.decoder_in_steps(versioned.api.request, versioned.version)
            message, _ = yield from decode(body, 0, bound)
        except MessageTooCostly as error:
            rows = cost_max_of(versioned.api) // ROW_COST
            raise MessageTooCostly(f"{error}: {rows} rows are allowed for each {COST_BYTES} bytes") from None
        versioned.requests += 1
        call = LongCall(versioned, peer, correlation_id, client_id, message)
        yield from self._handling(call, handled(versioned.route.handle, call), pending)

    def _handling(self, call: Call, work: Work[Any], pending: DelayedResponse) -> Work[None]:
        try:
            answer = yield from work
            if type(answer) is DelayedResponse:
                answer.forward_to(pending)
                return
            parts = None if answer is None else (yield from call.frame_in_steps(answer))
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence, for what is done in slices.
            parts = yield from self._fence.frame_in_steps(call, error)
        pending.resolve(parts)

    def _scheduled(self, pending: DelayedResponse, work: Work[None]) -> DelayedResponse:
        task = self._slices.add(work, no_result, pending.fail)
        pending.on_abandon, pending.time_ns = task.cancel, task.time_ns
        return pending


def _blocking_response() -> DelayedResponse:
    pending = DelayedResponse()
    pending.blocks_pipeline = True
    return pending
