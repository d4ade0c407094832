"""What the compat tests share: the records they send, and topics of a wanted shape."""

from __future__ import annotations

import gc
import logging
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas, when it is imported, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.structs import OffsetAndMetadata

from tests.compat.groups.waiting import eventually
from tests.outside.needs import need_program
from tests.outside.tools import JavaTools
from tests.support.collected import of_folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in of_folder(items, "tests/compat"):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _what_clients_leave_open(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python forgets sockets whose connection was refused; only here may a warning of that pass.

    Its log records hold on to such sockets, and pytest to the records until after the test.
    """
    with caplog.at_level(logging.CRITICAL, "kafka"):
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture(scope="session")
def tool() -> Iterator[JavaTools]:
    """Apache Kafka's tools: `tool("TopicCommand", "--list", ...)` returns what it printed."""
    with JavaTools() as tools:
        yield tools


@pytest.fixture
def make_topic(admin: KafkaAdminClient, topic: str) -> Callable[..., str]:
    """`make_topic(partitions=3, configs={...})` creates this test's topic and returns its name."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
        return topic

    return make


@pytest.fixture
def filled(bootstrap: str, make_topic: Callable[..., str]) -> str:
    """A topic of two partitions with ten records in each."""
    topic = make_topic(partitions=2)
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush(timeout=15)
    return topic


@pytest.fixture
def member(bootstrap: str, filled: str) -> Iterator[KafkaConsumer]:
    """A member of the group named as the topic, that has joined and committed 3 and 4."""
    consumer = KafkaConsumer(
        filled, bootstrap_servers=bootstrap, group_id=filled, client_id="watched", enable_auto_commit=False
    )
    with closing(consumer):
        consumer.topics()  # A member that knows no partitions when it leads its first generation forgets about them.
        eventually(lambda: bool(consumer.poll(timeout_ms=100)) or len(consumer.assignment()) == 2, "the member joins")
        consumer.commit({TopicPartition(filled, part): OffsetAndMetadata(3 + part, "", -1) for part in range(2)})
        yield consumer


@pytest.fixture
def kcat(bootstrap: str) -> Callable[..., str]:
    """`kcat("-L")` runs it against the broker and returns what it printed; a failure fails the test."""
    program = need_program("kcat", "kcat")

    def run(*arguments: str, standard_input: str = "") -> str:
        done = subprocess.run(
            [program, "-b", bootstrap, *arguments],
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
