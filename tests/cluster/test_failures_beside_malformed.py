"""Brokers that fail while there are malformed registrations: our controller detects it and elects other leaders (A11)."""

from __future__ import annotations

from tests.cluster.cluster import Cluster
from tests.cluster.kept_records import assert_kept, written
from tests.cluster.registrations import ALL_AT_ONCE, registered


def test_failures_of_brokers_are_handled_beside_all_of_them_at_once(quick_to_forget: Cluster) -> None:
    cluster = quick_to_forget
    partitions = cluster.create("watched-over", [[3, 1, 2], [2, 1, 3]])
    early = written(cluster, partitions)
    epoch = cluster.tree.controller_epoch()
    with registered(cluster, ALL_AT_ONCE):
        for victim in (3, 2):
            cluster.kill(victim)
        for partition in partitions:
            cluster.wait_for_leader(partition, 1)
            cluster.wait_for_isr(partition, {1})
        between = written(cluster, partitions)
        cluster.brokers[2].start()
        for partition in partitions:
            cluster.wait_for_isr(partition, {1, 2})
        assert (cluster.tree.controller(), cluster.tree.controller_epoch()) == (1, epoch)
    cluster.brokers[3].start()  # An Apache Kafka does not start beside what it cannot read.
    cluster.wait_for_full_isr(partitions)
    assert_kept(cluster, partitions, early, between)


def test_a_controller_that_is_killed_is_followed_by_one_beside_all_of_them_at_once(quick_to_forget: Cluster) -> None:
    cluster = quick_to_forget
    partitions = cluster.create("inherited", [[1, 2, 3], [2, 1, 3]])
    early = written(cluster, partitions)
    epoch = cluster.tree.controller_epoch()
    with registered(cluster, ALL_AT_ONCE):
        cluster.brokers[3].terminate()
        cluster.brokers[3].wait_for_exit(60)
        cluster.kill(1)
        cluster.wait(lambda: cluster.tree.controller() == 2, "2 is the controller")
        for partition in partitions:
            cluster.wait_for_leader(partition, 2)
            cluster.wait_for_isr(partition, {2})
        cluster.brokers[1].start()
        for partition in partitions:
            cluster.wait_for_isr(partition, {1, 2})
        assert (cluster.tree.controller(), cluster.tree.controller_epoch()) == (2, epoch + 1)
    cluster.brokers[3].start()
    cluster.wait_for_full_isr(partitions)
    assert_kept(cluster, partitions, early)
