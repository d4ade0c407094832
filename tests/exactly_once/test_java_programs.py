"""Apache Kafka's own programs under kills of brokers and clients: its copier, Kafka Streams, and a job as Flink's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.exactly_once.conftest import ROUNDS, SEED
from tests.exactly_once.copiers.orders import Orders
from tests.exactly_once.java_programs import JavaCopier, WordCount
from tests.exactly_once.judge import BROKERS, judge, made
from tests.exactly_once.programs import Copier
from tests.exactly_once.schedule import plan
from tests.exactly_once.views import Counts
from tests.outside.versions import APACHE_KAFKA, KAFKA_STREAMS, OLDER_APACHE_KAFKA

pytestmark = pytest.mark.minutes

MEMBERS = 2


@pytest.mark.parametrize("version", [OLDER_APACHE_KAFKA, APACHE_KAFKA])
def test_the_java_copier_copies_each_input_once(three: Cluster, tmp_path: Path, version: str) -> None:
    topics = made(three, f"java-{version}")
    copiers = [
        JavaCopier(tmp_path, f"{topics.sink}-{number}", three.bootstrap, topics, version) for number in range(MEMBERS)
    ]
    judge(three, topics, copiers, plan(SEED, BROKERS, MEMBERS, ROUNDS))


@pytest.mark.parametrize("version", KAFKA_STREAMS)
def test_kafka_streams_counts_each_word_once(three: Cluster, tmp_path: Path, version: str) -> None:
    topics = made(three, f"words-{version}")
    counting = [
        WordCount(tmp_path, f"{topics.group}-{number}", three.bootstrap, topics, version) for number in range(MEMBERS)
    ]
    judge(three, topics, counting, plan(SEED, BROKERS, MEMBERS, ROUNDS), Counts())


def test_a_prepared_transaction_is_resumed_after_each_kill(three: Cluster, tmp_path: Path) -> None:
    """Each program of the job but the last is killed, by the plan or by itself between a checkpoint and its commit."""
    topics = made(three, "two-phases")._replace(group="")
    name = f"{topics.sink}-job"
    orders = Orders(name, three.bootstrap, *topics, str(tmp_path / f"{name}.jsonl"))
    kills = [kill._replace(victim=kill.victim if kill.is_broker else 0) for kill in plan(SEED, BROKERS, 3, ROUNDS)]
    job = Copier(tmp_path, "flink_like", orders)
    judge(three, topics, [job], kills)
    assert "resumed" in job.log_path.read_text()
