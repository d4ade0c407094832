"""Ours as a member of a cluster of Apache Kafka: in sync, leading and following, under load (experiment A1)."""

from __future__ import annotations

from tests.cluster.cluster import Cluster
from tests.cluster.work import Work

FOLLOWED = [[1, 2, 4], [4, 1, 2]]


def test_ours_is_in_every_in_sync_set_under_acks_all_and_transactional_load(governed: Cluster) -> None:
    with Work(governed, "joined", FOLLOWED) as work:
        work.go_on(records=200, transactions=6)
        for partition in work.partitions:
            governed.wait(lambda one=partition: 4 in governed.isr(one), f"4 is in sync in {partition}")
        assert {governed.leader(one) for one in work.partitions} == {1, 4}


def test_nothing_acknowledged_is_lost_when_ours_is_killed_or_stopped_in_order_and_comes_back(governed: Cluster) -> None:
    with Work(governed, "killed", FOLLOWED) as work:
        work.go_on()
        governed.kill(4)
        governed.wait_until_gone(4)
        for topic in ("killed", "killed-money"):
            governed.wait_for_leader((topic, 1), 1)
        work.go_on()
        governed.restart(4)
        governed.wait_for_full_isr(work.partitions)
        work.go_on()
        governed.tree.elect_preferred(work.partitions)
        for topic in ("killed", "killed-money"):
            governed.wait_for_leader((topic, 1), 4)
        governed.stop_in_order(4)
        work.go_on()
