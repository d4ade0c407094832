"""TLS listeners on loopback sockets: handshakes, what ends them, their bounds, and frames through them."""

import asyncio
import os
import random
import socket
import ssl
import struct
import threading

import pytest

from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.principal import ANONYMOUS, Principal
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.network.tls_handshakes import NOT_TLS, THREAD_NICENESS, HandshakeRefused, Handshakes, ThreadWorker
from sordini.broker.network.tls_network import TlsNetwork
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.client.tls.contexts import TlsMaterial, client_context, server_context
from sordini.client.tls.stores import pem_key_store, pem_trust_store
from tests.support.certificates import Authority
from tests.support.fake_ports import FakeFile, FakeSlice
from tests.support.linux_calls import needs_linux_calls
from tests.support.socket_bench import Bench, answer, request, until

AUTHORITY = Authority()
SERVER, ALICE = AUTHORITY.issue("broker"), AUTHORITY.issue("alice")
STRANGER = Authority("Stranger").issue("mallory")
EXPIRED = AUTHORITY.issue("carol", days=-1)
PROTOCOLS = ("TLSv1.2", "TLSv1.3")


def material(issued, trust=AUTHORITY, protocols=PROTOCOLS):
    keys = None if issued is None else pem_key_store(issued.key_pem(), issued.chain_pem, None)
    return TlsMaterial(protocols, (), keys, pem_trust_store(trust.pem))


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class TlsOfATest:
    """What a TLS listener has; principals are common names."""

    def __init__(self, client_auth="none"):
        self.context = server_context(material(SERVER), client_auth)

    def wrap(self, inner):
        return BrokerTlsSocket(inner, self.context)

    def principal(self, session):
        peer = session.getpeercert()
        if not peer:
            return ANONYMOUS
        return Principal("User", dict(pair for rdn in peer["subject"] for pair in rdn)["commonName"])


class TlsBench(Bench):
    """A server with one TLS listener, and TLS clients."""

    def __init__(self, client_auth="none", *, timeout_ms=10_000, handshakes_max=1000, worker=None, **others):
        super().__init__(**others)
        self.tls = TlsOfATest(client_auth)
        self.handshakes = Handshakes(worker or ThreadWorker(1), timeout_ms, handshakes_max)
        self.refused = []
        self.listeners = [Listener("SSL", "127.0.0.1", 0, "SSL", tls=self.tls, on_tls_refused=self._refused)]
        self.streams = []

    async def __aenter__(self):
        self.server.bind(self.listeners, self.handshakes)
        self.server.start()
        self.task = asyncio.create_task(self.server.run())
        return self

    async def __aexit__(self, *failure):
        for writer in self.streams:
            writer.close()
        await super().__aexit__(*failure)

    async def open(self, issued=None, protocols=PROTOCOLS):
        context = client_context(material(issued, protocols=protocols), checks_host=True)
        host, port = self.server.address("SSL")
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
        self.streams.append(writer)
        return reader, writer

    async def asked(self, issued, protocols=PROTOCOLS):
        """Connect, and wait for a byte: of TLS 1.3 a client learns after its handshake that it is refused."""
        reader, _ = await self.open(issued, protocols)
        await reader.readexactly(1)

    def _refused(self, peer, reason):
        self.refused.append((peer.listener, peer.address, reason))

    def warnings(self):
        return [fields["reason"] for event, fields in self.log.at("warning") if event == "TLS handshake failed"]


async def tag_of(reader):
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return struct.unpack_from(">I", await reader.readexactly(size))[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("client_auth", "issued", "name"),
    [
        ("none", None, "ANONYMOUS"),
        ("requested", None, "ANONYMOUS"),
        ("requested", ALICE, "alice"),
        ("required", ALICE, "alice"),
    ],
)
async def test_a_client_is_served_and_has_the_principal_of_its_certificate(protocol, client_auth, issued, name):
    async with TlsBench(client_auth) as bench:
        reader, writer = await bench.open(issued, (protocol,))
        assert writer.get_extra_info("ssl_object").version() == protocol
        writer.write(request(tag=5))
        assert await tag_of(reader) == 5
        assert bench.service.peers[0].principal == Principal("User", name)
        assert bench.handshakes.completed == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("issued", [None, STRANGER])
async def test_a_client_without_a_trusted_certificate_is_refused_where_one_is_required(protocol, issued):
    async with TlsBench("required") as bench:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await bench.asked(issued, (protocol,))
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.service.served == []
        assert "certificate" in bench.warnings()[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("issued", "why"),
    [
        (None, "peer did not return a certificate"),
        (STRANGER, "the certificate is not trusted: unable to get local issuer certificate"),
        (EXPIRED, "the certificate is not trusted: certificate has expired"),
    ],
)
async def test_a_certificate_that_is_missing_not_trusted_or_expired_is_a_refused_handshake(protocol, issued, why):
    async with TlsBench("required") as bench:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await bench.asked(issued, (protocol,))
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.refused == [("SSL", "127.0.0.1", why)]


async def test_a_client_that_does_not_trust_the_broker_or_has_no_common_version_is_a_refused_handshake():
    async with TlsBench() as bench:
        bench.tls.context.minimum_version = ssl.TLSVersion.TLSv1_3
        wary = client_context(material(None, trust=Authority("Stranger")), checks_host=True)
        old = client_context(material(None, protocols=("TLSv1.2",)), checks_host=True)

        def connect(context):  # Blocking: asyncio's client closes without the alert.
            with socket.create_connection(bench.server.address("SSL")) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()

        for context in (wary, old):
            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(connect, context)
        await until(lambda: len(bench.refused) == 2)
        assert [reason for _, _, reason in bench.refused] == ["tlsv1 alert unknown ca", "unsupported protocol"]


async def test_a_peer_that_closes_during_the_handshake_was_not_refused():
    async with TlsBench() as bench:
        silent = socket.create_connection(bench.server.address("SSL"))
        silent.send(b"\x16\x03\x01\x02\x00\x01")  # The begin of a ClientHello.
        await until(lambda: bench.handshakes.in_progress == 1)
        silent.close()
        await until(lambda: bench.handshakes.failed == 1)
        assert len(bench.warnings()) == 1
        assert bench.refused == []


async def test_a_client_without_tls_is_closed_with_a_line_that_says_so():
    async with TlsBench() as bench:
        address = bench.server.address("SSL")
        reader, writer = await asyncio.open_connection(*address)
        bench.streams.append(writer)
        writer.write(request(tag=1))
        assert await reader.read() == b""
        assert bench.warnings() == [NOT_TLS]
        assert bench.refused == []
        assert bench.server.quotas.total == 0


async def test_lines_about_handshakes_are_limited():
    async with TlsBench() as bench:
        for _ in range(25):
            reader, writer = await asyncio.open_connection(*bench.server.address("SSL"))
            bench.streams.append(writer)
            writer.write(b"x" * 10)
            await reader.read()
        assert len(bench.warnings()) == 10
        assert bench.handshakes.failed == 25


async def test_a_tls_client_at_a_plaintext_listener_is_closed_with_a_line_that_says_so():
    async with Bench() as bench:
        context = client_context(material(None), checks_host=True)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.open_connection(*bench.server.address("PLAINTEXT"), ssl=context, server_hostname="localhost")
        await until(lambda: bench.log.at("warning"))
        assert "look like TLS" in bench.log.at("warning")[0][1]["reason"]


async def test_a_handshake_has_a_deadline_and_holds_no_thread():
    async with TlsBench(timeout_ms=300) as bench:
        silent = [socket.create_connection(bench.server.address("SSL")) for _ in range(5)]
        silent[0].send(b"\x16\x03\x01\x02\x00\x01")  # The begin of a ClientHello.
        reader, writer = await bench.open()
        writer.write(request(tag=1))
        assert await tag_of(reader) == 1
        await until(lambda: bench.handshakes.failed == 5)
        assert bench.server.quotas.total == 1
        assert set(bench.warnings()) == {"no complete TLS handshake within 0.3 s"}
        assert bench.refused == []
        for one in silent:
            one.close()


class NarrowSocket:
    """A real socket that takes few bytes at a time."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def send(self, data, *, more=False):
        return self._inner.send(memoryview(data)[:100], more=more)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client_auth", ["none", "required"])
async def test_a_handshake_whose_bytes_do_not_fit_at_once_goes_on_as_they_are_taken(protocol, client_auth):
    async with TlsBench(client_auth) as bench:
        bench.tls.wrap = lambda inner: BrokerTlsSocket(NarrowSocket(inner), bench.tls.context)
        reader, writer = await bench.open(ALICE, (protocol,))
        writer.write(request(tag=3))
        assert await tag_of(reader) == 3


class NarrowNetwork(SystemNetwork):
    """A network whose connections take few bytes at a time."""

    async def connect(self, address, options, timeout_ms):
        return NarrowSocket(await super().connect(address, options, timeout_ms))


async def test_the_handshake_of_a_broker_that_connects_goes_on_as_its_bytes_are_taken():
    async with TlsBench("required") as bench:
        outgoing = Handshakes(ThreadWorker(1), 10_000, 10)
        network = TlsNetwork(NarrowNetwork(), ClientOfATest(), outgoing)
        connected = await network.connect(bench.server.address("SSL"), SocketOptions(), 10_000)
        data = request(tag=4)
        await until(lambda: connected.send(data) == len(data))
        await until(lambda: bench.service.served == [4])
        connected.close()
        outgoing.close()


async def test_at_the_bound_of_handshakes_peers_wait_in_the_backlog():
    async with TlsBench(handshakes_max=2) as bench:
        silent = [socket.create_connection(bench.server.address("SSL")) for _ in range(2)]
        await until(lambda: bench.handshakes.in_progress == 2)
        opening = asyncio.create_task(bench.open())
        await asyncio.sleep(0)
        assert bench.server.quotas.total == 2
        silent.pop().close()
        reader, writer = await opening
        writer.write(request(tag=3))
        assert await tag_of(reader) == 3
        silent.pop().close()


class HeldWorker:
    """Steps wait until the test lets them run."""

    def __init__(self):
        self.held = []

    def submit(self, step, done):
        self.held.append((step, done))

    def run(self):
        step, done = self.held.pop(0)
        try:
            done(step(), None)
        except Exception as error:  # noqa: BLE001 - as a thread's.
            done(None, error)

    def close(self):
        pass


async def test_a_connection_whose_step_is_computed_is_closed_when_the_step_has_ended():
    worker = HeldWorker()
    async with TlsBench(timeout_ms=100, worker=worker) as bench:
        opening = asyncio.create_task(bench.open())
        await until(lambda: worker.held)
        await until(lambda: bench.handshakes.failed == 1)
        assert bench.server.quotas.total == 0
        assert not opening.done()
        worker.run()
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await opening


async def test_the_server_stops_with_handshakes_under_way():
    async with TlsBench() as bench:
        silent = socket.create_connection(bench.server.address("SSL"))
        await until(lambda: bench.handshakes.in_progress == 1)
        await bench.server.close(10_000)
        assert bench.warnings() == ["the broker stops"]
        assert bench.refused == []
        silent.close()


@pytest.mark.parametrize("chunk", [1, 1000, 1 << 20])
async def test_requests_of_any_size_and_chunking_are_served(chunk):
    async with TlsBench(connection_limits=ConnectionLimits(slice_bytes_max=200_000)) as bench:
        reader, writer = await bench.open()
        sizes = [0, 10, 70_000, 20_000, 300_000, 5, 65_000] if chunk > 1 else [0, 300, 10]
        data = b"".join(request(tag=tag, padding=size) for tag, size in enumerate(sizes))
        for at in range(0, len(data), chunk):
            writer.write(data[at : at + chunk])
            if chunk < 1000:
                await writer.drain()
        assert [await tag_of(reader) for _ in sizes] == list(range(len(sizes)))


async def test_many_small_requests_in_one_packet_are_all_served():
    async with TlsBench() as bench:
        reader, writer = await bench.open()
        writer.write(b"".join(request(tag=tag) for tag in range(20_000)))
        assert [await tag_of(reader) for _ in range(20_000)] == list(range(20_000))


async def test_a_large_response_with_records_of_a_file_arrives_whole(tmp_path):
    async with TlsBench() as bench:
        content = random.Random(3).randbytes(3_000_000)
        file = FakeFile(tmp_path / "log", content)
        head = struct.pack(">iI", 4 + len(content), 9)
        piece = FakeSlice(file, 0, len(content))
        bench.service.answers[9] = lambda: [head, piece]
        reader, writer = await bench.open()
        writer.write(request(tag=9) + request(tag=10))
        assert await reader.readexactly(8 + len(content)) == head + content
        assert await reader.readexactly(8) == answer(10)
        assert piece.released == 1
        file.close()


async def test_a_client_that_sent_close_notify_is_closed():
    async with TlsBench() as bench:
        _, writer = await bench.open()
        writer.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.log.at("warning") == []


async def test_a_record_that_was_changed_on_the_way_closes_the_connection_with_a_line():
    async with TlsBench() as bench:
        raw = socket.create_connection(bench.server.address("SSL"))
        context = client_context(material(None), checks_host=True)
        loop = asyncio.get_running_loop()
        secured = await loop.run_in_executor(None, lambda: context.wrap_socket(raw, server_hostname="localhost"))
        plain = socket.socket(fileno=secured.detach())
        plain.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await until(lambda: bench.log.at("warning"))
        event, fields = bench.log.at("warning")[0]
        assert (event, fields["listener"]) == ("connection closed", "SSL")
        assert fields["reason"].startswith("TLS: ")
        plain.close()


class ClientOfATest:
    def __init__(self, issued=ALICE, trust=AUTHORITY):
        self.context = client_context(material(issued, trust), checks_host=True)

    def connect(self, inner, host):
        return BrokerTlsSocket(inner, self.context, host=host)


async def test_a_broker_connects_to_another_one_with_its_certificate():
    async with TlsBench("required") as bench:
        outgoing = Handshakes(ThreadWorker(1), 10_000, 10)
        network = TlsNetwork(SystemNetwork(), ClientOfATest(), outgoing)
        connected = await network.connect(bench.server.address("SSL"), SocketOptions(), 10_000)
        assert connected.send(request(tag=4)) == len(request(tag=4))
        await until(lambda: bench.service.served == [4])
        assert bench.service.peers[0].principal.name == "alice"
        connected.close()
        outgoing.close()


async def greeted(network, address):
    """Connect, and wait for bytes or the alert that TLS 1.3 sends after the client's handshake."""
    connected = await network.connect(address, SocketOptions(), 10_000)
    try:
        await until(lambda: connected.recv_into(bytearray(10)) is not None)
    finally:
        connected.close()


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (ClientOfATest(trust=Authority("Stranger")), "not trusted"),
        (ClientOfATest(issued=STRANGER), None),
    ],
)
async def test_a_broker_that_does_not_trust_another_one_says_so(client, why):
    async with TlsBench("required") as bench:
        outgoing = Handshakes(ThreadWorker(1), 10_000, 10)
        network = TlsNetwork(SystemNetwork(), client, outgoing)
        with pytest.raises(OSError, match=why):
            await greeted(network, bench.server.address("SSL"))
        outgoing.close()


class NeverDone:
    """A worker whose steps are still running when the broker stops, and whose loop ends before it hears of them."""

    def __init__(self):
        self.steps = []

    def submit(self, step, done):
        self.steps.append(step)

    def close(self):
        """They have ended."""


async def test_a_stop_closes_the_connections_whose_handshakes_were_being_computed():
    worker = NeverDone()
    client = socket.socket()
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    async with TlsBench(worker=worker) as bench:
        await loop.sock_connect(client, bench.server.address("SSL"))
        await loop.sock_sendall(client, b"\x16\x03\x01")
        await until(lambda: worker.steps)
    with client, pytest.raises(ConnectionResetError):
        async with asyncio.timeout(10):
            await loop.sock_recv(client, 1)


async def test_a_name_that_no_rule_maps_ends_the_handshake():
    async with TlsBench("required") as bench:

        def refuse(session):
            raise HandshakeRefused("no rule matches")

        bench.tls.principal = refuse
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await bench.asked(ALICE)
        assert bench.warnings() == ["no rule matches"]
        assert bench.refused == [("SSL", "127.0.0.1", "no rule matches")]


async def test_connections_over_tls_count_against_the_quotas():
    async with TlsBench(limits=NetworkLimits(connections_per_address_max=1)) as bench:
        await bench.open()
        with pytest.raises((OSError, ssl.SSLError)):
            await bench.open()


@needs_linux_calls
async def test_handshakes_are_computed_at_a_lower_priority_than_the_event_loop():
    worker, ended = ThreadWorker(1), asyncio.get_running_loop().create_future()
    try:
        worker.submit(niceness, lambda found, _: ended.set_result(found))
        assert await ended == min(niceness() + THREAD_NICENESS, 19)
    finally:
        worker.close()
