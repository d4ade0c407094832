"""A broker of an exclusive cluster (`sordini.cluster.exclusive`): clients that know transaction.version 2, and those that do not.

The newest Java client raises its epoch with each transaction there (KIP-890 part 2), as with the newest Apache Kafka,
whose answers ours are compared with. On other brokers of ours nothing is raised.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.situations.definitions import Definitions
from tests.compat.situations.kraft import KRaftProcess
from tests.compat.situations.raised_epochs import CONVERSATIONS, Client, finalise, held
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.compat.test_exactly_once import aiokafka, check, confluent, fill, kafka_python, read_all
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import client_jars, kafka_clients_jar, need_java
from tests.outside.processes import BrokerProcess, DevProcess, SordiniProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient

SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "broker.id": 0,
}
OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
"""How often Apache Kafka searches for transactions that take too long; ours has a timer for each."""
ENDS = ("commit", "abort", "commit", "commit")
IS_LONG = pytest.mark.skipif(not os.environ.get("SORDINI_INTERCHANGE"), reason="half a minute: make interchange")
PROGRAM = Path(__file__).parent / "releases" / "java_transactions.py"


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    settings = {**SETTINGS, "sordini.cluster.exclusive": "true"}
    with SordiniProcess(tmp_path_factory.mktemp("pure"), settings) as process:
        yield process


def talked_to(process: BrokerProcess, definitions: Definitions) -> Broker:
    broker = Broker("127.0.0.1", process.port, definitions, prefix=f"run{uuid4().hex[:8]}")
    until(lambda: broker.ask("Metadata", 9, topics=[]), lambda seen: isinstance(seen, dict) and bool(seen["brokers"]))
    return broker


@pytest.fixture(scope="module")
def both(pure: SordiniProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Apache Kafka, and ours."""
    definitions = Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA))
    directory = tmp_path_factory.mktemp("raised-epochs-kraft")
    with KRaftProcess(directory, {**SETTINGS, **OFTEN}, NEWEST_APACHE_KAFKA) as process:
        theirs, ours = talked_to(process, definitions), talked_to(pure, definitions)
        finalise(theirs)
        with closing(theirs), closing(ours):
            yield theirs, ours


@IS_LONG
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.__name__)
def test_the_same_answers_as_the_newest_apache_kafka(
    both: tuple[Broker, Broker], conversation: Callable[[Client], None]
) -> None:
    theirs, ours = (held(broker, conversation) for broker in both)
    assert ours == theirs


def java_transactions(bootstrap: str, topic: str, replicas: int = 1) -> list[dict[str, Any]]:
    """What is seen after each transaction of the newest Java client."""
    need_java()
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        shape = {"num_partitions": 2, "replication_factor": replicas, "configs": {}}
        admin.create_topics({topic: shape}, wait_for_metadata=True)
    settings = {
        "bootstrap": bootstrap,
        "topic": topic,
        "id": topic,
        "group": topic,
        "jars": [str(jar) for jar in client_jars(NEWEST_APACHE_KAFKA)],
        "ends": ENDS,
    }
    command = [sys.executable, str(PROGRAM), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    kept = [b"commit-%d-0" % number for number, end in enumerate(ENDS) if end == "commit"]
    assert read_all(bootstrap, topic, "read_committed") == kept
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def expected(epochs: range) -> list[dict[str, Any]]:
    return [
        {
            "state": "CompleteCommit" if end == "commit" else "CompleteAbort",
            "epoch": epoch,
            "partitions": [[epoch], [epoch]],
            "offset": max(number + 1 for number in range(index + 1) if ENDS[number] == "commit"),
        }
        for index, (end, epoch) in enumerate(zip(ENDS, epochs, strict=True))
    ]


def test_the_newest_java_client_raises_its_epoch_with_each_transaction(pure: SordiniProcess, topic: str) -> None:
    assert java_transactions(pure.bootstrap, topic) == expected(range(1, 5))


@IS_LONG
def test_three_brokers_add_mark_and_commit_for_one_another(tmp_path: Path, topic: str) -> None:
    with DevProcess(tmp_path / "dev", "--override", "sordini.cluster.exclusive=true") as dev:
        bootstrap = f"127.0.0.1:{dev.ports[0]}"
        for number in range(3):  # Coordinators and leaders are on any of the brokers.
            assert java_transactions(bootstrap, f"{topic}-{number}", replicas=3) == expected(range(1, 5))


@IS_LONG
def test_it_does_not_where_the_cluster_is_not_pure(sordini_broker: SordiniProcess, topic: str) -> None:
    seen = java_transactions(sordini_broker.bootstrap, topic)
    assert [row["epoch"] for row in seen] == [0, 0, 0, 0]


@IS_LONG
@pytest.mark.parametrize("program", [kafka_python, confluent, aiokafka], ids=lambda program: program.__name__)
def test_clients_that_do_not_know_it_are_served_as_everywhere(
    pure: SordiniProcess, topic: str, program: Callable[[str, str, str], None]
) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=pure.bootstrap)) as admin:
        source, sink = fill(pure.bootstrap, admin, topic)
        program(pure.bootstrap, source, sink)
        check(pure.bootstrap, admin, sink)


@IS_LONG
def test_brokers_that_are_not_of_a_pure_cluster_refuse_to_join_it(zookeeper: str, tmp_path: Path) -> None:
    """Apache Kafka does because of the finalized feature, which it does not know."""
    chroot = f"{zookeeper}/pure-{uuid4().hex[:8]}"
    ours = {**SETTINGS, "zookeeper.connect": chroot, "sordini.cluster.exclusive": "true"}
    with SordiniProcess(tmp_path / "pure", ours):
        apache = ApacheKafkaProcess(tmp_path / "apache", chroot, {"broker.id": 1})
        other = SordiniProcess(tmp_path / "other", {"zookeeper.connect": chroot, "broker.id": 2})
        try:
            for process, reason in (
                (apache, "Feature incompatibilities seen: {feature=transaction.version"),
                (other, "broker 0 is registered with sordini.cluster.exclusive=true"),
            ):
                process.launch()
                assert process.wait_for_exit(60) != 0
                assert reason in process.output()
        finally:
            apache.kill()
            other.kill()
