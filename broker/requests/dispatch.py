"""From a request's bytes to its handler, and from the handler's response to bytes.

    frame ──► which API in which version ──► prepared? ──► decode ──► handle ──► encode ──► parts
                                              served so       └────────┴── takes more than a slice: long_requests.py

A `VersionedApi` (one API in one version) is found by the first four bytes of the frame and keeps the compiled decoder
and encoder, so a request costs one dictionary look-up. A short request is answered at once, without a task or a future.
What a handler raises is answered by the fence (fence.py).

Requests that are not served get Apache Kafka's own response: an unknown API or version closes the connection, and an
ApiVersions request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Iterable
from types import GeneratorType
from typing import Any, cast

from sordini.broker.network.ports import DelayedResponse, Parts, Peer
from sordini.broker.requests.call import Call, Route, VersionedApi
from sordini.broker.requests.decoding_costs import COST_AT_ONCE
from sordini.broker.requests.fence import Fence
from sordini.broker.requests.long_requests import LongRequests
from sordini.broker.requests.prepared_requests import BODY_POSITION, Declined, PreparedRequests
from sordini.broker.requests.slice_scheduler import SliceExhausted, SliceScheduler, first_slice
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, MessageTooCostly, WireError
from sordini.protocol.headers import read_request_header, read_rest_of_header
from sordini.protocol.served_apis import ALL_APIS
from sordini.replication.ports import Logger, Spawn

KEY_AND_VERSION = struct.Struct(">hh")
NUMBER_AND_CORRELATION = struct.Struct(">Ii")
"""API key and version as one number, the key of `Dispatcher`'s table; and the correlation id."""


class Dispatcher:
    """The service that the processors call, once per request."""

    def __init__(self, spawn: Spawn, log: Logger) -> None:
        self._routes: dict[int, Route] = {}
        self._spawn = spawn
        self._versioned_apis: dict[int, VersionedApi] = {}
        self.slices = SliceScheduler()
        self.prepared = PreparedRequests()
        self.fence = Fence(log)
        self._long_requests = LongRequests(self.slices, self.fence)

    def add(self, routes: Iterable[Route]) -> None:
        """Serve these APIs, too."""
        self._routes.update({int(route.key): route for route in routes})

    @property
    def routes(self) -> Iterable[Route]:
        """Every API that is served."""
        return self._routes.values()

    @property
    def versioned_apis(self) -> Iterable[VersionedApi]:
        """Every API and version requested so far."""
        return self._versioned_apis.values()

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        """Answer one request. Raises WireError when the connection must be closed."""
        try:
            number, correlation_id = NUMBER_AND_CORRELATION.unpack_from(frame)
            versioned = self._versioned_apis[number]
        except (struct.error, KeyError):
            versioned = self._versioned_api_of(frame)
            if versioned.is_fallback:
                # An ApiVersions request of an unknown version: its body cannot be read, and need not be.
                header, _ = read_request_header(frame)
                call = Call(versioned, peer, header.correlation_id, header.client_id, None)
                return call.frame(versioned.route.error_response(None, ErrorCode.UNSUPPORTED_VERSION))
        preparer = versioned.preparer
        if preparer is not None:
            # Of a small Produce no layer takes more than a fifth; decoder, objects, handler and encoder together are
            # its cost. Comparing the bytes that do not change spares all of them.
            for end in peer.prefix_ends:
                prepared = self.prepared.by_prefix.get((versioned.number, bytes(frame[BODY_POSITION:end])))
                if prepared is not None:
                    served = prepared.serve(peer, frame, correlation_id)
                    if not isinstance(served, Declined):
                        return served
                    if served is Declined.UNUSUAL:
                        preparer = None  # It is prepared already.
                    break
        correlation_id, client_id, position = read_rest_of_header(frame, versioned.header_version)
        try:
            body, _ = versioned.decode(frame, position, COST_AT_ONCE)
        except MessageTooCostly:
            return self._long_requests.decode(versioned, peer, correlation_id, client_id, frame[position:])
        versioned.requests += 1
        call = Call(versioned, peer, correlation_id, client_id, body)
        try:
            answer = versioned.route.handle(call)
            kind = type(answer)
            if kind is GeneratorType:
                try:
                    # Most work ends in its first slice: no task, no future, and no round of the loop for it.
                    answer = first_slice(answer)
                except SliceExhausted:
                    answer = self._long_requests.handle(call, answer)
                kind = type(answer)
            if preparer is not None:
                self.prepared.learn(preparer, peer, versioned.number, frame, call)
            if answer is None or kind is DelayedResponse:
                return cast("DelayedResponse | None", answer)
            return call.frame(answer)
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence.
            return self.fence.frame(call, error)

    def respond_later(self, call: Call, work: Awaitable[Any], *, blocks_pipeline: bool = False) -> DelayedResponse:
        """Answer a call with the message that `work`, run as a task of the broker, returns; None is no response.

        With `blocks_pipeline` no further request of the connection starts before `unblock_pipeline` is called, or the
        response is complete.
        """
        pending = DelayedResponse()
        pending.blocks_pipeline = blocks_pipeline
        self._spawn(self._respond_when_done(call, work, pending))
        return pending

    async def _respond_when_done(self, call: Call, work: Awaitable[Any], pending: DelayedResponse) -> None:
        try:
            try:
                message = await work
                parts = None if message is None else await self.slices.run(call.frame_in_steps(message))
            except (WireError, AssertionError):
                raise
            except Exception as error:  # noqa: BLE001 - the fence, for delayed responses.
                parts = await self.slices.run(self.fence.frame_in_steps(call, error))
        except WireError as error:
            pending.fail(error)
            return
        pending.blocks_pipeline = False
        pending.resolve(parts)

    def _versioned_api_of(self, frame: memoryview) -> VersionedApi:
        """For the first request of an API and version, or one that is not served; raises WireError for the latter."""
        if len(frame) < KEY_AND_VERSION.size:
            raise WireError(f"a request of {len(frame)} bytes is shorter than any request header")
        key, version = KEY_AND_VERSION.unpack_from(frame)
        api, route = ALL_APIS.get(key), self._routes.get(key)
        if api is None or route is None:
            raise WireError(f"API key {key} (version {version}) is not served")
        if not api.min_version <= version <= api.max_version:
            if api.key != ApiKey.API_VERSIONS:
                raise WireError(
                    f"{api.key.name} version {version} is not served: {api.min_version} to {api.max_version} are"
                )
            # Not kept: a peer must not fill the table with versions that do not exist.
            return VersionedApi(api, 0, route, is_fallback=True)
        versioned = VersionedApi(api, version, route)
        versioned.continue_in_slices = self._long_requests.handle
        versioned.frame_of_failure = self.fence.frame
        versioned.preparer = self.prepared.preparers.get(api.key)
        self._versioned_apis[versioned.number] = versioned
        return versioned
