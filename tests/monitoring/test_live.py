"""A real Prometheus scrapes live brokers: every query of the dashboard has values, and each alert is provoked once.

How long an alert waits until it fires is in alerts_test.yml; here its expression holds, and did not before.
"""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat import round_trips
from tests.monitoring.test_rules import dashboard_queries, rules
from tests.outside.java import ZooKeeperProcess
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.outside.prometheus import PrometheusProcess
from tests.process.small_disk import OnASmallDisk, need_small_disks
from tests.support.builders import a_batch
from tests.support.certificates import PASSWORD, Authority
from tests.support.wire_client import Client

SECONDS_MAX = 60.0
ONE, TWO = 1, 2
TOPICS = {"pairs": [[ONE, TWO]], "lonely": [[TWO]], "loose": [[ONE, TWO]], "read": [[ONE], [TWO]]}
"""Replicas of each partition; `pairs` requires both in sync. Of `read` any broker leads a partition."""
VARIABLES = {"$job": ".+", "$instance": ".+", "$__rate_interval": "1m"}


class Scene:
    """Two brokers on a ZooKeeper of their own, and a Prometheus."""

    def __init__(self, directory: Path) -> None:
        self.zookeeper = ZooKeeperProcess(directory / "zookeeper")
        authority = Authority()
        authority.issue("broker", days=10).pkcs12_file(directory / "broker.p12")
        self.ports = {number: free_port() for number in (ONE, TWO)}
        self.brokers = {number: self._broker(directory, number) for number in (ONE, TWO)}
        self.prometheus = PrometheusProcess(directory / "prometheus", list(self.ports.values()))

    def _broker(self, directory: Path, number: int) -> SordiniProcess:
        made = SordiniProcess(
            directory / f"broker-{number}",
            {
                "broker.id": number,
                "zookeeper.connect": self.zookeeper.connect,
                # A follower that hangs leaves the in-sync set by its leader's request, well before its session expires
                # and the controller removes it: only the former is a shrink.
                "zookeeper.session.timeout.ms": 12_000,
                "replica.lag.time.max.ms": 3_000,
                "auto.leader.rebalance.enable": "false",
                "unclean.leader.election.enable": "false",
                "group.initial.rebalance.delay.ms": 0,
                "offsets.topic.num.partitions": 1,
                "offsets.topic.replication.factor": 1,
                "sordini.metrics.port": self.ports[number],
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": directory / "broker.p12",
                "ssl.keystore.password": PASSWORD,
            },
        )
        made.overrides["listeners"] = f"PLAINTEXT://{made.bootstrap},SSL://127.0.0.1:{free_port()}"
        return made

    def create_topics(self) -> None:
        rows = [
            CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in enumerate(assignment)
                ],
                configs=[_config("min.insync.replicas", "2")] if name == "pairs" else [],
            )
            for name, assignment in TOPICS.items()
        ]
        with Client("127.0.0.1", self.brokers[ONE].port) as client:
            request = CreateTopicsRequest(topics=rows, timeout_ms=20_000)
            answer = client.ask(ApiKey.CREATE_TOPICS, 7, request)
            assert [row.error_code for row in answer.topics] == [0] * len(rows)
            self.brokers[ONE].wait_until(
                lambda: all(self.leader(client, name) > 0 for name in TOPICS), SECONDS_MAX, "have leaders of the topics"
            )

    def leader(self, client: Client, topic: str) -> int:
        rows = client.metadata(topic).topics[0].partitions
        return rows[0].leader_id if rows else -1

    def get(self, number: int, path: str) -> tuple[int, str]:
        """The status and the text of a broker's endpoint."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[number]}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def value(self, name: str, number: int) -> float:
        """The newest value of a broker's metric; not a number if the last scrape of the broker has failed."""
        rows = self.prometheus.query(f'{name}{{instance="127.0.0.1:{self.ports[number]}"}}')
        return float(rows[0]["value"][1]) if rows else math.nan

    def wait(self, condition: Callable[[], bool], about: str) -> None:
        self.prometheus.wait_until(condition, SECONDS_MAX, about)

    def holds(self, alert: str) -> bool:
        return bool(self.prometheus.query(rules()[alert]["expr"]))

    def wait_for(self, *alerts: str) -> None:
        for alert in alerts:
            self.wait(lambda alert=alert: self.holds(alert), f"see {alert}")  # type: ignore[misc]

    def wait_for_end_of(self, *alerts: str) -> None:
        for alert in alerts:
            self.wait(lambda alert=alert: not self.holds(alert), f"see the end of {alert}")  # type: ignore[misc]


def _config(name: str, value: str) -> Any:
    from sordini.protocol.messages.create_topics import CreatableTopicConfig

    return CreatableTopicConfig(name=name, value=value)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("monitoring"))
    with ExitStack() as stack:
        for process in (made.zookeeper, *made.brokers.values()):
            stack.enter_context(process)
        made.create_topics()
        round_trips.by_kafka_python("loose", {"bootstrap_servers": made.brokers[ONE].bootstrap})
        stack.enter_context(made.prometheus)
        # What is not scraped yet looks as if all were well, and a rate needs a sample from before.
        produced = f'sordini_request_duration_seconds_count{{api="PRODUCE",instance="127.0.0.1:{made.ports[ONE]}"}} > 0'
        made.wait(lambda: len(made.prometheus.query("up == 1")) == len(made.brokers), "scrape the brokers")
        made.wait(lambda: bool(made.prometheus.query(produced)), "see requests of the first broker")
        yield made


def filled(query: str) -> str:
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    return query


@pytest.mark.parametrize(("title", "query"), list(dashboard_queries()))
def test_every_query_of_the_dashboard_has_values(scene: Scene, title: str, query: str) -> None:
    scene.wait(lambda: bool(scene.prometheus.query(filled(query))), f"a value for {title}")


def test_what_is_quiet_while_all_is_well_and_that_a_certificate_expires(scene: Scene) -> None:
    scene.wait_for("CertificateExpires")
    # Of the machine that runs the tests nothing is known: its disk may be full, and its loops late.
    left = rules().keys() - {"CertificateExpires", "LogDirectoryFilling", "EventLoopStalls", "SlowProduceRequests"}
    scene.wait_for_end_of(*left)


def test_a_follower_that_hangs_makes_writes_slow_and_partitions_under_replicated(scene: Scene) -> None:
    # One in a hundred of the last minutes: other tests may have sent hundreds, which were quick.
    slow = rules()["SlowProduceRequests"]["expr"].replace("[5m]", "[30s]")
    scene.wait_for_end_of("UnderReplicatedPartitions")
    with scene.brokers[TWO].hung(), Client("127.0.0.1", scene.brokers[ONE].port) as client:
        for _ in range(3):  # The first waits until the in-sync set shrinks, or a new controller is elected.
            client.produce("loose", [a_batch()])
        scene.wait(lambda: bool(scene.prometheus.query(slow)), "see slow requests")
        scene.wait_for("BrokerDown", "UnderReplicatedPartitions", "UnderMinIsrPartitions", "OfflinePartitions")
        scene.wait(lambda: scene.value("kafka_server_replicamanager_isrshrinks_total", ONE) > 0, "see a shrink")
        scene.wait(lambda: "ISR shrunk" in scene.brokers[ONE].output(), "find its log line")
        status, text = scene.get(ONE, "/readyz")
        assert (status, "led partition under min.insync.replicas: pairs-0" in text) == (503, True), text
        assert scene.get(ONE, "/healthz") == (200, "ok\n")
    scene.wait_for_end_of("BrokerDown", "OfflinePartitions", "UnderMinIsrPartitions", "UnderReplicatedPartitions")
    expanded = "sum(kafka_server_replicamanager_isrexpands_total) > 0"
    scene.wait(lambda: bool(scene.prometheus.query(expanded)), "see an expansion")
    scene.wait(lambda: any("ISR expanded" in one.output() for one in scene.brokers.values()), "find its log line")


def test_a_loop_that_stands_still_is_a_stall(scene: Scene) -> None:
    """The largest lag is there for half a minute: the first scrape behind it may be one that Prometheus has given up."""
    held = f"max_over_time(({rules()['EventLoopStalls']['expr']})[2m:1s])"
    with scene.brokers[ONE].hung():
        scene.wait_for("BrokerDown")
    scene.wait_for_end_of("BrokerDown", "StoreSessionLost")
    scene.wait(lambda: bool(scene.prometheus.query(held)), "the alert's expression holds")


def test_a_controller_that_hangs_leaves_the_cluster_without_one_until_the_other_is_elected(scene: Scene) -> None:
    active = "sordini_controller_active == 1"
    scene.wait(lambda: len(scene.prometheus.query(active)) == 1, "there is one controller")
    (row,) = scene.prometheus.query(active)
    number = next(one for one, port in scene.ports.items() if row["metric"]["instance"].endswith(f":{port}"))
    with scene.brokers[number].hung():
        scene.wait_for("NoActiveController")
        scene.wait_for_end_of("NoActiveController")
    scene.wait_for_end_of("BrokerDown")


def test_without_zookeeper_both_brokers_have_no_session(scene: Scene) -> None:
    scene.wait_for_end_of("StoreSessionLost")
    with scene.zookeeper.hung():
        scene.wait(
            lambda: len(scene.prometheus.query(rules()["StoreSessionLost"]["expr"])) == 2, "both are without a session"
        )
        for number in scene.brokers:
            status, text = scene.get(number, "/readyz")
            assert (status, "no session with the coordination store" in text) == (503, True), text
            assert scene.get(number, "/healthz") == (200, "ok\n")
            assert scene.get(number, "/health") == (200, "ok\n"), "it serves on"
    scene.wait_for_end_of("StoreSessionLost")
    for number in scene.brokers:
        scene.wait(lambda number=number: scene.get(number, "/readyz") == (200, "ok\n"), "be ready again")  # type: ignore[misc]


SHORTER = {"> 300": "> 5", "[10m]": "[10s]"}
"""A group that may be behind for seconds instead of minutes."""


def test_a_group_that_stops_reading_falls_behind_while_records_are_added_and_not_when_it_reads_on(scene: Scene) -> None:
    expression = rules()["ConsumerGroupFallsBehind"]["expr"]
    for long, short in SHORTER.items():
        assert long in expression
        expression = expression.replace(long, short)
    with ExitStack() as stack:
        clients = {number: stack.enter_context(Client("127.0.0.1", one.port)) for number, one in scene.brokers.items()}
        offsets = dict.fromkeys(scene.brokers, 0)

        def produce() -> None:
            for number, client in clients.items():
                (row,) = client.produce("read", [a_batch()], number - ONE)
                offsets[number] = row.base_offset + 1

        def is_committed(at: dict[int, int]) -> bool:
            """By the coordinator, which is either broker."""
            rows = [
                OffsetCommitRequestPartition(partition_index=number - ONE, committed_offset=offset)
                for number, offset in at.items()
            ]
            topic = OffsetCommitRequestTopic(name="read", partitions=rows)
            commit = OffsetCommitRequest(group_id="readers", topics=[topic])
            for client in clients.values():
                client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["readers"]))
                answer = client.ask(ApiKey.OFFSET_COMMIT, 8, commit)
                if all(row.error_code == 0 for row in answer.topics[0].partitions):
                    return True
            return False

        def falls_behind() -> bool:
            produce()
            return bool(scene.prometheus.query(expression))

        def reads_on() -> bool:
            produce()
            return is_committed(offsets) and not scene.prometheus.query(expression)

        scene.wait(lambda: is_committed(offsets), "commit the begin of the partitions")
        scene.wait(falls_behind, "see that it falls behind")
        (row,) = scene.prometheus.query(expression)
        assert (row["metric"], float(row["value"][1]) > 5) == ({"job": "sordini", "group": "readers"}, True)
        scene.wait(reads_on, "see that it reads on")


def test_a_log_directory_that_fills_up_is_seen_before_it_is_full_and_then(tmp_path: Path) -> None:
    need_small_disks(tmp_path)
    port = free_port()
    broker = OnASmallDisk(tmp_path / "broker", {"sordini.metrics.port": port})
    prometheus = PrometheusProcess(tmp_path / "prometheus", [port])
    with broker, prometheus:
        small = f'{{directory="{broker.small}"}}'

        def sees(alert: str) -> bool:
            found = prometheus.query(rules()[alert]["expr"])
            return any(row["metric"]["directory"] == str(broker.small) for row in found)

        free = f"sordini_log_directory_free_bytes{small}"
        prometheus.wait_until(lambda: bool(prometheus.query(free)), SECONDS_MAX, "scrape")
        assert not sees("LogDirectoryFilling")
        (broker.view / "filler").write_bytes(bytes(960_000))
        prometheus.wait_until(lambda: sees("LogDirectoryFilling"), SECONDS_MAX, "see that it fills up")
        assert not sees("LogDirectoryFailed")
        with Client("127.0.0.1", broker.port) as client:
            client.create("orders", partitions=2)
            for index in (0, 1):
                client.produce("orders", [a_batch(value=bytes(200_000))], index)
        prometheus.wait_until(lambda: sees("LogDirectoryFailed"), SECONDS_MAX, "see that it is full")
