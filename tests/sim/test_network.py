"""The simulated network and disk have the guarantees, and the faults, of the real ones."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sordini.broker.network.ports import SliceError, SocketOptions
from sordini.testing.simulation.simulated_disk import SimDisk, SimPageCache
from sordini.testing.simulation.simulated_network import SimNetwork, SimSocket
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import Runaway, SimLoop, run

HOST = "broker"
PORT = 9092


class World:
    def __init__(self, seed: int = 1, rules: LinkRules | None = None) -> None:
        self.loop = SimLoop(seed)
        self.trace = Trace(self.loop)
        self.network = SimNetwork(self.loop, self.trace, seed, rules)
        self.process = self.loop.process("broker")
        self.disk = SimDisk(self.loop, self.trace, seed, self.process)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def started() -> None:
            await main()
            assert self.loop.stray == []

        run(self.loop, started())

    async def pair(self) -> tuple[SimSocket, SimSocket]:
        """A connected client and the socket that the broker's process accepted."""

        async def accept() -> SimSocket:
            [listener] = self.network.listen(HOST, PORT, SocketOptions())
            await self.ready(listener)
            socket = listener.accept()
            assert socket is not None
            return socket

        task = self.process.spawn(accept())
        await asyncio.sleep(0.001)
        client = await self.network.connect((HOST, PORT))
        return client, await task

    async def ready(self, socket) -> None:
        readable = self.loop.create_future()
        self.loop.add_reader(socket, lambda: readable.done() or readable.set_result(None))
        await readable
        self.loop.remove_reader(socket)

    async def receive(self, socket: SimSocket, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            await self.ready(socket)
            buffer = bytearray(size - len(got))
            count = socket.recv_into(buffer)
            assert count is not None
            if not count:
                break
            got += buffer[:count]
        return bytes(got)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_once_in_order_and_whole_whatever_the_counts(seed):
    world = World(seed, LinkRules(short_chance=0.8, capacity=1_000))
    data = bytes(range(256)) * 40

    async def main() -> None:
        client, server = await world.pair()

        async def send() -> None:
            rest = memoryview(data)
            while rest:
                count = client.send(rest)
                if count is None:
                    await asyncio.sleep(0.005)
                else:
                    rest = rest[count:]

        _, got = await asyncio.gather(send(), world.receive(server, len(data)))
        assert got == data

    world.run(main)


def test_a_reader_that_sleeps_blocks_the_writer_and_waking_frees_it():
    world = World(rules=LinkRules(capacity=1_000, short_chance=0))

    async def main() -> None:
        client, server = await world.pair()
        assert client.send(bytes(5_000)) == 1_000
        assert client.send(b"x") is None
        assert client.unsent() == 1_000
        await asyncio.sleep(10)
        assert client.unsent() == 0
        assert client.send(b"x") is None
        assert server.recv_into(bytearray(400)) == 400
        assert client.is_writable()

    world.run(main)


def test_what_was_sent_before_a_death_arrives_before_the_end():
    world = World(rules=LinkRules(short_chance=0))

    async def main() -> None:
        client, server = await world.pair()
        server.send(b"farewell")
        world.process.kill()
        assert await world.receive(client, 100) == b"farewell"
        assert client.recv_into(bytearray(1)) == 0

    world.run(main)


def test_closing_with_unread_bytes_resets_the_peer():
    world = World()

    async def main() -> None:
        client, server = await world.pair()
        client.send(b"unread")
        await asyncio.sleep(1)
        assert server.is_readable()
        world.process.kill()
        with pytest.raises(ConnectionResetError):
            client.recv_into(bytearray(1))
        with pytest.raises(BrokenPipeError):
            client.send(b"x")

    world.run(main)


def test_a_half_open_peer_is_silence():
    world = World(rules=LinkRules(capacity=10))

    async def main() -> None:
        client, server = await world.pair()
        server.cut()
        assert client.send(b"hello") is not None
        await asyncio.sleep(60)
        assert server.recv_into(bytearray(10)) is None
        assert client.recv_into(bytearray(10)) is None

    world.run(main)


def test_connections_are_refused_after_the_process_was_killed():
    world = World()

    async def main() -> None:
        await world.pair()
        world.process.kill()
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect((HOST, PORT))
        assert world.network.connections(world.process) == []

    world.run(main)


def test_closing_a_watched_socket_is_caught():
    world = World()

    async def main() -> None:
        client, _ = await world.pair()
        world.loop.add_reader(client, print)
        with pytest.raises(AssertionError, match="watched"):
            client.close()
        world.loop.remove_reader(client)

    world.run(main)


def test_sendfile_delivers_what_the_file_holds_when_the_bytes_arrive():
    world = World(rules=LinkRules(short_chance=0))

    async def main() -> None:
        client, server = await world.pair()
        world.disk.make_directory("/data")
        file = world.disk.open("/data/log", create=True)
        file.append([b"old old old"])

        async def serve() -> None:
            assert server.sendfile(file, 4, 100) == 7
            assert server.sendfile(file, 11, 1) == 0
            file.truncate(8)
            file.close()
            with pytest.raises(SliceError):
                server.sendfile(file, 0, 1)

        await world.process.spawn(serve())
        assert await world.receive(client, 7) == b"old \0\0\0"

    world.run(main)


def test_a_process_dies_in_the_middle_of_a_write_and_the_next_one_finds_half():
    world = World()
    seen: list[str] = []

    async def write() -> None:
        world.disk.make_directory("/data")
        file = world.disk.open("/data/log", create=True)
        world.disk.die_at(1, share=0.5)
        try:
            file.append([b"12345678"])
        finally:
            asyncio.get_running_loop().call_soon(seen.append, "scheduled by the dead")

    async def main() -> None:
        world.process.spawn(write())
        await asyncio.sleep(1)
        assert not world.process.alive
        assert seen == []
        survivor = world.disk.after_kill(world.loop.process("next"))
        assert survivor.contents("/data/log") == b"1234"
        assert survivor.synced_tree() == {}
        assert world.disk.visible_tree() == {"/data/log": b"1234"}

    world.run(main)


def test_an_offloaded_call_starts_by_itself_and_takes_time():
    world = World()

    async def main() -> None:
        ran: list[float] = []
        start = world.loop.time()
        waiting = world.disk.offload(lambda: ran.append(world.loop.time()))
        await asyncio.sleep(2)
        assert waiting.done()
        assert start < ran[0] < start + 1
        cache = SimPageCache(world.disk, 1, cold_chance=1)
        await cache.warm(None, 0, 1)
        assert not cache.is_warm(None, 0, 1)

    world.run(main)


def test_asking_a_socket_for_ever_without_waiting_is_stopped():
    world = World()

    async def main() -> None:
        client, _ = await world.pair()
        while client.recv_into(bytearray(1)) is None:
            pass

    with pytest.raises(Runaway):
        world.run(main)


def _chatter(seed: int) -> str:
    world = World(seed)

    async def main() -> None:
        client, server = await world.pair()
        for number in range(20):
            count = client.send(bytes(100 * number + 1))
            await world.receive(server, count)
            await world.disk.offload(lambda: None)

    world.run(main)
    return world.trace.digest()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    assert _chatter(7) == _chatter(7)
    assert _chatter(7) != _chatter(8)
