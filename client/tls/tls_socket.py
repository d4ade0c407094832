"""TLS over a socket of the port, as a socket of the port: whatever is above it knows nothing of TLS.

    recv_into  <- plaintext <- SSLObject <- incoming BIO <- inner socket
    send       -> plaintext -> SSLObject -> outgoing BIO -> unsent ciphertext -> inner socket

Nothing is encrypted twice. A caller whose `send` returned None sends the same bytes again; if they were encrypted
before, only what is left of the ciphertext is sent, and their count is returned once all of it was taken.

The inner socket may be silent while plaintext is left here: `has_pending` says so, and a caller that waits for
readiness has to receive again first. Renegotiation is refused by the context. A peer that closes without close_notify
ends the stream as one that sends it: all messages above have a length, so that a truncated one is found there.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

from sordini.client.ports import Socket

ENCRYPTED_BYTES_MAX: Final = 256 * 1024
"""Plaintext that one call encrypts: a whole window of `sendfile`, in records of 16 KiB."""

SCRATCH_BYTES: Final = 128 * 1024
_RECORD_OVERHEAD: Final = 512
"""So that a buffer of one record's plaintext is filled by one call."""


class TlsSocket:
    """One end of a TLS connection; the handshake is driven by `advance`, and comes first."""

    __slots__ = ("_has_ended", "_incoming", "_inner", "_outgoing", "_promised", "_scratch", "_tls", "_unsent")

    def __init__(
        self, inner: Socket, context: ssl.SSLContext, *, host: str | None = None, scratch: bytearray | None = None
    ) -> None:
        """`host` is the server's name, at the client's end. A `scratch` buffer may be shared by sockets of a thread."""
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host or None
        )
        self._scratch = bytearray(SCRATCH_BYTES) if scratch is None else scratch
        self._unsent: memoryview | None = None
        """Ciphertext that the inner socket did not take yet."""
        self._promised = 0
        """The first so many bytes of the next `send` are encrypted already."""
        self._has_ended = False

    @property
    def is_server(self) -> bool:
        return self._tls.server_side

    @property
    def has_pending(self) -> bool:
        """Whether `recv_into` may return something although the inner socket is not readable."""
        return bool(self._incoming.pending or self._has_ended or self._tls.pending())

    @property
    def session(self) -> ssl.SSLObject:
        """The state of the connection: its version, cipher and the peer's certificate."""
        return self._tls

    def fileno(self) -> int:
        return self._inner.fileno()

    # The handshake.

    def receive_handshake(self) -> bytes | None:
        """Receive once; the first byte, empty at the end of the stream, None when there is nothing. Raises OSError."""
        scratch = self._scratch
        count = self._inner.recv_into(scratch)
        if not count:
            return None if count is None else b""
        self._incoming.write(memoryview(scratch)[:count])
        return bytes(scratch[:1])

    def advance(self) -> bool:
        """Compute the handshake as far as received bytes allow; whether it is complete. Raises ssl.SSLError.

        May run in a thread while nothing else uses this socket. What it wrote is sent by `flush`.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def flush(self, *, more: bool = False) -> bool:
        """Send ciphertext; whether all of it was taken. Raises OSError."""
        unsent = self._unsent
        if unsent is None:
            if not self._outgoing.pending:
                return True
            unsent = memoryview(self._outgoing.read())
        sent = self._send_inner(unsent, more=more) or 0
        if sent == len(unsent):
            self._unsent = None
            return not self._outgoing.pending or self.flush(more=more)
        self._unsent = unsent[sent:]
        return False

    # The port.

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        if self._incoming.pending or self._tls.pending():
            count = self._decrypt_into(buffer)
            if count is not None:
                return count
        if self._has_ended:
            return 0
        # Plaintext is shorter than its ciphertext: no more is received than fits, but for what a record may add.
        scratch, limit = self._scratch, len(buffer) + _RECORD_OVERHEAD
        received = self._inner.recv_into(scratch if limit >= len(scratch) else memoryview(scratch)[:limit])
        if received is None:
            return None
        if received == 0:
            self._has_ended = True
            return 0
        self._incoming.write(memoryview(scratch)[:received])
        return self._decrypt_into(buffer)

    def send(self, data: bytes | bytearray | memoryview, *, more: bool = False) -> int | None:
        if self._promised or self._unsent is not None or self._outgoing.pending:
            promised = self._take_promised()
            if promised != 0:
                return promised
        return self._send_encrypted(data, more=more)

    def close(self) -> None:
        self._notify_close()
        self._inner.close()

    # Helpers, for the broker's socket as well.

    def _take_promised(self) -> int | None:
        """Send what is left of the ciphertext. The count that it stands for, 0 for none; None when some is left."""
        if not self.flush():
            return None
        promised, self._promised = self._promised, 0
        return promised

    def _send_encrypted(self, data: bytes | bytearray | memoryview, *, more: bool) -> int | None:
        """Encrypt and send, with no ciphertext left from before."""
        size = len(data)
        if size > ENCRYPTED_BYTES_MAX:
            size, data = ENCRYPTED_BYTES_MAX, memoryview(data)[:ENCRYPTED_BYTES_MAX]
        if not size:
            return 0
        written = self._tls.write(data)
        assert written == size, "a BIO in memory takes everything"
        if self.flush(more=more):
            return size
        self._promised = size
        return None

    def _send_inner(self, data: memoryview, *, more: bool) -> int | None:  # noqa: ARG002 - the broker's uses it.
        return self._inner.send(data)

    def _decrypt_into(self, buffer: bytearray | memoryview) -> int | None:
        """Decrypt what was received, as far as it fits; the count of bytes, 0 at the stream's end, None for none."""
        tls, incoming, size, total = self._tls, self._incoming, len(buffer), 0
        try:
            while True:
                count: int = tls.read(size - total, memoryview(buffer)[total:])  # type: ignore[assignment]
                if not count:
                    self._has_ended = True  # close_notify.
                    break
                total += count
                if total == size or not (incoming.pending or tls.pending()):
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                self.flush()  # The alert.
            raise
        if self._outgoing.pending and self._unsent is None:
            self.flush()  # The response to a key update.
        return total or (0 if self._has_ended else None)

    def _notify_close(self) -> None:
        """Send close_notify, if there is room for it: the connection ends in any case."""
        if self._unsent is None:
            with contextlib.suppress(OSError, ValueError):  # An ssl.SSLError is an OSError.
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self.flush()
