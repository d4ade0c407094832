"""Requests of every API and version, responses too: a message that is read alike in all ways, or a closed connection.

input = uint8 1: a response, else a request | the frame: int16 API | int16 version | what follows
"""

from __future__ import annotations

import random
import struct
from typing import Any, Final

from sordini.protocol import codecs
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_request_header, read_response_header
from sordini.protocol.primitives import COST_MAX
from sordini.protocol.served_apis import ALL_APIS
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Broken
from tests.soak.generator import Generator

FRESH: Final = 0.1
"""How often a request is drawn anew; else one that was drawn is changed."""
KEPT_MAX: Final = 3_000


class Requests:
    name = "requests"
    share = 0.44
    instrumented = ("sordini.protocol",)

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    def draw(self, chance: random.Random) -> bytes:
        if not self._kept or chance.random() < FRESH:
            made = b"\0" + Generator(chance.random()).frame(chance.randrange(1 << 31)).data[4:]
            if len(self._kept) < KEPT_MAX:
                self._kept.append(made)
            else:
                self._kept[chance.randrange(KEPT_MAX)] = made
            return made
        data = self._kept[int(chance.random() * len(self._kept))]
        if chance.random() < 0.1:
            data = b"\1" + data[1:]
        # The API and the version stay, most of the time: what follows is meant for them.
        return data[:5] + mutated(data[5:], chance)

    def close(self) -> None:
        """Nothing is kept open."""

    def run(self, data: bytes) -> int:
        frame = memoryview(data)[1:]
        if len(frame) < 4:
            return 1
        key, version = struct.unpack_from(">hh", frame)
        api = ALL_APIS.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            return 1
        try:
            if data[0] == 1:
                _, position = read_response_header(api, version, frame[4:])
                self._judge(api.response, version, frame[4:], position)
            else:
                _, position = read_request_header(frame)
                self._judge(api.request, version, frame, position)
        except WireError:
            pass
        return 1

    def _judge(self, cls: type, version: int, frame: memoryview, position: int) -> None:
        message, end = codecs.decode(cls, version, frame, position)
        if not position <= end <= len(frame):
            raise Broken(f"{cls.__name__} v{version} ends at {end} of {len(frame)} bytes")
        in_steps, end_in_steps = _result(codecs.decoder_in_steps(cls, version)(frame, position, COST_MAX))
        written = codecs.encode(message, version)
        if end_in_steps != end or codecs.encode(in_steps, version) != written:
            raise Broken(f"{cls.__name__} v{version} is read otherwise in steps")
        again, _ = codecs.decode(cls, version, memoryview(written))
        if codecs.encode(again, version) != written:
            raise Broken(f"{cls.__name__} v{version} is read otherwise when written again")


def _result(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value
