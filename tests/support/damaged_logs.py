"""A log directory with all that verification looks at, and thirty and more ways to damage it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from crc32c import crc32c

from sordini.protocol.records.batch import Record, assemble_batch, build_batch, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.storage import names
from sordini.storage.checkpoints import write_epochs, write_offsets
from sordini.storage.log import Log
from sordini.storage.producer_snapshots import decode_snapshot, encode_snapshot
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager

DATA: Final = "/data"
DIRECTORY: Final = f"{DATA}/{PARTITION}"
BASES: Final = (0, 11, 22, 32, 43)
END: Final = 54
LAST: Final = BASES[-1]


@cache
def _stores() -> tuple[ForgetfulDisk, ForgetfulDisk]:
    """A cleanly stopped store and a killed one, of the same log."""
    disk = a_disk()
    manager = a_manager(disk, SMALL)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    log.assign_epoch(1)
    time, sequence = 1_000, 0
    for number in range(12):
        time += 1_000
        _put(log, an_idempotent_batch(2, sequence=sequence, timestamp=time), 1)
        transactional = an_idempotent_batch(1, producer_id=8, sequence=number, timestamp=time + 1, transactional=True)
        _put(log, transactional, 1)
        marker = Marker(ABORT if number % 2 else COMMIT, 3)
        _put(log, build_marker(marker, producer_id=8, producer_epoch=0, timestamp_ms=time + 2), 1)
        sequence += 2
    log.assign_epoch(4)
    for _ in range(3):
        time += 1_000
        _put(log, an_idempotent_batch(2, sequence=sequence, timestamp=time), 4)
        sequence += 2
    log.high_watermark = END
    killed = disk.killed()
    asyncio.run(manager.close())
    return disk, killed


def a_store(*, clean: bool = True) -> ForgetfulDisk:
    """Five segments, two leader epochs, an idempotent and a transactional producer, aborted transactions."""
    return _stores()[0 if clean else 1].killed()


def _put(log: Log, batch: bytes, epoch: int) -> None:
    buffer = writable(batch)
    log.append(buffer, [(0, read_header(buffer))], epoch, 0)


def path(base: int, suffix: str = names.LOG) -> str:
    return f"{DIRECTORY}/{names.file_name(base, suffix)}"


class Damage(NamedTuple):
    """What is done to the store, and what has to be found: kind and file.

    Offsets below `keeps` stay: an offset, or that of a batch by its segment and its number in there.
    """

    do: Callable[[ForgetfulDisk], None]
    kind: str
    file: str
    keeps: int | tuple[int, int] = END
    clean: bool = True
    stays: tuple[str, ...] = ()
    """Kinds that no repair can mend."""


def _edit(file: str, change: Callable[[bytes], bytes]) -> Callable[[ForgetfulDisk], None]:
    return lambda disk: disk.replace(file, change(disk.contents(file)))


def _remove(*files: str) -> Callable[[ForgetfulDisk], None]:
    def remove(disk: ForgetfulDisk) -> None:
        for file in files:
            disk.remove(file)

    return remove


def _flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def keeps(damage: Damage) -> int:
    """The offset below which everything stays."""
    if isinstance(damage.keeps, int):
        return damage.keeps
    segment, number = damage.keeps
    data = a_store().contents(path(segment))
    return read_header(data, positions(data)[number]).base_offset


def positions(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += read_header(data, at).size
    return found


def _in_batch(number: int, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Change one batch of a segment."""

    def changed(data: bytes) -> bytes:
        starts = [*positions(data), len(data)]
        start, end = starts[number], starts[number + 1]
        return data[:start] + change(data[start:end]) + data[end:]

    return changed


def _resealed(batch: bytes) -> bytes:
    """With the CRC that belongs to the changed bytes."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def _fewer_records(batch: bytes) -> bytes:
    header = read_header(batch)
    return bytes(assemble_batch(header._replace(record_count=header.record_count - 1), batch[61:]))


def _offsets_outside(batch: bytes) -> bytes:
    header = read_header(batch)
    return bytes(assemble_batch(header._replace(last_offset_delta=0), batch[61:]))


def _codec_7(batch: bytes) -> bytes:
    header = read_header(batch)
    return bytes(assemble_batch(header._replace(attributes=header.attributes | 7), batch[61:]))


def _moved(shift: int) -> Callable[[bytes], bytes]:
    def moved(batch: bytes) -> bytes:
        return struct.pack(">q", read_header(batch).base_offset + shift) + batch[8:]

    return moved


def _swap_entries(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[size : 2 * size] + data[:size] + data[2 * size :]


def _snapshot(change: Callable[[dict[str, int]], dict[str, int]]) -> Callable[[bytes], bytes]:
    """Change the first producer in a snapshot, the CRC being right."""

    def changed(data: bytes) -> bytes:
        state = decode_snapshot(data)
        assert state is not None
        first, *others = state.entries()
        entries = [first._replace(**change(first._asdict())), *others]
        return encode_snapshot(type(state)(entries))

    return changed


def _offsets(name: str, offset: int) -> Callable[[ForgetfulDisk], None]:
    return lambda disk: write_offsets(disk, DATA, name, {PARTITION: offset})


def _copied_segment(disk: ForgetfulDisk) -> None:
    """A compaction's output that stands beside what it was made of: offsets 11 and 12 are there twice."""
    disk.replace(path(16), build_batch([Record(16, 1, b"k", b"v")], base_offset=16))
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
        disk.replace(path(16, suffix), b"")


def _without_marker(disk: ForgetfulDisk) -> None:
    if disk.exists(f"{DATA}/{names.CLEAN_MARKER}"):
        disk.remove(f"{DATA}/{names.CLEAN_MARKER}")


def _epochs(*entries: tuple[int, int]) -> Callable[[ForgetfulDisk], None]:
    return lambda disk: write_epochs(disk, DIRECTORY, entries)


def _other(number: int, topic_id: bytes) -> Callable[[ForgetfulDisk], None]:
    from sordini.protocol.types import TopicId
    from sordini.storage.checkpoints import write_topic_id

    def make(disk: ForgetfulDisk) -> None:
        directory = f"{DATA}/{PARTITION.topic}-{number}"
        disk.make_directory(directory)
        for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX, names.SNAPSHOT):
            disk.replace(f"{directory}/{names.file_name(0, suffix)}", b"")
        disk.remove(f"{directory}/{names.file_name(0, names.SNAPSHOT)}")
        write_topic_id(disk, directory, TopicId(topic_id))

    return make


NAME_11, NAME_22, NAME_LAST = (names.file_name(base, names.LOG) for base in (11, 22, LAST))

DAMAGES: Final[dict[str, Damage]] = {
    "a torn batch": Damage(_edit(path(LAST), lambda data: data[:-3]), "torn-batch", NAME_LAST, 52, clean=False),
    "a few bytes of a batch": Damage(_edit(path(LAST), lambda data: data + b"\0" * 7), "zeros", NAME_LAST, clean=False),
    "a torn batch beside a clean stop's marker": Damage(
        _edit(path(LAST), lambda data: data[:-3]), "hazard-torn", NAME_LAST, 52
    ),
    "zeros at the end": Damage(_edit(path(LAST), lambda data: data + bytes(500)), "zeros", NAME_LAST, clean=False),
    "nonsense at the end": Damage(
        _edit(path(LAST), lambda data: data + b"\xff" * 90), "nonsense", NAME_LAST, clean=False
    ),
    "a length of nothing in the middle": Damage(
        _edit(path(22), _in_batch(2, lambda batch: batch[:8] + bytes(4) + batch[12:])), "nonsense", NAME_22, (22, 2)
    ),
    "a changed byte in a value": Damage(_edit(path(11), _in_batch(1, _flip(65))), "wrong-crc", NAME_11, (11, 1)),
    "a changed byte in the first batch": Damage(_edit(path(0), _flip(40)), "wrong-crc", names.file_name(0, ".log"), 0),
    "a format of the future": Damage(
        _edit(path(22), _in_batch(1, lambda batch: batch[:16] + b"\x03" + batch[17:])),
        "unknown-format",
        NAME_22,
        (22, 1),
    ),
    "records that are none under a right CRC": Damage(
        _edit(path(22), _in_batch(0, lambda batch: _resealed(batch[:61] + b"\xff" * (len(batch) - 61)))),
        "unreadable-records",
        NAME_22,
        (22, 0),
    ),
    "fewer records than said": Damage(
        _edit(path(LAST), _in_batch(5, _fewer_records)), "unreadable-records", NAME_LAST, (LAST, 5)
    ),
    "records past the last offset": Damage(
        _edit(path(LAST), _in_batch(5, _offsets_outside)), "wrong-count", NAME_LAST, (LAST, 5)
    ),
    "a codec that is none": Damage(_edit(path(22), _in_batch(3, _codec_7)), "unknown-codec", NAME_22, (22, 3)),
    "offsets that fall": Damage(_edit(path(22), _in_batch(4, _moved(-4))), "offsets-fall", NAME_22, (22, 4)),
    "an offset that is too high": Damage(_edit(path(22), _in_batch(2, _moved(100))), "offsets-fall", NAME_22, (22, 2)),
    "an offset beyond all": Damage(_edit(path(22), _in_batch(2, _moved(2**40))), "offset-too-far", NAME_22, (22, 2)),
    "an offset below the segment's": Damage(
        _edit(path(22), _in_batch(0, _moved(-1))), "offsets-fall", NAME_22, (22, 0)
    ),
    "offsets that are there twice": Damage(_copied_segment, "segments-overlap", names.file_name(16, ".log")),
    "a segment that is gone": Damage(
        _remove(path(22), path(22, ".index"), path(22, ".timeindex"), path(22, ".txnindex")),
        "gap",
        names.file_name(32, ".log"),
        stays=("gap",),
    ),
    "no index": Damage(_remove(path(11, ".index")), "index-missing", names.file_name(11, ".index")),
    "half an entry of an index": Damage(
        _edit(path(11, ".index"), lambda data: data[:-3]), "index-half-entry", names.file_name(11, ".index")
    ),
    "an index that was never trimmed": Damage(
        _edit(path(11, ".index"), lambda data: data + bytes(80)), "index-padded", names.file_name(11, ".index")
    ),
    "a marker beside an untrimmed index": Damage(
        _edit(path(LAST, ".index"), lambda data: data + bytes(80)), "hazard-padded", names.file_name(LAST, ".index")
    ),
    "a marker beside an index of zeros": Damage(
        _edit(path(0, ".timeindex"), lambda data: bytes(len(data))), "hazard-padded", names.file_name(0, ".timeindex")
    ),
    "entries of an index in disorder": Damage(
        _edit(path(11, ".index"), _swap_entries(8)), "index-disorder", names.file_name(11, ".index")
    ),
    "an entry that points beside a batch": Damage(
        _edit(path(22, ".index"), lambda data: data[:7] + bytes([data[7] + 1]) + data[8:]),
        "index-wrong",
        names.file_name(22, ".index"),
    ),
    "an entry of another batch": Damage(
        _edit(path(22, ".index"), lambda data: data[:3] + bytes([data[3] + 1]) + data[4:]),
        "index-wrong",
        names.file_name(22, ".index"),
    ),
    "an entry past the end": Damage(
        _edit(path(22, ".index"), lambda data: data + struct.pack(">ii", 30, 9_000)),
        "index-wrong",
        names.file_name(22, ".index"),
    ),
    "no time index": Damage(_remove(path(11, ".timeindex")), "time-index-missing", names.file_name(11, ".timeindex")),
    "half an entry of a time index": Damage(
        _edit(path(11, ".timeindex"), lambda data: data[:-5]),
        "time-index-half-entry",
        names.file_name(11, ".timeindex"),
    ),
    "a time index that was never trimmed": Damage(
        _edit(path(11, ".timeindex"), lambda data: data + bytes(120)),
        "time-index-padded",
        names.file_name(11, ".timeindex"),
    ),
    "times in disorder": Damage(
        _edit(path(11, ".timeindex"), _swap_entries(12)), "time-index-disorder", names.file_name(11, ".timeindex")
    ),
    "a time that is another": Damage(
        _edit(path(11, ".timeindex"), lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:]),
        "time-index-wrong",
        names.file_name(11, ".timeindex"),
    ),
    "a time index without its last entry": Damage(
        _edit(path(11, ".timeindex"), lambda data: data[:-12]), "time-index-short", names.file_name(11, ".timeindex")
    ),
    "an index without its log": Damage(
        lambda disk: disk.replace(path(5, ".index"), b""), "orphan", names.file_name(5, ".index")
    ),
    "no transaction index": Damage(
        _remove(path(22, ".txnindex")), "txn-index-missing", names.file_name(22, ".txnindex")
    ),
    "an abort that was none": Damage(
        _edit(path(22, ".txnindex"), lambda data: data + struct.pack(">hqqqq", 0, 8, 24, 25, 26)),
        "txn-index-wrong",
        names.file_name(22, ".txnindex"),
    ),
    "half an abort": Damage(
        _edit(path(22, ".txnindex"), lambda data: data[:-1]), "txn-index-damaged", names.file_name(22, ".txnindex")
    ),
    "an abort of a version to come": Damage(
        _edit(path(22, ".txnindex"), lambda data: b"\0\1" + data[2:]),
        "txn-index-damaged",
        names.file_name(22, ".txnindex"),
    ),
    "a changed byte in a snapshot": Damage(
        _edit(path(END, ".snapshot"), _flip(20)), "snapshot-damaged", names.file_name(END, ".snapshot")
    ),
    "a snapshot with another sequence": Damage(
        _edit(path(END, ".snapshot"), _snapshot(lambda entry: {"last_sequence": entry["last_sequence"] + 1})),
        "snapshot-wrong",
        names.file_name(END, ".snapshot"),
    ),
    "an older snapshot with another epoch": Damage(
        _edit(path(32, ".snapshot"), _snapshot(lambda entry: {"epoch": 5})),
        "snapshot-wrong",
        names.file_name(32, ".snapshot"),
    ),
    "a snapshot with a transaction that is not open": Damage(
        _edit(path(END, ".snapshot"), _snapshot(lambda entry: {"transaction_first_offset": 50})),
        "snapshot-wrong",
        names.file_name(END, ".snapshot"),
    ),
    "a snapshot beyond the end": Damage(
        lambda disk: disk.replace(path(90, ".snapshot"), disk.contents(path(END, ".snapshot"))),
        "snapshot-beyond",
        names.file_name(90, ".snapshot"),
    ),
    "a marker without a snapshot": Damage(
        _remove(path(END, ".snapshot")), "hazard-snapshot", names.file_name(END, ".snapshot")
    ),
    "epochs that are no text": Damage(
        lambda disk: disk.replace(f"{DIRECTORY}/{names.LEADER_EPOCHS}", b"0\n2\n1 0\n"),
        "epochs-damaged",
        names.LEADER_EPOCHS,
    ),
    "epochs in disorder": Damage(_epochs((4, 0), (1, 48)), "epochs-disorder", names.LEADER_EPOCHS),
    "an epoch beyond the end": Damage(_epochs((1, 0), (4, 48), (5, 70)), "epochs-beyond", names.LEADER_EPOCHS),
    "epochs that are not the batches'": Damage(_epochs((1, 0), (4, 30)), "epochs-wrong", names.LEADER_EPOCHS),
    "a topic id that is none": Damage(
        lambda disk: disk.replace(f"{DIRECTORY}/{names.PARTITION_METADATA}", b"version: 0\n"),
        "metadata-damaged",
        names.PARTITION_METADATA,
    ),
    "a partition of another topic": Damage(
        _other(9, bytes(15) + b"\1"), "topic-ids-differ", names.PARTITION_METADATA, stays=("topic-ids-differ",)
    ),
    "more committed than there is": Damage(
        _offsets(names.HIGH_WATERMARKS, 99), "high-watermark-beyond", names.HIGH_WATERMARKS
    ),
    "more flushed than there is": Damage(
        _offsets(names.RECOVERY_POINTS, 99), "recovery-point-beyond", names.RECOVERY_POINTS
    ),
    "a start beyond the end": Damage(_offsets(names.LOG_STARTS, 99), "log-start-beyond", names.LOG_STARTS),
    "meta.properties of a version to come": Damage(
        lambda disk: disk.replace(f"{DATA}/{names.META_PROPERTIES}", b"version=7\nbroker.id=1\n"),
        "meta-damaged",
        names.META_PROPERTIES,
    ),
    "a directory that is no partition's": Damage(
        lambda disk: disk.make_directory(f"{DATA}/lost+found"),
        "stray-directory",
        "lost+found",
        stays=("stray-directory",),
    ),
    **{
        f"a {name} that cannot be parsed": Damage(
            lambda disk, name=name: disk.replace(f"{DATA}/{name}", b"0\n2\norders 3 5\n"),  # type: ignore[misc]
            "checkpoint-damaged",
            name,
        )
        for name in (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS)
    },
}
