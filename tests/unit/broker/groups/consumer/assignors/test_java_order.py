"""The order of Java's hash tables; the values are what Java prints."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.assignors.java_order import (
    member_id_order,
    partition_order,
    string_hash,
    subscribed_topic_order,
    target_topic_order,
    topic_id_hash,
)
from sordini.protocol.types import TopicId
from tests.support.assignor_groups import result_of


def test_a_string_s_hash_is_over_its_utf_16_code_units() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("polygenelubricants") == 2**31  # Java's smallest integer.
    assert string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_a_topic_id_s_hash_is_the_exclusive_or_of_its_words() -> None:
    assert topic_id_hash(TopicId(bytes.fromhex("00000001000000200000030000004000"))) == 0x4321
    assert topic_id_hash(TopicId(b"\xff" * 4 + bytes(12))) == 0xFFFFFFFF


def test_keys_of_one_bucket_are_sorted() -> None:
    assert result_of(member_id_order(["Ca", "BB", "Aa", "a"])) == ["Aa", "BB", "a", "Ca"]  # 2112, 2112, 97, 2174.


def test_partitions_are_ascending_until_one_is_beyond_the_buckets() -> None:
    assert partition_order(frozenset({3, 1, 15})) == [1, 3, 15]
    assert partition_order(frozenset({1, 16, 31})) == [16, 1, 31]
    assert partition_order(frozenset({0x30000, 2})) == [2, 0x30000]  # Its upper half is folded into the lower: 3.
    assert partition_order(frozenset(range(10, 22))) == list(range(10, 22))  # Twelve are copied to 32 buckets.
    assert partition_order(frozenset()) == []


def test_a_copied_table_has_more_buckets_than_one_that_has_grown() -> None:
    ids = [TopicId(bytes(15) + bytes([number])) for number in range(10, 22)]
    assert [each[15] for each in result_of(target_topic_order(ids))] == [*range(16, 22), *range(10, 16)]
    assert [each[15] for each in result_of(subscribed_topic_order(ids))] == list(range(10, 22))
