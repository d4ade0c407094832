"""The last hour on the page of the cluster: what the console saw change, and rebalances."""

from __future__ import annotations

import re
from pathlib import Path

from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.console.scene import Member, create, until

CHANGES = re.compile(r"is gone|is there|fell behind|in sync again|the controller|leader|created")
"""What is seen to change; a start is what the brokers themselves remember."""


def time_line(page: str) -> str:
    return words(page[page.index('id="timeline"') : page.index("<h2>Partitions</h2>")])


def test_brokers_elections_and_in_sync_replicas_are_seen_without_a_page(tmp_path: Path) -> None:
    with make_kafka(brokers=3, config={"default.replication.factor": 2, "min.insync.replicas": 1}) as kafka:
        kafka.topic("orders", partitions=6)
        with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
            visitor = console.logged_in()
            until(lambda: "Recorded since" in time_line(visitor.get("/").text))
            assert CHANGES.search(time_line(visitor.get("/").text)) is None
            kafka.brokers[2].kill()
            for line in ("broker 3 is gone", "broker 3 fell behind: orders:"):
                until(lambda line=line: line in time_line(visitor.get("/").text))
            kafka.brokers[2].start()
            for line in ("broker 3 is there", "broker 3 is in sync again: orders:"):
                until(lambda line=line: line in time_line(visitor.get("/").text))
            create(kafka.bootstrap_servers, {"made-meanwhile": 1}, 1)
            until(lambda: "made-meanwhile created" in time_line(visitor.get("/").text))
            text = time_line(visitor.get("/").text)
            assert text.index("made-meanwhile created") < text.index("broker 3 is gone"), "the newest first"


def test_a_live_page_has_the_rebalances_of_the_last_hour(tmp_path: Path) -> None:
    with make_kafka(topics={"orders": 2}) as kafka:
        member = Member(kafka.bootstrap_servers, "billing", "billing-1", ["orders"])
        try:
            assert member.has_partitions.wait(30)
            with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
                assert "rebalance billing: joined billing-1" in _live(console.logged_in())
        finally:
            member.close()


def _live(visitor: Visitor) -> str:
    (found,) = [
        fields["html"]
        for kind, fields in visitor.events("/live/cluster", 4)
        if kind == "part" and fields["id"] == "timeline"
    ]
    return words(found)
