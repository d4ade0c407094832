"""Records of __transaction_state: written ones are read back, and invalid bytes raise nothing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.transactions.records import (
    EMPTY_STATE,
    FLEXIBLE_VALUE_VERSION,
    ONGOING,
    PREPARE_COMMIT,
    STATE_NAMES,
    TransactionKey,
    TransactionValue,
    UnknownTransactionKey,
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PARTITIONS = st.dictionaries(NAMES, st.lists(INT32, min_size=1, max_size=4), max_size=4).map(
    lambda topics: tuple(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)
)
VALUES = st.builds(
    TransactionValue,
    INT64,
    INT16,
    INT32,
    st.integers(ONGOING, len(STATE_NAMES) - 1),
    PARTITIONS,
    INT64,
    INT64,
    INT64,
    INT64,
    INT16,
)


@given(NAMES)
def test_a_key_that_was_written_is_read_back(transactional_id: str) -> None:
    assert read_key(transaction_key(transactional_id)) == TransactionKey(transactional_id)


@given(VALUES)
def test_a_value_that_was_written_is_read_back(value: TransactionValue) -> None:
    assert read_value(transaction_value(value, FLEXIBLE_VALUE_VERSION)) == value


@given(VALUES)
def test_version_0_has_all_but_what_an_end_that_raises_the_epoch_leaves_behind(value: TransactionValue) -> None:
    assert read_value(transaction_value(value)) == TransactionValue(*value[:7])


def test_an_empty_transaction_has_null_for_its_partitions() -> None:
    value = TransactionValue(1, 2, 60_000, EMPTY_STATE, (), 5)
    written = transaction_value(value)
    assert written == struct.pack(">hqhibiqq", 0, 1, 2, 60_000, 0, -1, 5, -1)
    assert read_value(written) == value


def test_the_flexible_version_of_newer_releases_is_read() -> None:
    partitions = b"\x02" + b"\x02t" + b"\x03" + struct.pack(">ii", 0, 3) + b"\0"
    written = struct.pack(">hqhib", 1, 1, 2, 60_000, ONGOING) + partitions + struct.pack(">qq", 5, 4) + b"\0"
    read = read_value(written)
    value = TransactionValue(1, 2, 60_000, ONGOING, (TopicPartition("t", 0), TopicPartition("t", 3)), 5, 4)
    assert read == value
    assert transaction_value(value, FLEXIBLE_VALUE_VERSION) == written


def test_the_last_fields_of_the_flexible_version_are_tagged() -> None:
    value = TransactionValue(1, 32_767, 60_000, PREPARE_COMMIT, (), 5, 4, 7, 9, 2)
    written = transaction_value(value, FLEXIBLE_VALUE_VERSION)
    head = struct.pack(">hqhib", 1, 1, 32_767, 60_000, PREPARE_COMMIT) + b"\x01" + struct.pack(">qq", 5, 4)
    assert written == head + b"\x03" + b"\0\x08" + struct.pack(">q", 7) + b"\x01\x08" + struct.pack(">q", 9) + (
        b"\x02\x02" + struct.pack(">h", 2)
    )
    assert read_value(written) == value


def test_a_tagged_field_of_a_newer_release_is_skipped() -> None:
    """NextProducerEpoch, which Apache Kafka 4.4 has for KIP-939."""
    value = TransactionValue(1, 2, 60_000, EMPTY_STATE, (), 5, client_version=2)
    written = transaction_value(value, FLEXIBLE_VALUE_VERSION)
    client_version = b"\x02\x02" + struct.pack(">h", 2)
    assert written.endswith(b"\x01" + client_version)
    newer = written.removesuffix(b"\x01" + client_version) + b"\x02" + client_version + b"\x03\x02\0\x05"
    assert read_value(newer) == value


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_raise_nothing(data: bytes) -> None:
    assert isinstance(read_key(data), TransactionKey | UnknownTransactionKey | Damaged)
    assert isinstance(read_value(data), TransactionValue | Damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff",
        b"\0\x02" + bytes(50),
        struct.pack(">hqhibiqq", 0, 1, 2, 60_000, 8, -1, 5, -1),
        struct.pack(">hqhibi", 0, 1, 2, 60_000, EMPTY_STATE, 1)
        + struct.pack(">h1sii", 1, b"t", 1, 0)
        + struct.pack(">qq", 5, 4),
    ],
    ids=[
        "nothing",
        "half a version",
        "a version below 0",
        "a version to come",
        "no such state",
        "empty with partitions",
    ],
)
def test_what_no_coordinator_writes_is_damaged(data: bytes) -> None:
    assert isinstance(read_value(data), Damaged)


def test_keys_of_other_kinds_are_unknown() -> None:
    assert read_key(b"\0\x01abc") == UnknownTransactionKey(1)
