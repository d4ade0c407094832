"""Which preferred read replica a leader names to a consumer (KIP-392)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.leader import Leader, Term
from sordini.replication.replica_selector import preferred_read_replica

ME, NEAR, NEARER, FAR = (BrokerId(number) for number in (1, 2, 3, 4))
ALL = (ME, NEAR, NEARER, FAR)


def a_leader(isr: tuple[BrokerId, ...] = ALL, **ends: int) -> Leader:
    """A leader whose log ends at 10; the others have fetched with log start 0 and log end 10, or as given."""
    term = Term(LeaderEpoch(0), isr, ALL)
    leader = Leader(ME, term, high_watermark=Offset(0), log_end_offset=Offset(10), lag_ms_max=0)
    for number in ALL[1:]:
        end = ends.get(f"end_{number}", 10)
        leader.fetched(number, Offset(end), Offset(10), number, log_start_offset=Offset(ends.get(f"start_{number}", 0)))
    return leader


def chosen(leader: Leader, *near: BrokerId, offset: int = 5) -> BrokerId | None:
    return preferred_read_replica(leader, Offset(offset), set(near))


def test_the_leader_is_chosen_when_it_or_no_replica_is_in_the_readers_rack() -> None:
    assert chosen(a_leader(), ME, NEAR) is None
    assert chosen(a_leader()) is None
    assert chosen(a_leader(), BrokerId(9)) is None, "a broker that holds no replica"


def test_of_several_replicas_the_one_with_the_largest_log_end_offset_is_chosen() -> None:
    assert chosen(a_leader(end_2=9, end_3=8), NEAR, NEARER) == NEAR
    assert chosen(a_leader(end_2=8, end_3=9), NEAR, NEARER) == NEARER
    leader = a_leader(end_2=9)
    leader.appended(Offset(20))
    leader.fetched(NEAR, Offset(15), Offset(20), 99, log_start_offset=Offset(0))
    assert chosen(leader, NEAR, NEARER) == NEAR, "although only the other has been caught up before"


def test_of_those_that_have_come_as_far_the_one_caught_up_last_is_chosen() -> None:
    leader = a_leader()
    assert chosen(leader, NEAR, NEARER) == NEARER
    leader.fetched(NEAR, Offset(10), Offset(10), 99, log_start_offset=Offset(0))
    assert chosen(leader, NEAR, NEARER) == NEAR


def test_a_replica_that_is_not_in_sync_is_never_chosen() -> None:
    assert chosen(a_leader(isr=(ME, FAR)), NEAR) is None


def test_a_replica_without_the_offset_is_not_chosen() -> None:
    leader = a_leader(end_2=5, start_3=6)
    assert chosen(leader, NEAR, offset=5) == NEAR, "it will have it next"
    assert chosen(leader, NEAR, offset=6) is None
    assert chosen(leader, NEARER, offset=5) is None, "it has deleted it"
    assert chosen(leader, NEARER, offset=6) == NEARER


def test_a_replica_that_has_not_fetched_in_this_leader_epoch_is_not_chosen() -> None:
    leader = Leader(ME, Term(LeaderEpoch(0), ALL, ALL), high_watermark=Offset(0), log_end_offset=Offset(0))
    assert chosen(leader, NEAR, offset=0) is None


@given(
    st.sets(st.sampled_from(ALL)),
    st.sets(st.sampled_from(ALL[1:])),
    st.dictionaries(
        st.sampled_from([f"{what}_{who}" for what in ("end", "start") for who in ALL[1:]]), st.integers(0, 10)
    ),
    st.integers(0, 12),
)
def test_the_chosen_replica_is_near_in_sync_and_has_the_offset(
    near: set[BrokerId], in_sync: set[BrokerId], ends: dict[str, int], offset: int
) -> None:
    leader = a_leader(isr=(ME, *sorted(in_sync)), **ends)
    best = chosen(leader, *near, offset=offset)
    if best is not None:
        assert best in near & in_sync
        assert ends.get(f"start_{best}", 0) <= offset <= ends.get(f"end_{best}", 10)
        assert ME not in near
