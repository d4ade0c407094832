"""A whole broker but for its sockets: every frame has an answer that can be read, or closes its connection.

input = frames as they stand in a stream: int32 size | bytes
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Final

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol import codecs
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_response_header
from sordini.protocol.served_apis import ALL_APIS
from tests.fuzz.brokers import Brokers, settled
from tests.fuzz.target import Broken
from tests.soak.generator import TOPICS, Generator
from tests.support.unit_broker import UnitBroker, a_peer, joined, topic_id_of

FRAMES_MAX: Final = 4_000
"""Of one broker; then there is a new one."""
ROUNDS: Final = 200
LED: Final = ("fuzz-0", "fuzz-1", "fuzz-compacted", "__consumer_offsets", "__transaction_state")
IDS: Final = [topic_id_of(topic) for topic in TOPICS]


def frames_of(data: bytes) -> Iterator[bytes]:
    position = 0
    while len(data) - position >= 4:
        (size,) = struct.unpack_from(">i", data, position)
        if size <= 0:
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


class Served:
    name = "served"
    share = 0.03
    instrumented = ("sordini.broker",)

    def __init__(self) -> None:
        self._brokers = Brokers({}, FRAMES_MAX, _lead)

    def close(self) -> None:
        self._brokers.close()

    def draw(self, chance: random.Random) -> bytes:
        generator = Generator(chance.random(), IDS)
        return b"".join(generator.frame(number).data for number in range(chance.choice((1, 5, 20))))

    def run(self, data: bytes) -> int:
        return self._brokers.run(lambda broker: self._judged(broker, data))

    async def _judged(self, broker: UnitBroker, data: bytes) -> int:
        peer = a_peer()
        count = 0
        for frame in frames_of(data):
            count += 1
            try:
                answer = broker.parts.dispatcher.serve(peer, memoryview(bytearray(frame)))
            except WireError:
                peer = a_peer()
                continue
            if isinstance(answer, DelayedResponse):
                await settled(broker, ROUNDS)
                if not answer.is_answered:
                    broker.timers.fire()
                    await settled(broker, ROUNDS)
                if not answer.is_answered:
                    answer.abandon()
                    continue
                answer = answer.parts
            if answer is not None:
                _judge(frame, joined(list(answer)))
        failures = [fields for event, fields in broker.log.at("error") if event == "request failed"]
        if failures:
            raise Broken(f"a handler failed: {failures[0]}") from failures[0].get("exc_info")
        return max(count, 1)


async def _lead(broker: UnitBroker) -> None:
    for topic in LED:
        await broker.lead(topic, 2)
    await broker.settled()


def _judge(frame: bytes, whole: bytes) -> None:
    key, version = struct.unpack_from(">hh", frame)
    if int.from_bytes(whole[:4], "big") != len(whole) - 4:
        raise Broken(f"an answer says {whole[:4].hex()} and has {len(whole) - 4} bytes")
    api = ALL_APIS[key]
    if not api.min_version <= version <= api.max_version:
        return  # ApiVersions of a version from the future, in version 0.
    answer = memoryview(whole)[4:]
    correlation_id, position = read_response_header(api, version, answer)
    if correlation_id != struct.unpack_from(">i", frame, 4)[0]:
        raise Broken(f"{api.key} v{version}: the correlation id is another one")
    _, end = codecs.decode(api.response, version, answer, position)
    if end != len(answer):
        raise Broken(f"{api.key} v{version}: {len(answer) - end} bytes follow the answer")
