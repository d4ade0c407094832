"""`log dump`: files that storage has made are shown whole, and damage is found where it is."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.groups.machine import records as group_records
from sordini.broker.groups.machine.state import CommittedOffset, GroupValue, MemberValue
from sordini.cli.commands.log.dump.file_items import UnknownFile, read_file
from sordini.cli.commands.log.dump.group_records import decoded
from sordini.cli.commands.log.dump.items import Item, as_json, as_text
from sordini.cli.common.output import json_line
from sordini.protocol.consumer_assignment import written_assignment
from sordini.protocol.records.batch import Record, read_header
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.types import TopicPartition
from sordini.storage.checkpoints import write_epochs, write_meta, write_offsets, write_topic_id
from sordini.storage.log import Log
from sordini.storage.producer_state import AbortedTransaction
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, an_idempotent_batch, some_records, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager

FIRST = f"{0:020d}"


def a_log(disk: ForgetfulDisk) -> Log:
    manager = a_manager(disk, SMALL)
    manager.open(0)
    return manager.create(PARTITION, TOPIC_ID, SMALL)


def fill(log: Log, batches: int) -> None:
    for number in range(batches):
        buffer = writable(an_idempotent_batch(2, sequence=2 * number, timestamp=1_000 * (number + 1)))
        log.append(buffer, [(0, read_header(buffer))], 1, 0)


def dumped(disk: ForgetfulDisk, path: str, *, with_records: bool = False) -> list[Item]:
    items = list(read_file(disk, path, with_records=with_records))
    for item in items:  # Whatever is there can be shown in both ways.
        assert "\n" not in as_text(item)
        json_line(as_json(item, path))
    return items


def fields(items: list[Item], kind: str) -> list[dict[str, Any]]:
    return [item.fields for item in items if item.kind == kind]


def damages(items: list[Item]) -> list[tuple[int, str]]:
    return [(item.fields["position"], item.fields["reason"]) for item in items if item.is_damage]


def test_a_segment_is_shown_batch_by_batch_with_its_records() -> None:
    disk = a_disk()
    log = a_log(disk)
    fill(log, 3)
    items = dumped(disk, f"{log.directory}/{FIRST}.log", with_records=True)
    assert damages(items) == []
    batches = fields(items, "batch")
    assert [(row["base_offset"], row["last_offset"], row["records"]) for row in batches] == [
        (0, 1, 2),
        (2, 3, 2),
        (4, 5, 2),
    ]
    assert [row["position"] for row in batches] == [0, batches[0]["size"], 2 * batches[0]["size"]]
    assert (batches[1]["producer_id"], batches[1]["base_sequence"], batches[1]["leader_epoch"]) == (7, 2, 1)
    assert [row["offset"] for row in fields(items, "record")] == list(range(6))
    assert as_text(items[0]).startswith("offsets 0-1  2 records  byte 0  ")


def test_without_print_data_no_record_is_shown() -> None:
    disk = a_disk()
    log = a_log(disk)
    fill(log, 2)
    assert {item.kind for item in dumped(disk, f"{log.directory}/{FIRST}.log")} == {"batch"}


@given(st.data())
def test_a_changed_byte_is_found_in_its_batch_and_the_batches_around_it_are_shown(data: st.DataObject) -> None:
    whole = b"".join(a_batch(2, base_offset=2 * number) for number in range(3))
    size = len(whole) // 3
    victim = data.draw(st.integers(0, 2))
    # Up to the CRC the header says where the batch is; from there on every byte is covered by it.
    at = victim * size + data.draw(st.integers(17, size - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", bytes(damaged))
    items = dumped(disk, f"/data/{FIRST}.log", with_records=True)
    assert [position for position, _ in damages(items)][:1] == [victim * size]
    assert "CRC" in damages(items)[0][1]
    assert len(fields(items, "batch")) == 3


@given(st.integers(1, 200))
def test_a_torn_tail_is_found_where_the_torn_batch_begins(cut: int) -> None:
    batch = a_batch(3)
    second = a_batch(3, base_offset=3)
    whole = batch + second
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", whole[: len(whole) - min(cut, len(second) - 1)])
    items = dumped(disk, f"/data/{FIRST}.log")
    assert [position for position, _ in damages(items)] == [len(batch)]
    assert len(fields(items, "batch")) == 1


@given(st.binary(max_size=300))
def test_any_bytes_are_read_to_an_end(data: bytes) -> None:
    disk = a_disk()
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        disk.replace(f"/data/{FIRST}{suffix}", data)
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        dumped(disk, f"/data/{FIRST}{suffix}", with_records=True)


def test_zeros_behind_the_last_batch_are_room_and_no_damage() -> None:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", a_batch(1) + bytes(1000))
    items = dumped(disk, f"/data/{FIRST}.log")
    assert damages(items) == []
    assert fields(items, "padding") == [{"position": len(a_batch(1)), "bytes": 1000}]


def test_offsets_that_do_not_rise_are_damage() -> None:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", a_batch(3) + a_batch(3, base_offset=2))
    assert damages(dumped(disk, f"/data/{FIRST}.log")) == [(len(a_batch(3)), "offset 2 comes where at least 3 is due")]


def test_an_offset_below_the_segment_s_own_is_damage() -> None:
    disk = a_disk()
    disk.replace(f"/data/{7:020d}.log", a_batch(3, base_offset=6))
    assert damages(dumped(disk, f"/data/{7:020d}.log")) == [(0, "offset 6 comes where at least 7 is due")]


def test_a_transaction_s_end_is_shown_as_a_marker() -> None:
    disk = a_disk()
    marker = build_marker(Marker(COMMIT, 4), producer_id=7, producer_epoch=0, timestamp_ms=5)
    disk.replace(f"/data/{FIRST}.log", marker)
    (row,) = fields(dumped(disk, f"/data/{FIRST}.log", with_records=True), "record")
    assert (row["marker"], row["coordinator_epoch"]) == ("commit", 4)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_shown_too(magic: int) -> None:
    disk = a_disk()
    old = bytes(write_messages(some_records(2), magic))
    disk.replace(f"/data/{FIRST}.log", old)
    items = dumped(disk, f"/data/{FIRST}.log", with_records=True)
    assert damages(items) == []
    assert [row["format"] for row in fields(items, "batch")] == [magic, magic]
    torn = bytearray(old)
    torn[-1] ^= 1
    disk.replace(f"/data/{FIRST}.log", bytes(torn))
    assert len(damages(dumped(disk, f"/data/{FIRST}.log"))) == 1


def test_indexes_are_shown_up_to_their_padding_and_agree_with_the_log() -> None:
    disk = a_disk()
    log = a_log(disk)
    fill(log, 6)
    batches = fields(dumped(disk, f"{log.directory}/{FIRST}.log"), "batch")
    items = dumped(disk, f"{log.directory}/{FIRST}.index")
    assert damages(items) == []
    entries = fields(items, "entry")
    assert entries
    assert [items[-1].kind, disk.file_size(f"{log.directory}/{FIRST}.index")] == ["padding", 256]
    positions = {row["position"]: row["last_offset"] for row in batches}
    assert all(positions[entry["position"]] == entry["offset"] for entry in entries)
    times = fields(dumped(disk, f"{log.directory}/{FIRST}.timeindex"), "entry")
    latest = {row["last_offset"]: row["max_timestamp"] for row in batches}
    assert times
    assert all(latest[entry["offset"]] == entry["timestamp"] for entry in times)


def test_an_index_entry_that_points_beside_a_batch_is_damage() -> None:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", a_batch(3) + a_batch(3, base_offset=3))
    disk.replace(f"/data/{FIRST}.index", struct.pack(">iiii", 2, len(a_batch(3)), 5, len(a_batch(3)) + 5))
    assert [position for position, _ in damages(dumped(disk, f"/data/{FIRST}.index"))] == [0, 8]


def test_entries_that_do_not_rise_and_half_ones_are_damage() -> None:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.index", struct.pack(">iiii", 5, 50, 5, 60) + b"abc")
    assert [position for position, _ in damages(dumped(disk, f"/data/{FIRST}.index"))] == [8, 16]
    disk.replace(f"/data/{FIRST}.timeindex", struct.pack(">qiqi", 50, 5, 50, 6) + b"abc")
    assert [position for position, _ in damages(dumped(disk, f"/data/{FIRST}.timeindex"))] == [12, 24]


def test_aborted_transactions_and_producers_are_shown() -> None:
    disk = a_disk()
    aborted = AbortedTransaction(7, 10, 20, 21)
    disk.replace(f"/data/{FIRST}.txnindex", struct.pack(">hqqqq", 0, *aborted))
    assert fields(dumped(disk, f"/data/{FIRST}.txnindex"), "aborted") == [aborted._asdict()]
    log = a_log(disk)
    fill(log, 12)
    snapshots = [name for name in disk.list_directory(log.directory) if name.endswith(".snapshot")]
    assert snapshots
    path = f"{log.directory}/{snapshots[-1]}"
    (producer,) = fields(dumped(disk, path), "producer")
    assert (producer["producer_id"], producer["epoch"]) == (7, 0)
    disk.replace(path, disk.contents(path)[:-1] + b"\x00")
    ((at, reason),) = damages(dumped(disk, path))
    assert (at, reason[:16]) == (0, "the CRC is wrong")


def test_the_small_text_files_are_shown() -> None:
    disk = a_disk()
    offsets = {TopicPartition("a", 1): 5, TopicPartition("a", 0): 6}
    write_offsets(disk, "/data", "replication-offset-checkpoint", offsets)
    write_epochs(disk, "/data", [(1, 0), (4, 30)])
    write_topic_id(disk, "/data", TOPIC_ID)
    write_meta(disk, "/data", 3, "c" * 22, {})
    rows = fields(dumped(disk, "/data/replication-offset-checkpoint"), "checkpoint")
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 6), (1, 5)]
    assert [as_text(item) for item in dumped(disk, "/data/leader-epoch-checkpoint")] == [
        "leader epoch 1  start offset 0",
        "leader epoch 4  start offset 30",
    ]
    assert len(fields(dumped(disk, "/data/partition.metadata"), "topic_id")) == 1
    assert "broker.id=3" in [as_text(item) for item in dumped(disk, "/data/meta.properties")]
    disk.replace("/data/replication-offset-checkpoint", b"0\n2\na 0 5\n")
    assert len(damages(dumped(disk, "/data/replication-offset-checkpoint"))) == 1
    write_epochs(disk, "/data", [(4, 0), (1, 30)])
    assert len(damages(dumped(disk, "/data/leader-epoch-checkpoint"))) == 1


@pytest.mark.parametrize("name", ["notes.txt", "log", "5.log", f"{FIRST}.txt", ".log"])
def test_other_files_are_refused_by_their_names(name: str) -> None:
    disk = a_disk()
    disk.replace(f"/data/{name}", b"")
    with pytest.raises(UnknownFile):
        dumped(disk, f"/data/{name}")


def test_a_file_that_is_about_to_be_removed_is_still_shown() -> None:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log.deleted", a_batch(1))
    assert len(fields(dumped(disk, f"/data/{FIRST}.log.deleted"), "batch")) == 1


def decode_one(key: bytes, value: bytes | None) -> Item:
    disk = a_disk()
    disk.replace(f"/data/{FIRST}.log", a_batch([Record(0, 1_000, key, value)]))
    item = decoded(dumped(disk, f"/data/{FIRST}.log", with_records=True)[1])
    as_text(item)
    json_line(as_json(item, "f"))
    return item


def test_offsets_and_groups_are_decoded() -> None:
    key = group_records.offset_key("g", "orders", 2)
    committed = decode_one(key, group_records.offset_value(CommittedOffset(42, 3, "meta", 1_000)))
    assert committed.kind == "committed"
    assert as_text(committed) == "  0  1970-01-01T00:00:01.000Z  group g  orders-2  committed 42  metadata 'meta'"
    assert as_text(decode_one(key, None)).endswith("group g  orders-2  removed")
    assignment = written_assignment(0, [("orders", [2])])
    member = MemberValue("m-1", None, "client", "/h", 1, 2, b"", assignment)
    group = GroupValue("consumer", 5, "range", "m-1", 1_000, (member,))
    shown = decode_one(group_records.group_key("g"), group_records.group_value(group))
    assert as_text(shown).endswith("group g  generation 5  consumer by range  members m-1 [orders-2]")
    assert shown.fields["members"][0]["assignment"] == ["orders-2"]


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b""), (b"\x00\x09x", b"v"), (group_records.offset_key("g", "t", 0), b"\x00")]
)
def test_what_is_no_record_of_groups_stays_as_it_is_with_the_reason(key: bytes, value: bytes) -> None:
    item = decode_one(key, value)
    assert (item.kind, item.fields["key"], item.fields["value"]) == ("record", key, value)
    assert item.fields["undecoded"]


def test_other_items_pass_the_decoder() -> None:
    item = Item("batch", {"base_offset": 0})
    assert decoded(item) is item
