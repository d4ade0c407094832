"""The hostile side, in a process of its own: `python -m tests.soak.attack PORT SEED`, until its input ends.

Each script is one connection, and follows from the seed and its number alone, so that `--scripts 812-812` does again
what the 812th did. Every second a line of JSON on the standard output says how much was tried and what was wrong: an
answer that is not of its request, or that cannot be read.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Final

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_response_header
from sordini.protocol.served_apis import APIS
from tests.soak.generator import BETWEEN, Frame, Generator

CONNECTIONS: Final = 12
"""How many scripts run at a time."""
PATIENCE_S: Final = 0.4
"""For an answer: some never get one, as when other members of a group are missing."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
FINDINGS_MAX: Final = 20


@dataclass
class Tally:
    """What was tried so far."""

    scripts: int = 0
    requests: int = 0
    between: int = 0
    """Requests that only brokers send, among them."""
    answers: int = 0
    closed: int = 0
    """Scripts whose connection the broker closed."""
    unanswered: int = 0
    """Scripts that gave up waiting."""
    findings: list[str] = field(default_factory=list)

    def note(self, number: int, finding: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(f"script {number}: {finding}")


class Closed(Exception):
    """The broker has hung up."""


class Script:
    """One connection's worth of requests."""

    def __init__(self, address: tuple[str, int], seed: str, number: int, tally: Tally, generator: Generator) -> None:
        self._address = address
        self._number = number
        self._tally = tally
        self._generator = generator
        self._chance = random.Random(f"script {seed}/{number}")

    async def run(self) -> None:
        """Raises OSError when the broker takes no connections."""
        reader, writer = await asyncio.open_connection(*self._address, limit=1 << 20)
        way = self._chance.choices(
            (self._ask, self._leave, self._stop_half, self._pile_up, self._dribble), (60, 20, 10, 5, 5)
        )
        try:
            await way[0](reader, writer)
        except (Closed, OSError, EOFError):
            self._tally.closed += 1
        except TimeoutError:
            self._tally.unanswered += 1
        finally:
            self._tally.scripts += 1
            writer.transport.abort()

    def _frames(self, count: int) -> list[Frame]:
        self._tally.requests += count
        made = [self._generator.frame(correlation_id) for correlation_id in range(count)]
        self._tally.between += sum(frame.api in BETWEEN for frame in made)
        return made

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Concurrent requests, each with its response."""
        for _ in range(self._chance.randint(1, 5)):
            frames = self._frames(self._chance.choice((1, 1, 2, 5, 20)))
            writer.write(b"".join(frame.data for frame in frames))
            await _drained(writer)
            for correlation_id, frame in enumerate(frames):
                if not frame.is_whole:  # What it means to the broker, only the broker knows.
                    await self._read_to_end(reader)
                    return
                if frame.has_answer:
                    await self._check(reader, frame, correlation_id)

    async def _check(self, reader: asyncio.StreamReader, frame: Frame, correlation_id: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            answer = await _received(reader)
        self._tally.answers += 1
        api, what = APIS[frame.api], f"{frame.api.name} v{frame.version}"
        try:
            found, position = read_response_header(api, frame.version, answer)
            # An ApiVersions that is refused is answered in version 0.
            if found == correlation_id and api.key != ApiKey.API_VERSIONS:
                _, position = codecs.decode(api.response, frame.version, answer, position)
        except WireError as error:
            self._tally.note(self._number, f"the answer to {what} cannot be read: {error}")
            return
        if found != correlation_id:
            self._tally.note(self._number, f"{what} number {correlation_id} has the answer to number {found}")
        elif position != len(answer) and api.key != ApiKey.API_VERSIONS:
            self._tally.note(self._number, f"the answer to {what} has {len(answer) - position} bytes too many")

    async def _read_to_end(self, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(PATIENCE_S / 4):
            while await reader.read(1 << 16):
                pass
        raise Closed

    async def _leave(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests without waiting for an answer."""
        writer.write(b"".join(frame.data for frame in self._frames(self._chance.randint(1, 20))))
        await _drained(writer)

    async def _stop_half(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A request that ends in the middle, and then nothing."""
        data = self._frames(1)[0].data
        writer.write(data[: self._chance.randrange(len(data))])
        await _drained(writer)
        if self._chance.random() < 0.2:
            await self._read_to_end(reader)

    async def _pile_up(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Many requests whose answers are not read."""
        writer.write(b"".join(frame.data for frame in self._frames(60)))
        await asyncio.sleep(PATIENCE_S)

    async def _dribble(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A request in small pieces."""
        data = self._frames(1)[0].data[:2000]
        for start in range(0, len(data), 50):
            writer.write(data[start : start + 50])
            await writer.drain()
            await asyncio.sleep(0)
        await self._read_to_end(reader)


async def _drained(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await writer.drain()


async def _received(reader: asyncio.StreamReader) -> memoryview:
    try:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise WireError(f"an answer of {size} bytes")
        return memoryview(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        raise Closed from error


class Attack:
    """Scripts, one after the other, on concurrent connections."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._address = ("127.0.0.1", arguments.port)
        self._seed = arguments.seed
        self._topic_ids = [bytes.fromhex(text) for text in arguments.topic_ids.split(",") if text]
        self._only = BETWEEN if arguments.between_brokers else None
        self._requests_max = arguments.requests
        first, _, last = arguments.scripts.partition("-")
        self._numbers: Iterator[int] = iter(range(int(first), int(last) + 1)) if last else itertools.count(int(first))
        self.tally = Tally()
        self.is_over = False
        """Set when no further script is to begin."""

    async def run(self) -> None:
        """Until the scripts or the requests are used up, or the broker takes no connections."""
        await asyncio.gather(*(self._work() for _ in range(CONNECTIONS)))

    async def _work(self) -> None:
        for number in self._numbers:
            generator = Generator(f"{self._seed}/{number}", self._topic_ids, self._only)
            try:
                await Script(self._address, self._seed, number, self.tally, generator).run()
            except OSError as error:
                self.tally.note(number, f"no connection: {error}")
                return
            except WireError as error:
                self.tally.note(number, str(error))
            if self.is_over or self.tally.requests >= self._requests_max:
                return


async def _tell(tally: Tally) -> None:
    while True:
        _say(tally)
        await asyncio.sleep(1)


def _say(tally: Tally) -> None:
    sys.stdout.write(json.dumps(asdict(tally)) + "\n")
    sys.stdout.flush()


async def _until_stopped(reader: asyncio.StreamReader) -> None:
    while await reader.read(100):
        pass


async def _main(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    attack = Attack(arguments)
    reporting = asyncio.create_task(_tell(attack.tally))
    working, stopped = asyncio.create_task(attack.run()), asyncio.create_task(_until_stopped(reader))
    await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
    attack.is_over = True
    await working
    for task in (stopped, reporting):
        task.cancel()
    _say(attack.tally)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.attack", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("seed")
    parser.add_argument(
        "--scripts", default="0", metavar="A-B", help="the scripts to run; without an end, all from A on"
    )
    parser.add_argument("--requests", type=int, default=1 << 62, help="stop after so many")
    parser.add_argument("--between-brokers", action="store_true", help="only requests between brokers")
    parser.add_argument("--topic-ids", default="", help="ids of the topics that requests name, in hexadecimal")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
