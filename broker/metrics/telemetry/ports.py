"""The port to the process that reads pushes."""

from __future__ import annotations

from typing import Protocol

from sordini.broker.metrics.telemetry.decoding import decode_push
from sordini.broker.metrics.telemetry.machine.figures import Decoded
from sordini.system.named_tuple import NamedTuple


class PushRead(NamedTuple):
    """What came of reading one push."""

    decoded: Decoded
    cpu_ms: int


class PushReader(Protocol):
    """Reads pushes, one at a time."""

    @property
    def died(self) -> int:
        """Processes that died, or were killed, while they read."""

    async def read(self, codec: int, data: bytes, bytes_max: int) -> PushRead:
        """Read a push.

        Raises BrokerError INVALID_RECORD for one that cannot be read, and THROTTLING_QUOTA_EXCEEDED where the process
        failed: the client pushes again after its interval.
        """

    async def close(self) -> None:
        """End the process."""


class ReaderHere:
    """Reads pushes in this process: brokers of tests, whose clients push little."""

    died = 0

    async def read(self, codec: int, data: bytes, bytes_max: int) -> PushRead:
        return PushRead(decode_push(codec, data, bytes_max), 0)

    async def close(self) -> None:
        """There is no process."""
