"""A store on a forgetful disk, driven by a script, with a model of what it must still hold after a crash."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from sordini.protocol.records.batch import Record, crc_is_right, read_header, read_records
from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from sordini.storage.producer_replay import replay
from sordini.storage.producer_state import ProducerState
from sordini.storage.store_config import StoreConfig
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, writable

PARTITION = TopicPartition("orders", 3)
TOPIC_ID = TopicId(bytes(range(16)))
SMALL = LogConfig(
    segment_bytes=700,
    segment_index_bytes=256,
    index_interval_bytes=150,
    retention_ms=-1,
    file_delete_delay_ms=1_000,
    producer_expiration_ms=2**62,
)
OFTEN = StoreConfig(4, 1_000, 1_000, 1_000, 1_000, 1_000)


def a_disk() -> ForgetfulDisk:
    disk = ForgetfulDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def a_manager(disk: ForgetfulDisk, config: LogConfig = SMALL) -> LogManager:
    return LogManager(disk, ["/data"], Identity(1, "c" * 22), lambda _: config, random.Random(1), OFTEN)


class Store:
    """The store under test and its model: `records` by offset from 0, `synced` of them on the disk."""

    def __init__(self, disk: ForgetfulDisk, config: LogConfig = SMALL) -> None:
        self.disk = disk
        self.config = config
        self.manager = a_manager(disk, config)
        self.records: list[bytes] = []
        self.former: list[bytes] = []
        self.in_flight: list[bytes] = []
        self.synced = 0
        self.start = 0
        self.deleted = False
        self.now_ms = 0
        self.appends = 0

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    async def open(self) -> None:
        self.manager.open(self.now_ms)

    async def create(self) -> None:
        self.manager.create(PARTITION, TOPIC_ID, self.config).assign_epoch(1)

    async def append(self, count: int = 2) -> None:
        base = len(self.records)
        self.appends += 1
        values = [b"%d:%d" % (base + index, self.appends) for index in range(count)]
        self.in_flight = values
        batch = writable(
            a_batch(
                [Record(index, self.now_ms + 1, None, value) for index, value in enumerate(values)],
                producer_id=9,
                producer_epoch=0,
                base_sequence=base,
            )
        )
        appended = self.log.append(batch, [(0, read_header(batch))], 1, self.now_ms)
        assert appended.base_offset == base
        self.records += values
        self.in_flight = []
        self.log.high_watermark = len(self.records)

    async def flush(self) -> None:
        await self.log.flush()
        self.synced = len(self.records)

    async def roll(self) -> None:
        self.log.roll(self.now_ms)

    async def tick(self) -> None:
        self.now_ms += 1_000
        await self.manager.tick(self.now_ms)

    async def retain(self) -> None:
        self.log.config = self.config._replace(retention_bytes=900)
        self.log.apply_retention(self.now_ms, len(self.records))
        self.start = self.log.log_start_offset

    async def truncate(self) -> None:
        offset = max(0, len(self.records) - 5)
        self.former = self.records
        self.synced = min(self.synced, offset - 1)
        self.records = self.records[: offset - 1]
        self.in_flight = self.former[len(self.records) :]
        self.log.truncate_to(offset, self.now_ms)
        self.records = self.former[: self.log.log_end_offset]
        self.in_flight = []
        self.synced = min(self.synced, len(self.records))

    async def delete(self) -> None:
        self.deleted = True
        self.manager.delete(PARTITION, self.now_ms)

    async def close(self) -> None:
        await self.manager.close()
        self.synced = len(self.records)


Step = Callable[[Store], Awaitable[None]]


async def run(script: list[Step], store: Store) -> None:
    for step in script:
        await step(store)


def contents(log: Log) -> list[tuple[int, bytes]]:
    """Every record that can be read, through `read` alone; each batch's CRC is checked."""
    found: list[tuple[int, bytes]] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        piece = log.read(at, 300, log.log_end_offset, whole_first=True)
        assert piece is not None
        data = memoryview(piece.read())
        piece.release()
        position = 0
        while len(data) - position >= 61:
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            assert crc_is_right(data, position, header)
            for record in read_records(data[position:], header):
                if record.offset >= at:
                    assert record.value is not None
                    found.append((record.offset, record.value))
            at = header.next_offset
            position += header.size
    return found


def check_recovered(store: Store, survivor: ForgetfulDisk, *, at_least: int) -> None:
    """Open what is left, twice, and hold it against the model."""
    manager = a_manager(survivor, store.config)
    manager.open(store.now_ms)
    assert manager.offline_directories == []
    log = manager.get(PARTITION)
    if log is None:
        assert at_least == 0 or store.deleted
        return
    records = store.records + store.in_flight
    held = contents(log)
    assert [offset for offset, _ in held] == list(range(log.log_start_offset, log.log_end_offset))
    assert all(records[offset] == value for offset, value in held)
    assert log.log_start_offset <= max(store.start, at_least)
    if not store.deleted:
        assert log.log_end_offset >= at_least
    assert log.high_watermark <= log.log_end_offset
    folded = ProducerState()
    replay(folded, log.segments.all(), 0)
    if log.log_end_offset > log.log_start_offset:
        assert list(log.producers.entries()) == list(folded.entries())
    for segment in log.segments.all():
        segment.load(store.config.index_interval_bytes)
    first = {path: data for path, data in survivor.tree().items() if path.endswith(".log")}
    again = survivor.killed()
    second = a_manager(again, store.config)
    second.open(store.now_ms)
    assert {path: data for path, data in again.tree().items() if path.endswith(".log")} == first
    reopened = second.get(PARTITION)
    assert reopened is not None
    assert contents(reopened) == held
    assert list(reopened.producers.entries()) == list(log.producers.entries())
