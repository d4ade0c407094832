"""The election after a loss, case by case."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch
from sordini.replication.cluster_model import PartitionState
from sordini.replication.controller.machine import election_algorithms


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def test_the_first_live_in_sync_replica_leads_after_a_failure() -> None:
    assert election_algorithms.elect_offline(ids(1, 2, 3), ids(3, 2), ids(2, 3)) == 2


def test_a_replica_out_of_sync_leads_only_when_that_is_allowed() -> None:
    assert election_algorithms.elect_offline(ids(1, 2), ids(1), ids(2)) is None
    assert election_algorithms.elect_offline(ids(1, 2), ids(1), ids(2), unclean=True) == 2


def test_an_in_sync_replica_is_preferred_even_when_unclean_is_allowed() -> None:
    assert election_algorithms.elect_offline(ids(1, 2), ids(2), ids(1, 2), unclean=True) == 2


def test_broker_zero_is_a_broker() -> None:
    assert election_algorithms.elect_offline(ids(0, 1), ids(0, 1), ids(0, 1)) == 0


def test_there_is_no_leader_without_live_replicas() -> None:
    assert election_algorithms.elect_offline(ids(1, 2), ids(1, 2), (), unclean=True) is None


def judged(
    election: election_algorithms.ElectionType, leader: int | None, isr: tuple[int, ...], live: tuple[int, ...]
) -> object:
    state = PartitionState(None if leader is None else BrokerId(leader), LeaderEpoch(3), ids(*isr), 1)
    return election_algorithms.elect_requested(election, ids(1, 2, 3), state, ids(*live))


def test_the_preferred_replica_is_elected_when_another_leads_and_it_is_live_and_in_sync() -> None:
    preferred = election_algorithms.ElectionType.PREFERRED
    assert judged(preferred, 2, (2, 1), (1, 2)) == BrokerId(1)
    assert judged(preferred, None, (2, 1), (1,)) == BrokerId(1)
    assert judged(preferred, 2, (2,), (1, 2)) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert judged(preferred, 2, (2, 1), (2, 3)) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert judged(preferred, 1, (1, 2), (1, 2)) is ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_is_only_for_partitions_without_a_live_leader() -> None:
    unclean = election_algorithms.ElectionType.UNCLEAN
    assert judged(unclean, 3, (3,), (1, 2, 3)) is ErrorCode.ELECTION_NOT_NEEDED
    assert judged(unclean, None, (3,), (1, 2)) == BrokerId(1)
    assert judged(unclean, None, (3,), (1, 3)) == BrokerId(3), "who is in sync goes first all the same"
    assert judged(unclean, 3, (3,), (2,)) == BrokerId(2)
    assert judged(unclean, None, (3,), ()) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
