"""TLS over a socket of the port: whatever the inner socket takes and gives at a time, the plaintext is the same."""

from __future__ import annotations

import random
import ssl
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.network.ports import SliceError
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.client.tls.contexts import TlsMaterial, client_context, server_context
from sordini.client.tls.stores import pem_key_store, pem_trust_store
from tests.support.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("broker")
KEYS = pem_key_store(ISSUED.key_pem(), ISSUED.chain_pem, None)
TRUST = pem_trust_store(AUTHORITY.pem)
BOTH = ("TLSv1.2", "TLSv1.3")


def contexts(protocols=BOTH, client_auth="none"):
    material = TlsMaterial(protocols, (), KEYS, TRUST)
    return server_context(material, client_auth), client_context(material, checks_host=True)


CONTEXTS = {protocol: contexts((protocol,)) for protocol in BOTH}


class Pipe:
    """One direction of a connection: it holds at most `room` bytes, and gives and takes what `choices` says."""

    def __init__(self, choices, room):
        self.data = bytearray()
        self.room = room
        self.choices = choices
        self.is_closed = False

    def portion(self, size):
        return max(1, min(size, self.choices.randint(size // 8, 3 * size))) if self.choices else size


class PipeSocket:
    """An inner socket over two pipes: None for would-block, short counts, 0 for the end."""

    peer_address = local_address = ("127.0.0.1", 1)

    def __init__(self, inward, outward):
        self.inward, self.outward = inward, outward
        self.sent = []
        self.is_open = True

    def fileno(self):
        return 7

    def recv_into(self, buffer):
        data, view = self.inward.data, memoryview(buffer)
        if not data:
            return 0 if self.inward.is_closed else None
        count = self.inward.portion(min(len(data), len(view)))
        view[:count] = data[:count]
        del data[:count]
        return count

    def send(self, data, *, more=False):
        room = self.outward.room - len(self.outward.data)
        if room <= 0:
            return None
        count = self.outward.portion(min(room, len(data)))
        self.outward.data += bytes(data[:count])
        self.sent.append(count)
        return count

    def close(self, *, reset=False):
        self.is_open = False
        self.outward.is_closed = True


class MemoryFile:
    path = "memory"

    def __init__(self, content):
        self.content = content
        self.reads = 0

    def read_at(self, position, size):
        self.reads += 1
        return self.content[position : position + size]


def pair(protocol="TLSv1.3", seed=None, room=1 << 30, made=None):
    """The server's and the client's end, after their handshake."""
    choices = None if seed is None else random.Random(seed)
    up, down = Pipe(choices, 1 << 30), Pipe(choices, 1 << 30)
    server_side, client_side = made or CONTEXTS[protocol]
    server = BrokerTlsSocket(PipeSocket(up, down), server_side)
    client = BrokerTlsSocket(PipeSocket(down, up), client_side, host="localhost")
    done = set()
    for _ in range(10_000):
        for end in (client, server):
            if end not in done:
                if end is server or up.data or not done or down.data:
                    end.receive_handshake()
                if end.advance():
                    done.add(end)
            end.flush()
        if len(done) == 2:
            break
    else:
        raise AssertionError("no handshake")
    up.room = down.room = room
    return server, client


def received(end, limit=1 << 30, size=4096):
    """What arrives until there is nothing more; every call as after readiness."""
    parts = []
    while limit > 0:
        buffer = bytearray(min(size, limit))
        count = end.recv_into(buffer)
        if not count:
            if count == 0 or not (end.has_pending or end._inner.inward.data):
                break
            continue
        parts.append(bytes(buffer[:count]))
        limit -= count
    return b"".join(parts)


def transport(sender, receiver, parts):
    """Send parts as the broker's transport does: again with the same first bytes after None."""
    queue, got, idle = deque(parts), bytearray(), 0
    while queue:
        head = queue[0]
        if isinstance(head, tuple):
            file, position, size = head
            sent = sender.sendfile(file, position, size)
            if sent:
                if sent == size:
                    queue.popleft()
                else:
                    queue[0] = (file, position + sent, size - sent)
        else:
            run = []
            for part in queue:
                if isinstance(part, tuple):
                    break
                run.append(part)
            sent = sender.send(run[0]) if len(run) == 1 else sender.send_many(run)
            left = sent or 0
            for part in run:
                if left < len(part):
                    queue[0] = memoryview(part)[left:]
                    break
                left -= len(part)
                queue.popleft()
        if sent is None:
            got += received(receiver)
        idle = 0 if sent else idle + 1
        assert idle < 10_000, "nothing is sent any more"
    return bytes(got + received(receiver))


SIZES = st.one_of(st.integers(1, 200), st.integers(1, 20_000), st.sampled_from([16384, 16385, 66_000]))
PART = st.tuples(st.sampled_from(["bytes", "file"]), SIZES)


@settings(max_examples=40)
@given(
    protocol=st.sampled_from(BOTH),
    shape=st.lists(PART, min_size=1, max_size=5),
    room=st.one_of(st.integers(1_000, 5_000), st.integers(5_000, 200_000)),
    seed=st.one_of(st.none(), st.integers(0, 2**32)),
)
def test_any_chunking_and_any_full_socket_give_the_same_plaintext(protocol, shape, room, seed):
    filler = random.Random(1)
    server, client = pair(protocol, seed, room)
    parts, expected = [], b""
    for kind, size in shape:
        data = filler.randbytes(size)
        expected += data
        parts.append(data if kind == "bytes" else (MemoryFile(b"head" + data), 4, size))
    assert transport(server, client, parts) == expected
    assert transport(client, server, [expected[:1000]]) == expected[:1000]


@settings(max_examples=30)
@given(size=st.integers(1, 300_000), buffers=st.lists(st.integers(100, 70_000), min_size=1, max_size=5))
def test_bytes_that_did_not_fit_into_a_buffer_are_received_without_another_packet(size, buffers):
    server, client = pair()
    data = random.Random(2).randbytes(size)
    assert client.send(data) == min(size, 256 * 1024)
    data = data[: 256 * 1024]
    got, number = bytearray(), 0
    while len(got) < len(data):
        assert server.has_pending or server._inner.inward.data
        buffer = bytearray(buffers[number % len(buffers)])
        number += 1
        count = server.recv_into(buffer)
        got += buffer[: count or 0]
    assert bytes(got) == data
    assert not server.has_pending


def test_bytes_are_encrypted_once_and_counted_when_their_ciphertext_has_left():
    server, client = pair(room=100)
    data = b"x" * 5000
    assert server.send(data) is None
    assert server.send(data) is None
    total = 0
    while (sent := server.send(data)) is None:
        total += len(received(client))
    assert sent == 5000
    assert received(client) + b"x" * total == data
    assert server.send(b"next") == 4
    assert received(client) == b"next"


def test_a_file_is_read_once_for_bytes_that_wait_for_room():
    server, client = pair(room=1000)
    file = MemoryFile(b"y" * 50_000)
    got = b""
    while server.sendfile(file, 0, 50_000) is None:
        got += received(client)
    assert file.reads == 1
    assert got + received(client) == b"y" * 50_000


def test_small_buffers_leave_in_records_of_16_kib():
    server, client = pair()
    before = len(server._inner.outward.data)
    buffers = [b"z" * 100] * 600
    assert server.send_many(buffers) == 60_000
    overhead = len(server._inner.outward.data) - before - 60_000
    assert overhead <= 4 * 32, "four records, each of some bytes more"
    assert received(client) == b"z" * 60_000


def test_a_file_that_ends_is_reported_and_one_that_cannot_be_read_raises():
    server, _ = pair()
    assert server.sendfile(MemoryFile(b""), 0, 10) == 0

    class Broken(MemoryFile):
        def read_at(self, position, size):
            raise OSError("it is broken")

    with pytest.raises(SliceError, match="it is broken"):
        server.sendfile(Broken(b"x"), 0, 1)


@pytest.mark.parametrize("protocol", BOTH)
def test_close_notify_ends_the_stream_after_the_bytes_before_it(protocol):
    server, client = pair(protocol)
    client.send(b"last")
    client.close()
    server._inner.inward.is_closed = False  # The peer keeps its TCP connection open.
    buffer = bytearray(100)
    assert server.recv_into(buffer) == 4
    assert server.has_pending, "the end must be received without another packet"
    assert server.recv_into(buffer) == 0


def test_the_end_of_the_inner_stream_is_the_end_here_also_within_a_record():
    server, client = pair()
    client.send(b"x" * 1000)
    inward = server._inner.inward
    del inward.data[500:]
    inward.is_closed = True
    assert received(server) == b""
    assert server.recv_into(bytearray(10)) == 0


def test_a_record_that_was_changed_on_the_way_ends_the_connection():
    server, client = pair()
    client.send(b"x" * 1000)
    server._inner.inward.data[500] ^= 1
    with pytest.raises(ssl.SSLError):
        server.recv_into(bytearray(2000))


def test_a_reset_sends_no_close_notify():
    server, client = pair()
    before = len(server._inner.outward.data)
    server.close(reset=True)
    assert len(server._inner.outward.data) == before
    client.close()
    assert len(client._inner.outward.data) > 0


def test_a_renegotiation_is_refused_and_nothing_is_lent_to_the_kernel():
    server, _ = pair("TLSv1.2")
    assert server.session.context.options & ssl.OP_NO_RENEGOTIATION
    assert server.unsent() == 0
