"""Three brokers of ours are restarted one after the other, or killed: what their clients see of it."""

from __future__ import annotations

import gc
import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition

from sordini.broker.coordinators.partitioning import partition_for
from sordini.cli.__main__ import main
from tests.cluster.applications import (
    Application,
    ConfluentConsuming,
    ConfluentProducing,
    Consuming,
    JavaApplication,
    JavaConsuming,
    JavaProducing,
    KafkaPythonConsuming,
    KafkaPythonProducing,
    Producing,
)
from tests.cluster.cluster import OURS, STOPPED, Cluster, Partition
from tests.cluster.committer import Committer
from tests.cluster.conftest import EVERYTHING

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

BROKERS = (1, 2, 3)
SAFE = {"min.insync.replicas": "2"}
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SECONDS_MAX = 90.0
RECORDS_MIN = 100
CLIENTS = ["kafka-python", "confluent-kafka", *(["java"] if EVERYTHING else [])]
"""Two JVMs more would be too much for a quick run, which restarts one coordinator alone."""


class Applications(NamedTuple):
    """A producer and a consumer of one client."""

    name: str
    producing: Producing | JavaProducing
    consuming: Consuming | JavaConsuming

    @property
    def has_failed(self) -> bool:
        """Whether one got an error or has ended with it; the end of the test says which."""
        both = (self.producing, self.consuming)
        return any(one.errors or (isinstance(one, Application) and one.has_failed) for one in both)

    @property
    def has_begun(self) -> bool:
        return self.has_failed or len(self.consuming.seen) > 20

    @property
    def is_done(self) -> bool:
        """Whether everything is read that is acknowledged."""
        return self.has_failed or self.consuming.seen.keys() >= set(self.producing.acknowledged)

    def __str__(self) -> str:
        consuming = self.consuming
        counts = f"{len(self.producing.acknowledged)} acknowledged, {len(consuming.seen)} read"
        reported = [f"{self.name} reads what it wrote: {counts}, {consuming.assignments} assignments"]
        reported += [one.tail() for one in (self.producing, consuming) if isinstance(one, JavaApplication)]
        return "\n".join(reported)


def made(client: str, bootstrap: str, topic: str, directory: Path) -> Applications:
    match client:
        case "kafka-python":
            return Applications(client, KafkaPythonProducing(bootstrap, topic), KafkaPythonConsuming(bootstrap, topic))
        case "confluent-kafka":
            return Applications(client, ConfluentProducing(bootstrap, topic), ConfluentConsuming(bootstrap, topic))
        case _:
            producing = JavaProducing(directory / "producer", bootstrap, topic)
            return Applications(client, producing, JavaConsuming(directory / "consumer", bootstrap, topic))


@pytest.fixture(autouse=True)
def _what_clients_leave_open(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """As in tests/compat: kafka-python forgets sockets whose connection was refused."""
    with caplog.at_level(logging.CRITICAL, "kafka"):
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def three(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of ours, of which each leads a partition of __consumer_offsets."""
    cluster = Cluster(tmp_path_factory.mktemp("rolling"), zookeeper, "3.9")
    try:
        cluster.start(dict.fromkeys(BROKERS, OURS), {"offsets.topic.num.partitions": len(ASSIGNMENT)})
        ways = {"cleanup.policy": "compact", "compression.type": "producer", **SAFE}
        cluster.create("__consumer_offsets", ASSIGNMENT, ways)
        yield cluster
    finally:
        cluster.close()


def coordinator_of(kind: type[Consuming], topic: str) -> int:
    """Which broker looks after the group of such a consumer."""
    return ASSIGNMENT[partition_for(kind.group_of(topic), len(ASSIGNMENT))][0]


def roll(cluster: Cluster, brokers: Iterable[int]) -> None:
    """Stop, start and let catch up each broker; then let it lead again what it led."""
    everything = partitions_of(cluster)
    for broker in brokers:
        process = cluster.brokers[broker]
        process.terminate()
        assert process.wait_for_exit(SECONDS_MAX) in STOPPED
        assert "shut down without" not in process.output()
        cluster.restart(broker)
        cluster.wait_for_full_isr(everything)
        cluster.wait(lambda: elect(cluster, everything) == {}, "each leads what it led before")
        for topic, number in everything:
            cluster.wait_for_leader((topic, number), ASSIGNMENT[number][0])


def partitions_of(cluster: Cluster) -> list[Partition]:
    topics = cluster.tree.children("/brokers/topics")
    return [(topic, number) for topic in topics for number in sorted(cluster.tree.assignment(topic))]


def elect(cluster: Cluster, partitions: list[Partition]) -> dict[str, str]:
    """Ask for the first replica of each to lead it; what cannot be."""
    wanted = [TopicPartition(*one) for one in partitions]
    cluster.admin.list_topics(timeout=SECONDS_MAX)  # The client updates its controller only with new metadata.
    try:
        reported = cluster.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(SECONDS_MAX)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.NOT_CONTROLLER:
            raise
        return {"everything": str(problem)}
    errors = {str(one): error for one, error in reported.items() if error is not None}
    return {one: str(error) for one, error in errors.items() if error.code() != KafkaError.ELECTION_NOT_NEEDED}


def test_a_rolling_restart_is_noticed_by_no_application(three: Cluster, tmp_path: Path) -> None:
    applications = []
    with ExitStack() as consumers:
        with ExitStack() as producers:
            for name in CLIENTS:
                # A consumer gets an error when the first broker that it connects to does not know the topic yet.
                three.wait_until_known(three.create(f"rolled-{name}", ASSIGNMENT, SAFE))
                one = made(name, three.bootstrap, f"rolled-{name}", tmp_path)
                applications.append(one)
                consumers.enter_context(one.consuming)
                producers.enter_context(one.producing)
            for one in applications:
                three.wait(lambda one=one: one.has_begun, one)
            before = [one.consuming.assignments for one in applications]
            roll(three, BROKERS if EVERYTHING else [coordinator_of(KafkaPythonConsuming, "rolled-kafka-python")])
            for one in applications:  # A restart may take less time than so many records.
                three.wait(lambda one=one: one.has_failed or len(one.producing.acknowledged) > RECORDS_MIN, one)
        for one in applications:
            three.wait(lambda one=one: one.is_done, one)
    for one, assignments in zip(applications, before, strict=True):
        assert one.producing.errors == []
        assert one.consuming.errors == []
        acknowledged = one.producing.acknowledged
        assert len(set(acknowledged)) == len(acknowledged) > RECORDS_MIN
        assert [at for at, times in one.consuming.seen.items() if times > 1] == [], f"{one.name} reads nothing twice"
        assert one.consuming.assignments == assignments, f"{one.name}'s group is not rebalanced"


def sordini(cluster: Cluster, *words: str) -> str:
    """What one of our commands prints on standard output; it has to succeed."""
    done = CliRunner().invoke(main, words, env={"SORDINI_BOOTSTRAP": cluster.bootstrap}, prog_name="sordini")
    assert done.exit_code == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_a_stop_says_what_it_costs_and_a_broker_that_is_gone_is_drained(three: Cluster, tmp_path: Path) -> None:
    three.create("lent", [[3, 1], [1, 3]], SAFE)
    overrides = three.ours(3).overrides.items()
    reported = sordini(three, "stop", *(word for key, value in overrides for word in ("--override", f"{key}={value}")))
    first, costs, last = reported.splitlines()
    assert re.match(
        r"sordini: broker 3 holds \d+ replicas and leads \d+ of them; other brokers lead \d+ of these", first
    )
    assert costs.endswith("without it: acks=all is refused: lent-0, lent-1")
    assert "has stopped" in last
    three.wait_until_gone(3)
    plan = tmp_path / "plan.json"
    plan.write_text(sordini(three, "reassign", "generate", "lent", "--from-broker", "3"))
    done = sordini(three, "reassign", "execute", str(plan), "--throttle", "10000000")
    assert done.endswith("; throttles removed\n")
    assert {number: set(held) for number, held in three.tree.assignment("lent").items()} == {0: {1, 2}, 1: {1, 2}}
    three.restart(3)
    three.wait_for_full_isr(partitions_of(three))


@pytest.mark.skipif(not EVERYTHING, reason="sessions with ZooKeeper that have to expire take their time")
def test_nothing_that_was_committed_is_lost_when_coordinators_are_killed(three: Cluster) -> None:
    three.create("committed", ASSIGNMENT, SAFE)
    ports = [process.port for process in three.brokers.values()]
    committers = [Committer(ports, f"committing-{number}", "committed") for number in range(6)]
    with ExitStack() as stack:
        for committer in committers:
            stack.enter_context(committer)
        for broker in BROKERS:
            all_go_on(three, committers)
            three.kill(broker)
            all_go_on(three, committers)
            three.restart(broker)
            three.wait_for_full_isr(partitions_of(three))
            three.wait(lambda: elect(three, partitions_of(three)) == {}, "each leads what it led before")
        all_go_on(three, committers)
    assert [violation for committer in committers for violation in committer.violations] == []


def all_go_on(cluster: Cluster, committers: list[Committer]) -> None:
    before = [committer.acknowledged for committer in committers]

    def have_gone_on() -> bool:
        assert not any(committer.has_failed for committer in committers)
        return all(one.acknowledged >= then + 20 for one, then in zip(committers, before, strict=True))

    cluster.wait(have_gone_on, "every group commits on")
