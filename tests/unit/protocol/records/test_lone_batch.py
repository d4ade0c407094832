"""A batch of one record, built in one go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Record, build_batch
from sordini.protocol.records.lone_batch import lone_batch

_SIZES = st.one_of(st.integers(0, 200), st.sampled_from([511, 512, 8_191, 8_192, 70_000]))


@given(key=_SIZES, value=st.one_of(st.none(), _SIZES), timestamp=st.integers(0, 2**62), producer=st.integers(-1, 2**62))
def test_a_lone_batch_is_the_one_that_the_general_builder_makes(
    key: int, value: int | None, timestamp: int, producer: int
) -> None:
    content = None if value is None else b"v" * value
    general = build_batch(
        [Record(0, timestamp, b"k" * key, content)],
        producer_id=producer,
        producer_epoch=3,
        base_sequence=7,
        transactional=True,
        control=True,
    )
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    lone = lone_batch(
        b"k" * key,
        content,
        timestamp,
        attributes=attributes,
        producer_id=producer,
        producer_epoch=3,
        base_sequence=7,
    )
    assert lone == general


def test_a_lone_batch_without_a_producer_is_the_one_that_the_general_builder_makes() -> None:
    assert lone_batch(b"key", b"value", 9) == build_batch([Record(0, 9, b"key", b"value")])
