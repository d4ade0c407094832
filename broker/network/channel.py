"""One connection of a client: receives frames, starts requests, and sends responses in order.

    readable ----> receive -> frames -> (may start?) -> serve -> response at once -------------> transport
                                |                         '----> DelayedResponse -- resolve --> in order --^
                                '-- must wait: reading stops once something was read ahead

A slice serves a bounded number of requests and bytes; the rest waits in the processor's queue of ready channels, so a
peer that floods gets its share and no more. Requests are served right in the readiness callback: a queue costs 2 µs.

`resolve` may be called from anywhere, also from inside another connection's `serve`. It only sends. Calling the
service and closing the connection wait for this channel's next slice.

Versions and headers are `broker/requests/dispatch.py`'s, the times of requests `broker/metrics/latency.py`'s.

`close` ends the connection on every path: reader and writer leave the loop before the descriptor is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sordini.broker.network.abandonment import abandon_all, drop
from sordini.broker.network.connection_errors import log_connection_error
from sordini.broker.network.idle_connections import Activity, CloseReasons
from sordini.broker.network.ports import DelayedResponse, Parts, Peer, SliceError, Socket, not_connected, release_parts
from sordini.broker.network.transport import Transport
from sordini.protocol.framing import LENGTH, LENGTH_BYTES, FrameReader
from sordini.protocol.request_pipeline import RequestPipeline
from sordini.storage.disk import File

if TYPE_CHECKING:
    from sordini.broker.network.processor import Processor


class Channel:
    """A connection that a processor owns."""

    __slots__ = (
        "_close_reasons",
        "_deliver_callback",
        "_error",
        "_failure_callback",
        "_frame_bytes_max",
        "_has_ended",
        "_held_bytes",
        "_is_closed",
        "_is_draining",
        "_is_reading",
        "_last_active_ms",
        "_mutes",
        "_pipeline",
        "_reader",
        "_socket",
        "_transport",
        "bytes_received",
        "is_ready",
        "peer",
        "processor",
        "requests",
    )

    def __init__(self, processor: Processor, socket: Socket, peer: Peer) -> None:
        limits = processor.limits
        self.processor = processor
        self.peer = peer
        self._socket = socket
        self._frame_bytes_max = limits.frame_bytes_max
        self._reader = FrameReader(self._frame_bytes_max, processor.pool)
        if peer.login is not None:
            self._frame_bytes_max = self._reader.limit_before_login(peer.login.receive_bytes_max)
            peer.login.on_complete = self._on_login
        self._pipeline = RequestPipeline(limits.pending_max, limits.pending_bytes_max)
        self._deliver_callback, self._failure_callback = self._deliver, self._fail_later
        self._transport = Transport(
            socket, processor.page_cache, self._on_drained, self._failure_callback, processor.outbox
        )
        self._error: Exception | None = None
        self._is_reading = False
        self._is_closed = False
        self._is_draining = False
        self._has_ended = False  # The peer sends nothing more.
        self._mutes = 0  # Durations that are not over in which nothing is read.
        self._held_bytes = 0
        self._last_active_ms = processor.now_ms
        self._close_reasons = CloseReasons(processor.now_ms)
        self.is_ready = False  # In the processor's queue.
        self.bytes_received = 0
        self.requests = 0

    @property
    def bytes_sent(self) -> int:
        return self._transport.bytes_sent

    @property
    def is_awaited(self) -> bool:
        """Whether the socket is watched for the peer's next bytes."""
        return self._is_reading

    def open(self) -> None:
        """Begin to read."""
        self.peer.mute = self.mute
        self._read(wanted=True)

    def run_slice(self) -> None:
        """Called from the processor's queue: close the connection after an error, or serve what was left."""
        self.is_ready = False
        if self._is_closed:
            return
        try:
            if self._error is not None:
                self._fail(self._error)
                return
            self._serve()
        except Exception as error:  # noqa: BLE001 - see _fail: the connection ends, the others do not.
            self._fail(error)

    def drain(self) -> None:
        """Start no further request; close when every response has been sent."""
        self._is_draining = True
        self.processor.wake(self)

    def mute(self, duration_ms: int) -> None:
        """Read and start no request for so long: the client is above its quota. Responses are sent all the same."""
        self._mutes += 1
        self._read(wanted=False)
        asyncio.get_running_loop().call_later(duration_ms / 1000, self._unmute)

    def resume_reading(self) -> None:
        """There may be memory for the rest of a frame again."""
        self.processor.wake(self)

    def shed(self, reason: str) -> None:
        """Close the connection because the broker needs what it holds."""
        self.processor.peer_log.warning(
            self.peer.address, "connection closed", peer=str(self.peer), reason=reason, held=self._held_bytes
        )
        self.close()

    def may_hold(self, file: File, position: int) -> bool:
        """See `Transport.may_hold`. A response that is still being made may hold any file."""
        pipeline = self._pipeline
        is_reading = pipeline.is_blocked() and not pipeline.waiting[-1].is_produce
        return not self._is_closed and (is_reading or self._transport.may_hold(file, position))

    def check(self, now_ms: int) -> None:
        """Close the connection when it is idle, too slow, or not reading. Called by the tick."""
        transport = self._transport
        activity = Activity(
            transport.bytes_sent,
            transport.queued_bytes,
            self.bytes_received,
            bool(self._held_bytes) and self._is_reading,
            self.requests,
            bool(self._pipeline.waiting),
            self._last_active_ms,
            self.peer.login,
        )
        reason = self._close_reasons.why_close(activity, self.processor.limits, now_ms)
        if reason is not None:
            self.processor.peer_log.info(self.peer.address, "connection closed", peer=str(self.peer), reason=reason)
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """Close the connection. Delayed responses are abandoned, queued ones are released."""
        if self._is_closed:
            return
        self._is_closed = True
        self._read(wanted=False)
        self._transport.close()
        self._socket.close(reset=reset)
        self._reader.close()
        self._account_memory(0)
        abandon_all(self._pipeline.abandon(), self.processor.log, self.peer)
        self.peer.mute = not_connected
        if self.peer.login is not None:
            self.peer.login.closed()
        self.processor.forget(self)
        for on_closed in list((self.peer.on_closed or {}).values()):
            on_closed()

    def _on_readable(self) -> None:
        """Receive once, and serve what has arrived.

        Between two frames, while nothing waits, that is mostly one whole frame. It is served straight in the
        processor's own buffer, which saves nine calls; anything else is given to the reader, for a slice as any other.
        """
        if self.is_ready:
            return  # The processor's queue will run it; reading now would double its share.
        try:
            if self._held_bytes or self._pipeline.waiting or self._transport.queued_bytes or self._is_draining:
                self._receive()
                return
            processor = self.processor
            buffer = processor.buffer
            count = self._socket.recv_into(buffer)
            if count is None:
                return
            size = count - LENGTH_BYTES
            if size <= 0 or LENGTH.unpack_from(buffer)[0] != size or size > self._frame_bytes_max:
                self._reader.adopt(buffer)
                processor.buffer = processor.pool.take()
                self._received(count)
                return
            self.bytes_received += count
            self._last_active_ms = processor.now_ms
            try:
                self._start(memoryview(buffer)[LENGTH_BYTES:count])
            finally:
                try:
                    buffer.append(0)  # Refused while a view of it exists, see `protocol/framing.py`.
                except BufferError:
                    processor.abandon_buffer()
                else:
                    buffer.pop()
        except Exception as error:  # noqa: BLE001 - a callback that raises would be called again at once, forever.
            self._fail(error)

    def _unmute(self) -> None:
        self._mutes -= 1
        if not self._mutes and not self._is_closed:
            self._last_active_ms = self.processor.now_ms  # It was not the peer that was idle.
            self.processor.wake(self)

    def _on_login(self) -> None:
        """The peer has logged in: its requests may have their full size."""
        self._frame_bytes_max = self._reader.limit(self.processor.limits.frame_bytes_max)

    def _receive(self) -> None:
        """Receive once behind what is held, and serve what has arrived."""
        reader = self._reader
        if self._is_blocked() and reader.unread_bytes:
            # Enough was read ahead to notice a peer that closes while its request is pending.
            self._read(wanted=False)
            return
        count = self._socket.recv_into(reader.space())
        if count is None:
            reader.settle()
            return
        self._received(count)

    def _received(self, count: int) -> None:
        """So many bytes were received into the reader's space; 0 is the end of the stream."""
        if count == 0:
            self._has_ended = True
            self._read(wanted=False)
        else:
            self._reader.received(count)
            self.bytes_received += count
            self._last_active_ms = self.processor.now_ms
        self._serve()

    def _serve(self) -> None:
        """Serve the received requests that may start, then arrange for the next slice."""
        reader, pipeline, processor = self._reader, self._pipeline, self.processor
        requests_left = processor.limits.slice_requests_max
        bytes_left = processor.limits.slice_bytes_max
        while True:
            if self._has_ended and pipeline.waiting and not pipeline.is_blocked():
                abandon_all(pipeline.abandon(), processor.log, self.peer)  # It has closed and reads no responses.
            if self._is_blocked():
                break
            if requests_left <= 0 or bytes_left <= 0:
                if reader.has_frame():
                    processor.wake(self)
                break
            frame = reader.next_frame()
            if frame is None:
                break
            if pipeline.waiting and not pipeline.may_start(frame):
                reader.put_back(frame)
                break
            requests_left -= 1
            bytes_left -= len(frame)
            self._start(frame)
            if self._is_closed:
                return
        frame = None  # A view would prevent the buffer's reuse.
        self._settle()

    def _start(self, frame: memoryview) -> None:
        """Serve one request, and send its response or queue it."""
        self.requests += 1
        try:
            answer = (self.peer.gate or self.processor.service).serve(self.peer, frame)
        except Exception as error:  # noqa: BLE001 - one place closes the connection and says why.
            self._fail(error, frame)
            return
        if self._is_closed:
            drop(answer)
        elif type(answer) is list and not self._pipeline.waiting:
            self._transport.write(answer)
        elif answer is not None:
            self._queue_response(answer, frame)

    def _queue_response(self, answer: Parts | DelayedResponse, frame: memoryview) -> None:
        """Keep a response that cannot be sent at once."""
        if not isinstance(answer, DelayedResponse):
            self._pipeline.park_answer(answer, frame)
            return
        self._pipeline.park(answer, frame)
        if answer.failure is not None:
            self._fail_later(answer.failure)
        answer.on_failure = self._failure_callback
        if answer.is_answered:
            self._deliver()
        else:
            answer.attach(self._deliver_callback)

    def _deliver(self) -> None:
        """Send the complete responses at the head. Never serves and never closes, see above."""
        answers = self._pipeline.take_answers()
        try:
            while answers:
                self._transport.write(answers.pop(0))
        except (OSError, SliceError) as error:
            for answer in answers:
                release_parts(answer)
            self._fail_later(error)
            return
        self._last_active_ms = self.processor.now_ms
        if not self._is_reading or (self._held_bytes and self._reader.unread_bytes) or self._is_draining:
            self.processor.wake(self)

    def _is_blocked(self) -> bool:
        """Whether no request of any kind may start now."""
        if self._pipeline.waiting and not self._pipeline.may_start_any():
            return True
        if self._mutes or self._is_draining:
            return True
        return self._transport.queued_bytes >= self.processor.limits.queued_bytes_max

    def _settle(self) -> None:
        """End a slice: keep only the bytes of an unfinished frame, and decide whether to read on."""
        reader = self._reader
        reader.settle()
        if reader.held_bytes != self._held_bytes:
            self._account_memory(reader.held_bytes)
            if self._is_closed:
                return  # Closed to free memory.
        if self._has_ended or self._is_draining:
            self._close_when_done()
        elif self._held_bytes:
            self._read(wanted=not self._is_ahead() and self.processor.memory.admit(self, reader.declared_bytes))
        elif not self._is_reading and not self._mutes:
            self._read(wanted=True)

    def _is_ahead(self) -> bool:
        """Whether bytes that were read already are still to be served."""
        return bool(self._reader.unread_bytes) and (self._is_blocked() or self._reader.has_frame())

    def _close_when_done(self) -> None:
        """After the peer's end of stream, or while draining: close once nothing is left to answer or to send."""
        if self._transport.queued_bytes or self.is_ready:
            return
        if not self._pipeline.waiting and (self._is_draining or not self._reader.has_frame()):
            self.close()

    def _on_drained(self) -> None:
        """Every queued response has been sent."""
        self._last_active_ms = self.processor.now_ms
        if not self._is_reading or self._reader.unread_bytes or self._is_draining:
            self.processor.wake(self)

    def _read(self, *, wanted: bool) -> None:
        """Watch the socket for bytes, or stop watching."""
        if wanted == self._is_reading:
            return
        self._is_reading = wanted
        loop = asyncio.get_running_loop()
        if wanted:
            loop.add_reader(self._socket, self._on_readable)
        else:
            loop.remove_reader(self._socket)

    def _account_memory(self, held_bytes: int) -> None:
        before, self._held_bytes = self._held_bytes, held_bytes
        if before != held_bytes:
            self.processor.memory.change(self, before, held_bytes)

    def _fail_later(self, error: Exception) -> None:
        """Record an error from outside a slice: the next slice closes the connection."""
        if self._error is None:
            self._error = error
            self._read(wanted=False)
            self.processor.wake(self)

    def _fail(self, error: Exception, frame: memoryview | None = None) -> None:
        """Close the connection for an error of the peer, of the disk, or of the broker (a bug)."""
        log_connection_error(self.processor.log, self.processor.peer_log, self.peer, error, frame)
        # The header of a response was sent whose rest will not come: no regular end of the stream may follow it.
        self.close(reset=isinstance(error, SliceError))
