"""The broker's TLS socket: `client/tls/tls_socket.py` with the calls that only the broker's port has.

Small buffers are joined before they are encrypted: a record costs 29 bytes and some microseconds, and OpenSSL encrypts
records of 16 KiB five times as fast as those of 1 KiB. `sendfile` reads and encrypts; nothing is lent to the kernel, so
that `unsent` is 0: a file may be truncated behind what was taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from sordini.broker.network.ports import Buffer, SliceError, Socket
from sordini.client.tls.contexts import ServerSession
from sordini.client.tls.tls_socket import ENCRYPTED_BYTES_MAX, TlsSocket
from sordini.storage.disk import File

JOINED_BYTES_MAX: Final = 64 * 1024


class BrokerTlsSocket(TlsSocket):
    """One end of a TLS connection of a broker."""

    __slots__ = ()

    _inner: Socket

    @property
    def server_name(self) -> str | None:
        """The server name that the client sent, at the server's end (RFC 6066)."""
        return self._tls.server_name if isinstance(self._tls, ServerSession) else None

    @property
    def peer_address(self) -> tuple[str, int]:
        return self._inner.peer_address

    @property
    def local_address(self) -> tuple[str, int]:
        return self._inner.local_address

    def send_many(self, buffers: Sequence[Buffer], *, more: bool = False) -> int | None:
        """As the port says; of many bytes only the first buffers are taken."""
        if self._promised or self._unsent is not None or self._outgoing.pending:
            promised = self._take_promised()
            if promised != 0:
                return promised
        total, count = 0, 0
        for buffer in buffers:
            if count and total + len(buffer) > JOINED_BYTES_MAX:
                break
            total += len(buffer)
            count += 1
        joined = buffers[0] if count == 1 else b"".join(buffers[:count])
        return self._send_encrypted(joined, more=more or count < len(buffers))

    def sendfile(self, file: File, position: int, size: int) -> int | None:
        if self._promised or self._unsent is not None or self._outgoing.pending:
            promised = self._take_promised()
            if promised != 0:
                return promised
        try:
            data = file.read_at(position, min(size, ENCRYPTED_BYTES_MAX))
        except OSError as error:
            raise SliceError(str(error)) from error
        return self._send_encrypted(data, more=False)

    def unsent(self) -> int:
        return 0

    def close(self, *, reset: bool = False) -> None:
        if not reset:
            self._notify_close()
        with contextlib.suppress(OSError):
            self._inner.close(reset=reset)

    def _send_inner(self, data: memoryview, *, more: bool) -> int | None:
        return self._inner.send(data, more=more)
