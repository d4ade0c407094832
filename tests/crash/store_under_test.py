"""A store on a forgetful disk, the truth about it, and the operations of a script."""

from __future__ import annotations

import random

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader, Record, build_batch, read_header, stamp
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage.appending import LogAppendInfo
from sordini.storage.follower_append import append_as_follower
from sordini.storage.log import Log
from sordini.storage.log_manager import Identity, LogManager
from sordini.storage.producer_state import ProducerEntry
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.expected_log import Truth, require, split
from tests.crash.judge import judge
from tests.crash.script import Script

BEGIN_MS = 1_700_000_000_000
CODECS = (0, 0, 0, 1, 2, 3, 4)
IDEMPOTENT = (11, 12)
TRANSACTIONAL = (21, 22)
CROWD = tuple(range(31, 43))
Group = tuple[Record, ...]


class World:
    """One process of the store, and what is known of all before it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.disk = ForgetfulDisk(lambda: self.now_ms)
        self.disk.chance = random.Random(f"disk {script.seed}")
        self.directories = [f"/data{number}" for number in range(script.directories)]
        self.now_ms = BEGIN_MS
        self.config = script.config
        self.truths: dict[TopicPartition, list[Truth]] = {}
        """The incarnations of each partition, the newest last: a deletion may be undone by a power failure."""
        self.manager = self.a_manager(self.disk)
        self._created = 0
        self._values = 0
        self._is_flushing = False

    def a_manager(self, disk: ForgetfulDisk) -> LogManager:
        identity = Identity(1, "c" * 22)
        return LogManager(disk, self.directories, identity, lambda _: self.config, random.Random(1), self.script.store)

    def partition(self, number: int) -> TopicPartition:
        return TopicPartition("t", number % self.script.partitions)

    def truth_of(self, partition: TopicPartition) -> Truth | None:
        """The partition as it is now, None when it does not exist."""
        truths = self.truths.get(partition, [])
        return truths[-1] if truths and not truths[-1].is_deleted else None

    def create(self, partition: TopicPartition) -> None:
        self._created += 1
        topic_id = TopicId(self._created.to_bytes(16, "big"))
        truth = Truth(partition, topic_id, "", self.config)
        truth.is_unsure = True
        self.truths.setdefault(partition, []).append(truth)
        try:
            log = self.manager.create(partition, topic_id, self.config)
        except Exception:
            truth.is_deleted = True
            raise
        truth.is_unsure = False
        truth.directory = log.log_dir.path
        truth.start_may_be = 0

    # The operations. Each may raise BrokerError or StorageError, and Died.

    async def append(self, log: Log, truth: Truth, chance: random.Random) -> None:
        if chance.random() < 0.5:
            producer_id = chance.choice(IDEMPOTENT)
            await self._put(log, truth, [self._idempotent(log, producer_id, chance, transactional=False)])
        else:
            await self._put(log, truth, [self._plain(chance)])

    async def append_several(self, log: Log, truth: Truth, chance: random.Random) -> None:
        await self._put(log, truth, [self._plain(chance) for _ in range(chance.randint(2, 4))])

    async def transaction(self, log: Log, truth: Truth, chance: random.Random) -> None:
        producer_id = chance.choice(TRANSACTIONAL)
        await self._put(log, truth, [self._idempotent(log, producer_id, chance, transactional=True)])

    async def end_transaction(self, log: Log, truth: Truth, chance: random.Random) -> None:
        entry = _entry(log, chance.choice(TRANSACTIONAL))
        if entry is None:
            return
        marker = Marker(chance.choice((ABORT, COMMIT)), truth.leader_epoch)
        data = build_marker(
            marker, producer_id=entry.producer_id, producer_epoch=entry.epoch, timestamp_ms=self._time(chance)
        )
        await self._put(log, truth, [(data, (Record(0, read_header(data).max_timestamp, None, None),))])

    async def resend(self, log: Log, truth: Truth, chance: random.Random) -> None:
        """A producer got no response to its last batch and sends it again."""
        producer_id = chance.choice(IDEMPOTENT)
        entry = _entry(log, producer_id)
        sent = [batch for batch in truth.batches if batch.header.producer_id == producer_id]
        if entry is None or not sent or sent[-1].header.last_sequence != entry.last_sequence:
            return
        buffer = memoryview(bytearray(sent[-1].data))
        appended = log.append(buffer, [(0, read_header(buffer))], truth.leader_epoch, self.now_ms)
        reported = appended.duplicate, appended.base_offset, appended.end_offset
        require(reported == (True, sent[-1].base, sent[-1].end), f"a batch sent again is {appended}, it was {sent[-1]}")

    async def flush(self, log: Log, truth: Truth, _chance: random.Random) -> None:
        end = truth.end
        await log.flush()
        truth.promised = max(truth.promised, min(end, truth.end))

    async def flush_beside(self, log: Log, truth: Truth, chance: random.Random) -> None:
        """Something is done to the log while its files are synced."""
        beside = chance.choice((self.append, self.append, self.roll, self.truncate))

        async def meanwhile() -> None:
            self.disk.before_offload = self.disk.after_offload = None
            self._is_flushing = True
            try:
                await beside(log, truth, chance)
            finally:
                self._is_flushing = False

        if chance.random() < 0.3:
            self.disk.before_offload = meanwhile
        else:
            self.disk.after_offload = meanwhile
        try:
            await log.flush()
        finally:
            self.disk.before_offload = self.disk.after_offload = None

    async def roll(self, log: Log, _truth: Truth, _chance: random.Random) -> None:
        log.roll(self.now_ms)

    async def truncate(self, log: Log, truth: Truth, chance: random.Random) -> None:
        if truth.end == truth.start:
            return
        offset = max(truth.end - chance.choice((1, 2, 5, 12, 30)), log.log_start_offset)
        truth.began_cut(offset)
        log.truncate_to(offset, self.now_ms)
        truth.cut()
        truth.epochs = [entry for entry in truth.epochs if entry[1] < truth.end]

    async def rewrite(self, log: Log, truth: Truth, chance: random.Random) -> None:
        """Cut anywhere, as a follower of another leader does, and write on past the former end."""
        former = truth.end
        if truth.end == truth.start:
            return
        offset = chance.randrange(truth.start, truth.end)
        truth.began_cut(offset)
        log.truncate_to(offset, self.now_ms)
        truth.cut()
        truth.epochs = [entry for entry in truth.epochs if entry[1] < truth.end]
        while truth.end < former + 2:
            await self.append(log, truth, chance)

    async def crowd(self, log: Log, truth: Truth, chance: random.Random) -> None:
        """So many producers that a snapshot takes more than one sector, and the snapshot."""
        for producer_id in CROWD:
            await self._put(log, truth, [self._idempotent(log, producer_id, chance, transactional=False)])
        log.roll(self.now_ms)

    async def delete_records(self, log: Log, truth: Truth, chance: random.Random) -> None:
        offset = chance.randint(truth.start, log.high_watermark)
        truth.deleted_to = max(truth.deleted_to, offset)
        log.advance_log_start(offset)

    async def retain(self, log: Log, _truth: Truth, chance: random.Random) -> None:
        if chance.random() < 0.5:
            log.config = log.config._replace(retention_bytes=chance.choice((0, 600, 2_000)))
            try:
                log.apply_retention(self.now_ms, log.high_watermark)
            finally:
                log.config = self.config
        else:
            log.apply_retention(self.now_ms, log.high_watermark)

    async def tick(self, _log: Log, _truth: Truth, _chance: random.Random) -> None:
        self.now_ms += 1_000
        await self.manager.tick(self.now_ms)

    async def snapshot(self, log: Log, _truth: Truth, _chance: random.Random) -> None:
        log.take_snapshot()

    async def new_epoch(self, log: Log, truth: Truth, _chance: random.Random) -> None:
        truth.note_epoch(truth.leader_epoch + 1)
        log.assign_epoch(truth.leader_epoch)

    async def read(self, log: Log, truth: Truth, chance: random.Random) -> None:
        log.log_dir.ensure_online()
        self.disk.heal_faults()
        judge(truth, log, self.disk, chance, at_least=truth.end)

    async def delete(self, _log: Log, truth: Truth, _chance: random.Random) -> None:
        truth.is_unsure = True
        self.manager.delete(truth.partition, self.now_ms)
        truth.is_deleted, truth.is_unsure = True, False
        truth.promised = 0

    async def recreate(self, _log: Log, truth: Truth, chance: random.Random) -> None:
        await self.delete(_log, truth, chance)
        self.create(truth.partition)

    # What they are made of.

    def _append(
        self, log: Log, buffer: memoryview, positions: list[tuple[int, BatchHeader]], epoch: int
    ) -> LogAppendInfo:
        """Append as a leader does or, one time in three, what a leader sent: the log is to be the same."""
        if len(buffer) % 3:
            return log.append(buffer, positions, epoch, self.now_ms)
        base = offset = log.log_end_offset
        for at, header in positions:
            stamp(buffer, at, offset, epoch)
            offset += header.last_offset_delta + 1
        append_as_follower(log, check_fetched(buffer), self.now_ms)
        return LogAppendInfo(base, log.log_end_offset, -1, log.log_start_offset, False)

    async def _put(self, log: Log, truth: Truth, made: list[tuple[bytes, Group]]) -> None:
        """Append as a leader does: the answer is given when the flush setting is satisfied."""
        buffer = memoryview(bytearray(b"".join(data for data, _ in made)))
        if len(buffer) > log.config.segment_bytes:
            return
        positions, at = [], 0
        for data, _ in made:
            positions.append((at, read_header(buffer, at)))
            at += len(data)
        known = len(truth.batches), len(truth.maybe)
        end = truth.end
        try:
            appended = self._append(log, buffer, positions, max(truth.leader_epoch, 0))
        except BaseException as error:
            was_judged = isinstance(error, BrokerError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR
            if not was_judged and read_header(buffer).base_offset == end:
                # It may have been written before it was refused or cut off.
                truth.maybe += split(buffer, [group for _, group in made])
            raise
        require(known == (len(truth.batches), len(truth.maybe)), "an append let another in between")
        require(appended.base_offset == end and not appended.duplicate, f"an append at {end} was reported {appended}")
        truth.appended(split(buffer, [group for _, group in made]))
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            require(log.needs_flush, "flush.messages is reached and no flush is asked for")
        # A flush that waits for the one that runs would come after all that is done here.
        if log.needs_flush and not self._is_flushing:
            await log.flush()
            truth.promised = max(truth.promised, truth.end)

    def _plain(self, chance: random.Random) -> tuple[bytes, Group]:
        group = self._records(chance)
        return build_batch(group, codec=chance.choice(CODECS)), group

    def _idempotent(
        self, log: Log, producer_id: int, chance: random.Random, *, transactional: bool
    ) -> tuple[bytes, Group]:
        """The next batch of a producer, as the log knows it; now and then of its next epoch."""
        entry = _entry(log, producer_id)
        epoch, sequence = (0, 0) if entry is None else (max(entry.epoch, 0), entry.last_sequence + 1)
        is_open = entry is not None and entry.transaction_first_offset >= 0
        if chance.random() < 0.1 and not is_open:
            epoch, sequence = epoch + 1, 0
        group = self._records(chance)
        data = build_batch(
            group,
            codec=chance.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return data, group

    def _records(self, chance: random.Random) -> Group:
        group = []
        for offset in range(chance.choice((1, 1, 2, 3))):
            self._values += 1
            key = b"k%d" % chance.randrange(6)
            value = None if chance.random() < 0.1 else b"%d" % self._values + b"x" * chance.choice((0, 5, 40))
            group.append(Record(offset, self._time(chance), key, value))
        return tuple(group)

    def _time(self, chance: random.Random) -> int:
        return self.now_ms + chance.choice((0, 0, 1, 7, -300, -4_000))


def _entry(log: Log, producer_id: int) -> ProducerEntry | None:
    return next((entry for entry in log.producers.entries() if entry.producer_id == producer_id), None)
