"""`log dump` in Apache Kafka's texts: the line of document 000, its look-up, damage beside the text, options.

That the text is the tool's to the letter is for `tests/compat/test_dump.py` to show, with the tool beside it.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.transactions.records import (
    FLEXIBLE_VALUE_VERSION,
    ONGOING,
    PREPARE_COMMIT,
    TransactionValue,
    transaction_key,
    transaction_value,
)
from sordini.cli.__main__ import main
from sordini.cli.commands.log.dump.classic import classic_log
from sordini.cli.commands.log.dump.kafka_indexes import IndexFile, IndexOptions, dump_offset_index, dump_time_index
from sordini.cli.commands.log.dump.kafka_log import LogOptions, LogPrinter
from sordini.cli.commands.log.dump.kafka_text import LISTED_MAX, DamageAt, Findings, Line, Pairs
from sordini.cli.commands.log.files.segment_walk import WINDOW, SegmentWalk
from sordini.protocol.records.batch import HEADER_SIZE, Record, read_header
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.types import TopicPartition
from sordini.storage.checkpoints import write_offsets
from sordini.storage.disk import SystemDisk
from sordini.storage.open_files import OpenFiles
from sordini.storage.segment import Segment
from tests.support.builders import a_batch, some_records
from tests.support.log_model import a_disk

NAME = f"{0:020d}.log"
DOCUMENT_000 = (
    "offset: 5376 position: 102124 CreateTime: 1531477349287 isvalid: true keysize: -1 valuesize: 12 magic: 2 "
    "compresscodec: NONE producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: [] "
    "payload: message_5376"
)


def dump(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["log", "dump", *map(str, arguments)])
    assert result.exit_code in {0, 1, 2}, result.exception
    return result


def a_segment(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / NAME
    path.write_bytes(data)
    return path


def of_size(record: Record, size: int) -> bytes:
    """A batch of just so many bytes that ends with the record's offset."""
    value = bytes(max(size - HEADER_SIZE - 12, 0))
    for _ in range(12):
        batch = a_batch([record._replace(value=value)], base_offset=record.offset)
        if len(batch) == size:
            return batch
        value = bytes(len(value) + size - len(batch))
    raise AssertionError(f"no batch of {size} bytes")


def test_the_classic_line_is_the_one_of_document_000(tmp_path: Path) -> None:
    time = 1_531_477_349_287
    filler = of_size(Record(5_375, time, None, b""), 102_124)
    path = a_segment(tmp_path, filler + a_batch([Record(5_376, time, None, b"message_5376")], base_offset=5_376))
    shown = dump(path, "--format", "classic", "--print-data-log").stdout.splitlines()
    assert shown[:2] == [f"Dumping {path}", "Starting offset: 0"]
    assert shown[-1] == DOCUMENT_000


def test_the_look_up_of_document_000_goes_from_byte_49111_to_offset_2490(tmp_path: Path) -> None:
    """Entry [2487, 49111]: the last entry at or before 2490, from whose position batches are compared one by one."""
    first = of_size(Record(2_000, 1_000, None, b""), 49_111)
    others = [
        a_batch([Record(offset, 1_000, None, b"v%d" % offset)], base_offset=offset) for offset in range(2_487, 2_500)
    ]
    path = a_segment(tmp_path, first + b"".join(others))
    end = 49_111 + sum(map(len, others[:10]))
    path.with_suffix(".index").write_bytes(struct.pack(">iiii", 2_487, 49_111, 2_497, end))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1_000, 2_000))
    shown = dump(path.with_suffix(".index"))
    assert shown.stdout.splitlines()[1:] == ["offset: 2487 position: 49111", f"offset: 2497 position: {end}"]
    assert (shown.exit_code, shown.stderr) == (0, "")
    segment = Segment(OpenFiles(SystemDisk(), 10), str(tmp_path), 0, path.stat().st_size)
    segment.load(4_096)
    assert segment.index.lookup(2_490) == 49_111
    assert segment.index.lookup(2_486) == 0
    found = segment.find(2_490, 4_096)
    assert found == (49_111 + sum(map(len, others[:3])), 2_490, len(others[3]))
    assert "baseOffset: 2490 lastOffset: 2490 " in next(
        line for line in dump(path).stdout.splitlines() if f" position: {found[0]} " in line
    )


def test_classic_lines_tell_of_markers_headers_sequences_and_old_messages(tmp_path: Path) -> None:
    marker = build_marker(Marker(COMMIT, 4), producer_id=7, producer_epoch=1, timestamp_ms=5, base_offset=2)
    data = a_batch(
        [Record(0, 5, b"k", None, (("h", b"1"), ("g", None))), Record(1, 6, None, b"v")],
        producer_id=7,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    path = a_segment(tmp_path, data + marker + write_messages([Record(3, 9, b"o", b"w")], 1))
    lines = dump(path, "--format", "classic", "-d").stdout.splitlines()[2:]
    assert lines[0].endswith("sequence: 2147483647 isTransactional: true headerKeys: [h,g] key: k")
    assert lines[1].endswith("sequence: 0 isTransactional: true headerKeys: [] payload: v")
    assert lines[2].endswith("isTransactional: true headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 4")
    assert lines[3] == (
        f"offset: 3 position: {len(data) + len(marker)} CreateTime: 9 isvalid: true keysize: 1 valuesize: 1 magic: 1 "
        "compresscodec: NONE key: o payload: w"
    )


def test_damage_is_reported_beside_the_text_and_reading_goes_on_behind_it(tmp_path: Path) -> None:
    first, second, third = (bytearray(a_batch(2, base_offset=2 * number)) for number in range(3))
    first[70] ^= 1
    path = a_segment(tmp_path, bytes(first + second + third[:-5]))
    shown = dump(path)
    assert shown.exit_code == 1
    lines = shown.stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines[2:4]] == ["false", "true"]
    assert lines[4] == f"Found {len(third) - 5} invalid bytes at the end of {NAME}"
    torn = f"a batch of {len(third)} bytes begins, and {len(third) - 5} are left in the file"
    assert shown.stderr.splitlines() == [
        f"sordini: {path}: byte 0: the CRC is wrong",
        f"sordini: {path}: byte {len(first) + len(second)}: {torn}",
        f"sordini: {path} is damaged",
    ]


def test_records_that_cannot_be_read_are_reported_where_the_tool_dies(tmp_path: Path) -> None:
    batch = bytearray(a_batch(2))
    batch[HEADER_SIZE] = 0xFF
    path = a_segment(tmp_path, bytes(batch) + a_batch(2, base_offset=2))
    shown = dump(path, "--deep-iteration")
    assert "the records cannot be read" in shown.stderr
    assert [line.split()[2] for line in shown.stdout.splitlines() if line.startswith("|")] == ["2", "3"]


@pytest.mark.parametrize("layout", ["kafka", "classic"])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_printed_to_an_end(layout: str, data: bytes) -> None:
    disk = a_disk()
    disk.replace(f"/data/{NAME}", data)
    for suffix in (".index", ".timeindex"):
        disk.replace(f"/data/{0:020d}{suffix}", data)
    options = LogOptions(records=True, contents=True)
    file = disk.open(f"/data/{NAME}")
    findings = Findings()
    if layout == "classic":
        reported = list(classic_log(file, options))
    else:
        reported = list(LogPrinter(file, f"/data/{NAME}", options, findings).lines())
        for suffix, reader in ((".index", dump_offset_index), (".timeindex", dump_time_index)):
            path = f"/data/{0:020d}{suffix}"
            source = IndexFile(disk, path, path, 0)
            for index_options in (IndexOptions(), IndexOptions(sanity_only=True), IndexOptions(verify_only=True)):
                reported += reader(source, disk.open(path), index_options, findings)
    assert all(isinstance(one, Line | DamageAt) for one in reported)
    assert all(isinstance(line, str) for line in findings.lines())


def test_batches_larger_than_what_is_read_at_once_are_walked_like_others() -> None:
    disk = a_disk()
    batches = [
        a_batch([Record(number, 5, None, bytes(size))], base_offset=number)
        for number, size in enumerate((10, WINDOW - 100, 3 * WINDOW, 5, WINDOW, 20, 2 * WINDOW))
    ]
    disk.replace(f"/data/{NAME}", b"".join(batches))
    walk = SegmentWalk(disk.open(f"/data/{NAME}"))
    assert [bytes(entry.data) for entry in walk] == batches
    assert (walk.position, walk.fault) == (sum(map(len, batches)), None)
    disk.replace(f"/data/{NAME}", b"".join(batches)[:-1])
    walk = SegmentWalk(disk.open(f"/data/{NAME}"))
    assert len(list(walk)) == len(batches) - 1
    assert walk.is_torn


def test_of_many_gaps_the_newest_are_kept_and_the_others_counted() -> None:
    findings = Findings()
    pairs = findings.gaps.setdefault("/f", Pairs())
    for number in range(LISTED_MAX + 3):
        pairs.add(number, number + 2)
    lines = findings.lines()
    assert lines[:2] == ["Non-consecutive offsets in /f", f"  {LISTED_MAX + 2} is followed by {LISTED_MAX + 4}"]
    assert lines[-1] == "  and 3 found before these"
    assert not findings.are_damage


def test_small_text_files_are_shown_where_the_tool_passes_them_over(tmp_path: Path) -> None:
    write_offsets(SystemDisk(), str(tmp_path), "replication-offset-checkpoint", {TopicPartition("a", 1): 5})
    path = tmp_path / "replication-offset-checkpoint"
    assert dump(path).stdout == f"Dumping {path}\na-1  5\n"
    path.write_bytes(b"0\n7\na 1 5\n")
    assert dump(path).exit_code == 1


def test_files_are_named_by_commas_or_one_by_one(tmp_path: Path) -> None:
    first = a_segment(tmp_path, a_batch(1))
    second = tmp_path / f"{7:020d}.log"
    second.write_bytes(a_batch(1, base_offset=7))
    expected = dump(first, second).stdout
    assert expected.count("Dumping ") == 2
    assert dump("--files", f"{first},{second}").stdout == expected
    assert dump("--files", str(first), second).stdout == expected


def test_what_cannot_be_read_is_reported_and_the_other_files_are_shown(tmp_path: Path) -> None:
    path = a_segment(tmp_path, a_batch(1))
    strange = tmp_path / "notes.txt"
    strange.write_bytes(b"")
    index = tmp_path / f"{9:020d}.index"
    index.write_bytes(bytes(8))
    shown = dump(strange, tmp_path / f"{3:020d}.log", index, path)
    assert shown.exit_code == 1
    assert "isvalid: true" in shown.stdout
    for text in ("its name is not that of a file", "no such file", f"{9:020d}.log"):
        assert text in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--json", "--verify-index-only", "f"],
        ["--format", "people", "--max-bytes", "5", "f"],
        ["--offsets-decoder", "--transaction-log-decoder", "f"],
        ["--key-decoder-class", "kafka.serializer.NoneDecoder", "f"],
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str]) -> None:
    assert dump(*arguments).exit_code == 2


def test_transactions_are_decoded_for_people_too(tmp_path: Path) -> None:
    value = TransactionValue(4, 1, 60_000, ONGOING, (TopicPartition("t", 3),), 5_000, 4_000)
    records = [
        Record(0, 5_000, transaction_key("pay"), transaction_value(value)),
        Record(1, 5_000, transaction_key("pay"), None),
        Record(2, 5_000, transaction_key("bad"), b"\0"),
        Record(3, 5_000, b"\0\x07", b""),
        Record(4, 5_000, b"", b""),
    ]
    path = a_segment(tmp_path, a_batch(records))
    shown = dump(path, "--format", "people", "--transaction-log-decoder").stdout.splitlines()[2:]
    assert shown[0] == "  0  1970-01-01T00:00:05.000Z  transactional id pay  Ongoing  producer 4/1  partitions [t-3]"
    assert shown[1].endswith("transactional id pay  removed")
    assert all("not decoded" in line for line in shown[2:])
    assert '"state":"Ongoing"' in dump(path, "--json", "--transaction-log-decoder").stdout
    assert dump(path, "--transaction-log-decoder").exit_code == 1  # The tool fails on records of no transaction.


def test_what_an_end_that_raises_the_epoch_leaves_behind_is_shown(tmp_path: Path) -> None:
    value = TransactionValue(4, 32_767, 60_000, PREPARE_COMMIT, (), 5_000, 4_000, 4, 9, 2)
    written = transaction_value(value, FLEXIBLE_VALUE_VERSION)
    path = a_segment(tmp_path, a_batch([Record(0, 5_000, transaction_key("pay"), written)]))
    [_, _, shown] = dump(path, "--format", "people", "--transaction-log-decoder").stdout.splitlines()
    assert shown.endswith("PrepareCommit  producer 4/32767  transaction.version 2  next producer 9")
    as_json = dump(path, "--json", "--transaction-log-decoder").stdout
    assert '"previous_producer_id":4,"next_producer_id":9,"transaction_version":2' in as_json
    classic = dump(path, "--transaction-log-decoder").stdout
    assert "producerId:4,producerEpoch:32767,state=PrepareCommit" in classic


def test_a_wrapper_that_holds_nothing_readable_is_reported(tmp_path: Path) -> None:
    wrapper = bytearray(write_messages(some_records(2), 1, codec=1))
    wrapper[-4] ^= 0xFF
    shown = dump(a_segment(tmp_path, bytes(wrapper)), "-d")
    assert "isvalid: false" in shown.stdout
    assert shown.exit_code == 1


def test_offsets_that_do_not_rise_are_reported(tmp_path: Path) -> None:
    batch = a_batch(3)
    assert read_header(batch).next_offset == 3
    shown = dump(a_segment(tmp_path, batch + a_batch(3, base_offset=2)))
    assert "offset 2 comes where at least 3 is due" in shown.stderr


@pytest.mark.parametrize("options", [[], ["--json"], ["--format", "people"]], ids=" ".join)
def test_a_missing_file_and_a_directory_are_named_as_such_whatever_they_are_called(
    tmp_path: Path, options: list[str]
) -> None:
    for path, reason in (
        (tmp_path / "none", "no such file or directory"),
        (tmp_path / NAME, "no such file or directory"),
        (tmp_path, f"this is a directory; name files in it, such as {tmp_path}/*.log"),
    ):
        result = dump(path, *options)
        assert (result.exit_code, result.stderr) == (1, f"sordini: {path}: {reason}\n")
    (tmp_path / "notes.txt").write_text("x")
    assert "its name is not that of a file" in dump(tmp_path / "notes.txt", *options).stderr
