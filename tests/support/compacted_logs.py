"""A compacted log on a disk in memory, built segment by segment, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sordini.protocol.records.batch import Record, read_header, read_records
from sordini.storage.cleaner import Cleaned, LogCleaner
from sordini.storage.compaction import log_selection
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.log_selection import Cleanable, CleanerConfig, LogFacts
from sordini.storage.compaction.task import CleaningResult, SegmentSpan
from sordini.storage.log import Log
from sordini.storage.log_manager import LogManager
from sordini.testing.brokers.inline_workers import NoTime
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, writable
from tests.support.inline_cleaner import CleaningHere
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager

COMPACTED = SMALL._replace(
    segment_bytes=2_000,
    segment_index_bytes=256,
    index_interval_bytes=100,
    cleanup_delete=False,
    cleanup_compact=True,
    min_cleanable_dirty_ratio=0.0,
)
Pair = tuple[str, str | None]
Held = list[tuple[int, bytes, bytes | None]]


def pairs(text: str) -> list[Pair]:
    """`a1 b2 c-` is a=1, b=2 and a tombstone for c."""
    return [(word[0], None if word[1:] == "-" else word[1:]) for word in text.split()]


def put_pairs(log: Log, text: str, **fields: Any) -> None:
    """One batch of keys and values; committed at once."""
    records = [
        Record(number, 1_000 + log.log_end_offset + number, key.encode(), None if value is None else value.encode())
        for number, (key, value) in enumerate(pairs(text))
    ]
    buffer = writable(a_batch(records, **fields))
    log.append(buffer, [(0, read_header(buffer))], 1, 0)
    log.high_watermark = log.log_end_offset


def fill(log: Log, segments: Sequence[str]) -> None:
    """One segment for each text, of one batch for each part between bars."""
    for number, text in enumerate(segments):
        if number:
            log.roll(0)
        for part in text.split("|"):
            put_pairs(log, part)


def held_by(log: Log) -> Held:
    """Every record that can be read, from the log's start, as a consumer does."""
    found: Held = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        piece = log.read(at, 1_000, log.log_end_offset, whole_first=True)
        if piece is None:
            break
        data = memoryview(piece.read())
        piece.release()
        position = 0
        while len(data) - position >= 61:
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            for record in read_records(data[position:], header):
                assert record.key is not None
                found.append((record.offset, bytes(record.key), None if record.value is None else bytes(record.value)))
            at = header.next_offset
            position += header.size
    return found


def text_of(held: Held) -> str:
    """`0a1 3b-`: offset, key and value."""
    return " ".join(f"{offset}{key.decode()}{'-' if value is None else value.decode()}" for offset, key, value in held)


def cleaning_of(log: Log, now_ms: int) -> CleaningResult:
    """Clean all that is closed, for others to put in place."""
    segments = log.segments.all()
    modified_ms = log.log_dir.disk.modified_ms
    spans = [
        SegmentSpan(segment.base, segment.size, following.base, modified_ms(segment.handle.path), 1_000)
        for segment, following in pairwise(segments)
    ]
    end = segments[-1].base
    facts = LogFacts(spans, None, log.log_start_offset, log.log_end_offset, end, end, end)
    part = log_selection.find_cleanable(facts, log.config, now_ms)
    producers = [(entry.producer_id, entry.epoch, entry.last_offset) for entry in log.producers.entries()]
    task = log_selection.task_of(log.directory, facts, part, log.config, CleanerConfig(), producers, now_ms)
    return clean(log.log_dir.disk, task, NoTime())


class Reported:
    """What the cleaner reports."""

    def __init__(self) -> None:
        self.runs: list[Cleaned] = []
        self.lines: list[str] = []

    def cleaned(self, cleaned: Cleaned) -> None:
        self.runs.append(cleaned)
        self.lines.append("cleaned")

    def checkpoint_reset(self, log: Log, part: Cleanable) -> None:
        del log
        self.lines.append(f"reset to {part.first_dirty_offset}")

    def discarded(self, log: Log, reason: str) -> None:
        del log
        self.lines.append(f"thrown away: {reason}")

    def failed(self, log: Log, reason: str) -> None:
        del log
        self.lines.append(f"failed: {reason}")

    def uncleanable(self, log: Log, reason: str) -> None:
        del log
        self.lines.append(f"uncleanable: {reason}")


class Compacting:
    """A store with one compacted log, and its cleaner."""

    def __init__(self, disk: ForgetfulDisk | None = None, **settings: Any) -> None:
        self.disk = disk or a_disk()
        self.log_config = COMPACTED._replace(**settings)
        self.manager: LogManager = a_manager(self.disk, self.log_config)
        self.manager.open(0)
        self.worker = CleaningHere(self.disk)
        self.reported = Reported()
        self.now_ms = 1_000_000
        self.cleaner = LogCleaner(self.manager, self.worker, self.reported, lambda: self.now_ms, CleanerConfig())

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        if log is None:
            log = self.manager.create(PARTITION, TOPIC_ID, self.log_config)
        return log

    async def filled(self, *segments: str) -> Log:
        """The log with these segments, the last being active, all of it on the disk."""
        fill(self.log, segments)
        await self.log.flush()
        return self.log

    def bases(self) -> list[int]:
        return [segment.base for segment in self.log.segments.all()]

    def files(self, *suffixes: str) -> list[str]:
        return [name for name in self.disk.list_directory(self.log.directory) if name.endswith(suffixes)]
