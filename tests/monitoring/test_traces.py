"""A Produce that waits for a follower that hangs: its trace says for how long, and that it was the followers."""

from __future__ import annotations

from pathlib import Path

from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.polling import eventually
from tests.support.trace_collector import TraceCollector
from tests.support.wire_client import Client

LAG_MS_MAX = 2_000
"""After so long a follower that hangs is out of the in-sync set, and the leader waits no longer."""


def a_broker(directory: Path, number: int, zookeeper: str, collector: str) -> SordiniProcess:
    return SordiniProcess(
        directory / f"broker-{number}",
        {
            "broker.id": number,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": 12_000,
            "replica.lag.time.max.ms": LAG_MS_MAX,
            "auto.leader.rebalance.enable": "false",
            "sordini.tracing.endpoint": collector,
        },
    )


def test_the_wait_for_a_follower_that_hangs_is_most_of_its_trace(tmp_path: Path) -> None:
    with (
        TraceCollector() as collector,
        ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper,
        a_broker(tmp_path, 1, zookeeper.connect, collector.url) as leader,
        a_broker(tmp_path, 2, zookeeper.connect, collector.url) as follower,
        Client("127.0.0.1", leader.port) as client,
    ):
        eventually(lambda: len(client.metadata().brokers) == 2 or None, "both brokers are registered")
        assert client.create("orders", partitions=2, replicas=2) == [0]

        def led_here() -> int | None:
            rows = client.metadata("orders").topics[0].partitions
            here = [row.partition_index for row in rows if row.leader_id == 1 and len(row.isr_nodes) == 2]
            return here[0] if here else None

        index = eventually(led_here, "the first broker leads a partition with both replicas in sync")
        with follower.hung():
            (row,) = client.produce("orders", [a_batch()], index)
        assert row.error_code == 0
        root, handle, wait = collector.trace("PRODUCE v9", sordini_partitions=[f"orders-{index}"])
        assert (handle.name, wait.name) == ("handle", "wait for followers")
        assert wait.ended_ns - wait.began_ns > (root.ended_ns - root.began_ns) / 2
        assert root.attributes["sordini.produce.acks"] == -1
        assert root.resource["service.instance.id"] == "1"
