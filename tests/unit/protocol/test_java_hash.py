"""Java's hash codes, and the partitions that Apache Kafka 1.1.1's old producer makes of them.

The values were printed by a Java program (17) with the jars of 1.1.1, which called `key.hashCode()` or
`Arrays.hashCode(key)`, `new kafka.producer.DefaultPartitioner(null).partition(key, n)` for text and numbers, and
`new kafka.producer.ByteArrayPartitioner(null).partition(key, n)` for bytes.
"""

from __future__ import annotations

import pytest

from examples.heritage.errors import ConfigError
from examples.heritage.partitions import Partitioner
from sordini.protocol.java_hash import bytes_hash, number_hash, text_hash

OF_TEXT = [
    ("", 0, 0, 0),
    ("a", 97, 6, 1),
    ("member-17", 1342170681, 5, 9),
    ("polygenelubricants", -(2**31), 0, 0),
    ("Gr\u00fc\u00dfe", 69215351, 2, 7),
    ("\u6d88\u606f", 893927, 6, 7),
    ("\U0001f600 key", 927976994, 0, 2),
    ("42", 1662, 3, 14),
    ("the quick brown fox jumps over the lazy dog", -2082818701, 5, 13),
]
OF_BYTES = [
    (b"", 1, 1, 1),
    (b"\0", 31, 3, 15),
    (b"\x01\x02\x03", 30817, 3, 1),
    (b"\xff\x80\x7f", 24989, 6, 13),
    (b"member-17", 1145657176, 6, 8),
]
OF_NUMBERS = [
    (0, 0, 0, 0),
    (7, 7, 0, 7),
    (-7, -7, 0, 7),
    (-(2**31), -(2**31), 0, 0),
    (2**31 - 1, 2**31 - 1, 1, 15),
    (2**31, -(2**31), 0, 0),
    (-(2**31) - 1, -(2**31), 0, 0),
    (-(2**63), -(2**31), 0, 0),
    (2**63 - 1, -(2**31), 0, 0),
    (2**40, 256, 4, 0),
]


@pytest.mark.parametrize(("key", "code", "of_7", "of_16"), [*OF_TEXT, *OF_BYTES, *OF_NUMBERS])
def test_a_key_s_hash_code_and_partition_are_those_of_java_and_1_1_1(
    key: str | bytes | int, code: int, of_7: int, of_16: int
) -> None:
    hash_code = {str: text_hash, bytes: bytes_hash, int: number_hash}[type(key)]
    assert hash_code(key) == code
    assert [Partitioner().partition(key, count) for count in (7, 16)] == [of_7, of_16]


@pytest.mark.parametrize("key", [True, 1.5, ("a",), 2**63])
def test_a_key_without_a_hash_code_of_java_asks_for_a_partitioner(key: object) -> None:
    with pytest.raises(ConfigError, match="give a partitioner"):
        Partitioner().partition(key, 4)


def test_a_number_beyond_64_bits_has_no_hash_code() -> None:
    with pytest.raises(ValueError, match="9223372036854775808 is no Long"):
        number_hash(2**63)
