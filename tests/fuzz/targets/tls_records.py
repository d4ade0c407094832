"""TLS on a real listener: ciphertext cut and merged anywhere, or changed: the requests are served in order, or none more.

    input = uint8 protocol | uint8 kind | uint32 seed of the cuts | uint32 place and uint8 value of a change
            | padding of each request: uint16

Kinds: all bytes arrive; one byte of the ciphertext is changed; the rest is cut off; bytes are put in.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from typing import Any, Final

from sordini.client.tls.contexts import client_context
from tests.fuzz.target import Broken
from tests.network.test_tls import PROTOCOLS, TlsBench, material
from tests.support.socket_bench import answer, request

WHOLE, CHANGED, CUT_OFF, PUT_IN = range(4)
HEAD: Final = struct.Struct(">BBIIB")
REQUESTS_MAX: Final = 60
ROUNDS: Final = 2
PATIENCE_S: Final = 10.0


class TlsRecords:
    name = "tls_records"
    share = 0.03
    instrumented = ("sordini.broker.network", "sordini.client.tls")

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._bench: Any = None

    def draw(self, chance: random.Random) -> bytes:
        count = chance.choice((1, 3, 20, 40))
        sizes = [chance.choice((0, 0, 10, 100, 1_000, 17_000, 40_000)) for _ in range(count)]
        kind = chance.choice((WHOLE, WHOLE, WHOLE, CHANGED, CUT_OFF, PUT_IN))
        head = HEAD.pack(
            chance.randrange(2), kind, chance.getrandbits(32), chance.getrandbits(32), chance.randrange(256)
        )
        return head + struct.pack(f">{count}H", *sizes)

    def run(self, data: bytes) -> int:
        if len(data) < HEAD.size + 2:
            return 1
        return self._loop.run_until_complete(asyncio.wait_for(self._judged(data), PATIENCE_S))

    def close(self) -> None:
        if self._bench is not None:
            self._loop.run_until_complete(self._bench.__aexit__(None, None, None))
        self._loop.close()

    async def _judged(self, data: bytes) -> int:
        if self._bench is None:
            self._bench = await TlsBench().__aenter__()
            self._contexts = [
                client_context(material(None, protocols=(name,)), checks_host=False) for name in PROTOCOLS
            ]
        protocol, kind, seed, place, value = HEAD.unpack_from(data)
        sizes = [size for (size,) in struct.iter_unpack(">H", data[HEAD.size :][: (len(data) - HEAD.size) // 2 * 2])]
        sizes = sizes[:REQUESTS_MAX]
        served = self._bench.service.served
        served.clear()
        client = await _Client.connected(self._bench.server.address("SSL"), self._contexts[protocol % 2])
        try:
            ciphertext = bytearray(client.encrypted(sizes))
            kind %= 4
            if kind == CHANGED:
                ciphertext[place % len(ciphertext)] ^= value or 1
            elif kind == CUT_OFF:
                del ciphertext[place % len(ciphertext) :]
            elif kind == PUT_IN:
                at = place % len(ciphertext)
                ciphertext[at:at] = bytes([value]) * (1 + seed % 7)
            await client.send(bytes(ciphertext), random.Random(seed), ends=kind != WHOLE)
            if kind == WHOLE:
                await client.expect(b"".join(answer(tag) for tag in range(len(sizes))))
            else:
                await client.until_closed()
            if served != list(range(len(served))) or (kind == WHOLE and len(served) != len(sizes)):
                raise Broken(f"served are {served} of {len(sizes)} requests")
        finally:
            client.close()
        errors = self._bench.log.at("error")
        if errors:
            raise Broken(f"an error is logged: {errors[0]}")
        return len(sizes)


class _Client:
    """The other end: OpenSSL in memory, whose ciphertext goes over a socket in pieces."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._received = bytearray()

    @classmethod
    async def connected(cls, address: tuple[str, int], context: ssl.SSLContext) -> _Client:
        loop = asyncio.get_running_loop()
        made = socket.socket()
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(made, address)
        client = cls(made, context)
        while True:
            try:
                client._tls.do_handshake()
            except ssl.SSLWantReadError:
                await client._flush()
                client._incoming.write(await loop.sock_recv(made, 65_536))
            else:
                await client._flush()
                return client

    def encrypted(self, sizes: list[int]) -> bytes:
        """Requests of these sizes, in records of one request, of several, or of a part of one."""
        for tag, size in enumerate(sizes):
            self._tls.write(request(tag=tag, padding=size))
        return self._outgoing.read()

    async def send(self, data: bytes, chance: random.Random, *, ends: bool) -> None:
        loop = asyncio.get_running_loop()
        position = 0
        try:
            while position < len(data):
                size = chance.choice((1, 2, 5, 29, 300, 5_000, 60_000))
                await loop.sock_sendall(self._socket, data[position : position + size])
                position += size
                for _ in range(chance.randrange(ROUNDS + 1)):
                    await asyncio.sleep(0)
            if ends:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            if not ends:
                raise  # A peer that sends nonsense is closed at once.

    async def expect(self, wanted: bytes) -> None:
        loop = asyncio.get_running_loop()
        while len(self._received) < len(wanted):
            try:
                self._received += self._tls.read(65_536)
            except ssl.SSLWantReadError:
                data = await loop.sock_recv(self._socket, 65_536)
                if not data:
                    raise Broken(f"closed after {len(self._received)} of {len(wanted)} bytes") from None
                self._incoming.write(data)
        if bytes(self._received) != wanted:
            raise Broken("the answers are not those of the requests, in order")

    async def until_closed(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while await loop.sock_recv(self._socket, 65_536):
                pass
        except OSError:
            pass

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await asyncio.get_running_loop().sock_sendall(self._socket, self._outgoing.read())

    def close(self) -> None:
        self._socket.close()
