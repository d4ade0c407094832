"""Either kind killed, frozen and moved away from under load: what was acknowledged stays (experiment A1, the rest)."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.load_and_checks import Work

BOTH = [[2, 4, 1], [4, 2, 1]]
"""One partition led by an Apache Kafka and one led by ours; each follows the other."""


def test_ours_takes_over_from_an_apache_leader_that_is_killed_and_gives_back(governed: Cluster) -> None:
    with Work(governed, "taken-over", BOTH) as work:
        work.go_on()
        governed.kill(2)
        governed.wait_until_gone(2)
        for partition in work.partitions:
            governed.wait_for_leader(partition, 4)
        work.go_on()
        governed.restart(2)
        governed.wait_for_full_isr(work.partitions)
        governed.tree.elect_preferred(work.partitions)
        for topic, number in work.partitions:
            governed.wait_for_leader((topic, number), BOTH[number][0])
        work.go_on()


def test_our_leader_shrinks_and_grows_the_in_sync_set_as_a_follower_stops_and_goes_on(governed: Cluster) -> None:
    with Work(governed, "shrunk", [[4, 1, 3]]) as work:
        work.go_on()
        before = governed.tree.state("shrunk", 0)
        assert before is not None
        with governed.brokers[3].hung():
            governed.wait_for_isr(("shrunk", 0), {4, 1})
            after = governed.tree.state("shrunk", 0)
            assert after is not None
            assert (after.leader, after.leader_epoch) == (4, before.leader_epoch), "the leader's doing, no election"
            work.go_on(transactions=0)
        governed.wait_for_full_isr(work.partitions)
        work.go_on()


@pytest.mark.parametrize("frozen_broker", [4, 2], ids=["ours", "apache"])
def test_a_leader_that_was_frozen_past_its_session_is_fenced_and_follows(governed: Cluster, frozen_broker: int) -> None:
    with Work(governed, f"frozen-{frozen_broker}", BOTH) as work:
        work.go_on()
        with governed.brokers[frozen_broker].hung():
            governed.wait_until_gone(frozen_broker)
            for partition in work.partitions:
                governed.wait(
                    lambda one=partition: governed.leader(one) not in {frozen_broker, -1},
                    f"another leads {partition}",
                )
            work.go_on()
        governed.wait_for_full_isr(work.partitions)
        work.go_on()


def test_the_controller_moves_from_broker_to_broker_and_the_load_does_not_notice(governed: Cluster) -> None:
    with Work(governed, "governed-anew", BOTH) as work:
        for wanted in (2, 3, 1):
            epoch = governed.tree.controller_epoch()
            governed.move_controller(wanted)
            assert governed.tree.controller_epoch() > epoch
            work.go_on()
            governed.create(f"of-{wanted}-{epoch}", [[4, wanted, 1 + wanted % 3]])
        governed.wait_for_full_isr(work.partitions)


def test_ours_is_killed_again_and_again_and_every_time_comes_back_in_sync(governed: Cluster) -> None:
    with Work(governed, "again", BOTH) as work:
        for _ in range(3):
            work.go_on()
            governed.kill(4)
            governed.restart(4)
            governed.wait_for_full_isr(work.partitions)
            governed.tree.elect_preferred(work.partitions)
            governed.wait_for_leader(("again", 1), 4)
        work.go_on()
