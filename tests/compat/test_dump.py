"""`sordini log dump` and Apache Kafka 3.9.1's own tool say the same of the same files, byte for byte."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.storage.disk import SystemDisk
from sordini.storage.log_manager import Identity, LogManager
from sordini.storage.producer_snapshots import encode_snapshot
from sordini.storage.producer_state import ProducerState
from tests.outside.tools import JavaTools
from tests.support import rich_log
from tests.support.builders import an_idempotent_batch, writable
from tests.support.log_model import OFTEN, PARTITION, SMALL, TOPIC_ID
from tests.support.rich_log import name

TOOL: Final = "kafka.tools.DumpLogSegments"
PADDED_BYTES: Final = 8 * 12 * 100

LOGS: Final = {
    "every kind of batch": rich_log.whole_log(),
    "old formats": rich_log.old_log(),
    "a torn tail": rich_log.whole_log()[:-10],
    "a wrong CRC": rich_log.flipped(rich_log.whole_log(), 70),
    "a wrong CRC of an old message": rich_log.flipped(rich_log.old_log(), 30),
    "a wrong length in an old wrapper": rich_log.flipped(rich_log.old_log(), 300),
    "nothing": b"",
    "keys and values that are no text": rich_log.random_records(1),
    "nonsense after the end": rich_log.whole_log() + b"\x00" * 8 + b"\x00\x00\x7f\x00" + b"\1" * 80,
    "a few bytes after the end": rich_log.whole_log() + b"\0" * 9,
    "a format of the future": rich_log.flipped(rich_log.whole_log(), 16),
}
LOG_OPTIONS: Final = [
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--max-bytes", "500"),
]


@pytest.fixture(scope="module")
def tools() -> Iterator[JavaTools]:
    with JavaTools() as running:
        yield running


def both(tools: JavaTools, files: list[Path], *options: str) -> tuple[str, str, str, str]:
    """Standard output and error of the tool and of ours."""
    listed = ",".join(map(str, files))
    theirs = tools.run(TOOL, "--files", listed, *options)
    ours = CliRunner().invoke(main, ["log", "dump", "--files", listed, *options])
    assert ours.exit_code in {0, 1}, ours.output
    return theirs.output, ours.stdout, theirs.errors, ours.stderr


def same(tools: JavaTools, files: list[Path], *options: str) -> None:
    theirs, ours, their_errors, our_errors = both(tools, files, *options)
    assert ours == theirs
    assert our_errors == their_errors


@pytest.mark.parametrize("options", LOG_OPTIONS, ids=" ".join)
def test_segments_are_printed_in_the_tool_s_words(tools: JavaTools, tmp_path: Path, options: tuple[str, ...]) -> None:
    for number, (what, data) in enumerate(LOGS.items()):
        path = tmp_path / name(1000 * number, ".log")
        path.write_bytes(data)
        theirs, ours, errors, _ = both(tools, [path], *options)
        if "Exception" in errors:  # It ended with the damage; until then it said the same, half a line aside.
            said = theirs.rpartition("\n")[0].removesuffix("\n")
            assert ours.startswith(said), what
            assert len(said) > 500, what
        else:
            assert ours == theirs, what


def test_offsets_that_do_not_follow_each_other_are_listed_as_the_tool_lists_them(
    tools: JavaTools, tmp_path: Path
) -> None:
    path = tmp_path / name(0, ".log")
    path.write_bytes(rich_log.whole_log())
    same(tools, [path], "--deep-iteration")


@pytest.mark.parametrize(
    "options",
    [(), ("--verify-index-only",), ("--index-sanity-check",)],
    ids=" ".join,
)
def test_indexes_are_printed_and_checked_in_the_tool_s_words(
    tools: JavaTools, tmp_path: Path, options: tuple[str, ...]
) -> None:
    log = rich_log.whole_log()
    offsets, times = rich_log.offset_index(log, 0), rich_log.time_index(log, 0)
    wrong_offset = offsets[:8] + struct.pack(">ii", 7, 246) + struct.pack(">ii", 10, 382) + offsets[24:]
    wrong_time = (
        times[:12] + struct.pack(">qi", rich_log.TIME, 8) + struct.pack(">qi", rich_log.TIME + 50, 7) + times[36:]
    )
    cases = {
        0: (offsets, times),
        100: (offsets.ljust(PADDED_BYTES, b"\0"), times),
        200: (offsets, times.ljust(PADDED_BYTES, b"\0")),
        300: (b"", b""),
        400: (wrong_offset, wrong_time),
        500: (offsets, struct.pack(">qi", rich_log.TIME, 99)),
        700: (offsets, times[:12] + times[:8] + struct.pack(">i", 5)),
        600: (offsets, times[:24] + struct.pack(">qi", -5, -3)),
    }
    for base, (index, time_index) in cases.items():
        (tmp_path / name(base, ".log")).write_bytes(rich_log.at_offset(log, base))
        for suffix, data in ((".index", index), (".timeindex", time_index)):
            path = tmp_path / name(base, suffix)
            path.write_bytes(data)
        for suffix in (".index", ".timeindex"):
            theirs, ours, their_errors, our_errors = both(tools, [tmp_path / name(base, suffix)], *options)
            assert ours == theirs, (base, suffix)
            if "Exception" in their_errors:
                assert "byte " in our_errors, (base, suffix)
            else:
                reported = "".join(line for line in our_errors.splitlines(True) if not line.startswith("sordini: "))
                assert reported == their_errors, (base, suffix)
                assert (our_errors == "") == (their_errors == ""), (base, suffix)


def test_an_index_that_has_no_entry_yet_is_no_damage_whatever_the_tool_makes_of_its_zeros(
    tools: JavaTools, tmp_path: Path
) -> None:
    for base, data in ((0, b""), (100, rich_log.at_offset(rich_log.whole_log(), 100))):
        (tmp_path / name(base, ".log")).write_bytes(data)
        for suffix in (".index", ".timeindex"):
            path = tmp_path / name(base, suffix)
            path.write_bytes(bytes(PADDED_BYTES))
            theirs, ours, their_errors, our_errors = both(tools, [path])
            assert ours == theirs
            assert our_errors == ("" if "Exception" in their_errors else their_errors)


def test_snapshots_and_aborted_transactions_are_printed_in_the_tool_s_words(tools: JavaTools, tmp_path: Path) -> None:
    for file_name, data in (
        (name(43, ".snapshot"), rich_log.snapshot()),
        (name(44, ".snapshot"), encode_snapshot(ProducerState())),
        (name(0, ".txnindex"), rich_log.aborts()),
    ):
        (tmp_path / file_name).write_bytes(data)
        same(tools, [tmp_path / file_name])
    damaged = tmp_path / name(45, ".snapshot")
    damaged.write_bytes(rich_log.flipped(rich_log.snapshot(), 20))
    theirs, ours, _, our_errors = both(tools, [damaged])
    assert ours == theirs
    assert "byte 0: the CRC is wrong" in our_errors


def test_several_files_are_printed_one_after_the_other_and_slashes_as_java_has_them(
    tools: JavaTools, tmp_path: Path
) -> None:
    log = tmp_path / name(0, ".log")
    log.write_bytes(rich_log.whole_log())
    log.with_suffix(".index").write_bytes(rich_log.offset_index(rich_log.whole_log(), 0))
    log.with_suffix(".timeindex").write_bytes(rich_log.time_index(rich_log.whole_log(), 0))
    strange = Path(f"{tmp_path}/.")
    same(tools, [log, log.with_suffix(".index"), strange / log.with_suffix(".timeindex").name], "--print-data-log")
    listed = f"{tmp_path}//{log.name}"
    ours = CliRunner().invoke(main, ["log", "dump", listed])
    assert ours.stdout == tools.run(TOOL, "--files", listed).output


def test_groups_and_their_offsets_are_decoded_as_the_tool_decodes_them(tools: JavaTools, tmp_path: Path) -> None:
    path = tmp_path / name(0, ".log")
    path.write_bytes(rich_log.offsets_topic())
    same(tools, [path], "--offsets-decoder")
    assert '"subscription":{"topics":["t"]' in both(tools, [path], "--offsets-decoder")[1]


def test_transactions_are_decoded_as_the_tool_decodes_them(tools: JavaTools, tmp_path: Path) -> None:
    path = tmp_path / name(0, ".log")
    path.write_bytes(rich_log.transactions_topic())
    same(tools, [path], "--transaction-log-decoder")
    assert ",state=CompleteCommit,partitions=[topic-" in both(tools, [path], "--transaction-log-decoder")[1]


def test_numbers_are_decoded_as_the_tool_decodes_them(tools: JavaTools, tmp_path: Path) -> None:
    path = tmp_path / name(0, ".log")
    path.write_bytes(
        build_batch([Record(0, 0, struct.pack(">i", -7), struct.pack(">q", 2**40)), Record(1, 0, None, None)])
    )
    package = "org.apache.kafka.tools.api"
    classes = ("--key-decoder-class", f"{package}.IntegerDecoder", "--value-decoder-class", f"{package}.LongDecoder")
    same(tools, [path], *classes)


def test_what_sordini_wrote_itself_is_read_by_the_tool_without_a_complaint(tools: JavaTools, tmp_path: Path) -> None:
    """Segments, padded indexes of the newest one, snapshots; the entries of the indexes are those of the log."""
    directory = sordini_wrote(tmp_path)
    files = sorted(path for path in directory.iterdir() if path.suffix in {".log", ".index", ".timeindex", ".snapshot"})
    assert len(files) > 8
    for options in (("--print-data-log",), ("--verify-index-only",)):
        theirs, ours, their_errors, our_errors = both(tools, files, *options)
        assert (their_errors, our_errors) == ("", "")
        assert ours == theirs


def sordini_wrote(tmp_path: Path) -> Path:
    """A partition's directory as a running broker has it, with several segments."""
    data = tmp_path / "data"
    data.mkdir()
    manager = LogManager(SystemDisk(), [str(data)], Identity(1, "c" * 22), lambda _: SMALL, random.Random(1), OFTEN)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for number in range(20):
        buffer = writable(an_idempotent_batch(2, sequence=2 * number, timestamp=1_000 * (number + 1)))
        log.append(buffer, [(0, read_header(buffer))], 1, 0)
    return Path(log.directory)
