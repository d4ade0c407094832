"""Which partition of an internal topic a key belongs to."""

from __future__ import annotations

import pytest

from sordini.broker.coordinators.partitioning import partition_for

SMILE = "grüße-\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("group_id", "of_50", "of_7"),
    [
        ("", 0, 0),
        ("a", 47, 6),
        ("test-group", 12, 2),
        ("orders-group", 17, 3),
        ("polygenelubricants", 0, 0),  # Hashes to the smallest 32-bit number.
        (SMILE, 27, 1),  # Two UTF-16 code units.
        ("console-consumer-12345", 6, 6),
    ],
)
def test_a_keys_partition_is_that_of_javas_hash(group_id: str, of_50: int, of_7: int) -> None:
    assert partition_for(group_id, 50) == of_50
    assert partition_for(group_id, 7) == of_7
