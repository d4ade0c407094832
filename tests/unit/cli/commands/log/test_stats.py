"""`log stats`: what is counted is what is there, and figures of several segments add up."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sordini.cli.__main__ import main
from sordini.cli.commands.log.stats.distinct_keys import DistinctKeys
from sordini.cli.commands.log.stats.segment_figures import Figures, segment_figures
from sordini.cli.commands.log.stats.stats_report import Statistics
from sordini.protocol.records.batch import HEADER_SIZE, Record, assemble_batch, read_header
from sordini.protocol.records.compression import GZIP, NO_CODEC
from sordini.protocol.records.control import ABORT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from tests.support.builders import a_batch, some_records
from tests.support.damaged_logs import BASES, DATA, DIRECTORY, END, a_store
from tests.support.log_model import a_disk
from tests.support.rich_log import aborts, offset_index, time_index


def reported(*paths: str) -> tuple[str, dict[str, Any]]:
    disk = a_store()
    lines: list[str] = []
    run = Statistics(disk, lines.append)
    for path in paths:
        run.check_path(path)
    run.finish()
    return "\n".join(lines), json.loads(json.dumps(run.as_json()))


def test_records_sizes_times_and_transactions_are_counted() -> None:
    disk = a_disk()
    plain = a_batch([Record(0, 5_000, b"a", b"11"), Record(1, 4_000, b"a", None), Record(2, 9_000, None, b"333")])
    packed = a_batch(
        some_records(50, base_offset=3, timestamp=7_000, key=b"b", value=b"x" * 100), codec=GZIP, base_offset=3
    )
    sent = a_batch(
        1, base_offset=53, timestamp=8_000, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    marker = build_marker(Marker(ABORT, 1), producer_id=7, producer_epoch=0, timestamp_ms=8_500, base_offset=54)
    log = plain + packed + sent + marker
    disk.replace(f"/data/{0:020d}.log", log + b"torn")
    disk.replace(f"/data/{0:020d}.index", offset_index(log, 0, padded_to=800))
    disk.replace(f"/data/{0:020d}.timeindex", time_index(log, 0))
    disk.replace(f"/data/{0:020d}.txnindex", aborts())
    figures = segment_figures(disk, "/data", 0)
    assert (figures.batches, figures.records, figures.control_batches, figures.transactional_batches) == (4, 54, 1, 2)
    assert (figures.tombstones, figures.keyless, figures.keys.count(), figures.keys.is_estimate) == (1, 2, 2, False)
    assert (figures.key_bytes, figures.value_bytes) == (2 + 50, 2 + 3 + 5_000 + len("value-53"))
    assert (figures.first_offset, figures.last_offset) == (0, 54)
    # A batch's first time is that of its first record.
    assert (figures.first_timestamp, figures.last_timestamp) == (5_000, 9_000)
    assert (figures.index_entries, figures.time_index_entries, figures.aborted) == (3, 1, 2)
    assert (figures.producers, figures.unread_bytes, figures.damaged_batches) == ({7}, 4, 0)
    assert figures.codecs["gzip"].expanded > 5 * figures.codecs["gzip"].stored
    assert figures.codecs["none"].expanded == figures.codecs["none"].stored == len(plain + sent + marker)
    assert figures.bytes_per_record == (len(log) + 4) / 54


def test_a_record_without_key_and_value_is_no_tombstone_and_a_delete_horizon_no_time() -> None:
    disk = a_disk()
    marked = bytearray(a_batch([Record(1, 5_000, b"k", None)], base_offset=1))
    header = read_header(marked)
    horizon = header._replace(attributes=header.attributes | 0x40, base_timestamp=9, max_timestamp=5_000)
    marked = assemble_batch(horizon, bytes(marked[HEADER_SIZE:]))
    disk.replace(f"/data/{0:020d}.log", a_batch([Record(0, 4_000, None, None)]) + bytes(marked))
    figures = segment_figures(disk, "/data", 0)
    assert (figures.tombstones, figures.keyless) == (1, 1)
    assert (figures.first_timestamp, figures.last_timestamp) == (4_000, 5_000)


@pytest.mark.parametrize("room", [0, 1, 2, 7, 100])
def test_entries_are_counted_up_to_the_room_for_more(room: int) -> None:
    disk = a_disk()
    disk.replace(f"/data/{0:020d}.log", b"")
    for entries in range(12):
        index = b"".join(struct.pack(">ii", number, 100 * number) for number in range(1, entries + 1))
        disk.replace(f"/data/{0:020d}.index", index + bytes(8 * room))
        assert segment_figures(disk, "/data", 0).index_entries == entries


def test_old_messages_are_counted_and_damaged_batches_only_as_such() -> None:
    disk = a_disk()
    damaged = bytearray(a_batch(3, base_offset=6))
    damaged[-1] ^= 1
    old = write_messages(some_records(2), 0) + write_messages(some_records(4, base_offset=2), 1, codec=GZIP)
    disk.replace(f"/data/{0:020d}.log", old + bytes(damaged))
    figures = segment_figures(disk, "/data", 0)
    assert figures.formats == {0: 2, 1: 1, 2: 1}
    assert (figures.records, figures.damaged_batches, figures.last_offset) == (6, 1, 5)


def test_a_partition_s_table_has_a_line_for_each_segment_and_its_totals() -> None:
    text, document = reported(DIRECTORY)
    lines = text.splitlines()
    assert lines[0] == DIRECTORY
    assert [int(line.split()[0]) for line in lines[2 : 2 + len(BASES)]] == list(BASES)
    assert "42 records in 39 batches, offsets 0-53" in text
    assert "producers: 2; 61.5% of the batches transactional, 12 of them markers; 6 transactions aborted" in text
    (partition,) = document["partitions"]
    total = partition["total"]
    assert total["records"] == sum(segment["records"] for segment in partition["segments"]) == 42
    assert (total["first_offset"], total["last_offset"]) == (0, END - 1)
    assert total["files"]["snapshot"] > 0
    assert document["total"]["records"] == 42


def test_log_directories_are_read_partition_by_partition() -> None:
    assert reported(DATA)[1]["partitions"][0]["directory"] == DIRECTORY
    text, document = reported(DATA, DIRECTORY)
    assert document["total"]["records"] == 84
    assert "2 partitions\n" in text


def test_the_command_answers_people_and_programs_and_refuses_what_is_no_directory(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(a_batch(3))
    shown = CliRunner().invoke(main, ["log", "stats", str(directory)])
    assert (shown.exit_code, "3 records in 1 batch" in shown.stdout) == (0, True)
    document = json.loads(CliRunner().invoke(main, ["log", "stats", str(tmp_path), "--json"]).stdout)
    assert document["partitions"][0]["total"]["codecs"]["none"]["batches"] == 1
    assert CliRunner().invoke(main, ["log", "stats", str(tmp_path / "none")]).exit_code == 1


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=5))
def test_joined_counts_count_a_key_once(groups: list[list[int]]) -> None:
    joined = DistinctKeys()
    for group in groups:
        one = DistinctKeys()
        for key in group:
            one.add(b"%d" % key)
        joined.join(one)
    assert joined.count() == len({key for group in groups for key in group})
    assert not joined.is_estimate


def test_many_keys_are_estimated_to_within_a_few_percent_and_said_to_be() -> None:
    whole, halves = DistinctKeys(exact_max=1_000), [DistinctKeys(exact_max=1_000) for _ in range(2)]
    for number in range(40_000):
        key = b"%d" % (number % 20_000)
        whole.add(key)
        halves[number % 2].add(key)
    assert whole.is_estimate
    assert abs(whole.count() - 20_000) < 500
    halves[0].join(halves[1])
    assert halves[0].count() == whole.count()
    few = DistinctKeys(exact_max=10)
    for number in range(100):
        few.add(b"%d" % number)
    assert abs(few.count() - 100) <= 3


def test_figures_that_are_added_to_nothing_are_the_same() -> None:
    disk = a_disk()
    disk.replace(f"/data/{5:020d}.log", a_batch(3, base_offset=5, codec=NO_CODEC))
    figures = segment_figures(disk, "/data", 5)
    total = Figures()
    total.add(figures)
    assert (total.first_offset, total.last_offset, total.records) == (5, 7, 3)
    assert total.codecs == figures.codecs
    assert (total.first_timestamp, total.last_timestamp) == (figures.first_timestamp, figures.last_timestamp)
