"""The leader's high watermark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.leader import Leader


def a_leader(isr: list[int], high_watermark: int = 0, end: int = 0) -> Leader:
    return Leader(
        BrokerId(1),
        LeaderEpoch(0),
        [BrokerId(number) for number in isr],
        high_watermark=Offset(high_watermark),
        log_end_offset=Offset(end),
    )


def test_alone_in_the_in_sync_set_the_watermark_is_the_end_of_the_log() -> None:
    leader = a_leader([1], end=5)
    assert leader.high_watermark == 5
    assert leader.appended(Offset(8))
    assert leader.high_watermark == 8


def test_a_replica_that_has_not_fetched_holds_the_watermark_down() -> None:
    leader = a_leader([1, 2], high_watermark=3, end=5)
    assert not leader.appended(Offset(9))
    assert leader.high_watermark == 3


def test_a_checkpointed_watermark_past_the_log_is_cut_to_the_log() -> None:
    assert a_leader([1, 2], high_watermark=10, end=4).high_watermark == 4


@given(st.lists(st.integers(0, 50)))
def test_the_watermark_never_moves_back_and_never_passes_the_log(steps: list[int]) -> None:
    leader = a_leader([1])
    end = 0
    for step in steps:
        before = leader.high_watermark
        end += step
        moved = leader.appended(Offset(end))
        assert moved == (leader.high_watermark > before)
        assert before <= leader.high_watermark <= end
