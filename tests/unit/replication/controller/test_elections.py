"""The election after a loss, case by case."""

from __future__ import annotations

from sordini.protocol.types import BrokerId
from sordini.replication.controller import elections


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def test_the_first_living_replica_in_sync_leads_after_a_loss() -> None:
    assert elections.offline(ids(1, 2, 3), ids(3, 2), ids(2, 3)) == 2


def test_a_replica_out_of_sync_leads_only_when_that_is_allowed() -> None:
    assert elections.offline(ids(1, 2), ids(1), ids(2)) is None
    assert elections.offline(ids(1, 2), ids(1), ids(2), unclean=True) == 2


def test_a_replica_in_sync_is_preferred_even_when_unclean_is_allowed() -> None:
    assert elections.offline(ids(1, 2), ids(2), ids(1, 2), unclean=True) == 2


def test_broker_zero_is_a_broker() -> None:
    assert elections.offline(ids(0, 1), ids(0, 1), ids(0, 1)) == 0


def test_nobody_leads_when_nobody_lives() -> None:
    assert elections.offline(ids(1, 2), ids(1, 2), (), unclean=True) is None
