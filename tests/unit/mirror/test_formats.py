"""The records of a mirror's internal topics, byte by byte."""

from __future__ import annotations

import struct

import pytest

from sordini.mirror.formats import (
    Checkpoint,
    FormatError,
    KeyValue,
    OffsetSync,
    Position,
    heartbeat,
    read_checkpoint,
    read_heartbeat,
    read_offset_sync,
    read_position,
    read_producer,
    write_checkpoint,
    write_offset_sync,
    write_position,
    write_producer,
)
from sordini.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 3)


def test_a_heartbeat_has_both_aliases_in_its_key_and_a_version_before_its_time() -> None:
    written = heartbeat("a", "bc", 1_700_000_000_000)
    assert written == KeyValue(b"\0\1a\0\2bc", b"\0\0" + struct.pack(">q", 1_700_000_000_000))
    assert read_heartbeat(written) == ("a", "bc", 1_700_000_000_000)


def test_a_checkpoint_has_the_group_and_the_partition_in_its_key() -> None:
    written = write_checkpoint(Checkpoint("g", ORDERS, 10, 7, "note"))
    assert written.key == b"\0\1g\0\6orders\0\0\0\3"
    assert written.value == b"\0\0" + struct.pack(">qq", 10, 7) + b"\0\4note"
    assert read_checkpoint(written) == Checkpoint("g", ORDERS, 10, 7, "note")


def test_an_offset_sync_begins_as_mirrormaker_2_s_and_ends_with_the_number_of_records() -> None:
    written = write_offset_sync(OffsetSync(ORDERS, 10, 7, 5))
    assert written.key == b"\0\6orders\0\0\0\3"
    assert written.value == struct.pack(">qq", 10, 7) + struct.pack(">q", 5)
    assert read_offset_sync(written) == OffsetSync(ORDERS, 10, 7, 5)


def test_of_mirrormaker_2_s_offset_sync_one_record_is_known() -> None:
    assert read_offset_sync(KeyValue(b"\0\6orders\0\0\0\3", struct.pack(">qq", 10, 7))) == OffsetSync(ORDERS, 10, 7, 1)


def test_a_position_has_mirrormaker_2_s_key_and_the_offset_of_the_last_record() -> None:
    written = write_position("east", Position(ORDERS, 42, "id"))
    assert written.key == b'["MirrorSourceConnector",{"cluster":"east","partition":3,"topic":"orders"}]'
    assert written.value == b'{"offset":41,"topic_id":"id"}'
    assert read_position(written) == Position(ORDERS, 42, "id")


def test_a_position_of_mirrormaker_2_is_read_in_any_order_of_its_fields() -> None:
    key = b'["MirrorSourceConnector",{"topic":"orders","cluster":"east","partition":3}]'
    assert read_position(KeyValue(key, b'{"offset":41}')) == Position(ORDERS, 42)


def test_a_deleted_position_and_a_producer_are_no_positions() -> None:
    assert read_position(KeyValue(write_position("east", Position(ORDERS, 1)).key, None)) is None
    assert read_position(write_producer("east", 5)) is None


def test_a_producer_is_read_back_and_a_position_is_none() -> None:
    assert read_producer(write_producer("east", 5)) == 5
    assert read_producer(write_position("east", Position(ORDERS, 1))) is None


@pytest.mark.parametrize(
    ("read", "record"),
    [
        (read_checkpoint, KeyValue(b"", b"")),
        (read_checkpoint, KeyValue(b"\0\1g\0\6ord", b"\0\0")),
        (read_checkpoint, KeyValue(b"\0\1g\0\6orders\0\0\0\3", b"\0\1" + bytes(18))),
        (read_checkpoint, KeyValue(b"\xff\xffg\0\6orders\0\0\0\3", b"\0\0" + bytes(18))),
        (read_offset_sync, KeyValue(b"\0\6orders\0\0\0\3", b"\0")),
        (read_offset_sync, KeyValue(b"\0\2\xff\xff\0\0\0\3", bytes(16))),
        (read_heartbeat, KeyValue(b"\0\1a\0\2bc", None)),
        (read_position, KeyValue(b"{", b"{}")),
        (read_position, KeyValue(b"[" * 200_000, b"{}")),
        (read_position, KeyValue(b'["MirrorSourceConnector",{"topic":"a","partition":0}]', b'{"offset":1e999}')),
        (read_position, KeyValue(b'["MirrorSourceConnector",{"topic":"a","partition":0}]', b'{"offset":-2}')),
        (read_position, KeyValue(b'["MirrorSourceConnector",{"topic":"a","partition":0}]', b'{"offset":%d}' % 2**63)),
        (read_position, KeyValue(b'["MirrorSourceConnector",{}]', b"{}")),
        (read_position, KeyValue(b'["MirrorSourceConnector",{"topic":"a","partition":0}]', b"[]")),
    ],
)
def test_bytes_that_are_no_such_record_are_refused(read: object, record: KeyValue) -> None:
    with pytest.raises(FormatError):
        read(record)  # type: ignore[operator]
