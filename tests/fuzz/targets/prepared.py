"""The prepared way and the general way: after any bytes and any change of state, the same answers and the same files.

    input = uint8 version | uint8 what is sent | steps: uint8 kind | uint16 place | uint8 value

The two brokers and what they have in common are those of `tests/unit/broker/records/prepared/test_prepared_laws.py`.
"""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any, Final

from tests.fuzz.target import Broken
from tests.support.builders import a_batch
from tests.unit.broker.records.prepared.test_prepared_laws import CHANGES, VERSIONS, both_ways, frame_of

KINDS: Final = (
    "same",
    "next",
    "next",
    "next",
    "patched",
    "patched",
    "mutated",
    "mutated",
    "cut",
    "longer",
    "usual",
    "change",
)
STEPS_MAX: Final = 120


class Prepared:
    name = "prepared"
    share = 0.02
    instrumented = ("sordini.broker.records.prepared",)

    def draw(self, chance: random.Random) -> bytes:
        steps = [
            struct.pack(">BHB", chance.randrange(256), chance.randrange(2, 400), chance.randrange(1, 256))
            for _ in range(chance.choice((10, 40, 100)))
        ]
        return chance.randbytes(2) + b"".join(steps)

    def close(self) -> None:
        """Each input has its own brokers."""

    def run(self, data: bytes) -> int:
        if len(data) < 2:
            return 1
        script = self._script(data)
        try:
            asyncio.run(both_ways(script))
        except AssertionError as broken:
            raise Broken(f"the two ways differ: {broken}") from broken
        return len(script)

    def _script(self, data: bytes) -> list[tuple[str, Any]]:
        fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if data[1] & 1 else {}
        batch = a_batch(
            1 + (data[1] >> 1 & 2), key=(None, b"key")[data[1] >> 3 & 1], codec=(0, 0, 0, 3)[data[1] >> 4 & 3], **fields
        )
        acks = (1, -1, 0, 1)[data[1] >> 6]
        usual = frame_of(VERSIONS[data[0] % len(VERSIONS)], batch, acks, "a", None, 0, "orders")
        script: list[tuple[str, Any]] = [("send", (0, usual)), ("again", ("next", 2, 1))]
        for kind_number, place, value in struct.iter_unpack(">BHB", data[2 : 2 + (len(data) - 2) // 4 * 4]):
            kind = KINDS[kind_number % len(KINDS)]
            if kind == "usual":
                script.append(("send", (value & 1, usual)))
            elif kind == "change":
                script.append(("change", CHANGES[place % len(CHANGES)]))
            else:
                script.append(("again", (kind, place, value or 1)))
        return script[:STEPS_MAX]
