"""The records of __consumer_offsets: as Apache Kafka writes them, and how invalid bytes are read.

The hex is what the message classes in Apache Kafka 3.9.1's own jar wrote.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.records import GroupKey, OffsetKey, UnknownGroupKey
from sordini.broker.groups.machine.state import CommittedOffset, GroupValue, MemberValue
from sordini.protocol.records.versioned import Damaged

SMILE = "grüße-\N{GRINNING FACE}"

OFFSET_KEYS = {
    0: "0000000c6f72646572732d67726f757000066f726465727300000007",
    1: "0001000c6f72646572732d67726f757000066f726465727300000007",
}
OFFSET_VALUES = {
    0: "00000000011f71fb04cb00056e6f74c3a90000018bcfe56800",
    1: "00010000011f71fb04cb00056e6f74c3a90000018bcfe568000000018bcfee8fc0",
    2: "00020000011f71fb04cb00056e6f74c3a90000018bcfe56800",
    3: "00030000011f71fb04cb0000000500056e6f74c3a90000018bcfe56800",
    4: "00040000011f71fb04cb00000005066e6f74c3a90000018bcfe5680000",
}
GROUP_VALUES = {
    0: "00000008636f6e73756d657200000003000572616e67650003632d30000000020003632d300006636c69656e74000a2f3132372e302e302e"
    "310000afc8000000030001000000000209080003632d310006636c69656e74000a2f3132372e302e302e310000afc8000000030001010000"
    "00020908",
    1: "00010008636f6e73756d657200000003000572616e67650003632d30000000020003632d300006636c69656e74000a2f3132372e302e302e"
    "31000493e00000afc8000000030001000000000209080003632d310006636c69656e74000a2f3132372e302e302e31000493e00000afc800"
    "000003000101000000020908",
    2: "00020008636f6e73756d657200000003000572616e67650003632d300000018bcfe56801000000020003632d300006636c69656e74000a2f"
    "3132372e302e302e31000493e00000afc8000000030001000000000209080003632d310006636c69656e74000a2f3132372e302e302e3100"
    "0493e00000afc800000003000101000000020908",
    3: "00030008636f6e73756d657200000003000572616e67650003632d300000018bcfe56801000000020003632d30ffff0006636c69656e7400"
    "0a2f3132372e302e302e31000493e00000afc8000000030001000000000209080003632d310004696e73740006636c69656e74000a2f3132"
    "372e302e302e31000493e00000afc800000003000101000000020908",
    4: "000409636f6e73756d6572000000030672616e676504632d300000018bcfe568010304632d300007636c69656e740b2f3132372e302e302e"
    "31000493e00000afc8040001000309080004632d3105696e737407636c69656e740b2f3132372e302e302e31000493e00000afc804000101"
    "0309080000",
}
EMPTY_GROUP_VALUE = "00030008636f6e73756d657200000004ffffffff0000018bcfe5680200000000"


def offset(version: int) -> CommittedOffset:
    expires_ms = 1_700_000_600_000 if version == 1 else None
    return CommittedOffset(1_234_567_890_123, 5 if version >= 3 else -1, "noté", 1_700_000_000_000, expires_ms)


def group(version: int) -> GroupValue:
    def member(number: int) -> MemberValue:
        return MemberValue(
            f"c-{number}",
            "inst" if number and version >= 3 else None,
            "client",
            "/127.0.0.1",
            300_000 if version else 45_000,
            45_000,
            bytes((0, 1, number)),
            b"\x09\x08",
        )

    since_ms = 1_700_000_000_001 if version >= 2 else -1
    return GroupValue("consumer", 3, "range", "c-0", since_ms, (member(0), member(1)))


def test_keys_are_written_as_apache_kafka_writes_them() -> None:
    assert records.offset_key("orders-group", "orders", 7).hex() == OFFSET_KEYS[1]
    assert records.group_key("orders-group").hex() == "0002000c6f72646572732d67726f7570"
    odd = records.offset_key(SMILE, "t", 2**31 - 1)
    assert odd.hex() == "0001000c6772c3bcc39f652df09f98800001747fffffff"


@pytest.mark.parametrize("version", OFFSET_KEYS)
def test_both_versions_of_an_offsets_key_are_read(version: int) -> None:
    assert records.read_key(bytes.fromhex(OFFSET_KEYS[version])) == OffsetKey("orders-group", "orders", 7)


def test_a_groups_key_is_read() -> None:
    assert records.read_key(records.group_key(SMILE)) == GroupKey(SMILE)


def test_an_offset_is_written_in_version_3_and_with_an_expiry_in_version_1() -> None:
    assert records.offset_value(offset(3)).hex() == OFFSET_VALUES[3]
    assert records.offset_value(offset(1)).hex() == OFFSET_VALUES[1]
    plain = records.offset_value(CommittedOffset(0, -1, "", 1))
    assert plain.hex() == "00030000000000000000ffffffff00000000000000000001"


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_every_version_of_an_offset_is_read(version: int) -> None:
    assert records.read_offset(bytes.fromhex(OFFSET_VALUES[version])) == offset(version)


def test_a_topic_id_that_a_newer_release_tagged_to_an_offset_is_skipped() -> None:
    tagged = bytes.fromhex(OFFSET_VALUES[4])[:-1] + b"\x01\x00\x10" + bytes(range(16))
    assert records.read_offset(tagged) == offset(4)


def test_a_group_is_written_in_version_3() -> None:
    assert records.group_value(group(3)).hex() == GROUP_VALUES[3]
    empty = GroupValue("consumer", 4, None, None, 1_700_000_000_002, ())
    assert records.group_value(empty).hex() == EMPTY_GROUP_VALUE
    assert records.read_group(bytes.fromhex(EMPTY_GROUP_VALUE)) == empty


@pytest.mark.parametrize("version", GROUP_VALUES)
def test_every_version_of_a_group_is_read(version: int) -> None:
    assert records.read_group(memoryview(bytes.fromhex(GROUP_VALUES[version]))) == group(version)


@pytest.mark.parametrize("version", [3, 4, 12, 32767])
def test_keys_of_newer_kinds_of_groups_are_distinguished(version: int) -> None:
    assert records.read_key(version.to_bytes(2, "big") + b"anything") == UnknownGroupKey(version)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x80\x00\x00\x01g"])
def test_without_a_version_there_is_no_record(data: bytes) -> None:
    for read in (records.read_key, records.read_offset, records.read_group):
        assert isinstance(read(data), Damaged)


@pytest.mark.parametrize("data", [b"\x00\x05", b"\x00\x05" + bytes(100), b"\x7f\xff" + bytes(100)])
def test_a_value_of_a_version_that_is_not_known_is_damaged(data: bytes) -> None:
    assert isinstance(records.read_offset(data), Damaged)
    assert isinstance(records.read_group(data), Damaged)


def test_no_prefix_of_a_record_is_a_record() -> None:
    readers = [(records.read_group, GROUP_VALUES), (records.read_offset, OFFSET_VALUES)]
    readers += [(records.read_key, OFFSET_KEYS)]  # type: ignore[list-item]
    for read, samples in readers:
        for sample in samples.values():
            data = bytes.fromhex(sample)
            for size in range(len(data)):
                assert isinstance(read(data[:size]), Damaged), (read, size)


def test_a_declared_length_costs_nothing() -> None:
    head = bytes.fromhex("00030008636f6e73756d657200000003000572616e67650003632d300000018bcfe56801")
    assert isinstance(records.read_group(head + b"\x7f\xff\xff\xff" + bytes(64)), Damaged)


@pytest.mark.parametrize(
    "changes",
    [{"member_id": "c-0"}, {"group_instance_id": "inst"}],
    ids=["one id", "one instance id"],
)
def test_a_group_with_two_members_of_one_name_is_damaged(changes: dict[str, str]) -> None:
    value = group(3)
    first = value.members[0]._replace(group_instance_id="inst" if "group_instance_id" in changes else None)
    members = (first, value.members[1]._replace(**changes))
    assert isinstance(records.read_group(records.group_value(value._replace(members=members))), Damaged)


def test_members_without_a_protocol_are_damaged_and_a_group_without_either_is_not() -> None:
    for value in (group(3)._replace(protocol_name=None), group(3)._replace(protocol_type="")):
        assert isinstance(records.read_group(records.group_value(value)), Damaged)
        empty = value._replace(members=())
        assert records.read_group(records.group_value(empty)) == empty


@given(st.binary(max_size=200), st.integers(0, 5))
def test_no_bytes_raise(data: bytes, version: int) -> None:
    for data_ in (data, version.to_bytes(2, "big") + data):
        assert isinstance(records.read_key(data_), OffsetKey | GroupKey | UnknownGroupKey | Damaged)
        assert isinstance(records.read_offset(data_), CommittedOffset | Damaged)
        assert isinstance(records.read_group(data_), GroupValue | Damaged)


TEXT = st.text(max_size=20)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.lists(
    st.builds(MemberValue, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(), st.binary()),
    max_size=4,
    unique_by=(lambda m: m.member_id, lambda m: m.group_instance_id or object()),  # type: ignore[no-any-return]
).map(tuple)


@given(st.builds(GroupValue, TEXT.filter(bool), st.integers(0, 2**31 - 1), TEXT, st.none() | TEXT, INT64, MEMBERS))
def test_reading_undoes_writing_a_group(value: GroupValue) -> None:
    instance_ids = [member.group_instance_id for member in value.members if member.group_instance_id is not None]
    if len(set(instance_ids)) == len(instance_ids):
        assert records.read_group(records.group_value(value)) == value


@given(TEXT, TEXT, INT32)
def test_reading_undoes_writing_a_key(group_id: str, topic: str, partition: int) -> None:
    assert records.read_key(records.offset_key(group_id, topic, partition)) == OffsetKey(group_id, topic, partition)
    assert records.read_key(records.group_key(group_id)) == GroupKey(group_id)


@given(st.builds(CommittedOffset, INT64, INT32, TEXT, INT64, st.none() | st.integers(0, 2**63 - 1)))
def test_reading_undoes_writing_an_offset(committed: CommittedOffset) -> None:
    read = records.read_offset(records.offset_value(committed))
    # The version that has an expiry has no leader epoch.
    kept = committed if committed.expires_ms is None else committed._replace(leader_epoch=-1)
    assert read == kept
