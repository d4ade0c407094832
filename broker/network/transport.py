"""The sending side of one connection: one queue for bytes and slices of files, so that nothing overtakes.

A response usually fits into the socket and is sent by one `send` before `write` returns, or at the end of a busy round
of the loop (see `outbox`); only what does not fit is queued and sent when the socket is writable. Neighbouring bytes
are sent together; records are sent by `sendfile`, by reference.

`sendfile` sends references to pages, not copies of bytes, so:
  - a slice stays pinned until its last byte was taken, on every path, and while a thread reads it ahead;
  - 0 bytes inside a slice (the file was truncated) or an error of the file closes the connection: its header was sent;
  - bytes taken but not acknowledged still change with the file: `may_hold` says whether this peer must be reset
    before a file is truncated.

Small slices are read and leave with the bytes around them: three system calls and two packets become two calls and
one packet (170 bytes and a trailer, measured: 9.3 µs by sendfile, 5.1 µs by a copy), and a fetch of a hundred quiet
partitions becomes one packet train. From about 16 KiB on the copy is dearer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from sordini.broker.network.outbox import Outbox
from sordini.broker.network.ports import Buffer, PageCache, Part, Parts, Slice, SliceError, Socket
from sordini.storage.disk import File

SLICE_COPIED_BYTES_MAX: Final = 8 * 1024
"""Half of the size from which on a copy was measured to be dearer than `sendfile`."""
WINDOW_BYTES: Final = 256 * 1024
"""Bytes of a slice that are probed and sent by one call."""

FLUSH_BYTES_MAX: Final = 1024 * 1024
"""After this many bytes other connections are served, however fast the peer reads."""

_BUFFERS_MAX: Final = 64  # Far below IOV_MAX, enough to make the call's cost disappear.
_LENT_FILES_MAX: Final = 16
_BYTES: Final = frozenset({bytes, bytearray, memoryview})


class Transport:
    """Sends parts in order. Errors of `write` are raised; later ones go to `on_broken`."""

    __slots__ = (
        "_is_closed",
        "_is_due",
        "_is_writing",
        "_lent",
        "_on_broken",
        "_on_drained",
        "_outbox",
        "_page_cache",
        "_queue",
        "_slice_sent",
        "_socket",
        "_warm_until",
        "_warming",
        "bytes_sent",
        "queued_bytes",
    )

    def __init__(
        self,
        socket: Socket,
        page_cache: PageCache,
        on_drained: Callable[[], None],
        on_broken: Callable[[Exception], None],
        outbox: Outbox,
    ) -> None:
        self._socket = socket
        self._outbox = outbox
        self._is_due = False  # In the outbox.
        self._page_cache = page_cache
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._queue: deque[Part] = deque()
        self._slice_sent = 0  # Of the slice at the head of the queue.
        self._warm_until = -1  # Position in its file up to which the slice at the head was found warm.
        self._warming: asyncio.Future[object] | None = None
        self._is_writing = False
        self._is_closed = False
        self._lent: list[tuple[File | None, int]] = []  # Files sent by reference, and up to which position.
        self.queued_bytes = 0
        self.bytes_sent = 0

    def write(self, parts: Parts) -> None:
        """Send a response, or queue it. Takes over the slices, also when it raises OSError or SliceError."""
        assert not self._is_closed, "written to a closed transport"
        outbox = self._outbox
        is_first = not self._is_due and not self._is_writing and self._warming is None
        if not outbox.at_once_left:
            for part in parts:
                self._enqueue(part)
            if is_first:
                self._is_due = True
                outbox.add(self._send_due)
            return
        outbox.at_once_left -= 1
        if len(parts) == 1 and not self._queue and type(parts[0]) in _BYTES:
            # The common case: one buffer, and nothing queued before it.
            data: Buffer = parts[0]  # type: ignore[assignment] # Checked above, the cheap way.
            sent = self._socket.send(data)
            if sent == len(data):
                self.bytes_sent += sent
            else:
                self._queue_unsent(data, sent or 0)
            return
        for part in parts:
            self._enqueue(part)
        if is_first:
            self._flush()

    def may_hold(self, file: File, position: int) -> bool:
        """Whether bytes of `file` from `position` on are queued here, or sent by reference and not acknowledged."""
        for part in self._queue:
            if type(part) not in _BYTES and part.file is file:  # type: ignore[union-attr]
                assert not isinstance(part, (bytes, bytearray, memoryview))
                if part.position + part.size > position:
                    return True
        if self._lent and self._socket.unsent() == 0:
            self._lent.clear()
        return any(lent is None or (lent is file and end > position) for lent, end in self._lent)

    def close(self) -> None:
        """Stop sending and release what was queued. The caller closes the socket afterwards."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_writing()
        self._lent.clear()
        # A thread may be reading the slice at the head; it is released when the thread has finished.
        kept = self._queue.popleft() if self._warming is not None else None
        for part in self._queue:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                part.release()
        self._queue.clear()
        self.queued_bytes = 0
        if kept is not None:
            self._queue.append(kept)

    def _send_due(self) -> None:
        """At the end of a round: send what was held back."""
        self._is_due = False
        # Meanwhile the socket may have become full, or the next slice be read by a thread: either sends this as well.
        if not self._is_closed and not self._is_writing and self._warming is None:
            self._on_writable()

    def _queue_unsent(self, data: Buffer, sent: int) -> None:
        """The rest of a buffer that did not fit, with nothing queued before it."""
        self.bytes_sent += sent
        self._queue.append(memoryview(data)[sent:])
        self.queued_bytes = len(data) - sent
        self._start_writing()

    def _enqueue(self, part: Part) -> None:
        if isinstance(part, (bytes, bytearray, memoryview)):
            if part:
                self._queue.append(part)
                self.queued_bytes += len(part)
        elif part.size <= 0:
            part.release()
        else:
            self._queue.append(self._copied(part) if part.size <= SLICE_COPIED_BYTES_MAX else part)
            self.queued_bytes += part.size

    def _copied(self, part: Slice) -> Part:
        """A small slice's bytes; the slice itself when they are cold or cannot be read (sending it finds out why)."""
        newest = part.file.newest(part.position, part.size)
        if newest is not None:
            part.release()
            return newest
        if not self._page_cache.is_warm(part.file, part.position, part.size):
            return part
        try:
            data = part.file.read_at(part.position, part.size)
        except OSError:
            return part
        if len(data) != part.size:
            return part
        part.release()
        return data

    def _flush(self) -> None:
        """Send from the head of the queue until it is empty, the socket is full, or FLUSH_BYTES_MAX are sent."""
        queue = self._queue
        bytes_max = self.bytes_sent + FLUSH_BYTES_MAX
        while queue:
            head = queue[0]
            if isinstance(head, (bytes, bytearray, memoryview)):
                if not self._send_run():
                    return
            elif not self._send_window(head):
                return
            if self.bytes_sent >= bytes_max and queue:
                break
        if queue:
            self._start_writing()
        else:
            self._stop_writing()

    def _send_run(self) -> bool:
        """Send the bytes at the head with one call; returns whether the socket may take more."""
        queue = self._queue
        run: list[Buffer] = []
        is_slice_next = False
        for part in queue:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                is_slice_next = True
                break
            run.append(part)
            if len(run) == _BUFFERS_MAX:
                break
        # A slice follows: its first packet should carry these bytes as well.
        if len(run) == 1:
            sent = self._socket.send(run[0], more=is_slice_next)
        else:
            sent = self._socket.send_many(run, more=is_slice_next)
        if sent is None:
            self._start_writing()
            return False
        self._account(sent)
        self._drop_sent(run, sent)
        return True

    def _drop_sent(self, run: Sequence[Buffer], sent: int) -> None:
        """Remove sent bytes from the head of the queue."""
        queue = self._queue
        for part in run:
            size = len(part)
            if sent < size:
                if sent:
                    queue[0] = memoryview(part)[sent:]
                return
            sent -= size
            queue.popleft()

    def _send_window(self, head: Slice) -> bool:
        """Send the next window of the slice at the head; returns whether to continue."""
        position = head.position + self._slice_sent
        size = min(head.size - self._slice_sent, WINDOW_BYTES)
        if position >= self._warm_until:
            if not self._page_cache.is_warm(head.file, position, size):
                self._warm(head, position, size)
                return False
            self._warm_until = position + size
        size = min(size, self._warm_until - position)
        sent = self._socket.sendfile(head.file, position, size)
        if sent is None:
            self._start_writing()
            return False
        if sent == 0:
            raise SliceError(f"{head.file.path} ends before position {position}, inside a slice that is being sent")
        self._account(sent)
        self._remember_lent(head.file, position + sent)
        self._slice_sent += sent
        if self._slice_sent == head.size:
            self._queue.popleft()
            self._slice_sent = 0
            self._warm_until = -1
            head.release()
        if sent < size:
            self._start_writing()  # The socket is full.
            return False
        return True

    def _account(self, sent: int) -> None:
        self.bytes_sent += sent
        self.queued_bytes -= sent

    def _remember_lent(self, file: File, end: int) -> None:
        """Record that the kernel now holds references to pages of this file."""
        lent = self._lent
        if lent and lent[-1][0] is file:
            if end > lent[-1][1]:
                lent[-1] = (file, end)
            return
        if len(lent) >= _LENT_FILES_MAX:
            lent[:] = [(None, 0)]  # Too many to track: from now on it may hold any file.
        lent.append((file, end))

    def _warm(self, head: Slice, position: int, size: int) -> None:
        """Read the window in a thread; sending continues afterwards."""
        self._stop_writing()
        self._warm_until = position + size
        self._warming = asyncio.ensure_future(self._page_cache.warm(head.file, position, size))
        self._warming.add_done_callback(self._on_warmed)

    def _on_warmed(self, warming: asyncio.Future[object]) -> None:
        self._warming = None
        error = None if warming.cancelled() else warming.exception()
        if self._is_closed:
            for part in self._queue:
                if not isinstance(part, (bytes, bytearray, memoryview)):
                    part.release()
            self._queue.clear()
        elif isinstance(error, Exception):
            self._on_broken(error)
        else:
            self._on_writable()

    def _on_writable(self) -> None:
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001 - a callback that raises would be called again at once, forever.
            self._on_broken(error)
            return
        if not self._queue:
            self._on_drained()

    def _start_writing(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().add_writer(self._socket, self._on_writable)

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            asyncio.get_running_loop().remove_writer(self._socket)
