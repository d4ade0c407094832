"""What the compat tests share: the records they send, and topics of a wanted shape."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas, when it is imported, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
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


@pytest.fixture
def make_topic(admin: KafkaAdminClient, topic: str) -> Callable[..., str]:
    """`make_topic(partitions=3, configs={...})` creates this test's topic and returns its name."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
        return topic

    return make
