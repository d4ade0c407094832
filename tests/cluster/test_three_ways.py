"""Apache Kafka 2.7.2, 3.9.1 at the older one's protocol, and ours in one cluster, under each as controller (A6)."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import permutations

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.cluster.history import History
from tests.cluster.kept_records import assert_kept, folders, written
from tests.cluster.load_and_checks import Work
from tests.cluster.loads import Writer
from tests.outside.versions import APACHE_KAFKA, OLDER_APACHE_KAFKA

OLDER, NEWER, OWN = 1, 2, 4
SECOND = 5
"""Another one of ours, which can be stopped while OWN is the controller."""
STOPS = int(os.environ.get("SORDINI_STOPS", "1"))
"""Orderly stops of each kind of broker; `SORDINI_STOPS=10 make mixed ARGS="-k orderly"` is the long form."""
RULERS = {"2.7.2": OLDER, "3.9.1": NEWER, "ours": OWN}
EACH_LEADS = [[1, 2, 4], [4, 1, 2], [2, 4, 1]]
EACH = {OLDER, NEWER, OWN}


@pytest.fixture
def three_ways(lend: Callable[..., Cluster]) -> Cluster:
    """1 is the older Apache Kafka, 2 and 3 are the newer one, 4 is ours."""

    def start(made: Cluster) -> None:
        made.start({OLDER: OLDER_APACHE_KAFKA, NEWER: APACHE_KAFKA, 3: APACHE_KAFKA})
        made.start({OWN: OURS})
        made.create_internal((1, 2, 3))

    cluster: Cluster = lend("2.7", start)
    return cluster


@pytest.fixture(params=RULERS.values(), ids=RULERS)
def ruler(request: pytest.FixtureRequest, three_ways: Cluster) -> int:
    """Each in turn is the controller."""
    wanted: int = request.param
    three_ways.move_controller(wanted)
    return wanted


def test_all_are_in_every_in_sync_set_under_load_with_either_controller(three_ways: Cluster, ruler: int) -> None:
    with Work(three_ways, f"under-{ruler}", EACH_LEADS) as work:
        work.go_on(records=200, transactions=4)
        for partition in work.partitions:
            three_ways.wait_for_isr(partition, EACH)
        assert [three_ways.leader(one) for one in work.plain] == [1, 4, 2]


def test_each_kind_is_killed_under_load_and_rejoins_with_either_controller(three_ways: Cluster, ruler: int) -> None:
    with Work(three_ways, f"killed-under-{ruler}", EACH_LEADS) as work:
        for victim in sorted(EACH - {ruler}):
            work.go_on()
            three_ways.kill(victim)
            three_ways.wait_until_gone(victim)
            for partition in work.partitions:
                three_ways.wait_for_isr(partition, EACH - {victim})
            work.go_on()
            three_ways.restart(victim)
            three_ways.wait_for_full_isr(work.partitions)
        assert three_ways.tree.controller() == ruler
        three_ways.tree.elect_preferred(work.partitions)
        for partition, leader in zip(work.plain, (1, 4, 2), strict=True):
            three_ways.wait_for_leader(partition, leader)
        work.go_on()


def test_topics_are_created_reassigned_between_kinds_and_deleted_with_either_controller(
    three_ways: Cluster, ruler: int
) -> None:
    topic = f"ruled-by-{ruler}"
    (partition,) = three_ways.create(topic, [[OLDER, 3]])
    histories = [written(three_ways, [partition])]
    for replicas in ([NEWER, OWN], [OWN, OLDER], [OLDER, NEWER]):
        three_ways.tree.reassign([(*partition, replicas)])
        three_ways.wait(lambda: not three_ways.tree.exists("/admin/reassign_partitions"), "the reassignment is done")
        assert three_ways.tree.assignment(topic) == {0: replicas}
        three_ways.wait_for_isr(partition, replicas)
        histories.append(written(three_ways, [partition]))
    assert_kept(three_ways, [partition], *histories)
    three_ways.ask_controller(lambda admin: admin.delete_topics([topic]))
    nodes = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    three_ways.wait(lambda: not any(three_ways.tree.exists(node) for node in nodes), "every node is gone")
    for broker in three_ways.brokers:
        three_ways.wait(lambda one=broker: not folders(three_ways, one, topic), f"{broker} has removed the folders")


def test_each_of_them_becomes_controller_under_load(three_ways: Cluster) -> None:
    with Work(three_ways, "goes-round", EACH_LEADS) as work:
        for wanted in (OLDER, OWN, NEWER, OWN, OLDER):
            three_ways.move_controller(wanted)
            work.go_on()
            epoch = three_ways.tree.controller_epoch()
            three_ways.create(f"of-{wanted}-{epoch}", [[4, 1, 2], [3, 2, 4]])
        three_ways.wait_for_full_isr(work.partitions)


@pytest.mark.parametrize("victim", [OLDER, NEWER, SECOND], ids=["2.7.2", "3.9.1", "ours"])
def test_an_orderly_stop_under_our_controller_leaves_nothing_under_replicated(three_ways: Cluster, victim: int) -> None:
    stop_repeatedly(three_ways, victim, OWN, STOPS)


@pytest.mark.parametrize("ruler", [OLDER, NEWER], ids=["2.7.2", "3.9.1"])
def test_an_orderly_stop_of_ours_under_their_controller_leaves_nothing_under_replicated(
    three_ways: Cluster, ruler: int
) -> None:
    stop_repeatedly(three_ways, SECOND, ruler, STOPS)


def stop_repeatedly(cluster: Cluster, victim: int, ruler: int, stops: int) -> None:
    """Stop a broker in order, so often, while it holds partitions in every replica order and records are written."""
    if SECOND not in cluster.brokers:
        cluster.start({SECOND: OURS})
    cluster.move_controller(ruler)
    orders = [list(order) for order in permutations((OLDER, NEWER, SECOND))]
    partitions = cluster.create(f"stopped-{victim}-under-{ruler}", orders * 4)
    history = History()
    with Writer(cluster.bootstrap, partitions, history) as writer:
        for _ in range(stops):
            before = min(writer.acknowledged.values())
            cluster.wait(lambda then=before: min(writer.acknowledged.values()) > then + 5, "records are acknowledged")
            cluster.stop_in_order(victim)
            cluster.tree.elect_preferred(partitions)
            for number, one in enumerate(partitions):
                cluster.wait_for_leader(one, orders[number % len(orders)][0])
    assert cluster.tree.controller() == ruler
    assert_kept(cluster, partitions, history)
