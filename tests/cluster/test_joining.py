"""Ours as a member of a cluster of Apache Kafka: in sync, leading and following, under load (experiment A1).

And what `cluster status` says of such a cluster, in which ours alone can be asked for its contact with ZooKeeper.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from tests.cluster.cluster import Cluster
from tests.cluster.load_and_checks import Work
from tests.outside.java import ZooKeeperProcess

FOLLOWED = [[1, 2, 4], [4, 1, 2]]
NOT_KNOWN = "the contact of brokers 1, 2, 3 with the coordination store is not known"


def check(cluster: Cluster) -> dict[str, Any]:
    """What `cluster status --check` says; it fails when it finds problems, and only then."""
    done = CliRunner().invoke(main, ["cluster", "status", "--check", "--json", "--bootstrap", cluster.bootstrap])
    reported: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == bool(reported["problems"]), reported["problems"]
    return reported


def ping(cluster: Cluster, broker: int) -> int:
    """The exit code."""
    words = ["ping", "--serving", "--timeout", "20", "--bootstrap", cluster.brokers[broker].bootstrap]
    return CliRunner().invoke(main, words).exit_code


def stores(reported: dict[str, Any]) -> list[str | None]:
    return [row["store"] for row in reported["brokers"]]


def test_ours_is_in_every_in_sync_set_under_acks_all_and_transactional_load(governed: Cluster) -> None:
    with Work(governed, "joined", FOLLOWED) as work:
        work.go_on(records=200, transactions=6)
        for partition in work.partitions:
            governed.wait(lambda one=partition: 4 in governed.isr(one), f"4 is in sync in {partition}")
        assert {governed.leader(one) for one in work.partitions} == {1, 4}


def test_ours_speaks_for_the_others_in_a_check_of_a_mixed_cluster(
    governed: Cluster, zookeeper_process: ZooKeeperProcess
) -> None:
    governed.wait(lambda: not check(governed)["problems"], "all is well")
    assert stores(check(governed)) == ["registered"] * 3 + ["connected"]
    codes = [ping(governed, broker) for broker in (1, 4)]
    assert codes == [3, 0], "an Apache Kafka does not say whether it serves"
    with zookeeper_process.hung():
        reported = check(governed)
    assert (stores(reported)[3] or "").startswith("silent: ")
    assert stores(reported)[:3] == ["not known"] * 3
    assert any(problem.startswith(NOT_KNOWN) for problem in reported["problems"])


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_ours_is_killed_or_stopped_in_order_and_comes_back(governed: Cluster) -> None:
    with Work(governed, "killed", FOLLOWED) as work:
        work.go_on()
        governed.kill(4)
        governed.wait_until_gone(4)
        for topic in ("killed", "killed-money"):
            governed.wait_for_leader((topic, 1), 1)
        work.go_on()
        problems = check(governed)["problems"]
        assert any(problem.startswith(NOT_KNOWN) for problem in problems), problems
        assert any(problem.startswith("broker 4 is gone") for problem in problems), problems
        governed.restart(4)
        governed.wait_for_full_isr(work.partitions)
        work.go_on()
        governed.tree.elect_preferred(work.partitions)
        for topic in ("killed", "killed-money"):
            governed.wait_for_leader((topic, 1), 4)
        governed.stop_in_order(4)
        work.go_on()
