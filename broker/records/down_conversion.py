"""Fetch v0 to v3: records are down-converted to message format 0 or 1, the only ones that such clients know.

Few records are converted at once, within a `WorkBudget`; more become a job of a child process. A response has at most
`sordini.fetch.converted.bytes.max`, except for a larger first message or wrapper, and below version 3 no more than was
requested. From version 3 on a batch is converted as a whole, as by Apache Kafka. The result is kept in memory until it
is sent: a connection that does not read gets the next one only after most of the last has left
(`ConnectionLimits.queued_bytes_max`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.fetched_rows import refused
from sordini.broker.records.jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.broker.requests.call import Call, RespondLater
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.fetch import FetchResponse, PartitionData
from sordini.protocol.records.batch import HEADER_SIZE
from sordini.protocol.records.jobs import Converted, ConvertJob
from sordini.protocol.records.legacy import entries
from sordini.protocol.records.message_down_conversion import down_convert
from sordini.protocol.records.work_budget import WorkBudget
from sordini.storage.file_slice import FileSlice
from sordini.system.named_tuple import NamedTuple

FIRST_OF_FORMAT_1 = 2
FIRST_WITH_WHOLE_BATCHES = 3
FIRST_OF_FORMAT_2 = 4
_PREFIX = struct.Struct(">qi")
"""Of a message: its offset and its size."""


class Unconverted(NamedTuple):
    """A partition's records in the format of the log, and their row of the response."""

    row: PartitionData
    piece: FileSlice
    start: int
    bytes_max: int


class DownConversions:
    """Converts what fetches of old versions have read."""

    def __init__(self, jobs: JobQueue, later: RespondLater, *, bytes_max: int) -> None:
        self._jobs = jobs
        self._later = later
        self.bytes_max = bytes_max

    def at_once(self, call: Call, found: list[Unconverted]) -> None:
        """Convert what was found, from the start. What is done is removed from `found`.

        Raises BudgetExceeded when that takes too long.
        """
        budget = WorkBudget()
        made = 0
        while found:
            row, piece, start, bytes_max = self._bounded(call, found[0], made)
            try:
                batches = piece.read()
                records = down_convert(batches, _magic(call), start=start, bytes_max=bytes_max, budget=budget)
                made += _set_records(call, row, records or _partial(batches), bytes_max)
            except BrokerError as error:
                _refuse(row, error)
            piece.release()
            del found[0]

    def later(self, call: Call, found: list[Unconverted], respond: Callable[[], FetchResponse]) -> DelayedResponse:
        """Convert the rest in a child process, and respond."""
        pending = self._later(call, self._convert(call, found, respond))
        pending.on_abandon = lambda: _release(found)
        return pending

    def _bounded(self, call: Call, unconverted: Unconverted, made: int) -> Unconverted:
        """One partition, with the bound that `made` bytes of others leave for it."""
        if call.version < FIRST_WITH_WHOLE_BATCHES:
            return unconverted
        return unconverted._replace(bytes_max=max(self.bytes_max - made, 0))

    async def _convert(
        self, call: Call, found: list[Unconverted], respond: Callable[[], FetchResponse]
    ) -> FetchResponse:
        allowance = CpuAllowance(0)
        made = 0
        try:
            while found:
                row, piece, start, bytes_max = self._bounded(call, found.pop(0), made)
                try:
                    batches = piece.read()
                finally:
                    piece.release()
                try:
                    job = ConvertJob(batches, _magic(call), start, bytes_max)
                    outcome = await self._jobs.run(job, allowance, call.peer.address)
                    assert isinstance(outcome, Converted)
                    made += _set_records(call, row, outcome.messages or _partial(batches), bytes_max)
                except BrokerError as error:
                    _refuse(row, error)
        finally:
            _release(found)
        return respond()


def _magic(call: Call) -> int:
    return 0 if call.version < FIRST_OF_FORMAT_1 else 1


def _set_records(call: Call, row: PartitionData, records: bytes, bytes_max: int) -> int:
    # Until version 2 the last message may be partial, and nothing is larger than requested.
    row.records = records[:bytes_max] if call.version < FIRST_WITH_WHOLE_BATCHES else records
    return len(records)


def _partial(batches: bytes) -> bytes:
    """The beginning of a message where not even the first batch is whole; otherwise nothing.

    Before version 3 a client is to know that its buffer is too small, and not that there are no records yet. Apache
    Kafka sends such an overflow message, too.
    """
    is_cut = bool(batches) and next(entries(batches), None) is None
    return _PREFIX.pack(-1, max(len(batches) + 1, HEADER_SIZE)) if is_cut else b""


def _refuse(row: PartitionData, error: BrokerError) -> None:
    if error.code == RETRY:
        row.records = b""  # No records yet: every client fetches again.
        return
    made = refused(row.partition_index, error.code)
    row.error_code, row.high_watermark, row.records = made.error_code, made.high_watermark, made.records


def _release(found: list[Unconverted]) -> None:
    while found:
        found.pop().piece.release()
