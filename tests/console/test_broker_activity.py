"""Uptime, CPU time, connections, housekeeping of logs, and segments: what brokers of Sordini report of themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

from sordini import __version__
from sordini.console.formats import UNKNOWN
from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.console.scene import create, until

BROKERS = {
    "log.segment.bytes": 1_048_576,
    "log.retention.check.interval.ms": 500,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def page(visitor: Visitor, path: str) -> str:
    answer = visitor.get(path)
    assert answer.status == 200, answer
    return words(answer.text)


def part_of_stream(visitor: Visitor) -> str:
    """The partitions of the cluster after a second reading, with rates."""
    parts = [fields for kind, fields in visitor.events("/live/cluster", 10) if kind == "part"]
    return words(next(fields["html"] for fields in reversed(parts) if fields["id"] == "partitions"))


def test_cluster_status_prints_what_the_page_has(tmp_path: Path) -> None:
    with make_kafka() as kafka, ConsoleProcess(tmp_path, kafka.bootstrap_servers):
        command = [str(Path(sys.prefix) / "bin" / "sordini"), "cluster", "status"]
        options = ["--bootstrap", kafka.bootstrap_servers]

        def run(*more: str) -> str:
            return subprocess.run([*command, *options, *more], check=True, capture_output=True, text=True).stdout

        until(lambda: json.loads(run("--json"))["brokers"][0]["cpu_share"] is not None)
        (broker,) = json.loads(run("--json"))["brokers"]
        assert broker["version"] == __version__
        assert broker["uptime_ms"] > 0
        assert broker["connections"] >= 2, "the console's and its own"
        assert 0 <= broker["cpu_share"] <= 2
        head, row = run().splitlines()[1:3]
        assert head.split()[5:8] == ["UPTIME", "CPU", "CONNECTIONS"]
        assert re.search(r"connected +[\d.]+ m?s +[\d.]+ % +[2-9]", row), row


def produce(bootstrap: str, topic: str, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1_000_000, "compression.type": "none"})
    for _ in range(megabytes * 2):
        producer.produce(topic, b"v" * 500_000, b"key", partition=0)
        assert producer.flush(30) == 0, "each is a batch of its own"


def test_the_cluster_page_has_what_each_broker_tells_and_did_in_the_last_hour(tmp_path: Path) -> None:
    with make_kafka(brokers=2, config=BROKERS) as kafka:
        create(kafka.bootstrap_servers, {"kept": 1}, 1, **{"retention.bytes": "2000000"})
        create(kafka.bootstrap_servers, {"compacted": 1}, 1, **{"cleanup.policy": "compact"})
        produce(kafka.bootstrap_servers, "kept", 5)
        produce(kafka.bootstrap_servers, "compacted", 4)
        with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
            visitor = console.logged_in()
            row = re.compile(r"Sordini \d\S+ (\d+ min )?[\d.]+ (s|ms) [\d.]+ % [1-9]")
            until(lambda: len(row.findall(page(visitor, "/"))) == 2)
            for line in (
                r"restart broker 1 started",
                r"restart broker 2 started",
                r"retention broker \d deleted \d segments \([\d.]+ MB\): kept, 1 partition",
                r"compaction broker \d compacted \d segments, [\d.]+ MB less: compacted, 1 partition",
            ):
                until(lambda line=line: re.search(line, page(visitor, "/")))
            until(lambda: re.search(r"kept:0 in sync \d \d 10 10 \d+", part_of_stream(visitor)), 60)
            topic = page(visitor, "/topic?name=kept")
            assert re.search(r"Appended per second 0?\.?\d+", topic), topic
            kafka.brokers[1].kill()
            kafka.brokers[1].start()
            until(lambda: page(visitor, "/").count("broker 2 started") == 1)


def test_segments_are_shown_by_partition_and_page_by_page(tmp_path: Path) -> None:
    with make_kafka(brokers=2, config=BROKERS) as kafka:
        create(kafka.bootstrap_servers, {"orders": 3}, 1)
        produce(kafka.bootstrap_servers, "orders", 3)
        with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
            visitor = console.logged_in()
            text = page(visitor, "/topic/segments?name=orders")
            assert "Segments 5 " in text, text
            found = re.findall(r" (\d) (\d+) (\d+) (\d+) [\d.]+ (?:MB|B) \S+ \S+ UTC \S+ \S+ UTC (closed|active)", text)
            assert found == [
                ("0", "0", "2", "2", "closed"),
                ("0", "2", "4", "2", "closed"),
                ("0", "4", "6", "2", "active"),
            ]
            assert len(re.findall(rf"[12] 0 0 0 0 B {UNKNOWN} {UNKNOWN} active", text)) == 2, (
                "empty partitions have their segment"
            )
            later = page(visitor, "/topic/segments?name=orders&partition=0&offset=5")
            assert " 0 4 6 2 " in later
            assert " 0 2 4 2 " not in later
            assert page(visitor, "/topic/segments?name=orders&partition=9").count("There are no segments") == 1
            assert visitor.get("/topic/segments?name=orders&offset=-1").status == 400
