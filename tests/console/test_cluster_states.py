"""What the pages say of a cluster that is not well, and of other brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, words
from tests.console.scene import until


def test_under_replicated_and_offline_partitions_come_first_and_are_counted(tmp_path: Path) -> None:
    with make_kafka(brokers=3, config={"default.replication.factor": 2, "min.insync.replicas": 1}) as kafka:
        kafka.topic("a-topic", partitions=6)
        kafka.topic("z-topic", partitions=6)
        with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
            visitor = console.logged_in()
            assert "in sync" in words(visitor.get("/").text)
            assert "Every partition has a leader" in words(visitor.get("/?show=attention").text)
            kafka.brokers[2].kill()
            until(lambda: "Brokers 2 " in words(visitor.get("/").text))
            page = visitor.get("/").text
            states = page[page.index('id="partitions"') :].split('<td><span class="badge ')
            kinds = [state.partition('"')[0] for state in states[1:]]
            assert "warn" in kinds
            assert kinds == sorted(kinds, key=["bad", "warn", "good"].index), "those that need attention first"
            listed = words(visitor.get("/?show=attention").text)
            assert "under-replicated" in listed
            assert "in sync" not in listed.partition("Records/s")[2].partition("Cluster at")[0]
            assert "under-replicated" in words(visitor.get("/topics").text)
            kafka.brokers[2].start()
            until(lambda: "Every partition has a leader" in words(visitor.get("/?show=attention").text))


@pytest.mark.slow
def test_a_page_of_a_topic_says_which_partitions_are_out_of_sync(tmp_path: Path) -> None:
    with make_kafka(brokers=2, config={"default.replication.factor": 2, "min.insync.replicas": 1}) as kafka:
        kafka.topic("orders", partitions=2)
        with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
            visitor = console.logged_in()
            kafka.brokers[1].kill()
            until(lambda: "under-replicated" in visitor.get("/topic?name=orders").text)
            assert visitor.get("/topic/records?name=orders").status == 200
